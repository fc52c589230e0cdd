// SPDX-License-Identifier: Apache-2.0
// What a pass is: a free function that says whether it changed the module, and a row in passes.def.
// Timing, verification, dumps and reproducers are the manager's business (pass_manager.h).
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::passes {

/// A remark of `lint` (or of a pass that proves something on its way) about the user's program.
struct Finding {
  std::string name;  // kebab-case, stable: what a user silences
  ir::Location location;
  std::string text;       // one sentence with the numbers
  std::string remedy;     // what to do
  std::string subject{};  // the parameter that it is about, where it is about one
};

/// `net.cpp:12: warning: TEXT [name]` and `note: REMEDY`.
std::string to_string(const Finding& finding);
/// The same without the word `warning`, for a log that says it itself.
std::string log_text(const Finding& finding);

/// What a pass may look at besides the module: its own options, the machine, and where to put
/// findings.
struct PassContext {
  /// Options of this run of the pass, in attribute notation: `loss-scale {interval = 2000}`.
  ir::Attrs options;
  /// The machine that is compiled for; resolved from the option `target` of plan-kernels.
  ir::Target target;
  std::vector<Finding> findings;
};

using PassFunction = bool (*)(ir::Module&, PassContext&);

struct PassInfo {
  const char* name;     // text name, `cast-cleanup`
  const char* summary;  // one line
  PassFunction run;
  ir::Stage latest;                // the latest stage that it accepts
  std::optional<ir::Stage> gives;  // the stage after it; none: unchanged
};

std::span<const PassInfo> all_passes();
/// Null when unknown.
const PassInfo* find_pass(std::string_view name);
/// Names of the options that the pass takes.
std::vector<std::string> pass_options(const PassInfo& pass);
enum class OptionKind : uint8_t { String, Number, Bool };
/// What an option of the pass holds; an unknown name is an InternalError.
OptionKind option_kind(const PassInfo& pass, std::string_view name);
/// Text names of all passes.
std::vector<std::string> pass_names();

#define PASS(function, name, summary, latest, gives) bool function(ir::Module&, PassContext&);
#include <mezzo/passes/passes.def>

}  // namespace mezzo::passes
