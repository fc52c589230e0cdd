// SPDX-License-Identifier: Apache-2.0
// From a module to an executable: pipeline, kernels from cache or code generation, buffers.
#pragma once

#include <mezzo/ir/debug_options.h>
#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>
#include <mezzo/passes/pass.h>
#include <mezzo/runtime/device_id.h>
#include <mezzo/runtime/executable.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::runtime {

struct CompileOptions {
  /// Passes in text form that run before all others.
  std::string passes = {};
  /// `train`, `infer` or a pipeline in text form; empty: `train` if a function has a `gradient`,
  /// else `infer`. Passes that the module's stage has behind it are left out.
  std::string pipeline = {};
  /// Policy name (`mixed_float16` ...); empty: types stay as written. UserError where the module's
  /// types are decided otherwise already.
  std::string policy = {};
  /// `excess` or `as-written`; empty: what the module records, else `excess`. UserError where the
  /// module is rounded otherwise already.
  std::string rounding = {};
  /// Where it will run; not the interpreter.
  DeviceId device = {};
  /// `native` or a name of ir/target.h that the device can run.
  std::string target = "native";
  /// Options of loss-scale in attribute notation (`{interval = 2000}`), or "off".
  std::string loss_scale = {};
  /// Compile every op as a kernel of its own (the unfused half of tests).
  bool fuse = true;
  /// 1 to ThreadPool::kMaxThreads; 0: the default of the machine.
  int threads = 0;
  /// Look kernels up in the disk cache and store them there.
  bool disk_cache = true;
  /// Generate code on the calling thread alone, so that running programs keep the pool.
  bool background = false;
  ir::DebugOptions debug = {};
};

struct CompileReport {
  struct Timing {
    std::string name;
    double milliseconds = 0;
  };
  std::vector<Timing> timings;  // passes, then code generation and loading
  std::vector<passes::Finding> findings;
  std::string pipeline;  // as run, in text form
  double milliseconds = 0;
  int kernels = 0;  // launches of a run
  int unique_kernels = 0;
  int memory_hits = 0, disk_hits = 0, compiled = 0;
  int ops = 0;    // ops in kernels
  int casts = 0;  // casts in kernels
  std::vector<std::string> miss_reasons;
};

/// Compiles `function` of `module`, which is taken over. Throws UserError, DeviceError,
/// InternalError.
std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module, const std::string& function,
                                    const CompileOptions& options, CompileReport* report = nullptr);

}  // namespace mezzo::runtime
