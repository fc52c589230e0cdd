// SPDX-License-Identifier: Apache-2.0
// Coordinates, loads, views and the memory of what was written. The arithmetic is in
// region_text_ops.cpp.
#include <mezzo/codegen/cuda/region_text.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/printer.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <utility>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// Index arithmetic may run past the last element by a block's share.
constexpr int64_t kMostNarrowElements = (int64_t{1} << 31) - (int64_t{1} << 16);

bool needs_wide_index(const ir::Op& kernel) {
  bool wide = ir::kernel_space(kernel).space.elements() > kMostNarrowElements;
  for (ir::Value value : kernel.operands()) wide |= value.type().elements() > kMostNarrowElements;
  for (ir::Value value : kernel.results()) wide |= value.type().elements() > kMostNarrowElements;
  return wide;
}

std::vector<std::string> identifiers(const std::string& expression) {
  std::vector<std::string> names;
  bool inside = false;
  for (char c : expression) {
    const bool part = c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (part && !inside) names.emplace_back();
    if (part) names.back() += c;
    inside = part;
  }
  return names;
}

}  // namespace

RegionText::RegionText(const ir::Op& kernel, int lanes)
    : kernel_(kernel),
      lanes_(lanes),
      wide_(needs_wide_index(kernel)),
      folds_flags_(few_flags(kernel)),
      words_(ir::kernel_words(kernel)) {
  writers_.reserve(static_cast<size_t>(Level::Lane) + 1);  // so that writers stay where they are
  // Names as the IR prints them, of letters that C++ takes.
  const ir::ValueNames names(*kernel.function());
  auto identify = [&](ir::Value value) {
    std::string id = names(value).substr(1);
    std::replace_if(id.begin(), id.end(), [](char c) { return c == '.' || c == '$'; }, '_');
    ids_[value.def()] = unique(id);
  };
  for (ir::Value parameter : kernel.body()->parameters()) identify(parameter);
  for (const ir::Op& op : *kernel.body())
    for (ir::Value result : op.results()) identify(result);
  int slot = 0;
  for (const ir::Op* op : ir::kernel_slots(kernel)) slots_[op] = slot++;
}

std::string RegionText::index_literal(int64_t value) const {
  return fmt::format("{}{}", value, wide_ ? "ull" : "u");
}

// --- levels and names

void RegionText::enter(int indent) {
  writers_.emplace_back(indent);
  known_.emplace_back();
  named_.emplace_back();
}

std::string RegionText::leave() {
  std::string text = std::move(writers_.back().text());
  writers_.pop_back();
  known_.pop_back();
  named_.pop_back();
  std::erase_if(lazy_, [&](const auto& entry) {
    return static_cast<size_t>(entry.second.level) >= writers_.size();
  });
  return text;
}

void RegionText::leave_lanes() {
  const std::string lane = leave();
  SourceWriter& iteration = writer(Level::Iteration);
  if (lanes_ == 1 || lane.empty()) return iteration.append(lane);
  iteration.line("#pragma unroll");
  iteration.open(fmt::format("for (u32 j = 0; j < {}; ++j)", lanes_));
  iteration.append(lane);
  iteration.close();
}

std::string RegionText::store_result(int number, const std::string& lane, const std::string& place,
                                     const std::string& count) {
  if (lanes_ == 1) return fmt::format("narrow(r{}[{}], {});", number, place, lane);
  const std::string array = name("y");
  const std::string_view type = compute_type_name(kernel_.result(number).dtype());
  writer(Level::Iteration).line(fmt::format("{} {}[{}];", type, array, lanes_));
  writer(Level::Lane).line(fmt::format("{}[j] = {};", array, lane));
  return count.empty()
             ? fmt::format("store_vector<{}>(r{} + {}, {});", lanes_, number, place, array)
             : fmt::format("store_tail<{}>(r{} + {}, {}, {});", lanes_, number, place, array,
                           count);
}

std::string RegionText::name(std::string_view prefix) {
  return fmt::format("{}{}", prefix, counts_[std::string(prefix)]++);
}

std::string RegionText::unique(const std::string& wanted) {
  std::string text = wanted;
  while (!taken_.insert(text).second) text = fmt::format("{}_{}", wanted, ++counts_[wanted]);
  return text;
}

