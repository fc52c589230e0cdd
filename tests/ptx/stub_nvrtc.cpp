// SPDX-License-Identifier: Apache-2.0
// A library with the functions of NVRTC that only tells a version, MEZZO_STUB_NVRTC (`12.4`): what
// is said of a compiler that does not fit the driver can be tested where no such one is installed.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

using Program = void*;
constexpr int kRefused = 11;  // NVRTC_ERROR_INTERNAL_ERROR

}  // namespace

#define STUB extern "C" __attribute__((visibility("default")))

STUB int nvrtcVersion(int* major, int* minor) {
  const char* version = std::getenv("MEZZO_STUB_NVRTC");
  return version && std::sscanf(version, "%d.%d", major, minor) == 2 ? 0 : kRefused;
}
STUB const char* nvrtcGetErrorString(int) { return "this is a stub"; }
STUB int nvrtcCreateProgram(Program*, const char*, const char*, int, const char* const*,
                            const char* const*) {
  return kRefused;
}
STUB int nvrtcDestroyProgram(Program*) { return kRefused; }
STUB int nvrtcCompileProgram(Program, int, const char* const*) { return kRefused; }
STUB int nvrtcGetPTXSize(Program, size_t*) { return kRefused; }
STUB int nvrtcGetPTX(Program, char*) { return kRefused; }
STUB int nvrtcGetCUBINSize(Program, size_t*) { return kRefused; }
STUB int nvrtcGetCUBIN(Program, char*) { return kRefused; }
STUB int nvrtcGetProgramLogSize(Program, size_t*) { return kRefused; }
STUB int nvrtcGetProgramLog(Program, char*) { return kRefused; }
