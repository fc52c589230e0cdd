// SPDX-License-Identifier: Apache-2.0
#include <codegen/family_runs.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <fuzz/judge.h>
#include <map>

namespace mezzo::test {

using ir::InterpreterTensor;
using ir::OpKind;

namespace {

bool adds(const ir::Op& op) { return op.kind() == OpKind::Sum || op.kind() == OpKind::ScatterAdd; }

/// Rows whose result is one value whatever computes it.
bool gives_one_value(const ir::Op& op) {
  if (op.kind() == OpKind::ScatterAdd) return !ir::is_float(op.result().dtype());
  return op.info().has(ir::Trait::Exact) || op.kind() == OpKind::RandomUniform ||
         op.kind() == OpKind::CheckIndex || op.kind() == OpKind::Yield;
}

/// Whether a kernel has one right result: all ops are exact, and sums are not alone, so that their
/// operands may be chosen to have exact sums.
bool is_exact_kernel(const ir::Region& body) {
  int ops = 0;
  bool exact = true, sums = false;
  for (const ir::Op& op : body) {
    exact &= gives_one_value(op) || adds(op);
    sums |= adds(op) && ir::is_float(op.result().dtype());
    ops += op.kind() != OpKind::Yield;
  }
  return exact && (!sums || ops > 1);
}

/// Inputs in the domain of the row where there is one op; sums of an exact kernel add small whole
/// numbers, which is exact in any order.
std::vector<InterpreterTensor> draw_inputs(const ir::Module& module, uint64_t seed) {
  const ir::Function& function = *module.functions()[0];
  const ir::Region& body = *kernels_of(module).at(0)->body();
  std::vector<const ir::Op*> ops;
  bool sums = false;
  for (const ir::Op& op : body) {
    sums |= adds(op) && ir::is_float(op.result().dtype());
    if (op.kind() != OpKind::Yield) ops.push_back(&op);
  }
  std::vector<InterpreterTensor> inputs;
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Type& type = function.parameter(i).type();
    char domain = 'a';
    for (int o = 0; ops.size() == 1 && o < ops[0]->num_operands(); ++o)
      if (ops[0]->operand(o) == body.parameters()[static_cast<size_t>(i)])
        domain = ops[0]->info().domain_of(o);
    if (domain == 'a' && type.dtype == ir::DType::Bool) domain = 'b';
    inputs.push_back(random_array(domain, type, 7 * seed + static_cast<uint64_t>(i), 0.1));
  }
  if (sums && is_exact_kernel(body))
    for (InterpreterTensor& input : inputs)
      for (double& x : input.floats) x = std::isfinite(x) ? std::round(std::fmod(x, 4)) : 1;
  return inputs;
}

void check_equal(const char* what, const ir::RunResult& got, const ir::RunResult& wanted) {
  INFO(what);
  REQUIRE(got.results.size() == wanted.results.size());
  for (size_t r = 0; r < wanted.results.size(); ++r) {
    const std::string difference = ir::describe_difference(got.results[r], wanted.results[r]);
    CHECK_MESSAGE(difference.empty(), "result " << r << ": " << difference);
  }
  for (size_t w = 0; w < std::max(got.words.size(), wanted.words.size()); ++w)
    CHECK((w < got.words.size() ? got.words[w] : 0) ==
          (w < wanted.words.size() ? wanted.words[w] : 0));
  CHECK(got.index_range == wanted.index_range);
}

/// A value of that shape may stand among the yields of a kernel of that family and space; `column`:
/// it is made of column reductions.
bool may_be_yielded(ir::Family family, const ir::KernelSpace& space, const ir::Shape& shape,
                    bool column) {
  const auto dims = space.space.dims();
  if (column || family == ir::Family::Columns) {
    const int leading = family == ir::Family::Columns ? space.reduced : space.kept();
    std::vector<int64_t> kept(dims.begin() + leading, dims.end());
    if (shape == ir::Shape(kept)) return true;
    kept.insert(kept.begin(), static_cast<size_t>(leading), 1);
    if (shape == ir::Shape(kept) || family != ir::Family::Columns) return shape == ir::Shape(kept);
  }
  if (shape == space.space) return true;
  if (family != ir::Family::Rows && family != ir::Family::RowsColumns) return false;
  std::vector<int64_t> row(dims.begin(), dims.begin() + space.kept());
  if (shape == ir::Shape(row)) return true;
  row.resize(dims.size(), 1);
  return shape == ir::Shape(row);
}

/// The kernel with the same plan, all its values results as far as its family allows; the old
/// results come first. Nothing where there is nothing to add.
std::unique_ptr<ir::Module> with_all_values(const ir::Module& module) {
  const ir::Op& kernel = *kernels_of(module).at(0);
  const ir::Family family = ir::family_of(kernel);
  if (family == ir::Family::Optimizer) return nullptr;
  const ir::KernelSpace space = ir::kernel_space(kernel);
  std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
  const size_t old = yields.size();
  const std::vector<ir::Op*> ops = ir::kernel_ops(kernel);
  const std::unordered_set<const ir::Op*> columns = ir::column_ops(ops);
  for (const ir::Op& op : *kernel.body()) {
    if (op.kind() == OpKind::Yield || op.kind() == OpKind::Constant) continue;
    if (std::find(yields.begin(), yields.end(), op.result()) == yields.end() &&
        may_be_yielded(family, space, op.result().shape(), columns.contains(&op)))
      yields.push_back(op.result());
  }
  if (yields.size() == old) return nullptr;

  auto out = std::make_unique<ir::Module>("all");
  ir::Function* function = out->add_function("f");
  for (int i = 0; i < kernel.num_operands(); ++i)
    function->add_parameter(kernel.operand(i).type(), "x" + std::to_string(i));
  std::vector<ir::Type> types;
  for (ir::Value value : yields) types.push_back(value.type());
  ir::Op* copy = out->make_op(OpKind::Kernel, function->parameters(), types, kernel.attrs(), {});
  copy->set_kernel_name("all");
  copy->set_plan(kernel.plan());
  ir::Module::append(function->body(), copy);
  ir::Region* body = out->make_body(copy);
  ir::ValueMap map;
  for (ir::Value parameter : kernel.body()->parameters())
    map[parameter.def()] = body->add_parameter(parameter.type(), parameter.name());
  for (const ir::Op& op : *kernel.body())
    if (op.kind() != OpKind::Yield) ir::clone_op(op, *body, nullptr, map);
  for (ir::Value& value : yields) value = map.at(value.def());
  ir::Module::append(*body, out->make_op(OpKind::Yield, yields, {}, {}, {}));
  function->set_results(copy->results(), std::vector<ir::Attrs>(types.size()));
  out->set_stage(ir::Stage::Fused);
  return out;
}

/// Judges every op whose operands and result are known: operands of the kernel, constants, yields.
/// Whether all that are not exact were.
bool judge_ops(const ir::Op& kernel, const std::vector<InterpreterTensor>& inputs,
               const ir::RunResult& got, FamilyCounts& counts) {
  std::map<const ir::ValueDef*, const InterpreterTensor*> known;
  std::vector<std::unique_ptr<InterpreterTensor>> constants;
  const ir::Region& body = *kernel.body();
  for (int i = 0; i < body.num_parameters(); ++i)
    known[body.parameter(i).def()] = &inputs[static_cast<size_t>(i)];
  const std::vector<ir::Value> yields = body.terminator()->operands();
  for (size_t r = 0; r < yields.size(); ++r) known[yields[r].def()] = &got.results[r];
  bool all = true;
  for (const ir::Op& op : body) {
    if (op.kind() == OpKind::Yield) continue;
    if (op.kind() == OpKind::Constant) {
      constants.push_back(std::make_unique<InterpreterTensor>(ir::full_tensor(
          op.result().type(), ir::scalar_value(op.result().dtype(), *op.attrs().find("value")))));
      known.try_emplace(op.result().def(), constants.back().get());
      continue;
    }
    std::vector<InterpreterTensor> operands;
    for (ir::Value operand : op.operands())
      if (const auto found = known.find(operand.def()); found != known.end())
        operands.push_back(*found->second);
    const auto result = known.find(op.result().def());
    if (static_cast<int>(operands.size()) < op.num_operands() || result == known.end()) {
      all &= gives_one_value(op);
      continue;
    }
    const Judgement judgement = judge(op, operands, *result->second);
    CHECK_MESSAGE(judgement.difference.empty(), op.info().name << ": " << judgement.difference);
    counts.worst = std::max(counts.worst, judgement.worst);
    ++counts.judged_ops;
  }
  return all;
}

/// A kernel of a program, and the same kernel with all values behind it if `has_all`.
struct Entry {
  std::string name;
  size_t number = 0;
  bool has_all = false;
};

void check_kernel(const Entry& entry, const DeviceProgram& program, uint64_t seed,
                  FamilyCounts& counts) {
  const ir::Module& module = program.module(entry.number);
  const std::vector<InterpreterTensor> inputs = draw_inputs(module, seed);
  INFO(entry.name << "\n" << program.source(entry.number).text);
  try {
    ir::RunResult got = program.run(entry.number, inputs);
    constexpr ptx::BlockOrder kOrders[] = {ptx::BlockOrder::Reversed, ptx::BlockOrder::Random,
                                           ptx::BlockOrder::RoundRobin};
    ptx::Options hostile;
    hostile.order = kOrders[seed % std::size(kOrders)];
    hostile.seed = seed;
    hostile.hostile_divergence = true;
    check_equal("another order of blocks", program.run(entry.number, inputs, hostile), got);
    if (is_exact_kernel(*kernels_of(module).at(0)->body())) {
      ++counts.exact;
      check_equal("the interpreter", got, ir::run(module, *module.functions()[0], inputs));
      return;
    }
    const ir::Op* kernel = kernels_of(module).at(0);
    if (entry.has_all) {
      ir::RunResult all = program.run(entry.number + 1, inputs);
      kernel = kernels_of(program.module(entry.number + 1)).at(0);
      ir::RunResult shared = all;
      shared.results.resize(got.results.size());
      check_equal("the kernel with all values", shared, got);
      got = std::move(all);
    }
    ++(judge_ops(*kernel, inputs, got, counts) ? counts.judged : counts.unjudged);
  } catch (const ptx::Fault& fault) {
    FAIL_CHECK(fault.what());
  }
}

}  // namespace