RegionText::Text RegionText::define(Level level, std::string_view type,
                                    const std::string& expression, ir::Value of) {
  const std::string result = unique(of ? named_after("v_", of) : current_);
  writer(level).line(fmt::format("const {} {} = {};", type, result, expression));
  return {result, level};
}

void RegionText::lazy(Level level, const std::string& name, const std::string& expression) {
  lazy_[name] = {level, expression};
}

void RegionText::use(const std::string& name) {
  auto it = lazy_.find(name);
  if (it == lazy_.end()) return;
  const Lazy entry = it->second;
  lazy_.erase(it);
  // What it is made of comes first.
  for (const std::string& other : identifiers(entry.expression)) use(other);
  writer(entry.level).line(fmt::format("const {} {} = {};", index_type(), name, entry.expression));
}

std::string RegionText::index_text(const TextIndex& index) {
  std::string text = index.base;
  if (!text.empty()) use(index.base);
  if (index.stride != 0) {
    if (!text.empty()) text += " + ";
    text += index.stride == 1 ? "j" : fmt::format("j * {}", index_literal(index.stride));
  }
  if (text.empty()) return index_literal(index.offset);
  if (index.offset != 0) text += " + " + index_literal(index.offset);
  return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

TextIndex RegionText::named(Level level, const std::string& expression, int64_t multiple) {
  TextIndex index{.base = {}, .multiple = multiple, .level = level};
  for (const auto& names : named_)
    if (auto it = names.find(expression); it != names.end()) {
      index.base = it->second;
      return index;
    }
  index.base = name("o");
  writer(level).line(fmt::format("const {} {} = {};", index_type(), index.base, expression));
  named_[static_cast<size_t>(level)][expression] = index.base;
  return index;
}

// --- coordinates

TextCoordinates RegionText::decompose(std::span<const int64_t> dims, const std::string& prefix,
                                      const TextIndex& linear, const std::string& lane_element) {
  TextCoordinates out(dims.size());
  size_t first = dims.size(), last = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) {
      first = std::min(first, i);
      last = i;
    }
  if (first == dims.size()) return out;
  const bool shared = linear.uniform() || dims[last] % lanes_ == 0;
  // The element that is divided: the first of the vector, or the lane's own.
  const Level level = shared ? linear.level : Level::Lane;
  const std::string whole = shared ? linear.base : lane_element;
  MEZZO_CHECK(linear.offset == 0, "an index is taken apart before it is shifted");
  if (first == last) {
    out[last] = shared ? linear : TextIndex{.base = whole, .level = level};
    return out;
  }
  int64_t below = 1;
  for (size_t i = dims.size(); i-- > first;) {
    if (dims[i] == 1) continue;
    std::string expression = whole;
    if (below != 1) expression += " / " + index_literal(std::max<int64_t>(below, 1));
    if (i != first) expression += " % " + index_literal(std::max<int64_t>(dims[i], 1));
    const std::string axis = prefix + std::to_string(i);
    lazy(level, axis, expression);
    out[i] = {.base = axis, .multiple = 1, .level = level};
    if (i == last && shared) {
      out[i].stride = linear.stride;
      out[i].multiple = linear.stride ? lanes_ : 1;
    }
    below *= dims[i];
  }
  return out;
}

void RegionText::add_identity(const ir::Shape& shape, const TextCoordinates& coordinates,
                              const TextIndex& linear) {
  Identity identity;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) identity.axes.emplace_back(shape[i], coordinates[static_cast<size_t>(i)]);
  identity.linear = linear;
  identities_.push_back(std::move(identity));
}

TextIndex RegionText::linear(const ir::Shape& shape, const TextCoordinates& at) {
  std::vector<std::pair<int64_t, TextIndex>> axes;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) axes.emplace_back(shape[i], at[static_cast<size_t>(i)]);
  if (axes.empty()) return {};
  for (const Identity& identity : identities_)
    if (identity.axes == axes) return identity.linear;
  auto strides = shape.strides();
  TextIndex out;
  std::string expression;
  int terms = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const TextIndex& axis = at[static_cast<size_t>(i)];
    const int64_t stride = strides[static_cast<size_t>(i)];
    out.offset += axis.offset * stride;
    out.stride += axis.stride * stride;
    if (axis.base.empty()) continue;
    use(axis.base);
    expression += terms++ ? " + " + axis.base : axis.base;
    if (stride != 1) expression += " * " + index_literal(stride);
    out.multiple = std::gcd(out.multiple, axis.multiple * stride);
    out.level = std::max(out.level, axis.level);
  }
  if (expression.find(' ') == std::string::npos) {
    out.base = expression;
  } else {
    out.base = named(out.level, expression, out.multiple).base;
  }
  return out;
}

