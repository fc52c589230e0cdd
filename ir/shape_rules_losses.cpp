// SPDX-License-Identifier: Apache-2.0
// Shape rules of losses. Classes lie along the last axis of the logits; a loss of elements has the
// shape of its operands, and the DSL reduces it.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

namespace mezzo::ir {

namespace {

void check_reduce(const InferContext& context) {
  std::string reduce = context.text("reduce");
  if (reduce != "mean" && reduce != "sum" && reduce != "none")
    context.fail("reduce must be \"mean\", \"sum\" or \"none\", not \"" + reduce + "\"");
}

void check_smoothing(const InferContext& context) {
  double smoothing = context.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1))
    context.fail(fmt::format("label_smoothing must lie in [0, 1], not {:g}", smoothing));
}

/// Operand 0: floats with at least one class along the last axis.
void check_classes(const InferContext& context) {
  const Type& logits = context.operands[0];
  const std::string& name = op_info(context.kind).operands[0];
  expect_float(context, 0);
  if (logits.rank() < 1)
    context.fail(name + " must have 1 axis or more, not 0", "the classes are the last axis");
  if (logits.shape[logits.rank() - 1] == 0)
    context.fail("there must be at least one class, not 0",
                 "the classes are the last axis of " + name);
}

/// Operand 1: a class for each row of operand 0.
void check_labels(const InferContext& context) {
  const Type &logits = context.operands[0], &labels = context.operands[1];
  const std::string& name = op_info(context.kind).operands[0];
  check_classes(context);
  if (labels.dtype != DType::I32)
    context.fail(std::string("labels must be i32, not ") + to_string(labels.dtype),
                 "labels are class indices; cast them to i32");
  const Type wanted = labels.with(logits.shape.without(logits.rank() - 1));
  if (!(labels == wanted))
    context.fail("labels must be " + to_string(wanted) + ", " + name +
                     " without the class axis, not " + to_string(labels),
                 std::string("for one-hot targets take argmax over the class axis first") +
                     (context.kind == OpKind::Nll
                          ? ""
                          : "; probabilities are floats of the shape of the logits"));
}

/// One weight for each class, where the operand of that number is there.
void check_weight(const InferContext& context, size_t operand) {
  if (context.operands.size() <= operand) return;
  const Type& logits = context.operands[0];
  const Type wanted(logits.dtype, Shape{logits.shape[logits.rank() - 1]});
  if (!(context.operands[operand] == wanted))
    context.fail("weight must be " + to_string(wanted) + ", one number for each class, not " +
                 to_string(context.operands[operand]));
}

/// A scalar, or a loss for each row.
Type loss_type(const InferContext& context) {
  const Type& logits = context.operands[0];
  bool each = context.text("reduce") == "none";
  return logits.with(each ? logits.shape.without(logits.rank() - 1) : Shape());
}

void check_target(const InferContext& context) {
  check_classes(context);
  const Type &logits = context.operands[0], &target = context.operands[1];
  if (!(target == logits))
    context.fail("target must be " + to_string(logits) + " as the logits, not " + to_string(target),
                 "targets are probabilities, one for each class; class indices are cast to i32");
}

/// Operands 0 and 1 are of one float type.
void check_elements(const InferContext& context) {
  expect_float(context, 0);
  if (context.operands[1] == context.operands[0]) return;
  const std::vector<std::string>& names = op_info(context.kind).operands;
  context.fail(
      fmt::format("{} must be {} as {}, not {}", names[1], to_string(context.operands[0]), names[0],
                  to_string(context.operands[1])),
      "nothing is broadcast between an output and its target; reshape or cast one of them");
}

}  // namespace

std::vector<Type> infer_cross_entropy(const InferContext& context) {
  check_labels(context);
  check_reduce(context);
  check_smoothing(context);
  check_weight(context, 2);
  return {loss_type(context)};
}

std::vector<Type> infer_cross_entropy_grad(const InferContext& context) {
  check_labels(context);
  check_reduce(context);
  check_smoothing(context);
  expect_type(context, 2, loss_type(context));
  check_weight(context, 3);
  return {context.operands[0]};
}

std::vector<Type> infer_soft_cross_entropy(const InferContext& context) {
  check_target(context);
  check_reduce(context);
  check_smoothing(context);
  check_weight(context, 2);
  return {loss_type(context)};
}

std::vector<Type> infer_soft_cross_entropy_grad(const InferContext& context) {
  check_target(context);
  check_reduce(context);
  check_smoothing(context);
  expect_type(context, 2, loss_type(context));
  check_weight(context, 3);
  return {context.operands[0]};
}

std::vector<Type> infer_nll(const InferContext& context) {
  check_labels(context);
  check_reduce(context);
  check_weight(context, 2);
  return {loss_type(context)};
}

std::vector<Type> infer_bce(const InferContext& context) {
  check_elements(context);
  return {context.operands[0]};
}

std::vector<Type> infer_bce_with_logits(const InferContext& context) {
  check_elements(context);
  if (context.operands.size() > 2) {
    const Type &logits = context.operands[0], &weight = context.operands[2];
    std::optional<Shape> both = broadcast(logits.shape, weight.shape);
    if (weight.dtype != logits.dtype || !both || !(*both == logits.shape))
      context.fail(fmt::format("pos_weight must be {} and broadcast to {}, not {}",
                               to_string(logits.dtype), to_string(logits), to_string(weight)),
                   "one number for each class along the last axis, or one for all");
  }
  return {context.operands[0]};
}

std::vector<Type> infer_kl_div(const InferContext& context) {
  check_elements(context);
  return {context.operands[0]};
}

}  // namespace mezzo::ir
