// SPDX-License-Identifier: Apache-2.0
// Matrix products as a GPU would compute them: NVRTC's PTX for every architecture, run by the
// interpreter of tests/ptx. Operands whose sums are exact in f32 must give the interpreter's bits,
// whatever the order; others must lie within the bound of the op. Every run is repeated with other
// orders of blocks, with hostile divergence and with the other way to add inside tensor cores.
// MEZZO_FUZZ_GRAPHS: random products, divided among the architectures (default 0: the fixed list).
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/cuda_matmul_plan.h>
#include <mezzo/ir/error.h>
#include <support/nvrtc.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <codegen/product_cases.h>
#include <cstdlib>
#include <fuzz/judge.h>
#include <limits>
#include <random>

namespace mezzo::test {
namespace {

using ir::DType;
using ir::InterpreterTensor;

constexpr const char* kArchitectures[] = {"sm_75", "sm_80",  "sm_86", "sm_89",
                                          "sm_90", "sm_100", "sm_120"};

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

int products_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_GRAPHS");
  return text ? std::max(0, std::atoi(text)) : 0;
}

struct Tile {
  int64_t mc, nc, kc;
  int mr, nr;
};

// Every one that plans have.
constexpr Tile kMmaTiles[] = {{128, 128, 32, 64, 64}, {128, 64, 32, 64, 32}, {64, 128, 32, 32, 64},
                              {64, 64, 64, 32, 32},   {32, 64, 64, 16, 32},  {64, 32, 64, 32, 16},
                              {32, 32, 64, 16, 16}};
constexpr Tile kFmaTiles[] = {{128, 128, 8, 32, 64}, {64, 64, 16, 16, 32}, {32, 32, 16, 16, 32}};
constexpr Tile kF64Tiles[] = {{64, 64, 8, 16, 32}, {32, 32, 16, 16, 32}};

std::span<const Tile> tiles_of(const ir::CudaMatmul& product) {
  if (product.mma()) return kMmaTiles;
  return product.spec.acc == DType::F64 ? std::span<const Tile>(kF64Tiles) : kFmaTiles;
}

int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// Puts the case's blocking in the place of the plan's and checks that a kernel can follow it.
void replan(ir::Op& kernel, const PlannedProduct& wanted, const ir::Target& target) {
  ir::CudaMatmul product = ir::cuda_matmul(kernel, target);
  ir::MatmulSpec& spec = product.spec;
  if (wanted.tile != kPlanned) {
    const std::span<const Tile> tiles = tiles_of(product);
    const Tile& tile = tiles[wanted.tile % tiles.size()];
    spec.mc = tile.mc;
    spec.nc = tile.nc;
    spec.kc = tile.kc;
    spec.mr = tile.mr;
    spec.nr = tile.nr;
    product.threads = product.warps() * 32;
  }
  const int64_t tiles = std::max<int64_t>(1, product.k_tiles());
  spec.slice_blocks = ceil_div(tiles, wanted.slices > 0 ? wanted.slices : spec.slices);
  spec.slices = ceil_div(tiles, spec.slice_blocks);
  // Two runs where there are tiles enough, so that totals are used too.
  spec.run_blocks = product.mma() || spec.slice_blocks < 2 ? 0 : ceil_div(spec.slice_blocks, 2);
  product.stages =
      std::clamp<int64_t>(spec.slice_blocks, 2, wanted.stages > 0 ? wanted.stages : product.stages);
  // As many as the architecture has.
  while (product.stages > 2 && !ir::unfit_blocking(product, target).empty()) --product.stages;
  REQUIRE(ir::unfit_blocking(product, target) == "");
  kernel.set_plan(ir::to_plan(product).to_attrs());
}

/// The case as one planned kernel.
std::unique_ptr<ir::Module> planned(const PlannedProduct& each, const std::string& arch) {
  std::unique_ptr<ir::Module> module = each.product.module();
  plan_for(*module, arch);
  const std::vector<const ir::Op*> kernels = kernels_of(*module);
  REQUIRE(kernels.size() == 1);
  for (ir::Op& op : module->functions()[0]->body())
    if (op.kind() == ir::OpKind::Kernel) replan(op, each, ir::target_by_name(arch));
  return alone(*kernels[0]);
}

enum class Data : uint8_t {
  Exact,    // multiples of 1/8 up to 1: all sums are exact in f32 in any order
  Special,  // integers up to 8 with NaN, infinities and numbers whose products overflow f16
  Random    // any of a narrow range
};

InterpreterTensor make_input(const ir::Type& type, Data data, std::mt19937_64& random) {
  InterpreterTensor tensor(type);
  std::uniform_int_distribution<int> step(-8, 8), rare(0, 60);
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    double value =
        data == Data::Random ? real(random) : step(random) / (data == Data::Exact ? 8.0 : 1.0);
    if (data == Data::Special) {
      switch (rare(random)) {
        case 0:
          value = std::numeric_limits<double>::quiet_NaN();
          break;
        case 1:
          value = std::numeric_limits<double>::infinity();
          break;
        case 2:
          value = -std::numeric_limits<double>::infinity();
          break;
        case 3:
        case 4:
          value = 256;
          break;
        default:
          break;
      }
    }
    tensor.set_number(i, value);
  }
  return tensor;
}

