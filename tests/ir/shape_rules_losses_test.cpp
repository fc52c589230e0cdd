// SPDX-License-Identifier: Apache-2.0
// What the shape rules of losses, random draws, attention and custom gradients say about operands
// that do not fit.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <doctest/doctest.h>

#include <cmath>

using namespace mezzo::ir;

namespace {

/// `MESSAGE | HINT`, without the operands' types in parentheses at its end.
std::string error(OpKind kind, const std::vector<Type>& operands, Attrs attrs = {},
                  const std::vector<Type>& declared = {}) {
  try {
    infer_types({kind, operands, attrs, declared, nullptr, {}});
  } catch (const mezzo::UserError& fault) {
    std::string text = fault.message();
    text.erase(text.rfind(" ("));
    return fault.hint().empty() ? text : text + " | " + fault.hint();
  }
  return "no error";
}

const Type kLogits(DType::F32, {4, 3}), kLabels(DType::I32, {4}), kScalar(DType::F32, {});
const Type kState(DType::I64, {2}), kOffset(DType::I64, {});

}  // namespace

TEST_CASE("losses over classes refuse operands that do not fit each other") {
  const std::string hint = " | for one-hot targets take argmax over the class axis first",
                    both = hint + "; probabilities are floats of the shape of the logits";
  CHECK(error(OpKind::CrossEntropy, {kLogits, Type(DType::I32, {3})}) ==
        "cross_entropy: labels must be tensor<4xi32>, logits without the class axis, not "
        "tensor<3xi32>" +
            both);
  CHECK(error(OpKind::Nll, {kLogits, Type(DType::I32, {4, 1})}) ==
        "nll: labels must be tensor<4xi32>, x without the class axis, not tensor<4x1xi32>" + hint);
  CHECK(error(OpKind::Nll, {kLogits, Type(DType::I64, {4})}) ==
        "nll: labels must be i32, not i64 | labels are class indices; cast them to i32");
  CHECK(error(OpKind::Nll, {Type(DType::F32, {}), Type(DType::I32, {})}) ==
        "nll: x must have 1 axis or more, not 0 | the classes are the last axis");
  CHECK(error(OpKind::CrossEntropy, {Type(DType::F32, {4, 0}), kLabels}) ==
        "cross_entropy: there must be at least one class, not 0 | the classes are the last axis of "
        "logits");
  CHECK(error(OpKind::CrossEntropy, {Type(DType::I32, {4, 3}), kLabels}) ==
        "cross_entropy: takes a float type, not i32 | cast it to f32 first");
  const std::string weight =
      "weight must be tensor<3xf32>, one number for each class, not tensor<4xf32>";
  for (OpKind kind : {OpKind::CrossEntropy, OpKind::Nll})
    CHECK(error(kind, {kLogits, kLabels, Type(DType::F32, {4})}) ==
          std::string(op_info(kind).name) + ": " + weight);
  CHECK(error(OpKind::SoftCrossEntropy, {kLogits, kLogits, Type(DType::F32, {4})}) ==
        "soft_cross_entropy: " + weight);
  CHECK(error(OpKind::CrossEntropyGrad, {kLogits, kLabels, kScalar, Type(DType::F32, {4})}) ==
        "cross_entropy_grad: " + weight);
  CHECK(error(OpKind::SoftCrossEntropyGrad, {kLogits, kLogits, kScalar, Type(DType::F32, {4})}) ==
        "soft_cross_entropy_grad: " + weight);
  CHECK(error(OpKind::SoftCrossEntropyGrad, {kLogits, kLogits, Type(DType::F32, {4})}) ==
        "soft_cross_entropy_grad: dloss must be tensor<f32>, not tensor<4xf32>");
  CHECK(error(OpKind::SoftCrossEntropy, {kLogits, Type(DType::F16, {4, 3})}) ==
        "soft_cross_entropy: target must be tensor<4x3xf32> as the logits, not tensor<4x3xf16> | "
        "targets are probabilities, one for each class; class indices are cast to i32");
  for (OpKind kind : {OpKind::CrossEntropy, OpKind::Nll}) {
    CHECK(error(kind, {kLogits, kLabels}, {{"reduce", "max"}}) ==
          std::string(op_info(kind).name) +
              ": reduce must be \"mean\", \"sum\" or \"none\", not \"max\"");
  }
  CHECK(error(OpKind::SoftCrossEntropy, {kLogits, kLogits}, {{"label_smoothing", 1.5}}) ==
        "soft_cross_entropy: label_smoothing must lie in [0, 1], not 1.5");
}

