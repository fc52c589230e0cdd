// SPDX-License-Identifier: Apache-2.0
#include <support/random_graph_windows.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/recurrent.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

using Ints = std::vector<int64_t>;

/// What one call makes, in order.
struct Made {
  const GraphTools& tools;
  std::vector<Value> values = {};

  Value keep(Value value) {
    values.push_back(value);
    return value;
  }
  Value reshaped(Value x, const Ints& dims) {
    const Shape to(dims);
    if (x.shape() == to) return x;
    return keep(tools.builder.make(OpKind::Reshape, {x}, {{"shape", Attr(dims)}}));
  }
  /// Numbers of that type: the first elements of a value that has as many, else equal ones.
  Value numbers(const Type& type) {
    Value from = tools.any_value(
        [&](Value v) { return v.dtype() == type.dtype && v.type().elements() >= type.elements(); });
    if (!from || tools.chance(15))
      return keep(tools.builder.constant(type, 0.25 * static_cast<double>(tools.below(9) - 2)));
    Value flat = reshaped(from, {from.type().elements()});
    Value first = keep(tools.builder.make(OpKind::Slice, {flat},
                                          {{"starts", Attr(Ints{0})},
                                           {"ends", Attr(Ints{type.elements()})},
                                           {"steps", Attr(Ints{1})}}));
    return reshaped(first, Ints(type.shape.begin(), type.shape.end()));
  }
  /// What was made, with the results of the op; as far as it came where the shape rule refuses it.
  std::vector<Value> with(OpKind kind, const std::vector<Value>& operands, const Attrs& attrs) {
    try {
      for (Value result : tools.builder.create(kind, operands, attrs)->results()) keep(result);
    } catch (const UserError&) {
      // A window larger than what it is moved over.
    }
    return values;
  }
};

Value float_value(const GraphTools& tools, int least_rank, int64_t most_elements) {
  return tools.any_value([&](Value v) {
    return ir::is_float(v.dtype()) && v.type().rank() >= least_rank &&
           v.type().elements() <= most_elements;
  });
}

/// The value as [batch, places ..., channels] with one axis of places or two.
Value as_places(Made& made, Value x) {
  const Shape& shape = x.shape();
  switch (shape.rank()) {
    case 1:
      return made.reshaped(x, {1, shape[0], 1});
    case 2:
      return made.reshaped(x, {1, shape[0], shape[1]});
    case 3:
      return made.tools.chance(50) ? x : made.reshaped(x, {1, shape[0], shape[1], shape[2]});
    default:
      return x;
  }
}

}  // namespace

std::vector<Value> random_window(const GraphTools& tools) {
  static constexpr OpKind kKinds[] = {OpKind::Conv,
                                      OpKind::Conv,
                                      OpKind::MaxPool,
                                      OpKind::AvgPool,
                                      OpKind::UpsampleNearest,
                                      OpKind::UpsampleLinear};
  const OpKind kind = kKinds[tools.below(std::size(kKinds))];
  Value source = float_value(tools, 1, 1200);
  if (!source || source.type().rank() > 4) return {};
  Made made{tools};
  const Value x = as_places(made, source);
  const int axes = x.type().rank() - 2;
  const int64_t channels = x.shape()[axes + 1];
  Ints window, strides, low, high, dilations, size;
  for (int axis = 0; axis < axes; ++axis) {
    window.push_back(1 + tools.below(3));
    strides.push_back(1 + tools.below(2));
    low.push_back(tools.below(window.back()));
    high.push_back(tools.below(window.back()));
    dilations.push_back(tools.chance(75) ? 1 : 2);
    size.push_back(1 + tools.below(2 * x.shape()[axis + 1] + 1));
  }
  if (kind == OpKind::UpsampleNearest) return made.with(kind, {x}, {{"size", Attr(size)}});
  if (kind == OpKind::UpsampleLinear)
    return made.with(kind, {x}, {{"size", Attr(size)}, {"align_corners", tools.chance(40)}});
  Attrs attrs{{"strides", Attr(strides)}, {"low", Attr(low)}, {"high", Attr(high)}};
  if (kind == OpKind::AvgPool) attrs.set("count_include_pad", tools.chance(50));
  if (kind != OpKind::Conv) attrs.set("window", Attr(window));
  if (kind != OpKind::AvgPool) attrs.set("dilations", Attr(dilations));
  if (kind != OpKind::Conv) return made.with(kind, {x}, attrs);
  const int64_t groups = channels % 2 == 0 && channels > 0 && tools.chance(30) ? 2 : 1;
  Ints dims{groups * (1 + tools.below(3))};
  dims.insert(dims.end(), window.begin(), window.end());
  dims.push_back(channels / groups);
  attrs.set("groups", groups);
  return made.with(kind, {x, made.numbers(x.type().with(Shape(dims)))}, attrs);
}

