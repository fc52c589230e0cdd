// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/activation_text.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::runtime {

namespace {

struct Activation {
  int64_t bytes = 0;
  std::string text;
};

/// `tensor<128x512xf16> of relu at net.cpp:4`.
std::string describe(const ir::Op& kernel, int result) {
  std::string text = to_string(kernel.result(result).type());
  const ir::Op* producer = kernel.body()->terminator()->operand(result).op();
  if (!producer) return text;
  text += fmt::format(" of {}", producer->info().name);
  if (producer->location().known()) text += fmt::format(" at {}", to_string(producer->location()));
  return text;
}

}  // namespace

std::string activations_text(const ir::Function& function, const RunPlan& plan) {
  constexpr size_t kNamed = 3;
  std::vector<Activation> all;
  for (const RunStep& step : plan.steps) {
    if (step.kernel < 0) continue;
    for (int i = 0; i < step.op->num_results(); ++i) {
      const auto buffer =
          static_cast<size_t>(step.buffers[static_cast<size_t>(step.op->num_operands() + i)]);
      if (plan.buffers[buffer].kind == BufferPlace::Kind::Arena)
        all.push_back({step.op->result(i).type().bytes(), describe(*step.op, i)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text = fmt::format("activations of @{}", function.name());
  for (size_t i = 0; i < std::min(all.size(), kNamed); ++i)
    text += (i == 0 ? " (" : ", ") + all[i].text;
  return all.empty() ? text : text + (all.size() > kNamed ? ", ...)" : ")");
}

}  // namespace mezzo::runtime
