// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/op_info.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/shape.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

namespace mezzo::ir {

namespace {

constexpr uint16_t operator|(Trait a, Trait b) {
  return static_cast<uint16_t>(a) | static_cast<uint16_t>(b);
}
constexpr uint16_t operator|(uint16_t a, Trait b) { return a | static_cast<uint16_t>(b); }
constexpr uint16_t bits(uint16_t value) { return value; }
constexpr uint16_t bits(Trait value) { return static_cast<uint16_t>(value); }

/// Splits "x, y?, rest*" into names and counts.
void read_operands(OpInfo& info, std::string_view text) {
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    char mark = word.back();
    if (mark == '?' || mark == '*') word.remove_suffix(1);
    info.operands.emplace_back(word);
    if (mark == '*')
      info.max_operands = -1;
    else if (info.max_operands >= 0)
      ++info.max_operands;
    if (mark != '?' && mark != '*') ++info.min_operands;
  }
}

std::vector<std::string> read_results(std::string_view text) {
  OpInfo scratch{};
  read_operands(scratch, text);
  return scratch.operands;
}

/// The rows of the table as owners of attributes, and Any for the attributes that every op may
/// carry.
struct Owner {
#define ELEMENTWISE(Kind, ...) static constexpr std::optional<OpKind> Kind = OpKind::Kind;
#define STRUCTURAL(Kind, ...) static constexpr std::optional<OpKind> Kind = OpKind::Kind;
#define COMPOSITE(Kind, ...) static constexpr std::optional<OpKind> Kind = OpKind::Kind;
#include <mezzo/ir/ops.def>
  static constexpr std::optional<OpKind> Any = std::nullopt;
};

struct Table {
  std::vector<OpInfo> rows;
  std::vector<AttrInfo> any;
  std::unordered_map<std::string_view, OpKind> by_name;

  void add(OpKind kind, const char* name, OpClass op_class, const char* operands,
           const char* results, TypeRule types, const char* precision, Growth growth,
           uint16_t traits, const char* domain) {
    OpInfo info{};
    info.kind = kind;
    info.name = name;
    info.op_class = op_class;
    read_operands(info, operands);
    info.results = read_results(results);
    info.types = types;
    info.precision = precision;
    info.growth = growth;
    info.traits = traits;
    info.domain = domain;
    rows.push_back(std::move(info));
  }

  Table() {
    using enum TypeRule;
    using enum Growth;
    using enum Trait;
#define ELEMENTWISE(Kind, name, operands, types, gradient, precision, growth, traits, domain, \
                    host)                                                                     \
  add(OpKind::Kind, #name, OpClass::Elementwise, operands, "y", TypeRule::types, precision,   \
      Growth::growth, bits(traits), domain);
#define STRUCTURAL(Kind, name, operands, results, shape, gradient, precision, growth, traits, \
                   domain)                                                                    \
  add(OpKind::Kind, #name, OpClass::Structural, operands, results, TypeRule::None, precision, \
      Growth::growth, bits(traits), domain);
#define COMPOSITE(Kind, name, operands, results, shape, gradient, precision, growth, traits, \
                  domain)                                                                    \
  add(OpKind::Kind, #name, OpClass::Composite, operands, results, TypeRule::None, precision, \
      Growth::growth, bits(traits), domain);
#include <mezzo/ir/ops.def>
    read_attributes();
#define POLE(Kind, operand, value, other, When) \
  rows[static_cast<size_t>(OpKind::Kind)].poles.push_back({operand, value, other, PoleWhen::When});
