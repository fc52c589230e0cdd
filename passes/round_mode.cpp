// SPDX-License-Identifier: Apache-2.0
// Makes the rounding mode explicit, so that emitters and the interpreter know one meaning only:
// round where the IR says so.
//
// clang-format off
//   before, mode "excess"                             after
//     %1 = kernel @k0 (%x = %x) {...} : ... {           %1 = kernel @k0 (%x = %x) {...} : ... {
//       %2 = cast %x : tensor<4xf32> -> tensor<4xf16>     %3 = add %x, %x : tensor<4xf32>
//       %3 = add %2, %2 : tensor<4xf16>                   %4 = relu %3 : tensor<4xf32>
//       %4 = relu %3 : tensor<4xf16>                      %5 = cast %4 : tensor<4xf32> -> tensor<4xf16>
//       yield %4 : tensor<4xf16>                          yield %5 : tensor<4xf16>
//     }                                                 }
// clang-format on
//
// Mode "as-written" only records itself. Mode "excess" retypes 16-bit values that stay inside a
// kernel to f32 and drops the casts between them, except casts marked {user}. A value that the
// kernel stores keeps its type, as do its replicas in other kernels: it is computed in f32 and
// rounded once, and every use of it reads the rounded value. Operands of a matmul keep their type:
// it decides how the product is computed. Does nothing where the module has its `rounding` already.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass.h>
#include <mezzo/passes/policy.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace mezzo::passes {

using namespace ir;

namespace {

constexpr const char* kExcess = "excess keeps f32 until a value is stored";

/// Ops whose 16-bit results may be kept in f32: they compute in f32 anyway.
bool may_widen(const Op& op) {
  if (op.kind() == OpKind::Cast) return !op.bool_attr("user");
  if (op.kind() == OpKind::Constant) return false;
  return op.kind() == OpKind::Matmul || is_elementwise(op.kind()) || is_view(op.kind()) ||
         op.info().has(Trait::Reduction) || op.kind() == OpKind::ScatterAdd;
}

/// A matmul reads it, directly or through views.
bool feeds_product(const Op& op) {
  std::vector<const Op*> work{&op};
  while (!work.empty()) {
    const Op* current = work.back();
    work.pop_back();
    for (Op* user : current->result().users()) {
      if (user->kind() == OpKind::Matmul) return true;
      if (is_view(user->kind())) work.push_back(user);
    }
  }
  return false;
}

/// Decides once for a value and all its replicas, so that copies in other kernels round as it does.
class Decision {
 public:
  explicit Decision(const Function& function) {
    for (const Op& op : function.body())
      if (op.kind() == OpKind::Kernel) number(op);
  }

  bool widens(const Op& op) const {
    auto it = numbers_.find(op.result().def());
    return it != numbers_.end() && !fixed_.contains(it->second);
  }

 private:
  /// Replicas are equal ops on equal operands, seen through the kernels that hold them.
  void number(const Op& kernel) {
    const Region& body = *kernel.body();
    for (int i = 0; i < kernel.num_operands(); ++i)
      numbers_[body.parameter(i).def()] = number_of(kernel.operand(i));
    std::unordered_set<const ValueDef*> stored;
    for (Value value : body.terminator()->operands()) stored.insert(value.def());
    // A kernel that only moves has nothing to round, and no place for a cast.
    const bool moves = family_of(kernel) == Family::Movement;
    for (const Op& op : body) {
      if (op.num_results() != 1) continue;
      Value result = op.result();
      size_t number = ids_.try_emplace(key_of(op), next_).first->second;
      if (number == next_) ++next_;
      numbers_[result.def()] = number;
      if (moves || !is_16bit(result.dtype()) || stored.contains(result.def()) || !may_widen(op) ||
          feeds_product(op))
        fixed_.insert(number);
    }
    for (int i = 0; i < kernel.num_results(); ++i)
      numbers_[kernel.result(i).def()] = number_of(body.terminator()->operand(i));
  }

  size_t number_of(Value value) {
    auto [it, fresh] = numbers_.try_emplace(value.def(), next_);
    if (fresh) ++next_;
    return it->second;
  }

  std::string key_of(const Op& op) {
    Attrs attrs = op.attrs();
    attrs.erase("replica");
    std::string key = std::string(op.info().name) + print(attrs) + to_string(op.result().type());
    for (Value operand : op.operands()) key += " " + std::to_string(number_of(operand));
    return key;
  }

  size_t next_ = 0;
  std::unordered_map<std::string, size_t> ids_;
  std::unordered_map<const ValueDef*, size_t> numbers_;
  std::unordered_set<size_t> fixed_;
};

/// Retypes the region of one kernel. `replaced_` maps a 16-bit value to the f32 value that stands
/// for it.
class Widener {
 public:
  Widener(Op& kernel, const Decision& decision) : body_(*kernel.body()), decision_(decision) {
    for (Value value : body_.terminator()->operands()) stored_.insert(value.def());
  }

  void run() {
    std::vector<Op*> done;
    for (Op& op : body_)
      if (op.kind() != OpKind::Yield && rewrite(op)) done.push_back(&op);
    for (size_t i = done.size(); i-- > 0;) done[i]->erase();
    for (Op* constant : constants_)
      if (constant->result().unused()) constant->erase();
  }

 private:
  Value latest(Value value) const {
    auto it = replaced_.find(value.def());
    return it == replaced_.end() ? value : it->second;
  }

