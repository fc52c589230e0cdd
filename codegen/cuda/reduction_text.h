// SPDX-License-Identifier: Apache-2.0
// Reductions as CUDA text: accumulators, what they start from and how an element enters them. Used
// by the families that reduce.
#pragma once

#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/graph.h>

#include <cstdint>
#include <string>

namespace mezzo::codegen {

struct Reduction {
  const ir::Op* op;
  std::string fold;     // `Add`, `Multiply`, `Maximum` ...
  std::string type;     // of the accumulator
  std::string initial;  // nothing seen yet

  /// A sum whose total is wider than its blocks.
  bool is_float_sum() const { return fold == "Add" && type != "i64"; }
  /// Of what adds up accumulators: double for sums of floats.
  std::string total_type() const { return is_float_sum() ? "double" : type; }
  /// What the accumulator `text` stands for.
  std::string settled(const std::string& text) const {
    return fold == "Multiply" && type != "i64" ? "settled(" + text + ")" : text;
  }
};

/// Bytes of an accumulator of that type, which is no argmax's.
int64_t accumulator_bytes(const std::string& type);

/// `some`: there is an element. -0 leaves every number as it is, so that a sum of negative zeros is
/// -0; a sum of nothing is +0.
Reduction reduction_of(const ir::Op& op, bool some);
/// The same of a maximum or minimum of elements of type `dtype`, without its op.
Reduction extremum_of(bool largest, ir::DType dtype);

/// Declares the accumulators `array`, one a lane, of nothing seen yet.
void declare_accumulators(SourceWriter& out, const std::string& type, const std::string& initial,
                          const std::string& array, int64_t lanes);

/// Adds the operand's element at `at` to the accumulators, in the code of a lane.
void accumulate(RegionText& region, const Reduction& reduction, const std::string& array,
                const TextCoordinates& at);

}  // namespace mezzo::codegen
