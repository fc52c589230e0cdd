// SPDX-License-Identifier: Apache-2.0
// A compiled function: ordered launches over one activation arena. State (parameters, moments,
// scale, counters) is not owned: it lives in arenas of the model and is bound by ordinal, so that
// several executables share it.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

class ThreadPool;
struct LoadedKernel;

/// What one run reported besides its results.
struct RunStatus {
  /// An index or label was out of range (outside of a step; inside one the verdict says so).
  bool index_out_of_range = false;
  /// Flag words of the run, one per `word` number.
  std::span<const uint32_t> words;
};

/// What an executable writes to the log when it runs.
struct RunLog {
  bool launches = false;  // a line for each launch, with its time
  bool numerics = false;  // numerics_lines after each run
};

class Executable {
 public:
  /// Of a planned function of `module`; `kernels` are those of its kernel ops, in order.
  Executable(std::unique_ptr<ir::Module> module, const ir::Function& function,
             std::vector<std::shared_ptr<const LoadedKernel>> kernels,
             std::shared_ptr<ThreadPool> pool, const RunLog& log = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// The planned function that runs, and its module (stage planned).
  const ir::Module& module() const;
  const ir::Function& function() const;

  /// Runs the function. `parameters[i]` points to the dense row-major data of parameter i; those of
  /// {param} and {state} parameters that a result updates are written in place. `results[j]` points
  /// to space for result j; for a result that updates a parameter it may be null. Blocks until
  /// done; not thread-safe (one arena). Throws InternalError for a wrong number of pointers and for
  /// null where there are elements.
  RunStatus run(std::span<void* const> parameters, std::span<void* const> results);

  /// One line per kernel: name, family, ops, types, bytes, tasks, plan.
  std::vector<std::string> launch_lines() const;
  int64_t arena_bytes() const;
  int64_t kernels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mezzo::runtime
