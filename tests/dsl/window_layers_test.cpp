// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, upsampling and normalisation as functions and as layers: shapes of padding,
// both layouts, values by their formulas, and what errors say.
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

Array ramp(std::initializer_list<int64_t> dims) {
  Array array{ir::Type(f32, Shape(dims))};
  for (int64_t i = 0; i < array.type.elements(); ++i)
    array.set(i, std::sin(static_cast<double>(7 * i)));
  return array;
}

std::string shape_of(const Array& array) { return to_string(array.shape()); }

void check_same(const Array& a, const Array& b) {
  REQUIRE(a.shape() == b.shape());
  for (int64_t i = 0; i < a.type.elements(); ++i)
    CHECK(a.as_double(i) == doctest::Approx(b.as_double(i)).epsilon(1e-5));
}

}  // namespace

TEST_CASE("padding: none, as much as keeps the places, or numbers") {
  const Array x = ramp({2, 7, 5, 3}), w = ramp({4, 3, 2, 3});
  auto shape = [&](ConvOptions options) {
    return shape_of(jit([=](Tensor a, Tensor b) { return conv2d(a, b, options); })(x, w));
  };
  CHECK(shape({}) == "2x5x4x4");
  CHECK(shape({.padding = Padding::valid()}) == "2x5x4x4");
  CHECK(shape({.padding = Padding::same()}) == "2x7x5x4");
  CHECK(shape({.stride = {2}, .padding = Padding::same()}) == "2x4x3x4");
  CHECK(shape({.padding = 1}) == "2x7x6x4");
  CHECK(shape({.padding = {1, 0}}) == "2x7x4x4");
  CHECK(shape({.padding = Padding(Dims{1, 0}, Dims{0, 2})}) == "2x6x6x4");
  CHECK(shape({.stride = {2, 1}, .dilation = {2, 3}}) == "2x2x2x4");
  // The odd one stands at the end.
  const Array y = jit([](Tensor a) {
    return conv1d(a, full({1, 2, 1}, 1.0), {.padding = Padding::same()});
  })(Array({1, 3, 1}, {1, 2, 3}));
  CHECK(y.as_double(0) == 3);
  CHECK(y.as_double(2) == 3);
}

TEST_CASE("channels first is the same with transpositions around") {
  const Array x = ramp({2, 3, 6, 5}), w = ramp({4, 3, 2, 3});
  check_same(jit([](Tensor a, Tensor b) {
               return conv2d(a, b, {.padding = 1, .layout = Layout::channels_first});
             })(x, w),
             jit([](Tensor a, Tensor b) {
               Tensor y =
                   conv2d(transpose(a, {0, 2, 3, 1}), transpose(b, {0, 2, 3, 1}), {.padding = 1});
               return transpose(y, {0, 3, 1, 2});
             })(x, w));
  check_same(jit([](Tensor a) { return max_pool(a, {.layout = Layout::channels_first}); })(x),
             jit([](Tensor a) {
               return transpose(max_pool(transpose(a, {0, 2, 3, 1})), {0, 3, 1, 2});
             })(x));
  check_same(jit([](Tensor a) { return global_avg_pool(a, Layout::channels_first); })(x),
             jit([](Tensor a) { return mean(a, {2, 3}); })(x));
  check_same(jit([](Tensor a) {
               return upsample_bilinear(a, {9, 4}, {.layout = Layout::channels_first});
             })(x),
             jit([](Tensor a) {
               return transpose(upsample_bilinear(transpose(a, {0, 2, 3, 1}), {9, 4}),
                                {0, 3, 1, 2});
             })(x));
}

