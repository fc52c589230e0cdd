// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/llvm/reduction_levels.h>

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

ReductionLevels::ReductionLevels(const ir::Op& kernel, const ir::Shape& space, int64_t lines,
                                 int64_t length, const std::unordered_set<const ir::Op*>& left_out)
    : kernel_(kernel), space_(space) {
  std::unordered_map<const ir::Op*, int> level_of;  // 0: needs no reduction
  for (ir::Op& op : *kernel.body()) {
    if (op.num_results() != 1 || left_out.contains(&op)) continue;
    has_f64_ |= op.result().dtype() == ir::DType::F64;
    int level = 0;
    bool reads_line = false;
    for (ir::Value operand : op.operands())
      if (!operand.is_parameter()) {
        if (auto it = level_of.find(operand.op()); it != level_of.end())
          level = std::max(level, it->second);
        reads_line |= line_values_.contains(operand.op());
      }
    if (ir::is_reduction(op.kind())) {
      level_of[&op] = level + 1;
      line_values_.insert(&op);
      deepest_ = std::max(deepest_, level + 1);
      reductions_[level + 1].push_back(&op);
    } else {
      level_of[&op] = level;
      // Not larger than a value of the lines: computed once a line. Lines of nothing hold no
      // element of what stands behind their reductions, and no line holds none.
      const int64_t elements = op.result().type().elements();
      if (reads_line && elements <= lines && elements > 0 &&
          (length != 1 || !(op.result().shape() == space)))
        line_values_.insert(&op);
    }
  }
  for (ir::Value value : kernel.body()->terminator()->operands())
    if (!left_out.contains(value.op()) && is_full(value)) last_roots_.push_back(value);
}

const std::vector<const ir::Op*>& ReductionLevels::reductions(int level) const {
  static const std::vector<const ir::Op*> none;
  auto it = reductions_.find(level);
  return it == reductions_.end() ? none : it->second;
}

std::vector<ir::Value> ReductionLevels::roots(int level) const {
  if (level > deepest_) return last_roots_;
  std::vector<ir::Value> out;
  for (const ir::Op* op : reductions(level)) out.push_back(op->operand(0));
  return out;
}

std::unordered_set<const ir::Op*> ReductionLevels::in_loop(int level) const {
  std::unordered_set<const ir::Op*> seen;
  std::vector<ir::Value> work = roots(level);
  while (!work.empty()) {
    ir::Value current = work.back();
    work.pop_back();
    if (current.is_parameter() || is_of_line(current) || !seen.insert(current.op()).second)
      continue;
    for (ir::Value operand : current.op()->operands()) work.push_back(operand);
  }
  return seen;
}

std::vector<ir::Value> ReductionLevels::line_operands(int level) const {
  const std::unordered_set<const ir::Op*> evaluated = in_loop(level);
  std::vector<ir::Value> out;
  for (const ir::Op& op : *kernel_.body())
    for (ir::Value operand : op.operands())
      if (!evaluated.contains(&op))
        break;
      else if (is_of_line(operand) && !ir::is_reduction(operand.op()->kind()))
        out.push_back(operand);
  return out;
}

LineBuffers::LineBuffers(RegionEmitter& emitter, const ir::Op& kernel,
                         const ReductionLevels& levels, int64_t elements)
    : emitter_(emitter), levels_(levels), elements_(elements) {
  if (elements == 1) return;  // scalars, and nothing to save
  std::map<const ir::Op*, int> loops;
  for (int level = 1; level <= levels.deepest() + 1; ++level)
    for (const ir::Op* op : levels.in_loop(level)) ++loops[op];
  for (ir::Op& op : *kernel.body()) {
    if (loops[&op] < 2 || !ir::is_costly(op) || !(op.result().shape() == levels.space()) ||
        !ir::is_float(op.result().dtype()))
      continue;
    if ((std::ssize(values_) + 1) * buffer_bytes() > kMostBufferBytes) break;
    values_.emplace_back(&op, std::ssize(values_));
  }
}

/// Buffers hold the compute type, f64 if the kernel has any.
int64_t LineBuffers::buffer_bytes() const {
  return (elements_ * (levels_.has_f64() ? 8 : 4) + 63) / 64 * 64;
}

void LineBuffers::use(int level, const Coordinates& at, Value* element) {
  const std::unordered_set<const ir::Op*> needed = levels_.in_loop(level);
  for (const auto& [op, number] : values_)
    if (needed.contains(op) && stored_.contains(op))
      emitter_.preset(op->result(), load(*op, number, element));
  for (const auto& [op, number] : values_)
    if (needed.contains(op) && !stored_.contains(op))
      store(*op, number, element, emitter_.eval_vector(op->result(), at));
}

void LineBuffers::leave(int level) {
  const std::unordered_set<const ir::Op*> needed = levels_.in_loop(level);
  for (const auto& [op, number] : values_)
    if (needed.contains(op)) {
      emitter_.forget(op->result());
      stored_.insert(op);
    }
}

Value* LineBuffers::place(const ir::Op& op, int64_t number, Value* element) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* start = b.CreateConstGEP1_64(b.getInt8Ty(), emitter_.frame().scratch(),
                                      static_cast<uint64_t>(number * buffer_bytes()));
  return b.CreateGEP(emitter_.compute_type_of(op.result().dtype(), 1), start, element);
}

Value* LineBuffers::load(const ir::Op& op, int64_t number, Value* element) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* address = place(op, number, element);
  llvm::Type* type = emitter_.compute_type_of(op.result().dtype(), emitter_.lanes());
  if (!emitter_.mask()) return b.CreateAlignedLoad(type, address, alignment(op));
  return b.CreateMaskedLoad(type, address, alignment(op), emitter_.mask(),
                            llvm::Constant::getNullValue(type));
}

void LineBuffers::store(const ir::Op& op, int64_t number, Value* element, Value* value) {
  llvm::IRBuilderBase& b = emitter_.builder();
  Value* address = place(op, number, element);
  if (emitter_.mask())
    b.CreateMaskedStore(value, address, alignment(op), emitter_.mask());
  else
    b.CreateAlignedStore(value, address, alignment(op));
}

}  // namespace mezzo::codegen
