// SPDX-License-Identifier: Apache-2.0
// Entry points of the fake driver: images, functions, launches.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <ptx/fake_cubin.h>
#include <ptx/fake_entry.h>
#include <ptx/fake_launch.h>
#include <ptx/fake_stream.h>
#include <stdexcept>

namespace mezzo::fakecuda {

using namespace runtime::cuda;

namespace {

constexpr int kMostThreads = 1024, kMostThreadsZ = 64, kMostBlocksY = 65535;
constexpr uint32_t kMostBlocksX = 2147483647;
constexpr int kRegisters = 64 << 10, kRegisterUnit = 256, kWarp = 32;
constexpr int64_t kSharedUnasked = 48 << 10;

int registers_of(const FunctionObject& function, int threads) {
  const int warps = (threads + kWarp - 1) / kWarp;
  const int a_warp =
      (function.facts.registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  return warps * a_warp;
}

int64_t most_shared() {
  return int64_t{fakecuda::driver().profile.architecture.shared_kilobytes} << 10;
}

Result code_of(ptx::FaultKind kind) {
  switch (kind) {
    case ptx::FaultKind::OutOfBounds:
      return IllegalAddress;
    case ptx::FaultKind::Misaligned:
      return MisalignedAddress;
    case ptx::FaultKind::LaunchLimits:
      return LaunchOutOfResources;
    case ptx::FaultKind::Stuck:
      return LaunchTimeout;
    default:
      return LaunchFailed;
  }
}

/// Why a driver refuses a launch, "" where it does not.
std::string launch_limits(const FunctionObject& function, const LaunchRequest& request) {
  const auto& [x, y, z] = request.block;
  const uint64_t threads = request.block.volume();
  if (threads == 0 || request.grid.volume() == 0) return "a grid or block without threads";
  if (threads > kMostThreads || z > kMostThreadsZ || x > kMostThreads || y > kMostThreads)
    return fmt::format("{} x {} x {} threads a block", x, y, z);
  if (request.grid.x > kMostBlocksX || request.grid.y > kMostBlocksY ||
      request.grid.z > kMostBlocksY)
    return fmt::format("{} x {} x {} blocks", request.grid.x, request.grid.y, request.grid.z);
  if (threads > function.kernel.max_threads())
    return fmt::format("{} threads a block where .maxntid allows {}", threads,
                       function.kernel.max_threads());
  const int64_t fixed = function.kernel.static_shared_bytes();
  const int64_t allowed = std::max(kSharedUnasked - fixed, function.max_dynamic_shared);
  if (request.shared_bytes > allowed)
    return fmt::format("{} bytes of dynamic shared memory where {} are allowed",
                       request.shared_bytes, allowed);
  return "";
}

std::vector<std::byte> parameter_bytes(const ptx::Kernel& kernel, void** values) {
  std::vector<std::byte> bytes(kernel.parameter_bytes());
  size_t index = 0;
  for (const ptx::KernelParameter& parameter : kernel.parameters())
    std::memcpy(bytes.data() + parameter.offset, values[index++], parameter.bytes);
  return bytes;
}

void run_kernel(FunctionObject& function, const LaunchRequest& request,
                const std::vector<std::byte>& parameters) {
  ContextObject& context = *function.context;
  if (function.unloaded) {
    fault(context, LaunchFailed,
          fmt::format("kernel {} runs after its module was unloaded", function.kernel.name()));
    return;
  }
  count("kernel runs");
  try {
    function.kernel.launch(context.memory, request.grid, request.block, request.shared_bytes,
                           parameters, fakecuda::driver().profile.options);
  } catch (const ptx::Fault& error) {
    fault(context, code_of(error.kind), error.what());
  }
}

/// Writes into the buffer that the options name.
void write_log(const std::string& text, unsigned options, const JitOption* names, void** values) {
  char* buffer = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == JitErrorLogBuffer) buffer = static_cast<char*>(values[i]);
    if (names[i] == JitErrorLogBufferBytes) bytes = reinterpret_cast<size_t>(values[i]);
  }
  if (!buffer || bytes == 0) return;
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
}

/// An image that the driver refuses.
struct Refusal {
  Result code;
  std::string text;
};

/// `90a` of `.target sm_90a`: a cubin or PTX for that alone.
bool is_for_one_architecture(std::string_view ptx) {
  constexpr std::string_view kWord = ".target sm_";
  const size_t at = ptx.find(kWord);
  if (at == std::string_view::npos) return false;
  ptx.remove_prefix(at + kWord.size());
  const size_t end = ptx.find_first_not_of("0123456789");
  return end != std::string_view::npos && (ptx[end] == 'a' || ptx[end] == 'f');
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 10, version % 10); }

