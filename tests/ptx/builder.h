// SPDX-License-Identifier: Apache-2.0
// Grows the executable form of one kernel: registers, constants, instructions.
#pragma once

#include <map>
#include <ptx/lexer.h>
#include <ptx/statement.h>
#include <ptx/types.h>

namespace mezzo::ptx::detail {

class KernelBuilder {
 public:
  KernelBuilder(KernelData& data, const SourceText& source);

  KernelData& data() { return data_; }
  const SourceText& source() const { return source_; }

  /// A register of `bytes` a lane (2, 4, 8 or 16).
  uint32_t add_register(uint32_t bytes);
  uint32_t add_predicate();
  /// A register that holds `bits` in every lane.
  uint32_t constant(uint64_t bits, uint32_t bytes);
  uint32_t special(Special special);
  /// The predicate that holds the carry of `.cc` instructions.
  uint32_t carry();
  const uint32_t* add_list(std::vector<uint32_t> list);
  /// Offset of `bytes` in every thread's local memory.
  uint32_t add_local(uint32_t bytes, uint32_t alignment);

  /// Accesses of `bytes` occur; the shadows get a unit no larger.
  void note_shared_width(uint32_t bytes);
  void note_global_width(uint32_t bytes);

  /// Appends; returns its index.
  uint32_t append(const Instruction& instruction, int line);
  uint32_t next_index() const { return static_cast<uint32_t>(data_.code.size()); }
  void set_location(std::string location) { location_ = std::move(location); }

 private:
  uint32_t grow(uint32_t bytes, uint32_t alignment);

  KernelData& data_;
  const SourceText& source_;
  std::string location_;
  uint32_t predicates_left_ = 0, next_predicate_ = 0, carry_ = 0;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants_;
  std::map<Special, uint32_t> specials_;
};

/// A special register by its name, `%tid.x`; false where there is none.
bool find_special(std::string_view name, Special& special, uint8_t& bytes);

}  // namespace mezzo::ptx::detail
