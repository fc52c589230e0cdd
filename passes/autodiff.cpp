// SPDX-License-Identifier: Apache-2.0
// autodiff: expands every `gradient` op, innermost first, into a copy of the function's body and
// the backward ops of a reverse sweep over it.
//
// A backward op has role = "backward", the location and origin of its forward op, its scope and
// policy, and grad_of where its result is a cotangent of that value. Cotangents of a value are
// summed by one add_n in the order of the uses. Values that do not depend on what is differentiated
// get no backward ops. Gradients of 16-bit operands are widened to f32; an operand without a path
// to the loss has gradient zeros. A parameter without a path is reported and its optimizer op
// removed here, where the absence is known for certain: its state stays as it is, and all_finite no
// longer reads its gradient. Ops of a training step around the gradient get the roles "update" and
// "scale".
//
// Before:
//   func @loss(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
//     %p = mul %x, %w : ...
//     %l = sum %p {axes = [0]} : tensor<4xf32> -> tensor<f32>
//     return %l : tensor<f32>
//   }
//   func @both(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
//     %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : ...
//     return %l, %dw : ...
//   }
// After (@loss stays):
//   func @both(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
//     %p = mul %x, %w : tensor<4xf32>
//     %l = sum %p {axes = [0]} : tensor<4xf32> -> tensor<f32>
//     %0 = constant {grad_of = %l, role = "backward", value = 1.0} : tensor<f32>
//     %1 = reshape %0 {role = "backward", shape = [1]} : tensor<f32> -> tensor<1xf32>
//     %2 = broadcast_to %1 {grad_of = %p, role = "backward", shape = [4]} : ...
//     %dw = mul0 %2, %x {grad_of = %w, role = "backward"} : tensor<4xf32>
//     return %l, %dw : ...
//   }
#include <mezzo/passes/autodiff.h>

#include <mezzo/ir/error.h>
#include <mezzo/passes/decompose.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/told_of.h>
#include <mezzo/passes/training_step.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace mezzo::passes {

using ir::Attr;
using ir::Builder;
using ir::DType;
using ir::Function;
using ir::Op;
using ir::OpKind;
using ir::Value;
using ir::ValueDef;
using ir::ValueRef;

// --- rules that make nothing

void grad_none(GradContext&) {}
void grad_stop(GradContext&) {}
void grad_parts(GradContext& c) {
  throw InternalError(std::string("'") + c.op().info().name + "' was not decomposed");
}
void grad_gradient(GradContext&) { throw InternalError("an inner 'gradient' was not expanded"); }

GradRule gradient_rule(OpKind kind) {
  static constexpr GradRule kRules[] = {
#define ELEMENTWISE(Kind, name, operands, types, gradient, ...) &grad_##gradient,
#define STRUCTURAL(Kind, name, operands, results, shape, gradient, ...) &grad_##gradient,
#define COMPOSITE(Kind, name, operands, results, shape, gradient, ...) &grad_##gradient,
#include <mezzo/ir/ops.def>
  };
  return kRules[static_cast<size_t>(kind)];
}

Value sum_to_shape(Builder& builder, Value value, const ir::Shape& shape) {
  if (value.shape() == shape) return value;
  int extra = value.shape().rank() - shape.rank();
  std::vector<int64_t> axes;
  for (int i = 0; i < value.shape().rank(); ++i)
    if (i < extra || value.shape()[i] != shape[i - extra]) axes.push_back(i);
  return builder.reshape(axes.empty() ? value : builder.sum(value, axes), shape);
}

namespace {

bool differentiable(const Op& op) {
  GradRule rule = gradient_rule(op.kind());
  return rule != &grad_none && rule != &grad_stop;
}

}  // namespace

// --- the sweep

/// The reverse sweep over one inlined function. Values are known by their definitions in the
/// function that is differentiated: two of its parameters may stand for the same outer value.
class ReverseSweep {
 public:
  ReverseSweep(Function& source, const ir::ValueMap& inlined, Op* place)
      : source_(source), inlined_(inlined), place_(place), builder_(place) {}

