// SPDX-License-Identifier: Apache-2.0
// A planned function as a list of steps over numbered buffers: what an executable walks through at
// every run. Pure data, made once from the IR.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mezzo::runtime {

/// Where the data of a value are while the function runs.
struct BufferPlace {
  enum class Kind : uint8_t { Arena, Parameter, Result, Constant };
  Kind kind = Kind::Arena;
  /// Bytes from the start of the arena, or the number of the parameter, result or constant.
  int64_t index = 0;
  bool operator==(const BufferPlace&) const = default;
};

/// An operand of `all_finite`.
struct JudgedValue {
  int buffer = 0;
  ir::Type type;
  /// The word of the op that computes it; while that has no NonFinite bit, neither has the value a
  /// non-finite element. -1: nobody watches, look at the memory.
  int64_t word = -1;
};

struct RunStep {
  /// A kernel, `all_finite` or `verdict`.
  const ir::Op* op = nullptr;
  /// Of the operands, then of the results.
  std::vector<int> buffers;
  std::vector<JudgedValue> judged;  // all_finite
  int kernel = -1;                  // number of the kernel in the order of steps
};

/// A copy after the last step. All of `to results` come before all of `to parameters`, so that none
/// reads what another has overwritten.
struct FinalCopy {
  int from = 0;  // buffer (to a result), number of the result (to a parameter)
  int to = 0;    // number of the result or parameter
  int64_t bytes = 0;
};

struct RunPlan {
  std::vector<BufferPlace> buffers;
  std::vector<RunStep> steps;
  std::vector<std::vector<std::byte>> constants;
  int64_t arena_bytes = 0;
  /// One more than the largest word number.
  int64_t words = 0;
  std::vector<FinalCopy> to_results;
  std::vector<FinalCopy> to_parameters;
  /// By result: it updates a parameter and stands in its own buffer until the end of the run.
  std::vector<bool> staged;
  /// Buffer of the first result, the loss of a step; -1 if there are no results.
  int loss = -1;

  /// `function` is planned, verified and stays alive. Throws InternalError for any op that a
  /// planned function may not hold, UserError for a resource without data.
  static RunPlan from(const ir::Function& function);
};

}  // namespace mezzo::runtime
