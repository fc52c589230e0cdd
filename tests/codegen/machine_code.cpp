// SPDX-License-Identifier: Apache-2.0
#include <codegen/machine_code.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

namespace mezzo::test {

namespace {

constexpr size_t kInstructionBytes = 16;
constexpr uint64_t kZeroRegister = 0xFF;

template <class T>
T read(std::string_view bytes, size_t at) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at)
    throw std::runtime_error("a cubin ends in the middle of a number");
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Operations by the low 12 bits of an instruction: those in registers, with a constant, with an
/// immediate or with uniform registers have codes of their own.
MachineOp operation(uint32_t code) {
  static const std::map<uint32_t, MachineOp> kCodes = {
      {0x23c, MachineOp::Mma},         {0x223, MachineOp::Fma},
      {0x423, MachineOp::Fma},         {0x623, MachineOp::Fma},
      {0x823, MachineOp::Fma},         {0xa23, MachineOp::Fma},
      {0xc23, MachineOp::Fma},         {0x22b, MachineOp::Fma64},
      {0x42b, MachineOp::Fma64},       {0x62b, MachineOp::Fma64},
      {0x82b, MachineOp::Fma64},       {0xa2b, MachineOp::Fma64},
      {0xc2b, MachineOp::Fma64},       {0xfae, MachineOp::CopyAsync},
      {0x83b, MachineOp::LoadMatrix},  {0x984, MachineOp::LoadShared},
      {0x388, MachineOp::StoreShared}, {0x988, MachineOp::StoreShared},
      {0x381, MachineOp::LoadGlobal},  {0x981, MachineOp::LoadGlobal},
      {0x386, MachineOp::StoreGlobal}, {0x986, MachineOp::StoreGlobal},
      {0x983, MachineOp::LoadLocal},   {0x387, MachineOp::StoreLocal},
      {0x987, MachineOp::StoreLocal},  {0xb1d, MachineOp::Barrier},
      {0xf89, MachineOp::Shuffle},     {0x589, MachineOp::Shuffle},
      {0x989, MachineOp::Shuffle},     {0x389, MachineOp::Shuffle},
      {0x308, MachineOp::Special},     {0x947, MachineOp::Branch},
      {0x547, MachineOp::Branch},
  };
  const auto found = kCodes.find(code);
  return found == kCodes.end() ? MachineOp::Other : found->second;
}

/// log2 of the bytes that a memory instruction moves a thread: U8, S8, U16, S16, 32, 64, 128 bits.
int width(uint64_t high) {
  constexpr int kWidths[] = {0, 0, 1, 1, 2, 3, 4, 4};
  return kWidths[high >> 9 & 7];
}

MachineCounts count(std::string_view code, size_t first, size_t last) {
  MachineCounts counts;
  for (size_t at = first; at <= last; at += kInstructionBytes) {
    const auto low = read<uint64_t>(code, at), high = read<uint64_t>(code, at + 8);
    MachineOp op = operation(low & 0xFFF);
    // Before some waits the assembler loads into the register that is always 0.
    if (op == MachineOp::LoadShared && (low >> 16 & 0xFF) == kZeroRegister) op = MachineOp::Other;
    ++counts.instructions;
    ++counts.of[static_cast<size_t>(op)];
    if (op == MachineOp::LoadGlobal) ++counts.loads[width(high)];
    if (op == MachineOp::StoreGlobal) ++counts.stores[width(high)];
    if (op == MachineOp::CopyAsync) ++counts.copies[width(high)];
  }
  return counts;
}

/// Where a branch goes: a signed number of words of 4 bytes from the next instruction on, which
/// sm_90 and newer keep in two parts.
int64_t branch_target(uint64_t low, uint64_t high, int64_t at, int compute_capability) {
  // Bits 34 to 81 of the instruction.
  uint64_t distance = low >> 34 | (high & 0x3FFFF) << 30;
  int bits = 48;
  if (compute_capability >= 90) {
    distance = distance << 8 | (low >> 16 & 0xFF);
    bits += 8;
  }
  const auto words = static_cast<int64_t>(distance << (64 - bits)) >> (64 - bits);
  return at + static_cast<int64_t>(kInstructionBytes) + 4 * words;
}

}  // namespace

const char* to_string(MachineOp op) {
  constexpr const char* kNames[] = {"other", "HMMA", "FFMA", "DFMA", "LDGSTS", "LDSM",
                                    "LDS",   "STS",  "LDG",  "STG",  "LDL",    "STL",
                                    "BAR",   "SHFL", "MUFU", "BRA"};
  static_assert(std::size(kNames) == static_cast<size_t>(MachineOp::Count));
  return kNames[static_cast<size_t>(op)];
}

double MachineCode::overhead() const {
  const int64_t products = hot[product];
  return products ? static_cast<double>(hot.instructions - products) / static_cast<double>(products)
                  : 0;
}

std::string_view elf_section(const std::string& elf, const std::string& name) {
  if (!elf.starts_with("\177ELF")) throw std::runtime_error("a cubin is no ELF file");
  const auto table = read<uint64_t>(elf, 0x28);
  const auto entry = read<uint16_t>(elf, 0x3A), sections = read<uint16_t>(elf, 0x3C),
             names = read<uint16_t>(elf, 0x3E);
  const auto strings = read<uint64_t>(elf, table + size_t{names} * entry + 0x18);
  for (size_t i = 0; i < sections; ++i) {
    const size_t header = table + i * entry;
    const size_t at = strings + read<uint32_t>(elf, header);
    if (at > elf.size() || elf.compare(at, name.size() + 1, name.c_str(), name.size() + 1) != 0)
      continue;
    const auto offset = read<uint64_t>(elf, header + 0x18),
               bytes = read<uint64_t>(elf, header + 0x20);
    if (offset > elf.size() || bytes > elf.size() - offset)
      throw std::runtime_error("a section of a cubin lies behind its end");
    return std::string_view(elf).substr(offset, bytes);
  }
  return {};
}

MachineCode read_machine_code(const std::string& cubin, const std::string& entry,
                              int compute_capability) {
  const std::string_view code = elf_section(cubin, ".text." + entry);
  if (code.empty() || code.size() % kInstructionBytes != 0)
    throw std::runtime_error("a cubin has no code of " + entry);
  MachineCode out;
  out.all = count(code, 0, code.size() - kInstructionBytes);
  out.product = out.all[MachineOp::Mma]     ? MachineOp::Mma
                : out.all[MachineOp::Fma64] ? MachineOp::Fma64
                                            : MachineOp::Fma;
  double densest = 0;
  for (size_t at = 0; at < code.size(); at += kInstructionBytes) {
    const auto low = read<uint64_t>(code, at), high = read<uint64_t>(code, at + 8);
    if (operation(low & 0xFFF) != MachineOp::Branch) continue;
    const int64_t target = branch_target(low, high, static_cast<int64_t>(at), compute_capability);
    if (target < 0 || target % static_cast<int64_t>(kInstructionBytes) != 0 ||
        target >= static_cast<int64_t>(code.size()))
      throw std::runtime_error("a branch of " + entry + " leaves its code");
    if (target >= static_cast<int64_t>(at)) continue;  // forward, or the endless one at the end
    const MachineCounts loop = count(code, static_cast<size_t>(target), at);
    const double density =
        static_cast<double>(loop[out.product]) / static_cast<double>(loop.instructions);
    if (density <= densest) continue;
    densest = density;
    out.hot = loop;
  }
  return out;
}

}  // namespace mezzo::test