  /// Marks what depends on the parameters, then sweeps from the first result with the cotangent
  /// `seed` (1 when empty).
  void run(const std::vector<Value>& parameters, Value seed);
  /// The cotangent of a value of the source function; empty when there is no path to it.
  Value total(Value value);

  Value inlined(Value value) const { return inlined_.at(value.def()); }
  bool active(Value value) const { return active_.count(value.def()) != 0; }
  Op* place() const { return place_; }
  void add(Value value, int operand, Value cotangent);

 private:
  struct Part {
    size_t op;  // place of the use: op of the tape, operand
    int operand;
    Value cotangent;
  };

  void derive(const Op* origin) {
    builder_.derive_from(origin);
    builder_.set_role("backward");
  }
  void start(Value loss, Value seed);
  /// States whose cotangent it is, on backward ops only and once.
  void mark(Value cotangent, Value value);

  Function& source_;
  const ir::ValueMap& inlined_;
  Op* place_;
  Builder builder_;
  std::vector<const Op*> tape_;
  size_t current_ = 0;
  std::unordered_set<const ValueDef*> active_;
  std::unordered_map<const ValueDef*, std::vector<Part>> parts_;
};

void ReverseSweep::mark(Value cotangent, Value value) {
  Op* op = cotangent.op();
  if (!op || op->role() != "backward" || op->attrs().has("grad_of") ||
      !(op->result(0) == cotangent))
    return;  // the attribute speaks of the first result
  if (!(cotangent.type() == value.type())) return;
  op->attrs().set("grad_of", ValueRef{inlined(value).def()});
}

void ReverseSweep::add(Value value, int operand, Value cotangent) {
  MEZZO_CHECK(
      cotangent.dtype() == value.dtype(),
      fmt::format("the gradient of '{}' gives {} for an operand {}", tape_[current_]->info().name,
                  to_string(cotangent.type()), to_string(value.type())));
  cotangent = sum_to_shape(builder_, cotangent, value.shape());
  mark(cotangent, value);
  parts_[value.def()].push_back({current_, operand, cotangent});
}

Value ReverseSweep::total(Value value) {
  auto it = parts_.find(value.def());
  if (it == parts_.end()) return Value();
  std::vector<Part>& parts = it->second;
  if (parts.size() > 1) {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.op != b.op ? a.op < b.op : a.operand < b.operand;
    });
    std::vector<Value> terms;
    for (const Part& part : parts) terms.push_back(part.cotangent);
    derive(value.op() ? inlined(value).op() : inlined(tape_[parts[0].op]->result()).op());
    Value sum = builder_.create(OpKind::AddN, terms)->result();
    sum.op()->attrs().erase("checkpoint");
    mark(sum, value);
    parts.assign(1, {parts[0].op, parts[0].operand, sum});
  }
  return parts[0].cotangent;
}

void ReverseSweep::start(Value loss, Value seed) {
  derive(inlined(loss).op());
  bool made = !seed || seed.dtype() != loss.dtype();
  if (!seed) {
    seed = builder_.constant(loss.type(), 1);
  } else {
    if (seed.shape().rank() != 0 || !is_float(seed.dtype()))
      throw UserError(place_->location(),
                      "gradient: the seed must be a float scalar, not " + to_string(seed.type()));
    seed = builder_.cast(seed, loss.dtype(), "the seed has the type of the loss");
  }
  if (made) mark(seed, loss);
  parts_[loss.def()].push_back({tape_.size(), 0, seed});
}

