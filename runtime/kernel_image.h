// SPDX-License-Identifier: Apache-2.0
// A compiled kernel as bytes: what is stored on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::runtime {

struct KernelImage {
  struct Launch {
    std::string symbol;
    int64_t tasks = 0;  // CUDA: blocks
    // CUDA
    int64_t threads = 0;
    int64_t shared_bytes = 0;
  };
  /// An object file, or a cubin with its PTX.
  std::vector<std::byte> code;
  std::vector<Launch> launches;
  int64_t scratch_bytes = 0;  // a thread
  int64_t workspace_bytes = 0;
  // CUDA, as in codegen::CudaSource
  bool checks_index = false, indirect = false;
};

std::vector<std::byte> write_image(const KernelImage& image);
/// Nothing when the bytes are not an image.
std::optional<KernelImage> read_image(std::span<const std::byte> bytes);

}  // namespace mezzo::runtime
