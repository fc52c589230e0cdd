// SPDX-License-Identifier: Apache-2.0
// Passes that are left out or asked for alone, over the whole table: what they cannot take is the
// user's error, never a fault of the compiler, and what they can take stays valid.
#include <mezzo/ir/error.h>
#include <mezzo/ir/target.h>

#include <doctest/doctest.h>

#include <passes/pass_cases.h>

namespace mezzo::test {

namespace {

constexpr const char* kStep = R"(module @small attributes {stage = "traced"} {
  func @loss(%x: tensor<4x6xf32>, %label: tensor<4xi32>, %w: tensor<6x3xf32> {param = true}) -> tensor<f32> {
    %0 = matmul %x, %w : (tensor<4x6xf32>, tensor<6x3xf32>) -> tensor<4x3xf32>
    %1 = relu %0 : tensor<4x3xf32>
    %l = cross_entropy %1, %label : (tensor<4x3xf32>, tensor<4xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func @step(%x: tensor<4x6xf32>, %label: tensor<4xi32>, %w: tensor<6x3xf32> {param = true}, %lr: tensor<f32> {state = true}) -> (tensor<f32>, tensor<6x3xf32> {updates = %w}) {
    %l, %dw = gradient %x, %label, %w {func = @loss, wrt = [2]} : (tensor<4x6xf32>, tensor<4xi32>, tensor<6x3xf32>) -> (tensor<f32>, tensor<6x3xf32>)
    %nw = sgd %w, %dw, %lr : (tensor<6x3xf32>, tensor<6x3xf32>, tensor<f32>) -> tensor<6x3xf32>
    return %l, %nw : (tensor<f32>, tensor<6x3xf32>)
  }
}
)";

/// The error, "internal" errors included, or "".
std::string error_of(ir::Module& module, const passes::Pipeline& pipeline,
                     ir::DebugOptions debug = {}, bool verify = true) {
  passes::ManagerOptions options;
  options.verify = verify;
  options.debug = std::move(debug);
  passes::PassContext context;
  context.target = ir::target_by_name("x86-64-v3");
  try {
    passes::run_pipeline(module, pipeline, options, context);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

passes::Pipeline training() {
  passes::Pipeline pipeline = passes::pipeline_by_name("train");
  for (passes::PipelineStep& step : pipeline)
    if (step.options.get_string("target") == "native") step.options.set("target", "x86-64-v3");
  return pipeline;
}

}  // namespace

TEST_CASE("a pass may be left out, or the pass that needs it says so") {
  int refused = 0;
  for (const passes::PassInfo& pass : passes::all_passes()) {
    CAPTURE(pass.name);
    std::unique_ptr<ir::Module> module = ir::parse(kStep);
    ir::DebugOptions debug;
    debug.skip = {pass.name};
    std::string error = error_of(*module, training(), debug);
    CHECK(error.find("internal error") == std::string::npos);
    refused += !error.empty();
  }
  // autodiff, autocast, decompose, fuse and plan-kernels.
  CHECK(refused == 5);
}

TEST_CASE("a pass alone, on a module of every stage, takes it or says what it takes") {
  passes::Pipeline whole = training();
  for (size_t steps = 0; steps <= whole.size(); ++steps) {
    for (const passes::PassInfo& pass : passes::all_passes()) {
      CAPTURE(steps);
      CAPTURE(pass.name);
      std::unique_ptr<ir::Module> module = ir::parse(kStep);
      passes::Pipeline before(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(steps));
      REQUIRE(error_of(*module, before) == "");
      std::string error = error_of(*module, {{&pass, {}}});
      CHECK(error.find("internal error") == std::string::npos);
    }
  }
}

TEST_CASE("what a pass takes is told with both stages and the first op in the way") {
  std::unique_ptr<ir::Module> module = ir::parse(kStep, "small.mz");
  CHECK(error_of(*module, passes::parse_pipeline("fuse")) ==
        "error: pass 'fuse' takes a module of stage primitive, this one has stage traced: "
        "small.mz:5: @loss: %l = cross_entropy: is composite in stage primitive; decompose "
        "replaces it\nnote: let the passes before it run first; `mezzo opt --pipeline=train` "
        "runs them all");
  module = ir::parse(kStep, "small.mz");
  ir::DebugOptions debug;
  debug.skip = {"plan-kernels"};
  CHECK(error_of(*module, training(), debug) ==
        "small.mz:4: error: kernel @k0 of @loss has no plan, so the size of its workspace is "
        "unknown\nnote: plan-kernels runs before plan-memory; MEZZO_DEBUG has 'skip=plan-kernels'");
  // Of the words of skip= those are named that leave something out.
  module = ir::parse(kStep, "small.mz");
  debug.skip = {"lint", "autodiff"};
  CHECK(error_of(*module, passes::parse_pipeline("lint, plan-kernels"), debug) ==
        "error: plan-kernels: there are no kernels yet, the module has stage traced\n"
        "note: move 'plan-kernels' after 'fuse'; MEZZO_DEBUG has 'skip=lint'");
  module = ir::parse(kStep, "small.mz");
  CHECK(error_of(*module, passes::parse_pipeline("plan-kernels")) ==
        "error: plan-kernels: there are no kernels yet, the module has stage traced\n"
        "note: move 'plan-kernels' after 'fuse'");
  module = ir::parse(kStep, "small.mz");
  module->functions()[0]->body().begin()->attrs().set("policy", "foo");
  CHECK(error_of(*module, passes::parse_pipeline("autocast")) ==
        "small.mz:3: error: unknown policy 'foo'\nnote: known policies: float32, mixed_float16, "
        "mixed_bfloat16, float16, bfloat16");
  // Where nobody verifies after each pass it is the pass that needs it.
  module = ir::parse(kStep, "small.mz");
  CHECK(error_of(*module, passes::parse_pipeline("decompose, fuse"), {}, false) ==
        "small.mz:9: error: fuse: @step holds a gradient, which is no kernel\nnote: move 'fuse' "
        "after 'autodiff'");
}

}  // namespace mezzo::test