/// Version of PTX text as 10 * major + minor, 0 where there is none.
int ptx_version(std::string_view ptx) {
  constexpr std::string_view kWord = ".version";
  const size_t at = ptx.find(kWord);
  if (at == std::string_view::npos) return 0;
  ptx.remove_prefix(at + kWord.size());
  ptx.remove_prefix(std::min(ptx.size(), ptx.find_first_not_of(" \t")));
  int major = 0, minor = 0;
  const auto [point, error] = std::from_chars(ptx.data(), ptx.data() + ptx.size(), major);
  if (error != std::errc() || point == ptx.data() + ptx.size() || *point != '.') return 0;
  std::from_chars(point + 1, ptx.data() + ptx.size(), minor);
  return major * 10 + minor;
}

/// The PTX of a cubin for this device.
std::string ptx_of_cubin(const void* image, ModuleObject& module) {
  const Profile& profile = fakecuda::driver().profile;
  const int device = profile.architecture.compute_capability;
  Cubin cubin;
  try {
    cubin = read_cubin(image);
  } catch (const std::invalid_argument& error) {
    throw Refusal{InvalidImage, error.what()};
  }
  std::string ptx = ptx_behind(image, cubin.bytes);
  const bool same_major = cubin.architecture / 10 == device / 10;
  const bool runs = is_for_one_architecture(ptx) ? cubin.architecture == device
                                                 : same_major && cubin.architecture <= device;
  if (!runs)
    throw Refusal{NoBinaryForGpu, fmt::format("the cubin is for sm_{}, the device is sm_{}",
                                              cubin.architecture, device)};
  constexpr int kAbiOfCuda13 = 8, kCuda13 = 13000;
  if (cubin.abi >= kAbiOfCuda13 && profile.driver < kCuda13)
    throw Refusal{InvalidImage,
                  fmt::format("a cubin of ABI version {} needs a driver of CUDA "
                              "13.0, this one is of {}.{}",
                              cubin.abi, profile.driver / 1000, profile.driver % 1000 / 10)};
  if (ptx.empty())
    throw Refusal{InvalidImage,
                  "this driver runs PTX, and there is none behind the cubin; load the PTX itself"};
  module.facts = std::move(cubin.kernels);
  module.architecture = cubin.architecture;
  return ptx;
}

std::string checked_ptx(const char* image, ModuleObject& module) {
  const Profile& profile = fakecuda::driver().profile;
  std::string ptx = image;
  const int version = ptx_version(ptx), newest = newest_ptx(profile.driver);
  if (version == 0) throw Refusal{InvalidPtx, "the image is neither a cubin nor PTX"};
  if (version > newest)
    throw Refusal{UnsupportedPtxVersion,
                  fmt::format("PTX of version {}, and the driver reads up to {}",
                              version_text(version), version_text(newest))};
  module.architecture = profile.architecture.compute_capability;
  return ptx;
}

void load(ContextObject& context, const void* image, ModuleObject& module) {
  const int device = fakecuda::driver().profile.architecture.compute_capability;
  const bool is_cubin = is_elf(image);
  const std::string ptx =
      is_cubin ? ptx_of_cubin(image, module) : checked_ptx(static_cast<const char*>(image), module);
  try {
    module.code = std::make_unique<ptx::Module>(ptx, context.memory);
  } catch (const ptx::ParseError& error) {
    throw Refusal{InvalidPtx, error.what()};
  }
  const int target = module.code->target();
  const bool runs = is_for_one_architecture(ptx) ? target == device : target <= device;
  if (!is_cubin && !runs)
    throw Refusal{NoBinaryForGpu,
                  fmt::format("the PTX is for sm_{}, the device is sm_{}", target, device)};
}

Result load_module(std::string_view call, Module* handle, const void* image, unsigned options,
                   const JitOption* names, void** values) {
  return with_context(
      call,
      [&](ContextObject& context) {
        if (!handle || !image) return InvalidValue;
        auto module = std::make_unique<ModuleObject>();
        try {
          load(context, image, *module);
        } catch (const Refusal& refusal) {
          write_log(refusal.text, options, names, values);
          explain(call, refusal.text);
          return refusal.code;
        }
        *handle = adopt(context, std::move(module));
        return Success;
      },
      Recording::Refused);
}

}  // namespace

