// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/device_id.h>

#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_driver.h>
#include <mezzo/runtime/log.h>

#include <fmt/format.h>

#include <charconv>

namespace mezzo::runtime {

std::string to_string(const DeviceId& device) {
  switch (device.kind) {
    case DeviceId::Kind::Cpu:
      return "cpu";
    case DeviceId::Kind::Interpreter:
      return "interp";
    case DeviceId::Kind::Cuda:
      break;
  }
  return fmt::format("cuda:{}", device.ordinal);
}

namespace {

/// Why the first GPU cannot be used; "" if it can.
std::string why_no_gpu() {
  std::string reason;
  if (!cuda_available(&reason)) return reason;
  try {
    cuda_target(cuda_device_facts(0));
  } catch (const DeviceError& unknown) {
    return unknown.what();
  }
  return codegen::nvrtc_available(&reason) ? "" : reason;
}

}  // namespace

DeviceId device_by_name(const std::string& name, ir::Location location) {
  using Kind = DeviceId::Kind;
  constexpr std::string_view kCuda = "cuda:";
  if (name == "cpu") return {Kind::Cpu};
  if (name == "interp") return {Kind::Interpreter};
  if (name == "cuda") return {Kind::Cuda, 0};
  if (name == "auto") {
    const std::string reason = why_no_gpu();
    if (reason.empty()) return {Kind::Cuda, 0};
    log_info(fmt::format("device auto: the processor, since {}", reason));
    return {Kind::Cpu};
  }
  if (name.starts_with(kCuda)) {
    int ordinal = -1;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kCuda.size(), end, ordinal);
    if (error == std::errc() && at == end && ordinal >= 0) return {Kind::Cuda, ordinal};
    throw UserError(location, fmt::format("device '{}' has no number from 0 on", name),
                    "`mezzo devices` lists the CUDA devices with their numbers");
  }
  throw UserError(location,
                  fmt::format("unknown device '{}'{}", name,
                              ir::did_you_mean(name, {"cpu", "interp", "cuda", "auto"})),
                  "the devices are cpu, interp, cuda[:N] and auto");
}

}  // namespace mezzo::runtime
