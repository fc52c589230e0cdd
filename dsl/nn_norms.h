// SPDX-License-Identifier: Apache-2.0
// Layers of normalisation. Weights start as ones, biases as zeros.
#pragma once

#include <mezzo/dsl/nn.h>
#include <mezzo/dsl/norms.h>
#include <mezzo/dsl/windows.h>

namespace mezzo::nn {

struct LayerNormLayerOptions {
  std::string name = "";
  double eps = 1e-5;
  /// Whether there are a weight and a bias; a bias needs a weight.
  bool weight = true, bias = true;
};
/// Normalises the last axes, whose lengths are given, and scales and shifts each of their elements.
class LayerNorm {
 public:
  /// Throws UserError for a shape that cannot be, and for a bias without a weight.
  LayerNorm(Dims shape, LayerNormLayerOptions options = {},
            ir::Location location = ir::Location::here());
  LayerNorm(int64_t features, LayerNormLayerOptions options = {},
            ir::Location location = ir::Location::here())
      : LayerNorm(Dims{features}, std::move(options), location) {}
  Tensor operator()(Operand x) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  LayerNormLayerOptions options_;
  Dims shape_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_, bias_;
};

struct RMSNormOptions {
  std::string name = "";
  double eps = 1e-6;
};
/// Divides by the root of the mean square over the last axis, and scales.
class RMSNorm {
 public:
  RMSNorm(int64_t features, RMSNormOptions options = {},
          ir::Location location = ir::Location::here());
  Tensor operator()(Operand x) const;

  const Parameter& weight() const { return weight_; }

 private:
  RMSNormOptions options_;
  int64_t features_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_;
};

struct GroupNormLayerOptions {
  std::string name = "";
  double eps = 1e-5;
  Layout layout = Layout::channels_last;
};
/// Normalises `groups` runs of channels of each sample, and scales and shifts each channel.
class GroupNorm {
 public:
  GroupNorm(int64_t groups, int64_t channels, GroupNormLayerOptions options = {},
            ir::Location location = ir::Location::here());
  Tensor operator()(Operand x) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }

 private:
  GroupNormLayerOptions options_;
  int64_t groups_, channels_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_, bias_;
};

struct BatchNormLayerOptions {
  std::string name = "";
  double eps = 1e-5;
  /// Share of a batch in the running statistics: running += momentum * (batch - running).
  double momentum = 0.1;
  bool weight_and_bias = true;
  /// In a training step: normalise by the batch and update the running statistics. Without, these
  /// are used there too and stay as they are.
  bool update = true;
  Layout layout = Layout::channels_last;
};
/// Normalises each channel. A step of a Trainer uses the statistics of its batch and updates the
/// running ones, when it is taken; an evaluation and a jitted function use the running ones. The
/// running variance is updated with the unbiased one, n / (n - 1) of that of the batch; a batch
/// with one value a channel leaves it as it is.
class BatchNorm {
 public:
  BatchNorm(int64_t channels, BatchNormLayerOptions options = {},
            ir::Location location = ir::Location::here());
  Tensor operator()(Operand x) const;

  const Parameter& weight() const { return weight_; }
  const Parameter& bias() const { return bias_; }
  const Parameter& running_mean() const { return mean_; }
  const Parameter& running_variance() const { return variance_; }

 private:
  Tensor train(const Operand& x) const;
  Tensor infer(const Operand& x) const;

  BatchNormLayerOptions options_;
  int64_t channels_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_, bias_, mean_, variance_;
};

}  // namespace mezzo::nn
