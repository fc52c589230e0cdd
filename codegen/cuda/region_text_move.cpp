// SPDX-License-Identifier: Apache-2.0
// Padding, concatenation and reading by index as CUDA text: arithmetic on coordinates. A place that
// is outside is read as another one that is there, and not used.
#include <mezzo/codegen/cuda/region_text.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

std::string zero_of(DType dtype) {
  return ir::is_float(dtype) ? literal(dtype, 0) : integer_literal(dtype, 0);
}

}  // namespace

RegionText::Text RegionText::pad(const ir::Op& op, const TextCoordinates& at) {
  const std::vector<int64_t> low = op.ints_attr("low"), high = op.ints_attr("high"),
                             interior = op.ints_attr("interior");
  const DType dtype = op.result().dtype();
  const ir::Shape& shape = op.operand(0).shape();
  const Text filler =
      op.num_operands() > 1 ? eval(op.operand(1), {}) : Text{zero_of(dtype), Level::Thread};
  if (shape.elements() == 0) return filler;
  // Outside, an element that is there is read in place of the padding and not used.
  TextCoordinates source = at;
  std::string inside;
  Level level = filler.level;
  const std::string_view type = wide_ ? "i64" : "i32";
  for (size_t i = 0; i < at.size(); ++i) {
    if (low[i] == 0 && high[i] == 0 && interior[i] == 0) continue;
    const TextIndex& axis = at[i];
    const int64_t size = shape[static_cast<int>(i)];
    const Level here = axis.stride != 0 ? Level::Lane : axis.level;
    level = std::max(level, here);
    const Text position =
        define(here, type, fmt::format("({}){} - {}", type, index_text(axis), low[i]));
    std::string element = position.text;
    std::string condition = fmt::format("{} >= 0", element);
    if (interior[i] > 0) {
      const int64_t step = interior[i] + 1;
      element = define(here, type, fmt::format("{} / {}", position.text, step)).text;
      condition += fmt::format(" & {} * {} == {}", element, step, position.text);
    }
    condition += fmt::format(" & {} < {}", element, size);
    const Text here_inside = define(here, "bool", condition);
    inside += (inside.empty() ? "" : " & ") + here_inside.text;
    const Text clamped =
        define(here, index_type(), fmt::format("{} ? {} : 0", here_inside.text, element));
    source[i] = {.base = clamped.text, .multiple = 1, .level = here};
  }
  const Text value = eval(op.operand(0), source);
  if (inside.empty()) return value;
  level = std::max(level, value.level);
  return define(level, compute_type_name(dtype),
                fmt::format("{} ? {} : {}",
                            inside.find('&') == std::string::npos ? inside : "(" + inside + ")",
                            value.text, filler.text));
}

/// The address of an element that only views stand before; nothing where more does.
std::optional<std::pair<std::string, TextIndex>> RegionText::stored_at(ir::Value value,
                                                                       TextCoordinates at) {
  while (!value.is_parameter()) {
    if (!ir::is_view(value.op()->kind())) return std::nullopt;
    at = operand_coordinates(*value.op(), 0, at);
    value = value.op()->operand(0);
  }
  return std::pair(named_after("p_", value), linear(value.shape(), at));
}

