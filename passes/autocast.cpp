// SPDX-License-Identifier: Apache-2.0
// Decides the element type of every value by the precision policy, and numbers the ops that can set
// a flag word.
//
// clang-format off
//   before, {policy = "mixed_float16"}                 after
//     %h = matmul %x, %w : f32                           %0 = cast %x {reason = "...", word = 1} : f32 -> f16
//     %y = relu %h : f32                                 %1 = cast %w {reason = "...", word = 2} : f32 -> f16
//     %z = matmul %y, %v : f32                           %h = matmul %0, %1 {acc = f32, word = 3} : f16
//     return %z                                          %y = relu %h : f16
//                                                        %2 = cast %v {reason = "...", word = 4} : f32 -> f16
//                                                        %z = matmul %y, %2 {acc = f32, word = 5} : f16 -> f32
//                                                        return %z
//
// Rules, from the class letters of the op table (ir/ops.def):
//   narrow  operands in the compute type; result in the compute type, or f32 straight from the accumulator when
//           every reader, through follow and keep ops, is a wide or index operand or a function result
//   wide    operands and result in f32; optimizers and random ops keep their results' types
//   follow  the widest operand that is neither a trained parameter (or a view or cast of one) nor a constant; f16
//           and bf16 give f32; without such an operand f32. A cotangent in f32 counts in the type of its value
//           (`grad_of`) when that has 16 bits. A constant that leaves the type (becomes 0, infinite or 1) makes
//           the op f32 and is a finding.
//   keep    the first operand's type, or that of a follow op where there are several float operands (concat,
//           scatter_add, pad with a value); a cast keeps its own. What is read by index from a trained parameter is
//           cast to the compute type unless every reader is wide; sums of a scatter_add are f32 where every reader is
//   index   untouched
// clang-format on
//
// Ops that touch f64 stay as they are. Function results keep their types as traced. Each value is
// cast once per type; a constant is made anew instead, unless it leaves the type. Where an op has a
// policy of its own (`policy`), that one decides. Without a policy types stay as written. Words are
// numbered from 1 in program order, with or without a policy. Afterwards there is no `grad_of`.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/policy.h>
#include <mezzo/passes/rewrite.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace mezzo::passes {

using namespace ir;

namespace {

bool touches_f64(const Op& op) {
  for (Value value : op.operands())
    if (value.dtype() == DType::F64) return true;
  for (Value value : op.results())
    if (value.dtype() == DType::F64) return true;
  return false;
}

DType widest(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::F64 || b == DType::F64) return DType::F64;
  return DType::F32;  // f32 with 16 bits, or f16 with bf16
}

class Caster {
 public:
  Caster(Function& function, const PrecisionPolicy& policy, PassContext& context)
      : function_(function), references_(function), policy_(policy), context_(context) {}

  void run() {
    for (Value value : function_.results()) traced_.push_back(value.type());
    find_wide_only();
    for (Op& op : function_.body()) rewrite(op);
  }

 private:
  PrecisionPolicy policy_of(const Op& op) const {
    std::string region = op.attrs().get_string("policy");
    return region.empty() ? policy_ : policy_by_name(region);
  }

  /// Backwards: every reader of the value, through follow and keep ops, is wide or a function
  /// result.
  void find_wide_only() {
    std::vector<Op*> ops;
    for (Op& op : function_.body()) ops.push_back(&op);
    for (auto it = ops.rbegin(); it != ops.rend(); ++it)
      for (Value value : (*it)->results()) {
        bool all = true;
        for (Use* use = value.def()->uses; use && all; use = use->next) all = reads_wide(*use);
        if (all) wide_only_.insert(value.def());
      }
  }

  bool reads_wide(const Use& use) const {
    const Op& user = *use.user;
    if (user.kind() == OpKind::Return) return true;
    switch (user.info().precision_of(use.index)) {
      case Precision::Wide:
      case Precision::Index:
        return true;
      case Precision::Narrow:
        return false;
      case Precision::Follow:
      case Precision::Keep:
        break;
    }
    for (Value value : user.results())
      if (is_float(value.dtype()) && !wide_only_.contains(value.def())) return false;
    return true;
  }

