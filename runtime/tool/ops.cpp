// SPDX-License-Identifier: Apache-2.0
// `mezzo ops`: the op table as text, read from the same rows as everything else.
#include <mezzo/ir/op_info.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

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

bool is_predicate(const ir::OpInfo& info) {
  return info.types == ir::TypeRule::PredicateFloat ||
         info.types == ir::TypeRule::PredicateNumber || info.types == ir::TypeRule::PredicateAny;
}

/// The float types of operands and results, as autocast gives them: `f16 -> f16 or f32`.
std::string types_under(const passes::PrecisionPolicy& policy, const ir::OpInfo& info) {
  using ir::Precision;
  const std::string compute = ir::to_string(policy.compute);
  if (info.kind == ir::OpKind::Cast) return "the type it names";
  if (info.has(ir::Trait::Terminator)) return "as declared";
  if (info.operands.empty()) return "as written";
  Precision deciding = Precision::Index;
  for (size_t i = 0; i < info.operands.size() && deciding == Precision::Index; ++i)
    deciding = info.precision_of(static_cast<int>(i));
  if (info.has(ir::Trait::Optimizer) || info.has(ir::Trait::Random))
    return deciding == Precision::Wide ? "f32 -> as declared" : "as declared";
  switch (deciding) {
    case Precision::Narrow:
      if (policy.compute == ir::DType::F32) return "f32 -> f32";
      return compute + " -> " + compute + ", or f32 for wide readers";
    case Precision::Wide:
      return "f32 -> f32";
    case Precision::Follow:
      return is_predicate(info) ? "widest operand -> bool" : "widest operand";
    case Precision::Keep:
      return "first operand";
    case Precision::Index:
      break;
  }
  return "as declared";
}

std::string table_under(const std::string& name) {
  const passes::PrecisionPolicy policy = passes::policy_by_name(name);
  constexpr auto kFormat = "{:<19}{:<32}{:<10}{}\n";
  std::string out =
      fmt::format(kFormat, "op", "operands", "precision", "types under " + policy.name);
  for (const Row& row : kRows)
    out += fmt::format(kFormat, row.name, row.operands, row.precision,
                       types_under(policy, ir::op_info(*ir::parse_op(row.name))));
  return out +
         "precision, one letter an operand: N narrow, W wide, F follow, K keep, I index or state\n"
         "widest operand: of those that are neither parameters nor constants; f16 with bf16 is "
         "f32, none is f32\n"
         "f64 values, integers and bools keep their type under every policy\n";
}

std::string whole_table() {
  constexpr auto kFormat = "{:<19}{:<12}{:<32}{:<19}{:<10}{:<12}{:<40}{}\n";
  std::string out = fmt::format(kFormat, "op", "kind", "operands", "gradient", "precision",
                                "growth", "traits", "attributes");
  for (const Row& row : kRows) {
    const char* traits = std::string_view(row.traits) == "0" ? "" : row.traits;
    out += fmt::format(kFormat, row.name, row.group, row.operands, row.gradient, row.precision,
                       row.growth, traits, attribute_names(row.name));
    while (out.ends_with(" \n")) out.erase(out.size() - 2, 1);
  }
  return out +
         "precision, one letter an operand: N narrow (16-bit), W wide (f32), F follow, K keep, "
         "I index or state\n";
}

}  // namespace

int ops(const std::string& policy) {
  debug_options("ops", {});
  write_text("", policy.empty() ? whole_table() : table_under(policy));
  return 0;
}

}  // namespace mezzo::tool