Result prepare_launch(ContextObject& context, const LaunchRequest& request,
                      std::function<void()>& run) {
  FunctionObject* function = request.function;
  if (!is_live(context, function)) return InvalidHandle;
  if (request.extra || (!request.parameters && !function->kernel.parameters().empty())) {
    explain("cuLaunchKernel", "parameters in `extra`, or none, are not supported");
    return InvalidValue;
  }
  const std::string refused = launch_limits(*function, request);
  if (!refused.empty()) {
    explain("cuLaunchKernel", fmt::format("{}: {}", function->kernel.name(), refused));
    return InvalidValue;
  }
  if (registers_of(*function, static_cast<int>(request.block.volume())) > kRegisters) {
    explain("cuLaunchKernel", fmt::format("{}: too many registers", function->kernel.name()));
    return LaunchOutOfResources;
  }
  std::vector<std::byte> parameters = parameter_bytes(function->kernel, request.parameters);
  // Functions live as long as their context, so that a run after the unloading can be told.
  run = [function, request, parameters = std::move(parameters)] {
    run_kernel(*function, request, parameters);
  };
  return Success;
}

}  // namespace mezzo::fakecuda

namespace mezzo::runtime::cuda {

using namespace fakecuda;

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned options, JitOption* names,
                          void** values) {
  return load_module("cuModuleLoadDataEx", module, image, options, names, values);
}

Result cuModuleLoadData(Module* module, const void* image) {
  return load_module("cuModuleLoadData", module, image, 0, nullptr, nullptr);
}

Result cuModuleUnload(Module module) {
  return with_context(
      "cuModuleUnload",
      [&](ContextObject& context) {
        if (!is_live(context, module)) return InvalidHandle;
        drain_all(context);
        for (const auto& [name, function] : module->functions) {
          function->unloaded = true;
          fakecuda::driver().live.erase(function);
        }
        disown(context, module);
        return Success;
      },
      Recording::Refused);
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  return with_context("cuModuleGetFunction", [&](ContextObject& context) {
    if (!is_live(context, module)) return InvalidHandle;
    if (!function || !name) return InvalidValue;
    FunctionObject*& known = module->functions[name];
    if (!known) {
      auto made = std::make_unique<FunctionObject>();
      try {
        made->kernel = module->code->kernel(name);
      } catch (const std::out_of_range& error) {
        module->functions.erase(name);
        explain("cuModuleGetFunction", error.what());
        return NotFound;
      }
      if (const auto facts = module->facts.find(name); facts != module->facts.end())
        made->facts = facts->second;
      made->architecture = module->architecture;
      known = adopt(context, std::move(made));
    }
    *function = known;
    return Success;
  });
}

Result cuModuleGetGlobal_v2(DevicePointer* address, size_t* bytes, Module module,
                            const char* name) {
  return with_context("cuModuleGetGlobal", [&](ContextObject& context) {
    if (!is_live(context, module)) return InvalidHandle;
    const ptx::Module::Variable variable = module->code->variable(name);
    if (variable.address == 0) return NotFound;
    if (address) *address = variable.address;
    if (bytes) *bytes = variable.bytes;
    return Success;
  });
}

Result cuFuncGetAttribute(int* value, FunctionAttribute attribute, Function function) {
  return with_context("cuFuncGetAttribute", [&](ContextObject& context) {
    if (!is_live(context, function)) return InvalidHandle;
    const int by_registers = kRegisters / std::max(1, registers_of(*function, kWarp)) * kWarp;
    switch (attribute) {
      case FunctionMaxThreadsPerBlock:
        *value = std::min(
            {static_cast<int>(function->kernel.max_threads()), by_registers, kMostThreads});
        break;
      case FunctionSharedBytes:
        *value = static_cast<int>(function->kernel.static_shared_bytes());
        break;
      case FunctionLocalBytes:
        *value = function->facts.local_bytes;
        break;
      case FunctionRegisters:
        *value = function->facts.registers;
        break;
      case FunctionPtxVersion:
      case FunctionBinaryVersion:
        *value = function->architecture;
        break;
      case FunctionMaxDynamicSharedBytes:
        *value = static_cast<int>(function->max_dynamic_shared);
        break;
      default:
        return InvalidValue;
    }
    return Success;
  });
}

Result cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  return with_context("cuFuncSetAttribute", [&](ContextObject& context) {
    if (!is_live(context, function)) return InvalidHandle;
    if (attribute != FunctionMaxDynamicSharedBytes || value < 0 ||
        value + int64_t{function->kernel.static_shared_bytes()} > most_shared())
      return InvalidValue;
    function->max_dynamic_shared = value;
    return Success;
  });
}

Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      Stream stream, void** parameters, void** extra) {
  return with_context("cuLaunchKernel", [&](ContextObject& context) {
    std::function<void()> run;
    const Result code = prepare_launch(context,
                                       {.function = function,
                                        .grid = {grid_x, grid_y, grid_z},
                                        .block = {block_x, block_y, block_z},
                                        .shared_bytes = shared_bytes,
                                        .parameters = parameters,
                                        .extra = extra},
                                       run);
    return code != Success ? code : enqueue(context, stream, std::move(run));
  });
}

}  // namespace mezzo::runtime::cuda
