// SPDX-License-Identifier: Apache-2.0
// Shape rules of movement, reductions, products and the ops of the training step.
#include <mezzo/ir/error.h>
#include <mezzo/ir/loss_scale.h>
#include <mezzo/ir/shape_rules.h>
#include <mezzo/ir/sizes.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mezzo::ir {

void expect_float(const InferContext& context, int operand) {
  DType dtype = context.operands[static_cast<size_t>(operand)].dtype;
  if (!is_float(dtype))
    context.fail(std::string("takes a float type, not ") + to_string(dtype),
                 "cast it to f32 first");
}

void expect_number(const InferContext& context) {
  if (context.operands[0].dtype == DType::Bool)
    context.fail("takes a float or integer type, not bool", "cast it to i32 first");
}

void expect_type(const InferContext& context, size_t operand, const Type& wanted,
                 const std::string& hint) {
  if (!(context.operands[operand] == wanted))
    context.fail(op_info(context.kind)
                         .operands[std::min(operand, op_info(context.kind).operands.size() - 1)] +
                     " must be " + to_string(wanted) + ", not " +
                     to_string(context.operands[operand]),
                 hint);
}

void expect_same_dtype(const InferContext& context, size_t operand, size_t first) {
  const DType wanted = context.operands[first].dtype, given = context.operands[operand].dtype;
  if (given != wanted)
    context.fail(
        std::string("element types differ, ") + to_string(wanted) + " and " + to_string(given),
        "only `cast` changes an element type");
}

const Type& declared(const InferContext& context) {
  if (context.declared.size() != 1)
    context.fail("needs its result type, not " + counted(context.declared.size(), "type"),
                 "the type stands behind the op: `cast %x : tensor<4xf32> -> tensor<4xf16>`");
  return context.declared[0];
}

namespace {

std::string list_text(std::span<const int64_t> values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + "]";
}

void check_length(const InferContext& context, const char* name, size_t size, int rank) {
  if (size != static_cast<size_t>(rank))
    context.fail(std::string(name) + " has " + counted(size, "entry", "entries") + " for rank " +
                     std::to_string(rank),
                 "give one number for each axis");
}

}  // namespace

void check_axes(const InferContext& context, const std::vector<int64_t>& axes, int rank) {
  for (size_t i = 0; i < axes.size(); ++i) {
    check_axis(context, axes[i], rank);
    if (i && axes[i] <= axes[i - 1])
      context.fail("axes must ascend without repetition, not " + list_text(axes));
  }
}

std::vector<Type> infer_declared(const InferContext& context) {
  if (context.kind == OpKind::Kernel) return {context.declared.begin(), context.declared.end()};
  const Type& type = declared(context);
  if (context.kind == OpKind::Constant) {
    const Attr* value = context.attrs.find("value");
    if (value->is<AttrList>() &&
        static_cast<int64_t>(value->as<AttrList>().size()) != type.elements())
      context.fail("value has " + counted(value->as<AttrList>().size(), "element") + " for " +
                       to_string(type),
                   "give one number for each element, or one for all without a list");
  }
  if (context.kind == OpKind::Iota) {
    if (type.dtype == DType::Bool)
      context.fail("gives a float or integer type, not bool", "compare it with a number");
    check_axis(context, context.attrs.get_int("axis"), type.rank());
  }
  return {type};
}

std::vector<Type> infer_none(const InferContext&) { return {}; }

std::vector<Type> infer_same(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) {
    expect_float(context, static_cast<int>(i));
    if (!(context.operands[i] == context.operands[0]))
      context.fail("types differ, " + to_string(context.operands[0]) + " and " +
                       to_string(context.operands[i]),
                   "the gradient of y has the type of y");
  }
  check_axis(context, context.attrs.get_int("axis"), context.operands[0].rank());
  return {context.operands[0]};
}

std::vector<Type> infer_broadcast_to(const InferContext& context) {
  std::vector<int64_t> dims = context.ints("shape");
  Shape shape{std::span<const int64_t>(dims)};
  std::optional<Shape> both = broadcast(context.operands[0].shape, shape);
  if (!both || !(*both == shape))
    context.fail("cannot broadcast to shape " + list_text(dims), kBroadcastHint);
  return {context.operands[0].with(shape)};
}

