// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/precision.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace mezzo {

Policy Policy::by_name(const std::string& name, ir::Location location) {
  std::vector<std::string> known;
  for (const Policy& policy :
       {float32(), mixed_float16(), mixed_bfloat16(), float16(), bfloat16()}) {
    if (name == policy.name()) return policy;
    known.push_back(policy.name());
  }
  throw UserError(location,
                  fmt::format("unknown policy '{}'{}", name, ir::did_you_mean(name, known)),
                  fmt::format("the policies are {}", fmt::join(known, ", ")));
}

namespace {

/// Fields of a loss scale as a program wrote them, by name.
class Checker {
 public:
  explicit Checker(ir::Location location) : location_(location) {}

  void power_of_two(const char* what, double value) const {
    int exponent = 0;
    if (std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5 &&
        exponent > -126 && exponent <= 128)
      return;
    fail(fmt::format("{} must be a power of two in f32, not {}", what, value),
         "with powers of two, scaling and unscaling are exact");
  }
  void check(bool good, const std::string& what, const char* hint) const {
    if (!good) fail(what, hint);
  }

 private:
  void fail(const std::string& what, const char* hint) const {
    throw UserError(location_, "loss scale: " + what, hint);
  }
  ir::Location location_;
};

void check_rule(const LossScale& scale, const Checker& checker) {
  checker.power_of_two("growth", scale.growth);
  checker.power_of_two("backoff", scale.backoff);
  checker.power_of_two("floor", scale.floor);
  checker.power_of_two("ceiling", scale.ceiling);
  checker.check(scale.growth >= 1, fmt::format("growth must be at least 1, not {}", scale.growth),
                "the scale is multiplied by it after clean steps; 2 is usual");
  checker.check(scale.backoff <= 1, fmt::format("backoff must be at most 1, not {}", scale.backoff),
                "the scale is multiplied by it after an overflow; 0.5 is usual");
  checker.check(scale.interval >= 1 && scale.interval <= INT32_MAX,
                fmt::format("interval must lie in [1, {}], not {}", INT32_MAX, scale.interval),
                "so many clean steps stand between two growths; 2000 is usual");
  checker.check(scale.floor <= scale.ceiling,
                fmt::format("floor {} is above the ceiling {}", scale.floor, scale.ceiling),
                "exchange them");
  checker.check(
      scale.initial <= scale.ceiling,
      fmt::format("the initial scale {} is above the ceiling {}", scale.initial, scale.ceiling),
      "start lower or raise the ceiling");
  checker.check(
      scale.initial >= scale.floor,
      fmt::format("the initial scale {} is below the floor {}", scale.initial, scale.floor),
      "start higher or lower the floor");
}

}  // namespace

std::string LossScale::options(const Policy& policy, ir::Location location) const {
  if (!enabled(policy)) return "off";
  Checker checker(location);
  checker.power_of_two("the initial scale", initial);
  if (kind != Kind::Static) check_rule(*this, checker);
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
