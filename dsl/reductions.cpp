// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/reductions.h>

#include <mezzo/dsl/axes.h>
#include <mezzo/dsl/ops.h>
#include <mezzo/dsl/trace.h>

#include <cmath>

namespace mezzo {

using detail::Trace;
using ir::Attr;
using ir::Attrs;
using ir::OpKind;

namespace {

ir::Op* make(OpKind kind, std::initializer_list<Operand> operands, Attrs attrs) {
  const ir::Location location = operands.begin()->location();
  Trace& trace = Trace::require(ir::to_string(kind), location);
  std::vector<ir::Value> values;
  for (const Operand& operand : operands) values.push_back(detail::single(trace, kind, operand));
  return trace.create(kind, values, std::move(attrs), location);
}

Tensor made(const Operand& x, ir::Op* op, int result = 0) {
  return Trace::require(op->info().name, x.location()).tensor(op->result(result));
}

Tensor reduce(OpKind kind, const Operand& x, Axes axes, bool keepdims, Attrs attrs = {}) {
  attrs.set("axes", Attr(detail::reduced_axes(std::move(axes), x.rank())));
  attrs.set("keepdims", keepdims);
  return made(x, make(kind, {x}, std::move(attrs)));
}

Tensor along(OpKind kind, const Operand& x, int64_t axis, Attrs attrs) {
  attrs.set("axis", detail::from_start(axis, x.rank()));
  return made(x, make(kind, {x}, std::move(attrs)));
}

}  // namespace

Tensor prod(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::Prod, x, std::move(axes), keepdims);
}

Tensor argmin(Operand x, int64_t axis, bool keepdims) {
  return along(OpKind::Argmin, x, axis, {{"keepdims", keepdims}});
}

Tensor any(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::AnyOf, x, std::move(axes), keepdims);
}

Tensor all(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::AllOf, x, std::move(axes), keepdims);
}

Tensor count_nonzero(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::CountNonzero, x, std::move(axes), keepdims);
}

Tensor var(Operand x, Axes axes, bool keepdims, VarOptions options) {
  return reduce(OpKind::Var, x, std::move(axes), keepdims, {{"correction", options.correction}});
}

Tensor stddev(Operand x, Axes axes, bool keepdims, VarOptions options) {
  return reduce(OpKind::Stddev, x, std::move(axes), keepdims, {{"correction", options.correction}});
}

Tensor logsumexp(Operand x, Axes axes, bool keepdims) {
  return reduce(OpKind::LogSumExp, x, std::move(axes), keepdims);
}

Tensor norm(Operand x, Axes axes, bool keepdims, NormOptions options) {
  if (options.ord == HUGE_VAL) return max(Operand(abs(x), x.location()), std::move(axes), keepdims);
  return reduce(OpKind::Norm, x, std::move(axes), keepdims, {{"ord", options.ord}});
}

Tensor cumsum(Operand x, int64_t axis, ScanOptions options) {
  return along(OpKind::Cumsum, x, axis,
               {{"reverse", options.reverse}, {"exclusive", options.exclusive}});
}

Tensor cumprod(Operand x, int64_t axis, ScanOptions options) {
  return along(OpKind::Cumprod, x, axis,
               {{"reverse", options.reverse}, {"exclusive", options.exclusive}});
}

Tensor cummax(Operand x, int64_t axis, bool reverse) {
  return along(OpKind::Cummax, x, axis, {{"reverse", reverse}});
}

Tensor cummin(Operand x, int64_t axis, bool reverse) {
  return along(OpKind::Cummin, x, axis, {{"reverse", reverse}});
}

Tensor linear_scan(Operand a, Operand b, int64_t axis, bool reverse) {
  Trace& trace = Trace::require("linear_scan", a.location());
  const std::vector<ir::Value> values =
      detail::promote(trace, OpKind::LinearScan, std::vector{a, b});
  return made(a, trace.create(OpKind::LinearScan, values,
                              {{"axis", detail::from_start(axis, a.rank())}, {"reverse", reverse}},
                              a.location()));
}

Tensor sort(Operand x, int64_t axis, bool descending) {
  return along(OpKind::Sort, x, axis, {{"descending", descending}});
}

Tensor argsort(Operand x, int64_t axis, bool descending) {
  return along(OpKind::Argsort, x, axis, {{"descending", descending}});
}

Tensor sort_by(Operand x, Operand keys, int64_t axis, bool descending) {
  return made(x, make(OpKind::SortBy, {x, keys},
                      {{"axis", detail::from_start(axis, x.rank())}, {"descending", descending}}));
}

TopK topk(Operand x, int64_t k, TopKOptions options) {
  ir::Op* op = make(OpKind::Topk, {x},
                    {{"axis", detail::from_start(options.axis, x.rank())},
                     {"k", k},
                     {"largest", options.largest}});
  return {made(x, op, 0), made(x, op, 1)};
}

}  // namespace mezzo
