// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/grad_function.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/loss_scale.h>
#include <mezzo/passes/training_step.h>

#include <fmt/format.h>

namespace mezzo::passes {

using ir::Attrs;
using ir::Builder;
using ir::Function;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

Function& find_function(ir::Module& module, const std::string& name) {
  if (Function* function = module.function(name)) return *function;
  std::vector<std::string> known;
  for (const auto& function : module.functions()) known.push_back(function->name());
  throw UserError(
      {}, fmt::format("grad: there is no function @{}{}", name, ir::did_you_mean(name, known)));
}

int64_t find_parameter(const Function& function, const std::string& name) {
  std::vector<std::string> known;
  for (int i = 0; i < function.num_parameters(); ++i) {
    if (function.parameter(i).name() == name) {
      const ir::Type& type = function.parameter(i).type();
      if (is_float(type.dtype)) return i;
      throw UserError({}, fmt::format("grad: parameter '{}' of @{} is {}, gradients are taken for "
                                      "floats only",
                                      name, function.name(), to_string(type)));
    }
    known.emplace_back(function.parameter(i).name());
  }
  throw UserError({}, fmt::format("grad: @{} has no parameter '{}'{}", function.name(), name,
                                  ir::did_you_mean(name, known)));
}

/// Attributes whose references to parameters of one function point to those of another.
Attrs rebound(Attrs attrs, const Function& to) {
  for (auto& [name, attr] : attrs)
    if (attr.is<ir::ValueRef>())
      attr = ir::Attr(ir::ValueRef{to.parameter(attr.as<ir::ValueRef>().value->index).def()});
  return attrs;
}

}  // namespace

Function* append_gradient_function(ir::Module& module, const std::string& function,
                                   const std::vector<std::string>& wrt,
                                   std::optional<double> loss_scale, PassContext& context) {
  if (module.stage() > ir::Stage::Differentiated)
    throw UserError({}, fmt::format("grad: the module is at stage {}, gradients are taken up to "
                                    "stage differentiated",
                                    to_string(module.stage())));
  Function& source = find_function(module, function);
  ir::DType wide = ir::DType::F32;
  if (source.num_results() > 0 && source.results()[0].dtype() == ir::DType::F64)
    wide = ir::DType::F64;
  if (loss_scale)
    if (std::optional<ir::ScaleFault> fault = ir::power_of_two_fault("the loss scale", *loss_scale))
      throw UserError({}, "grad: " + fault->text, fault->hint);
  std::vector<int64_t> places;
  for (const std::string& name : wrt) places.push_back(find_parameter(source, name));
  if (module.function(function + "_grad"))
    throw UserError({}, fmt::format("grad: there is already a function @{}_grad", function));

  Function* target = module.add_function(function + "_grad");
  std::vector<Value> operands;
  for (Value parameter : source.parameters())
    operands.push_back(target->add_parameter(parameter.type(), parameter.name()));
  for (int i = 0; i < source.num_parameters(); ++i)
    target->parameter_attrs(i) = rebound(source.parameter_attrs(i), *target);

  Builder builder(target->body());
  Attrs attrs{{"func", ir::Symbol{function}}, {"wrt", ir::Attr(places)}};
  if (loss_scale) {
    operands.push_back(builder.constant({wide, {}}, *loss_scale));
    attrs.set("seed", true);
  }
  Op* gradient = builder.create(OpKind::Gradient, operands, std::move(attrs));
  std::vector<Value> results = gradient->results();
  NameScope names(*target);
  for (size_t i = 0; i < wrt.size(); ++i) {
    Value& result = results[results.size() - wrt.size() + i];
    if (loss_scale)
      result =
          builder.make(OpKind::Div, {result, builder.constant({result.dtype(), {}}, *loss_scale)});
    result.set_name(names.fresh("d" + wrt[i]));
  }
  std::vector<Attrs> result_attrs;
  for (int i = 0; i < source.num_results(); ++i)
    result_attrs.push_back(rebound(source.result_attrs(i), *target));
  result_attrs.resize(results.size());
  target->set_results(results, std::move(result_attrs));
  autodiff(module, context);
  return target;
}

}  // namespace mezzo::passes
