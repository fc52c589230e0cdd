// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/scalar_eval.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/host_activation.h>
#include <mezzo/ir/host_division.h>
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/sizes.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace mezzo::ir {

namespace {

/// Whether operands of such a row may be floats, or integers and bools.
template <class T>
constexpr bool enters(TypeRule rule) {
  constexpr bool kFloat = std::is_same_v<T, double>;
  switch (rule) {
    case TypeRule::SameFloat:
    case TypeRule::PredicateFloat:
      return kFloat;
    case TypeRule::SameInteger:
    case TypeRule::Logical:
      return !kFloat;
    case TypeRule::None:
      return false;
    default:
      return true;
  }
}

template <class T>
T evaluate(OpKind kind, std::span<const T> operands) {
  T x = operands.empty() ? T() : operands[0];
  [[maybe_unused]] T y = operands.size() > 1 ? operands[1] : T();
  [[maybe_unused]] T z = operands.size() > 2 ? operands[2] : T();
  switch (kind) {
#define ELEMENTWISE(Kind, name, names, types, gradient, precision, growth, traits, domain, host) \
  case OpKind::Kind:                                                                             \
    if constexpr (enters<T>(TypeRule::types)) return static_cast<T>(host);                       \
    break;
#include <mezzo/ir/ops.def>
    default:
      break;
  }
  throw InternalError(std::string(to_string(kind)) + " has no value on " +
                      (std::is_same_v<T, double> ? "floats" : "integers"));
}

}  // namespace

double eval_scalar(OpKind kind, std::span<const double> operands) {
  return evaluate<double>(kind, operands);
}

int64_t eval_scalar(OpKind kind, std::span<const int64_t> operands) {
  return evaluate<int64_t>(kind, operands);
}

double eval_add_n(DType dtype, std::span<const double> operands) {
  DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  if (operands.size() > kTermsOfSum) {
    std::vector<double> sums;
    for (size_t first = 0; first < operands.size(); first += kTermsOfSum) {
      const size_t count = std::min(kTermsOfSum, operands.size() - first);
      sums.push_back(eval_add_n(wide, operands.subspan(first, count)));
    }
    return eval_add_n(wide, sums);
  }
  double sum = operands[0];
  for (double term : operands.subspan(1)) sum = round_to(wide, sum + term);
  return sum;
}

bool at_pole(OpKind kind, std::span<const double> operands) {
  return std::ranges::any_of(op_info(kind).poles, [&](const Pole& pole) {
    if (operands[static_cast<size_t>(pole.operand)] != pole.value) return false;
    if (pole.other < 0) return true;
    const double other = operands[static_cast<size_t>(pole.other)];
    return pole.when == PoleWhen::Negative ? other < 0 : other != 0;
  });
}

double integer_to_float(DType dtype, int64_t value) {
  bool negative = value < 0;
  uint64_t magnitude = negative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (dtype != DType::F64) {
    // Narrower types round from a double; bits that a double cannot hold are kept as one sticky
    // bit, so that only the last rounding decides.
    int excess = static_cast<int>(std::bit_width(magnitude)) - 53;
    if (excess > 0) {
      uint64_t dropped = magnitude & ((uint64_t{1} << excess) - 1);
      magnitude -= dropped;
      if (dropped) magnitude |= uint64_t{1} << excess;
    }
  }
  double wide = static_cast<double>(magnitude);
  return round_to(dtype, negative ? -wide : wide);
}

}  // namespace mezzo::ir
