// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/schedules.h>

#include <mezzo/dsl/optim.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>

#include <cmath>
#include <numbers>
#include <string>

namespace mezzo::schedules {

namespace {

/// min(step / steps, 1) in f32; checks the schedule first.
Tensor progress(const Tensor& step, double from, double to, int64_t steps, ir::Location location) {
  if (steps < 1)
    throw UserError(location, "schedule: steps must be at least 1, not " + std::to_string(steps));
  detail::check_rate("schedule: `from`", from, location);
  detail::check_rate("schedule: `to`", to, location);
  Tensor share = mul(mezzo::cast(step, f32), 1.0 / static_cast<double>(steps));
  return minimum(share, 1.0);
}

/// cos(pi u) for u in [0, 1]: -sin(pi v) at v = u - 1/2 by the Taylor polynomial to v^13, whose
/// error at |v| = 1/2 is below 1e-9.
Tensor cos_pi(const Tensor& u) {
  Tensor v = u - 0.5;
  Tensor square_v = v * v;
  double coefficient[7];
  double term = std::numbers::pi;
  for (int i = 0; i < 7; ++i) {
    coefficient[i] = term;
    term *= -std::numbers::pi * std::numbers::pi / ((2 * i + 2) * (2 * i + 3));
  }
  Tensor sum = square_v * coefficient[6];
  for (int i = 5; i > 0; --i) sum = (sum + coefficient[i]) * square_v;
  return -(v * (sum + coefficient[0]));
}

}  // namespace

Tensor Linear::operator()(Tensor step) const {
  detail::PlaceScope place(location);
  return progress(step, from, to, steps, location) * (to - from) + from;
}

Tensor Cosine::operator()(Tensor step) const {
  detail::PlaceScope place(location);
  return (cos_pi(progress(step, from, to, steps, location)) + 1.0) * ((from - to) / 2) + to;
}

}  // namespace mezzo::schedules
