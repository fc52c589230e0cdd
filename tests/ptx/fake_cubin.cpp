// SPDX-License-Identifier: Apache-2.0
#include <ptx/fake_cubin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace mezzo::fakecuda {

namespace {

constexpr std::string_view kMagic = "MEZZO-PTX-TRAIL\n";
constexpr size_t kTrailerAlignment = 16;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// Records of `.nv.info`: a byte of format, a byte of kind, 16 bits that are a size or a value.
constexpr uint8_t kSizedFormat = 4;
constexpr uint8_t kFrameSize = 0x11;
constexpr uint8_t kRegisterCount = 0x2f;

template <class T>
T read(const void* image, uint64_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(image) + at, sizeof value);
  return value;
}

std::string_view section_bytes(const void* image, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS) return {};
  return {static_cast<const char*>(image) + section.sh_offset, section.sh_size};
}

std::string_view string_at(std::string_view table, size_t at) {
  if (at >= table.size()) throw std::invalid_argument("a name is outside of its table");
  return table.substr(at, table.find('\0', at) - at);
}

void read_info(std::string_view info, const std::vector<std::string>& symbols, Cubin& cubin) {
  while (info.size() >= 4) {
    const auto format = static_cast<uint8_t>(info[0]), kind = static_cast<uint8_t>(info[1]);
    const auto size = read<uint16_t>(info.data(), 2);
    info.remove_prefix(4);
    if (format != kSizedFormat) continue;
    if (size > info.size()) throw std::invalid_argument(".nv.info ends within a record");
    if (size == 8 && (kind == kFrameSize || kind == kRegisterCount)) {
      const auto symbol = read<uint32_t>(info.data(), 0), value = read<uint32_t>(info.data(), 4);
      if (symbol >= symbols.size()) throw std::invalid_argument(".nv.info names no symbol");
      KernelFacts& kernel = cubin.kernels[symbols[symbol]];
      (kind == kFrameSize ? kernel.local_bytes : kernel.registers) = static_cast<int>(value);
    }
    info.remove_prefix(size);
  }
}

/// Byte for byte and unseen by the address sanitizer: behind a cubin without PTX is memory that
/// belongs to somebody else.
__attribute__((no_sanitize("address"))) bool starts_with_magic(const char* at) {
  for (const char expected : kMagic)
    if (*at++ != expected) return false;
  return true;
}

}  // namespace

bool is_elf(const void* image) {
  return std::strncmp(static_cast<const char*>(image), ELFMAG, SELFMAG) == 0;
}

Cubin read_cubin(const void* image) {
  const auto header = read<Elf64_Ehdr>(image, 0);
  Cubin cubin;
  cubin.abi = header.e_ident[EI_ABIVERSION];
  // ABI version 8 moved the number from the lowest byte to the next.
  cubin.architecture = static_cast<int>(header.e_flags >> (cubin.abi >= 8 ? 8 : 0) & 0xff);
  uint64_t end = sizeof header;
  const auto reach = [&end](uint64_t offset, uint64_t bytes) {
    if (offset > kMostBytes || bytes > kMostBytes)
      throw std::invalid_argument("a header of the cubin leads outside of it");
    end = std::max(end, offset + bytes);
  };
  reach(header.e_phoff, uint64_t{header.e_phentsize} * header.e_phnum);
  reach(header.e_shoff, uint64_t{header.e_shentsize} * header.e_shnum);
  std::vector<Elf64_Shdr> sections;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    sections.push_back(read<Elf64_Shdr>(image, header.e_shoff + i * header.e_shentsize));
    if (sections.back().sh_type != SHT_NOBITS)
      reach(sections.back().sh_offset, sections.back().sh_size);
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(image, header.e_phoff + i * header.e_phentsize);
    reach(segment.p_offset, segment.p_filesz);
  }
  cubin.bytes = end;
  if (header.e_shstrndx >= sections.size()) throw std::invalid_argument("the cubin has no names");
  const std::string_view names = section_bytes(image, sections[header.e_shstrndx]);
  std::vector<std::string> symbols;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    if (section.sh_link >= sections.size()) throw std::invalid_argument("symbols without names");
    const std::string_view table = section_bytes(image, section);
    const std::string_view strings = section_bytes(image, sections[section.sh_link]);
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym))
      symbols.emplace_back(string_at(strings, read<Elf64_Sym>(table.data(), at).st_name));
  }
  for (const Elf64_Shdr& section : sections)
    if (string_at(names, section.sh_name) == ".nv.info")
      read_info(section_bytes(image, section), symbols, cubin);
  return cubin;
}

std::string ptx_behind(const void* image, size_t bytes) {
  const size_t trailer = (bytes + kTrailerAlignment - 1) / kTrailerAlignment * kTrailerAlignment;
  const char* at = static_cast<const char*>(image) + trailer;
  if (!starts_with_magic(at)) return "";
  const auto size = read<uint64_t>(at, kMagic.size());
  return {at + kMagic.size() + sizeof size, size};
}

}  // namespace mezzo::fakecuda
