// SPDX-License-Identifier: Apache-2.0
// Turns a statement into an instruction. Each group of opcodes has a table of names and functions;
// a function takes what it knows of the statement, and what is left over is an error: nothing that
// the text says is passed over.
#pragma once

#include <initializer_list>
#include <optional>
#include <ptx/builder.h>
#include <span>

namespace mezzo::ptx::detail {

class Decoder {
 public:
  Decoder(KernelBuilder& builder, const Statement& statement);

  // Modifiers, the parts of the opcode after its name.
  bool take(std::string_view modifier);
  /// Index of the one that is there, -1 where none is.
  int take_one_of(std::initializer_list<std::string_view> modifiers);
  /// The last part that names a type and was not taken yet.
  Type take_type();
  std::optional<Type> try_take_type();
  /// What take_type would give, left where it is; Bits of no size where there is none.
  Type peek_type() const;
  /// The leading `.L1::evict_last`, `.nc`, `.ca` and the like, which change nothing here.
  void take_cache_modifiers();
  /// `.L2::cache_hint` says that the last operand is a policy, which changes nothing here either;
  /// with it there is one operand more than what expect_operands is told.
  void take_cache_policy();
  /// The rest must be empty.
  void finish();

  // Operands.
  size_t count() const { return statement_.operands.size() - (has_policy_ ? 1 : 0); }
  void expect_operands(size_t least, size_t most);
  void expect_operands(size_t exactly) { expect_operands(exactly, exactly); }
  const Operand& operand(size_t index) const { return statement_.operands[index]; }
  /// Place of a value to read; immediates become constants of the type.
  uint32_t input(size_t index, Type type) { return input(operand(index), type); }
  uint32_t input(const Operand& operand, Type type);
  uint32_t output(size_t index, uint32_t bytes) { return output(operand(index), bytes); }
  uint32_t output(const Operand& operand, uint32_t bytes);
  /// Reads of a predicate; `flip` is xored.
  uint32_t predicate_input(size_t index, uint32_t& flip);
  uint32_t predicate_output(const Operand& operand);
  /// A constant that is known when the text is read.
  uint64_t immediate(size_t index);
  /// Fills in the address fields for `operand` and returns the space of its symbol, if it has one.
  Space address(const Operand& operand, uint32_t& at, uint8_t& bytes, int64_t& displacement);

  [[noreturn]] void error(const std::string& what) const;
  [[noreturn]] void error_modifiers() const { error("this combination of modifiers is not known"); }

  KernelBuilder& builder() { return builder_; }
  const Statement& statement() const { return statement_; }
  std::string_view name() const { return name_; }

  /// Appends `instruction` with the statement's guard.
  void emit(Execute execute);

  Instruction instruction;

 private:
  KernelBuilder& builder_;
  const Statement& statement_;
  std::string_view name_;
  std::vector<std::string_view> modifiers_;
  bool has_policy_ = false;
};

struct Opcode {
  std::string_view name;  // without modifiers
  void (*decode)(Decoder&);
};

extern const std::span<const Opcode> kIntegerOpcodes, kBitOpcodes, kArithmeticOpcodes, kMathOpcodes,
    kCompareOpcodes, kConvertOpcodes, kMoveOpcodes, kMemoryOpcodes, kAtomicOpcodes, kAsyncOpcodes,
    kMatrixOpcodes, kWarpOpcodes, kControlOpcodes;

/// Decodes one statement. Branches come with their target missing; the parser knows labels.
void decode(KernelBuilder& builder, const Statement& statement);

}  // namespace mezzo::ptx::detail
