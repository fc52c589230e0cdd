// SPDX-License-Identifier: Apache-2.0
// What Mezzo says where the driver, its devices or NVRTC are missing or do not fit: one case a
// situation, whole texts.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_context.h>
#include <mezzo/runtime/cuda_driver.h>
#include <mezzo/runtime/cuda_error.h>
#include <support/error_of.h>
#include <support/skip.h>
#include <support/temp_dir.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ptx/driver_support.h>
#include <string>

namespace mezzo::test {
namespace {

using runtime::CudaDeviceFacts;

/// Why there is no CUDA device, which is what whoever asks for one is told.
std::string why_not() {
  std::string reason;
  CHECK_FALSE(runtime::cuda_available(&reason));
  CHECK(runtime::cuda_device_count() == 0);
  CHECK(error_of<DeviceError>([] { runtime::cuda_device_facts(0); }) == reason);
  CHECK(error_of<DeviceError>([] { runtime::cuda_context(0); }) == reason);
  return reason;
}

/// The note that names the library, where it is not the system's.
std::string library_note() {
  return "\nnote: the library is MEZZO_CUDA_LIBRARY = " + fake_library();
}

PROCESS_CASE("a driver is opened once and tells its devices", "MEZZO_FAKE_DEVICES=2",
             "MEZZO_FAKE_CC=86", "MEZZO_FAKE_DRIVER=12040", "MEZZO_FAKE_MEMORY=3000000000") {
  std::string reason = "left over";
  REQUIRE(runtime::cuda_available(&reason));
  CHECK(reason == "");
  CHECK(runtime::cuda_device_count() == 2);
  const CudaDeviceFacts facts = runtime::cuda_device_facts(1);
  CHECK(facts.ordinal == 1);
  CHECK(facts.name == "Mezzo PTX interpreter sm_86");
  CHECK(facts.compute_capability == 86);
  CHECK(facts.memory_bytes == 3000000000);
  CHECK(facts.driver_version == 12040);
  CHECK(facts.shared_bytes_per_block == 99 << 10);
  CHECK(facts.shared_bytes_without_asking == 48 << 10);
  CHECK(facts.max_grid_y == 65535);
  CHECK(facts.memory_pools);
  CHECK(runtime::cuda_target(facts).name == "sm_86");
  CHECK(runtime::cuda_target(facts).multiprocessors == facts.multiprocessors);
  CHECK(error_of<DeviceError>([] { runtime::cuda_device_facts(2); }) ==
        "there is no CUDA device 2: this machine shows 2 devices\n"
        "note: devices are numbered from 0; `mezzo devices` lists them");
  CHECK(fake().count("cuInit") == 1);
}

PROCESS_CASE("no driver", "MEZZO_CUDA_LIBRARY", "LD_LIBRARY_PATH=/nowhere") {
  std::string reason;
  if (runtime::cuda_available(&reason)) return skip_case("this machine has a CUDA driver");
  if (!reason.starts_with("no NVIDIA driver")) return skip_case("this machine has libcuda.so.1");
  CHECK(why_not() ==
        "no NVIDIA driver (libcuda.so.1 not found): libcuda.so.1: cannot open shared object file: "
        "No such file or directory\n"
        "note: install the driver of the GPU, or set MEZZO_CUDA_LIBRARY to the path of the "
        "library");
}

PROCESS_CASE("a driver that the variable names and that is not there",
             "MEZZO_CUDA_LIBRARY=/nowhere/libcuda.so.1") {
  CHECK(why_not() ==
        "the CUDA driver that MEZZO_CUDA_LIBRARY names cannot be opened: /nowhere/libcuda.so.1: "
        "cannot open shared object file: No such file or directory\n"
        "note: unset it to use the system's libcuda.so.1");
}

PROCESS_CASE("a library that is no driver", "MEZZO_CUDA_LIBRARY=libm.so.6") {
  const std::string reason = why_not();
  CHECK(
      reason.starts_with("libm.so.6 is no CUDA driver that can be used: it lacks cuInit, "
                         "cuDriverGetVersion, cuGetErrorName and "));
  CHECK(
      reason.ends_with(" more\nnote: install the driver of the GPU, or a newer one\n"
                       "note: the library is MEZZO_CUDA_LIBRARY = libm.so.6"));
}

PROCESS_CASE("the stub for linking instead of a driver", "MEZZO_FAKE_INIT=34") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_STUB_LIBRARY (34): the library that was opened is the toolkit's "
        "stub for linking, not a driver\n"
        "note: take the folder `stubs` out of LD_LIBRARY_PATH; the driver installs libcuda.so.1" +
            library_note());
}

