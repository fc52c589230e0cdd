// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/precision.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/loss_scale.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

void check(const std::optional<ir::ScaleFault>& fault, ir::Location location) {
  if (fault) throw UserError(location, "loss scale: " + fault->text, fault->hint);
}

void check_rule(const LossScale& scale, ir::Location location) {
  check(ir::scale_rule_fault({.growth = scale.growth,
                              .backoff = scale.backoff,
                              .floor = scale.floor,
                              .ceiling = scale.ceiling,
                              .interval = static_cast<double>(scale.interval)}),
        location);
  if (scale.initial > scale.ceiling)
    throw UserError(location,
                    fmt::format("loss scale: the initial scale {} is above the ceiling {}",
                                scale.initial, scale.ceiling),
                    "start lower or raise the ceiling");
  if (scale.initial < scale.floor)
    throw UserError(location,
                    fmt::format("loss scale: the initial scale {} is below the floor {}",
                                scale.initial, scale.floor),
                    "start higher or lower the floor");
}

}  // namespace

std::string LossScale::options(const Policy& policy, ir::Location location) const {
  if (kind > Kind::None)
    throw UserError(location,
                    fmt::format("loss scale: the kind {} is unknown", static_cast<int>(kind)),
                    "by_policy(), dynamic(), static_scale() and none() make loss scales");
  if (!enabled(policy)) return "off";
  check(ir::power_of_two_fault("the initial scale", initial), location);
  if (kind != Kind::Static) check_rule(*this, location);
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
