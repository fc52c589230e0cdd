// SPDX-License-Identifier: Apache-2.0
// `mezzo ops`: the op table as text, read from the same rows as everything else.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/op_info.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/machine_text.h>
#include <mezzo/runtime/tool/commands.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace mezzo::tool {

namespace {

struct Row {
  const char* name;
  const char* group;
  const char* operands;
  const char* results;
  const char* gradient;
  const char* precision;
  const char* growth;
  const char* traits;

  const ir::OpInfo& info() const { return ir::op_info(*ir::parse_op(name)); }
};

constexpr Row kRows[] = {
#define ELEMENTWISE(Kind, name, operands, types, gradient, precision, growth, traits, ...) \
  {#name, "elementwise", operands, "y", #gradient, precision, #growth, #traits},
#define STRUCTURAL(Kind, name, operands, results, shape, gradient, precision, growth, traits, ...) \
  {#name, "structural", operands, results, #gradient, precision, #growth, #traits},
#define COMPOSITE(Kind, name, operands, results, shape, gradient, precision, growth, traits, ...) \
  {#name, "composite", operands, results, #gradient, precision, #growth, #traits},
#include <mezzo/ir/ops.def>
};

std::string attribute_names(const ir::OpInfo& op) {
  std::string out;
  for (const ir::AttrInfo& info : op.attributes) {
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

/// Lines of cells, each column as wide as its longest cell.
std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size() + 2);
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) out += fmt::format("{:<{}}", line[i], widths[i]);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  return out;
}

std::string table_under(const std::string& name) {
  const passes::PrecisionPolicy policy = passes::policy_by_name(name);
  std::vector<std::vector<std::string>> lines{
      {"op", "operands", "precision", "types under " + policy.name}};
  for (const Row& row : kRows)
    lines.push_back({row.name, row.operands, row.precision, types_under(policy, row.info())});
  return aligned(lines) +
         "precision, one letter an operand: N narrow, W wide, F follow, K keep, I index or state\n"
         "widest operand: of those that are neither parameters nor constants; f16 with bf16 is "
         "f32, none is f32\n"
         "f64 values, integers and bools keep their type under every policy\n";
}

const char* types_text(ir::TypeSet set) {
  switch (set) {
    case ir::TypeSet::Float:
      return "float";
    case ir::TypeSet::Number:
      return "number";
    case ir::TypeSet::Integer:
      return "integer";
    case ir::TypeSet::F32:
      return "f32";
    case ir::TypeSet::I64:
      return "i64";
    case ir::TypeSet::Bool:
      return "bool";
    case ir::TypeSet::Any:
      break;
  }
  return "any";
}

/// How far an f32 result may be from the exact value: `exact` is rounded once or not at all.
std::string bound_text(const ir::OpInfo& info) {
  if (info.f32_ulps > 0) return fmt::format("{} ulp", info.f32_ulps);
  switch (info.kind) {
    case ir::OpKind::Sum:
    case ir::OpKind::Mean:
    case ir::OpKind::Cumsum:
    case ir::OpKind::Matmul:
    case ir::OpKind::Conv:
    case ir::OpKind::ConvGradInput:
    case ir::OpKind::ConvGradWeight:
    case ir::OpKind::ScatterAdd:
    case ir::OpKind::AddAlongAxis:
      return "blocked sum";
    default:
      break;
  }
  if (info.has(ir::Trait::Exact) || !ir::contains(info.takes, ir::DType::F32)) return "exact";
  const bool rounds = info.has(ir::Trait::Flagged) || info.has(ir::Trait::Random);
  return info.op_class == ir::OpClass::Elementwise || !rounds ? "exact" : "of its parts";
}

const char* gradient_text(const Row& row) {
  std::string_view gradient = row.gradient;
  return gradient == "none" ? "0" : gradient == "parts" ? "of its parts" : row.gradient;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string whole_table() {
  std::vector<std::vector<std::string>> lines{{"op", "kind", "operands", "results", "types",
                                               "precision", "growth", "f32 bound", "gradient",
                                               "traits", "attributes"}};
  for (const Row& row : kRows)
    lines.push_back({row.name, row.group, row.operands, row.results, types_text(row.info().takes),
                     row.precision, lower(row.growth), bound_text(row.info()), gradient_text(row),
                     std::string_view(row.traits) == "0" ? "" : row.traits,
                     attribute_names(row.info())});
  std::string out = aligned(lines);
  const ir::Target target = codegen::native_target();
  out +=
      "operands: `?` may be left out, `*` any number; attributes: `?` has a default\n"
      "precision, one letter an operand: N narrow (16-bit), W wide (f32), F follow, K keep, "
      "I index or state\n"
      "f32 bound: in units in the last place; f64 within 4, f16 and bf16 within 1 of their own; "
      "sums, means and products by the blocked sum\n";
  return out + fmt::format("on this CPU f16 is {}, bf16 {}\n", runtime::f16_text(target),
                           runtime::bf16_text(target));
}

/// The table as README.md has it.
std::string markdown_table() {
  std::string out =
      "| op | operands | attributes | types | class | growth | gradient | f32 bound |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Row& row : kRows)
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", row.name, row.operands,
                       attribute_names(row.info()), types_text(row.info().takes), row.precision,
                       lower(row.growth), gradient_text(row), bound_text(row.info()));
  return out;
}

}  // namespace

int ops(const std::string& policy, bool markdown) {
  debug_options("ops", {});
  write_text("", markdown         ? markdown_table()
                 : policy.empty() ? whole_table()
                                  : table_under(policy));
  return 0;
}

}  // namespace mezzo::tool
