// SPDX-License-Identifier: Apache-2.0
// Losses with conventions of their own are ops of the table; the others are made of elementwise
// ops, which fuse into one kernel with the reduction behind them.
#include <mezzo/dsl/losses.h>

#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <functional>

namespace mezzo {

using detail::Trace;
using ir::Location;
using ir::OpKind;
using ir::Value;

namespace {

constexpr const char* kInF32 = "losses are computed in f32";

[[noreturn]] void unknown_reduce(const char* loss, std::string_view reduce, std::string_view known,
                                 Location location) {
  throw UserError(location, fmt::format("{}: reduce must be {}, not \"{}\"", loss, known, reduce));
}

Value converted(Trace& trace, Value value, DType dtype, Location location) {
  if (value.dtype() == dtype) return value;
  return trace.make(OpKind::Cast, {value}, {{"reason", kInF32}}, location,
                    {value.type().with(dtype)});
}

/// Where the numbers of a target are in the program, they are checked: `good` says what a target
/// may be, `what` in words.
void check_constant(const char* loss, Value target, const std::function<bool(double)>& good,
                    const char* what, Location location) {
  while (target.is(OpKind::Cast) || target.is(OpKind::Reshape) || target.is(OpKind::BroadcastTo))
    target = target.op()->operand(0);
  if (!target.is(OpKind::Constant)) return;
  const ir::Attr& value = *target.op()->attrs().find("value");
  auto check = [&](const ir::Attr& item) {
    if (double number = ir::scalar_value(target.dtype(), item); !good(number))
      throw UserError(location, fmt::format("{}: a target of {:g} is none", loss, number),
                      fmt::format("targets are {}", what));
  };
  if (value.is<ir::AttrList>())
    for (const ir::Attr& item : value.as<ir::AttrList>()) check(item);
  else if (!value.is<ir::Resource>())
    check(value);
}

bool is_probability(double t) { return t >= 0 && t <= 1; }
constexpr const char* kProbability = "probabilities, from 0 to 1";

/// Output and target of a loss of elements, in one float type of at least 32 bits.
struct Elements {
  const char* loss;
  Location location;
  Trace& trace;
  Value output, target;

  Elements(const char* name, const Operand& a, const Operand& b)
      : loss(name), location(a.location()), trace(Trace::require(name, location)) {
    // Sub says how the two are promoted.
    std::vector<Value> both = detail::promote(trace, OpKind::Sub, std::vector{a, b});
    if (!(both[0].shape() == both[1].shape()))
      throw UserError(location,
                      fmt::format("{}: output {} and target {} differ in shape", name,
                                  to_string(both[0].type()), to_string(both[1].type())),
                      "reshape one of them: they would be broadcast to each other");
    const DType dtype = both[0].dtype() == f64 ? f64 : f32;
    output = converted(trace, both[0], dtype, location);
    target = converted(trace, both[1], dtype, location);
  }

  Operand at(Value value) const { return {trace.tensor(value), location}; }
  Operand at(const Tensor& tensor) const { return {tensor, location}; }
  Operand at(double number) const { return Operand(number).at(location); }
  Operand difference() const { return at(sub(at(output), at(target))); }

  /// An op of the table on them.
  Tensor op(OpKind kind, ir::Attrs attrs = {}, const Tensor& third = {}) const {
    std::vector<Value> operands{output, target};
    if (third.has_value())
      operands.push_back(
          converted(trace, trace.value(third, loss, location), output.dtype(), location));
    return trace.tensor(trace.create(kind, operands, std::move(attrs), location)->result());
  }

