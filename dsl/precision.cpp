// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/precision.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cmath>

namespace mezzo {

Policy Policy::by_name(const std::string& name) {
  std::vector<std::string> known;
  for (const Policy& policy :
       {float32(), mixed_float16(), mixed_bfloat16(), float16(), bfloat16()}) {
    if (name == policy.name()) return policy;
    known.push_back(policy.name());
  }
  throw UserError({}, fmt::format("unknown policy '{}'{}", name, ir::did_you_mean(name, known)),
                  fmt::format("the policies are {}", fmt::join(known, ", ")));
}

namespace {

void check_power_of_two(const char* what, double value) {
  int exponent = 0;
  if (std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5 && exponent > -126 &&
      exponent <= 128)
    return;
  throw UserError({},
                  fmt::format("loss scale: {} must be a power of two in f32, not {}", what, value),
                  "with powers of two, scaling and unscaling are exact");
}

}  // namespace

std::string LossScale::options(const Policy& policy) const {
  if (!enabled(policy)) return "off";
  check_power_of_two("the initial scale", initial);
  check_power_of_two("growth", growth);
  check_power_of_two("backoff", backoff);
  check_power_of_two("floor", floor);
  check_power_of_two("ceiling", ceiling);
  // A static scale is a dynamic one that never moves.
  bool fixed = kind == Kind::Static;
  auto text = [](double value) {
    std::string out = fmt::format("{}", value);
    return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
  };
  return fmt::format("{{backoff = {}, ceiling = {}, floor = {}, growth = {}, interval = {}}}",
                     text(fixed ? 1 : backoff), text(fixed ? std::max(initial, ceiling) : ceiling),
                     text(fixed ? std::min(initial, floor) : floor), text(fixed ? 1 : growth),
                     interval);
}

}  // namespace mezzo
