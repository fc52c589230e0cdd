// SPDX-License-Identifier: Apache-2.0
// What users of the interpreter see: modules, kernels, launches.
#include <ptx/interpreter.h>

#include <fmt/format.h>

#include <ptx/launch.h>
#include <ptx/parser.h>

namespace mezzo::ptx {

Module::Module(std::string_view text, DeviceMemory& memory)
    : data_(std::make_shared<detail::ModuleData>()) {
  data_->memory = &memory;
  detail::parse_module(text, *data_);
}

Module::~Module() = default;

int Module::version() const { return data_->version; }
int Module::target() const { return data_->target; }

std::vector<std::string> Module::kernel_names() const {
  std::vector<std::string> names;
  for (const detail::KernelData& kernel : data_->kernels) names.push_back(kernel.name);
  return names;
}

Kernel Module::kernel(std::string_view name) const {
  for (const detail::KernelData& each : data_->kernels) {
    if (each.name != name) continue;
    Kernel result;
    result.module_ = data_;
    result.kernel_ = &each;
    return result;
  }
  throw std::out_of_range(fmt::format("no kernel '{}' in the module, there is: {}", name,
                                      fmt::join(kernel_names(), ", ")));
}

Module::Variable Module::variable(std::string_view name) const {
  const auto found = data_->variables.find(name);
  return found == data_->variables.end() ? Variable{} : found->second;
}

const std::string& Kernel::name() const { return kernel_->name; }
std::span<const KernelParameter> Kernel::parameters() const { return kernel_->parameters; }
uint32_t Kernel::parameter_bytes() const { return kernel_->parameter_bytes; }
uint32_t Kernel::static_shared_bytes() const { return kernel_->static_shared; }
uint32_t Kernel::max_threads() const { return kernel_->max_threads; }

Counters Kernel::launch(DeviceMemory& memory, Dim3 grid, Dim3 block, uint32_t dynamic_shared,
                        std::span<const std::byte> parameters, const Options& options) const {
  detail::Launch launch;
  launch.memory = &memory;
  launch.kernel = kernel_;
  launch.grid = grid;
  launch.block = block;
  launch.dynamic_shared = dynamic_shared;
  launch.parameters = parameters;
  launch.options = options;
  return detail::run_launch(*module_, launch);
}

}  // namespace mezzo::ptx
