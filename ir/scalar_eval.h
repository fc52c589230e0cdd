// SPDX-License-Identifier: Apache-2.0
// One element of an elementwise op, expanded from the `host` column of ops.def: the interpreter,
// constant folding and range analysis evaluate through it.
#pragma once

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/op_info.h>

#include <span>

namespace mezzo::ir {

/// The op on float operands, in double, not yet rounded to a result type. Predicates give 0 or 1;
/// operand 0 of `where` is 0 or 1. Exact for + - × ÷ √ of f32 and 16-bit operands once rounded:
/// 53 bits are more than twice 24 plus 2. Throws InternalError when the op takes no floats.
double eval_scalar(OpKind kind, std::span<const double> operands);

/// The op on integer or bool operands, wrapping in 64 bits, not yet wrapped to a result type.
/// Throws InternalError when the op takes no integers.
int64_t eval_scalar(OpKind kind, std::span<const int64_t> operands);

/// `add_n` of floats of type `dtype`: the partial sums are rounded to f32 (f64 for f64) in order;
/// not yet rounded to the type.
double eval_add_n(DType dtype, std::span<const double> operands);

/// The op is at a pole of its function (FlagBit::Pole).
bool at_pole(OpKind kind, std::span<const double> operands);

/// An integer rounded once to the float type `dtype`.
double integer_to_float(DType dtype, int64_t value);

}  // namespace mezzo::ir
