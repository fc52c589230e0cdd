// SPDX-License-Identifier: Apache-2.0
// Opens the driver's library by dlopen, initialises it and reads what its devices are.
#include <mezzo/runtime/cuda_driver.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_api.h>
#include <mezzo/runtime/cuda_error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <vector>

namespace mezzo::runtime {

namespace {

constexpr const char* kVariable = "MEZZO_CUDA_LIBRARY";
constexpr const char* kName = "libcuda.so.1";

struct Opened {
  std::optional<cuda::Driver> driver;
  int devices = 0;
  std::string reason;  // why it is not usable
};

Opened refuse(std::string reason) { return {std::nullopt, 0, std::move(reason)}; }

/// Finds functions of a library, first by the driver's own table of versions.
class Binder {
 public:
  explicit Binder(void* handle)
      : handle_(handle),
        by_version_(reinterpret_cast<GetProcAddress>(dlsym(handle, "cuGetProcAddress_v2"))) {}

  template <class Function>
  void bind(Function& function, const std::string& name, const std::string& suffix) {
    void* found = nullptr;
    int status = 0;
    if (!by_version_ ||
        by_version_(name.c_str(), &found, kOldestDriver, 0, &status) != cuda::Success)
      found = nullptr;
    // The plain name of a function with versions may be that of an older signature.
    if (!found) found = dlsym(handle_, (name + suffix).c_str());
    function = reinterpret_cast<Function>(found);
    if (!found) missing_.push_back(name + suffix);
  }
  /// `cuInit, cuDeviceGet and 12 more`; "" where nothing is missing.
  std::string missing() const {
    constexpr size_t kNamed = 3;
    std::string text;
    for (size_t i = 0; i < std::min(missing_.size(), kNamed); ++i)
      text += (i == 0 ? "" : ", ") + missing_[i];
    if (missing_.size() > kNamed) text += fmt::format(" and {} more", missing_.size() - kNamed);
    return text;
  }