TEST_CASE("layers of convolution and pooling have the shapes of their options") {
  const Array x = ramp({2, 8, 8, 4});
  nn::Conv2d conv{4, 6, 3, {.padding = Padding::same()}};
  nn::Conv2d depthwise{4, 8, {3, 5}, {.stride = {2}, .groups = 4, .bias = false}};
  CHECK(shape_of(jit([&](Tensor a) { return conv(a); })(x)) == "2x8x8x6");
  CHECK(shape_of(jit([&](Tensor a) { return depthwise(a); })(x)) == "2x3x2x8");
  CHECK(to_string(conv.weight().shape()) == "6x3x3x4");
  CHECK(to_string(depthwise.weight().shape()) == "8x3x5x1");
  CHECK(conv.weight().name() == "conv2d.weight");
  // Variance 2 / (in + out), where in and out count the window.
  double squares = 0;
  for (int64_t i = 0; i < conv.weight().value().type.elements(); ++i)
    squares += std::pow(conv.weight().value().as_double(i), 2);
  CHECK(squares / 216 == doctest::Approx(2.0 / (9 * (4 + 6))).epsilon(0.25));
  nn::Conv1d line{4, 3, 2};
  CHECK(shape_of(jit([&](Tensor a) { return line(a); })(ramp({2, 9, 4}))) == "2x8x3");
  CHECK(shape_of(jit([](Tensor a) { return nn::MaxPool{}(a); })(x)) == "2x4x4x4");
  CHECK(shape_of(jit([](Tensor a) {
          return nn::AvgPool{{.window = {3}, .stride = {1}, .padding = 1}}(a);
        })(x)) == "2x8x8x4");
  CHECK(shape_of(jit([](Tensor a) { return nn::GlobalMaxPool{}(a); })(x)) == "2x4");
  CHECK(shape_of(jit([](Tensor a) { return nn::Flatten{}(a); })(x)) == "2x256");
}

TEST_CASE("layers of normalisation normalise, with weights and without") {
  const Array x = ramp({3, 4, 6});
  nn::LayerNorm plain{6, {.weight = false, .bias = false}};
  nn::LayerNorm both{{4, 6}};
  nn::RMSNorm rms{6};
  nn::GroupNorm groups{2, 6};
  const Array y = jit([&](Tensor a) { return plain(a); })(x);
  for (int64_t row = 0; row < 12; ++row) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < 6; ++i) {
      sum += y.as_double(6 * row + i);
      square += std::pow(y.as_double(6 * row + i), 2);
    }
    CHECK(std::fabs(sum) < 1e-5);
    CHECK(square / 6 == doctest::Approx(1).epsilon(1e-3));
  }
  check_same(jit([&](Tensor a) { return both(a); })(x),
             jit([](Tensor a) { return layer_norm(a, {.axis = 1}); })(x));
  check_same(jit([&](Tensor a) { return rms(a); })(x),
             jit([](Tensor a) { return rms_norm(a); })(x));
  check_same(jit([&](Tensor a) { return groups(a); })(x),
             jit([](Tensor a) { return group_norm(a, 2); })(x));
  nn::GroupNorm first{2, 4, {.layout = Layout::channels_first}};
  check_same(jit([&](Tensor a) { return first(a); })(x), jit([](Tensor a) {
               return transpose(group_norm(transpose(a, {0, 2, 1}), 2), {0, 2, 1});
             })(x));
  rms.weight();
  CHECK(to_string(both.weight().shape()) == "4x6");
}

namespace {

/// The same numbers by the interpreter and by kernels.
template <typename F, typename... Arrays>
void check_numbers(F f, const std::vector<double>& wanted, const Arrays&... arguments) {
  for (const Device& device : {Device::interpreter(), Device::cpu()}) {
    CAPTURE(device.name());
    const Array got = jit(f, {.device = device})(arguments...);
    REQUIRE(got.type.elements() == static_cast<int64_t>(wanted.size()));
    for (size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(i);
      CHECK(got.as_double(static_cast<int64_t>(i)) == doctest::Approx(wanted[i]).epsilon(2e-6));
    }
  }
}

}  // namespace

