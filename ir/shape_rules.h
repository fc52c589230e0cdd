// SPDX-License-Identifier: Apache-2.0
// Result types of ops from operand types and attributes: the one place where shape and element type
// errors are found, for the DSL, the parser, the passes and the verifier alike.
#pragma once

#include <mezzo/ir/graph.h>

#include <span>
#include <string>
#include <vector>

namespace mezzo::ir {

/// What a rule may look at.
struct InferContext {
  OpKind kind;
  std::span<const Type> operands;
  const Attrs& attrs;
  /// The result types that the text or the creator states; may be empty where the rule can tell by
  /// itself. Ops with the trait ChosenType take their element type from here.
  std::span<const Type> declared;
  /// Where `gradient` finds its function; may be null for every other op.
  const Module* module = nullptr;
  Location location;

  /// Throws UserError `OP: MESSAGE (NAME tensor<...>, ...)` with the operands' names and types.
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const;
  std::vector<int64_t> ints(std::string_view name) const { return attrs.get_ints(name); }
  /// An attribute or its default in the table.
  double number(std::string_view name) const;
  std::string text(std::string_view name) const;
};

/// Result types; throws UserError. Attributes are checked against the table first (unknown name,
/// wrong kind, missing).
std::vector<Type> infer_types(const InferContext& context);

/// Whether operands of an elementwise row may have the element type.
bool may_enter(TypeRule rule, DType type);

/// `axis`; throws UserError unless it lies in [0, rank).
int check_axis(const InferContext& context, int64_t axis, int rank);

/// Throws UserError unless `axes` ascend without repetition and lie in [0, rank).
void check_axes(const InferContext& context, const std::vector<int64_t>& axes, int rank);

#define ELEMENTWISE(...)
#define STRUCTURAL(Kind, name, operands, results, shape, ...) \
  std::vector<Type> infer_##shape(const InferContext&);
#define COMPOSITE(Kind, name, operands, results, shape, ...) \
  std::vector<Type> infer_##shape(const InferContext&);
#include <mezzo/ir/ops.def>

// What rules share; each throws UserError.

/// The operand is of a float type.
void expect_float(const InferContext& context, int operand);
/// The first operand is not of bools.
void expect_number(const InferContext& context);
/// The operand is of exactly that type.
void expect_type(const InferContext& context, size_t operand, const Type& wanted,
                 const std::string& hint = "");
/// The operand has the element type of operand `first`.
void expect_same_dtype(const InferContext& context, size_t operand, size_t first = 0);
/// The one result type that the creator states.
const Type& declared(const InferContext& context);

/// The function that the attribute `func` names.
Function& named_function(const InferContext& context);

/// What to do where shapes do not broadcast.
inline constexpr const char* kBroadcastHint =
    "axes are matched from the last one; each pair must be equal or one of them 1";

/// Shape of reducing `axes` of `shape`.
Shape reduced_shape(const Shape& shape, std::span<const int64_t> axes, bool keepdims);

}  // namespace mezzo::ir
