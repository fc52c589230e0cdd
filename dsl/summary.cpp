// SPDX-License-Identifier: Apache-2.0
// The table of layers, a row each: what it gives, holds and computes in, the work of its forward
// calls, and where it was called first. The total counts products outside of layers too.
#include <mezzo/dsl/training_module.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace mezzo::detail {

namespace {

using Row = std::vector<std::string>;

std::string thousands(int64_t number) {
  std::string digits = std::to_string(number), out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string layer_table(const TrainingModule& traced, const Policy& policy) {
  std::vector<Row> rows{{"layer", "kind", "output", "parameters", "storage", "compute",
                         "accumulate", "master", "MFLOP", "first call"}};
  std::map<std::string, int> calls;
  for (const Trace::LayerCall& layer : traced.layers) ++calls[layer.scope];
  // What the optimizer adds to: parameters stored in 16 bits have no wider copy.
  DType storage = policy.storage();
  std::string master = ir::is_16bit(storage) ? "none" : ir::to_string(storage);
  auto work = [&](const std::string& scope) {
    auto found = traced.layer_flops.find(scope);
    return found == traced.layer_flops.end() ? 0 : found->second;
  };
  int64_t parameters = 0;
  double flops = 0;
  for (const Trace::LayerCall& layer : traced.layers) {
    int& count = calls[layer.scope];
    if (count == 0) continue;  // a later call, which the row of the first one counts
    Policy own = layer.policy.empty() ? policy : Policy::by_name(layer.policy);
    rows.push_back({layer.scope, layer.kind + (count > 1 ? fmt::format(", {} calls", count) : ""),
                    "[" + to_string(layer.output.shape) + "]", thousands(layer.parameters),
                    ir::to_string(storage), ir::to_string(own.compute()),
                    ir::to_string(own.accumulate()), master,
                    fmt::format("{:.2f}", work(layer.scope) * 1e-6), to_string(layer.location)});
    count = 0;
  }
  for (const auto& [scope, each] : traced.layer_flops) flops += each;
  for (const auto& parameter : traced.parameters) parameters += parameter.state->shape.elements();
  rows.push_back({"total", "", "", thousands(parameters), "", "", "", "",
                  fmt::format("{:.2f}", flops * 1e-6)});
  return aligned(rows);
}

}  // namespace mezzo::detail
