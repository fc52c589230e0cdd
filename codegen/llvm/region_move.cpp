// SPDX-License-Identifier: Apache-2.0
// Padding, concatenation and reading by index as arithmetic on coordinates. Lanes that are read off
// nothing are turned off by the mask, so that contiguous lanes stay contiguous loads.
#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/error.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {

using ir::OpKind;
using llvm::Value;

namespace {

Value* both(llvm::IRBuilderBase& b, Value* x, Value* y) { return x ? b.CreateAnd(x, y) : y; }

/// `value` + number, in the type of `value`.
Value* shifted(llvm::IRBuilderBase& b, Value* value, int64_t number) {
  return number == 0 ? value
                     : b.CreateAdd(value, llvm::ConstantInt::getSigned(value->getType(), number));
}

/// The axis with `first` as its new origin.
AxisIndex shifted(llvm::IRBuilderBase& b, const AxisIndex& axis, int64_t first, int64_t length) {
  AxisIndex out{shifted(b, axis.base, -first), axis.stride};
  if (axis.beyond < 0) return out;
  out.least = std::max<int64_t>(axis.least - first, 0);
  out.beyond = std::min(axis.beyond - first, length);
  return out;
}

/// 0 <= value < size.
Value* within(llvm::IRBuilderBase& b, Value* value, int64_t size) {
  return b.CreateICmpULT(value, llvm::ConstantInt::getSigned(value->getType(), size));
}

Value* or_zero(llvm::IRBuilderBase& b, Value* condition, Value* value) {
  return b.CreateSelect(condition, value, llvm::Constant::getNullValue(value->getType()));
}

}  // namespace

Value* RegionEmitter::pad(const ir::Op& op, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  const std::vector<int64_t> low = op.ints_attr("low"), high = op.ints_attr("high"),
                             interior = op.ints_attr("interior");
  const ir::Shape& shape = op.operand(0).shape();
  Value* filler = op.num_operands() > 1
                      ? eval(op.operand(1), {})
                      : llvm::Constant::getNullValue(compute_type_of(op.result().dtype(), 1));
  if (shape.elements() == 0) return filler;
  // Conditions of what all lanes share, and of each lane. A shared place outside is read as 0.
  Value *shared = nullptr, *lanes = nullptr;
  Coordinates source = at;
  for (size_t i = 0; i < at.size(); ++i) {
    if (low[i] == 0 && high[i] == 0 && interior[i] == 0) continue;
    const int64_t size = shape[static_cast<int>(i)];
    AxisIndex& axis = source[i];
    const bool each = varies(axis);
    if (interior[i] > 0) {
      Value* place = each ? lane_indices(axis) : axis.base;
      place = shifted(b, place, -low[i]);
      Value* step = llvm::ConstantInt::getSigned(place->getType(), interior[i] + 1);
      Value* element = b.CreateSDiv(place, step);
      Value* inside =
          b.CreateAnd(within(b, element, size), b.CreateICmpEQ(b.CreateMul(element, step), place));
      axis = {or_zero(b, inside, element), 0};
      (each ? lanes : shared) = both(b, each ? lanes : shared, inside);
      continue;
    }
    const bool known = axis.beyond > axis.least;
    if (known && (axis.beyond <= low[i] || axis.least >= low[i] + size)) return filler;
    const bool inside_all = known && axis.least >= low[i] && axis.beyond <= low[i] + size;
    axis = shifted(b, axis, low[i], size);
    if (inside_all) continue;
    axis.beyond = -1;
    Value* inside = within(b, each ? lane_indices(axis) : axis.base, size);
    if (!each || axis.base->getType()->isVectorTy())
      axis = {or_zero(b, inside, each ? lane_indices(axis) : axis.base), 0};
    (each ? lanes : shared) = both(b, each ? lanes : shared, inside);
  }
  if (!shared && !lanes) return eval(op.operand(0), source);
  if (!lanes) {
    Value* value = eval(op.operand(0), source);
    const bool vector = value->getType()->isVectorTy();
    return b.CreateSelect(shared, value, splat(filler, vector ? lanes_ : 1));
  }
  if (shared) lanes = b.CreateAnd(lanes, splat(shared, lanes_));
  Scope scope(*this);
  Value* outer = mask_;
  mask_ = outer ? b.CreateAnd(outer, lanes) : lanes;
  Value* value = eval_vector(op.operand(0), source);
  mask_ = outer;
  return b.CreateSelect(lanes, value, splat(filler, lanes_));
}

