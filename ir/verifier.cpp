// SPDX-License-Identifier: Apache-2.0
// The verifier: a list of small rules over one function each.
#include <mezzo/ir/error.h>
#include <mezzo/ir/shape_rules.h>
#include <mezzo/ir/verifier_rules.h>

#include <algorithm>
#include <array>

namespace mezzo::ir {

VerifierContext::VerifierContext(const Function& function, std::vector<VerifierFinding>& findings)
    : function_(function), findings_(findings), before_(findings.size()) {
  auto add_region = [&](const Region& region) {
    for (Value value : region.parameters()) alive_.insert(value.def());
    for (const Op& op : region)
      for (int i = 0; i < op.num_results(); ++i) alive_.insert(op.result(i).def());
  };
  add_region(function.body());
  for (const Op& op : function.body())
    if (op.body()) add_region(*op.body());
}

const std::string& VerifierContext::name(const ValueDef* value) {
  if (!names_) names_.emplace(function_);
  return (*names_)(value);
}

void VerifierContext::report(const Op& op, const std::string& what) {
  std::string text = "@" + function_.name() + ": ";
  for (int i = 0; i < op.num_results(); ++i)
    text += name(op.result(i)) + (i + 1 < op.num_results() ? ", " : " = ");
  text += op.info().name;
  if (op.kind() == OpKind::Kernel) text += " @" + op.kernel_name();
  findings_.push_back({&op, text + ": " + what, op.location()});
}

void VerifierContext::report(const std::string& what) {
  findings_.push_back({nullptr, "@" + function_.name() + ": " + what, {}});
}

namespace {

template <class F>
void for_each_op(const Function& function, F visit) {
  for (const Op& op : function.body()) {
    visit(op);
    if (!op.body()) continue;
    for (const Op& inner : *op.body()) visit(inner);
  }
}

// --- rules of every stage

void check_terminators(VerifierContext& context) {
  auto check = [&](const Region& region, OpKind wanted) {
    for (const Op& op : region)
      if (op.info().has(Trait::Terminator) && (&op != region.back() || op.kind() != wanted))
        context.report(op, std::string("stands where only a last '") + to_string(wanted) +
                               "' may end a region");
    if (region.terminator()) return;
    std::string missing = std::string("the last op must be '") + to_string(wanted) + "'";
    region.owner() ? context.report(*region.owner(), missing) : context.report(missing);
  };
  check(context.function().body(), OpKind::Return);
  for (const Op& op : context.function().body())
    if (op.body()) check(*op.body(), OpKind::Yield);
}

void check_dominance(VerifierContext& context) {
  auto check = [&](const Region& region) {
    std::unordered_set<const ValueDef*> defined;
    for (Value value : region.parameters()) defined.insert(value.def());
    for (const Op& op : region) {
      for (int i = 0; i < op.num_operands(); ++i) {
        const ValueDef* value = op.operand(i).def();
        if (value && defined.contains(value)) continue;
        bool later = value && value->op && value->op->region() == &region;
        context.report(
            op, "operand " + std::to_string(i) + ", " + context.name(value) +
                    (later ? ", is read before it is made" : ", is not visible in this region"));
      }
      for (int i = 0; i < op.num_results(); ++i) defined.insert(op.result(i).def());
    }
  };
  check(context.function().body());
  for (const Op& op : context.function().body())
    if (op.body()) check(*op.body());
}

void check_types(VerifierContext& context) {
  std::vector<Type> operands, declared;
  for_each_op(context.function(), [&](const Op& op) {
    operands.clear();
    declared.clear();
    for (int i = 0; i < op.num_operands(); ++i) operands.push_back(op.operand(i).type());
    for (int i = 0; i < op.num_results(); ++i) declared.push_back(op.result(i).type());
    std::vector<Type> inferred;
    try {
      inferred = infer_types(
          {op.kind(), operands, op.attrs(), declared, &context.module(), op.location()});
    } catch (const UserError& error) {
      return context.report(op, error.message());
    }
    if (inferred.size() != declared.size())
      return context.report(op, "has " + counted(declared.size(), "result") + ", not " +
                                    std::to_string(inferred.size()));
    for (size_t i = 0; i < inferred.size(); ++i)
      if (!(inferred[i] == declared[i]))
        context.report(op, "result " + std::to_string(i) + " is " + to_string(declared[i]) +
                               ", not " + to_string(inferred[i]));
  });
}

void check_roles(VerifierContext& context) {
  constexpr std::array<std::string_view, 4> kRoles = {"forward", "backward", "update", "scale"};
  for_each_op(context.function(), [&](const Op& op) {
    const Attr* role = op.attrs().find("role");
    if (!role || !role->is<std::string>()) return;  // a wrong kind is found with the types
    const std::string& text = role->as<std::string>();
    if (std::find(kRoles.begin(), kRoles.end(), text) == kRoles.end())
      context.report(op, "unknown role \"" + text + "\"");
  });
}

bool refers_to_dead(const VerifierContext& context, const Attr& attr) {
  if (attr.is<ValueRef>()) return !context.alive(attr.as<ValueRef>().value);
  if (!attr.is<AttrList>()) return false;
  for (const Attr& item : attr.as<AttrList>())
    if (refers_to_dead(context, item)) return true;
  return false;
}

void check_references(VerifierContext& context) {
  auto dead = [&](const Attrs& attrs) -> std::string {
    for (const auto& [name, attr] : attrs)
      if (refers_to_dead(context, attr))
        return "attribute '" + std::string(name) + "' refers to a value that is not in @" +
               context.function().name();
    return "";
  };
  for_each_op(context.function(), [&](const Op& op) {
    if (std::string what = dead(op.attrs()); !what.empty()) context.report(op, what);
  });
  const Function& function = context.function();
  for (int i = 0; i < function.num_parameters(); ++i)
    if (std::string what = dead(function.parameter_attrs(i)); !what.empty()) context.report(what);
  for (int i = 0; i < function.num_results(); ++i)
    if (std::string what = dead(function.result_attrs(i)); !what.empty()) context.report(what);
}

void check_parameters(VerifierContext& context) {
  const Function& function = context.function();
  std::unordered_set<std::string_view> names;
  for (Value parameter : function.parameters())
    if (!parameter.name().empty() && !names.insert(parameter.name()).second)
      context.report("two parameters are named '" + std::string(parameter.name()) + "'");
  for (int i = 0; i < function.num_parameters(); ++i)
    for (const char* flag : {"param", "state"})
      if (const Attr* attr = function.parameter_attrs(i).find(flag); attr && !attr->is<bool>())
        context.report("attribute '" + std::string(flag) + "' of " +
                       context.name(function.parameter(i)) + " must be true or false");
}

void check_updates(VerifierContext& context) {
  const Function& function = context.function();
  std::vector<Value> results = function.results();
  if (static_cast<int>(results.size()) != function.num_results())
    return context.report("returns " + counted(results.size(), "value") + " for " +
                          counted(function.num_results(), "result"));
  std::unordered_set<const ValueDef*> updated;
  for (int i = 0; i < function.num_results(); ++i) {
    const Attr* attr = function.result_attrs(i).find("updates");
    if (!attr) continue;
    std::string which = "result " + std::to_string(i);
    if (!attr->is<ValueRef>()) {
      context.report(which + ": attribute 'updates' must be a value");
      continue;
    }
    const ValueDef* target = attr->as<ValueRef>().value;
    if (!context.alive(target)) continue;  // found with the references
    if (target->op || target->region != &function.body())
      context.report(which + " updates " + context.name(target) + ", which is no parameter");
    else if (!updated.insert(target).second)
      context.report(which + " updates " + context.name(target) + ", which another result updates");
    else if (Type type = results[static_cast<size_t>(i)].type(); !(type == target->type))
      context.report(which + " is " + to_string(type) + ", but updates " + context.name(target) +
                     " of " + to_string(target->type));
    else if (!function.is_param(target->index) && !function.is_state(target->index))
      context.report(which + " updates " + context.name(target) +
                     ", which is neither {param} nor {state}");
  }
}

// --- rules of stages

void check_differentiated(VerifierContext& context) {
  if (!context.at_least(Stage::Differentiated)) return;
  for_each_op(context.function(), [&](const Op& op) {
    if (op.kind() == OpKind::Gradient)
      context.report(op, std::string("may not stand in stage ") +
                             to_string(context.module().stage()) + "; autodiff expands it");
  });
}

void check_typed(VerifierContext& context) {
  if (!context.at_least(Stage::Typed)) return;
  for_each_op(context.function(), [&](const Op& op) {
    if (op.attrs().has("grad_of"))
      context.report(op, std::string("has attribute 'grad_of' in stage ") +
                             to_string(context.module().stage()) + "; autocast drops it");
    if (op.kind() == OpKind::CustomGradient)
      context.report(op, std::string("may not stand in stage ") +
                             to_string(context.module().stage()) + "; autocast drops it");
  });
}

void check_primitive(VerifierContext& context) {
  if (!context.at_least(Stage::Primitive)) return;
  for_each_op(context.function(), [&](const Op& op) {
    if (op.info().op_class == OpClass::Composite)
      context.report(op, std::string("is composite in stage ") +
                             to_string(context.module().stage()) + "; decompose replaces it");
  });
}

void check_fused(VerifierContext& context) {
  for (const Op& op : context.function().body()) {
    if (!context.at_least(Stage::Fused)) {
      if (op.kind() == OpKind::Kernel)
        context.report(op, std::string("stands in stage ") + to_string(context.module().stage()) +
                               "; fuse makes kernels");
      continue;
    }
    switch (op.kind()) {
      case OpKind::Kernel:
      case OpKind::Reshape:
      case OpKind::Constant:
      case OpKind::AllFinite:
      case OpKind::Verdict:
      case OpKind::Return:
        break;
      default:
        context.report(op, std::string("stands outside a kernel in stage ") +
                               to_string(context.module().stage()));
    }
  }
}

constexpr void (*kRules[])(VerifierContext&) = {
    check_terminators, check_dominance, check_types,          check_roles,  check_references,
    check_parameters,  check_updates,   check_differentiated, check_typed,  check_primitive,
    check_fused,       verify_kernels,  verify_places,        verify_plans,
};

void check_function_names(const Module& module, std::vector<VerifierFinding>& findings) {
  std::unordered_set<std::string_view> names;
  for (const auto& function : module.functions())
    if (!names.insert(function->name()).second)
      findings.push_back({nullptr, "two functions are named @" + function->name(), {}});
}

}  // namespace

std::string to_string(const VerifierFinding& finding) {
  return (finding.location.known() ? to_string(finding.location) + ": " : "") + finding.text;
}

std::vector<VerifierFinding> verify(const Module& module) {
  std::vector<VerifierFinding> findings;
  check_function_names(module, findings);
  for (const auto& function : module.functions()) {
    VerifierContext context(*function, findings);
    for (auto* rule : kRules) rule(context);
  }
  return findings;
}

void verify_or_throw(const Module& module, std::string_view after_pass) {
  std::vector<VerifierFinding> findings = verify(module);
  if (findings.empty()) return;
  constexpr size_t kShown = 8;
  std::string text = after_pass.empty()
                         ? "internal error: invalid module"
                         : "internal error after pass '" + std::string(after_pass) + "'";
  for (size_t i = 0; i < std::min(findings.size(), kShown); ++i)
    text += (i ? "\n  " : ": ") + to_string(findings[i]);
  if (findings.size() > kShown)
    text += "\n  and " + std::to_string(findings.size() - kShown) + " more";
  throw InternalError(text);
}

}  // namespace mezzo::ir