TEST_CASE("losses of elements broadcast nothing but weights") {
  for (OpKind kind : {OpKind::Bce, OpKind::BceWithLogits, OpKind::KlDiv}) {
    const OpInfo& info = op_info(kind);
    CHECK(error(kind, {kLogits, Type(DType::F32, {3})}) ==
          std::string(info.name) + ": target must be tensor<4x3xf32> as " + info.operands[0] +
              ", not tensor<3xf32> | nothing is broadcast between an output and its target; "
              "reshape or cast one of them");
    CHECK(error(kind, {kLabels, kLabels}) ==
          std::string(info.name) + ": takes a float type, not i32 | cast it to f32 first");
  }
  for (const Type& weight :
       {Type(DType::F32, {4}), Type(DType::F32, {2, 4, 3}), Type(DType::F16, {3})})
    CHECK(error(OpKind::BceWithLogits, {kLogits, kLogits, weight}) ==
          "bce_with_logits: pos_weight must be f32 and broadcast to tensor<4x3xf32>, not " +
              to_string(weight) +
              " | one number for each class along the last axis, or one for all");
}

TEST_CASE("random draws refuse what is no probability, no state and no axis") {
  const Attrs stream{{"stream", int64_t{0}}};
  auto with = [&](const char* name, auto value) {
    Attrs attrs = stream;
    attrs.set(name, Attr(value));
    return attrs;
  };
  CHECK(error(OpKind::Bernoulli, {kState}, with("p", 1.5), {Type(DType::Bool, {3})}) ==
        "bernoulli: p must lie in [0, 1], not 1.5 | it is a probability");
  CHECK(error(OpKind::Bernoulli, {kState}, with("p", 0.5), {Type(DType::F32, {3})}) ==
        "bernoulli: gives bool, not f32 | cast the result to a number");
  CHECK(error(OpKind::Bernoulli, {kOffset}, with("p", 0.5), {Type(DType::Bool, {3})}) ==
        "bernoulli: rng must be tensor<2xi64>, not tensor<i64>");
  CHECK(error(OpKind::Dropout, {kLogits, kState}, with("rate", -0.1)) ==
        "dropout: rate must lie in [0, 1], not -0.1 | it is a probability");
  CHECK(error(OpKind::Dropout, {kLabels, kState}, with("rate", 0.1)) ==
        "dropout: takes a float type, not i32 | cast it to f32 first");
  CHECK(error(OpKind::Dropout, {kLogits, kState, kState}, with("rate", 0.1)) ==
        "dropout: offset must be tensor<i64>, not tensor<2xi64>");
  CHECK(error(OpKind::Categorical, {kLogits, kState}, with("axis", int64_t{2})) ==
        "categorical: axis 2 is out of range for rank 2 | axes are 0 to 1");
  CHECK(error(OpKind::Categorical, {Type(DType::F32, {4, 0}), kState}, with("axis", int64_t{1})) ==
        "categorical: there must be at least one class, not 0 | the classes are axis 1 of logits");
  CHECK(error(OpKind::Categorical, {kLogits, kState, kOffset}, with("axis", int64_t{0})) ==
        "categorical: an offset counts samples along axis 0, which is the axis of classes | move "
        "the classes to the last axis");
  CHECK(error(OpKind::Categorical, {Type(DType::F32, {1, 2147483649}), kState},
              with("axis", int64_t{1})) ==
        "categorical: the axis has 2147483649 classes, whose indices do not fit i32 | there are "
        "2147483648 classes at most");
}

