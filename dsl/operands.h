// SPDX-License-Identifier: Apache-2.0
// Any number of operands, as `concat`, `stack` and `einsum` take them.
#pragma once

#include <mezzo/dsl/operand.h>

#include <initializer_list>
#include <vector>

namespace mezzo {

/// `{x, y, 2.0}`, or a vector of tensors.
class Operands : public std::vector<Operand> {
 public:
  Operands(std::initializer_list<Operand> operands) : std::vector<Operand>(operands) {}
  Operands(std::vector<Operand> operands) : std::vector<Operand>(std::move(operands)) {}
  Operands(const std::vector<Tensor>& tensors, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
    for (const Tensor& tensor : tensors) emplace_back(tensor, file, line);
  }

  /// The place of the first one.
  ir::Location location() const { return empty() ? ir::Location() : front().location(); }
};

}  // namespace mezzo
