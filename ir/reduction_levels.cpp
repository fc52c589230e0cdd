// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/reduction_levels.h>

#include <mezzo/ir/kernel_region.h>

#include <algorithm>
#include <utility>

namespace mezzo::ir {

ReductionLevels::ReductionLevels(const Op& kernel, const Shape& space, int64_t lines,
                                 int64_t length, const std::unordered_set<const Op*>& left_out,
                                 std::span<const Value> stored)
    : kernel_(kernel), space_(space) {
  std::vector<Op*> ops = kernel_ops(kernel);
  std::erase_if(ops, [&](const Op* op) { return left_out.contains(op); });
  reductions_ = reduction_levels(ops);
  find_line_values(ops, lines, length);
  for (const std::vector<const Op*>& level : reductions_) {
    std::vector<Value> operands;
    for (const Op* op : level) operands.push_back(op->operand(0));
    in_loop_.push_back(ops_behind(std::move(operands)));
  }
  std::vector<Value> roots(stored.begin(), stored.end());
  for (Value value : kernel.body()->terminator()->operands())
    if (!left_out.contains(value.op()) && is_full(value)) roots.push_back(value);
  stores_ = !roots.empty();
  in_loop_.push_back(ops_behind(std::move(roots)));
}

void ReductionLevels::find_line_values(std::span<Op* const> ops, int64_t lines, int64_t length) {
  for (const Op* op : ops) {
    has_f64_ |= op->result().dtype() == DType::F64;
    if (is_reduction(op->kind())) {
      line_values_.insert(op);
      continue;
    }
    // Not larger than a value of the lines: computed once a line. Lines of nothing hold no element
    // of what stands behind their reductions, and no line holds none.
    const int64_t elements = op->result().type().elements();
    const bool reads_line =
        std::ranges::any_of(op->operands(), [&](Value value) { return is_of_line(value); });
    if (reads_line && elements <= lines && elements > 0 &&
        (length != 1 || !(op->result().shape() == space_)))
      line_values_.insert(op);
  }
}

std::unordered_set<const Op*> ReductionLevels::ops_behind(std::vector<Value> roots) const {
  std::unordered_set<const Op*> seen;
  while (!roots.empty()) {
    const Value current = roots.back();
    roots.pop_back();
    if (current.is_parameter() || is_of_line(current) || !seen.insert(current.op()).second)
      continue;
    for (Value operand : current.op()->operands()) roots.push_back(operand);
  }
  return seen;
}

std::vector<Value> ReductionLevels::line_operands(size_t level) const {
  std::vector<Value> out;
  for (const Op& op : *kernel_.body()) {
    if (!in_loop(level).contains(&op)) continue;
    for (Value operand : op.operands())
      if (is_of_line(operand) && !is_reduction(operand.op()->kind())) out.push_back(operand);
  }
  return out;
}

}  // namespace mezzo::ir