TextCoordinates RegionText::operand_coordinates(const ir::Op& op, int number,
                                                const TextCoordinates& at) {
  const ir::Shape &from = op.result().shape(), &to = op.operand(number).shape();
  TextCoordinates out = origin(to);
  switch (op.kind()) {
    case OpKind::Reshape: {  // only adds or removes axes of length 1
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
        TextIndex axis = at[i];
        if (steps[i] != 1 && !axis.base.empty()) {
          use(axis.base);
          axis.base = named(axis.level, axis.base + " * " + index_literal(steps[i]), 0).base;
        }
        axis.multiple *= steps[i];
        axis.stride *= steps[i];
        axis.offset = axis.offset * steps[i] + starts[i];
        out[i] = axis;
      }
      return out;
    }
    case OpKind::Flip: {
      out = at;
      for (int64_t flipped : op.ints_attr("axes")) {
        TextIndex& axis = out[static_cast<size_t>(flipped)];
        const int64_t last = to[static_cast<int>(flipped)] - 1 - axis.offset;
        axis.stride = -axis.stride;
        axis.offset = 0;
        if (axis.base.empty()) {
          axis.offset = last;
          continue;
        }
        use(axis.base);
        axis.multiple = std::gcd(axis.multiple, last);
        axis.base = named(axis.level, index_literal(last) + " - " + axis.base, 0).base;
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

// --- evaluation

RegionText::Text RegionText::eval(ir::Value value, const TextCoordinates& at) {
  if (auto it = presets_.find(value.def()); it != presets_.end()) return it->second;
  Key key{value.def(), at};
  // One element is the same everywhere.
  if (value.type().elements() == 1) key.second = origin(value.shape());
  for (auto level = known_.rbegin(); level != known_.rend(); ++level)
    if (auto it = level->find(key); it != level->end()) return it->second;
  const std::string outer = std::exchange(current_, named_after("v_", value));
  Text result = value.is_parameter() ? load(value, key.second) : eval_op(*value.op(), key.second);
  current_ = outer;
  known_[static_cast<size_t>(result.level)][key] = result;
  return result;
}

RegionText::Text RegionText::eval_to_store(ir::Value value, const TextCoordinates& at) {
  Text result = eval(value, at);
  if (const auto it = unrounded_.find(result.text);
      it != unrounded_.end() && it->second.first == value.dtype())
    result.text = it->second.second;
  return result;
}

void RegionText::preset(ir::Value value, const Text& computed) {
  const std::string outer = std::exchange(current_, named_after("v_", value));
  Text result = round(value.dtype(), computed);
  current_ = outer;
  flag(*value.op(), {}, computed, result);
  presets_[value.def()] = result;
}

void RegionText::eval_scalars() {
  for (ir::Value value : ir::scalar_values(kernel_)) eval(value, origin(value.shape()));
}

RegionText::Text RegionText::eval_op(const ir::Op& op, const TextCoordinates& at) {
  const DType dtype = op.result().dtype();
  switch (op.kind()) {
    case OpKind::Constant:
      return {fmt::format("s{}", slots_.at(&op)), Level::Thread};
    case OpKind::Iota: {
      const TextIndex& axis = at[static_cast<size_t>(op.int_attr("axis"))];
      const Level level = axis.stride != 0 ? Level::Lane : axis.level;
      return convert(DType::I64, dtype, {"(i64)" + index_text(axis), level});
    }
    case OpKind::Pad:
      return pad(op, at);
    case OpKind::Concat:
      return concat(op, at);
    case OpKind::Gather:
    case OpKind::TakeAlongAxis:
      return gather(op, at);
    case OpKind::Remap:
      return remap(op, at);
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
    case OpKind::RngAdvance: {  // [seed, step] -> [seed, step + 1]
      const Text value = eval(op.operand(0), at);
      const Level level = at[0].stride != 0 ? Level::Lane : std::max(value.level, at[0].level);
      return define(
          level, compute_type_name(dtype),
          fmt::format("wrap_add({}, {}({} == 1))", value.text, "(i64)", index_text(at[0])));
    }
    default:
      break;
  }
  MEZZO_CHECK(ir::is_elementwise(op.kind()),
              std::string("'") + op.info().name + "' cannot be evaluated at a point");
  std::vector<Text> operands;
  Level level = Level::Thread;
  for (int i = 0; i < op.num_operands(); ++i) {
    operands.push_back(eval(op.operand(i), operand_coordinates(op, i, at)));
    level = std::max(level, operands.back().level);
  }
  if (op.kind() == OpKind::CheckIndex) return check_index(op, operands[0]);
  const Text unrounded = compute(op, operands, level);
  bool exact = ir::needs_no_rounding(op.kind());
  // Casts of what is wider than f32 have rounded once already.
  if (op.kind() == OpKind::Cast) {
    const DType from = op.operand(0).dtype();
    exact = from == DType::F64 || !ir::is_float(from);
  }
  const Text result = exact ? unrounded : round(dtype, unrounded);
  flag(op, operands, unrounded, result);
  return result;
}

std::string RegionText::address(ir::Value parameter, const TextCoordinates& at) {
  return fmt::format("{} + {}", named_after("p_", parameter),
                     index_text(linear(parameter.shape(), at)));
}

RegionText::Text RegionText::load(ir::Value parameter, const TextCoordinates& at) {
  const TextIndex index = linear(parameter.shape(), at);
  const bool lanes_vary = index.stride != 0 && lanes_ > 1;
  if (kept_.iterations > 0 && index == kept_.linear) {
    const bool fits =
        kept_.arrays.contains(parameter.def()) || kept_.iterations * lanes_ <= kept_.budget;
    if (fits) return load_kept(parameter);
  }
  if (lanes_vary && index.stride == 1 && index.divisor() % lanes_ == 0)
    return load_vector(parameter, index);
  const Level level = lanes_vary ? Level::Lane : index.level;
  // A vector's own lanes end where the tensor does.
  MEZZO_CHECK(!lanes_vary || tail_.empty(), "a tail is read through an identity alone");
  return define(level, compute_type_name(parameter.dtype()),
                fmt::format("widen({}[{}])", named_after("p_", parameter), index_text(index)));
}

RegionText::Text RegionText::load_vector(ir::Value parameter, const TextIndex& index) {
  TextIndex first = index;
  first.stride = 0;
  return load_lanes(fmt::format("{} + {}", named_after("p_", parameter), index_text(first)),
                    parameter.dtype(), index.level);
}

RegionText::Text RegionText::load_lanes(const std::string& address, DType dtype, Level level) {
  const std::string array = unique("x" + current_.substr(1));
  SourceWriter& out = writer(level);
  use(tail_);
  out.line(fmt::format("{} {}[{}];", compute_type_name(dtype), array, lanes_));
  if (tail_.empty())
    out.line(fmt::format("load_vector<{}>({}, {});", lanes_, array, address));
  else
    out.line(fmt::format("load_tail<{}>({}, {}, {});", lanes_, array, address, tail_));
  return {array + "[j]", Level::Lane};
}

RegionText::Text RegionText::load_kept(ir::Value parameter) {
  auto [it, fresh] = kept_.arrays.try_emplace(parameter.def());
  if (fresh) {
    kept_.budget -= kept_.iterations * lanes_;
    it->second = unique(named_after("x_", parameter));
    for (const std::string& part : identifiers(kept_.place)) use(part);
    SourceWriter& out = writer(Level::Thread);
    out.line(fmt::format("{} {}[{}][{}];", compute_type_name(parameter.dtype()), it->second,
                         kept_.iterations, lanes_));
    for (const std::string& head : kept_.loop) {
      if (head.starts_with('#') || head.ends_with(';'))
        out.line(head);
      else
        out.open(head);
    }
    out.line(fmt::format("load_vector<{}>({}[it], {} + {});", lanes_, it->second,
                         named_after("p_", parameter), kept_.place));
    for (const std::string& head : kept_.loop)
      if (!head.starts_with('#') && !head.ends_with(';')) out.close();
  }
  return {it->second + (lanes_ > 1 ? "[it][j]" : "[it][0]"), Level::Lane};
}

void RegionText::keep_row(const TextIndex& linear, std::string place, int64_t iterations,
                          int64_t budget, std::vector<std::string> loop) {
  kept_.linear = linear;
  kept_.place = std::move(place);
  kept_.iterations = iterations;
  kept_.budget = budget;
  kept_.loop = std::move(loop);
}

}  // namespace mezzo::codegen
