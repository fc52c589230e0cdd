// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/optim.h>

#include <mezzo/dsl/metrics.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mezzo {

namespace detail {

namespace {

/// A step that takes this times the rate of each weight away is no decay for any rate in use.
constexpr double kDecayLimit = 1000;

/// The numbers of one optimizer, checked.
class Checker {
 public:
  Checker(const char* optimizer, ir::Location location)
      : optimizer_(optimizer), location_(location) {}

  /// In [low, high), or (low, high) where `open`.
  void check(const char* what, double value, double low, double high, const char* hint = "",
             bool open = false) const {
    std::string name = std::string(optimizer_) + ": " + what;
    if (!(value >= low && value < high) || (open && value == low))
      throw UserError(
          location_,
          fmt::format("{} must lie in {}{}, {}), not {}", name, open ? '(' : '[', low, high, value),
          hint);
    check_held(name, value);
  }
  void check_rate(const LearningRate& rate) const {
    if (rate.is_constant())
      check("learning_rate", rate.constant(), 0, INFINITY, "rates from 1e-4 to 1 are usual");
  }
  void check_decay(double decay) const {
    check("weight_decay", decay, 0, kDecayLimit, "decays from 1e-5 to 1 are usual");
  }

 private:
  void check_held(const std::string& name, double value) const {
    double held = ir::round_to(f32, value);
    if (std::isinf(held) || (held == 0 && value != 0))
      throw UserError(location_, fmt::format("{}: {} is {} in f32", name, value, held),
                      "updates are computed in f32, which holds numbers from 1e-45 to 3.4e38");
  }

  const char* optimizer_;
  ir::Location location_;
};

}  // namespace

void check_rate(const std::string& what, double rate, ir::Location location) {
  Checker(what.c_str(), location).check_rate(rate);
}

OptimizerPlan plan_optimizer(const optim::SGD& sgd, ir::Location location) {
  Checker checker("sgd", location);
  checker.check_rate(sgd.learning_rate);
  checker.check("momentum", sgd.momentum, 0, 1, "0.9 is usual");
  checker.check_decay(sgd.weight_decay);
  if (sgd.nesterov && sgd.momentum == 0)
    throw UserError(location, "sgd: nesterov needs a momentum above 0", "0.9 is usual");
  OptimizerPlan plan;
  plan.op = "sgd";
  if (sgd.momentum != 0) plan.moments = {"velocity"};
  plan.rate = sgd.learning_rate;
  plan.numbers = {{"momentum", sgd.momentum}, {"weight_decay", sgd.weight_decay}};
  plan.nesterov = sgd.nesterov;
  return plan;
}

OptimizerPlan plan_optimizer(const optim::Adam& adam, ir::Location location) {
  Checker checker("adam", location);
  checker.check_rate(adam.learning_rate);
  checker.check("beta1", adam.beta1, 0, 1, "0.9 is usual");
  checker.check("beta2", adam.beta2, 0, 1, "0.999 is usual");
  checker.check("eps", adam.eps, 0, INFINITY,
                "it keeps the update finite where the second moment is 0; 1e-8 is usual", true);
  checker.check_decay(adam.weight_decay);
  OptimizerPlan plan;
  plan.op = "adam";
  plan.moments = {"m", "v"};
  plan.counts = true;
  plan.rate = adam.learning_rate;
  plan.numbers = {{"beta1", adam.beta1},
                  {"beta2", adam.beta2},
                  {"eps", adam.eps},
                  {"weight_decay", adam.weight_decay}};
  return plan;
}

}  // namespace detail

std::pair<double, double> metrics::wilson_interval(double share, int64_t count) {
  if (count == 0) return {0, 1};
  constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  double n = static_cast<double>(count), z2 = kZ * kZ;
  double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  double half = kZ / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace mezzo
