// SPDX-License-Identifier: Apache-2.0
// Loss scale and optimizers: the scale rule, updates against formulas written out, skipped steps.
#include <mezzo/ir/error.h>
#include <mezzo/ir/verdict.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using mezzo::InternalError;
using mezzo::UserError;
using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

InterpreterTensor f32(double value) { return full_tensor(Type(DType::F32, {}), value); }
InterpreterTensor i32(double value) { return full_tensor(Type(DType::I32, {}), value); }
InterpreterTensor flag(bool value) { return full_tensor(Type(DType::Bool, {}), value); }

struct Scale {
  double scale;
  int64_t clean;
  bool operator==(const Scale&) const = default;
};

const Attrs kScaleRule{
    {"backoff", 0.5}, {"ceiling", 0x1p24}, {"floor", 0x1p-14}, {"growth", 2.0}, {"interval", 3}};

Attrs with(Attrs attrs, const std::string& name, const Attr& value) {
  attrs.set(name, value);
  return attrs;
}

Scale update(double scale, int clean, int verdict, const Attrs& attrs = kScaleRule) {
  RunResult result = run_op(OpKind::ScaleUpdate, {f32(scale), i32(clean), i32(verdict)}, attrs);
  return {result.results[0].floats[0], result.results[1].integers[0]};
}

/// The op with these attributes is refused with this text, then its operands.
void check_refused(OpKind kind, const std::vector<InterpreterTensor>& operands, const Attrs& attrs,
                   const std::string& text) {
  INFO(text);
  try {
    run_op(kind, operands, attrs);
    FAIL("it was accepted");
  } catch (const UserError& error) {
    CHECK_MESSAGE(error.message().starts_with(text + " ("), error.message());
  }
}

}  // namespace

TEST_CASE("the scale grows after an interval of clean steps and only its own overflow lowers it") {
  CHECK(update(1024, 0, 0) == Scale{1024, 1});
  CHECK(update(1024, 1, 1) == Scale{1024, 2});  // nonfinite_loss is taken
  CHECK(update(1024, 2, 0) == Scale{2048, 0});
  CHECK(update(0x1p24, 2, 0) == Scale{0x1p24, 0});
  CHECK(update(1024, 2, 6 + 256 * 7) == Scale{512, 0});
  CHECK(update(1024, 2, 8) == Scale{512, 0});
  for (int code : {2, 3, 4, 5, 7, 9}) CHECK(update(1024, 2, code + 256) == Scale{1024, 0});
  CHECK(update(0x1p-14, 2, 6) == Scale{0x1p-14, 0});
  // A scale that was set beyond the bounds is left there.
  CHECK(update(0x1p30, 2, 0) == Scale{0x1p30, 0});
  CHECK(update(0x1p-20, 2, 6) == Scale{0x1p-20, 0});
}

TEST_CASE("a scale is rounded to f32 before the bounds are asked") {
  // 2^128 and 2^227 have no f32: the ceiling stands in for them.
  const Attrs high = with(kScaleRule, "ceiling", 0x1p127);
  CHECK(update(0x1p127, 2, 0, high) == Scale{0x1p127, 0});
  CHECK(update(0x1p100, 2, 0, with(high, "growth", 0x1p127)) == Scale{0x1p127, 0});
  // Nor have 2^-126 * 2^-126 and less: the floor does.
  const Attrs low = with(kScaleRule, "floor", 0x1p-126);
  CHECK(update(0x1p-125, 0, 6, with(low, "backoff", 0x1p-126)) == Scale{0x1p-126, 0});
  CHECK(update(0x1p-126, 0, 6, low) == Scale{0x1p-126, 0});
}

TEST_CASE("attributes of the scale rule and of optimizers out of their range are refused") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<InterpreterTensor> scale = {f32(1), i32(0), i32(0)};
  auto refuse_scale = [&](const char* name, const Attr& value, const std::string& text) {
    check_refused(OpKind::ScaleUpdate, scale, with(kScaleRule, name, value),
                  "scale_update: " + text);
  };
  const std::string power = " must be a power of two in [2^-126, 2^127], not ";
  refuse_scale("growth", 3.0, "growth" + power + "3");
  refuse_scale("growth", inf, "growth" + power + "inf");
  refuse_scale("growth", 0.5, "growth must be at least 1, not 0.5");
  refuse_scale("backoff", 0.0, "backoff" + power + "0");
  refuse_scale("backoff", 2.0, "backoff must be at most 1, not 2");
  refuse_scale("interval", 0, "interval must lie in [1, 2147483647], not 0");
  refuse_scale("interval", int64_t{1} << 31,
               "interval must lie in [1, 2147483647], not 2147483648");
  refuse_scale("floor", 0.0, "floor" + power + "0");
  refuse_scale("floor", 0.6, "floor" + power + "0.6");
  refuse_scale("floor", 0x1p-127, "floor" + power + "5.877471754111438e-39");
  refuse_scale("ceiling", inf, "ceiling" + power + "inf");
  refuse_scale("ceiling", nan, "ceiling" + power + "nan");
  refuse_scale("floor", 0x1p25, "floor 33554432 is above the ceiling 16777216");

  const std::vector<InterpreterTensor> sgd = {f32(1), f32(1), f32(1)};
  check_refused(OpKind::Sgd, sgd, {{"nesterov", true}},
                "sgd: nesterov needs a momentum above 0, not 0");
  check_refused(OpKind::Sgd, sgd, {{"momentum", -0.5}},
                "sgd: momentum must not be negative and be finite, not -0.5");
  check_refused(OpKind::Sgd, sgd, {{"weight_decay", nan}},
                "sgd: weight_decay must not be negative and be finite, not nan");
  check_refused(OpKind::Sgd, sgd, {{"momentum", 0.5}},
                "sgd: takes w, dw, lr, velocity and optionally ok, not 3 operands");

  const std::vector<InterpreterTensor> adam = {f32(1), f32(1), f32(0), f32(0), i32(1), f32(1)};
  for (const char* beta : {"beta1", "beta2"})
    for (double value : {-0.1, 1.0, nan})
      check_refused(OpKind::Adam, adam, {{beta, value}},
                    "adam: " + std::string(beta) + " must lie in [0, 1), not " +
                        (std::isnan(value) ? "nan"
                         : value == 1      ? "1"
                                           : "-0.1"));
  check_refused(OpKind::Adam, adam, {{"eps", -1e-8}},
                "adam: eps must not be negative and be finite, not -1e-08");
  check_refused(OpKind::Adam, adam, {{"weight_decay", inf}},
                "adam: weight_decay must not be negative and be finite, not inf");
}