 private:
  using GetProcAddress = cuda::Result (*)(const char*, void**, int version, uint64_t flags,
                                          int* status);
  void* handle_;
  GetProcAddress by_version_;
  std::vector<std::string> missing_;
};

/// Initialises the library of `handle`, whose name is `name`.
Opened open_library(void* handle, const char* name) {
  Binder binder(handle);
  cuda::Driver driver;
#define X(function, suffix, parameters) binder.bind(driver.function, #function, #suffix);
  MEZZO_CUDA_FUNCTIONS(X)
#undef X
  if (driver.cuGetErrorName) set_cuda_error_names(driver.cuGetErrorName);
  // An old driver lacks functions, and so its version is looked at before them.
  if (driver.cuInit && driver.cuDriverGetVersion) {
    const cuda::Result code = driver.cuInit(0);
    if (code != cuda::Success) return refuse(cuda_error_text("cuInit", code));
    const cuda::Result told = driver.cuDriverGetVersion(&driver.version);
    if (told != cuda::Success) return refuse(cuda_error_text("cuDriverGetVersion", told));
    if (driver.version < kOldestDriver)
      return refuse(
          fmt::format("the NVIDIA driver is too old: it supports CUDA {}, and Mezzo "
                      "needs {} or newer\nnote: update the driver",
                      cuda_version_text(driver.version), cuda_version_text(kOldestDriver)));
  }
  if (const std::string missing = binder.missing(); !missing.empty())
    return refuse(
        fmt::format("{} is no CUDA driver that can be used: it lacks {}\n"
                    "note: install the driver of the GPU, or a newer one",
                    name, missing));
  Opened opened{driver, 0, ""};
  const cuda::Result counted = driver.cuDeviceGetCount(&opened.devices);
  if (counted != cuda::Success) return refuse(cuda_error_text("cuDeviceGetCount", counted));
  if (opened.devices == 0) return refuse(cuda_error_text("cuDeviceGetCount", cuda::NoDevice));
  return opened;
}

Opened open_driver() {
  const char* given = std::getenv(kVariable);
  const bool is_given = given && *given;
  const char* name = is_given ? given : kName;
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* error = dlerror();
    return refuse(is_given ? fmt::format("the CUDA driver that {} names cannot be opened: {}\n"
                                         "note: unset it to use the system's {}",
                                         kVariable, error, kName)
                           : fmt::format("no NVIDIA driver ({} not found): {}\n"
                                         "note: install the driver of the GPU, or set {} to the "
                                         "path of the library",
                                         kName, error, kVariable));
  }
  Opened opened = open_library(handle, name);
  if (!opened.driver && is_given)
    opened.reason += fmt::format("\nnote: the library is {} = {}", kVariable, given);
  return opened;
}

const Opened& opened() {
  // Never freed and never closed: the destructor of a static of the program may use a device.
  static const auto* result = new Opened(open_driver());
  return *result;
}

int64_t attribute(const cuda::Driver& driver, cuda::Device device, cuda::DeviceAttribute which) {
  int value = 0;
  check_cuda(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

const cuda::Driver& cuda::driver() {
  const Opened& result = opened();
  if (!result.driver) throw DeviceError(result.reason);
  return *result.driver;
}

bool cuda_available(std::string* reason) {
  if (reason) *reason = opened().reason;
  return opened().driver.has_value();
}

int cuda_device_count() { return opened().devices; }

CudaDeviceFacts cuda_device_facts(int ordinal) {
  const cuda::Driver& driver = cuda::driver();
  if (ordinal < 0 || ordinal >= cuda_device_count())
    throw DeviceError(
        fmt::format("there is no CUDA device {}: this machine shows {}\n"
                    "note: devices are numbered from 0; `mezzo devices` lists them",
                    ordinal, ir::counted(cuda_device_count(), "device")));
  cuda::Device device = 0;
  check_cuda(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet");
  CudaDeviceFacts facts;
  facts.ordinal = ordinal;
  char name[256] = {};
  check_cuda(driver.cuDeviceGetName(name, sizeof name - 1, device), "cuDeviceGetName");
  facts.name = name;
  size_t memory = 0;
  check_cuda(driver.cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
  facts.memory_bytes = static_cast<int64_t>(memory);
  const auto ask = [&](cuda::DeviceAttribute which) { return attribute(driver, device, which); };
  const auto number = [&](cuda::DeviceAttribute which) { return static_cast<int>(ask(which)); };
  facts.compute_capability =
      number(cuda::ComputeCapabilityMajor) * 10 + number(cuda::ComputeCapabilityMinor);
  facts.multiprocessors = number(cuda::MultiprocessorCount);
  facts.shared_bytes_per_block = ask(cuda::MaxSharedMemoryPerBlockOptin);
  facts.shared_bytes_without_asking = ask(cuda::MaxSharedMemoryPerBlock);
  facts.max_threads_per_block = number(cuda::MaxThreadsPerBlock);
  facts.registers_per_block = number(cuda::MaxRegistersPerBlock);
  facts.max_grid_x = ask(cuda::MaxGridDimX);
  facts.max_grid_y = ask(cuda::MaxGridDimY);
  facts.memory_pools = ask(cuda::MemoryPoolsSupported) != 0;
  facts.driver_version = driver.version;
  return facts;
}

ir::Target cuda_target(const CudaDeviceFacts& facts) {
  ir::Target target;
  try {
    target = ir::target_by_name(fmt::format("sm_{}", facts.compute_capability));
  } catch (const UserError& unknown) {
    throw DeviceError(
        fmt::format("CUDA device {} ({}) is of architecture sm_{}, which Mezzo does not know\n"
                    "note: {}",
                    facts.ordinal, facts.name, facts.compute_capability, unknown.hint()));
  }
  target.shared_bytes = facts.shared_bytes_per_block;
  target.multiprocessors = facts.multiprocessors;
  return target;
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace mezzo::runtime
