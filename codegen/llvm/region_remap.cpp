// SPDX-License-Identifier: Apache-2.0
// Reads through an affine index. Along an axis whose lanes stay in a line within the tensor it is
// arithmetic on coordinates, so that channels are read as vectors; along others the place is
// computed and compared, once for all lanes where they share it.
#include <mezzo/codegen/llvm/region_emitter.h>
#include <mezzo/ir/remap.h>

#include <llvm/IR/IRBuilder.h>

#include <limits>

namespace mezzo::codegen {

using llvm::Value;

Value* RegionEmitter::remap(const ir::Op& op, const Coordinates& at) {
  llvm::IRBuilderBase& b = builder();
  const ir::Shape &shape = op.operand(0).shape(), &result = op.result().shape();
  const ir::DType dtype = op.result().dtype();
  auto filling = [&](int lanes) -> Value* {
    llvm::Type* type = compute_type_of(dtype, lanes);
    return op.bool_attr("lowest") ? llvm::ConstantFP::getInfinity(type, /*Negative=*/true)
                                  : llvm::Constant::getNullValue(type);
  };
  if (shape.elements() == 0) return filling(1);
  const bool clamp = op.bool_attr("clamp");
  Coordinates source = origin(shape);
  Value* inside = nullptr;
  auto also = [&](Value* condition) {
    if (inside && inside->getType() != condition->getType()) {
      inside = splat(inside, lanes_);
      condition = splat(condition, lanes_);
    }
    inside = inside ? b.CreateAnd(inside, condition) : condition;
  };
  const std::vector<ir::RemapAxis> axes = ir::remap_axes(op);
  for (size_t i = 0; i < axes.size(); ++i) {
    const ir::RemapAxis& axis = axes[i];
    AxisIndex place{index(axis.offset), 0};
    auto add = [&](int64_t along, int64_t multiple) {
      if (along < 0) return;
      const AxisIndex& own = at[static_cast<size_t>(along)];
      Value* scaled =
          b.CreateMul(own.base, llvm::ConstantInt::getSigned(own.base->getType(), multiple));
      if (scaled->getType() != place.base->getType()) {
        scaled = splat(scaled, lanes_);
        place.base = splat(place.base, lanes_);
      }
      place.base = b.CreateAdd(place.base, scaled);
      place.stride += own.stride * multiple;
    };
    add(axis.axis, axis.multiple);
    add(axis.minor, axis.minor_multiple);
    const int64_t length = shape[static_cast<int>(i)];
    if (ir::stays_inside(axis, result, length)) {
      source[i] = place;
      continue;
    }
    const int width = varies(place) ? lanes_ : 1;
    auto constant = [&](int64_t value) { return splat(index(value), width); };
    Value* numerator = width == 1 ? place.base : lane_indices(place);
    Value* element = numerator;
    if (clamp) {
      element = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, element, constant(0));
      if (axis.divisor > 1) element = b.CreateUDiv(element, constant(axis.divisor));
      element = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, element, constant(length - 1));
    } else {
      // A negative number is a great one without its sign, also when it is divided.
      if (axis.divisor > 1) {
        element = b.CreateUDiv(element, constant(axis.divisor));
        also(b.CreateICmpEQ(b.CreateMul(element, constant(axis.divisor)), numerator));
      }
      Value* within = b.CreateICmpULT(element, constant(length));
      also(within);
      // Outside, an element that is there is read and not used.
      element = b.CreateSelect(within, element, constant(0));
    }
    source[i] = {element, 0};
  }
  Value* value = eval(op.operand(0), source);
  if (!inside) return value;
  const int width = value->getType()->isVectorTy() || inside->getType()->isVectorTy() ? lanes_ : 1;
  return b.CreateSelect(inside, splat(value, width), filling(width));
}

}  // namespace mezzo::codegen
