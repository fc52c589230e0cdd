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

void check(const char* optimizer, const char* what, double value, double low, double high) {
  if (value >= low && value < high) return;
  throw UserError(
      {}, fmt::format("{}: {} must lie in [{}, {}), not {}", optimizer, what, low, high, value));
}

void check_rate(const char* optimizer, const LearningRate& rate) {
  if (rate.is_constant()) check(optimizer, "learning_rate", rate.constant(), 0, INFINITY);
}

}  // namespace

OptimizerPlan plan_optimizer(const optim::SGD& sgd) {
  check_rate("sgd", sgd.learning_rate);
  check("sgd", "momentum", sgd.momentum, 0, 1);
  check("sgd", "weight_decay", sgd.weight_decay, 0, INFINITY);
  if (sgd.nesterov && sgd.momentum == 0)
    throw UserError({}, "sgd: nesterov needs a momentum above 0");
  OptimizerPlan plan;
  plan.op = "sgd";
  if (sgd.momentum != 0) plan.moments = {"velocity"};
  plan.rate = sgd.learning_rate;
  plan.numbers = {{"momentum", sgd.momentum}, {"weight_decay", sgd.weight_decay}};
  plan.nesterov = sgd.nesterov;
  return plan;
}

OptimizerPlan plan_optimizer(const optim::Adam& adam) {
  check_rate("adam", adam.learning_rate);
  check("adam", "beta1", adam.beta1, 0, 1);
  check("adam", "beta2", adam.beta2, 0, 1);
  check("adam", "eps", adam.eps, 0, INFINITY);
  check("adam", "weight_decay", adam.weight_decay, 0, INFINITY);
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
