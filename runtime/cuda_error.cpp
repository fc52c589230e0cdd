// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_error.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <atomic>

namespace mezzo::runtime {

namespace {

struct Meaning {
  cuda::Result code;
  const char* name;
  const char* meaning;
  const char* advice;
  bool sticky = false;
};

constexpr const char* kFaultAdvice =
    "a kernel that Mezzo generated went wrong: please report it with the program; this process "
    "cannot use the device any more";
constexpr const char* kDriverAdvice =
    "reboot, or unload and load the kernel module (nvidia), so that both are of one version";

constexpr Meaning kMeanings[] = {
    {cuda::InvalidValue, "CUDA_ERROR_INVALID_VALUE", "an argument is out of its range", ""},
    {cuda::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "the device has too little free memory",
     "end other programs that use the device, or use a smaller batch, recomputation or a 16-bit "
     "policy"},
    {cuda::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "the driver was not initialised", ""},
    {cuda::Deinitialized, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down",
     "use no device after main has returned"},
    {cuda::StubLibrary, "CUDA_ERROR_STUB_LIBRARY",
     "the library that was opened is the toolkit's stub for linking, not a driver",
     "take the folder `stubs` out of LD_LIBRARY_PATH; the driver installs libcuda.so.1"},
    {cuda::DeviceUnavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is in use",
     "another program holds it exclusively (nvidia-smi shows the compute mode)"},
    {cuda::NoDevice, "CUDA_ERROR_NO_DEVICE",
     "the NVIDIA driver is present but shows no CUDA device",
     "a container must be given the device (docker run --gpus=all), and CUDA_VISIBLE_DEVICES must "
     "not hide it"},
    {cuda::InvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "there is no device of that number", ""},
    {cuda::InvalidImage, "CUDA_ERROR_INVALID_IMAGE", "the kernel's image cannot be read",
     "the cache may hold a kernel of another machine: `mezzo cache clear` removes all"},
    {cuda::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "no context is current in this thread",
     ""},
    {cuda::NoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "the kernel was compiled for another architecture",
     "the cache may hold a kernel of another machine: `mezzo cache clear` removes all"},
    {cuda::EccUncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "the device's memory has an error that cannot be corrected",
     "see `nvidia-smi -q -d ECC`; the card may be failing", true},
    {cuda::InvalidPtx, "CUDA_ERROR_INVALID_PTX", "the driver's compiler refuses the PTX", ""},
    {cuda::JitCompilerNotFound, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
     "the driver's PTX compiler (libnvidia-ptxjitcompiler.so) is not installed",
     "install the whole driver; in a container, its compute libraries too"},
    {cuda::UnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the kernel's PTX is newer than the driver can read",
     "update the driver, or install an NVRTC of the driver's major version"},
    {cuda::InvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "a handle is not of this context", ""},
    {cuda::IllegalState, "CUDA_ERROR_ILLEGAL_STATE", "a resource is in the wrong state", ""},
    {cuda::NotFound, "CUDA_ERROR_NOT_FOUND", "the name is not there", ""},
    {cuda::NotReady, "CUDA_ERROR_NOT_READY", "the work has not ended", ""},
    {cuda::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "a kernel read or wrote memory that belongs to nobody", kFaultAdvice, true},
    {cuda::LaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "a block needs more registers, threads or shared memory than the device has",
     "please report it with the program and the device's name"},
    {cuda::LaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran longer than the device allows",
     "often the card also drives a display; a card without one has no such limit", true},
    {cuda::AssertFailed, "CUDA_ERROR_ASSERT", "an assertion in a kernel failed", kFaultAdvice,
     true},
    {cuda::HardwareStackError, "CUDA_ERROR_HARDWARE_STACK_ERROR",
     "a kernel's call stack was corrupted", kFaultAdvice, true},
    {cuda::IllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "a kernel met an instruction that is not one", kFaultAdvice, true},
    {cuda::MisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS",
     "a kernel read or wrote at an address that is not a multiple of the access's size",
     kFaultAdvice, true},
    {cuda::InvalidAddressSpace, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "a kernel used an address of the wrong kind of memory", kFaultAdvice, true},
    {cuda::InvalidPc, "CUDA_ERROR_INVALID_PC", "a kernel jumped to where no code is", kFaultAdvice,
     true},
    {cuda::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel stopped with a fault", kFaultAdvice,
     true},
    {cuda::NotPermitted, "CUDA_ERROR_NOT_PERMITTED", "the operation is not allowed now", ""},
    {cuda::NotSupported, "CUDA_ERROR_NOT_SUPPORTED", "this device or driver cannot do that", ""},
    {cuda::SystemNotReady, "CUDA_ERROR_SYSTEM_NOT_READY",
     "the machine's links between devices are not set up yet",
     "start the fabric manager (service nvidia-fabricmanager) of the driver's version"},
    {cuda::SystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "the driver's library and its kernel module are of different versions", kDriverAdvice},
    {cuda::CompatNotSupportedOnDevice, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
     "the compatibility package of CUDA (cuda-compat) does not serve this device",
     "take its folder out of LD_LIBRARY_PATH and update the driver itself"},
    {cuda::StreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "the operation cannot be part of a graph", ""},
    {cuda::StreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "an error ended the recording of a graph", ""},
    {cuda::StreamCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "the recording of a graph began on another stream", ""},
    {cuda::StreamCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "a graph ends while a stream that joined it goes on", ""},
    {cuda::StreamCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the operation would wait for a stream that records a graph", ""},
    {cuda::UnknownError, "CUDA_ERROR_UNKNOWN", "the driver does not say what went wrong",
     "the kernel's log (dmesg, lines with NVRM or Xid) may; reload the kernel module (nvidia) or "
     "reboot"},
};

using ErrorNames = cuda::Result (*)(cuda::Result, const char**);

std::atomic<ErrorNames>& driver_names() {
  static std::atomic<ErrorNames> names = nullptr;
  return names;
}

const Meaning* find(cuda::Result code) {
  for (const Meaning& meaning : kMeanings)
    if (meaning.code == code) return &meaning;
  return nullptr;
}

}  // namespace

std::string cuda_code_text(cuda::Result code) {
  const char* name = "unknown error";
  if (const Meaning* known = find(code)) {
    name = known->name;
  } else if (const ErrorNames names = driver_names().load()) {
    const char* told = nullptr;  // which stays null where the driver does not know it either
    if (names(code, &told) == cuda::Success && told) name = told;
  }
  return fmt::format("{} ({})", name, static_cast<int>(code));
}

void set_cuda_error_names(ErrorNames names) { driver_names() = names; }

std::string_view cuda_advice(cuda::Result code) {
  const Meaning* known = find(code);
  return known ? known->advice : "";
}

std::string cuda_error_text(std::string_view call, cuda::Result code, std::string_view details) {
  const Meaning* known = find(code);
  if (details.empty() && known) details = known->meaning;
  std::string text = fmt::format("{} failed: {}", call, cuda_code_text(code));
  if (!details.empty()) text += fmt::format(": {}", details);
  if (const std::string_view advice = cuda_advice(code); !advice.empty())
    text += fmt::format("\nnote: {}", advice);
  return text;
}

bool is_sticky(cuda::Result code) {
  const Meaning* known = find(code);
  return known && known->sticky;
}

void check_cuda(cuda::Result code, std::string_view call, std::string_view details) {
  if (code != cuda::Success) throw DeviceError(cuda_error_text(call, code, details));
}

}  // namespace mezzo::runtime
