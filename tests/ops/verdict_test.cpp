// SPDX-License-Identifier: Apache-2.0
// Verdicts: one small training step, broken in each way that a verdict tells apart, and tables of
// fused and replicated graphs.
#include <mezzo/ir/verdict.h>

#include <mezzo/ir/error.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// loss = log(x · w) with an f16 product, and a gradient that holds the scale. Words in brackets:
///   %wh = cast %w [1]       %xh = cast %x [2]      %p = mul %xh, %wh [3]     %pf = cast %p [4]
///   %l = log %pf [5]
///   backward: %d = div %scale, %pf [6]     %dh = cast (%d + (%pf - %pf)) [7]     %g = cast %dh [8]
///   scale: %dw = div %g, %scale [9]
struct Step {
  Module module;
  Function* function;

  Step() : function(module.add_function("step")) {
    Type f32(DType::F32, {});
    Value x = function->add_parameter(f32, "x");
    Value w = function->add_parameter(f32, "w", {{"param", true}});
    Value scale = function->add_parameter(f32, "scale", {{"state", true}});
    Value clean = function->add_parameter(Type(DType::I32, {}), "clean", {{"state", true}});
    Builder builder(function->body());
    Value wh = cast(builder, w, DType::F16, 1, "forward");
    Value xh = cast(builder, x, DType::F16, 2, "forward");
    Value p = builder.make(OpKind::Mul, {xh, wh}, {{"word", 3}});
    Value pf = cast(builder, p, DType::F32, 4, "forward");
    Value loss = builder.make(OpKind::Log, {pf}, {{"word", 5}});
    Value d = builder.make(OpKind::Div, {scale, pf}, {{"word", 6}, {"role", "backward"}});
    // Keeps a forward fault in the gradient: inf - inf is NaN.
    Value spread = builder.make(OpKind::Add, {d, builder.make(OpKind::Sub, {pf, pf})});
    Value dh = cast(builder, spread, DType::F16, 7, "backward");
    Value g = cast(builder, dh, DType::F32, 8, "backward");
    Value dw = builder.make(OpKind::Div, {g, scale}, {{"word", 9}, {"role", "scale"}});
    Value ok = builder.make(OpKind::AllFinite, {dw});
    Value v = builder.make(OpKind::Verdict, {ok});
    Op* update = builder.create(OpKind::ScaleUpdate, {scale, clean, v},
                                {{"backoff", 0.5},
                                 {"ceiling", 0x1p24},
                                 {"floor", 0x1p-14},
                                 {"growth", 2.0},
                                 {"interval", 2000}});
    Value results[] = {loss, v, update->result(0), update->result(1)};
    function->set_results(results, {Attrs(), Attrs(), Attrs{{"updates", ValueRef{scale.def()}}},
                                    Attrs{{"updates", ValueRef{clean.def()}}}});
  }

  static Value cast(Builder& builder, Value value, DType dtype, int word, const char* role) {
    Attrs attrs{{"word", word}};
    if (std::string(role) != "forward") attrs.set("role", role);
    return builder.make(OpKind::Cast, {value}, attrs, {value.type().with(dtype)});
  }

  int32_t verdict(double x, double w, double scale) const {
    Type f32(DType::F32, {});
    std::vector<InterpreterTensor> inputs = {full_tensor(f32, x), full_tensor(f32, w),
                                             full_tensor(f32, scale),
                                             InterpreterTensor(Type(DType::I32, {}))};
    return static_cast<int32_t>(run(module, *function, inputs).results[1].integers[0]);
  }
};

int32_t coded(VerdictCode code, int word) { return static_cast<int32_t>(code) + 256 * word; }

}  // namespace

