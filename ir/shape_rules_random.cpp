// SPDX-License-Identifier: Apache-2.0
// Shape rules of random numbers and what is drawn from them.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

namespace mezzo::ir {

namespace {

/// The random state at `operand` and, where it is there, the sample offset behind it.
void check_state(const InferContext& context, size_t operand) {
  expect_type(context, operand, Type(DType::I64, {2}));
  if (context.operands.size() > operand + 1)
    expect_type(context, operand + 1, Type(DType::I64, {}));
}

void check_probability(const InferContext& context, const char* name) {
  if (double value = context.number(name); !(value >= 0 && value <= 1))
    context.fail(fmt::format("{} must lie in [0, 1], not {:g}", name, value),
                 "it is a probability");
}

}  // namespace

std::vector<Type> infer_random(const InferContext& context) {
  check_state(context, 0);
  const Type& type = declared(context);
  if (!is_float(type.dtype))
    context.fail(std::string("gives a float type, not ") + to_string(type.dtype),
                 "cast the result");
  return {type};
}

std::vector<Type> infer_bernoulli(const InferContext& context) {
  check_state(context, 0);
  check_probability(context, "p");
  const Type& type = declared(context);
  if (type.dtype != DType::Bool)
    context.fail(std::string("gives bool, not ") + to_string(type.dtype),
                 "cast the result to a number");
  return {type};
}

std::vector<Type> infer_dropout(const InferContext& context) {
  expect_float(context, 0);
  check_state(context, 1);
  check_probability(context, "rate");
  return {context.operands[0]};
}

std::vector<Type> infer_categorical(const InferContext& context) {
  const Type& logits = context.operands[0];
  expect_float(context, 0);
  check_state(context, 1);
  const int axis = check_axis(context, context.attrs.get_int("axis"), logits.rank());
  const int64_t classes = logits.shape[axis];
  if (classes == 0)
    context.fail("there must be at least one class, not 0",
                 fmt::format("the classes are axis {} of logits", axis));
  if (classes > int64_t{1} << 31)
    context.fail(fmt::format("the axis has {} classes, whose indices do not fit i32", classes),
                 "there are 2147483648 classes at most");
  if (axis == 0 && context.operands.size() > 2)
    context.fail("an offset counts samples along axis 0, which is the axis of classes",
                 "move the classes to the last axis");
  return {Type(DType::I32, logits.shape.without(axis))};
}

std::vector<Type> infer_rng_advance(const InferContext& context) {
  expect_type(context, 0, Type(DType::I64, {2}));
  return {context.operands[0]};
}

}  // namespace mezzo::ir