std::string to_string(const FamilyCounts& counts) {
  std::string text = fmt::format(
      "{} kernels equal the interpreter, {} within bounds ({} ops, worst error / bound "
      "{:.3f})",
      counts.exact, counts.judged, counts.judged_ops, counts.worst);
  if (counts.unjudged > 0) text += fmt::format(", {} only the same in every run", counts.unjudged);
  return text;
}

void run_kernels(std::vector<NamedKernel> kernels, const std::string& arch, FamilyCounts& counts) {
  uint64_t seed = 0;
  for (size_t next = 0; next < kernels.size();) {
    std::vector<std::unique_ptr<ir::Module>> modules;
    std::vector<Entry> entries;
    for (; next < kernels.size() && modules.size() + 2 <= codegen::kMaxKernelsPerProgram; ++next) {
      NamedKernel& each = kernels[next];
      Entry entry{arch + ", " + each.name, modules.size(), false};
      std::unique_ptr<ir::Module> all;
      if (!is_exact_kernel(*kernels_of(*each.module).at(0)->body()))
        all = with_all_values(*each.module);
      modules.push_back(std::move(each.module));
      entry.has_all = all != nullptr;
      if (all) modules.push_back(std::move(all));
      entries.push_back(entry);
    }
    const DeviceProgram program(std::move(modules), arch);
    for (const Entry& entry : entries) check_kernel(entry, program, seed++, counts);
  }
}

}  // namespace mezzo::test
