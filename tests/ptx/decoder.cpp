// SPDX-License-Identifier: Apache-2.0
// The table of opcodes, and what the functions of all groups need.
#include <ptx/decoder.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <ptx/half.h>
#include <unordered_map>

namespace mezzo::ptx::detail {

namespace {

const std::unordered_map<std::string_view, const Opcode*>& opcodes() {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Opcode*> result;
    for (const auto& group :
         {kIntegerOpcodes, kBitOpcodes, kArithmeticOpcodes, kMathOpcodes, kCompareOpcodes,
          kConvertOpcodes, kMoveOpcodes, kMemoryOpcodes, kAtomicOpcodes, kAsyncOpcodes,
          kMatrixOpcodes, kWarpOpcodes, kControlOpcodes}) {
      for (const Opcode& opcode : group) result.emplace(opcode.name, &opcode);
    }
    return result;
  }();
  return table;
}

bool is_number(const Operand& operand) {
  return operand.kind == Operand::Kind::Integer || operand.kind == Operand::Kind::F32 ||
         operand.kind == Operand::Kind::F64;
}

/// The bits of a literal as a constant of `type`.
uint64_t literal_bits(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::Integer || !type.is_float()) return operand.bits;
  const double value = operand.kind == Operand::Kind::F32
                           ? std::bit_cast<float>(static_cast<uint32_t>(operand.bits))
                           : std::bit_cast<double>(operand.bits);
  if (type == kF64) return std::bit_cast<uint64_t>(value);
  if (type == kF32) {
    if (operand.kind == Operand::Kind::F32) return operand.bits;
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  const uint16_t half =
      type.kind == Kind::BFloat ? Bf16::round(value).bits : F16::round(value).bits;
  return type.parts == 2 ? half * 0x10001u : half;
}

}  // namespace

Decoder::Decoder(KernelBuilder& builder, const Statement& statement)
    : builder_(builder), statement_(statement) {
  std::string_view rest = statement.opcode;
  const size_t dot = std::min(rest.find('.'), rest.size());
  name_ = rest.substr(0, dot);
  rest.remove_prefix(dot);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('.'), rest.size());
    modifiers_.push_back(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  instruction.guard = statement.guard;
  instruction.guard_flip = statement.guard_flip;
}

void Decoder::error(const std::string& what) const {
  builder_.source().error(statement_.line, what);
}

