// SPDX-License-Identifier: Apache-2.0
// Rules of arithmetic, comparison and selection. An op on 16-bit values computes in f32 and rounds
// once, so an identity of exact arithmetic that gives an operand back gives its bits back.
#include <mezzo/passes/canonicalize_rules.h>

#include <bit>
#include <cmath>
#include <optional>

namespace mezzo::passes {

namespace {

using ir::Attr;
using ir::Op;
using ir::OpKind;
using ir::Value;

/// The op computes `value`, broadcast to its shape.
bool becomes(Op& op, Value value, Rewriter& rewriter) {
  ir::Builder builder = rewriter.builder(op);
  rewriter.replace(op, builder.broadcast_to(value, op.result().shape()));
  return true;
}

bool becomes(Op& op, double splat, Rewriter& rewriter) {
  ir::Builder builder = rewriter.builder(op);
  rewriter.replace(op, builder.constant(op.result().type(), splat));
  return true;
}

/// The op computes another op of the given operands.
bool becomes(Op& op, OpKind kind, std::initializer_list<Value> operands, Rewriter& rewriter) {
  ir::Builder builder = rewriter.builder(op);
  return becomes(op, builder.make(kind, operands), rewriter);
}

/// A splat with exactly these bits of a double: -0 is not 0.
bool is_splat(Value value, double wanted) {
  std::optional<double> splat = ir::splat_value(value);
  return splat && std::bit_cast<uint64_t>(*splat) == std::bit_cast<uint64_t>(wanted);
}

bool is_float(const Op& op) { return ir::is_float(op.result().dtype()); }

/// Tries both orders of the operands of a commutative op.
template <class F>
bool either(Op& op, F&& accept) {
  return accept(op.operand(0), op.operand(1)) || accept(op.operand(1), op.operand(0));
}

/// x * 1 = x, x * -1 = -x.
bool mul_by_one(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Mul) return false;
  return either(op, [&](Value x, Value y) {
    if (is_splat(y, 1)) return becomes(op, x, rewriter);
    if (is_splat(y, -1)) return becomes(op, OpKind::Neg, {x}, rewriter);
    return false;
  });
}

/// x / 1 = x.
bool div_by_one(Op& op, Rewriter& rewriter) {
  return op.kind() == OpKind::Div && is_splat(op.operand(1), 1) &&
         becomes(op, op.operand(0), rewriter);
}

/// x + (-0.0) = x; x + (+0.0) turns -0 into +0 and stays. Integers: x + 0 = x.
bool add_zero(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Add) return false;
  double zero = is_float(op) ? -0.0 : 0.0;
  return either(op,
                [&](Value x, Value y) { return is_splat(y, zero) && becomes(op, x, rewriter); });
}

/// x - (+0.0) = x, also for x = -0.
bool sub_zero(Op& op, Rewriter& rewriter) {
  return op.kind() == OpKind::Sub && is_splat(op.operand(1), 0.0) &&
         becomes(op, op.operand(0), rewriter);
}

/// -(-x) = x.
bool neg_of_neg(Op& op, Rewriter& rewriter) {
  return op.kind() == OpKind::Neg && op.operand(0).is(OpKind::Neg) &&
         becomes(op, op.operand(0).op()->operand(0), rewriter);
}

/// x + (-y) = x - y and x - (-y) = x + y: one operation, rounded once, either way.
bool add_of_neg(Op& op, Rewriter& rewriter) {
  if (op.kind() == OpKind::Add)
    return either(op, [&](Value x, Value y) {
      return y.is(OpKind::Neg) && becomes(op, OpKind::Sub, {x, y.op()->operand(0)}, rewriter);
    });
  return op.kind() == OpKind::Sub && op.operand(1).is(OpKind::Neg) &&
         becomes(op, OpKind::Add, {op.operand(0), op.operand(1).op()->operand(0)}, rewriter);
}

