// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/engine.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo {

Device Device::by_name(const std::string& name, ir::Location location) {
  if (name == "cpu") return cpu();
  if (name == "interp") return interpreter();
  throw UserError(
      location,
      fmt::format("unknown device '{}'{}", name, ir::did_you_mean(name, {"cpu", "interp"})),
      "the devices are cpu and interp");
}

namespace detail {

std::unique_ptr<Program> build_program(std::unique_ptr<ir::Module> module,
                                       const std::string& function, const ProgramOptions& options) {
  runtime::CompileOptions compile;
  compile.policy = options.policy;
  compile.loss_scale = options.loss_scale;
  compile.threads = options.threads;
  compile.debug = options.debug;
  compile.background = options.background;
  if (options.device.is_interpreter())  // which has no kernels to round in
    return runtime::build_program(std::move(module), function, runtime::Engine::Interpreted,
                                  compile);
  compile.rounding = options.rounding;
  return runtime::build_program(std::move(module), function, runtime::Engine::Compiled, compile);
}

}  // namespace detail
}  // namespace mezzo
