// SPDX-License-Identifier: Apache-2.0
// The bounds are those of normal numbers of f32: below them a product with the scale loses bits
// where subnormal numbers do, above them the scale is infinite.
#include <mezzo/ir/loss_scale.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <utility>

namespace mezzo::ir {

std::optional<ScaleFault> power_of_two_fault(std::string_view what, double value) {
  const bool within = value >= 0x1p-126 && value <= 0x1p127;
  int exponent = 0;
  if (within && std::frexp(value, &exponent) == 0.5) return {};
  std::string hint = "with powers of two, scaling and unscaling are exact";
  if (within) hint += fmt::format("; {} is the next below", std::ldexp(0.5, exponent));
  return ScaleFault{
      fmt::format("{} must be a power of two in [2^-126, 2^127], not {}", what, value), hint};
}

std::optional<ScaleFault> scale_rule_fault(const ScaleRule& rule) {
  for (auto [name, value] : {std::pair("growth", rule.growth), std::pair("backoff", rule.backoff),
                             std::pair("floor", rule.floor), std::pair("ceiling", rule.ceiling)})
    if (std::optional<ScaleFault> fault = power_of_two_fault(name, value)) return fault;
  if (rule.growth < 1)
    return ScaleFault{fmt::format("growth must be at least 1, not {}", rule.growth),
                      "the scale is multiplied by it after clean steps; 2 is usual"};
  if (rule.backoff > 1)
    return ScaleFault{fmt::format("backoff must be at most 1, not {}", rule.backoff),
                      "the scale is multiplied by it after an overflow; 0.5 is usual"};
  const char* steps = "so many clean steps stand between two growths; 2000 is usual";
  if (!(rule.interval >= 1 && rule.interval <= INT32_MAX))
    return ScaleFault{fmt::format("interval must lie in [1, {}], not {}", INT32_MAX, rule.interval),
                      steps};
  if (rule.interval != std::floor(rule.interval))
    return ScaleFault{
        fmt::format("interval must be a whole number of steps, not {}", rule.interval), steps};
  if (rule.floor > rule.ceiling)
    return ScaleFault{fmt::format("floor {} is above the ceiling {}", rule.floor, rule.ceiling),
                      "exchange them"};
  return {};
}

}  // namespace mezzo::ir
