// SPDX-License-Identifier: Apache-2.0
// The table of layers: what each gives, holds, computes in, and where it was called first.
#include <mezzo/dsl/training_module.h>

#include <fmt/format.h>

#include <algorithm>

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
  int64_t parameters = 0;
  double flops = 0;
  for (size_t i = 0; i < traced.layers.size(); ++i) {
    const Trace::LayerCall& layer = traced.layers[i];
    Policy own = layer.policy.empty() ? policy : Policy::by_name(layer.policy);
    rows.push_back(
        {layer.scope, layer.kind, "[" + to_string(layer.output.shape) + "]",
         thousands(layer.parameters), ir::to_string(own.compute()), ir::to_string(own.compute()),
         ir::to_string(own.accumulate()), ir::to_string(policy.storage()),
         fmt::format("{:.2f}", traced.layer_flops[i] * 1e-6), to_string(layer.location)});
    flops += traced.layer_flops[i];
  }
  for (const auto& parameter : traced.parameters) parameters += parameter->shape.elements();
  rows.push_back({"total", "", "", thousands(parameters), "", "", "", "",
                  fmt::format("{:.2f}", flops * 1e-6)});
  return aligned(rows);
}

}  // namespace mezzo::detail
