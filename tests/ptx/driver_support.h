// SPDX-License-Identifier: Apache-2.0
// Tests of the fake driver and of the CUDA driver side of the product: cases that run in a process
// of their own, the fake driver's functions, small kernels.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <ptx/fake_api.h>
#include <string>
#include <vector>

namespace mezzo::test {

/// Path of libmezzo-fakecuda.so.
std::string fake_library();

/// Path of a library that answers as an NVRTC of the version MEZZO_STUB_NVRTC and compiles nothing.
std::string stub_nvrtc();

/// True in a process that runs this case alone, with the variables given (`NAME=VALUE`; `NAME`
/// alone is unset). Elsewhere starts that process and fails the case if it failed.
/// MEZZO_CUDA_LIBRARY is the fake driver unless it is given.
bool in_own_process(const char* name, std::initializer_list<std::string> environment);

// Drivers are opened once a process and faults end their use of the device.
#define MEZZO_PROCESS_CASE(function, name, ...)                         \
  static void function();                                               \
  TEST_CASE(name) {                                                     \
    if (::mezzo::test::in_own_process(name, {__VA_ARGS__})) function(); \
  }                                                                     \
  static void function()
#define PROCESS_CASE(name, ...) \
  MEZZO_PROCESS_CASE(DOCTEST_ANONYMOUS(process_case_), name, __VA_ARGS__)

/// The fake driver's functions, by their full names.
struct Fake {
#define X(name, suffix, parameters) decltype(&runtime::cuda::name##suffix) name##suffix = nullptr;
  MEZZO_CUDA_FUNCTIONS(X)
  MEZZO_FAKE_FUNCTIONS(X)
#undef X
  const char* (*last_fault)() = nullptr;
  uint64_t (*count)(const char*) = nullptr;
  void (*reset_counts)() = nullptr;
};
const Fake& fake();

/// cuInit, the primary context of device 0 current in this thread; released at the end.
class FakeContext {
 public:
  explicit FakeContext(int device = 0);
  ~FakeContext();
  FakeContext(const FakeContext&) = delete;
  FakeContext& operator=(const FakeContext&) = delete;

  runtime::cuda::DevicePointer allocate(size_t bytes) const;
  /// Numbers from and to the device, with waiting.
  runtime::cuda::DevicePointer upload(const std::vector<float>& values) const;
  std::vector<float> download(runtime::cuda::DevicePointer from, size_t count) const;
  runtime::cuda::Stream stream(unsigned flags = runtime::cuda::StreamNonBlocking) const;
  runtime::cuda::Event event() const;
  runtime::cuda::Function kernel(const char* ptx, const char* name) const;

 private:
  int device_;
  runtime::cuda::Context context_ = nullptr;
};

/// Launches one block a hundred elements of `kKernels`' add: out[i] = a[i] + b[i].
runtime::cuda::Result launch_add(runtime::cuda::Function add, runtime::cuda::DevicePointer a,
                                 runtime::cuda::DevicePointer b, runtime::cuda::DevicePointer out,
                                 uint32_t count, runtime::cuda::Stream stream);
/// Launches `kKernels`' poke: 4 bytes stored at `address`.
runtime::cuda::Result launch_poke(runtime::cuda::Function poke,
                                  runtime::cuda::DevicePointer address,
                                  runtime::cuda::Stream stream);

/// PTX of kernels `add` (three pointers and a count of f32) and `poke` (a pointer), for sm_75.
extern const char* const kKernels;

/// A cubin that has headers alone, for one architecture, with PTX behind it as cuda_image() puts
/// it.
std::string cubin_with(int architecture, int abi, const std::string& ptx);

/// Whether `text` has all of `parts`; prints it where one is missing.
void check_parts(const std::string& text, std::initializer_list<const char*> parts);

}  // namespace mezzo::test
