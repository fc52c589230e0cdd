// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_image.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>

namespace mezzo::runtime {

namespace {

constexpr size_t kAlignment = 16;
constexpr uint32_t kNoBits = SHT_NOBITS;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
bool read(std::string_view image, uint64_t at, T& value) {
  if (at > image.size() || image.size() - at < sizeof value) return false;
  std::memcpy(&value, image.data() + at, sizeof value);
  return true;
}

bool read_header(std::string_view image, Elf64_Ehdr& header) {
  return read(image, 0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64;
}

}  // namespace

size_t elf_bytes(std::string_view image) {
  Elf64_Ehdr header;
  if (!read_header(image, header)) return 0;
  uint64_t end = sizeof header;
  const auto reach = [&](uint64_t offset, uint64_t bytes) {
    if (offset > image.size() || bytes > image.size() - offset) return false;
    end = std::max(end, offset + bytes);
    return true;
  };
  if (!reach(header.e_phoff, uint64_t{header.e_phentsize} * header.e_phnum)) return 0;
  if (!reach(header.e_shoff, uint64_t{header.e_shentsize} * header.e_shnum)) return 0;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!read(image, header.e_shoff + i * header.e_shentsize, section)) return 0;
    if (section.sh_type != kNoBits && !reach(section.sh_offset, section.sh_size)) return 0;
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read(image, header.e_phoff + i * header.e_phentsize, segment)) return 0;
    if (!reach(segment.p_offset, segment.p_filesz)) return 0;
  }
  return end;
}

std::string cuda_image(const codegen::CudaBinary& binary) {
  const size_t bytes = elf_bytes(binary.cubin);
  MEZZO_CHECK(bytes > 0, "a CUDA program was compiled to " +
                             ir::counted(binary.cubin.size(), "byte") + " that are no ELF file");
  std::string image = binary.cubin.substr(0, bytes);
  image.resize(aligned(bytes), '\0');
  image += kPtxTrailerMagic;
  const uint64_t size = binary.ptx.size();
  image.append(reinterpret_cast<const char*>(&size), sizeof size);
  return image + binary.ptx;
}

std::string_view ptx_of_image(std::string_view image) {
  const size_t bytes = elf_bytes(image);
  uint64_t size = 0;
  const size_t trailer = aligned(bytes), text = trailer + kPtxTrailerMagic.size() + sizeof size;
  if (bytes == 0 || image.size() < text) return {};
  if (image.substr(trailer, kPtxTrailerMagic.size()) != kPtxTrailerMagic) return {};
  if (!read(image, trailer + kPtxTrailerMagic.size(), size)) return {};
  if (size > image.size() - text) return {};
  return image.substr(text, size);
}

int architecture_of_image(std::string_view image) {
  Elf64_Ehdr header;
  if (!read_header(image, header)) return 0;
  // ABI version 8 (CUDA 13) moved the number from the lowest byte to the next.
  const uint32_t shift = header.e_ident[EI_ABIVERSION] >= 8 ? 8 : 0;
  return static_cast<int>(header.e_flags >> shift & 0xff);
}

}  // namespace mezzo::runtime