PROCESS_CASE("the stub of the installed toolkit",
             "MEZZO_CUDA_LIBRARY=/usr/local/cuda/lib64/stubs/libcuda.so") {
  const char* path = std::getenv("MEZZO_CUDA_LIBRARY");
  if (!std::filesystem::exists(path)) return skip_case(std::string("there is no ") + path);
  CHECK(why_not().starts_with("cuInit failed: CUDA_ERROR_STUB_LIBRARY (34): "));
}

PROCESS_CASE("no device", "MEZZO_FAKE_DEVICES=0") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_NO_DEVICE (100): the NVIDIA driver is present but shows no CUDA "
        "device\n"
        "note: a container must be given the device (docker run --gpus=all), and "
        "CUDA_VISIBLE_DEVICES must not hide it" +
            library_note());
}

PROCESS_CASE("a library and a kernel module of different versions", "MEZZO_FAKE_INIT=803") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): the driver's library and its "
        "kernel module are of different versions\n"
        "note: reboot, or unload and load the kernel module (nvidia), so that both are of one "
        "version" +
            library_note());
}

PROCESS_CASE("links between devices that are not set up", "MEZZO_FAKE_INIT=802") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_SYSTEM_NOT_READY (802): the machine's links between devices are "
        "not set up yet\n"
        "note: start the fabric manager (service nvidia-fabricmanager) of the driver's version" +
            library_note());
}

PROCESS_CASE("a compatibility package that does not serve the device", "MEZZO_FAKE_INIT=804") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804): the compatibility package "
        "of CUDA (cuda-compat) does not serve this device\n"
        "note: take its folder out of LD_LIBRARY_PATH and update the driver itself" +
            library_note());
}

PROCESS_CASE("an error that the driver does not know itself", "MEZZO_FAKE_INIT=999") {
  CHECK(why_not() ==
        "cuInit failed: CUDA_ERROR_UNKNOWN (999): the driver does not say what went wrong\n"
        "note: the kernel's log (dmesg, lines with NVRM or Xid) may; reload the kernel module "
        "(nvidia) or reboot" +
            library_note());
}

PROCESS_CASE("a code that Mezzo has no words for is told by the driver's name or by its number",
             "MEZZO_FAKE_FAIL=cuStreamCreate=304") {
  const auto operating_system = static_cast<runtime::cuda::Result>(304);
  CHECK(runtime::cuda_error_text("cuInit", operating_system) ==
        "cuInit failed: unknown error (304)");  // no driver is open
  CHECK(error_of<DeviceError>([] { runtime::cuda_context(0); }) ==
        "cuStreamCreate failed: CUDA_ERROR_OPERATING_SYSTEM (304)");
  CHECK(runtime::cuda_error_text("cuInit", static_cast<runtime::cuda::Result>(987)) ==
        "cuInit failed: unknown error (987)");
}

PROCESS_CASE("a driver that is older than all NVRTC", "MEZZO_FAKE_DRIVER=11080") {
  CHECK(why_not() ==
        "the NVIDIA driver is too old: it supports CUDA 11.8, and Mezzo needs 12.0 or newer\n"
        "note: update the driver" +
            library_note());
}

PROCESS_CASE("a device that Mezzo has no target for", "MEZZO_FAKE_CC=86") {
  const CudaDeviceFacts facts = runtime::cuda_device_facts(0);
  CudaDeviceFacts newer = facts;
  newer.compute_capability = 200;
  const std::string error = error_of<DeviceError>([&] { runtime::cuda_target(newer); });
  check_parts(error, {"CUDA device 0 (Mezzo PTX interpreter sm_86) is of architecture sm_200, "
                      "which Mezzo does not know\nnote: ",
                      "sm_90"});
}

PROCESS_CASE("a driver that is older than NVRTC", "MEZZO_FAKE_DRIVER=12080",
             "MEZZO_STUB_NVRTC=13.0", "MEZZO_NVRTC_LIBRARY=" + stub_nvrtc()) {
  CHECK(codegen::nvrtc_available());  // nobody has asked for a device
  CHECK(codegen::nvrtc_version() == 13000);
  runtime::cuda_context(0);
  std::string reason;
  CHECK_FALSE(codegen::nvrtc_available(&reason));
  CHECK(reason ==
        "the CUDA compiler NVRTC is newer than the driver: " + stub_nvrtc() +
            " is 13.0, and a driver of CUDA 12 loads what NVRTC 12 or older makes (looked for "
            "MEZZO_NVRTC_LIBRARY = " +
            stub_nvrtc() +
            ")\n"
            "note: update the NVIDIA driver, or install NVRTC 12 (package cuda-nvrtc of the CUDA "
            "toolkit 12) or set MEZZO_NVRTC_LIBRARY to the path of its libnvrtc.so");
  CHECK(error_of<DeviceError>([] { codegen::compile_cuda("", "sm_80"); }) == reason);
}

