// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/llvm/column_parts.h>

#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using llvm::Value;

ColumnParts::ColumnParts(const ir::Op& kernel, const ir::Plan& plan) {
  if (ir::family_of(kernel) != ir::Family::RowsColumns) return;
  const std::vector<ir::Op*> ops = ir::kernel_ops(kernel);
  columns_ = ir::column_ops(ops);
  const ir::KernelSpace space = ir::kernel_space(kernel);
  const auto dims = space.space.dims();
  int64_t rows = 1;
  for (int64_t dim : dims.first(static_cast<size_t>(space.kept()))) rows *= dim;
  for (int64_t dim : dims.subspan(static_cast<size_t>(space.kept()))) width_ *= dim;
  parts_ = (rows + plan.grain - 1) / plan.grain;
  for (const ir::Op* op : ops) {
    if (!ir::is_reduction(op->kind()) || !columns_.contains(op)) continue;
    reductions_.push_back(op);
    offsets_.push_back(bytes_);
    const int64_t bytes = parts_ * width_ * Reducer::accumulator_bytes(*op);
    // A workspace is there also where it has no use.
    bytes_ += std::max<int64_t>((bytes + 63) / 64, 1) * 64;
  }
}

Value* ColumnParts::address(RegionEmitter& emitter, size_t number, Value* part,
                            Value* column) const {
  llvm::IRBuilderBase& b = emitter.builder();
  const ir::Op& kernel = emitter.kernel();
  const int64_t bytes = Reducer::accumulator_bytes(*reductions_[number]);
  Value* place = b.CreateAdd(b.CreateMul(part, emitter.index(width_)), column);
  place = b.CreateAdd(b.CreateMul(place, emitter.index(bytes)), emitter.index(offsets_[number]));
  return b.CreateGEP(b.getInt8Ty(),
                     emitter.frame().buffer(kernel.num_operands() + kernel.num_results()), place);
}

Value* ColumnParts::load(RegionEmitter& emitter, Reducer& reducer, size_t number, Value* part,
                         Value* column) const {
  llvm::IRBuilderBase& b = emitter.builder();
  llvm::Type* type = reducer.accumulator_type(emitter.lanes());
  const llvm::Align align(static_cast<uint64_t>(Reducer::accumulator_bytes(reducer.op())));
  Value* place = address(emitter, number, part, column);
  if (!emitter.mask()) return b.CreateAlignedLoad(type, place, align);
  return b.CreateMaskedLoad(type, place, align, emitter.mask(), llvm::Constant::getNullValue(type));
}

void ColumnParts::store(RegionEmitter& emitter, Reducer& reducer, size_t number, Value* part,
                        Value* column, Value* accumulators) const {
  llvm::IRBuilderBase& b = emitter.builder();
  const llvm::Align align(static_cast<uint64_t>(Reducer::accumulator_bytes(reducer.op())));
  Value* place = address(emitter, number, part, column);
  if (emitter.mask())
    b.CreateMaskedStore(accumulators, place, align, emitter.mask());
  else
    b.CreateAlignedStore(accumulators, place, align);
}

}  // namespace mezzo::codegen