struct Counts {
  int runs = 0, exact = 0, judged = 0;
  double worst = 0;
};

void check_equal(const ir::RunResult& got, const ir::RunResult& wanted, const char* what) {
  for (size_t r = 0; r < wanted.results.size(); ++r) {
    const std::string difference = ir::describe_difference(got.results[r], wanted.results[r]);
    CHECK_MESSAGE(difference.empty(), what << ", result " << r << ": " << difference);
  }
  CHECK_MESSAGE(got.words == wanted.words, what);
}

/// Runs a kernel in every mode on operands of one kind.
void check_kernel(const DeviceProgram& program, size_t number, Data data, uint64_t seed,
                  Counts& counts) {
  const ir::Module& module = program.module(number);
  const ir::Function& function = *module.functions()[0];
  std::mt19937_64 random(seed);
  std::vector<InterpreterTensor> inputs;
  for (int i = 0; i < function.num_parameters(); ++i)
    inputs.push_back(make_input(function.parameter(i).type(), data, random));
  const ir::RunResult wanted = ir::run(module, function, inputs);
  auto run = [&](const ptx::Options& options) {
    ++counts.runs;
    return program.run(number, inputs, options);
  };
  const ir::RunResult first = run({});
  if (data == Data::Random) {
    // The product alone: the bound is that of its op.
    const ir::Op* op = nullptr;
    for (const ir::Op& each : *kernels_of(module).at(0)->body())
      if (each.kind() == ir::OpKind::Matmul) op = &each;
    REQUIRE(op != nullptr);
    for (const ir::RunResult& each : {first, run({.mma = ptx::MmaMode::Exact})}) {
      const Judgement judgement = judge(*op, inputs, each.results.at(0));
      CHECK_MESSAGE(judgement.difference.empty(), judgement.difference);
      counts.worst = std::max(counts.worst, judgement.worst);
      ++counts.judged;
    }
  } else {
    check_equal(first, wanted, "interpreter");
    check_equal(run({.mma = ptx::MmaMode::Exact}), wanted, "exact sums in tensor cores");
    counts.exact += 2;
  }
  check_equal(run({.order = ptx::BlockOrder::Reversed}), first, "blocks reversed");
  check_equal(run({.order = ptx::BlockOrder::Random, .seed = seed}), first, "blocks at random");
  check_equal(run({.hostile_divergence = true}), first, "hostile divergence");
}

bool bare(const ProductCase& product) {
  return product.before == Before::Nothing &&
         (product.behind == Behind::Nothing || product.behind == Behind::Accumulator);
}

