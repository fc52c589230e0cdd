// SPDX-License-Identifier: Apache-2.0
// `Operand`: what operators and layers take. Its converting constructors note the caller's file and
// line in a default argument, so errors, the IR and diagnoses name the line of the user's program.
#pragma once

#include <mezzo/dsl/tensor.h>
#include <mezzo/ir/location.h>

#include <optional>
#include <type_traits>
#include <utility>

namespace mezzo {

namespace nn {
class Parameter;
}

/// A number as the program wrote it.
struct Literal {
  double number = 0;
  /// Set for integers that i64 can hold: a double cannot hold all of them.
  std::optional<int64_t> integer;

  template <typename T>
    requires std::is_arithmetic_v<T>
  Literal(T value) : number(static_cast<double>(value)) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (std::in_range<int64_t>(value)) integer = static_cast<int64_t>(value);
    }
  }
};

class Operand {
 public:
  enum class Kind : uint8_t { Tensor, Int, Float, Bool };

  Operand(const Tensor& tensor, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : tensor_(tensor), location_{file, line} {}
  /// The parameter's value in the current trace.
  Operand(const nn::Parameter& parameter, const char* file = __builtin_FILE(),
          int line = __builtin_LINE());
  template <typename T>
    requires std::is_arithmetic_v<T>
  Operand(T value, const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : kind_(std::is_same_v<T, bool>       ? Kind::Bool
              : std::is_floating_point_v<T> ? Kind::Float
                                            : Kind::Int),
        literal_(value),
        location_{file, line} {}
  /// A tensor with a place that is already known: what layers pass on.
  Operand(const Tensor& tensor, ir::Location location) : tensor_(tensor), location_(location) {}

  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  const Tensor& tensor() const { return tensor_; }
  const Literal& literal() const { return literal_; }
  ir::Location location() const { return location_; }
  /// The same operand, as if written at `location`.
  Operand at(ir::Location location) const {
    Operand copy = *this;
    copy.location_ = location;
    return copy;
  }

  const ir::Type& type() const { return tensor_.type(); }
  const Shape& shape() const { return tensor_.shape(); }
  int rank() const { return tensor_.rank(); }

 private:
  Kind kind_ = Kind::Tensor;
  Tensor tensor_;
  Literal literal_ = 0;
  ir::Location location_;
};

}  // namespace mezzo
