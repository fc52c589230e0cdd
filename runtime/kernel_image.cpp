// SPDX-License-Identifier: Apache-2.0
// A magic word, memory needs, what the caller must know, launches, code; integers are
// 64 bits in the machine's byte order, which is part of every key through the target.
#include <mezzo/runtime/kernel_image.h>

#include <cstring>

namespace mezzo::runtime {

namespace {

constexpr int64_t kMagic = 0x4d5a4b4e4c32;  // MZKNL2

class Writer {
 public:
  void integer(int64_t value) {
    const std::byte* at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + sizeof value);
  }
  void block(const void* data, size_t size) {
    integer(static_cast<int64_t>(size));
    const std::byte* at = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), at, at + size);
  }
  std::vector<std::byte> bytes;
};

/// Reads until something does not fit; then everything is 0 and `good` false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  int64_t integer() {
    int64_t value = 0;
    std::span<const std::byte> bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> block() { return take(static_cast<size_t>(integer())); }
  bool at_end() const { return good && left_.empty(); }
  bool good = true;

 private:
  std::span<const std::byte> take(size_t size) {
    if (size > left_.size()) good = false;
    if (!good) return {};
    std::span<const std::byte> taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  std::span<const std::byte> left_;
};

}  // namespace

std::vector<std::byte> write_image(const KernelImage& image) {
  Writer out;
  out.integer(kMagic);
  out.integer(image.scratch_bytes);
  out.integer(image.workspace_bytes);
  out.integer(image.checks_index);
  out.integer(image.indirect);
  out.integer(static_cast<int64_t>(image.launches.size()));
  for (const KernelImage::Launch& launch : image.launches) {
    out.block(launch.symbol.data(), launch.symbol.size());
    out.integer(launch.tasks);
    out.integer(launch.threads);
    out.integer(launch.shared_bytes);
  }
  out.block(image.code.data(), image.code.size());
  return std::move(out.bytes);
}

std::optional<KernelImage> read_image(std::span<const std::byte> bytes) {
  Reader in(bytes);
  if (in.integer() != kMagic) return std::nullopt;
  KernelImage image;
  image.scratch_bytes = in.integer();
  image.workspace_bytes = in.integer();
  image.checks_index = in.integer() != 0;
  image.indirect = in.integer() != 0;
  int64_t launches = in.integer();
  for (int64_t i = 0; i < launches && in.good; ++i) {
    std::span<const std::byte> symbol = in.block();
    KernelImage::Launch launch;
    launch.symbol.assign(reinterpret_cast<const char*>(symbol.data()), symbol.size());
    launch.tasks = in.integer();
    launch.threads = in.integer();
    launch.shared_bytes = in.integer();
    image.launches.push_back(std::move(launch));
  }
  std::span<const std::byte> code = in.block();
  if (!in.at_end() || image.scratch_bytes < 0 || image.workspace_bytes < 0) return std::nullopt;
  image.code.assign(code.begin(), code.end());
  return image;
}

}  // namespace mezzo::runtime
