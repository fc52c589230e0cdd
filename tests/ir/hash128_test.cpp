// SPDX-License-Identifier: Apache-2.0
// The 128-bit hash: published vectors of SipHash-2-4-128, streaming in any pieces, separation of
// fields, and that each bit of the input moves about half of the digest.
#include <mezzo/ir/hash128.h>

#include <doctest/doctest.h>

#include <bit>
#include <set>
#include <string>
#include <vector>

using mezzo::ir::Digest;
using mezzo::ir::Hash128;

namespace {

std::vector<std::byte> counting(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i & 255);
  return bytes;
}

}  // namespace

TEST_CASE("the hash gives the published digests of SipHash-2-4-128") {
  const uint64_t low = 0x0706050403020100, high = 0x0f0e0d0c0b0a0908;
  CHECK(Hash128(low, high).hex() == "a3817f04ba25a8e66df67214c7550293");
  CHECK(Hash128(low, high).update(counting(1)).hex() == "da87c1d86b99af44347659119b22fc45");
}

TEST_CASE("the digest does not depend on how the bytes are cut") {
  const std::vector<std::byte> bytes = counting(61);
  const std::span<const std::byte> all(bytes);
  const Digest whole = Hash128().update(all).digest();
  for (size_t first = 0; first <= bytes.size(); ++first)
    for (size_t second : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{13}}) {
      const size_t middle = std::min(second, bytes.size() - first);
      Hash128 hash;
      hash.update(all.first(first)).update(all.subspan(first, middle));
      hash.update(all.subspan(first + middle));
      REQUIRE(hash.digest() == whole);
    }
}

TEST_CASE("an integer is its eight little endian bytes at any offset") {
  const std::vector<std::byte> bytes = counting(19);
  const std::span<const std::byte> all(bytes);
  for (size_t offset = 0; offset <= 11; ++offset) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8; ++i) word |= std::to_integer<uint64_t>(bytes[offset + i]) << (8 * i);
    Hash128 hash;
    hash.update(all.first(offset)).update(word).update(all.subspan(offset + 8));
    CHECK(hash.digest() == Hash128().update(all).digest());
  }
  CHECK(Hash128().update(-1).digest() == Hash128().update(int64_t{-1}).digest());
}

TEST_CASE("fields cannot run into each other") {
  std::set<Digest> seen;
  seen.insert(Hash128().digest());
  seen.insert(Hash128().update("").digest());
  seen.insert(Hash128().update("ab").update("c").digest());
  seen.insert(Hash128().update("a").update("bc").digest());
  seen.insert(Hash128().update("abc").digest());
  seen.insert(Hash128().update(7).digest());
  seen.insert(Hash128().update(7).update(7).digest());
  seen.insert(Hash128().update(1.0).digest());
  seen.insert(Hash128().update(-0.0).digest());
  for (size_t size : {1, 2, 7, 9})
    seen.insert(Hash128().update(std::vector<std::byte>(size)).digest());
  CHECK(seen.size() == 13);
}

TEST_CASE("one changed bit changes about half of the digest") {
  std::vector<std::byte> bytes = counting(32);
  const Digest before = Hash128().update(bytes).digest();
  int fewest = 128, total = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const Digest after = Hash128().update(bytes).digest();
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const int changed =
        std::popcount(before.high ^ after.high) + std::popcount(before.low ^ after.low);
    fewest = std::min(fewest, changed);
    total += changed;
  }
  CHECK(fewest >= 36);
  CHECK(total / 256 >= 60);
  CHECK(total / 256 <= 68);
}

TEST_CASE("a digest prints as 32 digits with leading zeros") {
  CHECK(Digest{1, 0xabc}.hex() == "00000000000000010000000000000abc");
}
