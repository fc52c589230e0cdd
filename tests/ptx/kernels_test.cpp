// SPDX-License-Identifier: Apache-2.0
// Kernels as NVRTC compiles them for all seven architectures, executed and compared with f64; the
// same kernels with faults, each of which has to be found and named.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <ptx/micro.h>

namespace mezzo::ptx::test {
namespace {

constexpr const char* kArchitectures[] = {"sm_75", "sm_80",  "sm_86", "sm_89",
                                          "sm_90", "sm_100", "sm_120"};

/// The PTX of the kernels with one macro more.
std::string compile(const std::string& arch, const std::string& fault = "") {
  std::ifstream file("tests/ptx/kernels.cuh");
  REQUIRE(file);
  std::string source(std::istreambuf_iterator<char>(file), {});
  for (const char* number : {"GELU_SHIFT", "EXTRA_WAIT", "SWAPPED"})
    source = fmt::format("#define {} {}\n", number, fault == number ? 1 : 0) + source;
  if (fault.substr(0, 3) == "NO_") source = fmt::format("#define {}\n", fault) + source;
  return codegen::compile_cuda(source, arch, "kernels.cu").ptx;
}

struct Run {
  double error = 0;  // the largest, as each kernel measures it
  double seconds = 0;
  Counters counters;
};

Run launch(const Module& module, DeviceMemory& memory, const char* kernel, Dim3 grid,
           std::span<const std::byte> parameters, const Options& options) {
  Run run;
  const auto start = std::chrono::steady_clock::now();
  run.counters = module.kernel(kernel).launch(memory, grid, {128}, 0, parameters, options);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

double value_at(size_t i) { return static_cast<double>(i * 7919 % 401) / 100 - 2; }

/// Errors in units of f16. The buffers end with the elements.
Run run_gelu(const Module& module, DeviceMemory& memory, size_t n, const Options& options = {}) {
  Buffer<uint16_t> x(memory, n), y(memory, n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<uint16_t>(narrow(value_at(i), Half::F16));
  const auto blocks = static_cast<uint32_t>((n + 1023) / 1024);
  auto parameters = parameter_bytes({x.address, y.address, n});
  parameters.resize(20);
  Run run = launch(module, memory, "gelu", {blocks}, parameters, options);
  for (size_t i = 0; i < n; ++i) {
    const double v = widen(x[i], Half::F16);
    const double wanted = 0.5 * v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v)));
    run.error = std::max(run.error, std::fabs(widen(y[i], Half::F16) - wanted) /
                                        (0x1p-11 * std::fabs(wanted) + 0x1p-16));
  }
  return run;
}

Run run_softmax(const Module& module, DeviceMemory& memory, size_t rows, size_t n,
                const Options& options = {}) {
  Buffer<float> x(memory, rows * n), y(memory, rows * n);
  for (size_t i = 0; i < rows * n; ++i) x[i] = static_cast<float>(3 * value_at(i));
  auto parameters = parameter_bytes({x.address, y.address, n});
  parameters.resize(20);
  Run run = launch(module, memory, "softmax", {static_cast<uint32_t>(rows)}, parameters, options);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[r * n + i]));
    for (size_t i = 0; i < n; ++i) {
      const double wanted = std::exp(static_cast<double>(x[r * n + i])) / sum;
      run.error = std::max(run.error, std::fabs(y[r * n + i] - wanted) / wanted);
    }
  }
  return run;
}

Run run_gemm(const Module& module, DeviceMemory& memory, size_t m, size_t n, size_t k,
             const Options& options = {}) {
  Buffer<uint16_t> a(memory, m * k), b(memory, k * n);
  Buffer<float> c(memory, m * n);
  for (size_t i = 0; i < m * k; ++i) a[i] = static_cast<uint16_t>(narrow(value_at(i), Half::F16));
  for (size_t i = 0; i < k * n; ++i)
    b[i] = static_cast<uint16_t>(narrow(value_at(3 * i + 1), Half::F16));
  const Dim3 grid{static_cast<uint32_t>(n / 64), static_cast<uint32_t>(m / 64), 1};
  Run run =
      launch(module, memory, "gemm", grid,
             parameter_bytes({a.address, b.address, c.address, n | uint64_t{k} << 32}), options);
  for (size_t i = 0; i < m; i += 3) {
    for (size_t j = 0; j < n; j += 5) {
      double wanted = 0;
      for (size_t p = 0; p < k; ++p)
        wanted += widen(a[i * k + p], Half::F16) * widen(b[p * n + j], Half::F16);
      run.error = std::max(run.error, std::fabs(c[i * n + j] - wanted));
    }
  }
  return run;
}

