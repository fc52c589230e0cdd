// SPDX-License-Identifier: Apache-2.0
// decompose: replaces every composite op by primitive ones, and a sum of more terms than a kernel
// reads by shorter sums. A 16-bit composite computes in f32 and rounds once at its end; f64 stays
// f64. Gives stage primitive.
//
// before:
//   func @f(%x: tensor<2x4xf16>) -> tensor<2xf16> {
//     %0 = mean %x {axes = [1]} : tensor<2x4xf16> -> tensor<2xf16>
//     return %0 : tensor<2xf16>
//   }
// after:
//   func @f(%x: tensor<2x4xf16>) -> tensor<2xf16> {
//     %0 = cast %x {reason = "decomposed in f32"} : tensor<2x4xf16> -> tensor<2x4xf32>
//     %1 = sum %0 {axes = [1]} : tensor<2x4xf32> -> tensor<2xf32>
//     %2 = constant {value = 4.0} : tensor<f32>
//     %3 = div %1, %2 : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
//     %4 = cast %3 {reason = "decomposed in f32, rounded once"} : tensor<2xf32> -> tensor<2xf16>
//     return %4 : tensor<2xf16>
//   }
#include <mezzo/passes/decompose.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/rewrite.h>
#include <mezzo/passes/taps.h>
#include <mezzo/passes/told_of.h>

namespace mezzo::passes {

int64_t Composite::int_attr(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<int64_t>();
}
double Composite::float_attr(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<double>();
}
bool Composite::bool_attr(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<bool>();
}
std::string Composite::string_attr(std::string_view name) const {
  return attr_or_default(kind, attrs, name).as<std::string>();
}

std::vector<ir::Value> decompose_composite(const Composite& composite, ir::Builder& builder) {
  switch (composite.kind) {
#define COMPOSITE(Kind, name, ...) \
  case ir::OpKind::Kind:           \
    return decompose_##name(composite, builder);
#include <mezzo/ir/ops.def>
    default:
      throw InternalError(std::string("'") + ir::to_string(composite.kind) +
                          "' is not a composite op");
  }
}

std::vector<ir::Value> decompose_op(const ir::Op& op, ir::Builder& builder) {
  std::vector<ir::Value> operands = op.operands();
  std::vector<ir::Type> types;
  for (ir::Value result : op.results()) types.push_back(result.type());
  return decompose_composite({op.kind(), operands, op.attrs(), types}, builder);
}

namespace {

/// Compilers take more than linear time for more and more loads in one loop.
bool is_long_sum(const ir::Op& op) {
  return op.kind() == OpKind::AddN && op.num_operands() > static_cast<int>(ir::kTermsOfSum);
}

/// The sums that the op stands for, and one rounding.
std::vector<ir::Value> in_short_sums(const ir::Op& op, ir::Builder& builder) {
  Parts parts{builder};
  std::vector<ir::Value> terms;
  for (ir::Value operand : op.operands()) terms.push_back(parts.widen(operand));
  return {parts.narrow(sum_terms(parts, terms, ir::kTermsOfSum), op.result().dtype())};
}

}  // namespace

bool decompose(ir::Module& module, PassContext&) {
  bool changed = module.stage() != ir::Stage::Primitive;
  module.set_stage(ir::Stage::Primitive);
  for (const auto& function : module.functions()) {
    References references(*function);
    for (ir::Op& op : function->body()) {
      const bool long_sum = is_long_sum(op);
      if (op.info().op_class != ir::OpClass::Composite && !long_sum) continue;
      ir::Builder builder(&op);
      builder.derive_from(&op);
      std::vector<ir::Value> parts = told_of(
          op, [&] { return long_sum ? in_short_sums(op, builder) : decompose_op(op, builder); });
      for (int i = 0; i < op.num_results(); ++i) {
        ir::Value old = op.result(i), now = parts[static_cast<size_t>(i)];
        MEZZO_CHECK(old.type() == now.type(),
                    std::string("the decomposition of '") + op.info().name + "' gives " +
                        to_string(now.type()) + ", not " + to_string(old.type()));
        if (now.op() && now.name().empty()) now.set_name(old.name());
        references.replace(old, now);
        old.replace_all_uses_with(now);
      }
      references.drop(op);
      op.erase();
      changed = true;
    }
  }
  return changed;
}

}  // namespace mezzo::passes
