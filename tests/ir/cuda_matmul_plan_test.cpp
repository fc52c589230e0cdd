// SPDX-License-Identifier: Apache-2.0
// Blockings of products on a GPU: those that are chosen fit every architecture, and what a text
// states instead is refused in words where no kernel could follow it.
#include <mezzo/ir/cuda_matmul_plan.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/verifier.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

namespace mezzo::ir {
namespace {

constexpr const char* kArchitectures[] = {"sm_75",  "sm_80",  "sm_86",  "sm_87",  "sm_89", "sm_90",
                                          "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"};

MatmulSpec spec_of(int64_t m, int64_t n, int64_t k, DType type, int64_t batch = 1) {
  MatmulSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.batch = batch;
  spec.a_type = spec.b_type = spec.c_type = type;
  spec.acc = type == DType::F64 ? DType::F64 : DType::F32;
  return spec;
}

TEST_CASE("chosen blockings fit every architecture, whatever the shape") {
  int plans = 0;
  for (const char* name : kArchitectures) {
    const Target target = target_by_name(name);
    for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64})
      for (int64_t m : {0, 1, 100, 128, 4096})
        for (int64_t n : {1, 10, 100, 1001, 8192})
          for (int64_t k : {0, 1, 31, 33, 784, 65536, 5000000})
            for (int64_t batch : {1, 96})
              for (bool evaluated : {false, true}) {
                const CudaMatmul plan =
                    plan_cuda_matmul(spec_of(m, n, k, type, batch), 8, evaluated, target);
                const std::string what = unfit_blocking(plan, target);
                CHECK_MESSAGE(what.empty(), name << " " << to_string(type) << " " << m << "x" << n
                                                 << "x" << k << ": " << what);
                CHECK(plan.shared_bytes() <= target.shared_bytes);
                CHECK(plan.spec.slices * plan.spec.slice_blocks >= plan.k_tiles());
                CHECK(plan.workspace_bytes() ==
                      (plan.spec.slices > 1
                           ? plan.spec.slices * batch * m * n * 4 * (type == DType::F64 ? 2 : 1)
                           : 0));
                // The bound of a sum: roundings of one path through it.
                if (!plan.mma() && k > 0) {
                  const int64_t slice = std::min(k, plan.spec.slice_blocks * plan.spec.kc);
                  const int64_t run =
                      plan.spec.run_blocks ? plan.spec.run_blocks * plan.spec.kc : slice;
                  const int64_t roundings =
                      std::min(run, slice) + (slice + run - 1) / run - 1 + plan.spec.slices - 1;
                  // Beyond 16 slices of 128 runs of 128 no blocking keeps it.
                  if (k <= 262144)
                    CHECK(roundings <=
                          256 + static_cast<int64_t>(std::log2(std::max<int64_t>(k, 2))));
                }
                ++plans;
              }
  }
  fmt::print("{} blockings on {} architectures\n", plans, std::size(kArchitectures));
}

TEST_CASE(
    "small products are cut along k, large ones are not; evaluated operands take smaller tiles") {
  const Target target = target_by_name("sm_90");
  const CudaMatmul deep = plan_cuda_matmul(spec_of(64, 64, 65536, DType::F16), 8, false, target);
  CHECK(deep.spec.slices > 1);
  CHECK(deep.reason.find("slices of k") != std::string::npos);
  const CudaMatmul large =
      plan_cuda_matmul(spec_of(8192, 8192, 8192, DType::F16), 8, false, target);
  CHECK(large.spec.slices == 1);
  CHECK(large.spec.mr == 64);
  CHECK(large.spec.nr == 64);
  CHECK(large.stages == 4);
  const CudaMatmul cast = plan_cuda_matmul(spec_of(8192, 8192, 8192, DType::F16), 8, true, target);
  CHECK(cast.spec.mr * cast.spec.nr < 64 * 64);
  CHECK(plan_cuda_matmul(spec_of(8192, 8192, 8192, DType::BF16), 8, false, target_by_name("sm_75"))
            .reason == "bf16 emulated in f32: sm_75 has no tensor cores for it");
}