TEST_CASE("batch_norm normalises each channel by its batch, and gives the statistics") {
  const int64_t channels = 3, places = 2 * 4;
  const Array x = ramp({2, 4, channels}), weight({3}, {1.5, -2, 0.25}), bias({3}, {0.5, 0, -1});
  const double eps = 0.125;
  std::vector<double> mean(3), variance(3), plain(24), scaled(24);
  for (size_t c = 0; c < 3; ++c) {
    const auto at = [&](int64_t place) {
      return x.as_double(place * channels + static_cast<int64_t>(c));
    };
    for (int64_t i = 0; i < places; ++i) mean[c] += at(i) / places;
    for (int64_t i = 0; i < places; ++i) variance[c] += std::pow(at(i) - mean[c], 2) / places;
    for (int64_t i = 0; i < places; ++i) {
      const size_t to = static_cast<size_t>(i * channels) + c;
      plain[to] = (at(i) - mean[c]) / std::sqrt(variance[c] + eps);
      scaled[to] = plain[to] * weight.as_double(static_cast<int64_t>(c)) +
                   bias.as_double(static_cast<int64_t>(c));
    }
  }
  const BatchNormOptions options{.eps = eps};
  check_numbers([=](Tensor a) { return batch_norm(a, options).y; }, plain, x);
  check_numbers([=](Tensor a) { return batch_norm(a, options).mean; }, mean, x);
  check_numbers([=](Tensor a) { return batch_norm(a, options).variance; }, variance, x);
  check_numbers([=](Tensor a, Tensor w, Tensor b) { return batch_norm(a, w, b, options).y; },
                scaled, x, weight, bias);
  // By the same statistics, given.
  const Array m({3}, mean), v({3}, variance);
  check_numbers(
      [=](Tensor a, Tensor b, Tensor c) { return batch_norm_inference(a, b, c, options); }, plain,
      x, m, v);
  check_numbers([=](Tensor a, Tensor b, Tensor c, Tensor d,
                    Tensor e) { return batch_norm_inference(a, b, c, d, e, options); },
                scaled, x, m, v, weight, bias);
  // The default of eps: 1 / sqrt(1e-5), where there is no variance.
  check_numbers([](Tensor a, Tensor b, Tensor c) { return batch_norm_inference(a, b, c); },
                {1 / std::sqrt(1e-5)}, Array({1, 1}, {3}), Array({1}, {2}), Array({1}, {0}));
  // Statistics of 16-bit numbers are f32.
  const std::vector<Array> narrow = jit([](Tensor a) {
    const BatchNormalized all = batch_norm(cast(a, f16));
    return std::vector<Tensor>{all.y, all.mean, all.variance};
  })(Array({2, 1}, {2049, 2050}));
  CHECK(narrow[0].dtype() == f16);
  CHECK(narrow[1].dtype() == f32);
  CHECK(narrow[1].item() == 2049);  // 2049 is 2048 in f16
  CHECK(narrow[2].item() == 1);
}

TEST_CASE("upsample_linear reads the two neighbours of each place") {
  const Array x = ramp({2, 4, 3});
  for (bool corners : {false, true})
    for (int64_t size : {1, 3, 4, 7, 8}) {
      CAPTURE(corners);
      CAPTURE(size);
      std::vector<double> wanted(static_cast<size_t>(2 * size * 3));
      for (int64_t i = 0; i < size; ++i) {
        // The middle of the place, or the place on the line between the outer ones.
        const double half = (static_cast<double>(i) + 0.5) * 4 / static_cast<double>(size) - 0.5;
        double from = std::fmin(std::fmax(half, 0), 3);
        if (corners)
          from = size == 1 ? 0 : static_cast<double>(i) * 3 / static_cast<double>(size - 1);
        const int64_t low = std::min<int64_t>(static_cast<int64_t>(from), 3),
                      high = std::min<int64_t>(low + 1, 3);
        const double share = from - static_cast<double>(low);
        for (int64_t sample = 0; sample < 2; ++sample)
          for (int64_t c = 0; c < 3; ++c)
            wanted[static_cast<size_t>((sample * size + i) * 3 + c)] =
                (1 - share) * x.as_double((sample * 4 + low) * 3 + c) +
                share * x.as_double((sample * 4 + high) * 3 + c);
      }
      check_numbers(
          [=](Tensor a) { return upsample_linear(a, {size}, {.align_corners = corners}); }, wanted,
          x);
      check_numbers(
          [=](Tensor a) {
            const UpsampleOptions first{.align_corners = corners, .layout = Layout::channels_first};
            return transpose(upsample_linear(transpose(a, {0, 2, 1}), {size}, first), {0, 2, 1});
          },
          wanted, x);
    }
}