TEST_CASE("each way to break a step has its verdict and its producer") {
  Step step;
  double inf = std::numeric_limits<double>::infinity();
  CHECK(step.verdict(2, 3, 1024) == 0);
  // The input is finite in f32; its cast is where the range was left.
  CHECK(step.verdict(1e5, 3, 1) == coded(VerdictCode::ForwardOverflow, 2));
  CHECK(step.verdict(300, 300, 1) == coded(VerdictCode::ForwardOverflow, 3));
  CHECK(step.verdict(kNan, 3, 1) == coded(VerdictCode::BadInput, 2));
  CHECK(step.verdict(2, kNan, 1) == coded(VerdictCode::NonfiniteParameter, 1));
  CHECK(step.verdict(kNan, inf, 1) == coded(VerdictCode::NonfiniteParameter, 1));
  // A weight whose 16-bit copy is infinite.
  CHECK(step.verdict(2, 1e5, 1) == coded(VerdictCode::NonfiniteParameter, 1));
  // The gradient is 2^15 / 2^-6: too large for f16 because of the scale.
  CHECK(step.verdict(0x1p-3, 0x1p-3, 0x1p15) == coded(VerdictCode::ScaleOverflow, 7));
  // log(0) comes before the division by 0.
  CHECK(step.verdict(0, 3, 1) == coded(VerdictCode::DomainError, 5));
  // log(-6) is NaN, the gradient is finite: the step is taken.
  CHECK(step.verdict(-2, 3, 1) == coded(VerdictCode::NonfiniteLoss, 5));
}

TEST_CASE("backward faults are told apart by overflow, pole and scale") {
  Step step;
  VerdictTable table = VerdictTable::from(*step.function);
  CHECK(table.scale_parameter == 2);
  std::vector<uint32_t> words(10, 0);
  StepFacts facts;
  facts.words = words;
  facts.all_finite = false;
  auto n = static_cast<uint32_t>(FlagBit::NonFinite), o = static_cast<uint32_t>(FlagBit::Overflow),
       p = static_cast<uint32_t>(FlagBit::Pole);
  words[7] = n;  // follows from 6 wherever 6 is set
  words[6] = n | p;
  CHECK(judge(table, facts) == coded(VerdictCode::BackwardDomainError, 6));
  words[6] = n;
  CHECK(judge(table, facts) == coded(VerdictCode::Unknown, 6));
  facts.scaled = true;
  CHECK(judge(table, facts) == coded(VerdictCode::ScaleOverflow, 6));
  words[6] = 0;
  words[7] = n | o;
  facts.scaled = false;
  CHECK(judge(table, facts) == coded(VerdictCode::ScaleOverflow, 7));
  words[7] = 0;
  words[9] = n | p;
  CHECK(judge(table, facts) == coded(VerdictCode::Unknown, 9));
  words[9] = 0;
  CHECK(judge(table, facts) == coded(VerdictCode::Unknown, 0));
  facts.index_range = true;
  CHECK(judge(table, facts) == coded(VerdictCode::BadIndex, 0));
}

TEST_CASE("a non-finite input counts only where it made an op non-finite") {
  Module module;
  Function* function = module.add_function("f");
  Type f32(DType::F32, {});
  Value x = function->add_parameter(f32, "x");
  Value y = function->add_parameter(f32, "y");
  Value c = function->add_parameter(Type(DType::Bool, {}), "c");
  Builder builder(function->body());
  Value chosen = builder.make(OpKind::Where, {c, x, y});
  Value sum = builder.make(OpKind::Exp, {chosen}, {{"word", 0}});
  Value ok = builder.make(OpKind::AllFinite, {sum});
  Value results[] = {sum, builder.make(OpKind::Verdict, {ok})};
  function->set_results(results, std::vector<Attrs>(2));
  auto verdict = [&](double a, double b, bool take_a) {
    std::vector<InterpreterTensor> inputs = {full_tensor(f32, a), full_tensor(f32, b),
                                             full_tensor(Type(DType::Bool, {}), take_a)};
    return run(module, *function, inputs).results[1].integers[0];
  };
  CHECK(verdict(kNan, 1, false) == 0);
  CHECK(verdict(kNan, 1, true) == coded(VerdictCode::BadInput, 0));
  CHECK(verdict(1000, 1, true) == coded(VerdictCode::ForwardOverflow, 0));
}

TEST_CASE("a bad label makes the step bad_index and all_finite false") {
  Module module;
  Function* function = module.add_function("f");
  Value x = function->add_parameter(Type(DType::F32, {2, 3}), "x");
  Value labels = function->add_parameter(Type(DType::I32, {2}), "labels");
  Builder builder(function->body());
  Value loss = builder.make(OpKind::CrossEntropy, {x, labels}, {{"word", 0}});
  Value ok = builder.make(OpKind::AllFinite, {x});
  Value results[] = {loss, ok, builder.make(OpKind::Verdict, {ok})};
  function->set_results(results, std::vector<Attrs>(3));
  std::vector<InterpreterTensor> inputs = {InterpreterTensor(x.type()),
                                           make_tensor(labels.type(), {0, 3})};
  RunResult result = run(module, *function, inputs);
  CHECK(result.index_range);
  CHECK(result.results[1].integers[0] == 0);
  CHECK(result.results[2].integers[0] == coded(VerdictCode::BadIndex, 0));
}

