// SPDX-License-Identifier: Apache-2.0
// What is loaded and cached of a CUDA program: its cubin with the PTX of the same compile behind.
// A driver reads the cubin, an ELF file, by its own headers and never looks behind it; messages and
// tools find the PTX there.
#pragma once

#include <mezzo/codegen/cuda/nvrtc.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mezzo::runtime {

/// Stands before the PTX, at a multiple of 16 bytes; a u64, little-endian, with the PTX's bytes
/// follows, then the PTX.
inline constexpr std::string_view kPtxTrailerMagic = "MEZZO-PTX-TRAIL\n";
static_assert(kPtxTrailerMagic.size() == 16);

/// Bytes of the ELF64 file at the start of `image`, by its headers; 0 where there is none or where
/// it does not end within `image`.
size_t elf_bytes(std::string_view image);

/// The cubin, zeros up to a multiple of 16, the trailer. A binary without cubin is an
/// InternalError.
std::string cuda_image(const codegen::CudaBinary& binary);

/// The PTX behind the cubin; "" where there is none.
std::string_view ptx_of_image(std::string_view image);

/// Architecture of the cubin at the start of `image`: 90 of sm_90; 0 where there is none.
int architecture_of_image(std::string_view image);

}  // namespace mezzo::runtime
