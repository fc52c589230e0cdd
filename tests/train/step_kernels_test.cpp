// SPDX-License-Identifier: Apache-2.0
// The demo's training step after the whole pipeline: which kernels it has, what stands in the
// forward products, which casts are left and why. The counts are those of the target x86-64-v3.
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/plan.h>
#include <mezzo/mezzo.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/compiler.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <train/demo_network.h>

using namespace mezzo;
using namespace mezzo::test;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

/// `@step` of the demo, planned.
struct PlannedStep {
  explicit PlannedStep(const Policy& policy) {
    Trainer trainer(DemoNetwork(), losses::cross_entropy,
                    optim::Adam{.learning_rate = schedules::cosine_decay(1e-3, 1e-5, 4690)},
                    {.policy = policy, .batch = kDemoBatch});
    trainer.compile(demo_batch());
    module = ir::parse(trainer.ir());
    passes::Pipeline pipeline = passes::parse_pipeline(trainer.compile_report().pipeline);
    passes::set_target(pipeline, "x86-64-v3");
    passes::ManagerOptions options{.debug = {}, .verify = true, .sink = {}};
    passes::PassContext context;
    passes::run_pipeline(*module, pipeline, options, context);
    for (const Op& op : module->function("step")->body())
      if (op.kind() == OpKind::Kernel) kernels.push_back(&op);
  }

  /// `columns 4, matmul 11 ...`.
  std::string families() const {
    std::map<std::string, int> counts;
    for (const Op* kernel : kernels) ++counts[to_string(ir::family_of(*kernel))];
    std::string text;
    for (const auto& [family, count] : counts)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", family, count);
    return text;
  }

  std::unique_ptr<ir::Module> module;
  std::vector<const Op*> kernels;
};

std::vector<const Op*> casts_of(const Op& kernel) {
  std::vector<const Op*> casts;
  for (const Op& op : *kernel.body())
    if (op.kind() == OpKind::Cast) casts.push_back(&op);
  return casts;
}

std::string reason_of(const Op& cast) {
  return cast.bool_attr("user") ? "written in the program" : cast.attrs().get_string("reason");
}

int count_casts(const PlannedStep& step) {
  size_t count = 0;
  for (const Op* kernel : step.kernels) count += casts_of(*kernel).size();
  return static_cast<int>(count);
}

std::string listing(const PlannedStep& step) {
  std::string text;
  for (const Op* kernel : step.kernels) {
    std::string ops;
    for (const Op& op : *kernel->body())
      if (op.kind() != OpKind::Yield && op.kind() != OpKind::Constant)
        ops += std::string(" ") + op.info().name;
    if (ops.size() > 100) ops = ops.substr(0, ops.rfind(' ', 96)) + " ...";
    text +=
        fmt::format("\n@{} {}:{}", kernel->kernel_name(), to_string(ir::family_of(*kernel)), ops);
    for (const Op* cast : casts_of(*kernel))
      text += fmt::format("\n    cast {} -> {}: {}", to_string(cast->operand(0).type()),
                          to_string(cast->result().type()), reason_of(*cast));
  }
  return text;
}

Value before_casts(Value value) {
  while (value.is(OpKind::Cast)) value = value.op()->operand(0);
  return value;
}

/// The value of the step that a parameter of a kernel is bound to.
Value bound(const Op& kernel, Value value) {
  REQUIRE(value.is_parameter());
  return kernel.operand(value.index());
}

/// Asserts that `kernel` stores activation(a @ weight + bias) of a layer and nothing else.
void check_layer(const Op& kernel, const std::string& layer, bool activated) {
  CAPTURE(layer);
  CHECK(ir::family_of(kernel) == ir::Family::Matmul);
  const Op* yield = kernel.body()->terminator();
  REQUIRE(yield->num_operands() == 1);
  Value value = before_casts(yield->operand(0));
  if (activated) {
    REQUIRE(value.is(OpKind::Relu));
    value = before_casts(value.op()->operand(0));
  }
  REQUIRE(value.is(OpKind::Add));
  int bias = before_casts(value.op()->operand(1)).is_parameter() ? 1 : 0;
  CHECK(bound(kernel, before_casts(value.op()->operand(bias))).name() == layer + ".bias");
  Value product = before_casts(value.op()->operand(1 - bias));
  REQUIRE(product.is(OpKind::Matmul));
  CHECK(product.op()->role() == "forward");
  CHECK(product.op()->attrs().get_string("scope") == layer);
  CHECK(bound(kernel, before_casts(product.op()->operand(1))).name() == layer + ".weight");
  // The layer and its casts are all there is.
  for (const Op& op : *kernel.body()) {
    CAPTURE(op.info().name);
    CHECK((op.kind() == OpKind::Cast || op.kind() == OpKind::Yield || &op == product.op() ||
           &op == value.op() || (activated && op.kind() == OpKind::Relu)));
  }
}

const Policy kPolicies[] = {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()};

}  // namespace

TEST_CASE("the forward pass of the demo is four products with bias and relu in the epilogue") {
  for (const Policy& policy : kPolicies) {
    CAPTURE(policy.name());
    PlannedStep step(policy);
    std::vector<const Op*> forward;
    for (const Op* kernel : step.kernels)
      for (const Op& op : *kernel->body())
        if (op.kind() == OpKind::Matmul && op.role() == "forward") forward.push_back(kernel);
    REQUIRE(forward.size() == 4);
    check_layer(*forward[0], "hidden1", true);
    check_layer(*forward[1], "hidden2", true);
    check_layer(*forward[2], "hidden3", true);
    check_layer(*forward[3], "out", false);
    // Behind the rate, in a row.
    for (size_t i = 0; i < 4; ++i) CHECK(forward[i] == step.kernels[i + 1]);
  }
}

TEST_CASE("the demo's step has so many kernels of each family and so many casts") {
  PlannedStep single(Policy::float32()), half(Policy::mixed_float16()),
      brain(Policy::mixed_bfloat16());
  MESSAGE(listing(half));
  // One is the rate, which the finite check reads.
  CHECK(single.families() == "columns 4, elementwise 3, matmul 11, optimizer 1, rows 4");
  CHECK(brain.families() == "columns 4, elementwise 3, matmul 11, optimizer 1, rows 4");
  // And the reciprocal of the scale and its update.
  CHECK(half.families() == "columns 4, elementwise 5, matmul 11, optimizer 1, rows 4");
  CHECK(count_casts(single) == 7);
  CHECK(count_casts(brain) == 26);
  CHECK(count_casts(half) == 26);
}

TEST_CASE("every cast of the demo's step has a reason") {
  for (const Policy& policy : kPolicies) {
    CAPTURE(policy.name());
    PlannedStep step(policy);
    for (const Op* kernel : step.kernels)
      for (const Op* cast : casts_of(*kernel)) {
        CAPTURE(kernel->kernel_name());
        CAPTURE(to_string(cast->operand(0).type()));
        CAPTURE(to_string(cast->result().type()));
        CHECK(reason_of(*cast) != "");
      }
  }
}
