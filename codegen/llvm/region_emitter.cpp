// SPDX-License-Identifier: Apache-2.0
// Coordinates, loads, stores, views and the memory of what was computed. The arithmetic is in
// region_ops.cpp.
#include <mezzo/codegen/llvm/region_emitter.h>

#include <mezzo/codegen/llvm/vector_io.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <tuple>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// The number in the type of `value`.
llvm::Constant* like(Value* value, int64_t number) {
  return llvm::ConstantInt::getSigned(value->getType(), number);
}

}  // namespace

RegionEmitter::RegionEmitter(KernelFrame& frame, const ir::Op& kernel)
    : frame_(frame), kernel_(kernel), known_(1) {
  int slot = 0;
  for (const ir::Op* op : ir::kernel_slots(kernel)) slots_[op] = slot++;
}

Value* RegionEmitter::index(int64_t value) {
  return builder().getInt64(static_cast<uint64_t>(value));
}

Coordinates RegionEmitter::origin(const ir::Shape& shape) {
  return Coordinates(static_cast<size_t>(shape.rank()), AxisIndex{index(0), 0});
}

bool RegionEmitter::varies(const AxisIndex& axis) {
  return axis.stride != 0 || axis.base->getType()->isVectorTy();
}

bool RegionEmitter::uniform(const Coordinates& at) { return std::ranges::none_of(at, varies); }

Value* RegionEmitter::splat(Value* value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return builder().CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

Value* RegionEmitter::eval_vector(ir::Value value, const Coordinates& at) {
  return splat(eval(value, at), lanes_);
}

Value* RegionEmitter::eval(ir::Value value, const Coordinates& at) {
  if (auto it = presets_.find(value.def()); it != presets_.end()) return it->second;
  Key key{value.def(), at};
  // One element is the same everywhere.
  if (value.type().elements() == 1) key.second = origin(value.shape());
  for (auto scope = known_.rbegin(); scope != known_.rend(); ++scope)
    if (auto it = scope->find(key); it != scope->end()) return it->second;
  Value* computed =
      value.is_parameter() ? load(value, key.second) : eval_op(*value.op(), key.second);
  known_.back()[key] = computed;
  return computed;
}

void RegionEmitter::preset(ir::Value value, Value* computed, bool rounded) {
  if (!rounded) {
    Value* result = round(value.dtype(), computed);
    flag(*value.op(), {}, computed, result);
    computed = result;
  }
  presets_[value.def()] = computed;
}

void RegionEmitter::eval_scalars() {
  for (ir::Value value : ir::scalar_values(kernel_)) eval(value, origin(value.shape()));
  for (ir::Value parameter : kernel_.body()->parameters())
    if (parameter.type().elements() == 1 && !parameter.unused())
      eval(parameter, origin(parameter.shape()));
}

std::pair<Value*, int64_t> RegionEmitter::linear(const ir::Shape& shape, const Coordinates& at) {
  auto strides = shape.strides();
  Value *offset = index(0), *lanes = nullptr;
  int64_t lane_stride = 0;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    if (shape[static_cast<int>(axis)] == 1) continue;
    Value* base = at[axis].base;
    Value* scaled = builder().CreateMul(base, like(base, strides[axis]));
    if (!base->getType()->isVectorTy())
      offset = builder().CreateAdd(offset, scaled);
    else
      lanes = lanes ? builder().CreateAdd(lanes, scaled) : scaled;
    lane_stride += at[axis].stride * strides[axis];
  }
  if (lanes) offset = builder().CreateAdd(splat(offset, lanes_), lanes);
  return {offset, lane_stride};
}

Value* RegionEmitter::lane_indices(const AxisIndex& axis) {
  llvm::SmallVector<llvm::Constant*> steps;
  for (int lane = 0; lane < lanes_; ++lane)
    steps.push_back(builder().getInt64(static_cast<uint64_t>(lane * axis.stride)));
  return builder().CreateAdd(splat(axis.base, lanes_), llvm::ConstantVector::get(steps));
}

