// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/launch_text.h>

#include <mezzo/ir/plan.h>
#include <mezzo/ir/printer.h>
#include <mezzo/runtime/kernel_store.h>
#include <mezzo/runtime/memory.h>

#include <fmt/format.h>

#include <limits>

namespace mezzo::runtime {

namespace {

constexpr int kMostOps = 8;  // of a kernel that are named

/// `32x784xf32`, as inside `tensor<...>`.
std::string types_text(const std::vector<ir::Value>& values) {
  constexpr size_t kMostShown = 6;
  std::string out;
  for (size_t i = 0; i < values.size() && i < kMostShown; ++i) {
    std::string type = to_string(values[i].type());
    size_t open = type.find('<');
    if (!out.empty()) out += ", ";
    out += type.substr(open + 1, type.size() - open - 2);
  }
  if (values.size() > kMostShown) out += fmt::format(" and {} more", values.size() - kMostShown);
  return out;
}

}  // namespace

std::string ops_text(const ir::Op& kernel, int most, const char* separator, bool located) {
  std::string out;
  int shown = 0, left = 0;
  for (const ir::Op& op : *kernel.body()) {
    if (op.kind() == ir::OpKind::Yield || op.kind() == ir::OpKind::Constant) continue;
    if (shown == most) {
      ++left;
      continue;
    }
    out += fmt::format("{}{}", shown++ ? separator : "", op.info().name);
    if (located && op.location().known()) out += fmt::format(" ({})", to_string(op.location()));
  }
  return left ? fmt::format("{} and {} more", out, left) : out;
}

int64_t traffic_bytes(const ir::Op& kernel) {
  // Each fits, their sum need not: it stays at the greatest number.
  int64_t bytes = 0;
  auto add = [&](ir::Value value) {
    const int64_t more = value.type().bytes();
    bytes = more > std::numeric_limits<int64_t>::max() - bytes ? std::numeric_limits<int64_t>::max()
                                                               : bytes + more;
  };
  for (ir::Value value : kernel.operands()) add(value);
  for (ir::Value value : kernel.results()) add(value);
  return bytes;
}

std::string launch_text(const ir::Op& kernel, const LoadedKernel& loaded) {
  std::string tasks;
  for (int64_t launch : loaded.tasks)
    tasks += fmt::format("{}{}", tasks.empty() ? "" : " + ", launch);
  tasks += tasks == "1" ? " task" : " tasks";
  return fmt::format("@{} {} ({}) {} -> {}, {}, {} {}", kernel.kernel_name(),
                     to_string(ir::family_of(kernel)), ops_text(kernel, kMostOps, " ", false),
                     types_text(kernel.operands()), types_text(kernel.results()),
                     bytes_text(static_cast<double>(traffic_bytes(kernel))), tasks,
                     ir::print(kernel.plan()));
}

}  // namespace mezzo::runtime
