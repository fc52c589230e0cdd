// SPDX-License-Identifier: Apache-2.0
// What happens to a module before it runs, compiled or interpreted: which functions are needed and
// which passes lead from where the module stands to where the device wants it.
#pragma once

#include <mezzo/passes/pipeline.h>
#include <mezzo/runtime/compiler.h>

#include <string>
#include <string_view>

namespace mezzo::runtime {

/// Throws UserError with the nearest name.
ir::Function& find_function(ir::Module& module, const std::string& name);

/// `wanted` and the functions that its gradients differentiate stay; work on others would be lost.
void keep_only(ir::Module& module, const ir::Function& wanted);

/// An op of that kind stands in the function itself.
bool holds(const ir::Function& function, ir::OpKind kind);
bool contains(const passes::Pipeline& pipeline, std::string_view pass);

enum class Engine : uint8_t {
  Compiled,     // the module is planned in the end
  Interpreted,  // differentiated and typed, as far as it was asked for
};

/// `options.passes`, and then what is left of the pipeline at the stage that they lead to. Throws
/// UserError for a policy or rounding that is unknown, or that comes too late to have an effect.
passes::Pipeline choose_pipeline(const ir::Module& module, const ir::Function& function,
                                 const CompileOptions& options, Engine engine);

/// Throws UserError where stop-after or skip of `debug` is the reason why `function` cannot run;
/// `lacks` says what is wrong.
void blame_debug_words(const ir::DebugOptions& debug, const std::string& lacks);

/// Warns, once a process, of words that serve others of which `debug` has none.
void warn_of_unserved(const ir::DebugOptions& debug);

}  // namespace mezzo::runtime
