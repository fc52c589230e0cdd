// SPDX-License-Identifier: Apache-2.0
#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::Shape;
using ir::Type;

namespace {

/// x, for a gradient a cotangent, statistics, then as many parameters as the row takes, and fewer.
void add_with_parameters(const Draft& draft, const Shape& shape, const Shape& parameter,
                         const Attrs& attrs) {
  const ir::OpInfo& info = draft.info();
  const Type x(draft.dtype, shape);
  const Type statistic(draft.dtype == ir::DType::F64 ? ir::DType::F64 : ir::DType::F32, parameter);
  std::vector<Type> operands;
  for (int i = 0; i < info.max_operands; ++i) {
    const std::string& name = info.operands[static_cast<size_t>(i)];
    const bool one_a_channel = name == "mean" || name == "variance" || name == "shift";
    if (i >= info.min_operands) draft.add(operands, attrs);
    operands.push_back(name == "x" || name == "dy" ? x
                       : one_a_channel             ? statistic
                                                   : x.with(parameter));
  }
  draft.add(operands, attrs);
}

}  // namespace

void row_norms(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int64_t axis = 0; axis < shape.rank(); ++axis)
      add_with_parameters(draft, shape, Shape(shape.dims().subspan(static_cast<size_t>(axis))),
                          {{"axis", Attr(axis)}});
}

void group_norms(const Draft& draft) {
  std::vector<std::pair<Shape, int64_t>> cases = {{Shape{kRows, 3, 6}, 2}};
  if (draft.small())
    cases = {{Shape{2, 3, 4, 6}, 3}, {Shape{5, 8}, 2},    {Shape{1, 1, 1}, 1},
             {Shape{3, 17, 5}, 5},   {Shape{2, 0, 4}, 2}, {Shape{0, 3, 4}, 2},
             {Shape{2, 4, 4, 4}, 2}, {Shape{2, 4, 8}, 2}, {Shape{1, 1025, 4}, 1}};
  for (const auto& [shape, groups] : cases)
    add_with_parameters(draft, shape, Shape{shape[shape.rank() - 1]}, {{"groups", Attr(groups)}});
}

void batch_norms(const Draft& draft) {
  std::vector<Shape> shapes = {Shape{kRows, kColumns}};
  if (draft.small())
    shapes = {Shape{7, 13}, Shape{4, 3, 5}, Shape{2, 3, 4, 1}, Shape{1, 6},
              Shape{3, 0},  Shape{0, 4},    Shape{4097, 1},    Shape{2, 65, 5, 17}};
  for (const Shape& shape : shapes)
    add_with_parameters(draft, shape, Shape{shape[shape.rank() - 1]}, {});
}

}  // namespace mezzo::test
