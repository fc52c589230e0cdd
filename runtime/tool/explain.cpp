// SPDX-License-Identifier: Apache-2.0
// A value is followed through the modules by what survives a rewrite: the operation and the line
// that it stands for, and its role. The rule is read where autocast has just applied it, before
// fusion hides operands in kernels.
#include <mezzo/runtime/tool/explain.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/op_info.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/policy.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

namespace mezzo::tool {

namespace {

using ir::Op;
using ir::OpKind;
using ir::Precision;
using ir::Value;

/// What survives of a value: of an op's result its origin and role, of a parameter its name.
struct Identity {
  std::string function;
  OpKind kind{};
  ir::Origin origin;
  std::string role;
  std::string parameter;
  int ordinal = 0;  // among ops of equal kind, origin and role: one line may need two casts

  bool stands_for(const Op& op) const {
    return parameter.empty() && op.role() == role && op.origin().location == origin.location &&
           std::string_view(op.origin().name) == origin.name;
  }
};

void visit(const ir::Region& region, const std::function<void(const Op&)>& see) {
  for (const Op& op : region) {
    if (op.body()) visit(*op.body(), see);
    see(op);
  }
}

/// The value that a kernel stores as it was before fusion and rounding: of the op, not of a cast
/// that stores it.
Value inside_kernels(Value value) {
  while (!value.is_parameter() && value.is(OpKind::Kernel)) {
    value = value.op()->body()->terminator()->operand(value.index());
    while (!value.is_parameter() && value.is(OpKind::Cast) &&
           value.op()->attrs().get_string("reason").empty() && !value.op()->bool_attr("user") &&
           !value.op()->operand(0).is_parameter() &&
           value.op()->operand(0).op()->origin() == value.op()->origin())
      value = value.op()->operand(0);
    if (value.is_parameter()) value = value.def()->region->owner()->operand(value.index());
  }
  return value;
}

Identity identity_of(const ir::Function& function, Value value) {
  value = inside_kernels(value);
  if (value.is_parameter()) return {function.name(), {}, {}, "", std::string(value.name())};
  const Op& wanted = *value.op();
  Identity identity{function.name(), wanted.kind(), wanted.origin(), wanted.role(), ""};
  bool reached = false;
  visit(function.body(), [&](const Op& op) {
    reached |= &op == &wanted;
    if (!reached && op.kind() == wanted.kind() && identity.stands_for(op)) ++identity.ordinal;
  });
  return identity;
}

std::string place_of(const Op& op) {
  std::string out = op.origin().name;
  if (op.origin().location.known()) out += " at " + to_string(op.origin().location);
  return op.role() == "forward" ? out : out + ", " + op.role();
}

/// Says by which rule a value of a module has its element type.
class Rules {
 public:
  explicit Rules(const ir::Function& function)
      : function_(function),
        names_(function),
        policy_(function.module()->attrs().get_string("policy")) {}

  /// A line for the value, and for each that decides over it, nearest first.
  std::vector<std::string> path(Value value) {
    std::vector<std::string> lines;
    std::unordered_set<const ir::ValueDef*> seen;
    while (value && seen.insert(value.def()).second) {
      decider_ = {};
      const std::string why = rule(value);
      lines.push_back(fmt::format("{}: {}, {}: {}", names_(value), ir::to_string(value.dtype()),
                                  value.is_parameter() ? "parameter" : place_of(*value.op()), why));
      value = decider_;
    }
    return lines;
  }

 private:
  std::string rule(Value value) {
    if (value.is_parameter()) return "as declared";
    const Op& op = *value.op();
    if (op.kind() == OpKind::Cast) return rule_of_cast(op);
    if (op.num_operands() == 0) return "as written";
    if (!ir::is_float(value.dtype())) return std::string(op.info().name) + " gives this type";
    if (policy_.empty()) return "as written: no policy was applied";
    for (Value operand : op.operands())
      if (operand.dtype() == ir::DType::F64) return "no policy touches f64";
    if (op.info().has(ir::Trait::Optimizer) || op.info().has(ir::Trait::Random))
      return std::string(op.info().name) + " keeps the type that it declares";
    const std::string own = op.attrs().get_string("policy");
    const std::string policy = own.empty() ? policy_ : own;
    switch (deciding_class(op)) {
      case Precision::Narrow:
        return narrow(op, policy);
      case Precision::Wide:
        return fmt::format("{} is wide: f32 under every policy", op.info().name);
      case Precision::Follow:
        return follow(op, value);
      case Precision::Keep:
        decider_ = op.operand(0);
        return fmt::format("{} keeps the type of {}", op.info().name, names_(op.operand(0)));
      case Precision::Index:
        break;
    }
    return "as declared";
  }

  static Precision deciding_class(const Op& op) {
    for (int i = 0; i < op.num_operands(); ++i)
      if (op.info().precision_of(i) != Precision::Index) return op.info().precision_of(i);
    return Precision::Index;
  }

  std::string rule_of_cast(const Op& op) {
    decider_ = op.operand(0);
    if (op.bool_attr("user")) return "a cast of the program itself";
    const std::string reason = op.attrs().get_string("reason");
    return reason.empty() ? "as written" : "cast, since " + reason;
  }

  std::string narrow(const Op& op, const std::string& policy) {
    const char* compute = ir::to_string(passes::policy_by_name(policy).compute);
    std::string out = fmt::format("{} is narrow under {}: operands {}, accumulated in f32",
                                  op.info().name, policy, compute);
    if (op.result().dtype() != passes::policy_by_name(policy).compute)
      return out +
             "; the result comes straight from the accumulator, since every reader is wide "
             "or a result";
    if (!ir::is_16bit(op.result().dtype())) return out;
    return out + fmt::format("; the result is {} too, since not every reader is wide or a result",
                             compute);
  }

