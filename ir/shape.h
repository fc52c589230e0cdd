// SPDX-License-Identifier: Apache-2.0
// Shapes and tensor types: immutable plain values without allocation, so that a graph of a million
// values copies and frees them for nothing.
#pragma once

#include <mezzo/ir/dtype.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace mezzo::ir {

/// The most axes that a tensor may have.
inline constexpr int kMaxRank = 8;

/// Axis lengths, outermost first. Lengths are not negative; rank 0 is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  /// Throws UserError when there are more than kMaxRank axes, a negative length, or more than 2^59
  /// elements.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  /// Number of elements; 1 for a scalar.
  int64_t elements() const;

  /// A copy with axis `axis` of length `length`, without that axis, or with a new axis before it.
  Shape with(int axis, int64_t length) const;
  Shape without(int axis) const;
  Shape inserted(int axis, int64_t length) const;

  /// Row-major strides in elements.
  std::array<int64_t, kMaxRank> strides() const;

  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// `2x3`, or `` for a scalar.
std::string to_string(const Shape& shape);

/// NumPy's rule; nullopt when the shapes do not broadcast.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// `tensor<2x3xf16>`.
struct Type {
  DType dtype = DType::F32;
  Shape shape;

  Type() = default;
  Type(DType dtype, Shape shape) : dtype(dtype), shape(shape) {}
  bool operator==(const Type&) const = default;

  int rank() const { return shape.rank(); }
  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * byte_size(dtype); }
  Type with(DType other) const { return {other, shape}; }
  Type with(Shape other) const { return {dtype, other}; }
};

std::string to_string(const Type& type);

}  // namespace mezzo::ir
