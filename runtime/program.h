// SPDX-License-Identifier: Apache-2.0
// One way to run a function of a module, for the language and for the tool: compiled for a
// processor or a GPU, or by the interpreter, op by op.
#pragma once

#include <mezzo/ir/index_fault.h>
#include <mezzo/runtime/binding.h>
#include <mezzo/runtime/compiler.h>
#include <mezzo/runtime/index_flag.h>
#include <mezzo/runtime/module_pipeline.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

class Program {
 public:
  virtual ~Program() = default;
  /// The function that runs. Its parameters are those of the function as it was given and, behind
  /// them, the state that passes added; for a function with a gradient the same on both engines.
  virtual const ir::Function& function() const = 0;
  virtual const ir::Module& module() const = 0;
  /// Runs the function. `parameters[i]` is of the type of parameter i, and one that the program may
  /// change where a result updates it; `results[j]` is of the type of result j, or null for one
  /// that updates a parameter. The flag tells whether an index was out of range, which in a step
  /// the verdict does. Throws InternalError for other arrays than these.
  virtual IndexFlag run(std::span<const Binding> parameters,
                        std::span<HostArray* const> results) = 0;
  /// One line a launch; none for the interpreter.
  virtual std::vector<std::string> launch_lines() const = 0;

  CompileReport report;
};

/// Which op raised the flag of a run of `program`, as ir::find_index_fault says. `array(i)` is what
/// parameter i was in that run, or null where the run has changed it or nobody has it any more.
std::optional<ir::IndexFault> find_index_fault(
    const Program& program, const std::function<const HostArray*(int parameter)>& array);

/// For `options.device`. Takes the module over; throws UserError and DeviceError. For the
/// interpreter `target`, `fuse`, `threads`, `disk_cache` and `background` mean nothing.
std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const CompileOptions& options);

}  // namespace mezzo::runtime