void ReverseSweep::run(const std::vector<Value>& parameters, Value seed) {
  for (Value parameter : parameters) active_.insert(parameter.def());
  for (const Op& op : source_.body()) {
    if (op.info().has(ir::Trait::Terminator) || !differentiable(op)) continue;
    bool depends = false;
    for (int i = 0; i < op.num_operands() && !depends; ++i) depends = active(op.operand(i));
    if (!depends) continue;
    tape_.push_back(&op);
    for (int i = 0; i < op.num_results(); ++i)
      if (is_float(op.result(i).dtype())) active_.insert(op.result(i).def());
  }
  Value loss = source_.results()[0];
  if (!active(loss)) return;
  start(loss, seed);
  for (current_ = tape_.size(); current_-- > 0;) {
    const Op& op = *tape_[current_];
    bool reached = false;
    for (int i = 0; i < op.num_results(); ++i) reached = reached || total(op.result(i));
    if (!reached) continue;
    Op* before = place_->previous();
    derive(inlined(op.result()).op());
    GradContext context(*this, op, builder_);
    told_of(op, [&] { gradient_rule(op.kind())(context); });
    // What is kept for the backward pass is decided for forward ops alone.
    for (Op* made = before->next(); made != place_; made = made->next())
      made->attrs().erase("checkpoint");
  }
}

Value GradContext::operand(int index) const { return sweep_.inlined(source_.operand(index)); }
Value GradContext::result(int index) const { return sweep_.inlined(source_.result(index)); }
bool GradContext::wants(int index) const { return sweep_.active(source_.operand(index)); }
Value GradContext::cotangent(int index) {
  Value value = sweep_.total(source_.result(index));
  return value ? value : builder.constant(source_.result(index).type(), 0);
}
Op* GradContext::place() const { return sweep_.place(); }
ir::Attrs GradContext::attributes(std::initializer_list<const char*> names) const {
  ir::Attrs attrs;
  for (const char* name : names)
    if (const ir::Attr* attr = source_.attrs().find(name)) attrs.set(name, *attr);
  return attrs;
}
void GradContext::accumulate(int index, Value cotangent) {
  if (wants(index)) sweep_.add(source_.operand(index), index, cotangent);
}

