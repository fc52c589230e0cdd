// SPDX-License-Identifier: Apache-2.0
// The scalar functions named in the `host` column of ops.def: activations, by the formulas that
// PyTorch documents, and by their limits at the infinities.
#pragma once

#include <mezzo/ir/host_scalar.h>

namespace mezzo::ir {

/// x, or alpha (e^x - 1) where x is not positive.
inline double host_elu(double x, double alpha) {
  return x > 0 ? x : static_cast<double>(alpha * std::expm1(wide(x)));
}

/// elu with the alpha and the scale that keep mean 0 and variance 1 (Klambauer et al., 2017).
inline double host_selu(double x) {
  constexpr long double kScale = 1.05070098735548049341933498529460L;
  constexpr long double kScaleAlpha = 1.75809934084737685994021752081232L;
  return static_cast<double>(x > 0 ? kScale * x : kScaleAlpha * std::expm1(wide(x)));
}

/// x, or alpha (e^(x / alpha) - 1) where x is negative; x for an infinite alpha.
inline double host_celu(double x, double alpha) {
  const long double ratio = wide(x) / alpha;
  return x < 0 && ratio != 0 ? static_cast<double>(alpha * std::expm1(ratio)) : x;
}

/// x / (1 + e^-x); the limit at -inf is -0.
inline double host_silu(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return static_cast<double>(x / (1 + std::exp(-wide(x))));
}

/// x tanh(log(1 + e^x)); the limit at -inf is -0.
inline double host_mish(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return static_cast<double>(x * std::tanh(std::log1p(std::exp(wide(x)))));
}

/// x / (1 + |x|); -1 and 1 at the infinities.
inline double host_softsign(double x) {
  if (std::isinf(x)) return std::copysign(1.0, x);
  return static_cast<double>(x / (1 + std::fabs(wide(x))));
}

/// min(max(x + 3, 0), 6) / 6.
inline double host_hard_sigmoid(double x) {
  if (x <= -3) return 0.0;
  return x >= 3 ? 1.0 : static_cast<double>((wide(x) + 3) / 6);
}

/// x min(max(x + 3, 0), 6) / 6.
inline double host_hard_swish(double x) {
  if (x <= -3) return -0.0;
  return x >= 3 ? x : static_cast<double>(x * (wide(x) + 3) / 6);
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; the limit at -inf is -0.
inline double host_gelu_tanh(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  constexpr long double kTwiceRoot = 1.59576912160573071175978423973753L;
  const long double cubic = x + 0.044715L * x * x * x;
  return static_cast<double>(x / (1 + std::exp(-kTwiceRoot * cubic)));
}

}  // namespace mezzo::ir
