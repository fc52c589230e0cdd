// SPDX-License-Identifier: Apache-2.0
// constant-fold: evaluates exactly rounded ops and movement whose operands are constants, by the
// interpreter, where the result is one value everywhere or has at most 16 elements. Functions
// without an exact definition (exp, sums ...) stay, and so does an op that makes a non-finite value
// from finite ones or divides an integer by 0: the verdict of a step has to find it.
//
// before:
//   func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = constant {value = 3.0} : tensor<f32>
//     %1 = constant {value = 0.5} : tensor<f32>
//     %2 = mul %0, %1 : tensor<f32>
//     %3 = mul %x, %2 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
//     return %3 : tensor<4xf32>
//   }
// after:
//   func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
//     %0 = constant {value = 1.5} : tensor<f32>
//     %1 = mul %x, %0 : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
//     return %1 : tensor<4xf32>
//   }
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/rewrite.h>

#include <algorithm>
#include <cmath>

namespace mezzo::passes {

namespace {

using ir::Attr;
using ir::InterpreterTensor;
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

constexpr int64_t kMaxElements = 16;

/// A constant whose data stand in the text.
bool is_inline_constant(Value value) {
  return value.is(OpKind::Constant) && !value.op()->attrs().find("value")->is<ir::Resource>();
}

bool may_fold(const Op& op) {
  // An index out of range is found by the run.
  return op.info().has(ir::Trait::Exact) && !op.info().has(ir::Trait::Checks) &&
         op.num_results() == 1 && op.num_operands() > 0 &&
         std::ranges::all_of(op.operands(), is_inline_constant);
}

/// The op evaluated on operands of these types, whose constants are those of `op`; nothing where it
/// sets the range flag.
std::optional<InterpreterTensor> evaluate(const Op& op, const std::vector<Type>& operands,
                                          const Type& result) {
  ir::Module scratch;
  ir::Function* function = scratch.add_function("fold");
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    Attr data = *op.operand(static_cast<int>(i)).op()->attrs().find("value");
    Op* constant = scratch.make_op(OpKind::Constant, {}, std::span(&operands[i], 1),
                                   {{"value", data}}, op.location());
    ir::Module::append(function->body(), constant);
    values.push_back(constant->result());
  }
  ir::Attrs attrs;
  for (const ir::AttrInfo& info : op.info().attributes)
    if (const Attr* attr = op.attrs().find(info.name)) attrs.set(info.name, *attr);
  Op* copy = scratch.make_op(op.kind(), values, std::span(&result, 1), attrs, op.location());
  ir::Module::append(function->body(), copy);
  Value folded = copy->result();
  function->set_results(std::span(&folded, 1), {ir::Attrs()});
  ir::RunResult run = ir::run(scratch, *function, {});
  if (run.index_range) return std::nullopt;
  return std::move(run.results[0]);
}

Attr element(const InterpreterTensor& tensor, int64_t index) {
  if (tensor.holds_floats())
    return ir::scalar_attr(tensor.type.dtype, tensor.floats[static_cast<size_t>(index)]);
  int64_t value = tensor.integers[static_cast<size_t>(index)];
  return tensor.type.dtype == ir::DType::Bool ? Attr(value != 0) : Attr(value);
}

/// One value when all elements are equal, else the list.
Attr data_of(const InterpreterTensor& tensor) {
  ir::AttrList list;
  for (int64_t i = 0; i < tensor.elements(); ++i) list.push_back(element(tensor, i));
  bool splat = std::ranges::all_of(list, [&](const Attr& item) { return item == list[0]; });
  return splat && !list.empty() ? list[0] : Attr(std::move(list));
}

/// Elementwise ops and views of splats are computed on one element, however large the result.
std::optional<Attr> fold(const Op& op) {
  const Type& type = op.result().type();
  std::vector<Value> operands = op.operands();
  bool splats =
      std::ranges::all_of(operands, [](Value value) { return ir::splat_value(value).has_value(); });
  if (splats && ir::is_view(op.kind())) return *operands[0].op()->attrs().find("value");
  std::vector<Type> types;
  bool on_scalars = splats && ir::is_elementwise(op.kind());
  for (Value value : operands)
    types.push_back(on_scalars ? value.type().with(Shape()) : value.type());
  if (!on_scalars && type.elements() > kMaxElements) return std::nullopt;
  for (const Type& operand : types)
    if (operand.elements() > kMaxElements) return std::nullopt;
  std::optional<InterpreterTensor> result =
      evaluate(op, types, on_scalars ? type.with(Shape()) : type);
  if (!result) return std::nullopt;
  if (!result->all_finite()) {
    auto finite = [](const Attr& attr) { return !attr.is<ir::Bits>(); };
    for (Value value : operands) {
      const Attr& data = *value.op()->attrs().find("value");
      bool all = data.is<ir::AttrList>() ? std::ranges::all_of(data.as<ir::AttrList>(), finite)
                                         : finite(data);
      if (!all) return data_of(*result);
    }
    return std::nullopt;
  }
  return data_of(*result);
}

bool fold_constants(Op& op, Rewriter& rewriter) {
  if (!may_fold(op)) return false;
  std::optional<Attr> data = fold(op);
  if (!data) return false;
  ir::Builder builder = rewriter.builder(op);
  rewriter.replace(op,
                   builder.make(OpKind::Constant, {}, {{"value", *data}}, {op.result().type()}));
  return true;
}

constexpr RewriteRule kRules[] = {fold_constants};

}  // namespace

bool constant_fold(ir::Module& module, PassContext&) {
  bool changed = false;
  bool differentiated = module.stage() >= ir::Stage::Differentiated;
  for (const auto& function : module.functions())
    changed |= rewrite(function->body(), kRules, differentiated);
  return changed;
}

}  // namespace mezzo::passes
