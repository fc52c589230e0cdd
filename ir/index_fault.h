// SPDX-License-Identifier: Apache-2.0
// Which op of a run met an index outside of its axis. Kernels only raise a flag, so that good runs
// pay nothing for it; a run that raised it is searched afterwards.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/interpreter_tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mezzo::ir {

/// An op that met an index outside of [0, size), or that divided an integer by 0.
struct IndexFault {
  const Op* op = nullptr;
  std::optional<int64_t> index;  // the first one; none of a divisor, and where it is not known
  int64_t size = 0;

  /// The op as the program wrote it.
  const char* name() const;
  /// Where the program wrote it; `otherwise` where that is not known.
  Location location(const Location& otherwise = {}) const;
  /// What happened: `gather: index 7 is out of range for size 5`.
  std::string text() const;
  /// What to do.
  std::string remedy() const;
};

/// Gives the value that a parameter had in the run, or nothing where that is not known any more.
using ParameterReader = std::function<std::optional<InterpreterTensor>(int parameter)>;

/// Searches a function of any stage after autodiff whose run raised the range flag. Indices are
/// computed again from parameters, by ops that round nothing or correctly, so that what is found is
/// what the run met on any device. Where no index can be computed but only one op is left that may
/// have raised the flag, that one without an index; nothing where several are.
std::optional<IndexFault> find_index_fault(const Module& module, const Function& function,
                                           const ParameterReader& read);

}  // namespace mezzo::ir