std::vector<Type> infer_reshape(const InferContext& context) {
  std::vector<int64_t> dims = context.ints("shape");
  Shape shape{std::span<const int64_t>(dims)};
  if (shape.elements() != context.operands[0].elements())
    context.fail("cannot reshape " + counted(context.operands[0].elements(), "element") +
                     " to shape " + list_text(dims) + " of " + std::to_string(shape.elements()),
                 "the lengths must multiply to the number of elements");
  return {context.operands[0].with(shape)};
}

std::vector<Type> infer_transpose(const InferContext& context) {
  const Type& type = context.operands[0];
  std::vector<int64_t> perm = context.ints("perm");
  check_length(context, "perm", perm.size(), type.rank());
  std::vector<int64_t> sorted = perm, dims;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      context.fail("perm " + list_text(perm) + " is not a permutation",
                   "each axis stands in it once");
  for (int64_t axis : perm) dims.push_back(type.shape[static_cast<int>(axis)]);
  return {type.with(Shape(std::span<const int64_t>(dims)))};
}

std::vector<Type> infer_slice(const InferContext& context) {
  const Type& type = context.operands[0];
  std::vector<int64_t> starts = context.ints("starts"), ends = context.ints("ends"),
                       steps = context.ints("steps");
  check_length(context, "starts", starts.size(), type.rank());
  check_length(context, "ends", ends.size(), type.rank());
  check_length(context, "steps", steps.size(), type.rank());
  std::vector<int64_t> dims;
  for (int i = 0; i < type.rank(); ++i) {
    size_t axis = static_cast<size_t>(i);
    if (starts[axis] < 0 || starts[axis] > ends[axis] || ends[axis] > type.shape[i] ||
        steps[axis] < 1)
      context.fail("slice " + std::to_string(starts[axis]) + ":" + std::to_string(ends[axis]) +
                       ":" + std::to_string(steps[axis]) + " does not fit axis " +
                       std::to_string(i) + " of length " + std::to_string(type.shape[i]),
                   "0 <= start <= end <= length, and the step is 1 or more");
    if (steps[axis] > greatest_step(type.shape[i]))
      context.fail(fmt::format("step {} along axis {} of length {} is too large", steps[axis], i,
                               type.shape[i]),
                   "a step as long as the axis takes one element just as well");
    int64_t span = ends[axis] - starts[axis];
    dims.push_back(span / steps[axis] + (span % steps[axis] != 0));
  }
  return {type.with(Shape(std::span<const int64_t>(dims)))};
}

std::vector<Type> infer_pad(const InferContext& context) {
  const Type& type = context.operands[0];
  if (context.operands.size() > 1) expect_type(context, 1, type.with(Shape()));
  std::vector<int64_t> low = context.ints("low"), high = context.ints("high"),
                       interior = context.ints("interior");
  check_length(context, "low", low.size(), type.rank());
  check_length(context, "high", high.size(), type.rank());
  check_length(context, "interior", interior.size(), type.rank());
  std::vector<int64_t> dims;
  for (int i = 0; i < type.rank(); ++i) {
    size_t axis = static_cast<size_t>(i);
    constexpr int64_t kMost = int64_t{1} << 30;  // so that no length can overflow
    const int64_t gaps = std::max<int64_t>(0, type.shape[i] - 1);
    const bool negative = low[axis] < 0 || high[axis] < 0 || interior[axis] < 0;
    if (negative || low[axis] > kMost || high[axis] > kMost ||
        (gaps > 0 ? interior[axis] > (kMost << 20) / gaps : interior[axis] >= kMost))
      context.fail(fmt::format("padding of axis {} of length {} by {}, {} and {} between its "
                               "elements is {}",
                               i, type.shape[i], low[axis], high[axis], interior[axis],
                               negative ? "negative" : "too large"),
                   negative ? "slice takes elements away"
                            : "an axis is padded by 2^30 elements at each end, by less than 2^30 "
                              "between two of its elements and by 2^50 between all at most");
    dims.push_back(low[axis] + type.shape[i] + gaps * interior[axis] + high[axis]);
  }
  return {type.with(Shape(std::span<const int64_t>(dims)))};
}

