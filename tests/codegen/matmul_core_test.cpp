// SPDX-License-Identifier: Apache-2.0
// Matrix products against plain loops in double, over transposes, odd and empty sizes and element
// types, with the error bound of a blocked sum; and the same bits for every split of the tasks.
#include <mezzo/codegen/llvm/emit_matmul.h>
#include <mezzo/codegen/llvm/microkernel.h>
#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/codegen/llvm/vector_io.h>
#include <mezzo/ir/dtype.h>

#include <doctest/doctest.h>
#include <llvm/IR/IRBuilder.h>

#include <cmath>
#include <codegen/matmul_runner.h>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace mezzo;
using namespace mezzo::codegen;
using ir::DType;
using mezzo::testing::MatmulRunner;

namespace {

/// A matrix in memory of its element type and, exactly, in double.
struct Matrix {
  std::vector<std::byte> bytes;
  std::vector<double> values;
};

void put(std::byte* to, DType type, double value) {
  const float narrow = static_cast<float>(value);
  uint16_t half = 0;
  switch (type) {
    case DType::F64:
      std::memcpy(to, &value, 8);
      return;
    case DType::F32:
      std::memcpy(to, &narrow, 4);
      return;
    case DType::F16:
      half = ir::f64_to_f16(value);
      break;
    default:
      half = ir::f64_to_bf16(value);
  }
  std::memcpy(to, &half, 2);
}

double get(const std::byte* from, DType type) {
  double wide = 0;
  float narrow = 0;
  uint16_t half = 0;
  switch (type) {
    case DType::F64:
      std::memcpy(&wide, from, 8);
      return wide;
    case DType::F32:
      std::memcpy(&narrow, from, 4);
      return narrow;
    default:
      std::memcpy(&half, from, 2);
      return type == DType::F16 ? ir::f16_to_f32(half) : ir::bf16_to_f32(half);
  }
}

Matrix random_matrix(int64_t elements, DType type, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  Matrix matrix;
  const auto size = static_cast<size_t>(ir::byte_size(type));
  matrix.bytes.resize(static_cast<size_t>(elements) * size);
  for (int64_t i = 0; i < elements; ++i) {
    const double value = ir::round_to(type, uniform(engine));
    put(matrix.bytes.data() + static_cast<size_t>(i) * size, type, value);
    matrix.values.push_back(value);
  }
  return matrix;
}

MatmulSpec shape(int64_t m, int64_t n, int64_t k, bool trans_a = false, bool trans_b = false) {
  MatmulSpec spec;
  spec.m = m, spec.n = n, spec.k = k;
  spec.trans_a = trans_a, spec.trans_b = trans_b;
  return spec;
}

MatmulSpec typed(MatmulSpec spec, DType a, DType b, DType c) {
  spec.a_type = a, spec.b_type = b, spec.c_type = c;
  spec.acc = a == DType::F64 ? DType::F64 : DType::F32;
  return spec;
}

std::string name_of(const MatmulSpec& spec) {
  return std::to_string(spec.batch) + "x" + std::to_string(spec.m) + "x" + std::to_string(spec.n) +
         "x" + std::to_string(spec.k) + (spec.trans_a ? " T" : " N") +
         (spec.trans_b ? "T " : "N ") + ir::to_string(spec.a_type) + " " +
         ir::to_string(spec.b_type) + " " + ir::to_string(spec.c_type) + ": " + ir::to_string(spec);
}

Jit& jit() {
  static Jit one;
  return one;
}

/// Runs a planned product in several splits of its tasks and compares.
void check_planned(const MatmulSpec& spec, const ir::Target& target) {
  INFO(name_of(spec));
  const int64_t a_batch = spec.shared_a ? 1 : spec.batch, b_batch = spec.shared_b ? 1 : spec.batch;
  const Matrix a = random_matrix(a_batch * spec.m * spec.k, spec.a_type, 1);
  const Matrix b = random_matrix(b_batch * spec.k * spec.n, spec.b_type, 2);
  const auto c_size = static_cast<size_t>(ir::byte_size(spec.c_type));
  const auto elements = static_cast<size_t>(spec.batch * spec.m * spec.n);
  std::vector<std::byte> c(elements * c_size, std::byte{0xFF});
  MatmulRunner runner(jit(), spec, target);
  runner.run(a.bytes.data(), b.bytes.data(), c.data());
  for (int64_t parts : {2, 3, 7}) {
    std::vector<std::byte> again(c.size(), std::byte{0xEE});
    runner.run(a.bytes.data(), b.bytes.data(), again.data(), parts, parts == 2);
    CHECK(again == c);
  }

  const double unit = ir::unit_roundoff(spec.acc);
  const double growth = 256 + std::log2(std::max<double>(1, static_cast<double>(spec.k)));
  double worst = 0;
  size_t index = 0;
  for (int64_t batch = 0; batch < spec.batch; ++batch) {
    const double* left = a.values.data() + (spec.shared_a ? 0 : batch * spec.m * spec.k);
    const double* right = b.values.data() + (spec.shared_b ? 0 : batch * spec.k * spec.n);
    for (int64_t i = 0; i < spec.m; ++i) {
      for (int64_t j = 0; j < spec.n; ++j, ++index) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < spec.k; ++p) {
          const double x = left[spec.trans_a ? p * spec.m + i : i * spec.k + p];
          const double y = right[spec.trans_b ? j * spec.k + p : p * spec.n + j];
          sum += x * y;
          size += std::abs(x * y);
        }
        // The result is rounded once more; f16 steps below its normal range are 2^-24.
        const double bound = unit * growth * size +
                             ir::unit_roundoff(spec.c_type) * 2 * std::abs(sum) +
                             (ir::is_16bit(spec.c_type) ? 0x1p-25 : 0) + unit * size;
        const double error = std::abs(get(c.data() + index * c_size, spec.c_type) - sum);
        // A NaN must not pass.
        worst = std::max(worst, !(error <= bound) ? 2.0 : 0.0);
      }
    }
  }
  CHECK(worst <= 1.0);
}