PROCESS_CASE("an NVRTC of the driver's major version is used", "MEZZO_FAKE_DRIVER=12020",
             "MEZZO_STUB_NVRTC=12.9", "MEZZO_NVRTC_LIBRARY=" + stub_nvrtc()) {
  runtime::cuda_context(0);
  CHECK(codegen::nvrtc_version() == 12090);
}

PROCESS_CASE("an NVRTC that the variable names and that is not there",
             "MEZZO_NVRTC_LIBRARY=/nowhere/libnvrtc.so") {
  CHECK(error_of<DeviceError>([] { codegen::compile_cuda("", "sm_80"); }) ==
        "the CUDA compiler NVRTC was not found: looked for MEZZO_NVRTC_LIBRARY = "
        "/nowhere/libnvrtc.so (/nowhere/libnvrtc.so: cannot open shared object file: No such file "
        "or directory)\n"
        "note: install it (package cuda-nvrtc of the CUDA toolkit, 12.0 or newer) or set "
        "MEZZO_NVRTC_LIBRARY to the path of libnvrtc.so");
}

PROCESS_CASE("an NVRTC whose version cannot be had", "MEZZO_NVRTC_LIBRARY=" + stub_nvrtc()) {
  check_parts(error_of<DeviceError>([] { codegen::nvrtc_version(); }),
              {"the CUDA compiler NVRTC was not found: looked for MEZZO_NVRTC_LIBRARY = ",
               " (gives no version)\nnote: "});
}

/// NVRTC opens libcuda.so.1 itself, for a cache of its own, and asks it for tables that only a real
/// driver has. Here that is the fake one.
TEST_CASE("NVRTC compiles while the fake driver has the name of a real one") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  const TempDir folder;
  std::filesystem::create_symlink(fake_library(), folder / "libcuda.so.1");
  if (!in_own_process("NVRTC compiles while the fake driver has the name of a real one",
                      {"LD_LIBRARY_PATH=" + folder.path().string(), "MEZZO_CUDA_LIBRARY"}))
    return;
  CHECK(runtime::cuda_context(0)->facts().name == "Mezzo PTX interpreter sm_80");
  CHECK(codegen::compile_cuda("__global__ void k(float* x) { *x = 1; }", "sm_80").cubin.size() > 0);
}

/// The file that NVRTC was loaded from.
std::string nvrtc_file() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/libnvrtc.so") != std::string::npos) return line.substr(line.find('/'));
  return "";
}

/// A folder with links to NVRTC and, if wanted, to its builtins, and one where the loader looks
/// first, whose builtins are no library.
struct Installation {
  explicit Installation(bool whole) {
    const std::filesystem::path file = nvrtc_file();
    if (file.empty()) return;
    std::filesystem::create_symlink(file, here / "libnvrtc.so");
    if (whole) std::filesystem::create_symlink(file.parent_path() / builtins, here / builtins);
    std::ofstream(first / builtins) << "no library";
  }
  std::string builtins =
      "libnvrtc-builtins.so." + runtime::cuda_version_text(codegen::nvrtc_version());
  TempDir here, first;
  std::string variables[2] = {"LD_LIBRARY_PATH=" + first.path().string(),
                              "MEZZO_NVRTC_LIBRARY=" + (here / "libnvrtc.so").string()};
};

void compile_k7() {
  codegen::compile_cuda("__global__ void k(float* x) { *x = 1; }", "sm_80", "k7");
}

TEST_CASE("the builtins of NVRTC cannot be opened") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  const Installation part(false);
  if (!in_own_process("the builtins of NVRTC cannot be opened",
                      {part.variables[0], part.variables[1]}))
    return;
  const std::string error = error_of<DeviceError>(compile_k7);
  check_parts(error, {"k7 cannot be compiled for sm_80: NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                      "nvrtc: error: failed to open libnvrtc-builtins"});
  CHECK(error.ends_with("\nnote: " + part.builtins +
                        " is a part of NVRTC and must lie where libnvrtc.so does: install the "
                        "whole package (cuda-nvrtc " +
                        runtime::cuda_version_text(codegen::nvrtc_version()) + ")"));
}

TEST_CASE("builtins that lie beside NVRTC are those that it finds") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  const Installation whole(true);
  if (in_own_process("builtins that lie beside NVRTC are those that it finds",
                     {whole.variables[0], whole.variables[1]}))
    compile_k7();
}

}  // namespace
}  // namespace mezzo::test
