// SPDX-License-Identifier: Apache-2.0
// Entry points of the fake driver: initialising, devices, contexts, errors, addresses of functions.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <ptx/fake_entry.h>
#include <ptx/fake_stream.h>

namespace mezzo::runtime::cuda {

using namespace fakecuda;

namespace {

struct EntryPoint {
  const char* name;
  const char* suffix;
  void* function;
};

const EntryPoint kEntryPoints[] = {
#define X(name, suffix, parameters) {#name, #suffix, reinterpret_cast<void*>(&name##suffix)},
    MEZZO_CUDA_FUNCTIONS(X) MEZZO_FAKE_FUNCTIONS(X)
#undef X
};

struct ErrorName {
  Result code;
  const char* name;
  const char* text;
};

constexpr ErrorName kErrorNames[] = {
    {Success, "CUDA_SUCCESS", "no error"},
    {InvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device"},
    {InvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported PTX version"},
    {InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"},
    {LaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out"},
    {MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

Result error_text(Result code, const char** text, const char* ErrorName::* which) {
  *text = nullptr;
  for (const ErrorName& known : kErrorNames)
    if (known.code == code) *text = known.*which;
  return *text ? Success : InvalidValue;
}

bool is_device(Device device) { return device >= 0 && device < fakecuda::driver().profile.devices; }

Result attribute_value(int& value, DeviceAttribute attribute) {
  constexpr int kMostThreads = 1024, kRegisters = 64 << 10, kWarp = 32, kSharedUnasked = 48 << 10;
  constexpr int kMultiprocessors = 4, kMostBlocks = 65535, kMostBlocksX = 2147483647;
  const Profile& profile = fakecuda::driver().profile;
  const Architecture& architecture = profile.architecture;
  switch (attribute) {
    case MaxThreadsPerBlock:
    case MaxBlockDimX:
    case MaxBlockDimY:
      value = kMostThreads;
      break;
    case MaxBlockDimZ:
      value = 64;
      break;
    case MaxGridDimX:
      value = kMostBlocksX;
      break;
    case MaxGridDimY:
    case MaxGridDimZ:
      value = kMostBlocks;
      break;
    case MaxSharedMemoryPerBlock:
      value = kSharedUnasked;
      break;
    case WarpSize:
      value = kWarp;
      break;
    case MaxRegistersPerBlock:
    case MaxRegistersPerMultiprocessor:
      value = kRegisters;
      break;
    case MultiprocessorCount:
      value = kMultiprocessors;
      break;
    case MaxThreadsPerMultiprocessor:
      value = architecture.threads_of_multiprocessor;
      break;
    case UnifiedAddressing:
      value = 1;
      break;
    case ComputeCapabilityMajor:
      value = architecture.compute_capability / 10;
      break;
    case ComputeCapabilityMinor:
      value = architecture.compute_capability % 10;
      break;
    case MaxSharedMemoryPerMultiprocessor:
      value = architecture.shared_of_multiprocessor << 10;
      break;
    case MaxSharedMemoryPerBlockOptin:
      value = architecture.shared_kilobytes << 10;
      break;
    case ReservedSharedMemoryPerBlock:
      value = architecture.compute_capability >= 80 ? 1024 : 0;
      break;
    case MemoryPoolsSupported:
      value = profile.pools ? 1 : 0;
      break;
    default:
      return InvalidValue;
  }
  return Success;
}

/// Lets go of all that was made in a context, whether its owner destroyed it or not.
void take_down(ContextObject& context) {
  drain_all(context);
  fakecuda::Driver& state = fakecuda::driver();
  std::erase_if(state.captures, [&](const auto& capture) {
    return capture->graph && capture->graph->context == &context;
  });
  for (const auto& [handle, object] : context.owned) state.live.erase(handle);
  state.live.erase(&context);
  state.contexts[static_cast<size_t>(context.device)].reset();
}

}  // namespace

Result cuInit(unsigned flags) {
  const std::lock_guard lock(fakecuda::driver().mutex);
  fakecuda::Driver& state = fakecuda::driver();
  if (const Result code = detail::enter("cuInit", false); code != Success) return code;
  if (flags != 0 || !state.profile_error.empty()) return InvalidValue;
  if (state.profile.init != 0) return static_cast<Result>(state.profile.init);
  if (state.profile.devices == 0) return NoDevice;
  state.contexts.resize(static_cast<size_t>(state.profile.devices));
  state.initialized = true;
  return Success;
}

Result cuDriverGetVersion(int* version) {
  return with_driver(
      "cuDriverGetVersion",
      [&] {
        if (!version) return InvalidValue;
        *version = fakecuda::driver().profile.driver;
        return Success;
      },
      false);
}

Result cuGetErrorName(Result code, const char** name) {
  return with_driver(
      "cuGetErrorName", [&] { return error_text(code, name, &ErrorName::name); }, false);
}

Result cuGetErrorString(Result code, const char** text) {
  return with_driver(
      "cuGetErrorString", [&] { return error_text(code, text, &ErrorName::text); }, false);
}

// NVRTC looks for a table in whatever has the name libcuda.so.1.
Result cuGetExportTable(const void** table, const Uuid*) {
  return with_driver(
      "cuGetExportTable",
      [&] {
        if (table) *table = nullptr;
        return NotFound;
      },
      false);
}

Result cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t, int* status) {
  constexpr int kFound = 0, kNotFound = 1, kVersionTooOld = 2;
  constexpr int kNewSignatures = 12000;  // those of every function that is here
  return with_driver(
      "cuGetProcAddress",
      [&] {
        *function = nullptr;
        int found = kNotFound;
        for (const EntryPoint& entry : kEntryPoints) {
          if (std::strcmp(entry.name, name) != 0) continue;
          // With two versions the one with a suffix is later.
          if (*function && !*entry.suffix) continue;
          *function = entry.function;
          found = kFound;
        }
        if (*function && version < kNewSignatures) {
          *function = nullptr;
          found = kVersionTooOld;
        }
        if (status) *status = found;
        return *function ? Success : NotFound;
      },
      false);
}

Result cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

Result cuDeviceGetCount(int* number) {
  return with_driver("cuDeviceGetCount", [&] {
    if (!number) return InvalidValue;
    *number = fakecuda::driver().profile.devices;
    return Success;
  });
}

Result cuDeviceGet(Device* device, int ordinal) {
  return with_driver("cuDeviceGet", [&] {
    if (!is_device(ordinal)) return InvalidDevice;
    *device = ordinal;
    return Success;
  });
}

Result cuDeviceGetName(char* name, int bytes, Device device) {
  return with_driver("cuDeviceGetName", [&] {
    if (!is_device(device)) return InvalidDevice;
    if (!name || bytes < 1) return InvalidValue;
    std::snprintf(name, static_cast<size_t>(bytes), "Mezzo PTX interpreter sm_%d",
                  fakecuda::driver().profile.architecture.compute_capability);
    return Success;
  });
}

Result cuDeviceTotalMem_v2(size_t* bytes, Device device) {
  return with_driver("cuDeviceTotalMem", [&] {
    if (!is_device(device)) return InvalidDevice;
    *bytes = fakecuda::driver().profile.memory;
    return Success;
  });
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device device) {
  return with_driver("cuDeviceGetAttribute", [&] {
    if (!is_device(device)) return InvalidDevice;
    const Result code = attribute_value(*value, attribute);
    if (code != Success)
      explain("cuDeviceGetAttribute",
              fmt::format("attribute {} is not known", static_cast<int>(attribute)));
    return code;
  });
}

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return with_driver("cuDevicePrimaryCtxRetain", [&] {
    if (!is_device(device)) return InvalidDevice;
    fakecuda::Driver& state = fakecuda::driver();
    auto& primary = state.contexts[static_cast<size_t>(device)];
    if (!primary) {
      try {
        primary = std::make_unique<ContextObject>(device, state.profile.memory);
      } catch (const std::bad_alloc&) {
        return OutOfMemory;
      }
      state.live.insert(primary.get());
    }
    ++primary->retained;
    *context = primary.get();
    return Success;
  });
}

Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return with_driver("cuDevicePrimaryCtxRelease", [&] {
    if (!is_device(device)) return InvalidDevice;
    auto& primary = fakecuda::driver().contexts[static_cast<size_t>(device)];
    if (!primary) return InvalidContext;
    if (--primary->retained == 0) take_down(*primary);
    return Success;
  });
}

Result cuCtxPushCurrent_v2(Context context) {
  return with_driver("cuCtxPushCurrent", [&] {
    if (!context || !fakecuda::driver().live.contains(context)) return InvalidContext;
    current_contexts().push_back(context);
    return Success;
  });
}

Result cuCtxPopCurrent_v2(Context* context) {
  return with_driver("cuCtxPopCurrent", [&] {
    if (current_contexts().empty()) return InvalidContext;
    if (context) *context = current_contexts().back();
    current_contexts().pop_back();
    return Success;
  });
}

Result cuCtxGetCurrent(Context* context) {
  return with_driver("cuCtxGetCurrent", [&] {
    *context = current_contexts().empty() ? nullptr : current_contexts().back();
    return Success;
  });
}

Result cuCtxSetCurrent(Context context) {
  return with_driver("cuCtxSetCurrent", [&] {
    if (context && !fakecuda::driver().live.contains(context)) return InvalidContext;
    if (!current_contexts().empty()) current_contexts().pop_back();
    if (context) current_contexts().push_back(context);
    return Success;
  });
}

Result cuCtxGetDevice(Device* device) {
  return with_context("cuCtxGetDevice", [&](ContextObject& context) {
    *device = context.device;
    return Success;
  });
}

Result cuCtxSynchronize() {
  return with_context(
      "cuCtxSynchronize",
      [&](ContextObject& context) {
        count_synchronising();
        drain_all(context);
        return context.fault;
      },
      Recording::Refused);
}

}  // namespace mezzo::runtime::cuda
