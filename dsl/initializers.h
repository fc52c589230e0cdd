// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters: plain descriptions, evaluated on the host by Philox from the seed
// of the program and the parameter's place, so that they are the same under every policy.
#pragma once

#include <mezzo/dsl/tensor.h>
#include <mezzo/runtime/array.h>

namespace mezzo {

struct Initializer {
  enum class Kind : uint8_t { Constant, Uniform, Normal };
  enum class Fan : uint8_t { None, In, Average };

  Kind kind = Kind::Constant;
  Fan fan = Fan::None;
  /// Constant: the value. Uniform: half the width. Normal: the deviation. With a fan: the gain g of
  /// a variance g / fan.
  double scale = 0;

  /// Values for a weight of this shape: `[in, out]` for a dense layer; that stream of `seed`.
  Array operator()(const Shape& shape, DType dtype, uint64_t seed, uint32_t stream) const;
};

namespace initializers {

inline Initializer constant(double value) { return {.scale = value}; }
inline Initializer zeros() { return constant(0); }
inline Initializer ones() { return constant(1); }
/// Uniform in [-limit, limit).
inline Initializer uniform(double limit) {
  return {Initializer::Kind::Uniform, Initializer::Fan::None, limit};
}
inline Initializer normal(double deviation) {
  return {Initializer::Kind::Normal, Initializer::Fan::None, deviation};
}
/// Variance 2 / (in + out): keeps the variance of values and gradients through linear layers.
inline Initializer glorot_uniform() {
  return {Initializer::Kind::Uniform, Initializer::Fan::Average, 1};
}
inline Initializer glorot_normal() {
  return {Initializer::Kind::Normal, Initializer::Fan::Average, 1};
}
/// Variance 2 / in: what relu needs.
inline Initializer he_uniform() { return {Initializer::Kind::Uniform, Initializer::Fan::In, 2}; }
inline Initializer he_normal() { return {Initializer::Kind::Normal, Initializer::Fan::In, 2}; }

}  // namespace initializers
}  // namespace mezzo
