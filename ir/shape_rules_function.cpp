// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that name a function: what they share, and custom gradients.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

namespace mezzo::ir {

Function& named_function(const InferContext& context) {
  MEZZO_CHECK(context.module, std::string(op_info(context.kind).name) + " needs its module");
  const std::string& name = context.attrs.find("func")->as<Symbol>().name;
  if (Function* function = context.module->function(name)) return *function;
  std::vector<std::string> known;
  for (const auto& each : context.module->functions()) known.push_back(each->name());
  context.fail("there is no function '" + name + "'" + did_you_mean(name, known));
}

// Operands: the inputs, what the forward function made of them, what the backward function reads
// besides. The backward function takes inputs, outputs, the cotangent of each float output and the
// rest; it gives a cotangent for each float input.
std::vector<Type> infer_custom_gradient(const InferContext& context) {
  const Function& function = named_function(context);
  const auto inputs = static_cast<size_t>(context.attrs.get_int("inputs")),
             outputs = static_cast<size_t>(context.attrs.get_int("outputs"));
  if (context.operands.size() < inputs + outputs)
    context.fail(fmt::format("takes at least {} ({} and {}), not {}",
                             counted(inputs + outputs, "operand"), counted(inputs, "input"),
                             counted(outputs, "output"), context.operands.size()));
  std::vector<Type> takes(context.operands.begin(), context.operands.end()), gives, made;
  for (size_t i = 0; i < inputs; ++i)
    if (is_float(takes[i].dtype)) gives.push_back(takes[i]);
  for (size_t i = 0; i < outputs; ++i) made.push_back(takes[inputs + i]);
  std::vector<Type> cotangents;
  for (const Type& type : made)
    if (is_float(type.dtype)) cotangents.push_back(type);
  takes.insert(takes.begin() + static_cast<ptrdiff_t>(inputs + outputs), cotangents.begin(),
               cotangents.end());

  auto check = [&](const char* what, const std::vector<Type>& wanted, size_t count, auto type_of) {
    if (count != wanted.size())
      context.fail(fmt::format("@{} must {} {}, not {}", function.name(), what,
                               counted(wanted.size(), "tensor"), count));
    for (size_t i = 0; i < count; ++i)
      if (!(type_of(i) == wanted[i]))
        context.fail(fmt::format("tensor {} that @{} {}s must be {}, not {}", i, function.name(),
                                 what, to_string(wanted[i]), to_string(type_of(i))),
                     "a backward function takes inputs, outputs and the cotangents of the outputs, "
                     "and gives a cotangent of its type for each float input");
  };
  check("take", takes, static_cast<size_t>(function.num_parameters()),
        [&](size_t i) { return function.parameter(static_cast<int>(i)).type(); });
  const std::vector<Value> results = function.results();
  check("give", gives, results.size(), [&](size_t i) { return results[i].type(); });
  return made;
}

}  // namespace mezzo::ir
