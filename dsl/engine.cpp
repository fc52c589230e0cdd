// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/engine.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo {

Device Device::cuda(int ordinal, ir::Location location) {
  if (ordinal < 0)
    throw UserError(location, fmt::format("device: there is no CUDA device {}", ordinal),
                    "they are numbered from 0");
  return Device({runtime::DeviceId::Kind::Cuda, ordinal});
}

Device Device::by_name(const std::string& name, ir::Location location) {
  return Device(runtime::device_by_name(name, location));
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
  compile.device = options.device.id();
  if (!options.device.is_interpreter())  // which has no kernels to round in
    compile.rounding = options.rounding;
  return runtime::build_program(std::move(module), function, compile);
}

}  // namespace detail
}  // namespace mezzo
