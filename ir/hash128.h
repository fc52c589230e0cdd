// SPDX-License-Identifier: Apache-2.0
// A streaming 128-bit hash for structural equality, cache keys and checksums: SipHash-2-4 with 128
// bits of output under a fixed key. The same bytes give the same digest on every machine. Not for
// secrets.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace mezzo::ir {

/// A 128-bit digest; a plain value that can be a map's key.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  auto operator<=>(const Digest&) const = default;
  /// 32 lower-case hexadecimal digits.
  std::string hex() const;
};

class Hash128 {
 public:
  Hash128();
  /// Another family of digests, as for published test vectors.
  Hash128(uint64_t key_low, uint64_t key_high);

  /// Bytes as they are; two calls are the same as one with the bytes joined.
  Hash128& update(std::span<const std::byte> bytes);
  /// Length, then the characters, so that neighbouring texts cannot run into each other.
  Hash128& update(std::string_view text);
  Hash128& update(const char* text) { return update(std::string_view(text)); }
  /// Every integer counts as eight bytes, sign extended.
  template <std::integral Integer>
  Hash128& update(Integer value) {
    return update_word(static_cast<uint64_t>(value));
  }
  /// The bits of the value as f64: -0 and 0 differ.
  template <std::floating_point Float>
  Hash128& update(Float value) {
    const double wide = static_cast<double>(value);
    uint64_t bits;
    std::memcpy(&bits, &wide, sizeof bits);
    return update_word(bits);
  }
  Hash128& update(const Digest& digest) { return update_word(digest.high).update_word(digest.low); }

  /// The digest of all so far; the hash can go on after it.
  Digest digest() const;
  std::string hex() const { return digest().hex(); }

 private:
  Hash128& update_word(uint64_t word);
  void compress(uint64_t word);
  void round();

  uint64_t v0_, v1_, v2_, v3_;
  uint64_t buffer_ = 0;  // the bytes that do not fill a word yet, lowest first
  uint64_t length_ = 0;
};

}  // namespace mezzo::ir