/// Operand `part` and those behind it, as far as they hold what is asked for.
void RegionEmitter::store_part(Value* slot, const ir::Op& op, const Coordinates& at, size_t part) {
  llvm::IRBuilderBase& b = builder();
  const size_t axis = static_cast<size_t>(op.int_attr("axis"));
  const AxisIndex place = at[axis];
  const bool each = varies(place), known = place.beyond > place.least;
  int64_t first = 0;
  for (size_t i = 0; i < part; ++i)
    first += op.operand(static_cast<int>(i)).shape()[static_cast<int>(axis)];
  for (; part < static_cast<size_t>(op.num_operands()); ++part) {
    const ir::Value operand = op.operand(static_cast<int>(part));
    const int64_t length = operand.shape()[static_cast<int>(axis)];
    if (length == 0 || (known && (place.least >= first + length || place.beyond <= first))) {
      first += length;
      continue;
    }
    Coordinates source = at;
    source[axis] = shifted(b, place, first, length);
    llvm::Type* type = compute_type_of(op.result().dtype(), uniform(at) ? 1 : lanes_);
    auto store = [&](Value* mine) {
      Scope scope(*this);
      Value* outer = mask_;
      if (mine) mask_ = mine;
      Value* value = splat(eval(operand, source), uniform(at) ? 1 : lanes_);
      if (mine) value = b.CreateSelect(mine, value, b.CreateLoad(type, slot));
      b.CreateStore(value, slot);
      mask_ = outer;
    };
    if (known && place.least >= first && place.beyond <= first + length) return store(nullptr);
    if (!each) {
      frame_.branch(
          within(b, source[axis].base, length), [&] { store(nullptr); },
          [&] { store_part(slot, op, at, part + 1); });
      return;
    }
    Value* mine = within(b, lane_indices(source[axis]), length);
    if (mask_) mine = b.CreateAnd(mine, mask_);
    frame_.branch(any_lane(mine), [&] { store(mine); }, [] {});
    first += length;
  }
}

Value* RegionEmitter::concat(const ir::Op& op, const Coordinates& at) {
  llvm::Type* type = compute_type_of(op.result().dtype(), uniform(at) ? 1 : lanes_);
  Value* slot = zeroed_slot(type);
  store_part(slot, op, at, 0);
  return builder().CreateLoad(type, slot);
}

std::pair<Value*, Value*> RegionEmitter::checked_index(ir::Value indices, const Coordinates& at,
                                                       int64_t size) {
  auto [index, bad] = outside(indices.dtype(), eval(indices, at), size);
  raise_range(bad);
  return {index, bad};
}

Value* RegionEmitter::gather(const ir::Op& op, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  const ir::Value x = op.operand(0), indices = op.operand(1);
  const auto axis = static_cast<std::ptrdiff_t>(op.int_attr("axis"));
  const int64_t size = x.shape()[static_cast<int>(axis)];
  Coordinates places = at, source(at.begin(), at.begin() + axis);
  std::ptrdiff_t behind = axis + 1;  // the first axis of the result that x has behind its own
  if (op.kind() == OpKind::Gather) {
    behind = axis + indices.shape().rank();
    places.assign(at.begin() + axis, at.begin() + behind);
  }
  auto [index, bad] = checked_index(indices, places, size);
  llvm::Type* scalar = compute_type_of(x.dtype(), 1);
  if (x.type().elements() == 0) return llvm::Constant::getNullValue(scalar);
  source.push_back({or_zero(b, b.CreateNot(bad), index), 0});
  source.insert(source.end(), at.begin() + behind, at.end());
  Value* value = eval(x, source);
  if (bad->getType()->isVectorTy()) value = splat(value, lanes_);
  return or_zero(b, b.CreateNot(bad), value);
}

}  // namespace mezzo::codegen
