// SPDX-License-Identifier: Apache-2.0
// Scans and orders: every row and element type, lines along memory and side by side, blocks that
// lines fill and do not, slices of long lines, parts that are merged.
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <codegen/cuda_cases.h>

namespace mezzo::test {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpInfo;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

struct Line {
  const char* name;
  Shape shape;
  int64_t axis;
};

/// The rows with a choice of that name, over `lines`; the choice is made in every other case.
void add_rows(std::vector<CudaCase>& cases, const char* choice, const std::vector<Line>& lines) {
  for (const OpInfo& info : ir::all_ops()) {
    if (info.op_class != ir::OpClass::Structural || !info.attribute(choice)) continue;
    bool chosen = false;
    for (DType dtype : ir::kAllDTypes)
      for (const Line& line : lines) {
        Attrs attrs{{"axis", line.axis}};
        chosen = !chosen;
        if (chosen) attrs.set(choice, !info.attribute(choice)->fallback->as<bool>());
        if (info.attribute("exclusive") && cases.size() % 3 == 0) attrs.set("exclusive", true);
        if (info.attribute("k")) attrs.set("k", (line.shape[static_cast<int>(line.axis)] + 1) / 2);
        if (ir::is_float(dtype) && info.has(ir::Trait::Flagged)) attrs.set("word", 0);
        const std::vector<Type> operands(info.operands.size(), Type(dtype, line.shape));
        try {
          cases.push_back({fmt::format("{} {} {}", info.name, ir::to_string(dtype), line.name),
                           one_op(info.kind, operands, attrs)});
        } catch (const UserError&) {
          // Bools and integers do not enter every row.
        }
      }
  }
}

}  // namespace

std::vector<CudaCase> scan_cases() {
  std::vector<CudaCase> cases;
  add_rows(cases, "reverse",
           {{"short line", {6, 7}, 1},
            {"vectors", {3, 1024}, 1},
            {"tiles", {2, 5000}, 1},
            {"odd tiles", {1, 2051}, 1},
            {"slices", {40000}, 0},
            {"side by side", {70, 33}, 0},
            {"few side by side", {300, 3}, 0},
            {"between", {2, 50, 6}, 1},
            {"long side by side", {9000, 2}, 0},
            {"one element", {1, 1}, 1},
            {"no lines", {0, 8}, 1},
            {"no elements", {3, 0}, 1}});
  // With ops before and behind, flagged and rounded to 16 bits.
  for (DType dtype : {DType::F32, DType::F16, DType::BF16})
    for (const Line& line : {Line{"rows", {5, 640}, 1}, Line{"columns", {130, 40}, 0}})
      cases.push_back(
          {fmt::format("discounted {} {}", ir::to_string(dtype), line.name),
           module_of({Type(dtype, line.shape), Type(dtype, line.shape)},
                     [&](Builder& b, std::span<const Value> x) {
                       const Value wide = b.cast(x[0], DType::F32);
                       const Value decay = b.make(OpKind::Tanh, {b.cast(x[1], DType::F32)});
                       const Value sum = b.make(OpKind::LinearScan, {decay, wide},
                                                {{"axis", line.axis}, {"word", 0}});
                       const Value rest = b.make(OpKind::Sub, {sum, wide});
                       return std::vector<Value>{
                           b.make(OpKind::Cast, {rest}, {{"word", 1}}, {x[0].type()}), decay};
                     })});
  return cases;
}

std::vector<CudaCase> order_cases() {
  std::vector<CudaCase> cases;
  const std::vector<Line> lines = {
      {"short lines", {66, 7}, 1}, {"block", {3, 1024}, 1},       {"parts", {2, 2500}, 1},
      {"many parts", {9000}, 0},   {"side by side", {70, 33}, 0}, {"between", {2, 50, 6}, 1},
      {"one element", {5, 1}, 1},  {"no lines", {0, 8}, 1},       {"no elements", {3, 0}, 1}};
  add_rows(cases, "descending", lines);
  add_rows(cases, "largest", lines);
  return cases;
}

}  // namespace mezzo::test
