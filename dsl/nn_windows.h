// SPDX-License-Identifier: Apache-2.0
// Layers of convolution and pooling, and those that stand between them and dense ones.
#pragma once

#include <mezzo/dsl/nn.h>
#include <mezzo/dsl/windows.h>

namespace mezzo::nn {

struct ConvLayerOptions {
  std::string name = "";
  Dims stride = {};      // 1
  Padding padding = {};  // none
  Dims dilation = {};    // 1
  int64_t groups = 1;    // equal to the channels of x: depthwise
  bool bias = true;
  Layout layout = Layout::channels_last;
  Initializer initializer = initializers::glorot_uniform();
};

namespace detail_conv {

/// Conv1d and Conv2d.
class Layer {
 public:
  const Parameter& weight() const { return weight_; }
  /// Zeros and unused when the layer has none.
  const Parameter& bias() const { return bias_; }

 protected:
  Layer(const char* kind, int places, int64_t in, int64_t out, const Dims& window,
        ConvLayerOptions options, ir::Location location);
  Tensor call(const Operand& x) const;

 private:
  const char* kind_;
  int places_;
  int64_t in_, out_;
  ConvLayerOptions options_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_, bias_;
};

}  // namespace detail_conv

/// [batch, length, in] -> [batch, places, out]; the weight is [out, window, in / groups] in either
/// layout.
class Conv1d : public detail_conv::Layer {
 public:
  /// Throws UserError for numbers that are not positive and groups that do not divide.
  Conv1d(int64_t in, int64_t out, int64_t window, ConvLayerOptions options = {},
         ir::Location location = ir::Location::here())
      : Layer("conv1d", 1, in, out, {window}, std::move(options), location) {}
  Tensor operator()(Operand x) const { return call(x); }
};

/// [batch, height, width, in] -> [batch, ..., out]; the window has one number for both axes or one
/// each, the weight is [out, height, width, in / groups] in either layout.
class Conv2d : public detail_conv::Layer {
 public:
  /// Throws UserError as Conv1d does.
  Conv2d(int64_t in, int64_t out, Dims window, ConvLayerOptions options = {},
         ir::Location location = ir::Location::here())
      : Layer("conv2d", 2, in, out, window, std::move(options), location) {}
  Conv2d(int64_t in, int64_t out, int64_t window, ConvLayerOptions options = {},
         ir::Location location = ir::Location::here())
      : Conv2d(in, out, Dims{window}, std::move(options), location) {}
  Tensor operator()(Operand x) const { return call(x); }
};

/// max_pool and avg_pool with these options.
struct MaxPool {
  PoolOptions options = {};
  Tensor operator()(Operand x) const { return max_pool(x, options); }
};
struct AvgPool {
  PoolOptions options = {};
  Tensor operator()(Operand x) const { return avg_pool(x, options); }
};
struct GlobalMaxPool {
  Layout layout = Layout::channels_last;
  Tensor operator()(Operand x) const { return global_max_pool(x, layout); }
};
struct GlobalAvgPool {
  Layout layout = Layout::channels_last;
  Tensor operator()(Operand x) const { return global_avg_pool(x, layout); }
};
/// [batch, ...] as [batch, elements], in the order in which they stand.
struct Flatten {
  Tensor operator()(Operand x) const;
};

}  // namespace mezzo::nn
