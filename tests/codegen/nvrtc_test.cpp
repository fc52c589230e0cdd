// SPDX-License-Identifier: Apache-2.0
// Random kernels through NVRTC for two architectures: all compile, nothing spills, vectors are
// accesses of 16 bytes. Nothing is executed, so no GPU is needed; where there is no NVRTC the cases
// are skipped.
#include <mezzo/codegen/cuda/nvrtc.h>

#include <mezzo/ir/error.h>
#include <support/random_region.h>
#include <support/skip.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <codegen/cuda_kernels.h>
#include <cstdio>
#include <span>

namespace mezzo::test {
namespace {

using codegen::CudaBinary;
using codegen::CudaSource;

constexpr const char* kArchitectures[] = {"sm_80", "sm_90"};
constexpr int kRegions = 10;

bool missing() {
  std::string reason;
  if (codegen::nvrtc_available(&reason)) return false;
  skip_case(reason);
  return true;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

CudaBinary compile(const std::vector<CudaSource>& kernels, const std::string& arch) {
  return codegen::compile_cuda(codegen::cuda_program(kernels), arch);
}

void check_family(RegionFamily family, const char* name) {
  for (const char* arch : kArchitectures) {
    std::vector<CudaSource> kernels;
    const ir::Target target = ir::target_by_name(arch);
    for (int seed = 0; seed < kRegions; ++seed) {
      std::unique_ptr<ir::Module> module = random_region(family, static_cast<uint64_t>(seed));
      plan_for(*module, arch);
      for (const ir::Op* kernel : kernels_of(*module))
        if (codegen::can_emit_cuda(*kernel))
          kernels.push_back(
              codegen::emit_cuda_kernel(*kernel, target, "k" + std::to_string(kernels.size())));
    }
    CHECK(kernels.size() >= kRegions);
    const double trivial =
        codegen::compile_cuda("extern \"C\" __global__ void k() {}", arch).milliseconds;
    double total = 0;
    int vectors = 0, most_registers = 0;
    for (size_t first = 0; first < kernels.size(); first += codegen::kMaxKernelsPerProgram) {
      const size_t size = std::min(codegen::kMaxKernelsPerProgram, kernels.size() - first);
      const CudaBinary binary = codegen::compile_cuda(
          codegen::cuda_program(std::span(kernels).subspan(first, size)), arch);
      total += binary.milliseconds;
      vectors += count(binary.ptx, "ld.global.v4") + count(binary.ptx, "ld.global.nc.v4");
      CHECK(
          binary.cubin.starts_with("\x7f"
                                   "ELF"));
      REQUIRE(binary.kernels.size() == size);
      for (const codegen::KernelResources& kernel : binary.kernels) {
        INFO(arch << " " << kernel.entry);
        CHECK(kernel.registers > 0);
        CHECK(kernel.registers <= 255);
        CHECK(kernel.spill_store_bytes == 0);
        CHECK(kernel.spill_load_bytes == 0);
        CHECK(kernel.stack_bytes == 0);
        most_registers = std::max(most_registers, kernel.registers);
      }
    }
    CHECK(vectors > 0);
    std::printf(
        "%s, %s: %zu kernels in %.0f ms (%.1f ms each; an empty one %.1f ms), at most %d "
        "registers\n",
        name, arch, kernels.size(), total, total / static_cast<double>(kernels.size()), trivial,
        most_registers);
  }
}

TEST_CASE("random elementwise regions compile for both architectures without spills") {
  if (missing()) return;
  check_family(RegionFamily::Elementwise, "elementwise");
}

TEST_CASE("random rows regions compile for both architectures without spills") {
  if (missing()) return;
  check_family(RegionFamily::Rows, "rows");
}

TEST_CASE("vectors are loads and stores of 16 bytes") {
  if (missing()) return;
  for (const char* type : {"f32", "f16", "bf16", "i32", "i64", "u8"}) {
    const std::string tensor = std::string("tensor<4096x") + type + ">";
    std::unique_ptr<ir::Module> module =
        ir::parse("module @m attributes {stage = \"primitive\"} {\n  func @main(%x: " + tensor +
                  ", %y: " + tensor + ") -> " + tensor + " {\n    %0 = add %x, %y : " + tensor +
                  "\n    return %0 : " + tensor + "\n  }\n}\n");
    plan_for(*module, "sm_80");
    const CudaSource source =
        codegen::emit_cuda_kernel(*kernels_of(*module).at(0), ir::target_by_name("sm_80"), "k0");
    const CudaBinary binary = compile({source}, "sm_80");
    INFO(type);
    CHECK(count(binary.ptx, "ld.global.v4.u32") + count(binary.ptx, "ld.global.nc.v4.u32") +
              count(binary.ptx, "ld.global.v4.f32") + count(binary.ptx, "ld.global.nc.v4.f32") ==
          2);
    CHECK(count(binary.ptx, "st.global.v4") == 1);
  }
}

TEST_CASE("a source with an error is refused with the compiler's log") {
  if (missing()) return;
  try {
    codegen::compile_cuda("extern \"C\" __global__ void k() { undeclared(); }", "sm_80", "wrong");
    FAIL("an undeclared function compiled");
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    CHECK(text.starts_with("wrong cannot be compiled for sm_80: "));
    CHECK(text.find("undeclared") != std::string::npos);
  }
}

TEST_CASE("registers, spills and shared memory are read from the compiler's log") {
  const std::vector<codegen::KernelResources> kernels = codegen::parse_resources(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k1' for 'sm_90'\n"
      "ptxas info    : Function properties for k1\n"
      "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 64 bytes smem\n"
      "ptxas info    : Compiling entry function 'k0' for 'sm_90'\n"
      "ptxas info    : Function properties for k0\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 18 registers, used 0 barriers\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].entry == "k1");
  CHECK(kernels[0].registers == 40);
  CHECK(kernels[0].stack_bytes == 16);
  CHECK(kernels[0].spill_store_bytes == 12);
  CHECK(kernels[0].spill_load_bytes == 8);
  CHECK(kernels[0].shared_bytes == 64);
  CHECK(kernels[1].registers == 18);
  CHECK(kernels[1].spill_store_bytes == 0);
  CHECK(kernels[1].shared_bytes == 0);
}

}  // namespace
}  // namespace mezzo::test
