// SPDX-License-Identifier: Apache-2.0
// `Tensor`: a handle on a value of the graph that is being traced. Tensors are values: cheap to
// copy, without data; the numbers go in and out as `Array` (runtime/array.h).
#pragma once

#include <mezzo/ir/location.h>
#include <mezzo/ir/shape.h>

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace mezzo {

namespace ir {
struct ValueDef;
}
namespace detail {
class Trace;
}

using DType = ir::DType;
using Shape = ir::Shape;
inline constexpr DType f64 = DType::F64, f32 = DType::F32, f16 = DType::F16, bf16 = DType::BF16,
                       i64 = DType::I64, i32 = DType::I32, u8 = DType::U8, boolean = DType::Bool;

/// Axis lengths as a user writes them: `{32, 10}`, a shape, or a list of integers.
class Dims : public std::vector<int64_t> {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> dims) : std::vector<int64_t>(dims) {}
  Dims(std::vector<int64_t> dims) : std::vector<int64_t>(std::move(dims)) {}
  Dims(const Shape& shape) : std::vector<int64_t>(shape.begin(), shape.end()) {}
};

/// Axes of a reduction: nothing for all, one number, or a list; negative ones count from the end.
class Axes : public std::vector<int64_t> {
 public:
  Axes() = default;
  Axes(int axis) : std::vector<int64_t>{axis} {}
  Axes(int64_t axis) : std::vector<int64_t>{axis} {}
  Axes(std::initializer_list<int64_t> axes) : std::vector<int64_t>(axes) {}
  Axes(std::vector<int64_t> axes) : std::vector<int64_t>(std::move(axes)) {}
};

class Tensor {
 public:
  /// An empty handle; using it in an operation is an error.
  Tensor() = default;

  const ir::Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int rank() const { return type_.rank(); }
  /// Length of an axis, counted from the end when negative; throws UserError when out of range.
  int64_t dim(int axis, ir::Location location = ir::Location::here()) const;
  /// Whether it stands for a value; false for an empty handle.
  bool has_value() const { return def_ != nullptr; }
  explicit operator bool() const = delete;  // a traced value has no number yet; see `where`

  /// Names the value in the IR; the same tensor. A number is added where the name is taken.
  Tensor named(std::string_view name, ir::Location location = ir::Location::here()) const;

 private:
  friend class detail::Trace;
  friend class Operand;
  ir::ValueDef* def_ = nullptr;
  uint64_t trace_ = 0;  // the trace it belongs to; 0: none
  ir::Type type_;
};

}  // namespace mezzo