std::vector<Type> infer_reduce(const InferContext& context) {
  const Type& type = context.operands[0];
  std::vector<int64_t> axes = context.ints("axes");
  check_axes(context, axes, type.rank());
  if (context.kind == OpKind::Mean) expect_float(context, 0);
  bool extremum = context.kind == OpKind::Max || context.kind == OpKind::Min;
  if (extremum) expect_number(context);
  Shape shape = reduced_shape(type.shape, axes, context.attrs.get_bool("keepdims"));
  if (extremum && type.elements() == 0 && shape.elements() > 0)
    context.fail(std::string(op_info(context.kind).name) + " of no elements has no value",
                 "give the reduced axes a length of at least 1");
  DType dtype = type.dtype == DType::Bool ? DType::I64 : type.dtype;
  return {Type(dtype, shape)};
}

std::vector<Type> infer_argmax(const InferContext& context) {
  const Type& type = context.operands[0];
  expect_number(context);
  int64_t axis = context.attrs.get_int("axis");
  check_axis(context, axis, type.rank());
  Shape shape = reduced_shape(type.shape, std::span<const int64_t>(&axis, 1),
                              context.attrs.get_bool("keepdims"));
  if (type.elements() == 0 && shape.elements() > 0)
    context.fail(std::string(op_info(context.kind).name) + " of no elements has no value",
                 "give the axis a length of at least 1");
  if (type.shape[static_cast<int>(axis)] > int64_t{1} << 31)
    context.fail("the axis has " + std::to_string(type.shape[static_cast<int>(axis)]) +
                     " elements, whose indices do not fit i32",
                 "cut the axis into parts of 2147483648 elements at most");
  return {Type(DType::I32, shape)};
}

std::vector<Type> infer_matmul(const InferContext& context) {
  const Type &a = context.operands[0], &b = context.operands[1];
  expect_float(context, 0);
  expect_float(context, 1);
  expect_same_dtype(context, 1);
  if (a.rank() < 2 || b.rank() < 2)
    context.fail(fmt::format("takes operands of rank 2 or more, not {} and {}", a.rank(), b.rank()),
                 "reshape makes a matrix of a vector");
  bool ta = context.attrs.get_bool("transpose_a"), tb = context.attrs.get_bool("transpose_b");
  int64_t m = a.shape[a.rank() - (ta ? 1 : 2)], ka = a.shape[a.rank() - (ta ? 2 : 1)];
  int64_t kb = b.shape[b.rank() - (tb ? 1 : 2)], n = b.shape[b.rank() - (tb ? 2 : 1)];
  if (ka != kb)
    context.fail("inner sizes differ, " + std::to_string(ka) + " and " + std::to_string(kb),
                 "a row of a times a column of b; transpose_a and transpose_b exchange the two");
  Shape batch_a(a.shape.dims().first(static_cast<size_t>(a.rank() - 2)));
  Shape batch_b(b.shape.dims().first(static_cast<size_t>(b.rank() - 2)));
  std::optional<Shape> batch = broadcast(batch_a, batch_b);
  if (!batch)
    context.fail("batch axes do not broadcast, [" + to_string(batch_a) + "] and [" +
                     to_string(batch_b) + "]",
                 kBroadcastHint);
  DType wide = a.dtype == DType::F64 ? DType::F64 : DType::F32;
  DType dtype = context.declared.empty() ? a.dtype : context.declared[0].dtype;
  if (dtype != a.dtype && dtype != wide)
    context.fail(std::string("gives ") + to_string(a.dtype) + " or " + to_string(wide) + ", not " +
                     to_string(dtype),
                 "cast the result");
  Shape shape = batch->inserted(batch->rank(), m);
  return {Type(dtype, shape.inserted(shape.rank(), n))};
}

std::vector<Type> infer_gradient(const InferContext& context) {
  Function& function = named_function(context);
  const std::string& name = function.name();
  bool seed = context.attrs.get_bool("seed");
  size_t count = context.operands.size() - (seed && !context.operands.empty() ? 1 : 0);
  if (count != static_cast<size_t>(function.num_parameters()))
    context.fail("@" + name + " takes " + counted(function.num_parameters(), "operand") + ", not " +
                 std::to_string(count));
  for (size_t i = 0; i < count; ++i)
    if (!(context.operands[i] == function.parameter(static_cast<int>(i)).type()))
      context.fail("operand " + std::to_string(i) + " of @" + name + " must be " +
                   to_string(function.parameter(static_cast<int>(i)).type()) + ", not " +
                   to_string(context.operands[i]));
  std::vector<Type> types;
  for (Value value : function.results()) types.push_back(value.type());
  if (types.empty() || types[0].rank() != 0 || !is_float(types[0].dtype))
    context.fail("the first result of @" + name + " must be a float scalar, the loss, not " +
                     (types.empty() ? "nothing" : to_string(types[0])),
                 "sum or mean makes a scalar of a tensor");
  for (int64_t index : context.ints("wrt")) {
    if (index < 0 || index >= static_cast<int64_t>(count))
      context.fail("wrt " + std::to_string(index) + " is out of range for " +
                   counted(count, "operand"));
    Type type = context.operands[static_cast<size_t>(index)];
    if (!is_float(type.dtype))
      context.fail("wrt " + std::to_string(index) + " is of type " + to_string(type.dtype) +
                       ", not of a float type",
                   "there are gradients by floats alone");
    types.push_back(is_16bit(type.dtype) ? type.with(DType::F32) : type);
  }
  return types;
}

