// SPDX-License-Identifier: Apache-2.0
// The oracle: runs a function of any stage (after autodiff) op by op with plain loops. Every op
// computes wide (double, or 64-bit integers) and rounds once to its declared type; kernels run
// their regions and ignore plans. Flag words are kept as kernels keep them.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::ir {

struct RunOptions {
  /// Gives the data of a `resource("name")` constant; without it such a constant is a UserError.
  std::function<InterpreterTensor(const std::string& name, const Type& type)> resource;
  /// Called after every op, those inside kernels too, with its results.
  std::function<void(const Op& op, std::span<const InterpreterTensor> results)> observe;
};

struct RunResult {
  /// In the order of the function's results.
  std::vector<InterpreterTensor> results;
  /// By word number; bits are FlagBit. As long as the largest number in the function says.
  std::vector<uint32_t> words;
  /// A label or an index was out of range.
  bool index_range = false;
};

/// Runs `function` on one tensor for each parameter. Throws UserError when their number or types
/// differ from the parameters, or when the function still holds a `gradient`.
RunResult run(const Module& module, const Function& function,
              std::span<const InterpreterTensor> inputs, const RunOptions& options = {});

/// The elements of a constant whose data stand in the text.
InterpreterTensor constant_tensor(const Op& constant);

}  // namespace mezzo::ir
