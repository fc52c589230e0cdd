// SPDX-License-Identifier: Apache-2.0
// Any number of operands, as `concat`, `stack` and `einsum` take them.
#pragma once

#include <mezzo/dsl/operand.h>

#include <initializer_list>
#include <vector>

namespace mezzo {

/// `{x, y, 2.0}`, or a vector of tensors; its place is that of the first one, or of the call where
/// there is none.
class Operands : public std::vector<Operand> {
 public:
  Operands(std::initializer_list<Operand> operands, const char* file = __builtin_FILE(),
           int line = __builtin_LINE())
      : std::vector<Operand>(operands), location_{file, line} {}
  Operands(std::vector<Operand> operands, const char* file = __builtin_FILE(),
           int line = __builtin_LINE())
      : std::vector<Operand>(std::move(operands)), location_{file, line} {}
  Operands(const std::vector<Tensor>& tensors, const char* file = __builtin_FILE(),
           int line = __builtin_LINE())
      : location_{file, line} {
    for (const Tensor& tensor : tensors) emplace_back(tensor, file, line);
  }

  ir::Location location() const { return empty() ? location_ : front().location(); }

 private:
  ir::Location location_;
};

}  // namespace mezzo