namespace {

// --- expansion of one gradient op

/// Removes optimizer ops that read `gradient`, directly or through the unscaling product, and its
/// share in finite checks.
void leave_out_updates(Value gradient) {
  for (Op* user : gradient.users()) {
    if (user->kind() == OpKind::Mul || user->kind() == OpKind::Cast) {
      leave_out_updates(user->result());
    } else if (user->kind() == OpKind::AllFinite) {
      std::vector<Value> kept = user->operands();
      std::erase(kept, gradient);
      user->set_operands(kept);
    } else if (user->info().has(ir::Trait::Optimizer) && user->operand(1) == gradient) {
      for (int i = 0; i < user->num_results(); ++i)
        user->result(i).replace_all_uses_with(user->operand(user->info().updated_operand(i)));
      user->erase();
    }
  }
}

/// An operand without a path: zeros for whoever reads its gradient, and no update.
Value zero_gradient(Op* gradient, int result, Value operand, PassContext& context) {
  Builder builder(gradient);
  builder.set_location(gradient->location());
  builder.set_role("backward");
  Value zeros = builder.constant(gradient->result(result).type(), 0);
  std::string name(operand.name());
  context.findings.push_back(
      {"no-gradient", gradient->location(),
       fmt::format(
           "'{}' has no path to the loss: its gradient is 0 and optimizers leave it as it is",
           name.empty() ? "operand" : name),
       "use it in the loss, or leave it out of what is differentiated", name});
  return zeros;
}

/// A copy of the body before `gradient`; returns what stands for the function's results.
ir::ValueMap inline_body(Function& source, Op* gradient) {
  std::vector<Value> results = source.results();
  std::unordered_map<const ValueDef*, std::string> outer_names;
  for (size_t i = 0; i < results.size(); ++i) {
    Value outer = gradient->result(static_cast<int>(i));
    if (results[i].op() && !outer.name().empty())
      outer_names.try_emplace(results[i].def(), outer.name());
  }
  NameScope names(*gradient->function());
  ir::ValueMap map;
  for (int i = 0; i < source.num_parameters(); ++i)
    map[source.parameter(i).def()] = gradient->operand(i);
  for (Op& op : source.body()) {
    if (op.info().has(ir::Trait::Terminator)) break;
    Op* copy = ir::clone_op(op, *gradient->region(), gradient, map);
    for (int i = 0; i < op.num_results(); ++i) {
      auto outer = outer_names.find(op.result(i).def());
      copy->result(i).set_name(outer != outer_names.end() ? outer->second
                                                          : names.fresh(op.result(i).name()));
    }
  }
  return map;
}

/// A copy of `source` in which ops that are differentiated by their parts are taken apart; null
/// when there are none.
Function* take_parts(Function& source) {
  auto by_parts = [](const Op& op) { return gradient_rule(op.kind()) == &grad_parts; };
  bool any = false;
  for (const Op& op : source.body()) any = any || by_parts(op);
  if (!any) return nullptr;
  Function* copy = source.module()->add_function(source.name() + ".parts");
  ir::ValueMap map;
  for (Value parameter : source.parameters())
    map[parameter.def()] = copy->add_parameter(parameter.type(), parameter.name());
  Builder builder(copy->body());
  for (Op& op : source.body()) {
    if (!by_parts(op)) {
      ir::clone_op(op, copy->body(), nullptr, map);
      continue;
    }
    std::vector<Value> operands;
    for (Value value : op.operands()) operands.push_back(map.at(value.def()));
    std::vector<ir::Type> types;
    for (Value value : op.results()) types.push_back(value.type());
    builder.derive_from(&op);
    std::vector<Value> results = told_of(
        op, [&] { return decompose_composite({op.kind(), operands, op.attrs(), types}, builder); });
    for (size_t i = 0; i < results.size(); ++i)
      map[op.result(static_cast<int>(i)).def()] = results[i];
  }
  return copy;
}

void expand(Op* gradient, PassContext& context) {
  ir::Module& module = *gradient->module();
  Function& whole = *module.function(gradient->attrs().find("func")->as<ir::Symbol>().name);
  Function* parts = take_parts(whole);
  Function& source = parts ? *parts : whole;
  std::vector<int64_t> wrt = gradient->ints_attr("wrt");
  int first = num_function_results(*gradient);
  ir::ValueMap map = inline_body(source, gradient);
  Value seed;
  if (gradient->bool_attr("seed")) seed = gradient->operand(gradient->num_operands() - 1);

  std::vector<Value> parameters;
  for (size_t i = 0; i < wrt.size(); ++i)
    if (!gradient->result(first + static_cast<int>(i)).unused())
      parameters.push_back(source.parameter(static_cast<int>(wrt[i])));
  ReverseSweep sweep(source, map, gradient);
  sweep.run(parameters, seed);

  std::vector<Value> results = source.results();
  for (int i = 0; i < first; ++i)
    gradient->result(i).replace_all_uses_with(map.at(results[static_cast<size_t>(i)].def()));
  std::vector<Value> without_path;
  for (size_t i = 0; i < wrt.size(); ++i) {
    int index = first + static_cast<int>(i);
    Value outer = gradient->result(index), parameter = source.parameter(static_cast<int>(wrt[i]));
    if (outer.unused()) continue;
    Value inner = sweep.total(parameter);
    if (inner) {
      Builder builder(gradient);
      if (inner.op()) builder.derive_from(inner.op());
      builder.set_role("backward");
      inner = builder.cast(inner, outer.dtype(), "gradients are f32");
    } else {
      inner = zero_gradient(gradient, index, gradient->operand(static_cast<int>(wrt[i])), context);
      without_path.push_back(inner);
    }
    std::string name(outer.name());
    outer.set_name("");
    if (inner.name().empty()) inner.set_name(name);
    outer.replace_all_uses_with(inner);
  }
  gradient->erase();
  if (parts) module.erase_function(parts);
  for (Value zeros : without_path) leave_out_updates(zeros);
}

// --- roles around the gradient

/// Ops that work on the scale alone or unscale by it.
OpSet scale_ops(const ir::Region& body) {
  OpSet out;
  std::unordered_set<const ValueDef*> factors;
  for (Op& op : body)
    if (op.kind() == OpKind::ScaleUpdate) factors.insert(op.operand(0).def());
  for (Op& op : body) {
    bool reads = false;
    for (int i = 0; i < op.num_operands() && !reads; ++i)
      reads = factors.count(op.operand(i).def()) != 0;
    if (!reads || op.kind() == OpKind::Gradient) continue;
    out.insert(&op);
    if (op.kind() == OpKind::Reciprocal || op.kind() == OpKind::Cast)
      factors.insert(op.result().def());
  }
  return out;
}

/// Marks the ops of a training step that do not lead to a gradient: those behind gradients and
/// those that optimizers and verdicts need.
void assign_roles(const TrainingStep& step) {
  const ir::Region& body = step.function->body();
  std::vector<Value> inputs, needed;
  for (Op* gradient : step.gradients)
    for (int i = 0; i < gradient->num_operands(); ++i) inputs.push_back(gradient->operand(i));
  for (Op& op : body)
    if (op.info().has(ir::Trait::Optimizer) || op.info().has(ir::Trait::Effect))
      for (Value value : op.results()) needed.push_back(value);
  std::vector<Value> results = step.function->results();
  for (int i = 0; i < step.function->num_results(); ++i)
    if (step.function->updated_parameter(i)) needed.push_back(results[static_cast<size_t>(i)]);
  OpSet forward = producers_of(body, inputs), update = producers_of(body, needed);
  OpSet scale = scale_ops(body);
  std::unordered_set<const ValueDef*> behind;
  for (Value value : step.read) behind.insert(value.def());
  for (Op& op : body) {
    bool follows = update.count(&op) && !forward.count(&op);
    for (int i = 0; i < op.num_operands() && !follows; ++i)
      follows = behind.count(op.operand(i).def()) != 0;
    if (op.kind() == OpKind::Gradient || op.info().has(ir::Trait::Terminator)) continue;
    if (follows)
      for (Value value : op.results()) behind.insert(value.def());
    if (op.attrs().has("role")) continue;
    if (scale.count(&op))
      op.attrs().set("role", "scale");
    else if (follows)
      op.attrs().set("role", "update");
  }
}

// --- order

/// Expands the gradients of a function after those of the functions that it differentiates or takes
/// as custom gradients.
class Expander {
 public:
  explicit Expander(PassContext& context) : context_(context) {}