  /// Weighted and reduced. A mean is over the number of elements, or with `by_weight` over Σ
  /// weight.
  Tensor reduced(Tensor each, std::string_view reduce, const Tensor& weight, bool by_weight) const {
    const Shape shape = each.shape();
    Operand heavy = at(each);
    if (weight.has_value()) {
      Value value = trace.value(weight, loss, location);
      heavy = at(converted(trace, value, output.dtype(), location));
      each = mul(at(each), heavy);
      if (!(each.shape() == shape))
        throw UserError(location,
                        fmt::format("{}: weight {} does not broadcast to the losses [{}]", loss,
                                    to_string(weight.type()), to_string(shape)),
                        "one number for each element, or axes of length 1");
    }
    if (reduce == "none") return each;
    if (reduce == "sum") return sum(at(each));
    if (reduce != "mean") unknown_reduce(loss, reduce, "\"mean\", \"sum\" or \"none\"", location);
    if (!weight.has_value() || !by_weight) return mean(at(each));
    Tensor total = sum(at(broadcast_to(heavy, shape)));
    Tensor none = eq(at(total), at(0.0));
    Tensor share = div(at(sum(at(each))), at(where(at(none), at(1.0), at(total))));
    return where(at(none), at(0.0), at(share));
  }
};

/// Operands of a loss with class labels.
std::vector<Value> class_operands(Trace& trace, OpKind kind, const Operand& x,
                                  const Operand& target, const Tensor& weight) {
  const Location location = x.location();
  std::vector<Value> operands{detail::single(trace, kind, x), detail::single(trace, kind, target)};
  if (operands[1].dtype() == u8) operands[1] = converted(trace, operands[1], i32, location);
  if (weight.has_value())
    operands.push_back(converted(trace, trace.value(weight, ir::to_string(kind), location),
                                 operands[0].dtype(), location));
  return operands;
}

void check_labels(const char* loss, const std::vector<Value>& operands, int64_t ignored,
                  Location location) {
  if (operands[0].type().rank() == 0) return;  // the shape rule tells
  const int64_t classes = operands[0].shape()[operands[0].type().rank() - 1];
  check_constant(
      loss, operands[1],
      [&](double label) {
        return label == static_cast<double>(ignored) ||
               (label >= 0 && label < static_cast<double>(classes));
      },
      "class indices, from 0 and less than the length of the last axis", location);
}

Tensor numbers(const std::vector<double>& values, Location location) {
  if (values.empty()) return {};
  return constant(values, {static_cast<int64_t>(values.size())}, f32, location);
}

}  // namespace

Tensor cross_entropy(Operand logits, Operand target, CrossEntropyOptions options) {
  const Location location = logits.location();
  Trace& trace = Trace::require("cross_entropy", location);
  ir::Attrs attrs{{"reduce", std::string(options.reduce)},
                  {"label_smoothing", options.label_smoothing}};
  const bool soft = target.is_tensor() && ir::is_float(target.type().dtype);
  const OpKind kind = soft ? OpKind::SoftCrossEntropy : OpKind::CrossEntropy;
  std::vector<Value> operands = class_operands(trace, kind, logits, target, options.weight);
  if (!soft) {
    check_labels("cross_entropy", operands, options.ignore_index, location);
    attrs.set("ignore_index", options.ignore_index);
  } else {
    if (options.ignore_index != CrossEntropyOptions().ignore_index)
      throw UserError(location,
                      fmt::format("cross_entropy: ignore_index {} is for class indices, not for "
                                  "probabilities {}",
                                  options.ignore_index, to_string(target.type())),
                      "rows that are to count for nothing have a target of zeros");
    check_constant("cross_entropy", operands[1], is_probability, kProbability, location);
    operands[1] = converted(trace, operands[1], operands[0].dtype(), location);
  }
  return trace.tensor(trace.create(kind, operands, std::move(attrs), location)->result());
}

Tensor nll(Operand x, Operand labels, NllOptions options) {
  const Location location = x.location();
  Trace& trace = Trace::require("nll", location);
  std::vector<Value> operands = class_operands(trace, OpKind::Nll, x, labels, options.weight);
  check_labels("nll", operands, options.ignore_index, location);
  return trace.tensor(
      trace
          .create(OpKind::Nll, operands,
                  {{"reduce", std::string(options.reduce)}, {"ignore_index", options.ignore_index}},
                  location)
          ->result());
}

Tensor bce(Operand probability, Operand target, BceOptions options) {
  Elements it("bce", probability, target);
  check_constant("bce", it.target, is_probability, kProbability, it.location);
  return it.reduced(it.op(OpKind::Bce), options.reduce, options.weight, false);
}

Tensor bce_with_logits(Operand logits, Operand target, BceWithLogitsOptions options) {
  Elements it("bce_with_logits", logits, target);
  check_constant("bce_with_logits", it.target, is_probability, kProbability, it.location);
  return it.reduced(it.op(OpKind::BceWithLogits, {}, options.pos_weight), options.reduce,
                    options.weight, false);
}

Tensor kl_div(Operand x, Operand target, KlDivOptions options) {
  Elements it("kl_div", x, target);
  if (!options.log_target)
    check_constant("kl_div", it.target, is_probability, kProbability, it.location);
  Tensor each = it.op(OpKind::KlDiv, {{"log_target", options.log_target}});
  if (options.reduce != "batchmean") {
    if (options.reduce != "mean" && options.reduce != "sum" && options.reduce != "none")
      unknown_reduce("kl_div", options.reduce, "\"mean\", \"batchmean\", \"sum\" or \"none\"",
                     it.location);
    return it.reduced(each, options.reduce, {}, false);
  }
  if (each.rank() == 0)
    throw UserError(it.location, "kl_div: reduce \"batchmean\" needs an axis of samples",
                    "\"mean\" of one element is the element");
  // Samples lie along axis 0: the mean over it of what each adds up to.
  if (each.rank() == 1) return mean(it.at(each));
  std::vector<int64_t> others;
  for (int axis = 1; axis < each.rank(); ++axis) others.push_back(axis);
  return mean(it.at(sum(it.at(each), Axes(others))));
}

// --- made of elementwise ops

Tensor mse_loss(Operand output, Operand target, ElementLossOptions options) {
  Elements it("mse", output, target);
  return it.reduced(square(it.difference()), options.reduce, options.weight, true);
}

Tensor l1_loss(Operand output, Operand target, ElementLossOptions options) {
  Elements it("l1", output, target);
  return it.reduced(abs(it.difference()), options.reduce, options.weight, true);
}

namespace {

/// c (d - c / 2) with c = min(d, delta) for d = |output - target|: no square leaves the range in
/// the linear part.
Tensor huber_of(const Elements& it, double delta) {
  Operand d = it.at(abs(it.difference()));
  Operand c = it.at(minimum(d, it.at(delta)));
  return mul(c, it.at(sub(d, it.at(mul(c, it.at(0.5))))));
}

void check_number(const char* loss, const char* name, double number, bool good, const char* wanted,
                  Location location) {
  if (!good)
    throw UserError(location,
                    fmt::format("{}: {} must be {}, not {:g}", loss, name, wanted, number));
}

}  // namespace

Tensor huber_loss(Operand output, Operand target, double delta, ElementLossOptions options) {
  Elements it("huber", output, target);
  check_number("huber", "delta", delta, delta > 0, "above 0", it.location);
  return it.reduced(huber_of(it, delta), options.reduce, options.weight, true);
}

Tensor smooth_l1_loss(Operand output, Operand target, double beta, ElementLossOptions options) {
  Elements it("smooth_l1", output, target);
  check_number("smooth_l1", "beta", beta, beta >= 0, "0 or more", it.location);
  Tensor each = beta == 0 ? abs(it.difference()) : div(it.at(huber_of(it, beta)), it.at(beta));
  return it.reduced(each, options.reduce, options.weight, true);
}

Tensor hinge_loss(Operand output, Operand target, double margin, ElementLossOptions options) {
  Elements it("hinge", output, target);
  check_constant(
      "hinge", it.target, [](double t) { return t == 1 || t == -1; }, "-1 and 1", it.location);
  Tensor ahead = mul(it.at(it.output), it.at(it.target));
  return it.reduced(relu(it.at(sub(it.at(margin), it.at(ahead)))), options.reduce, options.weight,
                    true);
}

Tensor cosine_similarity(Operand a, Operand b, int64_t axis, double eps) {
  const Location location = a.location();
  Trace& trace = Trace::require("cosine_similarity", location);
  check_number("cosine_similarity", "eps", eps, eps > 0, "above 0", location);
  std::vector<Value> both = detail::promote(trace, OpKind::Mul, std::vector{a, b});
  const DType dtype = both[0].dtype() == f64 ? f64 : f32;
  for (Value& value : both) value = converted(trace, value, dtype, location);
  auto at = [&](const Tensor& tensor) { return Operand(tensor, location); };
  auto number = [&](double value) { return Operand(value).at(location); };
  Operand x = at(trace.tensor(both[0])), y = at(trace.tensor(both[1]));
  auto length = [&](Operand v) {
    Tensor norm = sqrt(at(sum(at(square(v)), Axes(axis))));
    return at(maximum(at(norm), number(eps)));
  };
  Tensor dot = sum(at(mul(x, y)), Axes(axis));
  return div(at(div(at(dot), length(x))), length(y));
}

Tensor cosine_embedding_loss(Operand a, Operand b, Operand target, CosineEmbeddingOptions options) {
  Operand cosine(cosine_similarity(a, b), a.location());
  Elements it("cosine_embedding", cosine, target);
  check_constant(
      "cosine_embedding", it.target, [](double t) { return t == 1 || t == -1; }, "-1 and 1",
      it.location);
  Tensor apart = relu(it.at(sub(it.at(it.output), it.at(options.margin))));
  Tensor alike = eq(it.at(it.target), it.at(1.0));
  Tensor each = where(it.at(alike), it.at(sub(it.at(1.0), it.at(it.output))), it.at(apart));
  return it.reduced(each, options.reduce, {}, false);
}

namespace losses {

Tensor CrossEntropy::operator()(Operand logits, Operand target) const {
  return mezzo::cross_entropy(logits, target,
                              {.reduce = reduce,
                               .ignore_index = ignore_index,
                               .label_smoothing = label_smoothing,
                               .weight = numbers(class_weights, logits.location())});
}

Tensor Nll::operator()(Operand output, Operand labels) const {
  return mezzo::nll(output, labels,
                    {.reduce = reduce,
                     .ignore_index = ignore_index,
                     .weight = numbers(class_weights, output.location())});
}

Tensor Bce::operator()(Operand output, Operand target) const {
  return mezzo::bce(output, target, {.reduce = reduce});
}

Tensor BceWithLogits::operator()(Operand logits, Operand target) const {
  return mezzo::bce_with_logits(
      logits, target, {.reduce = reduce, .pos_weight = numbers(pos_weight, logits.location())});
}

Tensor KlDiv::operator()(Operand output, Operand target) const {
  return mezzo::kl_div(output, target, {.reduce = reduce, .log_target = log_target});
}

Tensor MeanSquaredError::operator()(Operand output, Operand target) const {
  return mse_loss(output, target, {.reduce = reduce});
}

Tensor L1::operator()(Operand output, Operand target) const {
  return l1_loss(output, target, {.reduce = reduce});
}

Tensor Huber::operator()(Operand output, Operand target) const {
  return huber_loss(output, target, delta, {.reduce = reduce});
}

Tensor SmoothL1::operator()(Operand output, Operand target) const {
  return smooth_l1_loss(output, target, beta, {.reduce = reduce});
}

Tensor Hinge::operator()(Operand output, Operand target) const {
  return hinge_loss(output, target, margin, {.reduce = reduce});
}

Tensor Cosine::operator()(Operand output, Operand target) const {
  const Location location = output.location();
  Operand cosine(cosine_similarity(output, target), location);
  Elements it("cosine", cosine, cosine);
  Tensor each = sub(it.at(1.0), cosine);
  return it.reduced(each, reduce, {}, false);
}

}  // namespace losses
}  // namespace mezzo
