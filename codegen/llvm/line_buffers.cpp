// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/llvm/line_buffers.h>

#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <unordered_map>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// Most bytes of buffers a thread.
constexpr int64_t kMostBufferBytes = 512 << 10;

/// Of an element of the compute type.
llvm::Align alignment(const ir::Op& op) {
  return llvm::Align(op.result().dtype() == ir::DType::F64 ? 8 : 4);
}

}  // namespace

LineBuffers::LineBuffers(RegionEmitter& emitter, const ir::Op& kernel,
                         const ir::ReductionLevels& levels, int64_t elements)
    : emitter_(emitter), levels_(levels), elements_(elements) {
  if (elements <= 1) return;
  std::unordered_map<const ir::Op*, int> loops;
  for (size_t level = 0; level <= levels.last(); ++level)
    for (const ir::Op* op : levels.in_loop(level)) ++loops[op];
  for (ir::Op& op : *kernel.body()) {
    if (loops[&op] < 2 || !ir::is_costly(op) || !(op.result().shape() == levels.space()) ||
        !ir::is_float(op.result().dtype()))
      continue;
    if ((std::ssize(values_) + 1) * buffer_bytes() > kMostBufferBytes) break;
    values_.push_back(&op);
  }
}

/// Buffers hold the compute type, f64 if the kernel has any.
int64_t LineBuffers::buffer_bytes() const {
  return (elements_ * (levels_.has_f64() ? 8 : 4) + 63) / 64 * 64;
}

void LineBuffers::use(size_t level, const Coordinates& at, Value* element) {
  const std::unordered_set<const ir::Op*>& needed = levels_.in_loop(level);
  for (size_t i = 0; i < values_.size(); ++i)
    if (needed.contains(values_[i]) && stored_.contains(values_[i]))
      emitter_.preset(values_[i]->result(), load(i, element));
  for (size_t i = 0; i < values_.size(); ++i)
    if (needed.contains(values_[i]) && !stored_.contains(values_[i]))
      store(i, element, emitter_.eval_vector(values_[i]->result(), at));
}

void LineBuffers::leave(size_t level) {
  for (const ir::Op* op : values_)
    if (levels_.in_loop(level).contains(op)) {
      emitter_.forget(op->result());
      stored_.insert(op);
    }
}

Value* LineBuffers::place(size_t number, Value* element) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* start = b.CreateConstGEP1_64(b.getInt8Ty(), emitter_.frame().scratch(),
                                      number * static_cast<uint64_t>(buffer_bytes()));
  return b.CreateGEP(emitter_.compute_type_of(values_[number]->result().dtype(), 1), start,
                     element);
}

Value* LineBuffers::load(size_t number, Value* element) {
  llvm::IRBuilderBase& b = emitter_.builder();
  const ir::Op& op = *values_[number];
  Value* address = place(number, element);
  llvm::Type* type = emitter_.compute_type_of(op.result().dtype(), emitter_.lanes());
  if (!emitter_.mask()) return b.CreateAlignedLoad(type, address, alignment(op));
  return b.CreateMaskedLoad(type, address, alignment(op), emitter_.mask(),
                            llvm::Constant::getNullValue(type));
}

void LineBuffers::store(size_t number, Value* element, Value* value) {
  llvm::IRBuilderBase& b = emitter_.builder();
  const ir::Op& op = *values_[number];
  Value* address = place(number, element);
  if (emitter_.mask())
    b.CreateMaskedStore(value, address, alignment(op), emitter_.mask());
  else
    b.CreateAlignedStore(value, address, alignment(op));
}

}  // namespace mezzo::codegen