void check_cases(const std::vector<PlannedProduct>& cases, const std::string& arch, uint64_t seed) {
  const auto start = std::chrono::steady_clock::now();
  Counts counts;
  double compiling = 0;
  for (size_t first = 0; first < cases.size(); first += codegen::kMaxKernelsPerProgram) {
    const size_t size = std::min(codegen::kMaxKernelsPerProgram, cases.size() - first);
    std::vector<std::unique_ptr<ir::Module>> modules;
    for (size_t i = first; i < first + size; ++i) {
      INFO(arch << ", " << cases[i].product.name());
      modules.push_back(planned(cases[i], arch));
    }
    const auto before = std::chrono::steady_clock::now();
    const DeviceProgram program(std::move(modules), arch);
    compiling += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
    for (size_t i = 0; i < size; ++i) {
      const ProductCase& product = cases[first + i].product;
      const uint64_t own = seed + first + i;
      INFO(arch << ", " << product.name() << ", seed " << own << "\n" << program.source(i).text);
      try {
        check_kernel(program, i, Data::Exact, own, counts);
        if (product.flagged) check_kernel(program, i, Data::Special, own, counts);
        if (bare(product)) check_kernel(program, i, Data::Random, own, counts);
      } catch (const ptx::Fault& fault) {
        FAIL_CHECK(fault.what());
      }
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{:6}: {} products, {} runs, {} equal the interpreter, {} within bounds (worst error / bound "
      "{:.4f}); {:.1f} s, {:.1f} of them NVRTC\n",
      arch, cases.size(), counts.runs, counts.exact, counts.judged, counts.worst, seconds,
      compiling);
}

TEST_CASE("products are right on every architecture, whatever the order of blocks and lanes") {
  if (lacks_nvrtc()) return;
  // Sanitizers slow the interpreter down: each case on two or three architectures then.
  constexpr size_t kShare = kSanitized ? 3 : 1;
  for (size_t a = 0; a < std::size(kArchitectures); ++a) {
    std::vector<PlannedProduct> cases = fixed_products();
    size_t number = 0;
    std::erase_if(cases, [&](const PlannedProduct&) { return (number++ + a) % kShare != 0; });
    check_cases(cases, kArchitectures[a], 1);
  }
}

/// A product of random sizes, layouts, type, tile, slices and neighbours.
PlannedProduct random_case(std::mt19937_64& random) {
  auto below = [&](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  auto size = [&](int64_t most) {
    constexpr int64_t kRounds[] = {1, 2, 4, 8, 16, 64};
    const int64_t round = kRounds[below(std::size(kRounds))];
    return std::max<int64_t>(1, (1 + below(most)) / round * round);
  };
  constexpr DType kTypes[] = {DType::F16, DType::F16, DType::BF16, DType::F32, DType::F64};
  PlannedProduct out;
  ProductCase& product = out.product;
  product.m = size(200);
  product.n = size(200);
  product.k = size(300);
  if (below(3) == 0) {
    product.batch_a = 1 + below(3);
    product.batch_b = below(2) == 0 ? product.batch_a : 1;
  }
  product.trans_a = below(2) == 0;
  product.trans_b = below(2) == 0;
  product.type = kTypes[below(std::size(kTypes))];
  product.before = below(2) == 0 ? Before::Nothing : static_cast<Before>(below(5));
  product.behind = static_cast<Behind>(below(5));
  product.flagged = below(3) == 0;
  out.tile = below(4) == 0 ? kPlanned : static_cast<size_t>(below(7));
  out.slices = below(2) == 0 ? 0 : 1 + below(5);
  out.stages = below(2) == 0 ? 0 : 2 + below(3);
  return out;
}

TEST_CASE("random products are right on every architecture") {
  if (lacks_nvrtc() || products_wanted() == 0) return;
  for (size_t a = 0; a < std::size(kArchitectures); ++a) {
    std::mt19937_64 random(a + 1);
    std::vector<PlannedProduct> cases;
    for (int i = 0; i < products_wanted() / static_cast<int>(std::size(kArchitectures)); ++i)
      cases.push_back(random_case(random));
    check_cases(cases, kArchitectures[a], 1000 * (a + 1));
  }
}

}  // namespace
}  // namespace mezzo::test
