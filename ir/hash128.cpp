// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4-128 after Aumasson and Bernstein, "SipHash: a fast short-input PRF", and its 128-bit
// variant.
#include <mezzo/ir/hash128.h>

#include <bit>

namespace mezzo::ir {
namespace {

// Words are little endian by definition, whatever the machine.
uint64_t read_word(const std::byte* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

uint64_t swap_bytes(uint64_t word) { return __builtin_bswap64(word); }

}  // namespace

std::string Digest::hex() const {
  static const char digits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[static_cast<size_t>(15 - i)] = digits[high >> (4 * i) & 15];
    out[static_cast<size_t>(31 - i)] = digits[low >> (4 * i) & 15];
  }
  return out;
}

// The key is the first 128 bits of the fraction of pi.
Hash128::Hash128() : Hash128(0x243f6a8885a308d3, 0x13198a2e03707344) {}

Hash128::Hash128(uint64_t key_low, uint64_t key_high)
    : v0_(0x736f6d6570736575 ^ key_low),
      v1_(0x646f72616e646f6d ^ key_high ^ 0xee),
      v2_(0x6c7967656e657261 ^ key_low),
      v3_(0x7465646279746573 ^ key_high) {}

void Hash128::round() {
  v0_ += v1_;
  v1_ = std::rotl(v1_, 13) ^ v0_;
  v0_ = std::rotl(v0_, 32);
  v2_ += v3_;
  v3_ = std::rotl(v3_, 16) ^ v2_;
  v0_ += v3_;
  v3_ = std::rotl(v3_, 21) ^ v0_;
  v2_ += v1_;
  v1_ = std::rotl(v1_, 17) ^ v2_;
  v2_ = std::rotl(v2_, 32);
}

void Hash128::compress(uint64_t word) {
  v3_ ^= word;
  round();
  round();
  v0_ ^= word;
}

Hash128& Hash128::update_word(uint64_t word) {
  const int used = static_cast<int>(length_ & 7) * 8;
  length_ += 8;
  if (used == 0) {
    compress(word);
  } else {
    compress(buffer_ | word << used);
    buffer_ = word >> (64 - used);
  }
  return *this;
}

Hash128& Hash128::update(std::span<const std::byte> bytes) {
  size_t i = 0;
  const auto single = [&] {
    buffer_ |= std::to_integer<uint64_t>(bytes[i++]) << ((length_ & 7) * 8);
    if ((++length_ & 7) == 0) {
      compress(buffer_);
      buffer_ = 0;
    }
  };
  while (i < bytes.size() && (length_ & 7) != 0) single();
  for (; bytes.size() - i >= 8; i += 8) update_word(read_word(bytes.data() + i));
  while (i < bytes.size()) single();
  return *this;
}

Hash128& Hash128::update(std::string_view text) {
  update_word(text.size());
  return update(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

Digest Hash128::digest() const {
  Hash128 end = *this;
  end.compress(buffer_ | length_ << 56);
  end.v2_ ^= 0xee;
  const auto fold = [&end] {
    for (int i = 0; i < 4; ++i) end.round();
    return end.v0_ ^ end.v1_ ^ end.v2_ ^ end.v3_;
  };
  // The published form is 16 bytes, each half little endian; hex() prints the bytes in that order.
  const uint64_t first = fold();
  end.v1_ ^= 0xdd;
  return {swap_bytes(first), swap_bytes(fold())};
}

}  // namespace mezzo::ir
