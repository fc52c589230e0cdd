// SPDX-License-Identifier: Apache-2.0
// The shrinker: tries a smaller module again and again, and keeps it where the fault stays.
#include <support/random_graph.h>

#include <algorithm>

namespace mezzo::test {

using ir::Op;
using ir::Value;

namespace {

void erase_unread(ir::Function& function) {
  std::vector<Op*> ops;
  for (Op& op : function.body()) ops.push_back(&op);
  for (size_t i = ops.size(); i-- > 0;) {
    if (ops[i] == function.body().terminator()) continue;
    bool unread = true;
    for (Value result : ops[i]->results()) unread &= result.unused();
    if (unread) ops[i]->erase();
  }
}

/// A copy whose function takes only parameters that are read.
std::unique_ptr<ir::Module> without_unread_parameters(const ir::Module& module) {
  auto copy = std::make_unique<ir::Module>(module.name());
  const ir::Function& from = *module.functions()[0];
  ir::Function* to = copy->add_function(from.name());
  ir::ValueMap map;
  for (Value parameter : from.parameters())
    if (!parameter.unused())
      map[parameter.def()] = to->add_parameter(parameter.type(), parameter.name());
  std::vector<Value> results;
  for (const Op& op : from.body())
    if (&op != from.body().terminator()) ir::clone_op(op, to->body(), nullptr, map);
  for (Value result : from.results()) results.push_back(map.at(result.def()));
  to->set_results(results, std::vector<ir::Attrs>(results.size()));
  return copy;
}

/// A copy of `module` with only those results of `@f` that `keep` names.
std::unique_ptr<ir::Module> with_results(const ir::Module& module, const std::vector<int>& keep) {
  std::unique_ptr<ir::Module> copy = module.clone();
  ir::Function& function = *copy->functions()[0];
  std::vector<Value> all = function.results(), kept;
  for (int index : keep) kept.push_back(all[static_cast<size_t>(index)]);
  function.set_results(kept, std::vector<ir::Attrs>(kept.size()));
  erase_unread(function);
  return copy;
}

std::string free_name(const ir::Function& function) {
  for (int number = 0;; ++number) {
    std::string name = "s" + std::to_string(number);
    bool taken = false;
    for (Value parameter : function.parameters()) taken |= parameter.name() == name;
    if (!taken) return name;
  }
}

/// A copy where uses of the results of op number `index` read a parameter of the same type, or
/// operand `operand` where that is not negative; null where that cannot be.
std::unique_ptr<ir::Module> without_op(const ir::Module& module, int index, int operand) {
  std::unique_ptr<ir::Module> copy = module.clone();
  ir::Function& function = *copy->functions()[0];
  Op* op = function.body().front();
  for (int i = 0; i < index; ++i) op = op->next();
  if (op->num_results() == 0 || operand >= op->num_operands()) return nullptr;
  for (Value result : op->results()) {
    if (result.unused()) continue;
    if (operand >= 0 && !(op->operand(operand).type() == result.type())) return nullptr;
    Value stand_in = operand >= 0 ? op->operand(operand)
                                  : function.add_parameter(result.type(), free_name(function));
    result.replace_all_uses_with(stand_in);
  }
  erase_unread(function);
  return copy;
}

}  // namespace

std::unique_ptr<ir::Module> shrink(const ir::Module& module,
                                   const std::function<bool(const ir::Module&)>& fails) {
  std::unique_ptr<ir::Module> best = module.clone();
  int tries = 400;
  auto better = [&](std::unique_ptr<ir::Module> candidate) {
    if (!candidate || tries <= 0) return false;
    --tries;
    if (!fails(*candidate)) return false;
    best = std::move(candidate);
    return true;
  };
  // Halves of the results, then one after another.
  for (int size = (best->functions()[0]->num_results() + 1) / 2; size >= 1; size /= 2) {
    for (int start = 0; start < best->functions()[0]->num_results();) {
      int count = best->functions()[0]->num_results();
      std::vector<int> keep;
      for (int i = 0; i < count; ++i)
        if (i < start || i >= start + size) keep.push_back(i);
      if (keep.empty() || !better(with_results(*best, keep))) start += size;
    }
  }
  for (bool changed = true; changed && tries > 0;) {
    changed = false;
    for (int index = static_cast<int>(best->functions()[0]->body().count()) - 1; index >= 0;
         --index) {
      if (index >= best->functions()[0]->body().count() - 1) continue;
      // By an operand first: nothing new comes in.
      for (int operand : {0, 1, 2, -1})
        if (better(without_op(*best, index, operand))) {
          changed = true;
          break;
        }
    }
  }
  return without_unread_parameters(*best);
}

}  // namespace mezzo::test
