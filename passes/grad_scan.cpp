// SPDX-License-Identifier: Apache-2.0
// Gradient rules of scans. What flows back along an axis is a scan in the other direction; none
// divides, so that zeros are elements like others.
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

constexpr const char* kReason = "a scan is differentiated in f32";

/// The axis of a scan and its direction.
struct Line {
  GradContext& c;
  int axis;
  bool reverse;

  explicit Line(GradContext& context)
      : c(context),
        axis(static_cast<int>(c.op().int_attr("axis"))),
        reverse(c.op().bool_attr("reverse")) {}

  Value widen(Value value) const { return c.builder.widen(value, kReason); }

  /// Of each place the value at the next one in the order of the scan (`ahead`) or at the one
  /// before; 0 where there is none.
  Value neighbour(Value value, bool ahead) const {
    const size_t rank = static_cast<size_t>(value.type().rank()), at = static_cast<size_t>(axis);
    const bool from_higher = ahead != reverse;
    std::vector<int64_t> starts(rank, 0), ends(value.shape().begin(), value.shape().end());
    std::vector<int64_t> low(rank, 0), high(rank, 0), none(rank, 0);
    if (from_higher)
      starts[at] = high[at] = 1;
    else
      ends[at] -= 1, low[at] = 1;
    Value others = c.builder.slice(value, starts, ends);
    return c.builder.make(OpKind::Pad, {others},
                          {{"low", Attr(low)}, {"high", Attr(high)}, {"interior", Attr(none)}});
  }
  Value next(Value value) const { return neighbour(value, true); }
  Value before(Value value) const { return neighbour(value, false); }

  /// y[k] = a[k] y[k+1] + b[k], against the scan.
  Value scan_back(Value a, Value b) const {
    return c.builder.make(OpKind::LinearScan, {a, b}, {{"axis", axis}, {"reverse", !reverse}});
  }

  /// Places that are the first of their lines, bool.
  Value is_first(const Shape& shape) const {
    std::vector<int64_t> dims(static_cast<size_t>(shape.rank()), 1);
    dims[static_cast<size_t>(axis)] = shape[axis];
    Value place = c.builder.make(OpKind::Iota, {}, {{"axis", axis}},
                                 {Type(DType::I32, Shape(std::span<const int64_t>(dims)))});
    const double first = reverse ? static_cast<double>(shape[axis] - 1) : 0;
    return c.make(OpKind::Eq, {place, c.scalar(DType::I32, first)});
  }

  bool nothing() const { return c.operand(0).type().elements() == 0; }
  void accumulate(int operand, Value dx) const {
    c.accumulate(operand, c.builder.cast(dx, c.operand(operand).dtype(), kReason));
  }
};

}  // namespace

void grad_cumsum(GradContext& c) {
  const Line line(c);
  c.accumulate(0, c.builder.make(OpKind::Cumsum, {c.cotangent()},
                                 {{"axis", line.axis},
                                  {"exclusive", c.op().bool_attr("exclusive")},
                                  {"reverse", !line.reverse}}));
}

/// The product of all before an element times s, where s[k] = g[k] + x[k+1] s[k+1] gathers every
/// later product that the element is in; an exclusive product at k is that of the element before.
void grad_cumprod(GradContext& c) {
  const Line line(c);
  if (line.nothing()) return c.accumulate(0, c.cotangent());
  Value x = line.widen(c.operand(0)), g = line.widen(c.cotangent());
  if (c.op().bool_attr("exclusive")) g = line.next(g);
  Value before = c.builder.make(
      OpKind::Cumprod, {x}, {{"axis", line.axis}, {"exclusive", true}, {"reverse", line.reverse}});
  Value gathered = line.scan_back(line.next(x), g);
  line.accumulate(0, c.make(OpKind::Mul0, {gathered, before}));
}

/// db = s and da[k] = s[k] y[k-1], where s[k] = g[k] + a[k+1] s[k+1].
void grad_linear_scan(GradContext& c) {
  const Line line(c);
  if (line.nothing()) {
    for (int operand : {0, 1}) c.accumulate(operand, c.cotangent());
    return;
  }
  Value a = line.widen(c.operand(0)), g = line.widen(c.cotangent());
  Value gathered = line.scan_back(line.next(a), g);
  if (c.wants(0))
    line.accumulate(0, c.make(OpKind::Mul0, {gathered, line.before(line.widen(c.result()))}));
  line.accumulate(1, gathered);
}

/// All that a running extremum gets until the next element beyond it (until a NaN, which stays)
/// goes to the place that made it: of equal elements the first.
void grad_running_extremum(GradContext& c) {
  const Line line(c);
  if (line.nothing()) return c.accumulate(0, c.cotangent());
  Value y = c.result();
  auto changes = [&](Value from, Value to) {
    Value number = c.make(OpKind::LogicalNot, {c.make(OpKind::IsNan, {from})});
    return c.make(OpKind::LogicalAnd, {c.make(OpKind::Ne, {from, to}), number});
  };
  Value g = line.widen(c.cotangent());
  Value zero = c.scalar(g.dtype(), 0), one = c.scalar(g.dtype(), 1);
  Value goes_on = c.make(OpKind::Where,
                         {changes(y, line.next(y)), zero, c.builder.broadcast_to(one, g.shape())});
  Value gathered = line.scan_back(goes_on, g);
  Value made_here =
      c.make(OpKind::LogicalOr, {line.is_first(y.shape()), changes(line.before(y), y)});
  line.accumulate(0, c.make(OpKind::Where, {made_here, gathered, zero}));
}

}  // namespace mezzo::passes
