// SPDX-License-Identifier: Apache-2.0
// Whole programs on the device: one launch a run, and what makes the host wait.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/parser.h>
#include <mezzo/runtime/program.h>
#include <support/skip.h>

#include <cmath>
#include <memory>
#include <ptx/driver_support.h>
#include <string>
#include <vector>

namespace mezzo::test {
namespace {

using runtime::HostArray;

/// Two kernels, and a result of more than the 16 KiB that are copied to the host with every run.
constexpr const char* kTwoKernels = R"(module @net {
  func @f(%x: tensor<64x96xf32>) -> (tensor<96x64xf32>, tensor<64xf32>) {
    %0 = softmax %x {axis = 1} : tensor<64x96xf32>
    %1 = reshape %0 {shape = [96, 64]} : tensor<64x96xf32> -> tensor<96x64xf32>
    %y = softmax %1 {axis = 1} : tensor<96x64xf32>
    %m = max %x {axes = [1]} : tensor<64x96xf32> -> tensor<64xf32>
    return %y, %m : (tensor<96x64xf32>, tensor<64xf32>)
  }
}
)";

constexpr const char* kLabels = R"(module @net {
  func @f(%x: tensor<4x8xf32>, %labels: tensor<4xi32>) -> tensor<f32> {
    %loss = cross_entropy %x, %labels {reduce = "mean"} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
)";

std::unique_ptr<runtime::Program> build(runtime::DeviceId::Kind kind,
                                        const char* text = kTwoKernels) {
  runtime::CompileOptions options;
  options.device.kind = kind;
  options.disk_cache = false;
  return runtime::build_program(ir::parse(text, "net.mz"), "f", options);
}

struct Results {
  HostArray y{ir::Type(ir::DType::F32, {96, 64})}, m{ir::Type(ir::DType::F32, {64})};
  std::vector<HostArray*> pointers() { return {&y, &m}; }
};

HostArray input_of(int turn) {
  HostArray x(ir::Type(ir::DType::F32, {64, 96}));
  for (int64_t i = 0; i < 64 * 96; ++i) x.set(i, static_cast<double>((i * 7 + turn * 5) % 31) / 8);
  return x;
}

TEST_CASE("a program on the device is one launch a run, and runs wait for nothing but room") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  if (!in_own_process(
          "a program on the device is one launch a run, and runs wait for nothing but room", {}))
    return;
  const auto cpu = build(runtime::DeviceId::Kind::Cpu);
  const auto cuda = build(runtime::DeviceId::Kind::Cuda);
  constexpr uint64_t kTurns = 6, kKernels = 3;
  std::vector<HostArray> inputs;
  std::vector<Results> results(kTurns);
  for (uint64_t turn = 0; turn < kTurns; ++turn) inputs.push_back(input_of(static_cast<int>(turn)));
  fake().reset_counts();
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    const std::vector<runtime::Binding> bound = {std::as_const(inputs[turn])};
    cuda->run(bound, results[turn].pointers());
    CHECK(fake().count("cuGraphLaunch") == turn + 1);
    CHECK(fake().count("cuLaunchKernel") == kKernels);  // when the graph was recorded
    // A run may wait for the room that earlier ones took, never for itself or the one before.
    CHECK(fake().count("kernel runs") <= kKernels * (turn < 2 ? 0 : turn - 1));
  }
  CHECK(fake().count("cuStreamSynchronize") == 0);
  CHECK(fake().count("synchronising calls") == fake().count("cuEventSynchronize"));
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    Results expected;
    const std::vector<runtime::Binding> bound = {std::as_const(inputs[turn])};
    cpu->run(bound, expected.pointers());
    for (int64_t i = 0; i < 96 * 64; ++i)
      CHECK(results[turn].y.as_double(i) == doctest::Approx(expected.y.as_double(i)).epsilon(1e-6));
    for (int64_t i = 0; i < 64; ++i) CHECK(results[turn].m.as_double(i) == expected.m.as_double(i));
  }
  CHECK(fake().count("kernel runs") == kKernels * kTurns);
}

TEST_CASE("an index out of range is told of its own run, by a flag that nobody waits for") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) return skip_case(reason);
  if (!in_own_process(
          "an index out of range is told of its own run, by a flag that nobody waits for", {}))
    return;
  const auto cuda = build(runtime::DeviceId::Kind::Cuda, kLabels);
  const HostArray x(ir::Type(ir::DType::F32, {4, 8}));
  std::vector<runtime::IndexFlag> flags;
  std::vector<HostArray> losses(3, HostArray(ir::Type(ir::DType::F32, {})));
  fake().reset_counts();
  for (int turn = 0; turn < 3; ++turn) {
    const HostArray labels(ir::Type(ir::DType::I32, {4}),
                           std::vector<double>{0, 7, turn == 1 ? 8.0 : 3.0, -100});
    const std::vector<runtime::Binding> bound = {x, labels};
    std::vector<HostArray*> results = {&losses[static_cast<size_t>(turn)]};
    flags.push_back(cuda->run(bound, results));
    if (turn < 2) CHECK(fake().count("kernel runs") == 0);
  }
  CHECK_FALSE(flags[0].raised());
  CHECK(flags[1].raised());
  CHECK_FALSE(flags[2].raised());
  CHECK(losses[2].as_double(0) == doctest::Approx(std::log(8.0)));
}

}  // namespace
}  // namespace mezzo::test
