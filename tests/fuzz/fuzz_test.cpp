// SPDX-License-Identifier: Apache-2.0
// Random graphs: passes keep values, kernels are what the interpreter says. A failing graph is
// shrunk and printed with its seed. MEZZO_FUZZ_GRAPHS: graphs a test case (default 20; from 200 on
// every family must stand in one graph of 100, from 500 on every elementwise row in 50 graphs);
// MEZZO_FUZZ_SEED: the first seed (default 1).
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fuzz/checks.h>
#include <limits>
#include <vector>

namespace mezzo::test {

namespace {

constexpr int64_t kQuickGraphs = 20, kManyGraphs = 200, kLongGraphs = 500;
constexpr int kLeastGraphs = 50;

int64_t from_environment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : fallback;
}

int64_t wanted_graphs() { return from_environment("MEZZO_FUZZ_GRAPHS", kQuickGraphs); }

using Check = std::function<std::string(const ir::Module&, const Tensors&)>;

/// Checks `share` percent of the wanted number of graphs; the first three failures are shrunk.
void for_graphs(const char* name, const GraphOptions& options, int share, Records* records,
                const Check& check) {
  int64_t graphs = std::max<int64_t>(1, wanted_graphs() * share / 100);
  int64_t first = from_environment("MEZZO_FUZZ_SEED", 1);
  int failures = 0;
  for (int64_t seed = first; seed < first + graphs && failures < 3; ++seed) {
    auto number = static_cast<uint64_t>(seed);
    std::unique_ptr<ir::Module> module = random_graph(number, options);
    if (records) count_ops(*module, *records);
    auto fault = [&](const ir::Module& each) {
      return guarded([&] { return check(each, random_inputs(*each.functions()[0], number)); });
    };
    std::string found = fault(*module);
    if (found.empty()) continue;
    ++failures;
    // A wrong value must not shrink to an exception.
    auto same_kind = [&](const ir::Module& each) {
      std::string now = fault(each);
      return !now.empty() && now.starts_with("exception") == found.starts_with("exception");
    };
    std::unique_ptr<ir::Module> small = shrink(*module, same_kind);
    FAIL_CHECK(name << ", seed " << seed << ": " << found << "\nshrunk: " << fault(*small) << "\n"
                    << ir::print(*small));
  }
}

std::string line_of(const std::string& op, const OpRecord& record) {
  return fmt::format("\n  {:18} {:6}  error/bound {:6.3f}  worst ulp {:9.3f}", op, record.graphs,
                     record.worst, record.worst_ulp);
}

/// Prints how many graphs held each op, with the errors seen where `errors`, and asserts for long
/// runs that each elementwise row, or each exact one, stood in enough of them.
void report(const char* name, GraphOps ops, bool errors, Records& records) {
  std::string text = fmt::format("{}: graphs by op", name);
  std::pair<int, std::string> least{std::numeric_limits<int>::max(), ""};
  for (const ir::OpInfo& info : ir::all_ops()) {
    bool exact = info.has(ir::Trait::Exact);
    if (info.op_class != ir::OpClass::Elementwise || (ops == GraphOps::Exact && !exact)) continue;
    int graphs = records[info.name].graphs;
    least = std::min(least, {graphs, info.name});
    if (wanted_graphs() >= kLongGraphs)
      CHECK_MESSAGE(graphs >= kLeastGraphs, fmt::format("{}: {} is too rare", name, info.name));
  }
  size_t column = 0;
  for (const auto& [op, record] : records) {
    if (errors)
      text += line_of(op, record);
    else
      text += fmt::format("{}{:18} {:6}", column++ % 4 ? "    " : "\n  ", op, record.graphs);
  }
  fmt::print("{}\n  rarest elementwise row: {} in {} graphs\n", text, least.second, least.first);
}

/// Ops that are no elementwise rows, any of which tells that the generator still draws their
/// family.
const std::vector<std::vector<const char*>> kFamilies = {
    {"conv"},      {"max_pool"},      {"layer_norm"}, {"batch_norm"}, {"rnn", "lstm", "gru"},
    {"attention"}, {"gather"},        {"sort"},       {"cumsum"},     {"matmul"},
    {"softmax"},   {"cross_entropy"},
};

/// For runs of many graphs: each family stood in one of a hundred at least.
void check_families(const char* name, const Records& records) {
  if (wanted_graphs() < kManyGraphs) return;
  for (const std::vector<const char*>& family : kFamilies) {
    int64_t graphs = 0;
    for (const char* op : family)
      if (auto found = records.find(op); found != records.end()) graphs += found->second.graphs;
    CHECK_MESSAGE(
        graphs >= wanted_graphs() / 100,
        fmt::format("{}: {} stood in {} of {} graphs", name, family[0], graphs, wanted_graphs()));
  }
}

}  // namespace