  /// A parameter of the function that is trained, seen through views and casts.
  bool is_from_parameter(Value value) const {
    while (!value.is_parameter() && (is_view(value.op()->kind()) || value.is(OpKind::Cast)))
      value = value.op()->operand(0);
    return value.is_parameter() && value.def()->region == &function_.body() &&
           function_.is_param(value.index());
  }

  static bool is_constant(Value value) {
    while (!value.is_parameter() && is_view(value.op()->kind())) value = value.op()->operand(0);
    return value.is(OpKind::Constant);
  }

  /// The value in another type: one cast a value and type; a constant is made anew, unless it
  /// leaves the type: lint tells that from the cast, and a run finds it there.
  Value in_type(Value value, DType dtype, Op& reader, const std::string& reason) {
    if (value.dtype() == dtype || !is_float(value.dtype())) return value;
    auto [it, fresh] = casts_.try_emplace({value.def(), dtype});
    if (!fresh) return it->second;
    Builder builder(&reader);
    builder.derive_from(value.is_parameter() ? &reader : value.op());
    const std::optional<double> splat = splat_value(value);
    if (splat && !(is_16bit(dtype) && leaves_range(loss_of_literal(*splat, dtype))))
      it->second = builder.constant(value.type().with(dtype), *splat);
    else
      it->second = builder.cast(value, dtype, reason);
    return it->second;
  }

  /// The operand as a follow op sees it.
  Value as_followed(Value value, Op& reader) {
    if (value.is_parameter()) return value;
    const Attr* of = value.op()->attrs().find("grad_of");
    if (!of || value.dtype() != DType::F32 || !(value == value.op()->result(0))) return value;
    DType primal = Value(of->as<ValueRef>().value).dtype();
    if (!is_16bit(primal)) return value;
    return in_type(value, primal, reader,
                   "cotangent of a " + std::string(ir::to_string(primal)) + " value");
  }

  void set_operand(Op& op, int index, DType dtype, const std::string& reason) {
    op.set_operand(index, in_type(op.operand(index), dtype, op, reason));
  }

  static void set_results(Op& op, DType dtype) {
    for (Value value : op.results())
      if (is_float(value.dtype())) value.set_type(value.type().with(dtype));
  }

  void rewrite(Op& op) {
    if (op.kind() == OpKind::Return) return rewrite_return(op);
    if (op.num_operands() == 0 || touches_f64(op)) return;
    if (op.info().has(Trait::Optimizer) || op.info().has(Trait::Random)) {
      cast_wide_operands(op);
      return;
    }
    Precision first = op.info().precision_of(0);
    for (int i = 0; i < op.num_operands() && first == Precision::Index; ++i)
      first = op.info().precision_of(i);
    switch (first) {
      case Precision::Narrow:
        return rewrite_narrow(op);
      case Precision::Wide:
        cast_wide_operands(op);
        return set_results(op, DType::F32);
      case Precision::Follow:
        return rewrite_follow(op);
      case Precision::Keep:
        return rewrite_keep(op);
      case Precision::Index:
        return;
    }
  }

  void cast_wide_operands(Op& op) {
    for (int i = 0; i < op.num_operands(); ++i)
      if (op.info().precision_of(i) == Precision::Wide)
        set_operand(op, i, DType::F32, std::string(op.info().name) + " is wide");
  }

  void rewrite_narrow(Op& op) {
    PrecisionPolicy policy = policy_of(op);
    std::string reason = std::string(op.info().name) + " is narrow under " + policy.name;
    for (int i = 0; i < op.num_operands(); ++i)
      if (op.info().precision_of(i) == Precision::Narrow)
        set_operand(op, i, policy.compute, reason);
    cast_wide_operands(op);
    // Saved results have wide readers alone, and f32.
    for (Value result : op.results()) {
      if (!is_float(result.dtype())) continue;
      const bool straight = wide_only_.contains(result.def());
      result.set_type(result.type().with(straight ? DType::F32 : policy.compute));
    }
  }