TEST_CASE("the results of an optimizer stand for the operands of their names") {
  const OpInfo &sgd = op_info(OpKind::Sgd), &adam = op_info(OpKind::Adam);
  CHECK(sgd.updated_operand(0) == 0);
  CHECK(sgd.updated_operand(1) == 3);  // the velocity, behind w, dw and lr
  CHECK(adam.updated_operand(0) == 0);
  CHECK(adam.updated_operand(1) == 2);
  CHECK(adam.updated_operand(2) == 3);
  CHECK_THROWS_AS(op_info(OpKind::Add).updated_operand(0), InternalError);
}

TEST_CASE("sgd steps by rate, momentum, Nesterov and decay") {
  InterpreterTensor w = f32(2), dw = f32(0.5), rate = f32(0.25), velocity = f32(4);
  CHECK(eval_op(OpKind::Sgd, {w, dw, rate}).floats[0] == 2 - 0.25 * 0.5);
  CHECK(eval_op(OpKind::Sgd, {w, dw, rate}, {{"weight_decay", 0.5}}).floats[0] == 2 - 0.25 * 1.5);
  RunResult heavy = run_op(OpKind::Sgd, {w, dw, rate, velocity}, {{"momentum", 0.5}});
  CHECK(heavy.results[1].floats[0] == 2.5);
  CHECK(heavy.results[0].floats[0] == 2 - 0.25 * 2.5);
  RunResult nesterov =
      run_op(OpKind::Sgd, {w, dw, rate, velocity}, {{"momentum", 0.5}, {"nesterov", true}});
  CHECK(nesterov.results[0].floats[0] == 2 - 0.25 * (0.5 + 0.5 * 2.5));
}

TEST_CASE("adam follows its formula over many steps within 1e-5 of the rate") {
  double m = 0, v = 0, w = 0.75, rate = round_to(DType::F32, 1e-3);
  InterpreterTensor w32 = f32(w), m32 = f32(0), v32 = f32(0);
  for (int t = 1; t <= 1000; ++t) {
    double g = round_to(DType::F32, std::sin(t * 0.37) + 0.1);
    m = 0.9 * m + (1 - 0.9) * g;
    v = 0.999 * v + (1 - 0.999) * g * g;
    double step =
        rate * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    double before = w32.floats[0];
    RunResult result = run_op(OpKind::Adam, {w32, f32(g), m32, v32, i32(t), f32(rate)});
    // The update is compared, not the weight, whose last place is coarser than the update's.
    double exact_update = before - step;
    CHECK(std::abs(result.results[0].floats[0] - exact_update) <= 1e-5 * rate + 0x1p-24);
    w32 = result.results[0];
    m32 = result.results[1];
    v32 = result.results[2];
  }
}

TEST_CASE("adam's decay is decoupled and zero gradients with zero moments change nothing") {
  std::vector<InterpreterTensor> at_rest = {f32(2), f32(0), f32(0), f32(0), i32(1), f32(0.125)};
  CHECK(eval_op(OpKind::Adam, at_rest).floats[0] == 2);
  CHECK(eval_op(OpKind::Adam, at_rest, {{"weight_decay", 0.5}}).floats[0] == 2 - 0.125 * 0.5 * 2);
}

TEST_CASE("a step that is not taken keeps every bit, whatever the gradient") {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Type type(DType::F32, {64});
  InterpreterTensor w = random_array('a', type, 1, 0.3), m = random_array('a', type, 2, 0.3);
  InterpreterTensor v = random_array('a', type, 3, 0.3), dw = full_tensor(type, nan);
  RunResult adam = run_op(OpKind::Adam, {w, dw, m, v, i32(1), f32(0.1), flag(false)});
  CHECK(same_bits(adam.results[0], w));
  CHECK(same_bits(adam.results[1], m));
  CHECK(same_bits(adam.results[2], v));
  RunResult sgd = run_op(OpKind::Sgd, {w, dw, f32(0.1), m, flag(false)}, {{"momentum", 0.9}});
  CHECK(same_bits(sgd.results[0], w));
  CHECK(same_bits(sgd.results[1], m));
  RunResult taken = run_op(OpKind::Sgd, {w, full_tensor(type, 1), f32(0.5), flag(true)});
  CHECK_FALSE(same_bits(taken.results[0], w));
}

TEST_CASE("all_finite reads every element of every operand") {
  InterpreterTensor good = full_tensor(Type(DType::F32, {5}), 1), bad = good;
  bad.floats[4] = std::numeric_limits<double>::infinity();
  CHECK(eval_op(OpKind::AllFinite, {good, good}).integers[0] == 1);
  CHECK(eval_op(OpKind::AllFinite, {good, bad}).integers[0] == 0);
}
