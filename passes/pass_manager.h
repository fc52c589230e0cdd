// SPDX-License-Identifier: Apache-2.0
// Runs pipelines: stage check before anything runs, timing, verification, the check that a pass
// tells the truth about having changed something, dumps, skipping, stopping early, and a reproducer
// when a pass fails.
#pragma once

#include <mezzo/ir/debug_options.h>
#include <mezzo/passes/pipeline.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::passes {

struct ManagerOptions {
  /// Of these the manager reads dump, time, verify_roundtrip, locs, skip, stop_after and to.
  ir::DebugOptions debug;
  /// Verify after every pass; at the end it is always done.
  bool verify = false;
  /// Takes dumps and the table of times: a file name such as `06-autocast.mz`, and the text. Empty:
  /// files of that name in the folder `debug.to`, or standard error where that is empty.
  std::function<void(std::string_view file, std::string_view text)> sink;
  /// Sees the module before the first step (`pass` is null) and after every step that ran.
  std::function<void(const PassInfo* pass, const ir::Module& module)> observe = {};
};

struct StepReport {
  const PassInfo* pass = nullptr;
  double milliseconds = 0;
  bool changed = false;
  bool skipped = false;
};

struct PipelineReport {
  std::vector<StepReport> steps;  // those that were reached
  std::vector<Finding> findings;  // in the order in which they were made
};

/// Runs the steps in order. `context.target` is replaced where plan-kernels names a target. Throws
/// UserError for a pipeline that does not fit together or a module that breaks the rules; a fault
/// of a pass becomes an InternalError that names the pass and the path of a reproducer.
PipelineReport run_pipeline(ir::Module& module, const Pipeline& pipeline,
                            const ManagerOptions& options, PassContext& context);

/// Throws UserError with all that the verifier finds. run_pipeline() does it before the first step.
void check_valid(const ir::Module& module);

/// `     1.25 ms  autodiff, changed`, one line a step, and the sum.
std::string print_times(const PipelineReport& report);

}  // namespace mezzo::passes