/// Integers only: x * 0 = 0, x - x = 0, and(x, 0) = xor(x, x) = 0, or(x, -1) = -1, and(x, -1) =
/// or(x, 0) = xor(x, 0) = floor_div(x, 1) = x, and(x, x) = or(x, x) = x, remainder(x, 1) = 0,
/// not(not(x)) = x. floor_div(x, x) is no 1: x may be 0.
bool integer_identities(Op& op, Rewriter& rewriter) {
  if (op.num_results() != 1 || !ir::is_integer(op.result().dtype())) return false;
  const double ones = op.result().dtype() == ir::DType::U8 ? 255 : -1;
  switch (op.kind()) {
    case OpKind::Mul:
      return either(op,
                    [&](Value, Value y) { return is_splat(y, 0) && becomes(op, 0.0, rewriter); });
    case OpKind::Sub:
      return op.operand(0) == op.operand(1) && becomes(op, 0.0, rewriter);
    case OpKind::FloorDiv:
      return is_splat(op.operand(1), 1) && becomes(op, op.operand(0), rewriter);
    case OpKind::Remainder:
      return is_splat(op.operand(1), 1) && becomes(op, 0.0, rewriter);
    case OpKind::BitwiseAnd:
    case OpKind::BitwiseOr: {
      if (op.operand(0) == op.operand(1)) return becomes(op, op.operand(0), rewriter);
      const bool conjunction = op.kind() == OpKind::BitwiseAnd;
      const double keeps = conjunction ? ones : 0, decides = conjunction ? 0 : ones;
      return either(op, [&](Value x, Value y) {
        return (is_splat(y, decides) && becomes(op, decides, rewriter)) ||
               (is_splat(y, keeps) && becomes(op, x, rewriter));
      });
    }
    case OpKind::BitwiseXor:
      if (op.operand(0) == op.operand(1)) return becomes(op, 0.0, rewriter);
      return either(op,
                    [&](Value x, Value y) { return is_splat(y, 0) && becomes(op, x, rewriter); });
    case OpKind::BitwiseNot:
      return op.operand(0).is(OpKind::BitwiseNot) &&
             becomes(op, op.operand(0).op()->operand(0), rewriter);
    default:
      return false;
  }
}

/// f(f(x)) = f(x) for relu, relu6, hard_tanh, abs, sign, floor, ceil, round, trunc; derivatives
/// agree too, at 0 and on bounds as well.
bool idempotent(Op& op, Rewriter& rewriter) {
  return op.info().has(ir::Trait::Idempotent) && op.operand(0).is(op.kind()) &&
         becomes(op, op.operand(0), rewriter);
}

/// maximum(x, x) = minimum(x, x) = x; two halves of a cotangent are the whole.
bool extremum_of_same(Op& op, Rewriter& rewriter) {
  return (op.kind() == OpKind::Maximum || op.kind() == OpKind::Minimum) &&
         op.operand(0) == op.operand(1) && becomes(op, op.operand(0), rewriter);
}

/// where(true, x, y) = x, where(false, x, y) = y, where(c, x, x) = x.
bool where_of_known(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Where) return false;
  if (op.operand(1) == op.operand(2)) return becomes(op, op.operand(1), rewriter);
  std::optional<double> condition = ir::splat_value(op.operand(0));
  return condition && becomes(op, op.operand(*condition != 0 ? 1 : 2), rewriter);
}

/// where(not c, x, y) = where(c, y, x).
bool where_of_not(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Where || !op.operand(0).is(OpKind::LogicalNot)) return false;
  Value condition = op.operand(0).op()->operand(0);
  return becomes(op, OpKind::Where, {condition, op.operand(2), op.operand(1)}, rewriter);
}

/// and(x, true) = or(x, false) = and(x, x) = x, and(x, false) = false, or(x, true) = true.
bool logic_of_known(Op& op, Rewriter& rewriter) {
  bool conjunction = op.kind() == OpKind::LogicalAnd;
  if (!conjunction && op.kind() != OpKind::LogicalOr) return false;
  if (op.operand(0) == op.operand(1)) return becomes(op, op.operand(0), rewriter);
  return either(op, [&](Value x, Value y) {
    std::optional<double> known = ir::splat_value(y);
    if (!known) return false;
    return (*known != 0) == conjunction ? becomes(op, x, rewriter) : becomes(op, *known, rewriter);
  });
}

/// xor(x, false) = x, xor(x, true) = not x, xor(x, x) = false.
bool xor_of_known(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::LogicalXor) return false;
  if (op.operand(0) == op.operand(1)) return becomes(op, 0.0, rewriter);
  return either(op, [&](Value x, Value y) {
    std::optional<double> known = ir::splat_value(y);
    if (!known) return false;
    return *known != 0 ? becomes(op, OpKind::LogicalNot, {x}, rewriter) : becomes(op, x, rewriter);
  });
}