TEST_CASE("global pools are the maximum and the mean of all places") {
  const Array x = ramp({2, 3, 5, 4});
  std::vector<double> most(8, -2), middle(8);
  for (int64_t i = 0; i < x.type.elements(); ++i) {
    const auto to = static_cast<size_t>(i / 60 * 4 + i % 4);
    most[to] = std::fmax(most[to], x.as_double(i));
    middle[to] += x.as_double(i) / 15;
  }
  auto first = [](Tensor a) { return transpose(a, {0, 3, 1, 2}); };
  const Layout layout = Layout::channels_first;
  check_numbers([](Tensor a) { return global_max_pool(a); }, most, x);
  check_numbers([](Tensor a) { return nn::GlobalMaxPool{}(a); }, most, x);
  check_numbers([](Tensor a) { return nn::GlobalAvgPool{}(a); }, middle, x);
  check_numbers([=](Tensor a) { return global_max_pool(first(a), layout); }, most, x);
  check_numbers([=](Tensor a) { return nn::GlobalMaxPool{layout}(first(a)); }, most, x);
  check_numbers([=](Tensor a) { return nn::GlobalAvgPool{layout}(first(a)); }, middle, x);
}

TEST_CASE("errors of windows and layers name both sizes and a remedy") {
  const Array x = ramp({2, 8, 8, 4});
  auto error = [&](auto f) { return error_of([&] { jit(f)(x); }); };
  nn::Conv2d conv{3, 6, 3, {.name = "stem"}};
  CHECK(error([&](Tensor a) {
          return conv(a);
        }).find("conv2d 'stem': takes 4 axes with 3 channels, but x is tensor<2x8x8x4xf32>") !=
        std::string::npos);
  nn::BatchNorm norm{3, {.name = "norm"}};
  CHECK(error([&](Tensor a) {
          return norm(a);
        }).find("batch_norm 'norm': takes an axis of 3, but x is tensor<2x8x8x4xf32>") !=
        std::string::npos);
  nn::LayerNorm rows{{3, 4}, {.name = "rows"}};
  CHECK(error([&](Tensor a) {
          return rows(a);
        }).find("layer_norm 'rows': takes last axes of 3x4, but x is tensor<2x8x8x4xf32>") !=
        std::string::npos);
  CHECK(error([](Tensor a) {
          return conv1d(a, full({1, 3, 4}, 1.0));
        }).find("conv1d: x has 4 axes, not 3") != std::string::npos);
  CHECK(error([](Tensor a) {
          return max_pool(a, {.window = {2, 2, 2}});
        }).find("max_pool: window has 3 numbers for 2 axes of places") != std::string::npos);
  CHECK(error([](Tensor a) {
          return avg_pool(a, {.dilation = {2}});
        }).find("avg_pool: takes no dilation") != std::string::npos);
  CHECK(error([](Tensor a) {
          return upsample_nearest(a, {4});
        }).find("upsample_nearest: size has 1 number for 2 axes of places") != std::string::npos);
  CHECK(error([](Tensor a) {
          return conv2d(a, full({1, 3, 3, 4}, 1.0), {.stride = {0}, .padding = Padding::same()});
        }).find("conv2d: stride 0 of axis 1") != std::string::npos);
  CHECK(error_of([] {
          nn::Conv2d(4, 6, 3, {.groups = 3});
        }).find("conv2d 4 -> 6: 3 groups do not divide both") != std::string::npos);
  CHECK(error_of([] { nn::Conv2d(4, 6, 0); }).find("conv2d 4 -> 6: 0 is not positive") !=
        std::string::npos);
  CHECK(error_of([] { nn::GroupNorm(4, 6); }).find("group_norm: 4 groups of 6 channels") !=
        std::string::npos);
  CHECK(error_of([] { nn::BatchNorm(4, {.momentum = 2}); }).find("batch_norm: momentum 2") !=
        std::string::npos);
  CHECK(error_of([] {
          nn::LayerNorm(4, {.weight = false});
        }).find("layer_norm: a bias without a weight") != std::string::npos);
}

TEST_CASE("NM-07 the gradient of a variance of numbers that differ by little from a large mean") {
  std::vector<double> values;
  for (int k = 0; k < 8; ++k) values.push_back(10000 + std::ldexp(k, -10));
  const Array x({8, 1}, values);
  for (const Device& device : {Device::interpreter(), Device::cpu()}) {
    const Array by_variance =
        jit(grad([](Tensor t) { return sum(batch_norm(t).variance); }), {.device = device})(x);
    const Array by_mean =
        jit(grad([](Tensor t) { return sum(batch_norm(t).mean); }), {.device = device})(x);
    for (int k = 0; k < 8; ++k) {
      CHECK(by_variance.as_double(k) ==
            doctest::Approx(2 * std::ldexp(k - 3.5, -10) / 8).epsilon(1e-6));
      CHECK(by_mean.as_double(k) == 0.125);
    }
  }
}
