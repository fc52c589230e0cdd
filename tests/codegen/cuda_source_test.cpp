// SPDX-License-Identifier: Apache-2.0
// The CUDA text of kernels against snapshots, and what must be in it. With MEZZO_UPDATE=1 in the
// environment the snapshots are written anew.
#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/source_writer.h>
#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <codegen/cuda_kernels.h>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace mezzo::test {
namespace {

using codegen::CudaSource;

/// The only kernel of a function `@main` whose text is `body`, for sm_90.
CudaSource emit(const std::string& text) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  plan_for(*module, "sm_90");
  std::vector<const ir::Op*> kernels = kernels_of(*module);
  REQUIRE(kernels.size() == 1);
  return codegen::emit_cuda_kernel(*kernels[0], ir::target_by_name("sm_90"), "k0");
}

void check_snapshot(const std::string& name, const std::string& text) {
  const std::string path = "tests/codegen/snapshots/" + name + ".cu";
  if (const char* update = std::getenv("MEZZO_UPDATE"); update && std::string(update) == "1")
    std::ofstream(path, std::ios::binary) << text;
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), path << " is missing; MEZZO_UPDATE=1 writes it");
  const std::string expected{std::istreambuf_iterator<char>(in), {}};
  CHECK_MESSAGE(text == expected, path << " differs; MEZZO_UPDATE=1 writes it anew");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kBiasGelu = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<64x128xf16>, %b: tensor<128xf16>) -> tensor<64x128xf16> {
    %0 = cast %x : tensor<64x128xf16> -> tensor<64x128xf32>
    %1 = cast %b : tensor<128xf16> -> tensor<128xf32>
    %2 = add %0, %1 : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
    %3 = gelu %2 : tensor<64x128xf32>
    %4 = cast %3 {word = 0} : tensor<64x128xf32> -> tensor<64x128xf16>
    return %4 : tensor<64x128xf16>
  }
}
)";

constexpr const char* kTail = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<7x9xf32>, %b: tensor<9xf32>) -> tensor<7x9xf32> {
    %0 = mul %x, %b : (tensor<7x9xf32>, tensor<9xf32>) -> tensor<7x9xf32>
    return %0 : tensor<7x9xf32>
  }
}
)";

constexpr const char* kSoftmax = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<32x500xf32>) -> tensor<32x500xf32> {
    %0 = max %x {axes = [1], keepdims = true} : tensor<32x500xf32> -> tensor<32x1xf32>
    %1 = sub %x, %0 : (tensor<32x500xf32>, tensor<32x1xf32>) -> tensor<32x500xf32>
    %2 = exp %1 : tensor<32x500xf32>
    %3 = sum %2 {axes = [1], keepdims = true} : tensor<32x500xf32> -> tensor<32x1xf32>
    %4 = div %2, %3 : (tensor<32x500xf32>, tensor<32x1xf32>) -> tensor<32x500xf32>
    return %4 : tensor<32x500xf32>
  }
}
)";

TEST_CASE("a bias and an activation in f16 are one vector of 16 bytes a thread") {
  const CudaSource source = emit(kBiasGelu);
  CHECK(source.launches.size() == 1);
  CHECK(source.launches[0].entry == "k0");
  CHECK(source.launches[0].threads == 256);
  CHECK(source.launches[0].blocks == 64 * 128 / (256 * 8));
  CHECK(contains(source.text, "load_vector<8>"));
  CHECK(contains(source.text, "store_vector<8>"));
  CHECK(contains(source.text, "or_flags(w0, flags0);"));
  CHECK_FALSE(contains(source.text, "count"));
  check_snapshot("bias_gelu", source.text);
}

TEST_CASE("the last vector of a tensor that no vector divides is loaded element by element") {
  const CudaSource source = emit(kTail);
  CHECK(contains(source.text, "load_tail<4>"));
  CHECK(contains(source.text, "store_tail<4>"));
  check_snapshot("tail", source.text);
}

TEST_CASE("a softmax over a short row is one warp a row that reads it once") {
  const CudaSource source = emit(kSoftmax);
  CHECK(source.launches[0].threads == 128);
  CHECK(source.launches[0].blocks == 8);
  CHECK(contains(source.text, "reduce_warp<Maximum>"));
  CHECK(contains(source.text, "reduce_warp<Add>"));
  // Kept in registers: one load for three passes.
  CHECK(source.text.find("load_vector<") == source.text.rfind("load_vector<"));
  check_snapshot("softmax", source.text);
}

TEST_CASE("a program needs no header and has the prelude once") {
  const CudaSource source = emit(kTail);
  CudaSource other = source;
  other.name = "k1";
  const std::string program = codegen::cuda_program(std::vector<CudaSource>{source, other});
  CHECK_FALSE(contains(program, "#include"));
  CHECK(program.find("struct f16 {") == program.rfind("struct f16 {"));
  CHECK(contains(program, "namespace in_k1 {"));
}

TEST_CASE("a source writer indents blocks") {
  codegen::SourceWriter writer(2);
  writer.open("if (x)");
  writer.line("y();");
  writer.line("");
  writer.close(" // x");
  CHECK(writer.text() == "  if (x) {\n    y();\n\n  } // x\n");
  codegen::SourceWriter flat;
  CHECK_THROWS_AS(flat.close(), InternalError);
}

}  // namespace
}  // namespace mezzo::test