  void rewrite_keep(Op& op) {
    const auto floats =
        std::ranges::count_if(op.operands(), [](Value value) { return is_float(value.dtype()); });
    if (op.kind() == OpKind::Cast) return;
    if (floats < 2) {
      set_results(op, op.operand(0).dtype());
      return cast_read_parameter(op);
    }
    rewrite_follow(op);
    const bool sums = op.kind() == OpKind::ScatterAdd || op.kind() == OpKind::AddAlongAxis;
    if (!sums || !is_16bit(op.result().dtype()) || !wide_only_.contains(op.result().def())) return;
    set_operand(op, 0, DType::F32, std::string(op.info().name) + " adds in f32");
    set_results(op, DType::F32);
  }

  /// What an index reads of a trained parameter is an activation.
  void cast_read_parameter(Op& op) {
    const bool reads = op.kind() == OpKind::Gather || op.kind() == OpKind::TakeAlongAxis;
    if (!reads || !is_from_parameter(op.operand(0))) return;
    const PrecisionPolicy policy = policy_of(op);
    const Value read = op.result();
    if (read.dtype() == policy.compute || !is_float(read.dtype()) ||
        wide_only_.contains(read.def()))
      return;
    const std::vector<Op*> readers = read.users();
    const Value now = in_type(read, policy.compute, *op.next(),
                              "what is read of a parameter is an activation under " + policy.name);
    references_.replace(read, now);
    for (Op* reader : readers)
      for (int i = 0; i < reader->num_operands(); ++i)
        if (reader->operand(i) == read) reader->set_operand(i, now);
  }

  static bool is_followed(const Op& op, int index) {
    const Precision precision = op.info().precision_of(index);
    return precision == Precision::Follow || precision == Precision::Keep;
  }

  void rewrite_follow(Op& op) {
    std::optional<DType> dtype;
    for (int i = 0; i < op.num_operands(); ++i) {
      if (!is_followed(op, i) || !is_float(op.operand(i).dtype())) continue;
      Value value = as_followed(op.operand(i), op);
      op.set_operand(i, value);
      if (is_constant(value) || is_from_parameter(value)) continue;
      dtype = dtype ? widest(*dtype, value.dtype()) : value.dtype();
    }
    bool any_float = false;
    for (Value value : op.operands()) any_float |= is_float(value.dtype());
    if (!any_float) return;
    DType type = dtype.value_or(DType::F32);
    if (is_16bit(type))
      for (Value value : op.operands())
        if (std::optional<double> literal = splat_value(value); literal && is_float(value.dtype()))
          if (const LiteralLoss lost = loss_of_literal(*literal, type); lost != LiteralLoss::None) {
            report_literal(op, *literal, type, lost);
            type = DType::F32;
            break;
          }
    for (int i = 0; i < op.num_operands(); ++i)
      if (is_followed(op, i))
        set_operand(op, i, type, std::string(op.info().name) + " follows its widest operand");
    set_results(op, type);
  }

  void report_literal(const Op& op, double literal, DType type, LiteralLoss lost) {
    context_.findings.push_back(
        {"literal-leaves-type", op.origin().location,
         fmt::format("{}: the literal {} {} in {}, so this operation stays in f32", op.info().name,
                     static_cast<float>(literal), to_string(lost), ir::to_string(type)),
         "write the literal as an f32 constant on purpose, or keep the operation in "
         "keep_f32"});
  }

