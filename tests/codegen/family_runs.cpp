// SPDX-License-Identifier: Apache-2.0
#include <codegen/family_runs.h>

#include <mezzo/ir/builder.h>
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

/// Rows whose result is one value whatever computes it.
bool gives_one_value(const ir::Op& op) {
  return op.info().has(ir::Trait::Exact) || op.kind() == OpKind::RandomUniform ||
         op.kind() == OpKind::CheckIndex || op.kind() == OpKind::Yield;
}

/// What a kernel is given, and how it is judged.
struct Run {
  std::vector<InterpreterTensor> inputs;
  bool exact = true;
};

/// Inputs in the domain of the row where there is one op.
Run draw_run(const ir::Module& module, uint64_t seed) {
  const ir::Function& function = *module.functions()[0];
  const ir::Region& body = *kernels_of(module).at(0)->body();
  Run run;
  std::vector<const ir::Op*> ops;
  bool sums = false;
  for (const ir::Op& op : body) {
    run.exact &= gives_one_value(op) || op.kind() == OpKind::Sum;
    sums |= op.kind() == OpKind::Sum && ir::is_float(op.result().dtype());
    if (op.kind() != OpKind::Yield) ops.push_back(&op);
  }
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Type& type = function.parameter(i).type();
    char domain = 'a';
    for (int o = 0; ops.size() == 1 && o < ops[0]->num_operands(); ++o)
      if (ops[0]->operand(o) == body.parameters()[static_cast<size_t>(i)])
        domain = ops[0]->info().domain_of(o);
    if (domain == 'a' && type.dtype == ir::DType::Bool) domain = 'b';
    run.inputs.push_back(random_array(domain, type, 7 * seed + static_cast<uint64_t>(i), 0.1));
  }
  // Sums of small whole numbers are exact in any order; a sum alone is judged with any numbers.
  run.exact &= !sums || ops.size() > 1;
  if (run.exact && sums)
    for (InterpreterTensor& input : run.inputs)
      for (double& x : input.floats) x = std::isfinite(x) ? std::round(std::fmod(x, 4)) : 1;
  return run;
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

/// Judges every op whose operands and result are known: operands of the kernel, constants, yields.
/// Whether all that are not exact were.
bool judge_ops(const ir::Op& kernel, const Run& run, const ir::RunResult& got,
               FamilyCounts& counts) {
  std::map<const ir::ValueDef*, const InterpreterTensor*> known;
  std::vector<std::unique_ptr<InterpreterTensor>> constants;
  const ir::Region& body = *kernel.body();
  for (int i = 0; i < body.num_parameters(); ++i)
    known[body.parameter(i).def()] = &run.inputs[static_cast<size_t>(i)];
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

void check_kernel(const std::string& name, const DeviceProgram& program, size_t number,
                  uint64_t seed, FamilyCounts& counts) {
  const ir::Module& module = program.module(number);
  const Run run = draw_run(module, seed);
  INFO(name << "\n" << program.source(number).text);
  try {
    const ir::RunResult got = program.run(number, run.inputs);
    constexpr ptx::BlockOrder kOrders[] = {ptx::BlockOrder::Reversed, ptx::BlockOrder::Random,
                                           ptx::BlockOrder::RoundRobin};
    ptx::Options hostile;
    hostile.order = kOrders[seed % std::size(kOrders)];
    hostile.seed = seed;
    hostile.hostile_divergence = true;
    check_equal("another order of blocks", program.run(number, run.inputs, hostile), got);
    if (run.exact) {
      ++counts.exact;
      check_equal("the interpreter", got, ir::run(module, *module.functions()[0], run.inputs));
    } else if (judge_ops(*kernels_of(module).at(0), run, got, counts)) {
      ++counts.judged;
    } else {
      ++counts.unjudged;
    }
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
  for (size_t first = 0; first < kernels.size(); first += codegen::kMaxKernelsPerProgram) {
    const size_t size = std::min(codegen::kMaxKernelsPerProgram, kernels.size() - first);
    std::vector<std::unique_ptr<ir::Module>> modules;
    for (size_t i = first; i < first + size; ++i) modules.push_back(std::move(kernels[i].module));
    const DeviceProgram program(std::move(modules), arch);
    for (size_t i = 0; i < size; ++i)
      check_kernel(arch + ", " + kernels[first + i].name, program, i, first + i, counts);
  }
}

void expose_values(ir::Module& module) {
  ir::Function& function = *module.functions()[0];
  std::vector<ir::Value> results;
  for (ir::Op& op : function.body())
    if (op.kind() != OpKind::Return && op.kind() != OpKind::Constant)
      for (ir::Value value : op.results()) results.push_back(value);
  function.set_results(results, std::vector<ir::Attrs>(results.size()));
}

}  // namespace mezzo::test
