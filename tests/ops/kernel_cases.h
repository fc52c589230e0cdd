// SPDX-License-Identifier: Apache-2.0
// Cases for the compiled kernels of every row of the op table: operand types, attributes and
// element types are drawn from the row itself (type rule, shape rule, schema), so that a new row is
// tested without a line here; one with a new shape rule fails until the rule has a generator.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/op_info.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mezzo::test {

struct KernelCase {
  ir::OpKind kind;
  std::vector<ir::Type> operands;
  /// Letters of random_array, one an operand.
  std::string domains;
  ir::Attrs attrs;
  /// Result types, where the row leaves them to the creator.
  std::vector<ir::Type> declared;
  int64_t index_limit = 4;

  /// `sum 7x13xf32 {axes = [0]}`.
  std::string text() const;
};

enum class Extent : uint8_t {
  Small,  // shapes of up to 4,097 elements: scalar, 1, odd, broadcast, size-1 axes, empty
  Rows,   // 65,539 rows, enough bytes for two threads
};

/// Name of the shape rule of a row; "elementwise" for elementwise rows.
const char* shape_rule(ir::OpKind kind);

/// Why a row has no kernel to compare; "" for a row that has.
std::string no_kernel(ir::OpKind kind);

/// The cases of a row whose first float, integer or bool operand (for sources the result) is of
/// type `dtype`; none when the row does not take that type. Throws InternalError for a shape rule
/// without generator.
std::vector<KernelCase> kernel_cases(ir::OpKind kind, ir::DType dtype, Extent extent);

}  // namespace mezzo::test