TEST_CASE("attention refuses heads, lengths and masks that do not fit") {
  const Type q(DType::F32, {2, 4, 5, 8}), k(DType::F32, {2, 2, 7, 8}), v(DType::F32, {2, 2, 7, 3});
  auto attention = [&](std::vector<Type> operands, bool masked = false, double rate = 0,
                       double scale = 1, const std::vector<Type>& declared = {}) {
    return error(OpKind::Attention, operands,
                 {{"scale", scale}, {"masked", masked}, {"rate", rate}}, declared);
  };
  const std::string layout = " | operands are [batch, heads, length, depth]";
  CHECK(attention({q, k, v}) == "no error");
  CHECK(attention({Type(DType::F32, {4, 5, 8}), k, v}) ==
        "attention: q must have 4 axes, not 3" + layout);
  CHECK(attention({q, k.with(DType::F16), v}) ==
        "attention: element types differ, f32 and f16 | only `cast` changes an element type");
  CHECK(attention({q, k, Type(DType::F32, {3, 2, 7, 3})}) ==
        "attention: batch sizes differ, 2 and 3" + layout);
  CHECK(attention({q, k, Type(DType::F32, {2, 2, 6, 3})}) ==
        "attention: keys and values differ, 2 heads of length 7 and 2 heads of length 6" + layout);
  CHECK(attention({q, Type(DType::F32, {2, 2, 7, 9}), v}) ==
        "attention: queries have depth 8, keys 9" + layout);
  CHECK(attention({q, Type(DType::F32, {2, 3, 7, 8}), Type(DType::F32, {2, 3, 7, 3})}) ==
        "attention: 3 heads of keys and values do not divide 4 heads of queries | query head i "
        "reads key head i / (query heads / key heads)");
  CHECK(attention({q, k, v, Type(DType::F16, {5, 7})}, true) ==
        "attention: mask must be bool or f32, not f16 | true in a boolean mask selects a key; a "
        "mask of numbers is added to the scores");
  CHECK(attention({q, k, v, Type(DType::Bool, {6, 7})}, true) ==
        "attention: mask does not broadcast to the scores [2x4x5x7] | scores are [batch, heads, "
        "queries, keys]");
  const std::string told =
      " | masked says that there is a mask, a rate above 0 that there is a random state";
  CHECK(attention({q, k, v}, true) == "attention: takes 3 operands, a mask" + told);
  CHECK(attention({q, k, v}, false, 0.5) ==
        "attention: takes 3 operands, the random state and optionally an offset" + told);
  CHECK(attention({q, k, v, kState}) == "attention: takes 3 operands" + told);
  CHECK(attention({q, k, v, kOffset}, false, 0.5) ==
        "attention: rng must be tensor<2xi64>, not tensor<i64>");
  CHECK(attention({q, k, v, kState, kState}, false, 0.5) ==
        "attention: offset must be tensor<i64>, not tensor<2xi64>");
  CHECK(attention({q, k, v}, false, 1.5) == "attention: rate must lie in [0, 1], not 1.5");
  CHECK(attention({q, k, v}, false, 0, HUGE_VAL) == "attention: scale must be finite, not inf");
  const std::vector<Type> narrow{Type(DType::F16, {}), Type(DType::F32, {})};
  CHECK(attention({q, k, v}, false, 0, 1, narrow) == "attention: gives f32 or f32, not f16");

  const Type y(DType::F32, {2, 4, 5, 3}), sums(DType::F32, {2, 4, 5});
  auto gradient = [&](std::vector<Type> operands, bool masked = false, bool by_mask = false) {
    return error(OpKind::AttentionGrad, operands,
                 {{"scale", 1.0}, {"masked", masked}, {"mask_grad", by_mask}});
  };
  CHECK(gradient({q, k, v, y, sums, y, sums}) == "no error");
  CHECK(gradient({q, k, v, q, sums, y, sums}) ==
        "attention_grad: y must be tensor<2x4x5x3xf32>, not tensor<2x4x5x8xf32>");
  CHECK(gradient({q, k, v, y, y, y, sums}) ==
        "attention_grad: lse must be tensor<2x4x5xf32>, not tensor<2x4x5x3xf32>");
  CHECK(gradient({q, k, v, y, sums, y, sums, Type(DType::Bool, {7})}, true, true) ==
        "attention_grad: mask_grad needs a mask of numbers, not one of bools | a mask of bools has "
        "no gradient");
}

TEST_CASE("a custom gradient needs a backward function of the right types") {
  Module module("m");
  Function* backward = module.add_function("back");
  const Type x(DType::F32, {3}), y(DType::F32, {2});
  for (const Type& type : {x, y, y}) backward->add_parameter(type, "");
  backward->set_results(std::vector<Value>{backward->parameter(0)}, std::vector<Attrs>(1));
  auto error_of = [&](const char* func, std::vector<Type> operands, int64_t inputs,
                      int64_t outputs) {
    Attrs attrs{{"func", Symbol{func}}, {"inputs", inputs}, {"outputs", outputs}};
    try {
      infer_types({OpKind::CustomGradient, operands, attrs, {}, &module, {}});
    } catch (const mezzo::UserError& fault) {
      std::string text = fault.message();
      return text.substr(0, text.rfind(" ("));
    }
    return std::string("no error");
  };
  CHECK(error_of("back", {x, y}, 1, 1) == "no error");
  CHECK(error_of("bakc", {x, y}, 1, 1) ==
        "custom_gradient: there is no function 'bakc'; did you mean 'back'?");
  CHECK(error_of("back", {x}, 1, 1) ==
        "custom_gradient: takes at least 2 operands (1 input and 1 output), not 1");
  CHECK(error_of("back", {x, y, y}, 1, 1) == "custom_gradient: @back must take 4 tensors, not 3");
  CHECK(error_of("back", {y, y}, 1, 1) ==
        "custom_gradient: tensor 0 that @back takes must be tensor<2xf32>, not tensor<3xf32>");
  CHECK(error_of("back", {x, y}, 0, 1) == "custom_gradient: inputs 0 lies outside [1, 2147483647]");
  Function* two = module.add_function("two");
  for (const Type& type : {x, y, y}) two->add_parameter(type, "");
  two->set_results(std::vector<Value>{two->parameter(0), two->parameter(0)}, std::vector<Attrs>(2));
  CHECK(error_of("two", {x, y}, 1, 1) == "custom_gradient: @two must give 1 tensor, not 2");
}