Value* RegionEmitter::load_at(ir::DType dtype, Value* base, Value* offset, int64_t stride) {
  llvm::IRBuilderBase& b = builder();
  bool floats = ir::is_float(dtype);
  llvm::Type* element = floats ? storage_type(b, dtype)
                               : b.getIntNTy(static_cast<unsigned>(ir::byte_size(dtype) * 8));
  const llvm::Align align(static_cast<uint64_t>(ir::byte_size(dtype)));
  Value* raw = nullptr;
  const bool each = offset->getType()->isVectorTy();
  if (stride == 0 && !each) {
    // A scalar that all lanes share; where no lane is on its place may not exist.
    if (mask_ && !llvm::isa<llvm::Constant>(offset))
      offset = b.CreateSelect(b.CreateOrReduce(mask_), offset, index(0));
    raw = b.CreateAlignedLoad(element, b.CreateGEP(element, base, offset), align);
    if (floats && ir::is_16bit(dtype))
      return b.CreateExtractElement(widen(b, dtype, b.CreateVectorSplat(1, raw)), uint64_t{0});
  } else {
    auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_));
    llvm::Constant* zero = llvm::Constant::getNullValue(vector);
    if (stride == 1 && !each) {
      Value* address = b.CreateGEP(element, base, offset);
      raw = mask_ ? static_cast<Value*>(b.CreateMaskedLoad(vector, address, align, mask_, zero))
                  : b.CreateAlignedLoad(vector, address, align);
    } else if (stride == -1 && !each) {
      // As stride 1 from the last lane on, with the lanes turned round.
      llvm::SmallVector<int> turned;
      for (int lane = lanes_ - 1; lane >= 0; --lane) turned.push_back(lane);
      Value* address = b.CreateGEP(element, base, b.CreateSub(offset, index(lanes_ - 1)));
      raw = mask_ ? static_cast<Value*>(b.CreateMaskedLoad(
                        vector, address, align, b.CreateShuffleVector(mask_, turned), zero))
                  : b.CreateAlignedLoad(vector, address, align);
      raw = b.CreateShuffleVector(raw, turned);
    } else {
      Value* addresses = b.CreateGEP(element, base, lane_indices({offset, stride}));
      Value* on = mask_ ? mask_ : splat(b.getTrue(), lanes_);
      raw = b.CreateMaskedGather(vector, addresses, align, on, zero);
    }
    if (floats) return widen(b, dtype, raw);
  }
  if (dtype == ir::DType::Bool)
    return b.CreateICmpNE(raw, llvm::Constant::getNullValue(raw->getType()));
  return raw;
}

Value* RegionEmitter::load(ir::Value parameter, const Coordinates& at) {
  auto [offset, stride] = linear(parameter.shape(), at);
  return load_at(parameter.dtype(), frame_.buffer(parameter.index()), offset, stride);
}

void RegionEmitter::store(int number, Value* value, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  ir::Value result = kernel_.result(number);
  ir::DType dtype = result.dtype();
  auto [offset, stride] = linear(result.shape(), at);
  Value* base = frame_.buffer(kernel_.num_operands() + number);
  const llvm::Align align(static_cast<uint64_t>(ir::byte_size(dtype)));
  bool vector = value->getType()->isVectorTy();
  MEZZO_CHECK(!vector || stride == 1, "a kernel result is stored along its last axis");
  if (ir::is_float(dtype)) {
    Value* raw = vector ? value : b.CreateVectorSplat(1, value);
    store_vector(b, dtype, base, offset, raw, vector ? mask_ : nullptr);
    return;
  }
  llvm::Type* element = b.getIntNTy(static_cast<unsigned>(ir::byte_size(dtype) * 8));
  llvm::Type* type =
      vector ? llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes_)) : element;
  if (dtype == ir::DType::Bool) value = b.CreateZExt(value, type);
  Value* address = b.CreateGEP(element, base, offset);
  if (vector && mask_)
    b.CreateMaskedStore(value, address, align, mask_);
  else
    b.CreateAlignedStore(value, address, align);
}

void RegionEmitter::prefetch(int buffer, ir::Value value, const Coordinates& at, bool write) {
  llvm::IRBuilderBase& b = builder();
  Value* bytes = b.CreateMul(linear(value.shape(), at).first, index(ir::byte_size(value.dtype())));
  // No inbounds: the address may lie behind the buffer, which a prefetch may name.
  Value* address = b.CreateGEP(b.getInt8Ty(), frame_.buffer(buffer), bytes);
  // Into all levels, data.
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                    {address, b.getInt32(write), b.getInt32(3), b.getInt32(1)});
}

void RegionEmitter::prefetch_parameters(ir::Value value, const Coordinates& at) {
  Coordinates place = at;
  while (!value.is_parameter()) {
    const ir::Op& op = *value.op();
    if (op.num_operands() != 1 || presets_.count(value.def())) return;
    place = operand_coordinates(op, 0, place);
    value = op.operand(0);
  }
  prefetch(value.index(), value, place, /*write=*/false);
}

void RegionEmitter::prefetch_result(int number, const Coordinates& at) {
  prefetch(kernel_.num_operands() + number, kernel_.result(number), at, /*write=*/true);
}

