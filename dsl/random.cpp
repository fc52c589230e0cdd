// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/random.h>

#include <mezzo/dsl/axes.h>
#include <mezzo/dsl/located.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo {

using detail::Trace;
using ir::OpKind;
using ir::Value;

namespace {

/// The random state and, where there is one, the offset.
std::vector<Value> sources(Trace& trace, const Tensor& offset, const char* what,
                           ir::Location location) {
  std::vector<Value> out{trace.rng(location)};
  if (offset.has_value()) out.push_back(trace.value(offset, what, location));
  return out;
}

Tensor draw(OpKind kind, const Dims& shape, DType dtype, const Tensor& offset, ir::Attrs attrs,
            ir::Location location) {
  const char* what = ir::to_string(kind);
  Trace& trace = Trace::require(what, location);
  const ir::Type type = detail::located(location, what, [&] {
    ir::to_string(dtype);
    return ir::Type(dtype, Shape(std::span<const int64_t>(shape)));
  });
  attrs.set("stream", trace.next_stream());
  std::vector<Value> operands = sources(trace, offset, what, location);
  return trace.tensor(
      trace.create(kind, operands, std::move(attrs), location, std::span(&type, 1))->result());
}

/// An op whose first operand is `x`.
Tensor draw_from(OpKind kind, const Operand& x, const Tensor& offset, ir::Attrs attrs) {
  Trace& trace = Trace::require(ir::to_string(kind), x.location());
  std::vector<Value> operands{detail::single(trace, kind, x)};
  for (Value source : sources(trace, offset, ir::to_string(kind), x.location()))
    operands.push_back(source);
  attrs.set("stream", trace.next_stream());
  return trace.tensor(trace.create(kind, operands, std::move(attrs), x.location())->result());
}

DType wide_of(DType dtype) { return dtype == f64 ? f64 : f32; }

Tensor in_type(const Tensor& value, DType dtype, ir::Location location) {
  if (value.dtype() == dtype) return value;
  Trace& trace = Trace::require("cast", location);
  return trace.tensor(trace.make(OpKind::Cast, {trace.value(value, "cast", location)},
                                 {{"reason", "random numbers are scaled in f32"}}, location,
                                 {value.type().with(dtype)}));
}

void check_float(const char* what, DType dtype, ir::Location location) {
  if (!ir::is_float(dtype))
    throw UserError(location,
                    fmt::format("{}: gives a float type, not {}", what, ir::to_string(dtype)),
                    "cast the result");
}

/// The largest number of `dtype` below `bound`: a step of more than half the distance to it, and no
/// more than the distance, is found by doubling.
double below(DType dtype, double bound) {
  const double number = ir::round_to(dtype, bound);
  double step = 0x1p-1074, next = number;
  for (; !(next < bound); step *= 2) next = ir::round_to(dtype, number - step);
  return next;
}

}  // namespace

Tensor random_uniform(Dims shape, DType dtype, ir::Location location) {
  return draw(OpKind::RandomUniform, shape, dtype, {}, {}, location);
}

Tensor random_normal(Dims shape, DType dtype, ir::Location location) {
  return draw(OpKind::RandomNormal, shape, dtype, {}, {}, location);
}

Tensor random_uniform(Dims shape, UniformOptions options, ir::Location location) {
  const auto [low, high, dtype, offset] = options;
  check_float("random_uniform", dtype, location);
  if (!(low < high) || !std::isfinite(ir::round_to(dtype, low)) ||
      !std::isfinite(ir::round_to(dtype, high)))
    throw UserError(location,
                    fmt::format("random_uniform: low {:g} and high {:g} are no range of {}", low,
                                high, ir::to_string(dtype)),
                    "low must be less than high, both finite, in that type");
  auto at = [&](auto value) { return Operand(value).at(location); };
  Tensor u = draw(OpKind::RandomUniform, shape, wide_of(dtype), offset, {}, location);
  // Two products where the length of the range is no number.
  const Tensor scaled =
      std::isfinite(ir::round_to(wide_of(dtype), high - low))
          ? add(at(mul(at(u), at(high - low))), at(low))
          : add(at(mul(at(u), at(high))), at(mul(at(sub(at(1.0), at(u))), at(low))));
  // Also a number of the type itself may round up to the end of the range.
  return minimum(at(in_type(scaled, dtype, location)), at(below(dtype, high)));
}

Tensor random_normal(Dims shape, NormalOptions options, ir::Location location) {
  const auto [mean, deviation, dtype, offset] = options;
  check_float("random_normal", dtype, location);
  if (!(deviation >= 0) || !std::isfinite(ir::round_to(dtype, deviation)) ||
      !std::isfinite(ir::round_to(dtype, mean)))
    throw UserError(location,
                    fmt::format("random_normal: mean {:g} and deviation {:g} are none of {}", mean,
                                deviation, ir::to_string(dtype)),
                    "the deviation must not be negative, both must be finite in that type");
  auto at = [&](auto value) { return Operand(value).at(location); };
  Tensor z = draw(OpKind::RandomNormal, shape, wide_of(dtype), offset, {}, location);
  return in_type(add(at(mul(at(z), at(deviation))), at(mean)), dtype, location);
}

Tensor bernoulli(Dims shape, double p, RandomOptions options, ir::Location location) {
  return draw(OpKind::Bernoulli, shape, boolean, options.offset, {{"p", p}}, location);
}

Tensor bernoulli(Operand p, RandomOptions options) {
  if (!p.is_tensor() || !ir::is_float(p.type().dtype))
    throw UserError(p.location(), "bernoulli: takes a float tensor of probabilities",
                    "bernoulli(shape, p) takes one number for all");
  Tensor u = draw(OpKind::RandomUniform, Dims(p.shape()), wide_of(p.type().dtype), options.offset,
                  {}, p.location());
  return lt(Operand(u, p.location()), p);
}

Tensor dropout(Operand x, double rate, RandomOptions options) {
  return draw_from(OpKind::Dropout, x, options.offset, {{"rate", rate}});
}

Tensor categorical(Operand logits, int64_t axis, RandomOptions options) {
  return draw_from(OpKind::Categorical, logits, options.offset,
                   {{"axis", detail::from_start(axis, logits.rank())}});
}

}  // namespace mezzo