  /// Results are cast where they are computed: a verdict that stands behind the loss reads it in
  /// the type of the result.
  void rewrite_return(Op& op) {
    for (int i = 0; i < op.num_operands(); ++i) {
      const Value value = op.operand(i);
      const DType dtype = traced_[static_cast<size_t>(i)].dtype;
      if (value.dtype() == dtype) continue;
      Op& behind = value.is_parameter() ? op : *value.op()->next();
      op.set_operand(i, in_type(value, dtype, behind, "results keep their type"));
    }
  }

  Function& function_;
  References references_;
  const PrecisionPolicy& policy_;
  PassContext& context_;
  std::vector<Type> traced_;
  std::unordered_set<const ValueDef*> wide_only_;
  std::map<std::pair<const ValueDef*, DType>, Value> casts_;
};

/// A custom gradient has been taken, or is not asked for: what its op gives is what it was given.
void drop_custom_gradients(Function& function) {
  std::vector<Op*> dropped;
  for (Op& op : function.body())
    if (op.kind() == OpKind::CustomGradient) dropped.push_back(&op);
  if (dropped.empty()) return;
  References references(function);
  for (Op* op : dropped) {
    for (int i = 0; i < op->num_results(); ++i) {
      const Value given = op->operand(static_cast<int>(op->int_attr("inputs")) + i);
      references.replace(op->result(i), given);  // cotangents name it
      op->result(i).replace_all_uses_with(given);
    }
    references.drop(*op);
    op->erase();
  }
}

/// Ops that can turn finite operands into a non-finite result, casts that can overflow, and
/// whatever `all_finite` judges directly, in program order.
void number_words(Function& function) {
  std::unordered_set<const Op*> judged;
  for (Op& op : function.body())
    if (op.kind() == OpKind::AllFinite)
      for (Value value : op.operands()) {
        while (!value.is_parameter() && is_view(value.op()->kind())) value = value.op()->operand(0);
        if (!value.is_parameter()) judged.insert(value.op());
      }
  int64_t next = 1;  // 0 means "no op" in a verdict
  for (Op& op : function.body()) {
    bool floats = op.num_results() > 0 && is_float(op.result().dtype());
    bool overflows =
        op.kind() != OpKind::Cast || can_overflow(op.operand(0).dtype(), op.result().dtype());
    op.attrs().erase("word");
    if (floats && ((op.info().has(Trait::Flagged) && overflows) || judged.contains(&op)))
      op.attrs().set("word", next++);
  }
}

/// Regions of another policy in a program that has none: told once for each policy.
void report_regions(const Module& module, PassContext& context) {
  std::set<std::string> told;
  for (const auto& function : module.functions())
    for (const Op& op : function->body()) {
      const std::string region = op.attrs().get_string("policy");
      if (region.empty()) continue;
      const bool casts = policy_by_name(region).compute != DType::F32 ||
                         std::ranges::any_of(op.operands(), [](Value value) {
                           return is_float(value.dtype()) && is_16bit(value.dtype());
                         });
      if (!casts || !told.insert(region).second) continue;
      context.findings.push_back(
          {"region-without-policy", op.origin().location,
           "the policy '" + region +
               "' of a region has no effect: the program has none, its "
               "element types are as written",
           "give the program a policy, float32 where nothing else is to change"});
    }
}

}  // namespace

bool autocast(Module& module, PassContext& context) {
  std::string name = context.options.get_string("policy");
  std::optional<PrecisionPolicy> policy;
  if (!name.empty()) policy = policy_by_name(name);
  for (const auto& function : module.functions()) {
    drop_custom_gradients(*function);
    for (const Op& op : function->body())
      // An unknown one is an error also where nothing is cast.
      if (std::string region = op.attrs().get_string("policy"); !region.empty())
        policy_by_name(region, op.origin().location);
    if (policy) Caster(*function, *policy, context).run();
    for (Op& op : function->body()) op.attrs().erase("grad_of");
    number_words(*function);
  }
  if (policy)
    module.attrs().set("policy", policy->name);
  else
    report_regions(module, context);
  module.set_stage(Stage::Typed);
  return true;
}

}  // namespace mezzo::passes
