// SPDX-License-Identifier: Apache-2.0
// A tensor of the interpreter: every element as a wide number (double, or int64_t for integers and
// bools) that the element type can hold, row-major.
#pragma once

#include <mezzo/ir/shape.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mezzo::ir {

struct InterpreterTensor {
  Type type;
  std::vector<double> floats;     // of a float type
  std::vector<int64_t> integers;  // of an integer type or bool

  InterpreterTensor() = default;
  /// Zeros.
  explicit InterpreterTensor(const Type& type);

  int64_t elements() const { return type.elements(); }
  bool holds_floats() const { return is_float(type.dtype); }

  /// Element `index` as a double; integers beyond 2^53 are rounded.
  double number(int64_t index) const {
    return holds_floats() ? floats[static_cast<size_t>(index)]
                          : static_cast<double>(integers[static_cast<size_t>(index)]);
  }
  /// Stores `value` rounded once (floats), or truncated and saturated (integers).
  void set_number(int64_t index, double value);

  /// Every element is neither NaN nor infinite; true for integers.
  bool all_finite() const;
};

/// The elements of `values`, rounded once to the element type. Throws UserError when their number
/// is not that of the type.
InterpreterTensor make_tensor(const Type& type, std::span<const double> values);
InterpreterTensor make_tensor(const Type& type, std::initializer_list<double> values);
/// All elements equal.
InterpreterTensor full_tensor(const Type& type, double value);

/// From and to dense memory in the storage format of the element type, in this machine's byte
/// order. Throws UserError when the size is not `type.bytes()`.
InterpreterTensor from_bytes(const Type& type, std::span<const std::byte> bytes);
void to_bytes(const InterpreterTensor& tensor, std::span<std::byte> bytes);

/// Same type and the same bits in every element; any NaN equals any NaN, -0 differs from +0.
bool same_bits(const InterpreterTensor& a, const InterpreterTensor& b);
bool same_bits(double a, double b);
/// "" when equal, else the first difference in words: `element 3: 1.5 and 2.0 (2 differ)`.
std::string describe_difference(const InterpreterTensor& a, const InterpreterTensor& b);

}  // namespace mezzo::ir
