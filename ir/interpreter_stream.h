// SPDX-License-Identifier: Apache-2.0
// Inside the interpreter: the random words of a random op. An element's words depend on seed, step,
// stream and the global number of the element alone: sample offset × row size + place.
#pragma once

#include <mezzo/ir/interpreter_ops.h>

namespace mezzo::ir {

class RandomStream {
 public:
  /// The words of the elements of a tensor of that shape; the random state is operand `state`, a
  /// sample offset, where there is one, the operand behind it.
  RandomStream(const OpRun& run, int state, const Shape& shape);

  /// Global number of an element of the tensor.
  uint64_t element(int64_t index) const { return first_ + static_cast<uint64_t>(index); }
  uint32_t word(uint64_t element) const;
  /// The upper 53 of the element's 64 bits.
  uint64_t word53(uint64_t element) const;
  /// Whether the event of that probability happens at an element of the tensor: a comparison of
  /// integers.
  bool below(int64_t index, double probability) const;

 private:
  uint64_t seed_, step_;
  uint32_t stream_;
  uint64_t first_ = 0;
};

}  // namespace mezzo::ir
