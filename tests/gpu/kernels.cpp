// SPDX-License-Identifier: Apache-2.0
// Kernels of the test lists of tests/codegen, run by the product's executable on the device: equal
// to the CPU's bit for bit where there is one right result, else each op within the bound of its
// row for the operands that it had.
#include <mezzo/ir/error.h>
#include <support/random_array.h>
#include <support/random_graph.h>

#include <algorithm>
#include <chrono>
#include <codegen/cuda_cases.h>
#include <codegen/product_cases.h>
#include <fuzz/judge.h>
#include <gpu/micro_device.h>
#include <gpu/report.h>
#include <runtime/compiled.h>
#include <unordered_map>

namespace mezzo::gpu {

using ir::InterpreterTensor;
using test::CudaCase;
using test::Outcome;
using test::Tensors;

namespace {

struct FamilyRecord {
  int cases = 0, exact = 0, judged = 0, failed = 0;
  int64_t ops = 0;   // judged
  double worst = 0;  // error / bound
  Json failures = Json::array();
};

runtime::CompileOptions as_written(runtime::DeviceId device) {
  runtime::CompileOptions options;
  options.rounding = "as-written";
  options.disk_cache = false;
  options.device = device;
  return options;
}

/// Computes nothing.
bool is_plain(const ir::Op& op) {
  return op.kind() == ir::OpKind::Constant || op.num_results() == 0;
}

/// In the domain of the op where there is one; for products numbers whose sums stay in range.
Tensors draw_inputs(const ir::Function& function, uint64_t seed) {
  std::vector<const ir::Op*> ops;
  bool product = false;
  for (const ir::Op& op : function.body()) {
    if (!is_plain(op)) ops.push_back(&op);
    product |= op.kind() == ir::OpKind::Matmul;
  }
  Tensors inputs;
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Value parameter = function.parameter(i);
    char domain = product ? 's' : 'a';
    for (int o = 0; ops.size() == 1 && !product && o < ops[0]->num_operands(); ++o)
      if (ops[0]->operand(o) == parameter) domain = ops[0]->info().domain_of(o);
    if (parameter.type().dtype == ir::DType::Bool) domain = 'b';
    inputs.push_back(test::random_array(domain, parameter.type(),
                                        7 * seed + static_cast<uint64_t>(i), product ? 0 : 0.1));
  }
  return inputs;
}

/// The same function with all its values as results, the old ones first.
std::unique_ptr<ir::Module> with_all_values(const ir::Module& module) {
  std::unique_ptr<ir::Module> copy = module.clone();
  ir::Function& function = *copy->functions()[0];
  std::vector<ir::Value> results = function.results();
  for (const ir::Op& op : function.body())
    for (const ir::Value value : op.results())
      if (!is_plain(op) && std::ranges::find(results, value) == results.end())
        results.push_back(value);
  function.set_results(results, std::vector<ir::Attrs>(results.size()));
  return copy;
}

std::string compare(const char* name, const Outcome& got, const Outcome& wanted) {
  for (size_t r = 0; r < wanted.results.size(); ++r)
    if (std::string text = ir::describe_difference(got.results[r], wanted.results[r]);
        !text.empty())
      return fmt::format("{}, result {}: {}", name, r, text);
  if (got.words != wanted.words) return fmt::format("{}: other flag words", name);
  if (got.index_out_of_range != wanted.index_out_of_range)
    return fmt::format("{}: the index flag is {}", name, got.index_out_of_range);
  return "";
}

/// Judges each op by what its operands were in this very run.
std::string judge_all(const ir::Function& function, const Tensors& inputs, const Tensors& got,
                      FamilyRecord& record) {
  std::unordered_map<const ir::ValueDef*, const InterpreterTensor*> known;
  std::vector<std::unique_ptr<InterpreterTensor>> constants;
  for (int i = 0; i < function.num_parameters(); ++i)
    known[function.parameter(i).def()] = &inputs[static_cast<size_t>(i)];
  const std::vector<ir::Value> results = function.results();
  for (size_t r = 0; r < results.size(); ++r) known[results[r].def()] = &got[r];
  for (const ir::Op& op : function.body()) {
    if (op.num_results() == 0) continue;
    if (is_plain(op)) {
      const ir::Type& type = op.result().type();
      constants.push_back(std::make_unique<InterpreterTensor>(
          ir::full_tensor(type, ir::scalar_value(type.dtype, *op.attrs().find("value")))));
      known[op.result().def()] = constants.back().get();
      continue;
    }
    Tensors operands;
    for (const ir::Value operand : op.operands()) operands.push_back(*known.at(operand.def()));
    for (int r = 0; r < op.num_results(); ++r) {
      const test::Judgement judgement = test::judge(op, operands, *known.at(op.result(r).def()), r);
      record.worst = std::max(record.worst, judgement.worst);
      ++record.ops;
      if (!judgement.difference.empty())
        return fmt::format("{}: {}", op.info().name, judgement.difference);
    }
  }
  return "";
}

/// "" where the device is right.
std::string check(const ir::Module& module, uint64_t seed, runtime::DeviceId device,
                  FamilyRecord& record) {
  const ir::Function& function = *module.functions()[0];
  const Tensors inputs = draw_inputs(function, seed);
  const std::string name(function.name());
  const auto run = [&](const ir::Module& what, runtime::DeviceId where) {
    const auto executable = runtime::compile(what.clone(), name, as_written(where));
    return test::run_compiled(*executable, inputs);
  };
  const Outcome got = run(module, device);
  const Outcome cpu = run(module, {});
  bool exact = true;
  size_t ops = 0;
  for (const ir::Op& op : function.body()) {
    exact &= is_plain(op) || test::is_exact(op);
    ops += !is_plain(op);
  }
  if (exact) {
    ++record.exact;
    return compare("CPU", got, cpu);
  }
  ++record.judged;
  if (ops == 1) return judge_all(function, inputs, got.results, record);
  for (size_t r = 0; r < got.results.size(); ++r)
    if (std::string far = test::describe_distance(got.results[r], cpu.results[r]); !far.empty())
      return fmt::format("far from the CPU, result {}: {}", r, far);
  const std::unique_ptr<ir::Module> all = with_all_values(module);
  const Outcome values = run(*all, device);
  return judge_all(*all->functions()[0], inputs, values.results, record);
}

/// Each `share`-th case, from `offset` on.
void check_family(const std::string& family, std::vector<CudaCase> cases, size_t share,
                  const Options& options, Report& report) {
  const auto start = std::chrono::steady_clock::now();
  const runtime::DeviceId device{runtime::DeviceId::Kind::Cuda, options.ordinal};
  FamilyRecord record;
  for (size_t i = share / 2; i < cases.size(); i += share) {
    ++record.cases;
    std::string wrong;
    try {
      wrong = check(*cases[i].module, i, device, record);
    } catch (const Error& error) {
      wrong = error.what();
      renew_after_fault(options.ordinal);
    }
    if (wrong.empty()) continue;
    ++record.failed;
    record.failures.push_back({{"case", cases[i].name}, {"difference", wrong}});
    report.fail(fmt::format("{}, {}: {}", family, cases[i].name, wrong));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.line(
      "  {:14} {:5} cases: {:5} equal the CPU's bits, {:4} within bounds ({} ops, worst "
      "error / bound {:.3f}), {} fail; {:.1f} s",
      family, record.cases, record.exact, record.judged, record.ops, record.worst, record.failed,
      took.count());
  report.json()["kernels"][family] = {{"cases", record.cases},
                                      {"equal_bits", record.exact},
                                      {"within_bounds", record.judged},
                                      {"judged_ops", record.ops},
                                      {"worst_share_of_bound", record.worst},
                                      {"failed", record.failed},
                                      {"failures", record.failures}};
}

std::vector<CudaCase> products(bool quick) {
  std::vector<CudaCase> cases;
  for (const test::PlannedProduct& each : test::fixed_products())
    cases.push_back({each.product.name(), each.product.module()});
  if (quick) return cases;
  // Enough tiles for every multiprocessor, and several slices.
  for (const ir::DType type : {ir::DType::F16, ir::DType::BF16, ir::DType::F32})
    for (const bool turned : {false, true}) {
      const test::ProductCase large{
          .m = 520, .n = 648, .k = 1160, .trans_a = turned, .trans_b = !turned, .type = type};
      cases.push_back({large.name(), large.module()});
      const test::ProductCase deep{.m = 72, .n = 56, .k = 20000, .trans_a = turned, .type = type};
      cases.push_back({deep.name(), deep.module()});
    }
  return cases;
}

std::vector<CudaCase> optimizers() {
  std::vector<CudaCase> cases = test::optimizer_cases();
  cases.push_back(test::many_updates(120));
  return cases;
}

std::vector<CudaCase> random_graphs(int count) {
  std::vector<CudaCase> cases;
  for (int seed = 1; seed <= count; ++seed)
    cases.push_back(
        {fmt::format("seed {}", seed),
         test::random_graph(static_cast<uint64_t>(seed), {.ops = test::GraphOps::Exact})});
  return cases;
}

}  // namespace

void check_kernels(const Options& options, Report& report) {
  report.line("\nkernels: the device against the CPU");
  const auto share = [&](size_t quick) { return options.quick ? quick : size_t{1}; };
  check_family("elementwise", test::elementwise_cases(), share(97), options, report);
  check_family("movement", test::movement_cases(), share(17), options, report);
  check_family("indexing", test::indexing_cases(), share(17), options, report);
  check_family("scatter", test::scatter_cases(), share(9), options, report);
  check_family("rows", test::reduction_cases(), share(29), options, report);
  check_family("columns", test::column_cases(), share(29), options, report);
  check_family("scan", test::scan_cases(), share(29), options, report);
  check_family("sort", test::order_cases(), share(29), options, report);
  check_family("rows and columns", test::rows_columns_cases(), share(9), options, report);
  check_family("column chains", test::column_chain_cases(), share(9), options, report);
  check_family("optimizer", optimizers(), share(9), options, report);
  check_family("products", products(options.quick), share(3), options, report);
  check_family("random graphs", random_graphs(options.quick ? 2 : 200), 1, options, report);
}

}  // namespace mezzo::gpu
