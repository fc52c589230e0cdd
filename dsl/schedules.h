// SPDX-License-Identifier: Apache-2.0
// Learning rates that fall with the number of taken steps. A schedule is a function of the counter
// %t (i32): traced operations of the training step, so a skipped step does not advance it.
#pragma once

#include <mezzo/dsl/callable.h>
#include <mezzo/dsl/ops.h>

#include <functional>
#include <type_traits>

namespace mezzo {

namespace schedules {

/// From `from` to `to` on a line over `steps` steps, then constant.
struct Linear {
  double from = 1e-3, to = 0;
  int64_t steps = 1000;
  ir::Location location = {};
  Tensor operator()(Tensor step) const;
};
inline Linear linear_decay(double from, double to, int64_t steps,
                           ir::Location location = ir::Location::here()) {
  return {from, to, steps, location};
}

/// From `from` to `to` on half a cosine over `steps` steps, then constant.
struct Cosine {
  double from = 1e-3, to = 0;
  int64_t steps = 1000;
  ir::Location location = {};
  Tensor operator()(Tensor step) const;
};
inline Cosine cosine_decay(double from, double to, int64_t steps,
                           ir::Location location = ir::Location::here()) {
  return {from, to, steps, location};
}

}  // namespace schedules

/// A constant, which is state that the program may change between steps, or a schedule. A step to
/// which a schedule gives anything but a finite number from 0 on throws UserError and changes no
/// parameter.
class LearningRate {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T>
  LearningRate(T rate) : constant_(static_cast<double>(rate)) {}
  template <typename Schedule>
    requires std::is_invocable_r_v<Tensor, const Schedule&, Tensor>
  LearningRate(Schedule schedule, ir::Location location = ir::Location::here())
      : schedule_(std::move(schedule)) {
    detail::require_function(schedule_, "optim: learning_rate", location);
  }

  bool is_constant() const { return !schedule_; }
  double constant() const { return constant_; }
  Tensor at(const Tensor& step) const { return schedule_(step); }

 private:
  double constant_ = 0;
  std::function<Tensor(Tensor)> schedule_;
};

}  // namespace mezzo
