// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) and the place of an element in its stream: the
// definition that every back end repeats.
#pragma once

#include <array>
#include <cstdint>

namespace mezzo::ir {

/// Four random words from a 128-bit counter and a 64-bit key.
constexpr std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter,
                                                std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0];
    uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// Block `block` of stream `stream` at step `step`: key = the seed, counter = (block low, block
/// high, stream, low half of step).
constexpr std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t step, uint32_t stream,
                                               uint64_t block) {
  return philox4x32_10({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream,
                        static_cast<uint32_t>(step)},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// floor(p 2^32) for a probability: an event of that probability happens where a word is less.
constexpr uint64_t probability_words(double probability) {
  return static_cast<uint64_t>(probability * 0x1p32);
}

}  // namespace mezzo::ir
