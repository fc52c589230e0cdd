// SPDX-License-Identifier: Apache-2.0
// `Array`: the numbers that go into a program and come out of it, dense and row-major in host
// memory.
#pragma once

#include <mezzo/runtime/host_array.h>

#include <initializer_list>
#include <type_traits>
#include <vector>

namespace mezzo {

class Array : public runtime::HostArray {
 public:
  /// The f32 scalar 0.
  Array() = default;
  Array(runtime::HostArray array) : runtime::HostArray(std::move(array)) {}
  /// Zeros.
  explicit Array(const ir::Type& type) : runtime::HostArray(type) {}
  /// A scalar. (A template, because `{0}` is a shape.)
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Array(Number value, ir::DType dtype = ir::DType::F32)
      : Array(ir::Shape(), {static_cast<double>(value)}, dtype) {}
  /// One value for each element of `shape` (else UserError), each rounded once.
  Array(const ir::Shape& shape, const std::vector<double>& values, ir::DType dtype = ir::DType::F32)
      : runtime::HostArray(ir::Type(dtype, shape), values) {}

  const ir::Shape& shape() const { return type.shape; }
  ir::DType dtype() const { return type.dtype; }
  /// The first number, of an array with one element the only one; UserError when there is none.
  double item() const { return as_double(0); }
};

}  // namespace mezzo
