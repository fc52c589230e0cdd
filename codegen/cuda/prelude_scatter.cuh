// SPDX-License-Identifier: Apache-2.0
// The part of the prelude that scatters need: a stable sort, so that what is added at one place is
// added in the order in which it stands.

enum : u32 { kSortThreads = 1024, kSortWarps = kSortThreads / 32, kDigits = 256 };

// Pairs of keys and numbers, `count` of each.
struct Pairs {
  u32* keys;
  u32* numbers;
};

// The lanes of the warp that have the digit of this lane.
DEVICE u32 lanes_alike(u32 digit, bool some) {
  u32 alike = __ballot_sync(0xFFFFFFFFu, some);
#pragma unroll
  for (u32 bit = 0; bit < 8; ++bit) {
    const bool one = (digit >> bit & 1u) != 0;
    const u32 ones = __ballot_sync(0xFFFFFFFFu, one);
    alike &= one ? ones : ~ones;
  }
  return alike;
}

// Sorts by 8 bits of the keys, from bit `shift` on; one block of kSortThreads does it. Within a
// round, which takes one pair a thread, warps stand in their order and lanes in theirs.
static __device__ void sort_digit(Pairs from, Pairs to, u32 count, u32 shift) {
  __shared__ u32 of_warp[kSortWarps][kDigits];
  __shared__ u32 begins[kDigits];
  const u32 thread = threadIdx.x, warp = thread / 32, before = (1u << (thread & 31)) - 1;
  // Twice over all pairs: first they are counted, then each finds its place.
  for (u32 pass = 0; pass < 2; ++pass) {
    if (pass == 0 && thread < kDigits) begins[thread] = 0;
    for (u32 first = 0; first < count; first += kSortThreads) {
      for (u32 i = thread; i < kSortWarps * kDigits; i += kSortThreads)
        of_warp[i / kDigits][i % kDigits] = 0;
      __syncthreads();
      const u32 place = first + thread;
      const bool some = place < count;
      const u32 key = some ? from.keys[place] : 0, digit = key >> shift & (kDigits - 1);
      const u32 alike = lanes_alike(digit, some);
      if (some && (alike & before) == 0) of_warp[warp][digit] = __popc(alike);
      __syncthreads();
      if (thread < kDigits) {
        // From here on the places of the warps' first pairs.
        u32 next = begins[thread];
        for (u32 w = 0; w < kSortWarps; ++w) {
          const u32 here = of_warp[w][thread];
          of_warp[w][thread] = next;
          next += here;
        }
        begins[thread] = next;
      }
      __syncthreads();
      if (pass == 1 && some) {
        const u32 at = of_warp[warp][digit] + __popc(alike & before);
        to.keys[at] = key;
        to.numbers[at] = from.numbers[place];
      }
      __syncthreads();
    }
    // Counts become places.
    if (pass == 0 && thread == 0) {
      u32 next = 0;
      for (u32 digit = 0; digit < kDigits; ++digit) {
        const u32 here = begins[digit];
        begins[digit] = next;
        next += here;
      }
    }
    __syncthreads();
  }
}

// The first of `count` ascending keys that is not below `key`.
DEVICE u32 lower_bound(const u32* keys, u32 count, u32 key) {
  u32 first = 0;
  while (count > 0) {
    const u32 half = count / 2;
    const bool below = keys[first + half] < key;
    first = below ? first + half + 1 : first;
    count = below ? count - half - 1 : half;
  }
  return first;
}
