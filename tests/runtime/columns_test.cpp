// SPDX-License-Identifier: Apache-2.0
// Kernels of columns, and of rows and columns, on the device under test against the interpreter:
// the cases of the CUDA back end and random regions, with one thread and with two, whose bits are
// the same.
#include <mezzo/ir/kernel_rules.h>
#include <mezzo/ir/printer.h>
#include <support/random_region.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <codegen/cuda_cases.h>
#include <fuzz/checks.h>
#include <runtime/compiled.h>

namespace mezzo::test {
namespace {

/// A kernel of rows and columns; one of columns that are chained.
bool has_kernel_of(ir::Family family, const runtime::Executable& executable) {
  for (const ir::Op& op : executable.function().body())
    if (op.kind() == ir::OpKind::Kernel && ir::family_of(op) == family &&
        (family != ir::Family::Columns || ir::classify_kernel(op)->chained))
      return true;
  return false;
}

/// Two threads and one give the same bits; the outcome of one, which is also the interpreter's but
/// for roundings if `small_error`. Whether some kernel was of the family.
bool compare(const ir::Module& module, ir::Family family, uint64_t seed, bool small_error) {
  const std::string text = ir::print(module), function = module.functions()[0]->name();
  INFO(text);
  std::vector<Outcome> outcomes;
  bool found = false;
  for (int threads : {1, 2}) {
    runtime::CompileOptions options = in_memory();
    options.rounding = "as-written";
    options.threads = threads;
    auto executable = compile_text(text, function, options);
    const Tensors inputs = inputs_for(executable->function(), seed, {});
    outcomes.push_back(run_compiled(*executable, inputs));
    found = has_kernel_of(family, *executable);
    if (threads > 1 || !small_error) continue;
    const Outcome wanted = run_interpreted(*executable, inputs);
    for (size_t i = 0; i < wanted.results.size(); ++i) {
      CAPTURE(i);
      CHECK(describe_distance(outcomes[0].results[i], wanted.results[i]) == "");
    }
    CHECK(outcomes[0].words == wanted.words);
  }
  for (size_t i = 0; i < outcomes[0].results.size(); ++i)
    CHECK(describe_difference(outcomes[1].results[i], outcomes[0].results[i]) == "");
  return found;
}

/// Random regions as they are, and with every value a result: each op is right for the operands
/// that it had.
void check_regions(RegionFamily drawn, ir::Family family) {
  constexpr int kRegions = 30;
  int found = 0, found_with_all = 0;
  for (uint64_t seed = 1; seed <= kRegions; ++seed) {
    INFO("seed " << seed);
    std::unique_ptr<ir::Module> module = random_region(drawn, seed);
    found += compare(*module, family, seed, false);
    ir::Function& function = *module->functions()[0];
    std::vector<ir::Value> values;
    for (const ir::Op& op : function.body())
      if (op.num_results() == 1 && op.kind() != ir::OpKind::Constant) values.push_back(op.result());
    function.set_results(values, std::vector<ir::Attrs>(values.size()));
    found_with_all += compare(*module, family, seed, false);
    CHECK(check_ops(*module, inputs_for(function, seed, {}), true) == "");
  }
  fmt::print("{} of {} random regions have a kernel of {}, {} with all values\n", found, kRegions,
             ir::to_string(family), found_with_all);
  CHECK(found > kRegions / 3);
  CHECK(found_with_all > kRegions / 3);
}

TEST_CASE("kernels of rows and columns compute what the interpreter does") {
  for (const CudaCase& each : rows_columns_cases()) {
    INFO(each.name);
    CHECK(compare(*each.module, ir::Family::RowsColumns, 3, true));
  }
}

TEST_CASE("chains of reductions over leading axes compute what the interpreter does") {
  for (const CudaCase& each : column_chain_cases()) {
    INFO(each.name);
    const bool chained = compare(*each.module, ir::Family::Columns, 5, true);
    // A kernel of nothing is left alone.
    CHECK((chained || each.module->functions()[0]->parameter(0).type().elements() == 0));
  }
}

TEST_CASE("each op of random regions of rows and columns is right for what it was given") {
  check_regions(RegionFamily::RowsColumns, ir::Family::RowsColumns);
}

TEST_CASE("each op of random regions of columns is right for what it was given") {
  check_regions(RegionFamily::Columns, ir::Family::Columns);
}

}  // namespace
}  // namespace mezzo::test