  bool run(Function* function) {
    auto [state, fresh] = states_.try_emplace(function, kOpen);
    if (!fresh) return false;
    bool changed = false;
    for (Op& op : function->body()) {
      if (op.kind() != OpKind::Gradient && op.kind() != OpKind::CustomGradient) continue;
      const std::string& name = op.attrs().find("func")->as<ir::Symbol>().name;
      Function* inner = function->module()->function(name);
      auto known = states_.find(inner);
      if (known != states_.end() && known->second == kOpen)
        throw UserError(op.location(),
                        std::string(op.info().name) + ": @" + name + " differentiates itself",
                        "a function may not reach its own gradient");
      changed |= run(inner);
      if (op.kind() == OpKind::CustomGradient) continue;  // its rule puts the function in its place
      expand(&op, context_);
      changed = true;
    }
    states_[function] = kDone;
    return changed;
  }

 private:
  enum State { kOpen, kDone };
  PassContext& context_;
  std::unordered_map<const Function*, State> states_;
};

}  // namespace

bool autodiff(ir::Module& module, PassContext& context) {
  for (const TrainingStep& step : find_training_steps(module)) assign_roles(step);
  bool changed = module.stage() != ir::Stage::Differentiated;
  Expander expander(context);
  std::vector<Function*> functions;  // scratch functions come and go meanwhile
  for (const auto& function : module.functions()) functions.push_back(function.get());
  for (Function* function : functions) changed |= expander.run(function);
  module.set_stage(ir::Stage::Differentiated);
  return changed;
}

}  // namespace mezzo::passes
