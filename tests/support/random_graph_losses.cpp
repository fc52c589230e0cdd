// SPDX-License-Identifier: Apache-2.0
#include <support/random_graph_losses.h>

namespace mezzo::test {

using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

Value float_value(const GraphTools& tools, int least_rank) {
  return tools.any_value([&](Value v) {
    return ir::is_float(v.dtype()) && v.type().rank() >= least_rank && v.type().elements() > 0;
  });
}

/// A value of exactly that type, else numbers made for it.
Value of_type(const GraphTools& tools, const Type& type) {
  Value found = tools.any_value([&](Value v) { return v.type() == type; });
  return found ? found
               : tools.builder.constant(type, 0.25 * static_cast<double>(tools.below(9) - 2));
}

void add_offset(const GraphTools& tools, std::vector<Value>& operands) {
  Value offset = tools.any_value([](Value v) { return v.type() == Type(DType::I64, Shape()); });
  if (offset && tools.chance(50)) operands.push_back(offset);
}

}  // namespace

std::vector<Value> random_loss(const GraphTools& tools) {
  static constexpr OpKind kKinds[] = {OpKind::CrossEntropyGrad,     OpKind::SoftCrossEntropy,
                                      OpKind::SoftCrossEntropyGrad, OpKind::Nll,
                                      OpKind::CrossEntropy,         OpKind::Bce,
                                      OpKind::BceWithLogits,        OpKind::KlDiv};
  const OpKind kind = kKinds[tools.below(std::size(kKinds))];
  const ir::OpInfo& info = ir::op_info(kind);
  const bool elements = !info.attribute("reduce");
  Value x = float_value(tools, elements ? 0 : 1);
  if (!x) return {};
  if (elements) {
    std::vector<Value> operands{x, of_type(tools, x.type())};
    if (kind == OpKind::BceWithLogits && tools.chance(50))
      operands.push_back(of_type(tools, x.type().with(Shape())));
    Attrs attrs;
    if (kind == OpKind::KlDiv) attrs.set("log_target", tools.chance(40));
    return {tools.builder.create(kind, operands, attrs)->result()};
  }
  static constexpr const char* kReduces[] = {"mean", "sum", "none"};
  const char* reduce = kReduces[tools.below(3)];
  const int axis = x.type().rank() - 1;
  std::vector<Value> made, operands{x};
  if (info.domain_of(1) == 'i') {
    made.push_back(tools.builder.make(OpKind::Argmax, {x}, {{"axis", axis}}));
    operands.push_back(made[0]);
  } else {
    operands.push_back(of_type(tools, x.type()));
  }
  if (info.operands[2] == "dloss") {
    const bool each = std::string_view(reduce) == "none";
    operands.push_back(of_type(tools, x.type().with(each ? x.shape().without(axis) : Shape())));
  }
  if (tools.chance(40)) {
    // Weights of classes have no gradient.
    Value weight = of_type(tools, x.type().with(Shape{x.shape()[axis]}));
    made.push_back(tools.builder.make(OpKind::StopGradient, {weight}));
    operands.push_back(made.back());
  }
  Attrs attrs{{"reduce", reduce}};
  if (info.attribute("label_smoothing"))
    attrs.set("label_smoothing", tools.chance(50) ? 0.0 : 0.125);
  if (info.attribute("ignore_index") && tools.chance(30)) attrs.set("ignore_index", int64_t{0});
  made.push_back(tools.builder.create(kind, operands, attrs)->result());
  return made;
}

/// The elements of a value as queries, keys and values of one head each.
std::vector<Value> random_attention(const GraphTools& tools) {
  Value x = tools.any_value([](Value v) {
    return ir::is_float(v.dtype()) && v.type().rank() > 0 && v.type().elements() <= 400;
  });
  if (!x) return {};
  const int64_t depth = x.shape()[x.type().rank() - 1];
  const int64_t length = depth == 0 ? 0 : x.type().elements() / depth;
  const std::vector<int64_t> dims{1, 1, length, depth};
  std::vector<Value> made{tools.builder.make(OpKind::Reshape, {x}, {{"shape", ir::Attr(dims)}})};
  Value keys = made[0];
  if (tools.chance(50)) made.push_back(keys = tools.builder.make(OpKind::Neg, {keys}));
  std::vector<Value> operands{made[0], keys, made[0]};
  Attrs attrs{{"scale", 0.25}, {"causal", tools.chance(40)}};
  Value mask = tools.any_value([&](Value v) {
    if (v.dtype() != DType::Bool && v.dtype() != ir::default_acc(x.dtype())) return false;
    std::optional<Shape> both = ir::broadcast(v.shape(), Shape{1, 1, length, length});
    return both && *both == Shape{1, 1, length, length};
  });
  if (mask && tools.chance(60)) {
    operands.push_back(mask);
    attrs.set("masked", true);
  }
  if (tools.chance(30)) {
    operands.push_back(tools.rng);
    add_offset(tools, operands);
    attrs.set("rate", 0.25);
    attrs.set("stream", 1 + tools.below(1000));
  }
  for (Value result : tools.builder.create(OpKind::Attention, operands, attrs)->results())
    made.push_back(result);
  return made;
}

std::vector<Value> random_draw(const GraphTools& tools) {
  const int64_t stream = tools.below(1000);
  const int64_t dice = tools.below(3);
  Value x = float_value(tools, dice == 1 ? 1 : 0);
  if (!x) return {};
  if (dice == 0) {
    std::vector<Value> operands{tools.rng};
    add_offset(tools, operands);
    const Type type(DType::Bool, x.shape());
    static constexpr double kShares[] = {0, 0.25, 0.9, 1};
    return {tools.builder
                .create(OpKind::Bernoulli, operands,
                        {{"p", kShares[tools.below(4)]}, {"stream", stream}}, std::span(&type, 1))
                ->result()};
  }
  std::vector<Value> operands{x, tools.rng};
  if (dice == 2) {
    add_offset(tools, operands);
    static constexpr double kRates[] = {0, 0.1, 0.5, 1};
    return {tools.builder
                .create(OpKind::Dropout, operands,
                        {{"rate", kRates[tools.below(4)]}, {"stream", stream}})
                ->result()};
  }
  const int64_t axis = tools.below(x.type().rank());
  if (axis != 0) add_offset(tools, operands);
  return {tools.builder.create(OpKind::Categorical, operands, {{"axis", axis}, {"stream", stream}})
              ->result()};
}

}  // namespace mezzo::test