#include <mezzo/ir/ops.def>
#define TYPES(Kind, types) rows[static_cast<size_t>(OpKind::Kind)].takes = TypeSet::types;
#include <mezzo/ir/ops.def>
    read_accuracy();
    for (const OpInfo& row : rows) by_name.emplace(row.name, row.kind);
  }

  void read_accuracy() {
    constexpr double kUsualUlps = 2;
    for (OpInfo& row : rows)
      if (row.op_class == OpClass::Elementwise) {
        row.takes = operand_types(row.types);
        row.f32_ulps = row.has(Trait::Exact) || row.takes != TypeSet::Float ? 0 : kUsualUlps;
      }
#define ACCURACY(Kind, ulps) rows[static_cast<size_t>(OpKind::Kind)].f32_ulps = ulps;
#include <mezzo/ir/ops.def>
  }

  void attribute(std::optional<OpKind> op, const char* name, AttrKind kind, std::string_view shown,
                 std::optional<Attr> fallback, bool argument) {
    AttrInfo info{name, kind, shown == "required", std::move(fallback), argument, {}};
    (op ? rows[static_cast<size_t>(*op)].attributes : any).push_back(std::move(info));
  }

  void range(std::optional<OpKind> op, std::string_view name, AttrRange range) {
    std::vector<AttrInfo>& infos = op ? rows[static_cast<size_t>(*op)].attributes : any;
    const auto info =
        std::ranges::find_if(infos, [&](const auto& each) { return name == each.name; });
    MEZZO_CHECK(info != infos.end(), "a range of no attribute: " + std::string(name));
    info->range = range;
  }

  void read_attributes() {
    struct Word {};
    constexpr Word required, optional;
    auto fallback_of = [](auto value) -> std::optional<Attr> {
      if constexpr (std::is_same_v<decltype(value), Word>)
        return std::nullopt;
      else
        return Attr(value);
    };
    constexpr bool Argument = true;
#define ATTRIBUTE(Kind, name, AttrType, fallback, flags) \
  attribute(Owner::Kind, #name, AttrKind::AttrType, #fallback, fallback_of(fallback), (flags) != 0);
#include <mezzo/ir/ops.def>
#define RANGE(Kind, name, least, most) range(Owner::Kind, #name, AttrRange{least, most});
#include <mezzo/ir/ops.def>
  }
};

const Table& table() {
  static const Table* instance = new Table;
  return *instance;
}

char letter(const char* letters, int index) {
  size_t size = std::strlen(letters);
  return size == 0 ? 'a' : letters[std::min(static_cast<size_t>(index), size - 1)];
}

}  // namespace

TypeSet operand_types(TypeRule rule) {
  switch (rule) {
    case TypeRule::SameFloat:
    case TypeRule::PredicateFloat:
      return TypeSet::Float;
    case TypeRule::SameNumber:
    case TypeRule::PredicateNumber:
      return TypeSet::Number;
    case TypeRule::SameInteger:
      return TypeSet::Integer;
    case TypeRule::Logical:
      return TypeSet::Bool;
    default:
      return TypeSet::Any;
  }
}

bool contains(TypeSet set, DType type) {
  switch (set) {
    case TypeSet::Float:
      return is_float(type);
    case TypeSet::Number:
      return type != DType::Bool;
    case TypeSet::Integer:
      return is_integer(type);
    case TypeSet::F32:
      return type == DType::F32;
    case TypeSet::I64:
      return type == DType::I64;
    case TypeSet::Bool:
      return type == DType::Bool;
    case TypeSet::Any:
      return true;
  }
  return false;
}

Precision OpInfo::precision_of(int index) const {
  return static_cast<Precision>(letter(precision, index));
}
char OpInfo::domain_of(int index) const { return letter(domain, index); }

int OpInfo::updated_operand(int index) const {
  // The last name stands for all that follow it.
  const size_t named = std::min(static_cast<size_t>(index), results.size() - 1);
  const auto found = std::find(operands.begin(), operands.end(), results[named]);
  MEZZO_CHECK(has(Trait::Optimizer) && found != operands.end(),
              std::string("'") + name + "' has a result that updates no operand");
  return static_cast<int>(found - operands.begin()) + index - static_cast<int>(named);
}

const AttrInfo* OpInfo::attribute(std::string_view wanted) const {
  for (const AttrInfo& info : attributes)
    if (wanted == info.name) return &info;
  for (const AttrInfo& info : table().any)
    if (wanted == info.name) return &info;
  return nullptr;
}

const OpInfo& op_info(OpKind kind) { return table().rows[static_cast<size_t>(kind)]; }
std::span<const OpInfo> all_ops() { return table().rows; }
std::span<const AttrInfo> common_attributes() { return table().any; }

const Attr& attr_or_default(OpKind kind, const Attrs& attrs, std::string_view name) {
  if (const Attr* attr = attrs.find(name)) return *attr;
  const AttrInfo* info = op_info(kind).attribute(name);
  MEZZO_CHECK(info && info->fallback,
              std::string(op_info(kind).name) + " has no attribute '" + std::string(name) + "'");
  return *info->fallback;
}

std::optional<OpKind> parse_op(std::string_view name) {
  auto it = table().by_name.find(name);
  return it == table().by_name.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace mezzo::ir
