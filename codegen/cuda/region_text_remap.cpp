// SPDX-License-Identifier: Apache-2.0
// Reads through an affine index as CUDA text. An axis that moves as one of the result does is read
// at the same index, so that a thread's elements stay one vector; along others the place is
// computed and compared, at the level where it is known.
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/remap.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace mezzo::codegen {

namespace {

/// The result's own index along one of its axes, within x for all of them.
bool is_same_index(const ir::RemapAxis& axis, const ir::Shape& result, int64_t length) {
  return axis.axis >= 0 && axis.minor < 0 && axis.multiple == 1 && axis.offset == 0 &&
         ir::stays_inside(axis, result, length);
}

bool fits_i32(const ir::RemapRange& range) {
  return range.least > std::numeric_limits<int32_t>::min() &&
         range.most < std::numeric_limits<int32_t>::max();
}

}  // namespace

RegionText::Text RegionText::remap(const ir::Op& op, const TextCoordinates& at) {
  const ir::DType dtype = op.result().dtype();
  const ir::Shape &shape = op.operand(0).shape(), &result = op.result().shape();
  const bool clamp = op.bool_attr("clamp");
  const std::string filling = op.bool_attr("lowest")
                                  ? literal(dtype, -std::numeric_limits<double>::infinity())
                              : ir::is_float(dtype) ? literal(dtype, 0)
                                                    : integer_literal(dtype, 0);
  if (shape.elements() == 0) return {filling, Level::Thread};
  TextCoordinates source = origin(shape);
  std::string inside;
  Level level = Level::Thread;
  const std::vector<ir::RemapAxis> axes = ir::remap_axes(op);
  for (size_t i = 0; i < axes.size(); ++i) {
    const ir::RemapAxis& axis = axes[i];
    const int64_t length = shape[static_cast<int>(i)];
    if (is_same_index(axis, result, length)) {
      source[i] = at[static_cast<size_t>(axis.axis)];
      continue;
    }
    const std::string_view type = fits_i32(ir::remap_range(axis, result)) ? "i32" : "i64";
    Level here = Level::Thread;
    std::string expression;
    auto add = [&](int64_t along, int64_t multiple) {
      if (along < 0) return;
      const TextIndex& own = at[static_cast<size_t>(along)];
      here = std::max(here, own.stride != 0 ? Level::Lane : own.level);
      expression += fmt::format("{}({}){}", expression.empty() ? "" : " + ", type, index_text(own));
      if (multiple != 1) expression += fmt::format(" * {}", multiple);
    };
    add(axis.axis, axis.multiple);
    add(axis.minor, axis.minor_multiple);
    if (expression.empty())
      expression = fmt::format("({}){}", type, axis.offset);
    else if (axis.offset != 0)
      expression += fmt::format(" {} {}", axis.offset < 0 ? "-" : "+", std::abs(axis.offset));
    const Text numerator = define(here, type, expression);
    std::string element = numerator.text;
    if (clamp) {
      element = fmt::format("{} < 0 ? 0 : {}", element, element);
      if (axis.divisor > 1) element = fmt::format("({}) / {}", element, axis.divisor);
      const Text rounded = define(here, type, element);
      element = fmt::format("{} < {} ? {} : {}", rounded.text, length, rounded.text, length - 1);
    } else if (!ir::stays_inside(axis, result, length)) {
      std::string condition = fmt::format("{} >= 0", element);
      if (axis.divisor > 1) {
        element = define(here, type, fmt::format("{} / {}", numerator.text, axis.divisor)).text;
        condition += fmt::format(" & {} * {} == {}", element, axis.divisor, numerator.text);
      }
      condition += fmt::format(" & {} < {}", element, length);
      const Text within = define(here, "bool", condition);
      inside += (inside.empty() ? "" : " & ") + within.text;
      level = std::max(level, here);
      // Outside, an element that is there is read and not used.
      element = fmt::format("{} ? {} : 0", within.text, element);
    }
    source[i] = {.base = define(here, index_type(), element).text, .multiple = 1, .level = here};
  }
  const Text value = eval(op.operand(0), source);
  if (inside.empty()) return value;
  return define(std::max(level, value.level), compute_type_name(dtype),
                fmt::format("{} ? {} : {}",
                            inside.find('&') == std::string::npos ? inside : "(" + inside + ")",
                            value.text, filling));
}

}  // namespace mezzo::codegen
