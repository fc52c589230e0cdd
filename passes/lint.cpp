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
#include <mezzo/passes/pass.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace mezzo::passes {

using namespace ir;

namespace {

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

/// A literal that is finite in the program and infinite in its 16-bit type.
void literal_leaves_type(const Function& function, PassContext& context) {
  for (const Op& op : function.body()) {
    if (op.kind() != OpKind::Constant || !is_16bit(op.result().dtype())) continue;
    std::optional<double> value = splat_value(op.result());
    if (!value || !std::isinf(*value) || op.result().unused()) continue;
    context.findings.push_back(
        {"literal-leaves-type", op.origin().location,
         fmt::format("constant is infinite in {}, whose largest finite value is {:g}",
                     ir::to_string(op.result().dtype()), largest_finite(op.result().dtype())),
         "keep it in f32 with keep_f32, or use a policy where this value is f32"});
  }
}

}  // namespace

bool lint(Module& module, PassContext& context) {
  for (const auto& function : module.functions()) {
    no_path_to_loss(*function, context);
    literal_leaves_type(*function, context);
  }
  return false;
}

}  // namespace mezzo::passes