TEST_CASE("random graphs print, read back and verify, and every pass keeps their values") {
  for_graphs("passes", {.ops = GraphOps::Exact}, 200, nullptr,
             [](const ir::Module& module, const Tensors& inputs) {
               std::string text = ir::print(module);
               if (ir::print(*ir::parse(text)) != text) return std::string("reads back otherwise");
               return check_passes(module, inputs, true);
             });
  for_graphs("passes", {.ops = GraphOps::All}, 100, nullptr,
             [](const ir::Module& module, const Tensors& inputs) {
               return check_passes(module, inputs, false);
             });
}

TEST_CASE("exact graphs as written: fused, unfused, one and two threads equal the interpreter") {
  Records records;
  for_graphs("exact", {.ops = GraphOps::Exact}, 100, &records, check_exact);
  report("exact", GraphOps::Exact, false, records);
}

TEST_CASE(
    "exact graphs of large tensors: two threads give the bits of one and of the interpreter") {
  int64_t threaded = 0;
  GraphOptions options{.ops = GraphOps::Exact, .least_ops = 5, .most_ops = 12, .large = true};
  for_graphs("threads", options, 10, nullptr, [&](const ir::Module& module, const Tensors& inputs) {
    return check_threads(module, inputs, threaded);
  });
  fmt::print("threads: {} kernels ran on two threads\n", threaded);
  CHECK(threaded > 0);
}

TEST_CASE("exact graphs in excess precision equal the interpreter on the planned module") {
  for_graphs("excess", {.ops = GraphOps::Exact}, 100, nullptr, check_excess);
}

TEST_CASE("elementwise graphs as written: fused equals unfused bit for bit") {
  Records records;
  for_graphs("fusion", {.ops = GraphOps::Elementwise}, 100, &records, check_fusion);
  report("fusion", GraphOps::Elementwise, false, records);
}

TEST_CASE("every op of fused and unfused graphs is right for the operands that it had") {
  Records records;
  GraphOptions options{.ops = GraphOps::All, .most_ops = 40, .all_results = true};
  for_graphs("ops", options, 100, &records, [&](const ir::Module& module, const Tensors& inputs) {
    std::string found = check_ops(module, inputs, true, &records);
    return found.empty() ? check_ops(module, inputs, false, &records) : found;
  });
  report("ops", GraphOps::All, true, records);
  check_families("ops", records);
}

TEST_CASE("gradients of random graphs: passes keep them, every op is right for its operands") {
  Records records;
  int64_t counted = 0;
  for_graphs("gradients", {.ops = GraphOps::All, .most_ops = 30}, 100, nullptr,
             [&](const ir::Module& module, const Tensors& inputs) {
               return check_gradients(module, inputs, counted, &records);
             });
  std::string text = fmt::format("gradients of {} functions: graphs by op", counted);
  for (const auto& [op, record] : records) text += line_of(op, record);
  fmt::print("{}\n", text);
  CHECK(counted > wanted_graphs() / 4);
  check_families("gradients", records);
}

}  // namespace mezzo::test
