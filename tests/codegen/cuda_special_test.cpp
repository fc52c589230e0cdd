// SPDX-License-Identifier: Apache-2.0
// Single kernels on the PTX interpreter whose values are known: roundings, signs of zeros, long
// sums, results in the place of operands.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/plan.h>
#include <support/nvrtc.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <limits>

namespace mezzo::test {
namespace {

/// The kernel of a module of primitive ops, its plan changed by `change`.
template <class Change>
std::unique_ptr<ir::Module> kernel_from(const std::string& text, Change change) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  plan_for(*module, "sm_90");
  for (ir::Op& op : module->functions()[0]->body()) {
    if (op.kind() != ir::OpKind::Kernel) continue;
    ir::Plan plan = ir::Plan::from(op.plan());
    change(plan);
    op.set_plan(plan.to_attrs());
  }
  REQUIRE(kernels_of(*module).size() == 1);
  return alone(*kernels_of(*module)[0]);
}
std::unique_ptr<ir::Module> kernel_from(const std::string& text) {
  return kernel_from(text, [](ir::Plan&) {});
}

/// Runs a kernel alone and expects the interpreter's bits and flag words.
void check_exact(std::unique_ptr<ir::Module> module,
                 const std::vector<ir::InterpreterTensor>& inputs,
                 const std::vector<size_t>& in_place = {}) {
  const ir::RunResult wanted = ir::run(*module, *module->functions()[0], inputs);
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(std::move(module));
  const DeviceProgram program(std::move(modules), "sm_90");
  INFO(program.source(0).text);
  const ir::RunResult got = program.run(0, inputs, {}, nullptr, in_place);
  REQUIRE(got.results.size() == wanted.results.size());
  for (size_t r = 0; r < wanted.results.size(); ++r)
    CHECK(ir::describe_difference(got.results[r], wanted.results[r]) == "");
  CHECK(got.words == wanted.words);
}

TEST_CASE("a 64-bit integer becomes a 16-bit float in one rounding") {
  if (lacks_nvrtc()) return;
  // Half a step of bf16, less and more by what no f64 holds beside it.
  std::vector<int64_t> values;
  for (int64_t base : {int64_t{1} << 62, int64_t{1} << 55, int64_t{1} << 53, int64_t{65504}})
    for (int64_t half : {base >> 8, (base >> 8) * 3, int64_t{0}, int64_t{16}})
      for (int64_t step : {-1, 0, 1})
        for (int64_t sign : {-1, 1}) values.push_back(sign * (base + half + step));
  values.push_back(std::numeric_limits<int64_t>::min());
  values.push_back(std::numeric_limits<int64_t>::max());
  ir::InterpreterTensor input(
      ir::Type(ir::DType::I64, ir::Shape{static_cast<int64_t>(values.size())}));
  input.integers = values;
  for (const char* to : {"bf16", "f16", "f32", "f64"}) {
    INFO(to);
    check_exact(kernel_from(fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<{0}xi64>) -> tensor<{0}x{1}> {{
    %0 = cast %x {{word = 0}} : tensor<{0}xi64> -> tensor<{0}x{1}>
    return %0 : tensor<{0}x{1}>
  }}
}}
)",
                                        values.size(), to)),
                {input});
  }
}

TEST_CASE("a sum of negative zeros is -0, a sum of nothing +0") {
  if (lacks_nvrtc()) return;
  for (const char* type : {"f32", "f16", "f64"})
    for (int64_t columns : {0, 1, 7, 1024, 1031, 300000}) {
      INFO(type << " " << columns);
      const std::string text = fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<2x{0}x{1}>) -> tensor<2x{1}> {{
    %0 = sum %x {{axes = [1]}} : tensor<2x{0}x{1}> -> tensor<2x{1}>
    return %0 : tensor<2x{1}>
  }}
}}
)",
                                           columns, type);
      std::unique_ptr<ir::Module> module = kernel_from(text);
      ir::InterpreterTensor input(module->functions()[0]->parameter(0).type());
      input.floats.assign(input.floats.size(), -0.0);
      check_exact(std::move(module), {input});
    }
}

TEST_CASE("long sums keep their blocks in f64, so that no length adds to their error") {
  if (lacks_nvrtc()) return;
  const std::string text = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<1x1064960xf32>) -> tensor<1xf32> {
    %0 = sum %x {axes = [1]} : tensor<1x1064960xf32> -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
)";
  // One block a row, 512 threads of 4 lanes, 520 elements a lane: its blocks of 256 terms are 2^24,
  // 1 and -2^24, and a total in f32 would lose the 1. Slices: a total in f32 would lose it too.
  for (int64_t slices : {1, 3, 260}) {
    CAPTURE(slices);
    std::unique_ptr<ir::Module> module = kernel_from(text, [&](ir::Plan& plan) {
      CHECK(plan.slices > 1);
      plan.slices = slices;
      plan.threads = slices == 1 ? 512 : 256;
      plan.grain = 1;
    });
    ir::InterpreterTensor input(module->functions()[0]->parameter(0).type());
    input.floats.assign(input.floats.size(), 0.0);
    for (size_t lane = 0; lane < 2048; ++lane) {
      input.floats[lane] = 0x1p24;
      input.floats[2048 * 256 + lane] = 1;
      input.floats[2048 * 512 + lane] = -0x1p24;
    }
    check_exact(std::move(module), {input});
  }
}

TEST_CASE("results in the place of operands are stored after all operands were read") {
  if (lacks_nvrtc()) return;
  const std::string swap = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<37xf32>, %y: tensor<37xf32>) -> (tensor<37xf32>, tensor<37xf32>) {
    %0 = neg %x : tensor<37xf32>
    %1 = add %0, %y : tensor<37xf32>
    return %0, %1 : (tensor<37xf32>, tensor<37xf32>)
  }
}
)";
  const ir::Type type(ir::DType::F32, ir::Shape{37});
  for (int64_t lanes : {1, 2, 4})
    check_exact(kernel_from(swap, [&](ir::Plan& plan) { plan.vector = lanes; }),
                {random_array('a', type, 1), random_array('a', type, 2)}, {1, 0});
  // One element, which every thread of the block reads and flags: 1e60 would not be finite.
  ir::InterpreterTensor one(ir::Type(ir::DType::F32, ir::Shape{}));
  one.floats = {ir::round_to(ir::DType::F32, 1e15)};
  check_exact(kernel_from(R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = square %x {word = 0} : tensor<f32>
    return %0 : tensor<f32>
  }
}
)"),
              {one}, {0});
}

}  // namespace
}  // namespace mezzo::test
