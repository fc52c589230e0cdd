// SPDX-License-Identifier: Apache-2.0
// Random graphs: passes keep values, kernels are what the interpreter says. A failing graph is
// shrunk and printed with its seed. MEZZO_FUZZ_GRAPHS: graphs a test case (default 40);
// MEZZO_FUZZ_SEED: the first seed (default 1).
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fuzz/checks.h>

namespace mezzo::test {

namespace {

int64_t from_environment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoll(text, nullptr, 10) : fallback;
}

using Check = std::function<std::string(const ir::Module&, const Tensors&)>;

/// Checks `share` percent of the wanted number of graphs; the first three failures are shrunk.
void for_graphs(const char* name, const GraphOptions& options, int share, Records* records,
                const Check& check) {
  int64_t graphs = std::max<int64_t>(1, from_environment("MEZZO_FUZZ_GRAPHS", 40) * share / 100);
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

void print_records(const Records& records) {
  fmt::print("{:20} graphs  error/bound  worst ulp\n", "op");
  for (const auto& [name, record] : records)
    fmt::print("{:20} {:6}  {:11.3f}  {:9.3f}\n", name, record.graphs, record.worst,
               record.worst_ulp);
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
  for_graphs("exact", {.ops = GraphOps::Exact}, 100, nullptr, check_exact);
}

TEST_CASE("exact graphs in excess precision equal the interpreter on the planned module") {
  for_graphs("excess", {.ops = GraphOps::Exact}, 100, nullptr, check_excess);
}

TEST_CASE("elementwise graphs as written: fused equals unfused bit for bit") {
  for_graphs("fusion", {.ops = GraphOps::Elementwise}, 50, nullptr, check_fusion);
}

TEST_CASE("every op of fused and unfused graphs is right for the operands that it had") {
  Records records;
  GraphOptions options{.ops = GraphOps::All, .most_ops = 40, .all_results = true};
  for_graphs("ops", options, 100, &records, [&](const ir::Module& module, const Tensors& inputs) {
    std::string found = check_ops(module, inputs, true, &records);
    return found.empty() ? check_ops(module, inputs, false, &records) : found;
  });
  print_records(records);
}

}  // namespace mezzo::test