RegionText::Text RegionText::concat(const ir::Op& op, const TextCoordinates& at) {
  const DType dtype = op.result().dtype();
  const size_t axis = static_cast<size_t>(op.int_attr("axis"));
  const TextIndex& place = at[axis];
  struct Part {
    ir::Value value;
    int64_t first, length;
  };
  std::vector<Part> parts;
  int64_t end = 0, bounds = 0;
  for (ir::Value operand : op.operands()) {
    const int64_t length = operand.shape()[static_cast<int>(axis)];
    if (length > 0) parts.push_back({operand, end, length});
    end += length;
    bounds = std::gcd(bounds, end);
  }
  if (parts.empty()) return {zero_of(dtype), Level::Thread};
  // Where every bound is one of vectors, the place of the first lane decides for all.
  const bool whole = place.stride == 1 && std::gcd(bounds, place.divisor()) % lanes_ == 0;
  const bool each = place.stride != 0 && lanes_ > 1 && !whole;
  const Level here = each ? Level::Lane : place.level;
  TextIndex first_lane = place;
  if (whole) first_lane.stride = 0;
  const std::string number = index_text(first_lane);
  // Of the last operand it is known that nothing else is left.
  auto select = [&](const std::vector<std::string>& values) {
    std::string text;
    for (size_t i = 0; i + 1 < values.size(); ++i)
      text += fmt::format("{} < {} ? {} : ", number,
                          index_literal(parts[i].first + parts[i].length), values[i]);
    return text + values.back();
  };
  auto coordinates = [&](const Part& part) {
    TextCoordinates from = at;
    from[axis].offset -= part.first;
    return from;
  };

  // One load from the address that is chosen, if all operands are stored as they are.
  std::vector<std::string> addresses;
  Level level = here;
  bool vector = lanes_ > 1 && !each;
  for (const Part& part : parts) {
    const auto stored = stored_at(part.value, coordinates(part));
    if (!stored) break;
    TextIndex index = stored->second;
    vector = vector && index.stride == 1 && index.divisor() % lanes_ == 0;
    level = std::max(level, index.level);
    addresses.push_back(stored->first + " + ");
  }
  if (addresses.size() == parts.size()) {
    bool lanes_vary = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      TextIndex index = stored_at(parts[i].value, coordinates(parts[i]))->second;
      lanes_vary |= index.stride != 0 && lanes_ > 1;
      if (vector) index.stride = 0;
      addresses[i] += index_text(index);
    }
    if (lanes_vary && !vector) level = Level::Lane;
    const std::string type = fmt::format("{}*", storage_type_name(dtype));
    const std::string pointer = unique("q" + current_.substr(1));
    writer(level).line(fmt::format("const {} {} = {};", type, pointer, select(addresses)));
    if (vector) return load_lanes(pointer, dtype, level);
    return define(level, compute_type_name(dtype), fmt::format("widen(*{})", pointer));
  }

  // Else each is computed, of elements that are there, and one is chosen.
  std::vector<std::string> values;
  for (const Part& part : parts) {
    TextCoordinates from = coordinates(part);
    const std::string inside =
        fmt::format("{} - {} < {}", number, index_literal(part.first), index_literal(part.length));
    const Text clamped =
        define(here, index_type(),
               fmt::format("{} ? {} - {} : 0", inside, number, index_literal(part.first)));
    from[axis] = {.base = clamped.text,
                  .stride = whole ? place.stride : 0,
                  .multiple = whole ? lanes_ : 1,
                  .level = here};
    const Text value = eval(part.value, from);
    level = std::max(level, value.level);
    values.push_back(value.text);
  }
  return define(level, compute_type_name(dtype), select(values));
}

RegionText::Text RegionText::inside(const Text& index, int64_t size) {
  const Text inside = define(index.level, "bool",
                             fmt::format("(i64){0} >= 0 & (i64){0} < {1}ll", index.text, size));
  raise_range(index.level, "!" + inside.text);
  return inside;
}

RegionText::Text RegionText::gather(const ir::Op& op, const TextCoordinates& at) {
  const ir::Value x = op.operand(0), indices = op.operand(1);
  const auto axis = static_cast<std::ptrdiff_t>(op.int_attr("axis"));
  TextCoordinates places = at, source(at.begin(), at.begin() + axis);
  std::ptrdiff_t behind = axis + 1;  // the first axis of the result that x has behind its own
  if (op.kind() == OpKind::Gather) {
    behind = axis + indices.shape().rank();
    places.assign(at.begin() + axis, at.begin() + behind);
  }
  const Text index = eval(indices, places);
  const Text valid = inside(index, x.shape()[static_cast<int>(axis)]);
  if (x.type().elements() == 0) return {zero_of(x.dtype()), Level::Thread};
  const Text row = define(index.level, index_type(),
                          fmt::format("{} ? ({}){} : 0", valid.text, index_type(), index.text));
  source.push_back({.base = row.text, .multiple = 1, .level = index.level});
  source.insert(source.end(), at.begin() + behind, at.end());
  const Text value = eval(x, source);
  return define(std::max(value.level, index.level), compute_type_name(x.dtype()),
                fmt::format("{} ? {} : {}", valid.text, value.text, zero_of(x.dtype())));
}

}  // namespace mezzo::codegen
