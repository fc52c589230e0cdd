// SPDX-License-Identifier: Apache-2.0
// Bounds: exact rows none; elementwise rows in units in the last place; sums, means and products by
// the blocked summation in the accumulator; composites by the error of their exponential's
// argument; updates by the sum of their terms' magnitudes. The reference is the interpreter on f64
// copies of the operands, which rounds nothing.
#include <fuzz/judge.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <support/run_op.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fuzz/judge_axis.h>
#include <fuzz/judge_losses.h>
#include <fuzz/judge_norms.h>
#include <fuzz/judge_recurrent.h>
#include <limits>

namespace mezzo::test {

using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Type;
using Tensors = std::vector<InterpreterTensor>;

namespace {

/// log2 of the smallest step of the type.
int smallest_exponent(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return -1074;
    case DType::F32:
      return -149;
    case DType::F16:
      return -24;
    default:
      return -133;
  }
}

/// One unit in the last place of `dtype` at `value`.
double step_at(DType dtype, double value) {
  int digits = 1 - static_cast<int>(std::log2(ir::unit_roundoff(dtype))) - 1;
  int exponent = value == 0 || !std::isfinite(value) ? -2000 : std::ilogb(value) - digits + 1;
  return std::ldexp(1.0, std::max(exponent, smallest_exponent(dtype)));
}

/// The learning rate among the operands, which is f32 whatever the others are; -1 if there is none.
int rate_operand(OpKind kind) { return kind == OpKind::Sgd ? 2 : kind == OpKind::Adam ? 5 : -1; }

/// f64 copies; of magnitudes a rate is negative, so that nothing cancels.
Tensors wide_copies(const ir::Op& op, const Tensors& tensors, bool magnitudes = false) {
  Tensors wide = tensors;
  for (size_t i = 0; i < wide.size(); ++i) {
    InterpreterTensor& tensor = wide[i];
    if (!tensor.holds_floats()) continue;
    bool rate = static_cast<int>(i) == rate_operand(op.kind());
    if (!rate) tensor.type.dtype = DType::F64;
    if (magnitudes)
      for (double& value : tensor.floats) value = rate ? -std::fabs(value) : std::fabs(value);
  }
  return wide;
}

ir::Attrs without_word(const ir::Op& op) {
  ir::Attrs attrs = op.attrs();
  attrs.erase("word");
  return attrs;
}

/// With results of the types that the op has, or of `dtype` on wide copies of the operands.
InterpreterTensor reference(const ir::Op& op, const Tensors& operands, DType dtype, int result) {
  std::vector<Type> declared;
  for (ir::Value value : op.results())
    declared.push_back(dtype == DType::F64 && ir::is_float(value.dtype()) ? value.type().with(dtype)
                                                                          : value.type());
  return run_op(op.kind(), operands, without_word(op), declared)
      .results.at(static_cast<size_t>(result));
}

/// What a product of bf16 may lose where subnormal operands and sums of `terms` products are taken
/// for 0, for each element of the result.
std::vector<double> flushed_parts(const ir::Op& op, const Tensors& operands, int result,
                                  double terms) {
  Tensors all = wide_copies(op, operands, true), normal = all;
  for (InterpreterTensor& tensor : normal)
    for (double& value : tensor.floats)
      if (value < 0x1p-126) value = 0;
  std::vector<double> sums = reference(op, all, DType::F64, result).floats;
  const std::vector<double> kept = reference(op, normal, DType::F64, result).floats;
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = (std::isfinite(sums[i]) ? sums[i] - kept[i] : 0) + terms * 0x1p-126;
  return sums;
}

/// The bound of an elementwise row in units in the last place; special regions are in `bounds`.
double elementwise_ulps(OpKind kind, DType dtype) {
  if (dtype == DType::F64) return 4;
  if (ir::is_16bit(dtype)) return 1;
  return ir::op_info(kind).f32_ulps;
}

/// For each element of a row the size of the terms of which its value is the difference, where that
/// can cancel; else 0.
std::vector<double> cancelling_terms(const ir::Op& op, const Tensors& operands, size_t count) {
  std::vector<double> terms(count);
  if (op.kind() == OpKind::LogAddExp) {
    InterpreterTensor larger = eval_op(OpKind::Maximum, wide_copies(op, operands));
    for (size_t i = 0; i < count; ++i) terms[i] = std::max(0.0, -larger.floats[i]);
  }
  if (op.kind() != OpKind::Lgamma && op.kind() != OpKind::Digamma) return terms;
  for (size_t i = 0; i < count; ++i) {
    double x = operands[0].floats[i], to_integer = std::fabs(x - std::nearbyint(x));
    int sign = 0;
    if (!std::isfinite(x) || to_integer == 0) continue;
    if (op.kind() == OpKind::Lgamma)
      terms[i] = x < -2 ? std::fabs(lgamma_r(-x, &sign)) : 0;
    else
      terms[i] = x < 0 ? std::max(std::log(2 - x), 1 / to_integer) : 0;
  }
  return terms;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Absolute bound for each element of the result.
std::vector<double> bounds(const ir::Op& op, const Tensors& operands,
                           const InterpreterTensor& wanted, int result) {
  DType dtype = op.result(result).dtype();
  bool wide = dtype == DType::F64;
  double unit = ir::unit_roundoff(wide ? DType::F64 : DType::F32);
  size_t count = static_cast<size_t>(wanted.elements());
  std::vector<double> out(count);
  auto rounding = [&](size_t i) { return 0.5 * step_at(dtype, wanted.number(int64_t(i))); };
  std::optional<std::vector<double>> errors = loss_errors(op, operands);
  if (!errors) errors = attention_errors(op, operands, result);
  if (!errors) errors = norm_errors(op, operands, result);
  if (errors) {
    const double least = std::ldexp(16.0, smallest_exponent(wide ? DType::F64 : DType::F32));
    for (size_t i = 0; i < count; ++i) out[i] = rounding(i) + unit * (*errors)[i] + least;
    return out;
  }
  std::optional<std::vector<double>> known = axis_bounds(op, operands, wanted);
  if (!known) known = recurrent_bounds(op, operands, result);
  if (known) {
    for (size_t i = 0; i < count; ++i) out[i] = rounding(i) + (*known)[i];
    return out;
  }
  switch (op.kind()) {
    case OpKind::ConvGradInput:
    case OpKind::ConvGradWeight:
      // Padding may meet what is infinite, or not.
      for (const InterpreterTensor& operand : operands)
        if (!operand.all_finite()) {
          std::fill(out.begin(), out.end(), HUGE_VAL);
          return out;
        }
      [[fallthrough]];
    case OpKind::Conv:
    case OpKind::AvgPool:
    case OpKind::AvgPoolGrad:
    case OpKind::MaxPoolGrad:
    case OpKind::UpsampleLinear:
    case OpKind::UpsampleLinearGrad:
    case OpKind::UpsampleNearestGrad: {
      // Sums of products; of a maximum's gradient only the cotangents are terms.
      Tensors sizes = wide_copies(op, operands, op.kind() != OpKind::MaxPoolGrad);
      for (double& value : sizes.back().floats) value = std::fabs(value);
      InterpreterTensor sums = reference(op, sizes, DType::F64, result);
      double terms = 16, greatest = 0;
      for (const InterpreterTensor& operand : operands) {
        terms = std::max(terms, static_cast<double>(operand.elements()));
        for (double value : operand.floats)
          if (std::isfinite(value)) greatest = std::max(greatest, std::fabs(value));
      }
      double least = std::ldexp(terms, smallest_exponent(wide ? DType::F64 : DType::F32));
      // Products on matrix units may flush subnormal operands.
      if (operands[0].type.dtype == DType::BF16) least += 0x1p-126 * greatest * terms;
      // A mean is a sum first, which may leave the accumulator's range.
      const double of_mean = op.kind() == OpKind::AvgPool ? terms : 1;
      for (size_t i = 0; i < count; ++i) {
        out[i] = rounding(i) + unit * (256 + std::log2(terms)) * sums.floats[i] + least;
        if (sums.floats[i] * of_mean > (wide ? 0x1p1020 : 0x1p125)) out[i] = HUGE_VAL;
      }
      return out;
    }
    case OpKind::Sum:
    case OpKind::Mean:
    case OpKind::Matmul:
    case OpKind::ScatterAdd:
    case OpKind::AddAlongAxis: {
      InterpreterTensor sums = reference(op, wide_copies(op, operands, true), DType::F64, result);
      double terms = 1;
      if (op.kind() == OpKind::Matmul) {
        const ir::Shape& a = operands[0].type.shape;
        terms = static_cast<double>(a[a.rank() - (op.bool_attr("transpose_a") ? 2 : 1)]);
      } else if (operands.size() > 2) {
        terms = static_cast<double>(operands[2].elements());
      } else if (count > 0) {
        terms = static_cast<double>(operands[0].elements()) / static_cast<double>(count);
      }
      double roundings = 256 + std::log2(std::max(terms, 1.0)) +
                         (operands.size() > 2 || op.kind() == OpKind::Mean);
      // The reference of an f64 sum is one, term after term.
      if (wide) roundings += terms;
      std::vector<double> flushed(count);
      if (op.kind() == OpKind::Matmul && operands[0].type.dtype == DType::BF16)
        flushed = flushed_parts(op, operands, result, terms);
      for (size_t i = 0; i < count; ++i)
        out[i] = rounding(i) + unit * roundings * sums.floats[i] + flushed[i] +
                 std::ldexp(terms, smallest_exponent(wide ? DType::F64 : DType::F32));
      // A mean whose sum leaves the accumulator's range may be anything.
      for (size_t i = 0; i < count && op.kind() == OpKind::Mean; ++i)
        if (sums.floats[i] * terms >= (wide ? 0x1p1020 : 0x1p125))
          out[i] = std::numeric_limits<double>::infinity();
      return out;
    }
    case OpKind::Softmax:
    case OpKind::LogSoftmax: {
      // Arguments of exp below -104 give 0, so that their rounding costs at most 104 units; a sum
      // costs as above. Differences are taken of numbers as large as the operands.
      double largest = 0, terms = static_cast<double>(operands[0].elements());
      for (const InterpreterTensor& operand : operands)
        for (double value : operand.floats)
          if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
      double roundings = 1024 + std::log2(std::max(terms, 1.0));
      bool probability = op.kind() == OpKind::Softmax;
      double scale = 1 + largest;
      for (size_t i = 0; i < count; ++i) {
        double value = std::fabs(wanted.floats[i]);
        out[i] = rounding(i) + unit * roundings * (probability ? value : scale) +
                 std::ldexp(1.0, smallest_exponent(wide ? DType::F64 : DType::F32));
        if (std::isnan(out[i])) out[i] = 0;
      }
      return out;
    }
    case OpKind::SoftmaxGrad:
    case OpKind::LogSoftmaxGrad: {
      // (|dy| + Σ |dy y|) |y|, or |dy| + e^y Σ |dy|; an exponential costs at most 16 units more.
      bool direct = op.kind() == OpKind::SoftmaxGrad;
      Tensors sizes = wide_copies(op, operands, true);
      const std::vector<double>&y = operands[0].floats, &dy = sizes[1].floats;
      InterpreterTensor parts = sizes[1];
      for (size_t i = 0; i < count; ++i)
        if (direct) parts.floats[i] = dy[i] == 0 ? 0 : dy[i] * sizes[0].floats[i];
      InterpreterTensor sums = eval_op(
          OpKind::Sum, {parts},
          {{"axes", ir::Attr(std::vector{op.int_attr("axis")})}, {"keepdims", ir::Attr(true)}});
      std::vector<int64_t> dims(parts.type.shape.begin(), parts.type.shape.end());
      sums = eval_op(OpKind::BroadcastTo, {sums}, {{"shape", ir::Attr(dims)}});
      double terms = static_cast<double>(dims[static_cast<size_t>(op.int_attr("axis"))]);
      double roundings = 256 + 16 + std::log2(std::max(terms, 1.0));
      double least = std::ldexp(terms + 4, smallest_exponent(wide ? DType::F64 : DType::F32));
      for (size_t i = 0; i < count; ++i) {
        double size = direct ? (dy[i] + sums.floats[i]) * std::fabs(y[i])
                             : dy[i] + std::exp(y[i]) * sums.floats[i];
        // A sum that leaves the accumulator's range may give anything.
        bool leaves = dy[i] + sums.floats[i] >= (wide ? 0x1p1020 : 0x1p125);
        out[i] = leaves ? std::numeric_limits<double>::infinity()
                        : rounding(i) + unit * roundings * size + least;
      }
      return out;
    }
    case OpKind::Sgd:
    case OpKind::Adam: {
      InterpreterTensor sums = reference(op, wide_copies(op, operands, true), DType::F64, result);
      double least = std::ldexp(4.0, smallest_exponent(wide ? DType::F64 : DType::F32));
      for (size_t i = 0; i < count; ++i) out[i] = rounding(i) + 16 * unit * sums.floats[i] + least;
      return out;
    }
    case OpKind::RandomNormal:
      for (size_t i = 0; i < count; ++i)
        out[i] = ir::is_16bit(dtype) ? step_at(dtype, wanted.floats[i])
                                     : 9 * unit * std::fabs(wanted.floats[i]);
      return out;
    default:
      break;
  }
  MEZZO_CHECK(ir::is_elementwise(op.kind()),
              std::string("no bound is known for '") + op.info().name + "'");
  double ulps = elementwise_ulps(op.kind(), dtype);
  std::vector<double> cancelling = cancelling_terms(op, operands, count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = ulps * step_at(dtype, wanted.floats[i]);
    if (std::isfinite(cancelling[i]))
      out[i] = std::max(out[i], 4 * unit * cancelling[i] + (cancelling[i] > 0) * rounding(i));
    if (op.kind() != OpKind::Gelu && op.kind() != OpKind::GeluGrad) continue;
    double x = operands[0].floats[i];
    if (!std::isfinite(x)) continue;
    double density = 0.3989422804014327 * std::exp(-x * x / 2);
    double terms = op.kind() == OpKind::GeluGrad ? normal_cdf(x) + std::fabs(x) * density
                   : x < -1                      ? -x * std::max(normal_cdf(x), unit)
                                                 : 0;
    if (op.kind() == OpKind::GeluGrad) terms = std::max(terms, unit);
    out[i] = std::max(out[i], 4 * unit * terms + rounding(i));
  }
  return out;
}

/// |got - wanted| against a bound where either may be infinite because of the type's limit, or
/// because a partial sum left the range of the accumulator.
double share(DType dtype, double got, double wanted, double bound) {
  double rounded = ir::round_to(dtype, wanted);
  if (ir::same_bits(got, rounded)) return 0;
  if (std::isnan(bound) || std::isinf(bound)) return 0;
  if (std::isnan(got) || std::isnan(wanted)) return std::numeric_limits<double>::infinity();
  double limit = ir::largest_finite(dtype) * (1 + ir::unit_roundoff(dtype));
  double a = std::isinf(got) ? std::copysign(limit, got) : got;
  double b = std::isinf(wanted) ? std::copysign(limit, wanted) : std::clamp(wanted, -limit, limit);
  if (a == b && (a != 0 || bound > 0)) return 0;
  return bound > 0 ? std::fabs(a - b) / bound : std::numeric_limits<double>::infinity();
}

/// Whether the sum of magnitudes leaves the range of an f32 accumulator somewhere.
bool may_overflow(const ir::Op& op, double bound) {
  double unit = op.result().dtype() == DType::F64 ? 0x1p-53 : 0x1p-24;
  double limit = op.result().dtype() == DType::F64 ? 0x1p1023 : 0x1p128;
  return !ir::is_elementwise(op.kind()) && bound / (unit * 256) >= limit / 8;
}

}  // namespace

double ulp_distance(DType dtype, double got, double wanted) {
  if (ir::same_bits(got, ir::round_to(dtype, wanted)) && !std::isfinite(got)) return 0;
  if (!std::isfinite(got) || !std::isfinite(wanted)) {
    // The limit of the type lies between them.
    double limit = ir::largest_finite(dtype);
    if (std::isnan(got) || std::isnan(wanted)) return std::numeric_limits<double>::infinity();
    if (std::isinf(got)) got = std::copysign(limit + step_at(dtype, limit), got);
    if (std::isinf(wanted)) wanted = std::copysign(limit + step_at(dtype, limit), wanted);
  }
  return std::fabs(got - wanted) / step_at(dtype, wanted);
}

bool is_exact(const ir::Op& op) {
  if (op.kind() == OpKind::Categorical) return false;  // by logarithms
  return op.info().has(ir::Trait::Exact) || !ir::is_float(op.result().dtype()) ||
         op.kind() == OpKind::RandomUniform || op.kind() == OpKind::ScaleUpdate;
}

Judgement judge(const ir::Op& op, const Tensors& operands, const InterpreterTensor& got,
                int result) {
  Judgement out;
  DType dtype = op.result(result).dtype();
  InterpreterTensor rounded = reference(op, operands, op.result().dtype(), result);
  if (op.kind() == OpKind::Categorical) {
    out.difference = judge_categorical(op, operands, got);
    return out;
  }
  if (is_exact(op)) {
    out.difference = describe_difference(got, rounded);
    return out;
  }
  InterpreterTensor wanted = op.kind() == OpKind::RandomNormal
                                 ? rounded
                                 : reference(op, wide_copies(op, operands), DType::F64, result);
  std::vector<double> allowed = bounds(op, operands, wanted, result);
  bool row = ir::is_elementwise(op.kind());
  for (int64_t i = 0; i < got.elements(); ++i) {
    double bound = allowed[static_cast<size_t>(i)], a = got.number(i), b = wanted.number(i);
    if (may_overflow(op, bound)) continue;
    double error = share(dtype, a, b, bound);
    out.worst = std::max(out.worst, error);
    if (row) {
      out.worst_ulp = std::max(out.worst_ulp, ulp_distance(dtype, a, b));
      out.not_correct += !ir::same_bits(a, rounded.number(i));
    }
    if (error <= 1 || !out.difference.empty()) continue;
    out.difference = fmt::format("element {} is {} ({:a}), not {} ({:a}): {:.3g} bounds of {:.3g}",
                                 i, a, a, b, b, error, bound);
    if (row)
      for (const InterpreterTensor& operand : operands)
        if (operand.elements() == got.elements())
          out.difference +=
              fmt::format(", operand {} ({:a})", operand.number(i), operand.number(i));
  }
  return out;
}

}  // namespace mezzo::test
