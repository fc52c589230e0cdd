// SPDX-License-Identifier: Apache-2.0
// Kernels through NVRTC for two architectures: every row of the op table, random regions and random
// graphs. All compile without a warning, nothing spills, vectors are accesses of 16 bytes. Nothing
// is executed, so no GPU is needed; where there is no NVRTC the cases are skipped.
// MEZZO_FUZZ_GRAPHS: random graphs, and random regions of each family (default 25).
#include <mezzo/codegen/cuda/nvrtc.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <support/nvrtc.h>
#include <support/random_graph.h>
#include <support/random_region.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <codegen/cuda_cases.h>
#include <codegen/cuda_kernels.h>
#include <codegen/cuda_listing.h>
#include <cstdlib>
#include <set>

namespace mezzo::test {
namespace {

using codegen::CudaBinary;
using codegen::CudaSource;

constexpr const char* kArchitectures[] = {"sm_80", "sm_90"};

constexpr int kGraphs = 25;

int graphs_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_GRAPHS");
  return text ? std::max(1, std::atoi(text)) : kGraphs;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

CudaBinary compile(const std::vector<CudaSource>& kernels, const std::string& arch) {
  return codegen::compile_cuda(codegen::cuda_program(kernels), arch);
}

/// Every kernel of the cases; one that no family of the CUDA back end takes fails the test.
void add_kernels(const std::vector<CudaCase>& cases, const std::string& arch,
                 std::vector<CudaKernel>& kernels, std::set<ir::OpKind>& seen) {
  for (const CudaCase& each : cases) {
    INFO(each.name);
    std::unique_ptr<ir::Module> module = each.module->clone();
    plan_for(*module, arch);
    const std::vector<const ir::Op*> found = kernels_of(*module);
    CHECK_FALSE(found.empty());
    for (const ir::Op* kernel : found) {
      for (const ir::Op& op : *kernel->body()) seen.insert(op.kind());
      kernels.push_back(
          emit_for_test(*kernel, arch, each.name, "k" + std::to_string(kernels.size())));
    }
  }
}

/// One case in `share` for each architecture, all where random graphs are many; which one moves
/// along with every `share` cases, so that a row of three shapes is not always tried in the same.
void check_cases(const char* name, const std::vector<CudaCase>& cases, size_t share) {
  if (graphs_wanted() > kGraphs) share = 1;
  for (size_t a = 0; a < std::size(kArchitectures); ++a) {
    const char* arch = kArchitectures[a];
    std::vector<CudaKernel> all, kernels;
    std::set<ir::OpKind> seen;
    add_kernels(cases, arch, all, seen);
    CHECK(all.size() >= cases.size());
    for (size_t i = 0; i < all.size(); ++i)
      if ((i + i / share + a) % share == 0) kernels.push_back(std::move(all[i]));
    ListingSummary summary;
    check_compiled(kernels, arch, summary);
    print_summary(name, arch, summary);
  }
}

TEST_CASE("every row of the op table is held by a kernel or named as served elsewhere") {
  std::vector<CudaKernel> kernels;
  std::set<ir::OpKind> seen, elsewhere;
  for (auto* cases :
       {&elementwise_cases, &movement_cases, &reduction_cases, &column_cases, &scan_cases,
        &order_cases, &optimizer_cases, &wide_cases, &indexing_cases, &scatter_cases})
    add_kernels(cases(), "sm_90", kernels, seen);
  for (const auto& [kind, reason] : rows_elsewhere()) {
    elsewhere.insert(kind);
    CHECK_MESSAGE(!seen.contains(kind), std::string(ir::to_string(kind)),
                  " is held by a kernel, not ", reason);
  }
  for (const ir::OpInfo& info : ir::all_ops())
    if (info.op_class != ir::OpClass::Composite)  // taken apart before fusion
      CHECK_MESSAGE(seen.contains(info.kind) != elsewhere.contains(info.kind),
                    std::string(info.name), " is held by no CUDA kernel");
}

TEST_CASE("every elementwise row compiles for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("elementwise rows", elementwise_cases(), 3);
}

TEST_CASE("views, pad, iota, random numbers and index checks compile for both architectures") {
  if (lacks_nvrtc()) return;
  check_cases("movement", movement_cases(), 2);
}

TEST_CASE("movement by index and scatters compile for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("indexing", indexing_cases(), 4);
  check_cases("scatter", scatter_cases(), 4);
}

TEST_CASE("every reduction compiles for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("reductions", reduction_cases(), 3);
}

TEST_CASE("reductions over leading axes compile for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("columns", column_cases(), 3);
}

TEST_CASE("every scan and every order compiles for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("scans", scan_cases(), 4);
  check_cases("orders", order_cases(), 4);
}

TEST_CASE("reductions over rows and columns compile for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("rows and columns", rows_columns_cases(), 2);
  check_cases("column chains", column_chain_cases(), 2);
}

TEST_CASE("updates of every optimizer compile for both architectures in every element type") {
  if (lacks_nvrtc()) return;
  check_cases("optimizer", optimizer_cases(), 8);
}

TEST_CASE("the update of 128 parameters is little more text than that of 4; 500 are four kernels") {
  for (const char* arch : kArchitectures) {
    const auto kernels_for = [&](int count) {
      std::vector<CudaKernel> kernels;
      CudaCase each = many_updates(count);
      plan_for(*each.module, arch);
      for (const ir::Op* kernel : kernels_of(*each.module))
        if (ir::family_of(*kernel) == ir::Family::Optimizer)
          kernels.push_back(emit_for_test(*kernel, arch, each.name, "k0"));
      return kernels;
    };
    CHECK(kernels_for(500).size() == 4);
    std::vector<CudaKernel> kernels = kernels_for(4);
    for (CudaKernel& kernel : kernels_for(128)) kernels.push_back(std::move(kernel));
    REQUIRE(kernels.size() == 2);
    const std::string few = kernels[0].source.text, many = kernels[1].source.text;
    // A line for the segment and one for its pointers.
    CHECK(many.size() < few.size() + 128 * 120);
    CHECK(count(few, "DEVICE void run") == 1);
    CHECK(count(many, "DEVICE void run") == 1);
    fmt::print("updates of 4 and of 128 parameters: {} and {} bytes of text\n", few.size(),
               many.size());
    std::string reason;
    if (!codegen::nvrtc_available(&reason)) continue;
    ListingSummary summary;
    check_compiled({kernels[1]}, arch, summary, true);
  }
}

TEST_CASE("tensors of more than 2^31 elements have indices of 64 bits, others have not") {
  for (const CudaCase& each : wide_cases()) {
    INFO(each.name);
    plan_for(*each.module, "sm_90");
    for (const ir::Op* kernel : kernels_of(*each.module)) {
      const CudaKernel wide = emit_for_test(*kernel, "sm_90", each.name, "k0");
      CHECK(wide.source.text.find("const u64 ") != std::string::npos);
    }
  }
  for (const CudaCase& each : movement_cases()) {
    INFO(each.name);
    plan_for(*each.module, "sm_90");
    for (const ir::Op* kernel : kernels_of(*each.module)) {
      // A random number's counter has 64 bits whatever the shape.
      if (std::any_of(kernel->body()->begin(), kernel->body()->end(),
                      [](const ir::Op& op) { return op.info().has(ir::Trait::Random); }))
        continue;
      CHECK(emit_for_test(*kernel, "sm_90", each.name, "k0").source.text.find("u64") ==
            std::string::npos);
    }
  }
  if (lacks_nvrtc()) return;
  check_cases("more than 2^31 elements", wide_cases(), 1);
}

/// Every kernel is a program of its own, as `mezzo build` makes them; between two of them a trivial
/// one is compiled, so that both see the same load of the machine.
void check_family(RegionFamily family, const char* name) {
  fmt::print("{:6} {:24} {:>9} {:>6} {:>5} {:>12}  {:24} {}\n", "arch", "kernel", "registers",
             "spills", "stack", "instructions", "loads x bytes", "stores x bytes");
  for (const char* arch : kArchitectures) {
    ListingSummary summary;
    std::vector<double> times, trivial;
    for (int seed = 0; seed < graphs_wanted(); ++seed) {
      std::unique_ptr<ir::Module> module = random_region(family, static_cast<uint64_t>(seed));
      plan_for(*module, arch);
      for (const ir::Op* kernel : kernels_of(*module)) {
        const double before = summary.milliseconds;
        check_compiled({emit_for_test(*kernel, arch, fmt::format("{} {}", name, seed), "k0")}, arch,
                       summary, true);
        times.push_back(summary.milliseconds - before);
        trivial.push_back(
            codegen::compile_cuda("extern \"C\" __global__ void k() {}", arch).milliseconds);
      }
    }
    CHECK(times.size() >= static_cast<size_t>(graphs_wanted()));
    print_summary(name, arch, summary);
    fmt::print("{}, {}: {:.1f} ms a kernel, {:.1f} ms a trivial one (medians of {})\n", name, arch,
               median(times), median(trivial), times.size());
  }
}

TEST_CASE("random elementwise regions compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  check_family(RegionFamily::Elementwise, "elementwise");
}

TEST_CASE("random rows regions compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  check_family(RegionFamily::Rows, "rows");
}

TEST_CASE("random columns regions compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  check_family(RegionFamily::Columns, "columns");
}

TEST_CASE("random regions of rows and columns compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  check_family(RegionFamily::RowsColumns, "rows and columns");
}

TEST_CASE("random scan and sort regions compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  check_family(RegionFamily::Scan, "scan");
  check_family(RegionFamily::Sort, "sort");
}

TEST_CASE("kernels of random graphs compile for both architectures without spills") {
  if (lacks_nvrtc()) return;
  for (const char* arch : kArchitectures) {
    std::vector<CudaKernel> kernels;
    for (int seed = 1; seed <= graphs_wanted(); ++seed) {
      std::unique_ptr<ir::Module> module = random_graph(static_cast<uint64_t>(seed));
      compile_passes(*module, arch);
      for (const ir::Op* kernel : kernels_of(*module))
        kernels.push_back(emit_for_test(*kernel, arch,
                                        fmt::format("graph {} @{}", seed, kernel->kernel_name()),
                                        "k" + std::to_string(kernels.size())));
    }
    CHECK(kernels.size() >= static_cast<size_t>(graphs_wanted()));
    ListingSummary summary;
    check_compiled(kernels, arch, summary);
    print_summary("random graphs", arch, summary);
  }
}

TEST_CASE("vectors are loads and stores of 16 bytes") {
  if (lacks_nvrtc()) return;
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
  if (lacks_nvrtc()) return;
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
