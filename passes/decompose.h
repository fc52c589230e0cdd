// SPDX-License-Identifier: Apache-2.0
// Decompositions: what each composite op of the table is made of. `decompose` replaces composites
// by them, autodiff differentiates them where the table says `parts`. Inside, 16-bit operands are
// cast to f32 and results are rounded once.
#pragma once

#include <mezzo/ir/builder.h>

#include <span>
#include <vector>

namespace mezzo::passes {

/// A composite op taken apart: kind, operands, attributes and result types without the op, so that
/// it need not exist.
struct Composite {
  ir::OpKind kind;
  std::span<const ir::Value> operands;
  const ir::Attrs& attrs;
  std::span<const ir::Type> results;

  ir::Value operand(size_t index) const { return operands[index]; }
  bool has(size_t index) const { return index < operands.size(); }
  /// Attributes with the defaults of the op table.
  int64_t int_attr(std::string_view name) const;
  double float_attr(std::string_view name) const;
  bool bool_attr(std::string_view name) const;
  std::string string_attr(std::string_view name) const;
};

/// Builds the primitive ops of a composite at the builder's place and returns one value for each of
/// its results, of the same types; no composite remains. Throws InternalError for an op that is no
/// composite.
std::vector<ir::Value> decompose_composite(const Composite& composite, ir::Builder& builder);
/// The same for an existing op; it is left as it is. The builder's origin is the caller's choice.
std::vector<ir::Value> decompose_op(const ir::Op& op, ir::Builder& builder);

// One function a row of the table; a row without one does not link.
#define COMPOSITE(Kind, name, ...) \
  std::vector<ir::Value> decompose_##name(const Composite&, ir::Builder&);
#include <mezzo/ir/ops.def>

}  // namespace mezzo::passes
