// SPDX-License-Identifier: Apache-2.0
// The decomposition of adding along an axis: every element of x becomes a row of its own, to whose
// number the index and the places along the other axes are put together.
#include <mezzo/passes/decompose_parts.h>

namespace mezzo::passes {

std::vector<Value> decompose_add_along_axis(const Composite& op, ir::Builder& builder) {
  Parts parts{builder};
  const Value x = op.operand(0);
  const int axis = static_cast<int>(op.int_attr("axis"));
  // The rule of the op has seen to it that every number fits.
  const DType number = DType::I32;
  const int64_t length = x.shape()[axis];
  // The flag is raised here, where the axis and the index are those that the program wrote.
  const Value indices = parts.make(OpKind::CheckIndex, {op.operand(1)}, {{"size", length}});
  // A u8 holds no length beyond 255, and is below all of them.
  const bool always = indices.dtype() == DType::U8 && length > 255;
  const Value below =
      always ? builder.constant(Type(DType::Bool, {}), 1)
             : parts.make(OpKind::Lt, {indices, builder.constant(Type(indices.dtype(), {}),
                                                                 static_cast<double>(length))});
  const Value inside = parts.make(
      OpKind::LogicalAnd,
      {parts.make(OpKind::Ge, {indices, builder.constant(Type(indices.dtype(), {}), 0)}), below});
  const auto strides = x.shape().strides();
  Value row = parts.make(
      OpKind::Mul, {builder.cast(indices, number, "rows are numbered in 32 bits"),
                    parts.scalar(number, static_cast<double>(strides[static_cast<size_t>(axis)]))});
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (i == axis || x.shape()[i] == 1) continue;
    Shape shape;
    for (int k = 0; k < x.shape().rank(); ++k) shape = shape.inserted(k, k == i ? x.shape()[i] : 1);
    const Value place = builder.make(OpKind::Iota, {}, {{"axis", i}}, {Type(number, shape)});
    row = parts.make(
        OpKind::Add,
        {row,
         parts.make(
             OpKind::Mul,
             {place, parts.scalar(number, static_cast<double>(strides[static_cast<size_t>(i)]))})});
  }
  // No row: scatter_add leaves it out.
  row = parts.make(OpKind::Where, {inside, row, parts.scalar(number, -1)});
  const Value added = parts.make(OpKind::ScatterAdd,
                                 {builder.reshape(x, Shape{x.type().elements()}),
                                  builder.reshape(row, Shape{indices.type().elements()}),
                                  builder.reshape(op.operand(2), Shape{indices.type().elements()})},
                                 {{"axis", 0}});
  return {builder.reshape(added, x.shape())};
}

}  // namespace mezzo::passes
