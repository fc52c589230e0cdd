// SPDX-License-Identifier: Apache-2.0
// Part of the generated CUDA sources whose kernels run along an axis: scans and order.

// --- scans: `of(x, y)` joins what stands before with what follows.

// What some elements of a linear scan do to the value before them: it times `a`, plus `b`.
struct Linear {
  double a, b;
};
struct Chain {
  DEVICE Linear of(const Linear& x, const Linear& y) {
    return {held_product(x.a, y.a), (x.b == 0 ? 0.0 : x.b * y.a) + y.b};
  }
};

// What the threads before this one have of its line, in ascending order by halves; `all` is what
// all of them have. X lines stand side by side in a block, Y threads to each; `parts` has room for
// all threads. Every thread of the block takes part.
template <class Op, int X, int Y, class T>
DEVICE T scan_threads(T x, const T& none, T* parts, T& all) {
  if constexpr (Y == 1) {
    all = x;
    return none;
  } else {
    const int y = (int)threadIdx.x / X;
    T* mine = parts + threadIdx.x;
    __syncthreads();  // the parts of the scan before may still be read
    *mine = x;
#pragma unroll
    for (int step = 1; step < Y; step *= 2) {
      T before = none;
      __syncthreads();
      if (y >= step) before = *(mine - step * X);
      __syncthreads();
      if (y >= step) {
        x = Op::of(before, x);
        *mine = x;
      }
    }
    __syncthreads();
    all = parts[(Y - 1) * X + (int)threadIdx.x % X];
    return y > 0 ? *(mine - X) : none;
  }
}

// --- order: unsigned keys that order as the elements do, NaN greatest, -0 as +0.

DEVICE u32 order_key(float x) {
  if (x != x) return 0xFFFFFFFFu;
  const u32 bits = __float_as_uint(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE u64 order_key(double x) {
  if (x != x) return ~0ull;
  const u64 bits = (u64)__double_as_longlong(x + 0.0);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
DEVICE u32 order_key(i32 x) { return (u32)x ^ 0x80000000u; }
DEVICE u64 order_key(i64 x) { return (u64)x ^ 1ull << 63; }
DEVICE u32 order_key(u8 x) { return x; }
DEVICE u32 order_key(bool x) { return x; }

// A key and the index of its element, which makes all items of a line differ.
template <class K>
struct Item {
  K key;
  u32 at;
};
template <class K>
DEVICE bool comes_before(const Item<K>& x, const Item<K>& y) {
  return x.key != y.key ? x.key < y.key : x.at < y.at;
}
// Stands behind every item.
template <class K>
DEVICE Item<K> last_item() {
  return {(K)~(K)0, 0xFFFFFFFFu};
}

// Sorts each Segment of the Items of a block, all in shared memory: a bitonic network.
template <int Segment, int Items, int Threads, class K>
DEVICE void sort_segments(Item<K>* items) {
  for (u32 size = 2; size <= Segment; size *= 2)
    for (u32 step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (u32 t = threadIdx.x; t < Items / 2; t += Threads) {
        const u32 low = 2 * t - (t & (step - 1));
        const bool ascending = size == Segment || (low & size) == 0;
        const Item<K> x = items[low], y = items[low + step];
        if (comes_before(y, x) == ascending) {
          items[low] = y;
          items[low + step] = x;
        }
      }
    }
  __syncthreads();
}

// The items of a sorted run that come before `item`.
template <class K>
DEVICE u32 rank_in(const Item<K>* run, u32 count, const Item<K>& item) {
  u32 first = 0;
  while (first < count) {
    const u32 middle = (first + count) / 2;
    if (comes_before(run[middle], item))
      first = middle + 1;
    else
      count = middle;
  }
  return first;
}

// Item `c` of a line of `length` in sorted runs of `width` goes to its place in a run of twice the
// width. Of a run only the first `keep` items count.
template <class K>
DEVICE void merge_item(const Item<K>* from, Item<K>* to, u32 c, u32 length, u32 width, u32 keep) {
  const u32 run = c / width, place = c - run * width;
  if (place >= keep) return;
  const u32 sibling = run % 2 == 0 ? (run + 1) * width : (run - 1) * width;
  const u32 begin = run % 2 == 0 ? run * width : sibling;
  const u32 there = sibling < length ? length - sibling : 0;
  const u32 most = width < keep ? width : keep;
  const Item<K> item = from[c];
  const u32 rank = place + rank_in(from + sibling, there < most ? there : most, item);
  if (rank < keep) to[begin + rank] = item;
}