TEST_CASE("ops that share a word are one producer, also when a kernel holds them") {
  Module module;
  Function* function = module.add_function("f");
  Type f32(DType::F32, {});
  Value x = function->add_parameter(f32, "x", {{"param", true}});
  Value operands[] = {x};
  Type types[] = {f32};
  Op* kernel = module.make_op(OpKind::Kernel, operands, types, {}, {});
  Region* body = module.make_body(kernel);
  Value a = body->add_parameter(f32, "a");
  Builder inside(*body);
  Value square = inside.make(OpKind::Square, {a}, {{"word", 4}});
  Value root = inside.make(OpKind::Sqrt, {inside.make(OpKind::Neg, {square})}, {{"word", 4}});
  inside.create(OpKind::Yield, {inside.make(OpKind::Exp, {root}, {{"word", 2}})});
  Module::append(function->body(), kernel);
  Builder outside(function->body());
  Value last = outside.make(OpKind::Exp, {outside.make(OpKind::Neg, {kernel->result()})},
                            {{"word", 3}, {"role", "backward"}});
  Value results[] = {last};
  function->set_results(results, {Attrs()});

  VerdictTable table = VerdictTable::from(*function);
  REQUIRE(table.entries.size() == 3);
  CHECK(table.entries[0].word == 4);
  CHECK(table.entries[0].kind == OpKind::Square);
  CHECK(table.entries[0].has_domain);
  CHECK(table.entries[0].producers.empty());
  CHECK(table.entries[0].parameters == std::vector<int>{0});
  CHECK(table.entries[1].word == 2);
  CHECK(table.entries[1].producers == std::vector<int>{0});
  CHECK(table.entries[1].parameters.empty());
  CHECK(table.entries[2].role == Role::Backward);
  CHECK(table.entries[2].producers == std::vector<int>{1});
  CHECK(table.is_param == std::vector<bool>{true});
  CHECK(table.scale_parameter == -1);
}

TEST_CASE("the scale is found when scale_update is decomposed") {
  Module module;
  Function* function = module.add_function("f");
  Type f32(DType::F32, {});
  Value x = function->add_parameter(f32, "x");
  Value mean = function->add_parameter(f32, "mean", {{"state", true}});
  Value scale = function->add_parameter(f32, "scale", {{"state", true}});
  Builder builder(function->body());
  Value ok = builder.make(OpKind::AllFinite, {x});
  Value mean1 = builder.make(OpKind::Where, {ok, x, mean});
  Value v = builder.make(OpKind::Verdict, {ok});
  Value zero = builder.constant(Type(DType::I32, {}), 0);
  Value scale1 =
      builder.make(OpKind::Where, {builder.make(OpKind::Eq, {v, zero}), scale,
                                   builder.make(OpKind::Mul, {scale, builder.constant(f32, 0.5)})});
  Value results[] = {x, mean1, scale1};
  function->set_results(results, {Attrs(), Attrs{{"updates", ValueRef{mean.def()}}},
                                  Attrs{{"updates", ValueRef{scale.def()}}}});
  CHECK(VerdictTable::from(*function).scale_parameter == 2);
}

TEST_CASE("a verdict that stands before the loss is refused") {
  Module module;
  Function* function = module.add_function("f");
  Value x = function->add_parameter(Type(DType::F32, {}), "x");
  Builder builder(function->body());
  Value v = builder.make(OpKind::Verdict, {builder.make(OpKind::AllFinite, {x})});
  Value results[] = {builder.make(OpKind::Exp, {x}), v};
  function->set_results(results, std::vector<Attrs>(2));
  InterpreterTensor one = full_tensor(x.type(), 1);
  CHECK_THROWS_WITH_AS(run(module, *function, std::span(&one, 1)),
                       doctest::Contains("verdict: stands before the loss is computed"),
                       mezzo::UserError);
}
