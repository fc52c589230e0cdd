// SPDX-License-Identifier: Apache-2.0
// Rules of kernels (what each family of kernel_families.def may hold) and of memory.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/kernel_rules.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/verifier_rules.h>

#include <algorithm>
#include <unordered_map>

namespace mezzo::ir {

namespace {

bool is_reduction(const Op& op) { return is_reduction(op.kind()); }

/// What may stand in any region: "" or why not.
std::string unfit_everywhere(const Op& op) {
  if (op.kind() == OpKind::Constant && !splat_value(op.result())) return "is no splat";
  if (op.kind() == OpKind::Reshape && !is_unit_reshape(op))
    return "changes more than axes of length 1, from " + to_string(op.operand(0).type()) + " to " +
           to_string(op.result().type());
  switch (op.kind()) {
    case OpKind::Kernel:
    case OpKind::Gradient:
    case OpKind::AllFinite:
    case OpKind::Verdict:
      return "may not stand inside a kernel";
    default:
      return "";
  }
}

bool fits_family(const Op& op, Family family) {
  if (op.kind() == OpKind::Yield) return true;
  switch (family) {
    case Family::Elementwise:
    case Family::Optimizer:
      return is_pointwise(op);
    case Family::Rows:
    case Family::RowsColumns:
      return is_pointwise(op) || is_reduction(op);
    case Family::Columns:
      return is_pointwise(op) || (is_reduction(op) && op.kind() != OpKind::Argmax);
    case Family::Scan:
      return is_pointwise(op) || is_scan(op.kind());
    case Family::Sort:
      return is_pointwise(op) || is_order(op.kind());
    case Family::Matmul:
      return is_pointwise(op) || op.kind() == OpKind::Matmul;
    case Family::Scatter:
      return is_pointwise(op) || op.kind() == OpKind::ScatterAdd;
    case Family::Movement:
      return is_movement(op.kind());
  }
  return false;
}

std::string axes_text(const std::vector<int64_t>& axes) {
  std::string out;
  for (int64_t axis : axes) out += (out.empty() ? "[" : ", ") + std::to_string(axis);
  return out.empty() ? "[]" : out + "]";
}

/// All reductions of a rows or columns kernel run over the same axes of one space, the last or the
/// first ones.
void check_reductions(VerifierContext& context, const Op& kernel, Family family) {
  const Op* first = nullptr;
  for (const Op& op : *kernel.body()) {
    if (!is_reduction(op)) continue;
    std::vector<int64_t> axes = reduced_axes(op);
    if (!first) {
      first = &op;
      int64_t rank = op.operand(0).type().rank(), count = static_cast<int64_t>(axes.size());
      int64_t start = family == Family::Rows ? rank - count : 0;
      for (int64_t i = 0; i < count; ++i)
        if (axes[static_cast<size_t>(i)] != start + i) {
          context.report(op, "reduces axes " + axes_text(axes) + " of rank " +
                                 std::to_string(rank) + "; " + with_article(to_string(family)) +
                                 " kernel reduces the " +
                                 (family == Family::Rows ? "last" : "first") + " axes");
          break;
        }
      continue;
    }
    if (axes != reduced_axes(*first))
      context.report(op, "reduces axes " + axes_text(axes) + ", another op of the kernel " +
                             axes_text(reduced_axes(*first)));
    if (!(op.operand(0).shape() == first->operand(0).shape()))
      context.report(op, "reduces " + to_string(op.operand(0).type()) +
                             ", another op of the kernel " + to_string(first->operand(0).type()));
  }
  if (!first) context.report(kernel, with_article(to_string(family)) + " kernel has no reduction");
}

/// Row reductions over the same last axes of one space, column reductions over all others, of each
/// kind one at least; what column reductions give enters neither a reduction nor the rows.
void check_rows_columns(VerifierContext& context, const Op& kernel) {
  const KernelSpace space = kernel_space(kernel);
  bool rows = false, columns = false;
  for (const Op& op : *kernel.body()) {
    if (!is_reduction(op)) continue;
    const std::vector<int64_t> axes = reduced_axes(op);
    const int64_t rank = op.operand(0).type().rank(), count = std::ssize(axes);
    const bool last = reduces_last_axes(op);
    const bool fits = last ? count == space.reduced && count < rank
                           : count > 0 && count == space.kept() && axes.back() == count - 1;
    if (!(op.operand(0).shape() == space.space))
      context.report(op, "reduces " + to_string(op.operand(0).type()) +
                             ", another op of the kernel values of " + to_string(space.space));
    else if (!fits)
      context.report(op, "reduces axes " + axes_text(axes) + " of rank " + std::to_string(rank) +
                             "; a rows_columns kernel reduces the last axes or exactly the others");
    else if (!last && op.kind() == OpKind::Argmax)
      context.report(op, "may not run over the first axes");
    (last ? rows : columns) = true;
  }
  if (!rows) context.report(kernel, "a rows_columns kernel has no reduction over the last axes");
  if (!columns)
    context.report(kernel, "a rows_columns kernel has no reduction over the first axes");
  const std::vector<Op*> ops = kernel_ops(kernel);
  const std::unordered_set<const Op*> behind = column_ops(ops);
  for (const Op* op : ops) {
    const bool reads = std::ranges::any_of(op->operands(), [&](Value value) {
      return !value.is_parameter() && behind.contains(value.op());
    });
    if (reads && is_reduction(*op))
      context.report(*op, "reduces what is known only after the last row");
  }
}

/// The ops of a region that `yields` need, in program order, which `number` gives.
KernelOps producers_inside(const std::unordered_map<const Op*, int>& number,
                           std::span<const Value> yields) {
  std::unordered_set<Op*> needed;
  std::vector<Value> work(yields.begin(), yields.end());
  while (!work.empty()) {
    Value value = work.back();
    work.pop_back();
    if (value.is_parameter() || !needed.insert(value.op()).second) continue;
    for (Value operand : value.op()->operands()) work.push_back(operand);
  }
  KernelOps ops(needed.begin(), needed.end());
  std::ranges::sort(ops, {}, [&](const Op* op) { return number.at(op); });
  return ops;
}

/// A segment runs over one space. Segments are what is connected, so two that share more than
/// parameters, constants and scalars are one here.
void check_segments(VerifierContext& context, const Op& kernel) {
  std::unordered_map<const Op*, int> number;
  for (const Op& op : *kernel.body()) number.emplace(&op, static_cast<int>(number.size()));
  for (const std::vector<Value>& segment : optimizer_segments(kernel)) {
    auto other = std::ranges::find_if(
        segment, [&](Value value) { return !(value.shape() == segment.front().shape()); });
    if (other != segment.end())
      context.report(kernel, "one segment yields " + context.name(segment.front()) + " of " +
                                 to_string(segment.front().type()) + " and " +
                                 context.name(*other) + " of " + to_string(other->type()) +
                                 "; segments share only parameters, constants and scalars");
    else if (!classify(producers_inside(number, segment), segment))
      context.report(kernel, "the segment that yields " + context.name(segment.front()) +
                                 " reads a value of its own along two ways");
  }
}

/// Every value that a kernel makes runs along its space in one way. (`sum` over the last axis of a
/// square, subtracted from the square, would be the sum of another row.)
void check_maps(VerifierContext& context, const Op& kernel, Family family) {
  std::optional<Classified> found = classify_kernel(kernel);
  bool copies = found && found->family == Family::Movement && family == Family::Elementwise;
  if (found && (found->family == family || copies)) return;
  context.report(
      kernel,
      found ? std::string("is of family ") + to_string(found->family) + ", not " + to_string(family)
            : std::string("fits no family: a value is read along two ways or not at all, or yields "
                          "have other shapes than the space of ") +
                  with_article(to_string(family)) + " kernel");
}

void check_family(VerifierContext& context, const Op& kernel, Family family) {
  int products = 0, scatters = 0, along_axis = 0;
  for (const Op& op : *kernel.body()) {
    if (std::string why = unfit_everywhere(op); !why.empty())
      context.report(op, why);
    else if (!fits_family(op, family))
      context.report(op, std::string("may not stand in a kernel of family ") + to_string(family));
    products += op.kind() == OpKind::Matmul;
    scatters += op.kind() == OpKind::ScatterAdd;
    along_axis += is_scan(op.kind()) || is_order(op.kind());
  }
  if (family == Family::Matmul && products != 1)
    context.report(kernel, "has " + counted(products, "product") + ", not 1");
  if (family == Family::Scatter && scatters != 1)
    context.report(kernel, "has " + counted(scatters, "scatter") + ", not 1");
  if ((family == Family::Scan || family == Family::Sort) && along_axis != 1)
    context.report(kernel, "has " + counted(along_axis, "op") + " along an axis, not 1");
  if (family == Family::Rows || family == Family::Columns)
    check_reductions(context, kernel, family);
  if (family == Family::RowsColumns) check_rows_columns(context, kernel);
  if (!context.sound()) return;
  if (family == Family::Optimizer)
    check_segments(context, kernel);
  else
    check_maps(context, kernel, family);
}

void check_binding(VerifierContext& context, const Op& kernel) {
  const Region& body = *kernel.body();
  if (body.num_parameters() != kernel.num_operands())
    return context.report(kernel, "binds " + counted(body.num_parameters(), "name") + " to " +
                                      counted(kernel.num_operands(), "operand"));
  for (int i = 0; i < kernel.num_operands(); ++i)
    if (!(body.parameter(i).type() == kernel.operand(i).type()))
      context.report(kernel, "operand " + std::to_string(i) + " is " +
                                 to_string(kernel.operand(i).type()) + ", its inner name " +
                                 to_string(body.parameter(i).type()));
}

void check_yield(VerifierContext& context, const Op& kernel) {
  const Op* yield = kernel.body()->terminator();
  if (!yield) return;  // found with the terminators
  if (yield->num_operands() != kernel.num_results())
    return context.report(kernel, "yields " + counted(yield->num_operands(), "value") + " for " +
                                      counted(kernel.num_results(), "result"));
  for (int i = 0; i < yield->num_operands(); ++i) {
    Value value = yield->operand(i);
    if (!(value.type() == kernel.result(i).type()))
      context.report(kernel, "result " + std::to_string(i) + " is " +
                                 to_string(kernel.result(i).type()) + ", but yields " +
                                 to_string(value.type()));
    if (value.is_parameter()) context.report(kernel, "yields its parameter " + context.name(value));
  }
}

}  // namespace

void verify_kernels(VerifierContext& context) {
  std::unordered_set<std::string_view> names;
  for (const Op& op : context.function().body()) {
    if (op.kind() != OpKind::Kernel) {
      if (op.body()) context.report(op, "has a body, but is no kernel");
      continue;
    }
    if (!names.insert(op.kernel_name()).second) context.report(op, "another kernel has this name");
    if (!op.body()) {
      context.report(op, "has no body");
      continue;
    }
    check_binding(context, op);
    check_yield(context, op);
    const Attr* attr = op.attrs().find("family");
    std::optional<Family> family =
        attr && attr->is<std::string>() ? parse_family(attr->as<std::string>()) : std::nullopt;
    if (family)
      check_family(context, op, *family);
    else
      context.report(op, "attribute 'family' is missing or unknown");
  }
}

void verify_places(VerifierContext& context) {
  if (!context.at_least(Stage::Planned)) return;
  // The parameter that a value shares storage with, and who overwrote it.
  std::unordered_map<const ValueDef*, const ValueDef*> storage;
  std::unordered_map<const ValueDef*, const Op*> writer;
  auto storage_of = [&](Value value) {
    auto it = storage.find(value.def());
    return it == storage.end() ? value.def() : it->second;
  };
  for (const Op& op : context.function().body()) {
    if (op.kind() == OpKind::Kernel && !op.has_plan()) context.report(op, "has no plan");
    for (int i = 0; i < op.num_operands(); ++i) {
      auto it = writer.find(storage_of(op.operand(i)));
      if (it != writer.end())
        context.report(op, "reads " + context.name(op.operand(i)) + " after @" +
                               it->second->kernel_name() + " has overwritten it");
    }
    if (op.kind() == OpKind::Reshape) storage[op.result().def()] = storage_of(op.operand(0));
    const Attr* places = op.attrs().find("places");
    const bool stores = op.kind() == OpKind::AllFinite || op.kind() == OpKind::Verdict ||
                        (op.kind() == OpKind::Kernel && op.has_plan());
    if (stores && !places) context.report(op, "has no places for its results");
    if (!places || !places->is<AttrList>()) continue;
    const AttrList& list = places->as<AttrList>();
    if (list.size() != static_cast<size_t>(op.num_results()))
      context.report(op, "has " + counted(list.size(), "place") + " for " +
                             counted(op.num_results(), "result"));
    std::optional<InPlaceRule> rule;
    for (size_t i = 0; i < list.size(); ++i) {
      const Attr& place = list[i];
      if (!place.is<ValueRef>()) continue;
      if (!writer.emplace(place.as<ValueRef>().value, &op).second)
        context.report(op, "overwrites " + context.name(place.as<ValueRef>().value) + ", which @" +
                               writer.at(place.as<ValueRef>().value)->kernel_name() +
                               " has overwritten already");
      if (op.kind() != OpKind::Kernel || !context.sound()) continue;
      if (!rule) rule.emplace(op);
      Value target(place.as<ValueRef>().value);
      if (!rule->allows(static_cast<int>(i), target))
        context.report(
            op, "overwrites " + context.name(target) + " while other elements of it are read");
    }
  }
}

}  // namespace mezzo::ir
