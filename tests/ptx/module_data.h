// SPDX-License-Identifier: Apache-2.0
// PTX as it is executed: instructions with a function each, and operands that are places in the
// register file of a warp. Constants and special registers are places too, filled beforehand.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <ptx/interpreter.h>
#include <string>
#include <vector>

namespace mezzo::ptx::detail {

struct Warp;
struct Instruction;

/// A bit a lane.
using Mask = uint32_t;
inline constexpr Mask kAllLanes = ~Mask{0};
inline constexpr int kLanes = 32;

using Execute = void (*)(Warp& warp, const Instruction& instruction, Mask lanes);

enum class Flow : uint8_t {
  Plain,
  Branch,       // to `target`
  BranchTable,  // to list[op[0]]
  Synchronous,  // needs the lanes of the mask in op[3]
  Aligned,      // needs all lanes of the warp
  Barrier,      // of the block
  Exit,
};

struct Instruction {
  Execute execute = nullptr;
  /// Byte offsets into the registers, op[0] the result. What further fields mean is known to
  /// `execute` and to what decoded it.
  std::array<uint32_t, 4> op{};
  const uint32_t* list = nullptr;  // offsets of the parts of vectors
  int64_t immediate = 0;           // displacement of an address
  uint32_t guard = 0;              // the predicate in front, xor `guard_flip`
  uint32_t guard_flip = 0;
  uint32_t target = 0;
  uint32_t flip = 0;  // of a negated predicate operand
  Flow flow = Flow::Plain;
  uint8_t address_bytes = 8;
  uint8_t count = 1;  // parts of a vector
  uint8_t mode = 0;
};

/// Where an instruction came from.
struct SourceLine {
  int line = 0;
  std::string text;
  std::string location;  // `k.cu:12` of `.loc`, or empty
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  DynamicSharedBytes,
  TotalSharedBytes,
  Zero,
  One,
  Clock,
  Clock64,  // read by an instruction of their own
};

struct KernelData {
  std::string name;
  std::vector<KernelParameter> parameters;
  uint32_t parameter_bytes = 0;

  std::vector<Instruction> code;    // ends with an exit
  std::vector<SourceLine> sources;  // one an instruction
  std::deque<std::vector<uint32_t>> lists;

  /// Registers of a warp at the start of a block: constants, and 0xFF in all others.
  std::vector<std::byte> registers;
  struct SpecialRegister {
    Special special;
    uint32_t at;
  };
  std::vector<SpecialRegister> specials;

  uint32_t static_shared = 0;      // bytes
  uint32_t dynamic_shared_at = 0;  // where `.extern .shared` begins
  uint32_t local_bytes = 0;        // of a thread
  uint32_t max_threads = 1024;
  Dim3 required{0, 0, 0};
  bool partial_barriers = false;  // some barrier names a number of threads
  /// log2 of the narrowest store and load: the unit in which races are looked for.
  uint8_t shared_unit = 4, global_unit = 4;

  uint32_t shared_bytes(uint32_t dynamic) const {
    return dynamic ? dynamic_shared_at + dynamic : static_shared;
  }
};

struct ModuleData {
  DeviceMemory* memory = nullptr;
  int version = 0, target = 0;
  std::deque<KernelData> kernels;
  std::map<std::string, Module::Variable, std::less<>> variables;

  ~ModuleData() {
    for (const auto& [name, variable] : variables) memory->free(variable.address);
  }
};

/// Windows of the generic address space that are not device memory.
inline constexpr Address kSharedWindow = Address{1} << 56;
inline constexpr Address kLocalWindow = Address{2} << 56;
inline constexpr Address kParameterWindow = Address{3} << 56;
inline constexpr Address kWindowBytes = Address{1} << 32;

}  // namespace mezzo::ptx::detail