std::vector<Value> random_norm(const GraphTools& tools) {
  static constexpr OpKind kKinds[] = {OpKind::LayerNorm, OpKind::RmsNorm, OpKind::GroupNorm,
                                      OpKind::BatchNorm, OpKind::BatchNormInference};
  const OpKind kind = kKinds[tools.below(std::size(kKinds))];
  const bool by_rows = kind == OpKind::LayerNorm || kind == OpKind::RmsNorm;
  Value x = float_value(tools, by_rows ? 1 : 2, 8000);
  if (!x) return {};
  Made made{tools};
  const int rank = x.type().rank();
  const int64_t axis = by_rows ? tools.below(rank) : rank - 1;
  const Shape parameter(x.shape().dims().subspan(static_cast<size_t>(axis)));
  Attrs attrs;
  if (by_rows) attrs.set("axis", axis);
  if (kind == OpKind::GroupNorm) attrs.set("groups", x.shape()[rank - 1] % 2 == 0 ? 2 : 1);
  std::vector<Value> operands{x};
  if (kind == OpKind::BatchNormInference) {
    const Type statistic(ir::default_acc(x.dtype()), parameter);
    operands.push_back(made.numbers(statistic));
    operands.push_back(made.keep(tools.builder.make(OpKind::Square, {made.numbers(statistic)})));
  }
  const int64_t most = ir::op_info(kind).max_operands - static_cast<int64_t>(operands.size());
  for (int64_t more = tools.below(most + 1); more > 0; --more)
    operands.push_back(made.numbers(x.type().with(parameter)));
  return made.with(kind, operands, attrs);
}

std::vector<Value> random_sequence(const GraphTools& tools) {
  static constexpr OpKind kKinds[] = {OpKind::Rnn, OpKind::Lstm, OpKind::Gru};
  const OpKind kind = kKinds[tools.below(std::size(kKinds))];
  Value source = float_value(tools, 1, 400);
  if (!source) return {};
  Made made{tools};
  const DType dtype = source.dtype(), wide = ir::default_acc(dtype);
  const int64_t elements = source.type().elements();
  const int64_t in = 1 + tools.below(3), batch = 1 + tools.below(2), units = 1 + tools.below(3);
  const int64_t steps = std::min<int64_t>(elements / (in * batch), 4);
  // Bounded, as the inputs of sequences are: a state that jumps between its ends has no bound.
  Value bounded = made.keep(tools.builder.make(OpKind::Tanh, {source}));
  Value flat = made.reshaped(bounded, {elements});
  Value first = made.keep(tools.builder.make(OpKind::Slice, {flat},
                                             {{"starts", Attr(Ints{0})},
                                              {"ends", Attr(Ints{steps * batch * in})},
                                              {"steps", Attr(Ints{1})}}));
  std::vector<Value> operands{made.reshaped(first, {steps, batch, in})};
  const int64_t columns = ir::recurrent_cell(kind).gates * units;
  const auto add = [&](const Type& type) {
    operands.push_back(made.keep(tools.builder.make(OpKind::Sin, {made.numbers(type)})));
  };
  for (const std::string& name : ir::op_info(kind).operands) {
    if (name == "h0" || name == "c0") add(Type(wide, {batch, units}));
    if (name == "w") add(Type(dtype, {in, columns}));
    if (name == "u") add(Type(dtype, {units, columns}));
    if (name == "b" || name == "v") add(Type(wide, {columns}));
  }
  return made.with(kind, operands, {});
}

}  // namespace mezzo::test
