// SPDX-License-Identifier: Apache-2.0
// Normalisations. Channels are the last axis. Statistics are taken in f32 (f64 for f64) whatever
// the element type.
#pragma once

#include <mezzo/dsl/operand.h>

namespace mezzo {

struct LayerNormOptions {
  /// The first of the axes that are normalised; all behind it are, too.
  int64_t axis = -1;
  double eps = 1e-5;
};
/// (x - mean) / √(variance + eps) · weight + bias over the last axes, whose shape weight and bias
/// have; the variance is that of the population.
Tensor layer_norm(Operand x, LayerNormOptions options = {});
Tensor layer_norm(Operand x, Operand weight, LayerNormOptions options = {});
Tensor layer_norm(Operand x, Operand weight, Operand bias, LayerNormOptions options = {});

struct RmsNormOptions {
  int64_t axis = -1;
  double eps = 1e-6;
};
/// x / √(mean of squares + eps) · weight over the last axes.
Tensor rms_norm(Operand x, RmsNormOptions options = {});
Tensor rms_norm(Operand x, Operand weight, RmsNormOptions options = {});

struct GroupNormOptions {
  double eps = 1e-5;
};
/// As layer_norm over all places and a run of channels of each sample: x is [batch, ..., channels],
/// weight and bias [channels], and `groups` divides the channels.
Tensor group_norm(Operand x, int64_t groups, GroupNormOptions options = {});
Tensor group_norm(Operand x, int64_t groups, Operand weight, Operand bias,
                  GroupNormOptions options = {});

struct BatchNormOptions {
  double eps = 1e-5;
};
/// y, and the statistics that it was made with: one mean and one variance (of the population) for
/// each channel, f32 also for 16-bit types.
struct BatchNormalized {
  Tensor y, mean, variance;
};
/// Normalises each channel, the last axis, over all other axes by the statistics of this batch.
BatchNormalized batch_norm(Operand x, BatchNormOptions options = {});
BatchNormalized batch_norm(Operand x, Operand weight, Operand bias, BatchNormOptions options = {});
/// The same by statistics that are given, f32 (f64 for f64).
Tensor batch_norm_inference(Operand x, Operand mean, Operand variance,
                            BatchNormOptions options = {});
Tensor batch_norm_inference(Operand x, Operand mean, Operand variance, Operand weight, Operand bias,
                            BatchNormOptions options = {});

}  // namespace mezzo