  std::string follow(const Op& op, Value value) {
    // An operand that came in this type decides before one that was cast to it.
    for (bool cast : {false, true})
      for (int i = 0; i < op.num_operands() && !decider_; ++i) {
        const Value operand = op.operand(i);
        if (op.info().precision_of(i) != Precision::Follow || operand.dtype() != value.dtype() ||
            is_constant(operand) || is_cast_parameter(operand))
          continue;
        if (was_cast(operand) == cast) decider_ = operand;
      }
    if (!decider_)
      return fmt::format("{} follows its operands; only parameters and constants: f32",
                         op.info().name);
    return fmt::format(
        "{} follows its widest operand that is neither a parameter nor a constant, "
        "{}",
        op.info().name, names_(decider_));
  }

  static Value through_views(Value value) {
    while (!value.is_parameter() && (ir::is_view(value.op()->kind()) || value.is(OpKind::Cast)))
      value = value.op()->operand(0);
    return value;
  }
  static bool was_cast(Value value) {
    return value.is(OpKind::Cast) && !value.op()->bool_attr("user");
  }
  static bool is_constant(Value value) { return through_views(value).is(OpKind::Constant); }
  bool is_cast_parameter(Value value) const {
    value = through_views(value);
    return value.is_parameter() && function_.is_param(value.index());
  }

  const ir::Function& function_;
  ir::ValueNames names_;
  std::string policy_;
  Value decider_;
};

/// The value of this identity, the same kind of op before others of its line; empty if it is gone.
Value find(const ir::Module& module, const Identity& identity) {
  const ir::Function* function = module.function(identity.function);
  if (!function) return {};
  for (Value parameter : function->parameters())
    if (!identity.parameter.empty() && parameter.name() == identity.parameter) return parameter;
  std::vector<Value> exact, other;
  visit(function->body(), [&](const Op& op) {
    if (op.num_results() == 0 || op.body() || !identity.stands_for(op)) return;
    if (op.kind() == identity.kind)
      exact.push_back(op.result());
    else if (op.kind() != OpKind::Cast)
      other.push_back(op.result());
  });
  if (!exact.empty())
    return exact[std::min(exact.size() - 1, static_cast<size_t>(identity.ordinal))];
  return other.empty() ? Value() : other.front();
}

/// Lines on all values of this identity, as they stand in one module.
std::vector<std::string> standing(const ir::Module& module, const Identity& identity) {
  std::vector<std::string> lines;
  const ir::Function* function = module.function(identity.function);
  if (!function) return lines;
  const ir::ValueNames names(*function);
  for (Value parameter : function->parameters())
    if (!identity.parameter.empty() && parameter.name() == identity.parameter)
      lines.push_back(names(parameter) + ": " + to_string(parameter.type()));
  visit(function->body(), [&](const Op& op) {
    if (op.body() || op.num_results() == 0 || !identity.stands_for(op)) return;
    const Op* kernel = op.region()->owner();
    for (Value result : op.results())
      lines.push_back(fmt::format("{}: {} = {}{}", names(result), to_string(result.type()),
                                  op.info().name,
                                  kernel ? " in kernel @" + kernel->kernel_name() : ""));
  });
  return lines;
}

}  // namespace

void History::add(const std::string& pass, const ir::Module& module) {
  entries_.push_back({pass, module.clone()});
}

std::string History::explain(const std::string& name) const {
  std::vector<Identity> wanted;
  std::vector<std::string> known;
  for (const Entry* entry : {&entries_.back(), &entries_.front()}) {
    for (const auto& function : entry->module->functions()) {
      const ir::ValueNames names(*function);
      if (Value value = names.find(name)) wanted.push_back(identity_of(*function, value));
      visit(function->body(), [&](const Op& op) {
        for (Value result : op.results()) known.push_back(names(result));
      });
      for (Value parameter : function->parameters()) known.push_back(names(parameter));
    }
    if (!wanted.empty()) break;
  }
  const bool bare = std::find(known.begin(), known.end(), "%" + name) != known.end();
  if (wanted.empty())
    throw UserError({},
                    "--explain: there is no value '" + name + "'" +
                        (bare ? "; did you mean '%" + name + "'?" : ir::did_you_mean(name, known)),
                    "a name as the module is printed, such as %0, outside of kernels");
  // Where autocast decided; without it, where the types stood from the start.
  const Entry* typed = &entries_.front();
  for (const Entry& entry : entries_)
    if (entry.pass == "autocast") typed = &entry;
  std::string out;
  for (const Identity& identity : wanted) {
    out += fmt::format("// {} in @{}\n", name, identity.function);
    if (Value value = find(*typed->module, identity))
      for (const std::string& line : Rules(*typed->module->function(identity.function)).path(value))
        out += "//   " + line + "\n";
    std::vector<std::string> before;
    for (const Entry& entry : entries_) {
      std::vector<std::string> now = standing(*entry.module, identity);
      if (now == before) continue;
      out += entry.pass.empty() ? "// as read\n" : "// after " + entry.pass + "\n";
      for (const std::string& line : now) out += "//   " + line + "\n";
      if (now.empty()) out += "//   gone\n";
      before = std::move(now);
    }
  }
  return out;
}

}  // namespace mezzo::tool
