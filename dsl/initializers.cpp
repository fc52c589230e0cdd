// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/initializers.h>

#include <mezzo/ir/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mezzo {

namespace {

/// Streams of initial values lie above those of the random ops of a program, which count from 0.
constexpr uint32_t kFirstStream = 0x80000000;

/// (w >> 8 + 1/2) 2^-24: inside (0, 1).
double unit(uint32_t word) { return (static_cast<double>(word >> 8) + 0.5) * 0x1p-24; }

double fan_of(Initializer::Fan fan, const Shape& shape) {
  if (fan == Initializer::Fan::None || shape.rank() == 0) return 1;
  double in = static_cast<double>(shape[std::max(0, shape.rank() - 2)]);
  double out = static_cast<double>(shape[shape.rank() - 1]);
  return std::max(1.0, fan == Initializer::Fan::In ? in : (in + out) / 2);
}

}  // namespace

Array Initializer::operator()(const Shape& shape, DType dtype, uint64_t seed,
                              uint32_t stream) const {
  Array array{ir::Type(dtype, shape)};
  int64_t elements = shape.elements();
  if (kind == Kind::Constant) {
    for (int64_t i = 0; i < elements; ++i) array.set(i, scale);
    return array;
  }
  double deviation = fan == Fan::None ? scale : std::sqrt(scale / fan_of(fan, shape));
  for (int64_t block = 0; block * 4 < elements; ++block) {
    auto words = ir::random_block(seed, 0, kFirstStream + stream, static_cast<uint64_t>(block));
    double values[4];
    for (size_t i = 0; i < 4; ++i) values[i] = 2 * unit(words[i]) - 1;
    if (kind == Kind::Normal) {
      for (size_t i = 0; i < 4; i += 2) {
        double radius = std::sqrt(-2 * std::log(unit(words[i])));
        double angle = 2 * std::numbers::pi * unit(words[i + 1]);
        values[i] = radius * std::cos(angle);
        values[i + 1] = radius * std::sin(angle);
      }
    } else if (fan != Fan::None) {
      for (double& value : values) value *= std::sqrt(3.0);  // a uniform of variance 1
    }
    for (int64_t i = 0; i < 4 && block * 4 + i < elements; ++i) {
      double value = deviation * values[i];
      // 16-bit parameters are the rounded f32 ones, so that policies start alike.
      array.set(block * 4 + i, ir::is_16bit(dtype) ? static_cast<float>(value) : value);
    }
  }
  return array;
}

}  // namespace mezzo