void check_product(const MatmulSpec& spec, const ir::Target& target = native_target()) {
  check_planned(plan_matmul(spec, target), target);
}

}  // namespace

TEST_CASE("products of all transposes and odd sizes agree with plain loops") {
  for (bool trans_a : {false, true}) {
    for (bool trans_b : {false, true}) {
      for (int64_t m : {1, 3, 17, 129}) {
        check_product(shape(m, 33, 17, trans_a, trans_b));
        check_product(shape(17, m, 33, trans_a, trans_b));
        check_product(shape(33, 17, m, trans_a, trans_b));
        check_product(shape(m, m, m, trans_a, trans_b));
      }
    }
  }
}

TEST_CASE("one long side is blocked, sliced or split without a wrong element") {
  for (bool trans : {false, true}) {
    check_product(shape(4097, 3, 17, trans, trans));
    check_product(shape(3, 4097, 17, trans, trans));
    check_product(shape(17, 3, 4097, trans, !trans));
    check_product(shape(140, 530, 300, trans, trans));
  }
}

TEST_CASE("empty sizes give zeros or nothing") {
  for (bool trans : {false, true}) {
    check_product(shape(5, 7, 0, trans, trans));
    check_product(shape(0, 7, 3, trans, trans));
    check_product(shape(5, 0, 3, trans, trans));
    check_product(shape(0, 0, 0, trans, trans));
  }
  CHECK(matmul_launches(plan_matmul(shape(0, 7, 3), native_target()), "p")[0].tasks == 0);
}

TEST_CASE("every pair of element types is read exactly and the result rounds once") {
  for (bool trans : {false, true}) {
    for (DType type : {DType::F16, DType::BF16, DType::F64}) {
      for (int64_t size : {1, 17, 67}) {
        check_product(typed(shape(size, 33, 129, trans, trans), type, type, type));
        check_product(typed(shape(33, size, 40, !trans, trans), type, type,
                            type == DType::F64 ? type : DType::F32));
      }
    }
    check_product(typed(shape(19, 21, 23, trans, trans), DType::F16, DType::F32, DType::BF16));
    check_product(typed(shape(19, 21, 23, trans, trans), DType::F32, DType::BF16, DType::F16));
  }
}

TEST_CASE("batches and shared operands address their own matrices") {
  for (bool trans : {false, true}) {
    MatmulSpec spec = shape(9, 20, 31, trans, trans);
    spec.batch = 5;
    check_product(spec);
    spec.shared_b = true;
    check_product(spec);
    spec.shared_a = true;
    check_product(spec);
    spec.batch = 0;
    check_product(spec);
  }
}

TEST_CASE("every plan that a plan may be edited to gives the right product") {
  for (bool trans : {false, true}) {
    for (bool prepack : {false, true}) {
      for (int64_t slices : {1, 3}) {
        for (int64_t run : {0, 2}) {
          for (int64_t batch : {1, 2}) {
            MatmulSpec spec = shape(29, 50, 207, trans, trans);
            spec.batch = batch;
            spec = plan_matmul(spec, native_target());
            spec.mc = 2 * spec.mr;
            spec.nc = 2 * spec.nr;
            spec.kc = 16;
            spec.slices = slices;
            spec.slice_blocks = (207 + 16 * slices - 1) / (16 * slices);
            spec.run_blocks = run;
            spec.prepack_b = prepack;
            check_planned(spec, native_target());
          }
        }
      }
    }
  }
}

TEST_CASE("older instruction sets compute the same products") {
  for (const char* name : {"x86-64-v2", "x86-64-v3"}) {
    const ir::Target target = ir::target_by_name(name);
    if (target.vector_bytes > native_target().vector_bytes) continue;
    for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F64}) {
      check_product(typed(shape(19, 37, 70, false, true), type, type, type), target);
      check_product(typed(shape(19, 37, 70, true, false), type, type, type), target);
    }
  }
}

