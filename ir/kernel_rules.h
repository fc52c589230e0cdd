// SPDX-License-Identifier: Apache-2.0
// Which sets of ops make one kernel. `classify` is the legality rule of fusion and of the verifier:
// a set is legal exactly when a family of ir/kernel_families.def takes it. It knows nothing of
// profit or of the graph around the set.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/plan.h>

#include <optional>
#include <span>
#include <vector>

namespace mezzo::ir {

/// The ops of a would-be kernel in program order; inlined producers (views, constants, casts of
/// parameters) included.
using KernelOps = std::vector<Op*>;

struct Classified {
  Family family;
  /// The iteration space: shape of the yields (elementwise), of the reduced values (rows, columns,
  /// rows_columns), of the product, of what runs along an axis (scan, sort).
  Shape space;
  /// Trailing (rows, rows_columns) or leading (columns) axes of the space that are reduced.
  int reduced_axes = 0;
  /// Columns: a reduction is made of another one, or a yield has the full shape. The space is read
  /// more than once then.
  bool chained = false;
};

/// `outputs`: values of the set that are read outside it. Nullopt when no family takes the set.
std::optional<Classified> classify(const KernelOps& ops, std::span<const Value> outputs);

/// The classification of a kernel's region; null for an optimizer kernel, whose segments have
/// spaces of their own.
std::optional<Classified> classify_kernel(const Op& kernel);

/// May stand in a region of any family, beside its reductions or its product: elementwise, a view
/// without a real reshape, pad, a splat, iota, random numbers.
bool is_pointwise(const Op& op);

/// Copies elements of its operands through an index map: views, pad, concat, gather,
/// take_along_axis.
bool is_movement(OpKind kind);

/// Has an index map of its own and reads nothing but what is stored, seen through views and casts.
bool moves_stored(OpKind kind);

/// A reshape that only adds or removes axes of length 1.
bool is_unit_reshape(const Op& op);

}  // namespace mezzo::ir
