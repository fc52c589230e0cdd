// SPDX-License-Identifier: Apache-2.0
// What the decompositions share: widening to f32 and scalar constants.
#pragma once

#include <mezzo/passes/decompose.h>

namespace mezzo::passes {

using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

/// Reasons of the casts at the edges of a decomposition.
inline constexpr const char* kWide = "decomposed in f32";
inline constexpr const char* kRounded = "decomposed in f32, rounded once";

struct Parts {
  ir::Builder& builder;

  /// f32 for 16-bit values, others as they are.
  Value widen(Value value) { return builder.widen(value, kWide); }
  Value make(OpKind kind, std::initializer_list<Value> operands, ir::Attrs attrs = {}) {
    return builder.make(kind, operands, std::move(attrs));
  }
  /// A scalar of the element type of `like`, rounded once from f64.
  Value scalar(Value like, double value) {
    return builder.constant(Type(like.dtype(), Shape()), value);
  }
  /// The same scalar of a named type.
  Value scalar(DType dtype, double value) { return builder.constant(Type(dtype, Shape()), value); }
  /// The value in `dtype`, which the decomposed op gives.
  Value narrow(Value value, DType dtype) { return builder.cast(value, dtype, kRounded); }
};

}  // namespace mezzo::passes