  bool rewrite(Op& op) {
    bool widen = op.num_results() == 1 && decision_.widens(op), reads_wide = false;
    for (Value operand : op.operands()) reads_wide |= replaced_.contains(operand.def());
    if (!widen && !reads_wide) return false;
    Builder builder(&op);
    builder.derive_from(&op);
    if (op.num_results() != 1) {  // reads what it read
      for (int i = 0; i < op.num_operands(); ++i)
        op.set_operand(i, read_as(latest(op.operand(i)), op.operand(i).dtype(), builder));
      return false;
    }
    DType dtype = widen ? DType::F32 : op.result().dtype();
    Value value;
    if (op.kind() == OpKind::Cast) {
      Value source = latest(op.operand(0));
      value = source.dtype() == dtype ? source : make_like(op, {source}, dtype, builder);
      if (const Attr* word = op.attrs().find("word"); word && value == source)
        dropped_.emplace(source.def(), *word);
      // A kernel yields what it makes, so that a copy stays where no rounding is left.
      if (value.is_parameter() && stored_.contains(op.result().def()))
        value = builder.make(OpKind::StopGradient, {value});
    } else {
      // A product keeps 16-bit operands; a comparison is exact in f32; what is stored in 16 bits is
      // rounded once, behind the op.
      const bool product = op.kind() == OpKind::Matmul, predicate = !is_float(dtype);
      const DType computed = is_16bit(dtype) && !product && may_widen(op) ? DType::F32 : dtype;
      std::vector<Value> operands;
      for (Value operand : op.operands()) {
        Value now = latest(operand);
        if (is_float(now.dtype()) && !product)
          now = read_as(now, predicate ? DType::F32 : computed, builder);
        operands.push_back(now);
      }
      value = make_like(op, operands, computed, builder);
      if (computed != dtype) value = store_as(value, dtype, builder);
    }
    value.set_name(op.result().name());
    if (widen)
      replaced_.emplace(op.result().def(), value);
    else
      op.result().replace_all_uses_with(value);
    return true;
  }

  /// A cast that cannot overflow carries no word: an operand that is not finite is no
  /// fault of the op that reads it.
  Value read_as(Value value, DType dtype, Builder& builder) {
    if (value.dtype() == dtype) return value;
    if (std::optional<double> splat = value.is_parameter() ? std::nullopt : splat_value(value);
        splat && dtype == DType::F32) {
      constants_.insert(value.op());
      return builder.constant(value.type().with(dtype), *splat);
    }
    Value read = builder.cast(value, dtype, kExcess);
    if (!can_overflow(value.dtype(), dtype)) read.op()->attrs().erase("word");
    return read;
  }

  /// The one rounding of a stored value. Where it may overflow it sets the flag of the op, or of
  /// the nearest op behind an op that has none (relu makes no infinity, what it reads may).
  Value store_as(Value value, DType dtype, Builder& builder) {
    Value stored = builder.cast(value, dtype, kExcess);
    Attrs& attrs = stored.op()->attrs();
    attrs.erase("word");
    if (!can_overflow(value.dtype(), dtype)) return stored;
    std::vector<Value> work{value};
    std::unordered_set<const ValueDef*> seen{value.def()};
    for (size_t i = 0; i < work.size(); ++i) {
      const Attr* word = work[i].is_parameter() ? nullptr : work[i].op()->attrs().find("word");
      if (auto dropped = dropped_.find(work[i].def()); !word && dropped != dropped_.end())
        word = &dropped->second;
      if (word) {
        attrs.set("word", *word);
        break;
      }
      if (work[i].is_parameter()) continue;
      for (Value operand : work[i].op()->operands())
        if (is_float(operand.dtype()) && seen.insert(operand.def()).second) work.push_back(operand);
    }
    return stored;
  }

  static Value make_like(const Op& op, std::span<const Value> operands, DType dtype,
                         Builder& builder) {
    Type type = op.result().type().with(dtype);
    Op* copy = builder.create(op.kind(), operands, op.attrs(), std::span(&type, 1));
    copy->set_origin(op.origin());
    return copy->result();
  }
  static Value make_like(const Op& op, std::initializer_list<Value> operands, DType dtype,
                         Builder& builder) {
    return make_like(op, std::span(operands.begin(), operands.size()), dtype, builder);
  }

  Region& body_;
  const Decision& decision_;
  std::unordered_set<const ValueDef*> stored_;
  std::unordered_map<const ValueDef*, Attr> dropped_;  // flags of the casts that are gone
  std::unordered_set<Op*> constants_;                  // 16-bit ones that are read in f32 now
  std::unordered_map<const ValueDef*, Value> replaced_;
};

}  // namespace

bool round_mode(Module& module, PassContext& context) {
  std::string mode = context.options.get_string("mode", "excess");
  check_rounding(mode);
  if (module.attrs().has("rounding")) {
    std::string recorded = module.attrs().get_string("rounding");
    if (recorded != mode && context.options.has("mode"))
      throw UserError(
          {}, "round-mode: the module is rounded \"" + recorded + "\", not \"" + mode + "\"",
          "give the mode to the first round-mode of the pipeline");
    return false;
  }
  if (module.stage() < Stage::Fused)
    throw UserError({},
                    std::string("round-mode: nothing is fused yet, the module has stage ") +
                        ir::to_string(module.stage()),
                    "move 'round-mode' after 'fuse'");
  module.attrs().set("rounding", mode);
  if (mode == "excess")
    for (const auto& function : module.functions()) {
      Decision decision(*function);
      for (Op& op : function->body())
        if (op.kind() == OpKind::Kernel) Widener(op, decision).run();
    }
  return true;
}

}  // namespace mezzo::passes
