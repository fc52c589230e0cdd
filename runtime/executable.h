// SPDX-License-Identifier: Apache-2.0
// A compiled function: ordered launches over one activation arena. State (parameters, moments,
// scale, counters) is not owned: it belongs to the model and is bound by ordinal, so that several
// executables share it.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/index_flag.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

class Binding;
struct HostArray;

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
  virtual ~Executable() = default;

  /// The planned function that runs, and its module (stage planned).
  virtual const ir::Module& module() const = 0;
  virtual const ir::Function& function() const = 0;

  /// Runs the function. `parameters[i]` points to the dense row-major data of parameter i in host
  /// memory; those of {param} and {state} parameters that a result updates are written in place.
  /// `results[j]` points to space for result j; for a result that updates a parameter it may be
  /// null. Blocks until done; not thread-safe (one arena). Throws InternalError for a wrong number
  /// of pointers and for null where there are elements.
  virtual RunStatus run(std::span<void* const> parameters, std::span<void* const> results) = 0;
  /// As Program::run: what a device has computed stays there until somebody looks.
  virtual IndexFlag run(std::span<const Binding> parameters,
                        std::span<HostArray* const> results) = 0;

  /// One line per kernel: name, family, ops, types, bytes, tasks, plan.
  virtual std::vector<std::string> launch_lines() const = 0;
  virtual int64_t arena_bytes() const = 0;
  virtual int64_t kernels() const = 0;
};

}  // namespace mezzo::runtime
