// SPDX-License-Identifier: Apache-2.0
// What a Trainer traces: @loss and @step as the passes expect them.
#include <mezzo/dsl/training_module.h>

#include <mezzo/ir/printer.h>
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <algorithm>

using namespace mezzo;

namespace {

detail::TrainingModule trace(detail::OptimizerPlan plan) {
  nn::Dense layer{3, 2, {.name = "out"}};
  detail::TrainingDescription description{
      [layer](Tensor x) { return layer(Operand(x)); },
      [](Tensor y, Tensor t) { return losses::cross_entropy(y, t); },
      std::move(plan),
      {},
      {}};
  return detail::trace_training(description, ir::Type(f32, {4, 3}), ir::Type(i32, {4}));
}

std::vector<std::string> parameter_names(const ir::Function& function) {
  std::vector<std::string> names;
  for (ir::Value value : function.parameters()) names.emplace_back(value.name());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("sgd with a constant rate needs the rate as its only state") {
  auto traced = trace(detail::plan_optimizer(optim::SGD{.learning_rate = 0.1}));
  const ir::Function* step = traced.module->function("step");
  REQUIRE(step);
  CHECK(parameter_names(*step) == Names{"x", "y", "out.weight", "out.bias", "lr"});
  CHECK(step->is_param(2));
  CHECK(step->is_state(4));
  // loss, accuracy, then the two updates
  REQUIRE(step->num_results() == 4);
  CHECK_FALSE(step->updated_parameter(0));
  CHECK_FALSE(step->updated_parameter(1));
  CHECK(step->updated_parameter(2) == step->parameter(2));
  CHECK(step->updated_parameter(3) == step->parameter(3));
  CHECK(traced.own_results == 2);
  REQUIRE(traced.labels.size() == 1);
  CHECK(traced.labels[0].classes == 2);
}

TEST_CASE("adam keeps two moments a parameter and counts taken steps") {
  auto traced = trace(detail::plan_optimizer(optim::Adam{.learning_rate = 1e-3}));
  const ir::Function* step = traced.module->function("step");
  CHECK(parameter_names(*step) == Names{"x", "y", "out.weight", "out.bias", "out.weight.m",
                                        "out.weight.v", "out.bias.m", "out.bias.v", "t", "lr"});
  CHECK(step->num_results() == 2 + 2 * 3 + 1);
  std::string text = ir::print(*step);
  CHECK(text.find("%t1 = add %t") != std::string::npos);
  CHECK(text.find("{func = @loss, wrt = [2, 3]}") != std::string::npos);
}

TEST_CASE("a schedule is traced from the counter and needs no rate state") {
  auto traced = trace(
      detail::plan_optimizer(optim::SGD{.learning_rate = schedules::linear_decay(0.1, 0, 10)}));
  const ir::Function* step = traced.module->function("step");
  Names names = parameter_names(*step);
  CHECK(std::count(names.begin(), names.end(), "t") == 1);
  CHECK(std::count(names.begin(), names.end(), "lr") == 0);
}

TEST_CASE("the table of layers has types, work and a total") {
  auto traced = trace(detail::plan_optimizer(optim::SGD{}));
  std::string table = detail::layer_table(traced, Policy::mixed_float16());
  CHECK(table.find("dense 3 -> 2") != std::string::npos);
  CHECK(table.find("[4x2]") != std::string::npos);
  CHECK(table.find("f16") != std::string::npos);
  CHECK(table.find("training_module_test.cpp:") != std::string::npos);
  CHECK(traced.layer_flops == std::map<std::string, double>{{"out", 2.0 * 4 * 3 * 2}});
}

TEST_CASE("the table counts a layer once and the work of each of its calls") {
  nn::Dense twice{300, 300, {.name = "twice"}}, once{300, 2, {.name = "once"}};
  int line = 0;
  auto model = [&](Tensor x) {
    line = __LINE__ + 1;
    Tensor h = twice(x);
    h = twice(keep_f32([&] { return tanh(h); }));
    Tensor mixed = matmul(h, h, {.transpose_b = true});  // in no layer
    return once(matmul(mixed, h));
  };
  detail::TrainingDescription description{
      model,
      [](Tensor y, Tensor t) { return losses::cross_entropy(y, t); },
      detail::plan_optimizer(optim::SGD{}),
      {},
      {}};
  auto traced =
      detail::trace_training(description, ir::Type(f32, {100, 300}), ir::Type(i32, {100}));
  auto row = [&](const Policy& policy, const std::string& start) {
    std::string table = detail::layer_table(traced, policy), words;
    for (size_t at = 0; at < table.size(); at = table.find('\n', at) + 1) {
      if (table.compare(at, start.size(), start) != 0) continue;
      for (char c : table.substr(at, table.find('\n', at) - at))
        if (c != ' ' || (!words.empty() && words.back() != ' ')) words += c;
      words += "|";
    }
    return words;
  };
  const std::string place = "training_module_test.cpp:" + std::to_string(line) + "|";
  CHECK(row(Policy::mixed_float16(), "twice") ==
        "twice dense 300 -> 300, 2 calls [100x300] 90,300 f32 f16 f32 f32 36.00 " +
            std::string(__FILE__).substr(0, std::string(__FILE__).rfind('/') + 1) + place);
  CHECK(row(Policy::float16(), "twice").find(" 90,300 f16 f16 f32 none 36.00 ") !=
        std::string::npos);
  CHECK(row(Policy::float32(), "twice").find(" 90,300 f32 f32 f32 f32 36.00 ") !=
        std::string::npos);
  CHECK(row(Policy::float32(), "once").find(" 602 f32 f32 f32 f32 0.12 ") != std::string::npos);
  CHECK(row(Policy::float32(), "total") == "total 90,902 48.12|");
}

TEST_CASE("the scale options are those of the pass") {
  CHECK(LossScale::by_policy().options(Policy::float32()) == "off");
  CHECK(LossScale::by_policy().options(Policy::mixed_bfloat16()) == "off");
  CHECK(LossScale::by_policy().options(Policy::mixed_float16()) ==
        "{backoff = 0.5, ceiling = 16777216.0, floor = 6.103515625e-05, growth = 2.0, interval = "
        "2000}");
  CHECK(LossScale::static_scale(1024).options(Policy::float32()).find("growth = 1.0") !=
        std::string::npos);
  CHECK_THROWS_AS(LossScale::dynamic(1000).options(Policy::float32()), UserError);
}
