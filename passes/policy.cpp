// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/policy.h>

#include <mezzo/ir/error.h>

#include <cmath>

namespace mezzo::passes {

using ir::DType;

namespace {

const std::vector<PrecisionPolicy>& policies() {
  static const std::vector<PrecisionPolicy> known{{"float32", DType::F32, DType::F32},
                                                  {"mixed_float16", DType::F16, DType::F32},
                                                  {"mixed_bfloat16", DType::BF16, DType::F32},
                                                  {"float16", DType::F16, DType::F16},
                                                  {"bfloat16", DType::BF16, DType::BF16}};
  return known;
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const PrecisionPolicy& policy : policies()) out.push_back(policy.name);
    return out;
  }();
  return names;
}

PrecisionPolicy policy_by_name(std::string_view name, ir::Location location) {
  for (const PrecisionPolicy& policy : policies())
    if (policy.name == name) return policy;
  std::string known;
  for (const std::string& each : policy_names()) known += (known.empty() ? "" : ", ") + each;
  throw UserError(
      location,
      "unknown policy '" + std::string(name) + "'" + ir::did_you_mean(name, policy_names()),
      "known policies: " + known);
}

void check_rounding(std::string_view rounding, ir::Location location) {
  if (rounding == "excess" || rounding == "as-written") return;
  throw UserError(location,
                  "unknown rounding '" + std::string(rounding) + "'" +
                      ir::did_you_mean(rounding, {"excess", "as-written"}),
                  "the rounding modes are excess and as-written");
}

bool can_overflow(DType from, DType to) {
  if (!ir::is_float(to)) return false;  // integers saturate
  double largest = 1;
  if (ir::is_float(from))
    largest = ir::largest_finite(from);
  else if (from != DType::Bool)
    largest = std::ldexp(1.0, static_cast<int>(8 * ir::byte_size(from)));
  return largest > ir::largest_finite(to);
}

LiteralLoss loss_of_literal(double value, ir::DType dtype) {
  if (!std::isfinite(value)) return LiteralLoss::None;
  const double rounded = ir::round_to(dtype, value);
  if (rounded == 0 && value != 0) return LiteralLoss::Zero;
  if (std::isinf(rounded)) return LiteralLoss::Infinite;
  return rounded == 1 && value != 1 ? LiteralLoss::One : LiteralLoss::None;
}

const char* to_string(LiteralLoss loss) {
  switch (loss) {
    case LiteralLoss::None:
      return "stays";
    case LiteralLoss::Zero:
      return "becomes 0";
    case LiteralLoss::Infinite:
      return "becomes infinite";
    case LiteralLoss::One:
      return "becomes 1";
  }
  return "";
}

}  // namespace mezzo::passes
