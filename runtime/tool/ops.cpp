// SPDX-License-Identifier: Apache-2.0
// `mezzo ops`: the op table as text, read from the same rows as everything else.
#include <mezzo/ir/op_info.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <cstdio>

namespace mezzo::tool {

namespace {

struct Row {
  const char* name;
  const char* group;
  const char* operands;
  const char* gradient;
  const char* precision;
  const char* growth;
  const char* traits;
};

constexpr Row kRows[] = {
#define ELEMENTWISE(Kind, name, operands, types, gradient, precision, growth, traits, ...) \
  {#name, "elementwise", operands, #gradient, precision, #growth, #traits},
#define STRUCTURAL(Kind, name, operands, results, shape, gradient, precision, growth, traits, ...) \
  {#name, "structural", operands, #gradient, precision, #growth, #traits},
#define COMPOSITE(Kind, name, operands, results, shape, gradient, precision, growth, traits, ...) \
  {#name, "composite", operands, #gradient, precision, #growth, #traits},
#include <mezzo/ir/ops.def>
};

std::string attribute_names(const char* op) {
  std::string out;
  for (const ir::AttrInfo& info : ir::op_info(*ir::parse_op(op)).attributes) {
    if (!out.empty()) out += ", ";
    out += info.name;
    if (!info.required) out += "?";
  }
  return out;
}

}  // namespace

int ops() {
  constexpr auto kFormat = "{:<19}{:<12}{:<32}{:<19}{:<10}{:<12}{:<40}{}\n";
  std::string out = fmt::format(kFormat, "op", "kind", "operands", "gradient", "precision",
                                "growth", "traits", "attributes");
  for (const Row& row : kRows) {
    const char* traits = std::string_view(row.traits) == "0" ? "" : row.traits;
    out += fmt::format(kFormat, row.name, row.group, row.operands, row.gradient, row.precision,
                       row.growth, traits, attribute_names(row.name));
    while (out.ends_with(" \n")) out.erase(out.size() - 2, 1);
  }
  out +=
      "precision, one letter an operand: N narrow (16-bit), W wide (f32), F follow, K keep, I "
      "index "
      "or state\n";
  write_text("", out);
  return 0;
}

}  // namespace mezzo::tool
