// SPDX-License-Identifier: Apache-2.0
// Machine code of a kernel as numbers, read from the bytes of a cubin: which instructions there
// are, how wide accesses are, the loop that does the work. No disassembler is needed: on every
// architecture from sm_75 on an instruction is 16 bytes whose low 12 bits are the operation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::test {

/// What the counter tells apart; all other instructions are Other.
enum class MachineOp : uint8_t {
  Other,
  Mma,          // HMMA: a product of tensor cores
  Fma,          // FFMA
  Fma64,        // DFMA
  CopyAsync,    // LDGSTS: global to shared memory
  LoadMatrix,   // LDSM
  LoadShared,   // LDS
  StoreShared,  // STS
  LoadGlobal,   // LDG
  StoreGlobal,  // STG
  LoadLocal,    // LDL: a spill, or an array that is indexed by a variable
  StoreLocal,   // STL
  Barrier,      // BAR
  Shuffle,      // SHFL
  Special,      // MUFU
  Branch,       // BRA
  Count
};
const char* to_string(MachineOp op);

struct MachineCounts {
  int64_t instructions = 0;
  int64_t of[static_cast<size_t>(MachineOp::Count)] = {};
  /// Accesses of global memory by log2 of their bytes.
  int64_t loads[5] = {}, stores[5] = {}, copies[5] = {};

  int64_t operator[](MachineOp op) const { return of[static_cast<size_t>(op)]; }
};

struct MachineCode {
  MachineCounts all;
  /// The instructions from the target of a backward branch to the branch: of all such loops the one
  /// with the largest share of products (Mma, else Fma64, else Fma); empty where there is none.
  MachineCounts hot;
  /// What the hot loop's products are.
  MachineOp product = MachineOp::Other;

  /// Instructions of the hot loop that are no product, for each one that is.
  double overhead() const;
};

/// Contents of a section of an ELF file of 64 bits; empty when it has none of that name. Throws
/// std::runtime_error for bytes that are no such file.
std::string_view elf_section(const std::string& elf, const std::string& name);

/// The code of one entry of a cubin. `compute_capability`: 75, 90 ... Throws std::runtime_error
/// where there is no such entry.
MachineCode read_machine_code(const std::string& cubin, const std::string& entry,
                              int compute_capability);

}  // namespace mezzo::test