bool Decoder::take(std::string_view modifier) {
  const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

int Decoder::take_one_of(std::initializer_list<std::string_view> modifiers) {
  int index = 0;
  for (const std::string_view modifier : modifiers) {
    if (take(modifier)) return index;
    ++index;
  }
  return -1;
}

std::optional<Type> Decoder::try_take_type() {
  for (size_t i = modifiers_.size(); i-- > 0;) {
    if (const std::optional<Type> type = parse_type(modifiers_[i])) {
      modifiers_.erase(modifiers_.begin() + static_cast<std::ptrdiff_t>(i));
      return type;
    }
  }
  return std::nullopt;
}

Type Decoder::peek_type() const {
  for (size_t i = modifiers_.size(); i-- > 0;) {
    if (const std::optional<Type> type = parse_type(modifiers_[i])) return *type;
  }
  return {};
}

Type Decoder::take_type() {
  const std::optional<Type> type = try_take_type();
  if (!type) error("no type that is known");
  return *type;
}

void Decoder::take_cache_modifiers() {
  static constexpr std::string_view kCache[] = {"ca",
                                                "cg",
                                                "cs",
                                                "lu",
                                                "cv",
                                                "wb",
                                                "wt",
                                                "nc",
                                                "L1::evict_normal",
                                                "L1::evict_unchanged",
                                                "L1::evict_first",
                                                "L1::evict_last",
                                                "L1::no_allocate",
                                                "L2::evict_normal",
                                                "L2::evict_first",
                                                "L2::evict_last",
                                                "L2::evict_unchanged",
                                                "L2::64B",
                                                "L2::128B",
                                                "L2::256B"};
  for (const std::string_view modifier : kCache) take(modifier);
}

void Decoder::take_cache_policy() {
  if (!take("L2::cache_hint")) return;
  if (statement_.operands.empty()) error("a cache policy expected");
  input(statement_.operands.back(), kB64);
  has_policy_ = true;
}

void Decoder::finish() {
  if (!modifiers_.empty())
    error(fmt::format("the modifier '.{}' is not known here", modifiers_[0]));
}

void Decoder::expect_operands(size_t least, size_t most) {
  if (count() >= least && count() <= most) return;
  error(least == most
            ? fmt::format("{} operands where {} are expected", count(), least)
            : fmt::format("{} operands where {} to {} are expected", count(), least, most));
}

uint32_t Decoder::input(const Operand& operand, Type type) {
  if (is_number(operand)) return builder_.constant(literal_bits(operand, type), type.bytes);
  switch (operand.kind) {
    case Operand::Kind::Symbol:
      if (type.is_float() || type.bytes < 4) error("an address where a number is expected");
      if (operand.space == Space::Call) error("the address of a .param of a call is not known");
      return builder_.constant(operand.bits, type.bytes);
    case Operand::Kind::Register:
    case Operand::Kind::Special:
      if (operand.bytes != type.bytes)
        error(fmt::format("'{}' has {} bits where {} are expected", operand.text, 8 * operand.bytes,
                          8 * type.bytes));
      if (operand.kind == Operand::Kind::Special) {
        if (operand.special == Special::Clock || operand.special == Special::Clock64)
          error("a clock can only be moved");
        return builder_.special(operand.special);
      }
      return operand.at;
    default:
      error(fmt::format("'{}' cannot be read as a value", operand.text));
  }
}

uint32_t Decoder::output(const Operand& operand, uint32_t bytes) {
  if (operand.kind == Operand::Kind::Sink) return builder_.add_register(bytes);
  if (operand.kind != Operand::Kind::Register)
    error(fmt::format("'{}' cannot be written to", operand.text));
  if (operand.bytes != bytes)
    error(fmt::format("'{}' has {} bits where {} are expected", operand.text, 8 * operand.bytes,
                      8 * bytes));
  return operand.at;
}

uint32_t Decoder::predicate_input(size_t index, uint32_t& flip) {
  const Operand& from = operand(index);
  if (from.kind == Operand::Kind::Integer) {
    flip = from.bits != 0 ? 0 : kAllLanes;
    return 0;  // the first predicate of a kernel is true
  }
  if (from.kind != Operand::Kind::Predicate)
    error(fmt::format("'{}' is not a predicate", from.text));
  flip = from.negated ? kAllLanes : 0;
  return from.at;
}

uint32_t Decoder::predicate_output(const Operand& operand) {
  if (operand.kind == Operand::Kind::Sink) return builder_.add_predicate();
  if (operand.kind != Operand::Kind::Predicate || operand.negated)
    error(fmt::format("'{}' is not a predicate that can be written to", operand.text));
  return operand.at;
}

uint64_t Decoder::immediate(size_t index) {
  const Operand& from = operand(index);
  if (from.kind != Operand::Kind::Integer)
    error(fmt::format("'{}' is not an integer constant", from.text));
  return from.bits;
}

Space Decoder::address(const Operand& operand, uint32_t& at, uint8_t& bytes,
                       int64_t& displacement) {
  if (operand.kind != Operand::Kind::Address)
    error(fmt::format("'{}' is not an address", operand.text));
  const Operand& base = operand.parts[0];
  displacement = static_cast<int64_t>(operand.bits);
  switch (base.kind) {
    case Operand::Kind::Register:
      if (base.bytes != 4 && base.bytes != 8)
        error(
            fmt::format("'{}' has {} bits and cannot hold an address", base.text, 8 * base.bytes));
      at = base.at;
      bytes = base.bytes;
      return Space::Generic;
    case Operand::Kind::Symbol:
    case Operand::Kind::Integer:
      at = builder_.constant(base.bits, 8);
      bytes = 8;
      return base.kind == Operand::Kind::Symbol ? base.space : Space::Generic;
    default:
      error(fmt::format("'{}' cannot be an address", base.text));
  }
}

void Decoder::emit(Execute execute) {
  if (!execute) error_modifiers();
  instruction.execute = execute;
  builder_.append(instruction, statement_.line);
}

void decode(KernelBuilder& builder, const Statement& statement) {
  Decoder decoder(builder, statement);
  const auto found = opcodes().find(decoder.name());
  if (found == opcodes().end())
    decoder.error(fmt::format("the instruction '{}' is not known", statement.opcode));
  found->second->decode(decoder);
}

}  // namespace mezzo::ptx::detail
