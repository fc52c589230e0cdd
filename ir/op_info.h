// SPDX-License-Identifier: Apache-2.0
// Typed view of ops.def: kinds, names, operands, classes, traits and attribute schemas.
#pragma once

#include <mezzo/ir/attr.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace mezzo::ir {

enum class OpKind : uint8_t {
#define ELEMENTWISE(Kind, ...) Kind,
#define STRUCTURAL(Kind, ...) Kind,
#define COMPOSITE(Kind, ...) Kind,
#include <mezzo/ir/ops.def>
};

enum class OpClass : uint8_t { Elementwise, Structural, Composite };

/// What an elementwise op takes and gives.
enum class TypeRule : uint8_t {
  SameFloat,
  SameNumber,
  SameInteger,
  SameAny,
  PredicateFloat,
  PredicateNumber,
  PredicateAny,
  Logical,
  Select,
  Cast,
  None,  // not elementwise: the shape rule decides
};

/// Element types that an op takes.
enum class TypeSet : uint8_t { Float, Number, Integer, Any, F32, I64, Bool };
bool contains(TypeSet set, DType type);
/// What the operands of an elementwise row may be, the condition of a select apart.
TypeSet operand_types(TypeRule rule);

enum class Growth : uint8_t { Bounded, Linear, Quadratic, Exponential, Singular };

enum class Trait : uint16_t {
  Commutative = 1 << 0,
  Idempotent = 1 << 1,
  View = 1 << 2,
  Reduction = 1 << 3,
  Random = 1 << 4,
  Variadic = 1 << 5,
  Effect = 1 << 6,
  ChosenType = 1 << 7,
  Exact = 1 << 8,
  Flagged = 1 << 9,
  Terminator = 1 << 10,
  Optimizer = 1 << 11,
  Partial = 1 << 12,
  Checks = 1 << 13,
};

enum class Precision : char { Narrow = 'N', Wide = 'W', Follow = 'F', Keep = 'K', Index = 'I' };

enum class AttrKind : uint8_t {
  Int,
  Float,
  Bool,
  String,
  Type,
  Ints,
  Floats,
  Scalar,
  Symbol,
  Value,
  Places  // a list of integers, values and symbols
};

/// What integers an attribute may hold.
struct AttrRange {
  int64_t least = 0, most = 0;
};

struct AttrInfo {
  const char* name;
  AttrKind kind;
  bool required = false;
  /// Not printed when equal to the default; none for required and optional attributes.
  std::optional<Attr> fallback;
  /// A kernel argument, or a note that no code depends on: never part of a kernel's key.
  bool argument = false;
  /// Of an integer or of each of a list; none: the shape rule knows.
  std::optional<AttrRange> range = {};
};

/// What another operand must be for an op to be at a pole.
enum class PoleWhen : uint8_t { Always, Negative, Nonzero };

/// Where FlagBit::Pole is raised: at operand `operand` = `value`, with `other` >= 0 only where that
/// operand is as `when` says.
struct Pole {
  int operand = 0;
  double value = 0;
  int other = -1;
  PoleWhen when = PoleWhen::Always;
};

struct OpInfo {
  OpKind kind;
  const char* name;
  OpClass op_class;
  std::vector<std::string> operands;  // names, without `?` and `*`
  int min_operands = 0;
  int max_operands = 0;  // -1: any number
  std::vector<std::string> results;
  TypeRule types = TypeRule::None;
  const char* precision;  // letters
  Growth growth;
  uint16_t traits;
  const char* domain;  // letters
  std::vector<AttrInfo> attributes;
  std::vector<Pole> poles;
  /// Of the first operand whose type is free, or of the result where there is no operand.
  TypeSet takes = TypeSet::Any;
  /// Bound of an elementwise f32 result in units in the last place; 0: exactly rounded.
  double f32_ulps = 0;

  bool has(Trait trait) const { return (traits & static_cast<uint16_t>(trait)) != 0; }
  /// The class letter of operand `index`; the last letter repeats.
  Precision precision_of(int index) const;
  char domain_of(int index) const;
  /// The operand whose new value is result `index` of an optimizer: the one of that name.
  int updated_operand(int index) const;
  /// The schema of attribute `name`, of this op or of every op; null when unknown.
  const AttrInfo* attribute(std::string_view name) const;
};

const OpInfo& op_info(OpKind kind);
std::span<const OpInfo> all_ops();
/// The attributes that every op may carry.
std::span<const AttrInfo> common_attributes();
/// The attribute in `attrs`, or the default of the table; neither is an InternalError.
const Attr& attr_or_default(OpKind kind, const Attrs& attrs, std::string_view name);
/// The op of that name, or nullopt.
std::optional<OpKind> parse_op(std::string_view name);
inline const char* to_string(OpKind kind) { return op_info(kind).name; }
inline bool is_elementwise(OpKind kind) { return op_info(kind).op_class == OpClass::Elementwise; }
/// Exact rows whose float results the operands' element type can hold, so that nothing is rounded.
inline bool needs_no_rounding(OpKind kind) {
  const OpInfo& info = op_info(kind);
  return info.has(Trait::Exact) && info.growth == Growth::Bounded && kind != OpKind::Cast &&
         kind != OpKind::Sqrt;
}
inline bool is_view(OpKind kind) { return op_info(kind).has(Trait::View); }

}  // namespace mezzo::ir