std::vector<Type> infer_all_finite(const InferContext& context) {
  for (size_t i = 0; i < context.operands.size(); ++i) expect_float(context, static_cast<int>(i));
  return {Type(DType::Bool, {})};
}

std::vector<Type> infer_verdict(const InferContext& context) {
  expect_type(context, 0, Type(DType::Bool, {}));
  return {Type(DType::I32, {})};
}

std::vector<Type> infer_scale_update(const InferContext& context) {
  expect_type(context, 0, Type(DType::F32, {}));
  expect_type(context, 1, Type(DType::I32, {}));
  expect_type(context, 2, Type(DType::I32, {}));
  const ScaleRule rule{.growth = context.number("growth"),
                       .backoff = context.number("backoff"),
                       .floor = context.number("floor"),
                       .ceiling = context.number("ceiling"),
                       .interval = static_cast<double>(context.attrs.get_int("interval"))};
  if (std::optional<ScaleFault> fault = scale_rule_fault(rule)) context.fail(fault->text);
  return {context.operands[0], context.operands[1]};
}

namespace {

void expect_not_negative(const InferContext& context, const char* name) {
  if (double value = context.number(name); !(value >= 0 && std::isfinite(value)))
    context.fail(fmt::format("{} must not be negative and be finite, not {:g}", name, value));
}

/// w, and dw of the same shape (f32, or f64 for f64); the decay.
void check_update(const InferContext& context) {
  const Type& w = context.operands[0];
  expect_float(context, 0);
  expect_type(context, 1, w.dtype == DType::F64 ? w : w.with(DType::F32));
  expect_not_negative(context, "weight_decay");
}

}  // namespace

std::vector<Type> infer_sgd(const InferContext& context) {
  check_update(context);
  const Type& w = context.operands[0];
  expect_not_negative(context, "momentum");
  bool momentum = context.number("momentum") != 0;
  if (context.attrs.get_bool("nesterov") && !momentum)
    context.fail("nesterov needs a momentum above 0, not 0", "0.9 is usual");
  size_t fixed = momentum ? 4 : 3;
  if (context.operands.size() < fixed || context.operands.size() > fixed + 1)
    context.fail("takes w, dw, lr" + std::string(momentum ? ", velocity" : "") +
                     " and optionally ok, not " + counted(context.operands.size(), "operand"),
                 "velocity is there where momentum is not 0");
  expect_type(context, 2, Type(DType::F32, {}));
  if (momentum) expect_type(context, 3, context.operands[1]);
  if (context.operands.size() == fixed + 1) expect_type(context, fixed, Type(DType::Bool, {}));
  return momentum ? std::vector<Type>{w, context.operands[3]} : std::vector<Type>{w};
}

std::vector<Type> infer_adam(const InferContext& context) {
  check_update(context);
  expect_type(context, 2, context.operands[1]);
  expect_type(context, 3, context.operands[1]);
  for (const char* name : {"beta1", "beta2"})
    if (double beta = context.number(name); !(beta >= 0 && beta < 1))
      context.fail(fmt::format("{} must lie in [0, 1), not {:g}", name, beta));
  expect_not_negative(context, "eps");
  expect_type(context, 4, Type(DType::I32, {}));
  expect_type(context, 5, Type(DType::F32, {}));
  if (context.operands.size() == 7) expect_type(context, 6, Type(DType::Bool, {}));
  return {context.operands[0], context.operands[2], context.operands[3]};
}

}  // namespace mezzo::ir
