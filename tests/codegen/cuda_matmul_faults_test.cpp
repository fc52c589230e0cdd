// SPDX-License-Identifier: Apache-2.0
// Faults put into the text of a product: each is found, by the checks of the PTX interpreter with
// the line where it shows, or by the results. And what the checks count of a sound product: sectors
// of global and wavefronts of shared memory against the fewest that there could be.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <codegen/product_cases.h>
#include <optional>
#include <random>

namespace mezzo::test {
namespace {

using ir::InterpreterTensor;

constexpr const char* kArch = "sm_80";

std::unique_ptr<ir::Module> planned(const ProductCase& product) {
  std::unique_ptr<ir::Module> module = product.module();
  plan_for(*module, kArch);
  return alone(*kernels_of(*module).at(0));
}

/// Multiples of 1/8 up to 1, never 0.
std::vector<InterpreterTensor> inputs_of(const ir::Function& function) {
  std::mt19937_64 random(5);
  std::vector<InterpreterTensor> inputs;
  for (int i = 0; i < function.num_parameters(); ++i) {
    InterpreterTensor tensor(function.parameter(i).type());
    for (int64_t e = 0; e < tensor.elements(); ++e)
      tensor.set_number(e, (static_cast<double>(random() % 8) + 1) / (random() % 2 ? 8 : -8));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

struct Fault {
  const char* name;
  ProductCase product;
  /// The first `from` after `after` becomes `to`.
  const char* after;
  const char* from;
  const char* to;
  /// What the interpreter finds, at a line that holds `line`; without a kind the results are wrong.
  std::optional<ptx::FaultKind> kind = {};
  const char* line = "";
};

const ProductCase kPlain{.m = 256, .n = 256, .k = 512};
const ProductCase kRagged{.m = 100, .n = 72, .k = 104, .trans_b = true, .behind = Behind::Bias};

std::vector<Fault> faults() {
  using enum ptx::FaultKind;
  return {
      {"no barrier in the loop", kPlain, "t < tiles", "__syncthreads();", "", SharedRace, ""},
      {"no barrier before the loop", kPlain, "commit_copies();", "__syncthreads();", "", SharedRace,
       ""},
      {"a wait that is too short", kPlain, "t < tiles", "wait_copies<2>();", "wait_copies<3>();",
       Uninitialized, "ldmatrix"},
      {"stages that overlap", kPlain, "t < 3", "write += ", "write += 0 * ", Uninitialized,
       "cp.async"},
      {"no barrier of the warp between sums and rows", kPlain, "turned_column", "__syncwarp();", "",
       SharedRace, "ld.shared"},
      {"rows beyond the tensor are stored", kRagged, "turned_row = ", "row < 100u", "row < 101u",
       OutOfBounds, "st.global"},
      {"columns beyond the operand are copied", kRagged, "fetch_a = ", ", (a_left > ", ", (~0u > ",
       OutOfBounds, "cp.async"},
      {"an address that is no multiple of 16", kPlain, "fetch_a = ", "a_from + 0u", "a_from + 1u",
       Misaligned, "cp.async"},
      {"fragments of A without the exchange of chunks",
       kPlain,
       "a_first = ",
       "^ a_line",
       "^ 0 * a_line",
       {},
       ""},
      {"rows of B's fragments in another order",
       kPlain,
       "b_line = ",
       "lane % 16",
       "lane % 16 ^ 8",
       {},
       ""},
      {"halves of B exchanged",
       kPlain,
       "void multiply_tiles",
       "b[j / 2][j % 2 * 2],",
       "b[j / 2][2 - j % 2 * 2],",
       {},
       ""},
      {"sums that begin with what is there",
       kPlain,
       "float sums",
       " = {};",
       "; sums[0][0][0] = __uint_as_float(threadIdx.x + 0x3F800000u);",
       {},
       ""},
      {"elements beyond k are copied",
       {.m = 1, .n = 64, .k = 72},
       "fetch_a = ",
       " & (a_k_left > 0)",
       "",
       OutOfBounds,
       "cp.async"},
      {"a slice is left out",
       {.m = 32, .n = 32, .k = 8192},
       "namespace finish",
       "s = 1;",
       "s = 2;",
       {},
       ""},
  };
}

std::string replaced(const std::string& text, const Fault& fault) {
  const size_t begin = text.find("namespace in_k0");
  // Device functions stand before the kernel.
  size_t at = text.find(fault.after);
  if (std::string(fault.after).find("multiply_tiles") == std::string::npos)
    at = text.find(fault.after, begin);
  REQUIRE_MESSAGE(at != std::string::npos, std::string(fault.after));
  at = text.find(fault.from, at);
  REQUIRE_MESSAGE(at != std::string::npos, std::string(fault.from) << "\n" << text.substr(begin));
  std::string out = text;
  return out.replace(at, std::string(fault.from).size(), fault.to);
}

TEST_CASE("faults in the text of a product are found") {
  if (lacks_nvrtc()) return;
  for (const Fault& fault : faults()) {
    INFO(std::string(fault.name));
    std::vector<std::unique_ptr<ir::Module>> modules;
    modules.push_back(planned(fault.product));
    const DeviceProgram program(std::move(modules), kArch,
                                [&](const std::string& text) { return replaced(text, fault); });
    const ir::Function& function = *program.module(0).functions()[0];
    const std::vector<InterpreterTensor> inputs = inputs_of(function);
    const ir::RunResult wanted = ir::run(program.module(0), function, inputs);
    try {
      const ir::RunResult got = program.run(0, inputs);
      CHECK_MESSAGE(!fault.kind, "no fault was found");
      CHECK(ir::describe_difference(got.results[0], wanted.results[0]) != "");
      fmt::print("{}: wrong results\n", fault.name);
    } catch (const ptx::Fault& found) {
      CHECK_MESSAGE(found.kind == fault.kind, found.what());
      CHECK(found.line > 0);
      CHECK_MESSAGE(std::string(found.what()).find(fault.line) != std::string::npos, found.what());
      fmt::print("{}: {}\n", fault.name, std::string(found.what()).substr(0, 160));
    }
  }
}

uint64_t percent(uint64_t actual, uint64_t least) {
  return least == 0 ? 0 : (100 * actual + least / 2) / least;
}

void check_traffic(const ProductCase& product) {
  INFO(product.name());
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(planned(product));
  const DeviceProgram program(std::move(modules), kArch);
  const ir::Function& function = *program.module(0).functions()[0];
  std::vector<ptx::Counters> counters;
  const auto start = std::chrono::steady_clock::now();
  program.run(0, inputs_of(function), {.count = true}, &counters);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE(counters.size() == 1);
  uint64_t sectors = 0, least_sectors = 0, wavefronts = 0, least_wavefronts = 0, products = 0;
  for (const ptx::LineCounters& line : counters[0].lines) {
    sectors += line.sectors;
    least_sectors += line.ideal_sectors;
    wavefronts += line.wavefronts;
    least_wavefronts += line.ideal_wavefronts;
    if (line.text.find("mma.sync") != std::string::npos) products += line.executions;
    CHECK_MESSAGE(line.wavefronts == line.ideal_wavefronts, line.text);
    CHECK_MESSAGE(line.sectors == line.ideal_sectors, line.text);
  }
  const int64_t flop = 2 * product.m * product.n * product.k;
  CHECK(products == static_cast<uint64_t>(flop / 2 / (16 * 8 * 16)));
  fmt::print(
      "{}: {} sectors, {} % of the fewest; {} wavefronts, {} %; {} products, {:.1f} warp "
      "instructions each; {} barriers; {:.2f} s, {:.2f} GFLOP/s\n",
      product.name(), sectors, percent(sectors, least_sectors), wavefronts,
      percent(wavefronts, least_wavefronts), products,
      static_cast<double>(counters[0].warp_instructions) / static_cast<double>(products),
      counters[0].barriers, seconds, static_cast<double>(flop) / seconds * 1e-9);
}

TEST_CASE("products move no more sectors and wavefronts than they must") {
  if (lacks_nvrtc()) return;
#ifdef __SANITIZE_ADDRESS__
  constexpr int64_t kSize = 128;  // sanitizers slow the interpreter down
#else
  constexpr int64_t kSize = 512;
#endif
  for (bool trans_a : {false, true})
    for (bool trans_b : {false, true})
      check_traffic({.m = kSize, .n = kSize, .k = kSize, .trans_a = trans_a, .trans_b = trans_b});
  // The largest tile.
  if (kSize == 512) check_traffic({.m = 2048, .n = 2048, .k = 64});
}

}  // namespace
}  // namespace mezzo::test
