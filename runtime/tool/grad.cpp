// SPDX-License-Identifier: Apache-2.0
// `mezzo grad`: prints a module with a function that gives value and gradients.
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/grad_function.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/tool/commands.h>
#include <mezzo/runtime/tool/program.h>

namespace mezzo::tool {

int grad(const GradArguments& arguments) {
  debug_options("grad", {});
  std::unique_ptr<ir::Module> module = read_module(arguments.file, ResourceUse::Optional);
  passes::PassContext context;
  passes::run_pipeline(*module, {}, {}, context);  // verifies what was read
  std::string function = chosen_function(*module, arguments.function).name();
  passes::append_gradient_function(*module, function, arguments.wrt, arguments.loss_scale, context);
  write_module(arguments.output, *module, ir::print(*module));
  return 0;
}

}  // namespace mezzo::tool
