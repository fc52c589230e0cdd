// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/kernel_region.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <unordered_map>

namespace mezzo::ir {

bool is_reduction(OpKind kind) {
  return kind == OpKind::Sum || kind == OpKind::Max || kind == OpKind::Min ||
         kind == OpKind::Argmax;
}

std::vector<int64_t> reduced_axes(const Op& op) {
  if (op.kind() == OpKind::Argmax) return {op.int_attr("axis")};
  return op.ints_attr("axes");
}

KernelSpace kernel_space(const Op& kernel) {
  for (Op& op : *kernel.body()) {
    if (is_reduction(op.kind()))
      return {op.operand(0).shape(), static_cast<int>(reduced_axes(op).size())};
    if (op.kind() == OpKind::Matmul) return {op.result().shape(), 0};
  }
  return {kernel.body()->terminator()->operand(0).shape(), 0};
}

std::vector<std::vector<Value>> optimizer_segments(const Op& kernel) {
  // Union-find over ops; constants, iota and scalars belong to no segment.
  std::unordered_map<const Op*, const Op*> parent;
  auto connects = [](const Op& op) {
    return op.num_operands() > 0 && op.num_results() == 1 && op.result().type().elements() != 1;
  };
  auto root = [&](const Op* op) {
    while (parent.at(op) != op) op = parent[op] = parent.at(parent.at(op));
    return op;
  };
  for (Op& op : *kernel.body()) {
    if (!connects(op)) continue;
    parent[&op] = &op;
    for (Value operand : op.operands())
      if (!operand.is_parameter() && parent.contains(operand.op()))
        parent[root(operand.op())] = &op;
  }
  std::vector<std::vector<Value>> segments;
  std::unordered_map<const Op*, size_t> segment_of;
  for (Value value : kernel.body()->terminator()->operands()) {
    const Op* key = parent.contains(value.op()) ? root(value.op()) : value.op();
    auto [it, fresh] = segment_of.try_emplace(key, segments.size());
    if (fresh) segments.emplace_back();
    segments[it->second].push_back(value);
  }
  return segments;
}

int vector_axis(std::span<const int64_t> dims) {
  int axis = static_cast<int>(dims.size()) - 1;
  while (axis >= 0 && dims[static_cast<size_t>(axis)] == 1) --axis;
  return axis;
}

std::vector<int64_t> kernel_words(const Op& kernel) {
  std::vector<int64_t> words;
  for (Op& op : *kernel.body())
    if (op.attrs().has("word")) {
      int64_t word = op.attrs().get_int("word");
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
  return words;
}

std::vector<const Op*> kernel_streams(const Op& kernel) {
  std::vector<const Op*> ops;
  for (Op& op : *kernel.body())
    if (op.attrs().has("stream")) ops.push_back(&op);
  return ops;
}

}  // namespace mezzo::ir