TEST_CASE("the sum of a plan never exceeds the rounding steps that the bound allows") {
  for (int64_t k : {1, 255, 256, 257, 784, 3000, 4097, 20000, 100000, 1000000, 10000000}) {
    for (int64_t m : {1, 8, 512}) {
      const MatmulSpec spec = plan_matmul(shape(m, m, k), native_target());
      INFO(name_of(spec));
      CHECK(rounding_steps(spec) <= 256 + static_cast<int64_t>(std::log2(std::max<int64_t>(2, k))));
      CHECK(spec.slices <= 16);
      CHECK(spec.kc * spec.k_blocks() >= k);
    }
  }
}

TEST_CASE("wide register files get their own tiles without leaving vectors in memory") {
  ir::Target wide = ir::target_by_name("x86-64-v4");
  for (bool pairs : {false, true}) {
    if (pairs) {
      wide.features.push_back("avx512bf16");
      wide.avx512bf16 = true;
    }
    const DType type = pairs ? DType::BF16 : DType::F32;
    const MatmulSpec spec = plan_matmul(typed(shape(512, 512, 512), type, type, DType::F32), wide);
    CHECK(spec.nr == 32);
    CHECK(spec.bf16_pairs == pairs);
    ModuleBuilder module("product", wide);
    emit_matmul(module, spec, "product");
    const std::string text = assembly_text(std::move(module));
    const size_t begin = text.find("mezzo_mk_");
    REQUIRE(begin != std::string::npos);
    if (!sanitized_build()) {
      CHECK(text.find(pairs ? "vdpbf16ps" : "vfmadd231ps") != std::string::npos);
      CHECK(text.find("zmm29") != std::string::npos);
      // A spilled accumulator would be a move to the stack.
      CHECK(text.find("Spill") == std::string::npos);
    }
  }
}

TEST_CASE("hooks replace what is read and what is stored") {
  // C and its relu from A + 1: a prologue and an epilogue with two outputs.
  const MatmulSpec spec = plan_matmul(shape(21, 19, 35), native_target());
  MatmulHooks hooks;
  const MatmulLoad plain = load_from_buffer(0, DType::F32, spec.m, spec.k, false);
  hooks.load_a = [&](KernelFrame& frame, llvm::Value* batch, llvm::Value* row, llvm::Value* column,
                     int lanes, llvm::Value* mask) {
    auto& b = frame.builder();
    llvm::Value* x = plain(frame, batch, row, column, lanes, mask);
    llvm::Value* sum = b.CreateFAdd(x, llvm::ConstantFP::get(x->getType(), 1.0));
    return mask ? b.CreateSelect(mask, sum, llvm::Constant::getNullValue(sum->getType())) : sum;
  };
  const MatmulStore first = store_to_buffer(2, DType::F32, spec.m, spec.n);
  const MatmulStore second = store_to_buffer(4, DType::F16, spec.m, spec.n);
  hooks.store = [&](KernelFrame& frame, llvm::Value* batch, llvm::Value* row, llvm::Value* column,
                    llvm::Value* acc, llvm::Value* mask) {
    first(frame, batch, row, column, acc, mask);
    auto& b = frame.builder();
    llvm::Value* zero = llvm::Constant::getNullValue(acc->getType());
    second(frame, batch, row, column, b.CreateSelect(b.CreateFCmpUGT(acc, zero), acc, zero), mask);
  };
  ModuleBuilder module("product", native_target());
  emit_matmul(module, spec, "product", hooks);
  const LoadedCode code = jit().load(compile_module(std::move(module)));
  const Matrix a = random_matrix(spec.m * spec.k, DType::F32, 3);
  const Matrix b = random_matrix(spec.k * spec.n, DType::F32, 4);
  std::vector<float> c(static_cast<size_t>(spec.m * spec.n));
  std::vector<uint16_t> relu(c.size());
  auto workspace = mezzo::testing::aligned_memory(workspace_bytes(spec));
  auto scratch = mezzo::testing::aligned_memory(scratch_bytes(spec));
  void* buffers[] = {const_cast<std::byte*>(a.bytes.data()), const_cast<std::byte*>(b.bytes.data()),
                     c.data(), workspace.get(), relu.data()};
  const KernelArgs args{buffers, nullptr, nullptr};
  for (const KernelLaunch& launch : matmul_launches(spec, "product")) {
    code.kernel(launch.symbol)(&args, 0, launch.tasks, scratch.get());
  }
  for (int64_t i = 0; i < spec.m; ++i) {
    for (int64_t j = 0; j < spec.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < spec.k; ++p) {
        sum += (a.values[static_cast<size_t>(i * spec.k + p)] + 1) *
               b.values[static_cast<size_t>(p * spec.n + j)];
      }
      const auto index = static_cast<size_t>(i * spec.n + j);
      CHECK(c[index] == doctest::Approx(sum).epsilon(1e-4).scale(1));
      CHECK(relu[index] == ir::f32_to_f16(std::max(c[index], 0.0f)));
    }
  }
}
