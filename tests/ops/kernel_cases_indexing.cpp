// SPDX-License-Identifier: Apache-2.0
// Kernel cases of reversal, concatenation, reading and adding by index.
#include <algorithm>
#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::DType;
using ir::Shape;
using ir::Type;

namespace {

using Ints = std::vector<int64_t>;

constexpr DType kIndexTypes[] = {DType::I32, DType::I64, DType::U8};

Shape gathered(const Shape& x, const Shape& indices, int axis) {
  Shape shape = x.without(axis);
  for (int i = 0; i < indices.rank(); ++i) shape = shape.inserted(axis + i, indices[i]);
  return shape;
}

/// Calls `visit(x, axis, indices)` for indices of several ranks, of the index types in turn; those
/// of the last are partly out of range: `limit` is more than the axis is long.
void for_indices(const Draft& draft, auto visit) {
  if (!draft.small()) {
    visit(Shape{kRows, kColumns}, 0, Type(DType::I32, {kRows}), kRows);
    visit(Shape{kColumns, kRows}, 1, Type(DType::I64, {kRows}), kRows);
    return;
  }
  size_t number = 0;
  for (const Shape& x : draft.shapes())
    for (int axis = 0; axis < x.rank(); ++axis)
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 1, 4}, Shape{0}, Shape{17}}) {
        const DType dtype = kIndexTypes[number++ % 3];
        const int64_t most = dtype == DType::U8 ? std::min<int64_t>(x[axis], 255) : x[axis];
        visit(x, axis, Type(dtype, shape), std::max<int64_t>(most, 1) + (shape[0] == 17 ? 1 : 0));
      }
}

/// The same for indices that have the rank of x.
void for_indices_along(const Draft& draft, auto visit) {
  if (!draft.small()) {
    visit(Shape{kRows, kColumns}, 1, Type(DType::I32, {kRows, 3}), kColumns);
    visit(Shape{kColumns, kRows}, 1, Type(DType::I32, {kColumns, kRows}), kRows);
    return;
  }
  size_t number = 0;
  for (const Shape& x : draft.shapes())
    for (int axis = 0; axis < x.rank(); ++axis)
      for (int64_t length : {int64_t{1}, x[axis], int64_t{0}, int64_t{19}}) {
        const DType dtype = kIndexTypes[number++ % 3];
        const int64_t most = dtype == DType::U8 ? std::min<int64_t>(x[axis], 255) : x[axis];
        visit(x, axis, Type(dtype, x.with(axis, length)),
              std::max<int64_t>(most, 1) + (length == 19 ? 1 : 0));
      }
}

/// With updates of the type of x and, of f32, of 16 bits.
void add_updates(const Draft& draft, const Shape& x, int axis, const Type& indices,
                 const Shape& updates, int64_t limit) {
  if (draft.dtype == DType::Bool) return;
  draft.add({Type(draft.dtype, x), indices, Type(draft.dtype, updates)},
            {{"axis", Attr(int64_t{axis})}}, {}, "", limit);
  if (draft.dtype == DType::F32 && draft.small())
    draft.add({Type(draft.dtype, x), indices, Type(DType::F16, updates)},
              {{"axis", Attr(int64_t{axis})}}, {}, "", limit);
}

}  // namespace

void flip_cases(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int64_t set = 0; set < int64_t{1} << shape.rank(); ++set) {
      Ints axes;
      for (int64_t axis = 0; axis < shape.rank(); ++axis)
        if ((set >> axis & 1) != 0) axes.push_back(axis);
      draft.add({Type(draft.dtype, shape)}, {{"axes", Attr(axes)}});
    }
}

void concat_cases(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int axis = 0; axis < shape.rank(); ++axis)
      for (const Ints& others : {Ints{}, Ints{3}, Ints{0, 1, 16}}) {
        std::vector<Type> operands = {Type(draft.dtype, shape)};
        for (int64_t length : others) operands.emplace_back(draft.dtype, shape.with(axis, length));
        draft.add(operands, {{"axis", Attr(int64_t{axis})}});
      }
}

void gather_cases(const Draft& draft) {
  for_indices(draft, [&](const Shape& x, int axis, const Type& indices, int64_t limit) {
    draft.add({Type(draft.dtype, x), indices}, {{"axis", Attr(int64_t{axis})}}, {}, "", limit);
  });
}

void take_along_axis_cases(const Draft& draft) {
  for_indices_along(draft, [&](const Shape& x, int axis, const Type& indices, int64_t limit) {
    draft.add({Type(draft.dtype, x), indices}, {{"axis", Attr(int64_t{axis})}}, {}, "", limit);
  });
}

void scatter_add_cases(const Draft& draft) {
  for_indices(draft, [&](const Shape& x, int axis, const Type& indices, int64_t limit) {
    add_updates(draft, x, axis, indices, gathered(x, indices.shape, axis), limit);
  });
  // More than one block of a sum at each place.
  if (draft.small()) add_updates(draft, {3, 20}, 0, Type(DType::I32, {2100}), {2100, 20}, 3);
}

void add_along_axis_cases(const Draft& draft) {
  for_indices_along(draft, [&](const Shape& x, int axis, const Type& indices, int64_t limit) {
    add_updates(draft, x, axis, indices, indices.shape, limit);
  });
}

}  // namespace mezzo::test
