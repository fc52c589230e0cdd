// SPDX-License-Identifier: Apache-2.0
// Indices of generated CUDA text: an expression that is fixed at some nesting level of the kernel,
// a constant and a step by lane. Kept apart so that views are arithmetic on numbers as long as
// possible.
#pragma once

#include <compare>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace mezzo::codegen {

/// Nesting levels of a kernel's text: values are written at the outermost level where all that they
/// are made of is known, so nothing is computed in a loop that does not change in it.
enum class Level : uint8_t {
  Thread,     // once a thread
  Iteration,  // once a vector of elements
  Lane        // once an element
};

/// `base + offset + stride * lane`.
struct TextIndex {
  std::string base;  // a name, or empty for 0
  int64_t offset = 0;
  int64_t stride = 0;
  /// The base is a multiple of this (0: of everything).
  int64_t multiple = 0;
  /// Where the base is known.
  Level level = Level::Thread;

  /// The same for all lanes of a vector.
  bool uniform() const { return stride == 0 && level != Level::Lane; }
  /// A number that divides the index of the first lane.
  int64_t divisor() const { return std::gcd(multiple, offset); }
  auto operator<=>(const TextIndex&) const = default;
};

/// One index an axis.
using TextCoordinates = std::vector<TextIndex>;

}  // namespace mezzo::codegen