Coordinates RegionEmitter::operand_coordinates(const ir::Op& op, int number,
                                               const Coordinates& at) {
  using ir::OpKind;
  llvm::IRBuilderBase& b = builder();
  const ir::Shape &from = op.num_results() ? op.result().shape() : op.operand(0).shape(),
                  &to = op.operand(number).shape();
  Coordinates out = origin(to);
  switch (op.kind()) {
    case OpKind::Reshape: {
      size_t source = 0;
      for (int i = 0; i < to.rank(); ++i) {
        if (to[i] == 1) continue;
        while (from[static_cast<int>(source)] == 1) ++source;
        out[static_cast<size_t>(i)] = at[source++];
      }
      return out;
    }
    case OpKind::Transpose: {
      std::vector<int64_t> perm = op.ints_attr("perm");
      for (size_t i = 0; i < perm.size(); ++i) out[static_cast<size_t>(perm[i])] = at[i];
      return out;
    }
    case OpKind::Slice: {
      std::vector<int64_t> starts = op.ints_attr("starts"), steps = op.ints_attr("steps");
      for (size_t i = 0; i < starts.size(); ++i) {
        Value* scaled = b.CreateMul(at[i].base, like(at[i].base, steps[i]));
        out[i] = {b.CreateAdd(scaled, like(scaled, starts[i])), at[i].stride * steps[i]};
        if (at[i].beyond <= at[i].least) continue;
        out[i].least = at[i].least * steps[i] + starts[i];
        out[i].beyond = (at[i].beyond - 1) * steps[i] + starts[i] + 1;
      }
      return out;
    }
    case OpKind::Flip: {
      out = at;
      for (int64_t flipped : op.ints_attr("axes")) {
        const int64_t length = to[static_cast<int>(flipped)];
        AxisIndex& axis = out[static_cast<size_t>(flipped)];
        axis.base = b.CreateSub(like(axis.base, length - 1), axis.base);
        axis.stride = -axis.stride;
        if (axis.beyond > axis.least)
          std::tie(axis.least, axis.beyond) = std::pair(length - axis.beyond, length - axis.least);
      }
      return out;
    }
    default:  // aligned at the last axis
      for (int i = 0; i < to.rank(); ++i)
        if (to[i] != 1)
          out[static_cast<size_t>(i)] = at[static_cast<size_t>(from.rank() - to.rank() + i)];
      return out;
  }
}

Value* RegionEmitter::eval_op(const ir::Op& op, const Coordinates& at) {
  using ir::OpKind;
  switch (op.kind()) {
    case OpKind::Constant:
      return constant(op);
    case OpKind::Iota:
      return iota(op, at);
    case OpKind::Pad:
      return pad(op, at);
    case OpKind::Remap:
      return remap(op, at);
    case OpKind::Concat:
      return concat(op, at);
    case OpKind::Gather:
    case OpKind::TakeAlongAxis:
      return gather(op, at);
    case OpKind::RandomUniform:
    case OpKind::RandomNormal:
    case OpKind::Bernoulli:
      return random(op, at);
    case OpKind::Reshape:
    case OpKind::BroadcastTo:
    case OpKind::Transpose:
    case OpKind::Slice:
    case OpKind::Flip:
      return eval(op.operand(0), operand_coordinates(op, 0, at));
    case OpKind::RngAdvance: {
      // [seed, step] -> [seed, step + 1]
      Value* value = eval(op.operand(0), at);
      Value* lane = varies(at[0]) ? lane_indices(at[0]) : at[0].base;
      Value* one = llvm::ConstantInt::get(lane->getType(), 1);
      Value* is_step = builder().CreateZExt(builder().CreateICmpEQ(lane, one), lane->getType());
      return builder().CreateAdd(value, is_step);
    }
    default:
      break;
  }
  MEZZO_CHECK(ir::is_elementwise(op.kind()) || op.kind() == OpKind::CheckIndex,
              std::string("'") + op.info().name + "' cannot be evaluated at a point");
  std::vector<Value*> operands;
  bool vector = false;
  for (int i = 0; i < op.num_operands(); ++i) {
    operands.push_back(eval(op.operand(i), operand_coordinates(op, i, at)));
    vector |= operands.back()->getType()->isVectorTy();
  }
  if (vector)
    for (Value*& operand : operands) operand = splat(operand, lanes_);
  if (op.kind() == OpKind::CheckIndex) return check_index(op, operands[0]);
  Value* unrounded = compute(op, operands);
  bool exact = ir::needs_no_rounding(op.kind());
  Value* result = exact ? unrounded : round(op.result().dtype(), unrounded);
  flag(op, operands, unrounded, result);
  return result;
}

Value* RegionEmitter::constant(const ir::Op& op) {
  llvm::IRBuilderBase& b = builder();
  llvm::Type* type = compute_type_of(op.result().dtype(), 1);
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  return b.CreateBitCast(b.CreateTrunc(frame_.integer(slots_.at(&op)), b.getIntNTy(bits)), type);
}

Value* RegionEmitter::iota(const ir::Op& op, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  const AxisIndex& axis = at[static_cast<size_t>(op.int_attr("axis"))];
  Value* position = varies(axis) ? lane_indices(axis) : axis.base;
  ir::DType dtype = op.result().dtype();
  llvm::Type* type = compute_type_of(dtype, varies(axis) ? lanes_ : 1);
  if (!ir::is_float(dtype)) return b.CreateTruncOrBitCast(position, type);
  // Exact below 2^24 (2^53); rounded to the element type beyond, as a cast of the index would.
  return convert(ir::DType::I64, dtype, position);
}

}  // namespace mezzo::codegen