TEST_CASE("kernels of NVRTC run for every architecture, in every order of blocks and mode") {
  if (mezzo::test::lacks_nvrtc()) return;
  for (const char* arch : kArchitectures) {
    INFO(std::string(arch));
    DeviceMemory memory(64 << 20);
    const Module module(compile(arch), memory);
    CHECK("sm_" + std::to_string(module.target()) == arch);
    for (const BlockOrder order :
         {BlockOrder::Forward, BlockOrder::Reversed, BlockOrder::Random, BlockOrder::RoundRobin}) {
      Options options;
      options.order = order;
      options.hostile_divergence = order == BlockOrder::Random;
      options.mma = order == BlockOrder::Reversed ? MmaMode::Exact : MmaMode::Sequential;
      CHECK(run_gelu(module, memory, 5003, options).error < 1.5);
      CHECK(run_softmax(module, memory, 5, 300, options).error < 1e-5);
      CHECK(run_gemm(module, memory, 128, 64, 96, options).error < 1e-3);
    }
  }
}

struct Seeded {
  const char* name;
  const char* kernel;
  FaultKind kind;
  const char* statement;  // a part of the line that is named
  const char* text;
};

TEST_CASE("faults in kernels of NVRTC are found and named by line, thread and address") {
  if (mezzo::test::lacks_nvrtc()) return;
  const Seeded faults[] = {
      {"NO_TAIL", "gelu", FaultKind::OutOfBounds, "ld.global", "of the allocation of 10006 bytes"},
      {"GELU_SHIFT", "gelu", FaultKind::Misaligned, "ld.global",
       "access of 16 bytes to global address"},
      {"NO_FOLD_BARRIER", "softmax", FaultKind::SharedRace, "ld.shared",
       "reads what thread 0 wrote"},
      {"NO_STAGE_BARRIER", "gemm", FaultKind::SharedRace, "cp.async",
       "overwrites what other threads read"},
      {"EXTRA_WAIT", "gemm", FaultKind::Uninitialized, "ldmatrix", "cp.async of thread"},
      {"NO_ZERO", "gemm", FaultKind::Uninitialized, "ld.volatile.shared", "nobody has written"},
  };
  for (const Seeded& each : faults) {
    for (const char* arch : {"sm_80", "sm_120"}) {
      INFO(std::string(each.name) << " " << std::string(arch));
      const std::string ptx = compile(arch, each.name);
      DeviceMemory memory(64 << 20);
      const Module module(ptx, memory);
      std::optional<Fault> fault;
      try {
        if (std::string(each.kernel) == "gelu") run_gelu(module, memory, 5003);
        if (std::string(each.kernel) == "softmax") run_softmax(module, memory, 5, 300);
        if (std::string(each.kernel) == "gemm") run_gemm(module, memory, 64, 64, 128);
      } catch (const Fault& caught) {
        fault = caught;
      }
      REQUIRE(fault);
      const std::string what = fault->what();
      INFO(what);
      CHECK(fault->kind == each.kind);
      CHECK(what.find(each.statement) != std::string::npos);
      CHECK(what.find(each.text) != std::string::npos);
      CHECK(what.find(fmt::format("kernel '{}', ptx line {} ", each.kernel, fault->line)) !=
            std::string::npos);
      fmt::print("{} {}: {}\n", each.name, arch, what);
    }
  }
  // A fragment of the wrong rows is no fault; the result shows it.
  DeviceMemory memory(64 << 20);
  const Module module(compile("sm_80", "SWAPPED"), memory);
  CHECK(run_gemm(module, memory, 64, 64, 128).error > 1);
}

TEST_CASE("accesses of a matrix product against the ideal, and the interpreter's speed") {
  if (mezzo::test::lacks_nvrtc()) return;
  for (const char* arch : {"sm_75", "sm_90", "sm_120"}) {
    DeviceMemory memory(64 << 20);
    const Module module(compile(arch), memory);
    Options options;
    options.count = true;
    const Run counted = run_gemm(module, memory, 128, 128, 128, options);
    LineCounters all;
    for (const LineCounters& line : counted.counters.lines) {
      all.sectors += line.sectors;
      all.ideal_sectors += line.ideal_sectors;
      // Stores of two floats are split by the compiler for older architectures.
      if (line.text.find("st.global") == std::string::npos)
        CHECK(line.sectors == line.ideal_sectors);
      if (line.text.find("ldmatrix") == std::string::npos) continue;
      // Rows are padded: no bank is asked twice.
      CHECK(line.wavefronts == line.ideal_wavefronts);
      all.executions += line.executions;
      all.wavefronts += line.wavefronts;
      all.ideal_wavefronts += line.ideal_wavefronts;
    }
    fmt::print("{}: sectors {} of {} ideal, wavefronts of ldmatrix {} of {}\n", arch, all.sectors,
               all.ideal_sectors, all.wavefronts, all.ideal_wavefronts);
    CHECK(all.wavefronts == 4 * all.executions);
    const Run product = run_gemm(module, memory, 512, 512, 256);
    CHECK(product.error < 2e-3);
    const Run rows = run_softmax(module, memory, 128, 1000);
    const Run single = run_gelu(module, memory, 200000);
    fmt::print(
        "{}: product {:.2f} GFLOP/s, softmax rows {:.1f} Melem/s, gelu {:.1f} Melem/s, with all "
        "checks\n",
        arch, 2 * 512.0 * 512 * 256 / product.seconds / 1e9, 128e3 / rows.seconds / 1e6,
        0.2 / single.seconds);
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
