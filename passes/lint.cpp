// SPDX-License-Identifier: Apache-2.0
// Reports what the graph already proves to go wrong. Changes nothing; findings go to the context.
//
//   func @step(%w: tensor<2xf32> {param = true}, ...) -> (..., tensor<2xf32> {updates = %w}) {
//     ...
//     return %l, %w : ...
//   }
//   finding: parameter 'w' has no path to the loss [no-path-to-loss]
//
// A lint is a small function that looks at one function; it must stay silent on healthy models.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/policy.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::passes {

using namespace ir;

namespace {

/// A literal of a loss stands in the function of its gradient as well: told once.
void report_literal(PassContext& context, Location location, std::string text) {
  for (const Finding& finding : context.findings)
    if (location.known() && finding.location == location && finding.text == text) return;
  context.findings.push_back({"literal-leaves-type", location, std::move(text),
                              "keep it in f32 with keep_f32, or use a policy where this value is "
                              "f32"});
}

/// A trained parameter that its own update returns unchanged: its gradient was zero by
/// construction.
void no_path_to_loss(const Function& function, PassContext& context) {
  std::vector<Value> results = function.results();
  for (int i = 0; i < function.num_results(); ++i) {
    Value parameter = function.updated_parameter(i);
    if (!parameter || !function.is_param(parameter.index()) ||
        !(results[static_cast<size_t>(i)] == parameter))
      continue;
    const std::string name(parameter.name());
    // autodiff has told it, with the line, where it ran in the same pipeline.
    if (std::ranges::any_of(context.findings, [&](const Finding& finding) {
          return finding.name == "no-gradient" && finding.subject == name;
        }))
      continue;
    context.findings.push_back(
        {"no-path-to-loss",
         {},
         "parameter '" + name +
             "' has no path to the loss: its gradient is zero and it is never updated",
         "use it in the loss, or leave it out of the parameters that are trained"});
  }
}

/// Somebody computes with this infinity: it is no limit, no mask, neither moved nor compared.
bool is_computed_with(Value value, double infinity) {
  for (const Use* use = value.def()->uses; use; use = use->next) {
    const Op& user = *use->user;
    switch (user.kind()) {
      case OpKind::Where:
      case OpKind::Maximum:
      case OpKind::Minimum:
      case OpKind::Clamp:
      case OpKind::Pad:
      case OpKind::Cast:
        continue;
      case OpKind::Add:
        if (infinity < 0) continue;  // a mask of scores
        return true;
      case OpKind::Sub:
        if (infinity > 0 && use->index == 1) continue;
        return true;
      default:
        // What only moves or orders elements, and what compares them, makes nothing new.
        if (is_view(user.kind()) ? is_computed_with(user.result(), infinity)
                                 : user.info().has(Trait::Flagged))
          return true;
    }
  }
  return false;
}

/// A constant of a text that is infinite in its 16-bit type: the language keeps finite literals
/// wide.
void literal_leaves_type(const Function& function, PassContext& context) {
  for (const Op& op : function.body()) {
    if (op.kind() != OpKind::Constant || !is_16bit(op.result().dtype())) continue;
    const std::optional<double> value = splat_value(op.result());
    if (!value || !std::isinf(*value) || !is_computed_with(op.result(), *value)) continue;
    report_literal(
        context, op.origin().location,
        fmt::format("constant is infinite in {}, whose largest finite value is {:g}",
                    ir::to_string(op.result().dtype()), largest_finite(op.result().dtype())));
  }
}

/// As the program wrote it, as far as its type tells.
std::string number_text(double number, DType dtype) {
  return dtype == DType::F64 ? fmt::format("{}", number)
                             : fmt::format("{}", static_cast<float>(number));
}

/// The constant whose numbers these are, all of them, or null.
const Op* constant_under(Value value) {
  while (!value.is_parameter() && is_view(value.op()->kind()) && !value.is(OpKind::Slice))
    value = value.op()->operand(0);
  return value.is(OpKind::Constant) ? value.op() : nullptr;
}

/// The numbers of a constant of floats, one for all that are equal by construction; none where
/// nobody supplied them.
std::vector<double> numbers_of(const Module& module, const Op& constant) {
  if (const std::optional<double> splat = splat_value(constant.result())) return {*splat};
  const Attr& data = *constant.attrs().find("value");
  if (!data.is<Resource>()) return constant_tensor(constant).floats;
  const auto resource = module.resource(data.as<Resource>().name);
  return resource ? from_bytes(resource->type, resource->bytes).floats : std::vector<double>();
}

/// `2 of 4 numbers become 0, 1 becomes infinite`, or "".
std::string losses_text(const std::vector<double>& numbers, DType dtype) {
  std::string text;
  for (LiteralLoss loss : {LiteralLoss::Zero, LiteralLoss::Infinite}) {
    const auto count = std::ranges::count_if(
        numbers, [&](double number) { return loss_of_literal(number, dtype) == loss; });
    if (count == 0) continue;
    text += text.empty() ? fmt::format("{} of {} numbers ", count, numbers.size())
                         : fmt::format(", {} ", count);
    text += count == 1 ? "becomes " : "become ";
    text += loss == LiteralLoss::Zero ? "0" : "infinite";
  }
  return text;
}

/// Numbers of a constant that become 0 or infinite in 16 bits; a single one also where it becomes
/// 1, which as a bound or as a decay it never meant.
void constant_leaves_type(const Module& module, const Function& function, PassContext& context) {
  for (const Op& op : function.body()) {
    if (op.kind() != OpKind::Cast || !is_16bit(op.result().dtype()) || op.result().unused())
      continue;
    const Op* constant = constant_under(op.operand(0));
    if (!constant || !is_float(constant->result().dtype())) continue;
    const std::vector<double> numbers = numbers_of(module, *constant);
    const DType dtype = op.result().dtype();
    const bool single = numbers.size() == 1;
    const LiteralLoss loss = single ? loss_of_literal(numbers[0], dtype) : LiteralLoss::None;
    const std::string text =
        !single ? losses_text(numbers, dtype)
        : loss == LiteralLoss::None
            ? ""
            : number_text(numbers[0], constant->result().dtype()) + " " + to_string(loss);
    if (text.empty()) continue;
    const std::string why =
        loss == LiteralLoss::One
            ? fmt::format("whose next number below 1 is {}", 1 - unit_roundoff(dtype))
            : fmt::format("whose magnitudes lie between {:g} and {:g}",
                          dtype == DType::F16 ? f16_to_f32(1) : bf16_to_f32(1),
                          largest_finite(dtype));
    report_literal(context, constant->origin().location,
                   fmt::format("constant: {} in {}, {}", text, ir::to_string(dtype), why));
  }
}

}  // namespace

bool lint(Module& module, PassContext& context) {
  for (const auto& function : module.functions()) {
    no_path_to_loss(*function, context);
    literal_leaves_type(*function, context);
    constant_leaves_type(module, *function, context);
  }
  return false;
}

}  // namespace mezzo::passes
