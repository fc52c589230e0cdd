// SPDX-License-Identifier: Apache-2.0
// Kernels of all families but matmul as a GPU would run them: NVRTC's PTX, run by the interpreter
// of tests/ptx. Exact kernels equal the interpreter of the IR bit for bit, flags too; other ops are
// within the bound of their row for the operands that they had. Every run is repeated with another
// order of blocks and hostile divergence, which must change no bit.
// MEZZO_FUZZ_GRAPHS: random graphs and regions (default 20); more than that takes every case of the
// table to every architecture.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/plan.h>
#include <support/nvrtc.h>
#include <support/random_graph.h>
#include <support/random_region.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <codegen/cuda_cases.h>
#include <codegen/cuda_kernels.h>
#include <codegen/family_runs.h>
#include <cstdlib>
#include <optional>

namespace mezzo::test {
namespace {

constexpr int kGraphs = 20;
constexpr const char* kArchitectures[] = {"sm_75", "sm_80",  "sm_86", "sm_89",
                                          "sm_90", "sm_100", "sm_120"};

int graphs_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_GRAPHS");
  return text ? std::max(1, std::atoi(text)) : kGraphs;
}
bool is_long() { return graphs_wanted() > kGraphs; }

/// Two of the architectures, the oldest and one of another kind; all of them where time allows.
std::vector<std::string> architectures() {
  if (is_long()) return {std::begin(kArchitectures), std::end(kArchitectures)};
  return {"sm_75", "sm_90"};
}

/// Every kernel of one case in `share` on each architecture, each time others.
void check_cases(const char* name, const std::vector<CudaCase>& cases, size_t share,
                 std::optional<ir::Family> family = {}) {
  if (lacks_nvrtc()) return;
  if (is_long()) share = 1;
  const auto start = std::chrono::steady_clock::now();
  FamilyCounts counts;
  size_t offset = 0;
  for (const std::string& arch : architectures()) {
    std::vector<NamedKernel> kernels;
    for (size_t i = offset++; i < cases.size(); ++i) {
      if ((i + i / share) % share != offset % share) continue;
      std::unique_ptr<ir::Module> module = cases[i].module->clone();
      plan_for(*module, arch);
      for (const ir::Op* kernel : kernels_of(*module))
        if (!family || ir::family_of(*kernel) == *family)
          kernels.push_back({cases[i].name, alone(*kernel)});
    }
    run_kernels(std::move(kernels), arch, counts);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {}, {:.1f} s\n", name, to_string(counts), took.count());
  CHECK(counts.exact + counts.judged > 0);
}

TEST_CASE("elementwise rows compute what the interpreter does") {
  check_cases("elementwise rows", elementwise_cases(), 4);
}

TEST_CASE("views, pad, iota and random numbers are those of the interpreter") {
  check_cases("movement", movement_cases(), 2);
}

TEST_CASE("reversal, concatenation and reading by index are those of the interpreter") {
  check_cases("indexing", indexing_cases(), 3);
}

TEST_CASE("sums of scatters compute what the interpreter does") {
  check_cases("scatter", scatter_cases(), 3, ir::Family::Scatter);
}

TEST_CASE("reductions over trailing axes compute what the interpreter does") {
  check_cases("rows", reduction_cases(), 4);
}

TEST_CASE("reductions over leading axes compute what the interpreter does") {
  check_cases("columns", column_cases(), 4);
}

TEST_CASE("chains of reductions over leading axes compute what the interpreter does") {
  check_cases("column chains", column_chain_cases(), 2, ir::Family::Columns);
}

TEST_CASE("scans compute what the interpreter does") { check_cases("scan", scan_cases(), 4); }

TEST_CASE("orders are those of the interpreter") { check_cases("sort", order_cases(), 4); }

TEST_CASE("reductions over rows and columns in one kernel compute what the interpreter does") {
  check_cases("rows and columns", rows_columns_cases(), 2, ir::Family::RowsColumns);
}

TEST_CASE("updates of many parameters in one kernel are those of the interpreter") {
  check_cases("optimizer", optimizer_cases(), 2, ir::Family::Optimizer);
}

TEST_CASE("kernels of random exact graphs are what the interpreter computes") {
  if (lacks_nvrtc()) return;
  for (const char* rounding : {"as-written", "excess"}) {
    FamilyCounts counts;
    for (const std::string& arch : architectures()) {
      std::vector<NamedKernel> kernels;
      for (int seed = 1; seed <= graphs_wanted(); ++seed) {
        std::unique_ptr<ir::Module> module =
            random_graph(static_cast<uint64_t>(seed), {.ops = GraphOps::Exact});
        compile_passes(*module, arch, rounding);
        for (const ir::Op* kernel : kernels_of(*module))
          if (ir::family_of(*kernel) != ir::Family::Matmul)
            kernels.push_back(
                {fmt::format("{} {} @{}", rounding, seed, kernel->kernel_name()), alone(*kernel)});
      }
      run_kernels(std::move(kernels), arch, counts);
    }
    fmt::print("random graphs, {}: {}\n", rounding, to_string(counts));
    CHECK(counts.exact > 0);
    CHECK(counts.judged + counts.unjudged == 0);
  }
}

void check_regions(const char* name, RegionFamily family) {
  if (lacks_nvrtc()) return;
  const auto start = std::chrono::steady_clock::now();
  FamilyCounts counts;
  for (const std::string& arch : architectures()) {
    std::vector<NamedKernel> kernels;
    for (int seed = 1; seed <= graphs_wanted(); ++seed) {
      std::unique_ptr<ir::Module> module = random_region(family, static_cast<uint64_t>(seed));
      plan_for(*module, arch);
      for (const ir::Op* kernel : kernels_of(*module))
        kernels.push_back({fmt::format("{} {}", name, seed), alone(*kernel)});
    }
    run_kernels(std::move(kernels), arch, counts);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("random {} regions: {}, {:.1f} s\n", name, to_string(counts), took.count());
  CHECK(counts.exact + counts.judged >= graphs_wanted());
}

TEST_CASE("each op of random elementwise regions is right for what it was given") {
  check_regions("elementwise", RegionFamily::Elementwise);
}

TEST_CASE("each op of random rows regions is right for what it was given") {
  check_regions("rows", RegionFamily::Rows);
}

TEST_CASE("each op of random columns regions is right for what it was given") {
  check_regions("columns", RegionFamily::Columns);
}

TEST_CASE("each op of random regions of rows and columns is right for what it was given") {
  check_regions("rows and columns", RegionFamily::RowsColumns);
}

TEST_CASE("each op of random scan regions is right for what it was given") {
  check_regions("scan", RegionFamily::Scan);
}

TEST_CASE("random sort regions are right for what they were given") {
  check_regions("sort", RegionFamily::Sort);
}

}  // namespace
}  // namespace mezzo::test
