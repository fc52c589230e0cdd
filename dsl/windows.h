// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling and upsampling. Inside, and by default, tensors are [batch, places ...,
// channels] and weights [out, window ..., in / groups]; with Layout::channels_first tensors are
// [batch, channels, places ...] and weights [out, in / groups, window ...], and transpositions
// stand around the op.
#pragma once

#include <mezzo/dsl/operand.h>

#include <optional>
#include <utility>

namespace mezzo {

enum class Layout : uint8_t { channels_last, channels_first };

/// What is added around the places: `Padding::valid()` nothing; `Padding::same()` so much that
/// there is a window for every `stride` places, the odd one at the end; else numbers for each axis,
/// or one for all. Two lists are what stands below and what stands above: `Padding({1}, {2})`; in
/// braces alone, `{{1}, {2}}`, they are the numbers of two axes.
class Padding {
 public:
  /// The same at both ends of each axis.
  Padding(Dims each = {}) : low_(each), high_(std::move(each)) {}
  Padding(std::initializer_list<int64_t> each) : Padding(Dims(each)) {}
  Padding(int64_t all) : Padding(Dims{all}) {}
  Padding(Dims low, Dims high) : low_(std::move(low)), high_(std::move(high)) {}
  static Padding valid() { return {}; }
  static Padding same() {
    Padding padding;
    padding.same_ = true;
    return padding;
  }

  bool is_same() const { return same_; }
  const Dims& low() const { return low_; }
  const Dims& high() const { return high_; }

 private:
  Dims low_, high_;
  bool same_ = false;
};

/// One number for each axis of places, one for all, or none for the default.
struct ConvOptions {
  Dims stride = {};  // 1
  Padding padding = {};
  Dims dilation = {};  // 1
  int64_t groups = 1;
  Layout layout = Layout::channels_last;
};
/// Cross-correlation, as all frameworks call convolution, without a bias: products in the compute
/// type of the policy, sums in f32 (f64 for f64). Padding is zeros.
Tensor conv1d(Operand x, Operand weight, ConvOptions options = {});
Tensor conv2d(Operand x, Operand weight, ConvOptions options = {});

struct PoolOptions {
  Dims window = {2};
  Dims stride = {};  // the window
  Padding padding = {};
  Dims dilation = {};  // 1; of max_pool
  /// avg_pool divides by the elements of the window, padding included; else by those that are
  /// there.
  bool count_include_pad = true;
  Layout layout = Layout::channels_last;
};
/// The greatest element of each window; padding is never it. NaN where one is NaN.
Tensor max_pool(Operand x, PoolOptions options = {});
Tensor avg_pool(Operand x, PoolOptions options = {});
/// Over all places, [batch, channels].
Tensor global_max_pool(Operand x, Layout layout = Layout::channels_last);
Tensor global_avg_pool(Operand x, Layout layout = Layout::channels_last);

struct UpsampleOptions {
  /// The first and the last element of both tensors stand at the same places; else the edges of
  /// their outer elements do. Of the linear ones.
  bool align_corners = false;
  Layout layout = Layout::channels_last;
};
/// Places become `size` of them, one number for each axis; each reads element floor(i * length /
/// size).
Tensor upsample_nearest(Operand x, Dims size, UpsampleOptions options = {});
/// Each is made of its two neighbours along every axis; of [batch, length, channels] and of [batch,
/// height, width, channels].
Tensor upsample_linear(Operand x, Dims size, UpsampleOptions options = {});
Tensor upsample_bilinear(Operand x, Dims size, UpsampleOptions options = {});

}  // namespace mezzo