TEST_CASE("vectors of the result divide its rows") {
  const Target target = target_by_name("sm_80");
  for (const auto& [n, vector] : {std::pair<int64_t, int64_t>{64, 8}, {100, 4}, {10, 2}, {7, 1}})
    CHECK(plan_cuda_matmul(spec_of(64, n, 64, DType::F16), 8, false, target).vector == vector);
}

/// A product of 256x256x256 with this plan for this target.
std::string found(const std::string& plan, const std::string& target = "sm_80",
                  const std::string& type = "f16") {
  const std::string x = "tensor<256x256x" + type + ">";
  const std::unique_ptr<Module> module =
      parse("module @m attributes {stage = \"fused\", target = \"" + target +
            "\"} { func @f(%x: " + x + ", %y: " + x + ") -> " + x +
            " { %r = kernel @k (%x = %x, %y = %y) {family = \"matmul\"} plan {" + plan + "} : (" +
            x + ", " + x + ") -> " + x + " { %0 = matmul %x, %y {acc = f32} : " + x +
            " yield %0 : " + x + " } return %r : " + x + " } }");
  std::string text;
  for (const VerifierFinding& finding : verify(*module)) text += finding.text + "\n";
  return text;
}

TEST_CASE("a plan that no kernel can follow is refused in words") {
  const std::string head = "@f: %r = kernel @k: plan: ";
  const std::string good =
      "kc = 32, mc = 128, mr = 64, nc = 128, nr = 64, slice_blocks = 8, slices = 1, stages = 4, "
      "threads = 128, vector = 8";
  CHECK(found(good) == "");
  auto edited = [&](const std::string& from, const std::string& to) {
    std::string plan = good;
    const size_t at = plan.find(from);
    REQUIRE(at != std::string::npos);
    return plan.replace(at, from.size(), to);
  };
  CHECK(found(edited("threads = 128", "threads = 100")) ==
        head + "'threads' must be a multiple of 32 up to 1024 on sm_80, not 100\n");
  CHECK(found(edited("threads = 128", "threads = 256")) ==
        head + "'threads' must be 32 for each of the 4 warps, at most 1024, not 256\n");
  CHECK(found(edited("mr = 64", "mr = 128")) ==
        head + "'mr' must be a power of two in [16, 64], not 128\n");
  CHECK(found(edited("mr = 64", "mr = 4294967360")) ==
        head + "'mr' must lie in [0, 1024], not 4294967360\n");
  CHECK(found(edited("kc = 32", "kc = 48")) ==
        head + "'kc' must be a power of two in [32, 64], not 48\n");
  CHECK(found(edited("slices = 1", "slices = 20")) ==
        head + "'slices' must lie in [1, 16], not 20\n");
  CHECK(found(edited("stages = 4", "stages = 8")) == head + "'stages' must lie in [2, 4], not 8\n");
  CHECK(found(edited("slice_blocks = 8", "slice_blocks = 4")) ==
        head + "1 slice of 4 blocks of 32 steps are not those of k = 256\n");
  CHECK(found(good, "sm_86") == head + "'stages' must lie in [2, 3], not 4\n");
  CHECK(found(good, "sm_75") == head + "'stages' must lie in [2, 2], not 4\n");
  CHECK(found(good, "x86-64-v3") == "");
  // The stages that are filled before the loop must be there.
  std::string two = edited("slice_blocks = 8", "slice_blocks = 2");
  two.replace(two.find("slices = 1"), 10, "slices = 4");
  CHECK(found(two) == head + "'stages' must lie in [2, 2], not 4\n");
  // 3 stages of 256x256x64 are 196,608 bytes.
  const std::string wide =
      "kc = 64, mc = 256, mr = 64, nc = 256, nr = 64, slice_blocks = 4, slices = 1, stages = 3, "
      "threads = 512, vector = 8";
  CHECK(found(wide, "sm_90") == "");
  CHECK(found(wide, "sm_80") ==
        head + "needs 196608 bytes of shared memory, a block of sm_80 has 166912\n");
  CHECK(found(good, "sm_80", "f32") ==
        head + "a warp tile of multiply-adds is 16x32 or 32x64, not 64x64\n");
}

}  // namespace
}  // namespace mezzo::ir