/// not(not x) = x; not(x == y) = (x != y), NaN included. An order has no such rule: not(NaN < 1) is
/// true and NaN >= 1 is false.
bool not_of_known(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::LogicalNot || op.operand(0).is_parameter()) return false;
  Op& inner = *op.operand(0).op();
  switch (inner.kind()) {
    case OpKind::LogicalNot:
      return becomes(op, inner.operand(0), rewriter);
    case OpKind::Eq:
      return becomes(op, OpKind::Ne, {inner.operand(0), inner.operand(1)}, rewriter);
    case OpKind::Ne:
      return becomes(op, OpKind::Eq, {inner.operand(0), inner.operand(1)}, rewriter);
    default:
      return false;
  }
}

/// A cast to the type that is there; the user's own stay, they mark a rounding to be honoured.
bool cast_to_same(Op& op, Rewriter& rewriter) {
  return op.kind() == OpKind::Cast && !op.bool_attr("user") &&
         op.operand(0).dtype() == op.result().dtype() && becomes(op, op.operand(0), rewriter);
}

/// A sum of one is its operand, a sum of two is an `add`: both round once from f32.
bool short_add_n(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::AddN || op.attrs().has("grad_of")) return false;
  if (op.num_operands() == 1) return becomes(op, op.operand(0), rewriter);
  return op.num_operands() == 2 &&
         becomes(op, OpKind::Add, {op.operand(0), op.operand(1)}, rewriter);
}

/// mul0(0, d) = 0 whatever d is; mul0(g, d) = g * d where g is known not to be 0.
bool mul0_of_known(Op& op, Rewriter& rewriter) {
  if (op.kind() != OpKind::Mul0 || op.attrs().has("grad_of")) return false;
  std::optional<double> cotangent = ir::splat_value(op.operand(0));
  if (!cotangent) return false;
  if (*cotangent != 0) return becomes(op, OpKind::Mul, {op.operand(0), op.operand(1)}, rewriter);
  ir::Builder builder = rewriter.builder(op);
  Value zero = builder.constant(op.result().type(), 0);
  // `lint` tells the user of a gradient that is identically zero.
  zero.op()->attrs().set("folded", "mul0");
  rewriter.replace(op, zero);
  return true;
}

/// After differentiation: `stop_gradient` has done its work.
bool stop_gradient_after_autodiff(Op& op, Rewriter& rewriter) {
  return rewriter.differentiated() && op.kind() == OpKind::StopGradient &&
         becomes(op, op.operand(0), rewriter);
}

/// After differentiation: pow(x, 0) = 1, pow(x, 1) = x, pow(x, 2) = square(x), NaN as IEEE 754
/// says. pow(x, 0.5) is not sqrt: they differ at -inf and -0.
bool pow_of_small_integer(Op& op, Rewriter& rewriter) {
  if (!rewriter.differentiated() || op.kind() != OpKind::Pow) return false;
  std::optional<double> power = ir::splat_value(op.operand(1));
  if (!power) return false;
  if (*power == 0) return becomes(op, 1.0, rewriter);
  if (*power == 1) return becomes(op, op.operand(0), rewriter);
  return *power == 2 && becomes(op, OpKind::Square, {op.operand(0)}, rewriter);
}

/// After differentiation: |-x| = |x| (not of u8, where -x wraps and |x| is x), (-x)^2 = x^2.
bool even_of_neg(Op& op, Rewriter& rewriter) {
  bool magnitude = op.kind() == OpKind::Abs && op.result().dtype() != ir::DType::U8;
  if (!rewriter.differentiated() || (!magnitude && op.kind() != OpKind::Square) ||
      !op.operand(0).is(OpKind::Neg))
    return false;
  return becomes(op, op.kind(), {op.operand(0).op()->operand(0)}, rewriter);
}

constexpr RewriteRule kRules[] = {
    mul_by_one,
    div_by_one,
    add_zero,
    sub_zero,
    neg_of_neg,
    add_of_neg,
    integer_identities,
    idempotent,
    where_of_known,
    where_of_not,
    extremum_of_same,
    logic_of_known,
    xor_of_known,
    not_of_known,
    cast_to_same,
    short_add_n,
    mul0_of_known,
    stop_gradient_after_autodiff,
    pow_of_small_integer,
    even_of_neg,
};

}  // namespace

std::span<const RewriteRule> algebra_rules() { return kRules; }

}  // namespace mezzo::passes
