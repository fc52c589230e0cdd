// SPDX-License-Identifier: Apache-2.0
// Long chains: no pass recurses, and none takes much more than linear time. Ten times the ops leave
// the caches and cost up to 40 times as much; a quadratic pass would take 100 times as long, and
// minutes.
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/pass_manager.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>

namespace mezzo::test {

namespace {

using ir::OpKind;
using ir::Value;

/// x * 1, tanh, neg of neg, the same exp twice, a dead op, mean: `count` ops and more, all in one
/// chain, that all read one constant.
std::unique_ptr<ir::Module> chain(int count) {
  auto module = std::make_unique<ir::Module>("chain");
  ir::Function* function = module->add_function("f");
  Value x = function->add_parameter(ir::Type(ir::DType::F32, {4}), "x");
  ir::Builder builder(function->body());
  Value one = builder.constant(ir::Type(ir::DType::F32, {}), 1);
  Value half = builder.constant(ir::Type(ir::DType::F32, {}), 0.5);
  for (int made = 0; made < count; made += 10) {
    x = builder.make(OpKind::Mul, {x, one});
    x = builder.make(OpKind::Neg, {builder.make(OpKind::Neg, {x})});
    Value a = builder.make(OpKind::Tanh, {x}), b = builder.make(OpKind::Tanh, {x});
    builder.make(OpKind::Exp, {a});
    x = builder.make(OpKind::Add, {a, b});
    Value mean = builder.make(OpKind::Mean, {x}, {{"axes", ir::Attr(std::vector<int64_t>{0})}});
    x = builder.make(OpKind::Sub, {x, mean});
    x = builder.make(OpKind::Mul, {x, builder.make(OpKind::Mul, {one, half})});
  }
  function->set_results(std::span(&x, 1), {ir::Attrs()});
  return module;
}

/// `count` parameters of two shapes, each updated by its own gradient behind a cast, all at one
/// rate that the function computes.
std::unique_ptr<ir::Module> updates(int count) {
  auto module = std::make_unique<ir::Module>("updates");
  module->set_stage(ir::Stage::Primitive);
  ir::Function* function = module->add_function("f");
  Value rate = function->add_parameter(ir::Type(ir::DType::F32, {}), "rate");
  ir::Builder builder(function->body());
  rate = builder.make(OpKind::Neg, {rate});
  std::vector<Value> results;
  std::vector<ir::Attrs> attrs;
  for (int i = 0; i < count; ++i) {
    const int64_t rows = i % 2 + 1;
    const std::string number = std::to_string(i);
    Value w = function->add_parameter(ir::Type(ir::DType::F32, {rows, 4}), "w" + number,
                                      {{"state", true}});
    Value g = function->add_parameter(ir::Type(ir::DType::F16, {rows, 4}), "g" + number);
    builder.set_role("update");
    Value wide = builder.cast(g, ir::DType::F32);
    results.push_back(builder.make(OpKind::Add, {w, builder.make(OpKind::Mul, {wide, rate})}));
    attrs.push_back({{"updates", ir::ValueRef{w.def()}}});
  }
  function->set_results(results, attrs);
  return module;
}

/// Shorter times are those of the clock.
constexpr double kLeastSeconds = 0.005;

double best_seconds(passes::PassFunction pass, std::unique_ptr<ir::Module> (*make)(int),
                    int count) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<ir::Module> module = make(count);
    passes::PassContext context;
    std::clock_t start = std::clock();  // of this process: other work does not count
    CHECK(pass(*module, context));
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return std::max(best, kLeastSeconds);
}

}  // namespace

TEST_CASE(
    "passes over a chain of 100,000 ops are far from a hundred times as long as over 10,000") {
  for (std::string name : {"canonicalize", "constant-fold", "cse", "dce", "decompose"}) {
    passes::PassFunction pass = passes::find_pass(name)->run;
    double small = best_seconds(pass, chain, 10'000), large = best_seconds(pass, chain, 100'000);
    INFO(name << ": " << small << " s and " << large << " s");
    CHECK(large < 70 * small);
    CHECK(large < 10);
  }
}

TEST_CASE("fusing 4,000 updates into kernels of 128 is far from a hundred times as long as 400") {
  passes::PassFunction pass = passes::find_pass("fuse")->run;
  double small = best_seconds(pass, updates, 400), large = best_seconds(pass, updates, 4'000);
  INFO(small << " s and " << large << " s");
  CHECK(large < 70 * small);
  CHECK(large < 5);
  std::unique_ptr<ir::Module> module = updates(4'000);
  passes::PassContext context;
  pass(*module, context);
  int kernels = 0;
  for (const ir::Op& op : module->function("f")->body()) kernels += op.kind() == OpKind::Kernel;
  CHECK(kernels == 1 + 32);  // the rate, and the updates
}

TEST_CASE("a ladder of 28 diamonds has 2^28 paths, and each pass walks none of them twice") {
  ir::Module module("ladder");
  ir::Function* function = module.add_function("f");
  Value a = function->add_parameter(ir::Type(ir::DType::F16, {8}), "a");
  Value b = function->add_parameter(ir::Type(ir::DType::F16, {8}), "b");
  ir::Builder builder(function->body());
  for (int level = 0; level < 28; ++level) {
    a = builder.make(OpKind::Maximum, {a, b});
    b = builder.make(OpKind::Minimum, {a, b});
  }
  function->set_results(std::vector<Value>{a, b}, {ir::Attrs(), ir::Attrs()});
  passes::Pipeline pipeline = passes::pipeline_by_name("infer");
  passes::set_target(pipeline, "x86-64-v3");
  passes::PassContext context;
  passes::run_pipeline(module, pipeline, {}, context);
  CHECK(module.stage() == ir::Stage::Planned);
}

}  // namespace mezzo::test
