// SPDX-License-Identifier: Apache-2.0
// Third part of every generated CUDA source.
// What the threads of a warp and of a block do together. Every thread of the warp (block) takes
// part.

// ORs the bits that the threads of a warp saw into a flag word.
DEVICE void or_flags(u32* word, u32 bits) {
#if __CUDA_ARCH__ >= 800
  bits = __reduce_or_sync(0xFFFFFFFFu, bits);
#else
  for (int step = 16; step > 0; step >>= 1) bits |= __shfl_xor_sync(0xFFFFFFFFu, bits, step);
#endif
  if (bits != 0 && (threadIdx.x & 31) == 0) atomicOr(word, bits);
}

DEVICE float shuffle(float x, int step) { return __shfl_xor_sync(0xFFFFFFFFu, x, step); }
DEVICE i32 shuffle(i32 x, int step) { return __shfl_xor_sync(0xFFFFFFFFu, x, step); }
DEVICE i64 shuffle(i64 x, int step) {
  const u32 low = __shfl_xor_sync(0xFFFFFFFFu, (u32)(u64)x, step);
  const u32 high = __shfl_xor_sync(0xFFFFFFFFu, (u32)((u64)x >> 32), step);
  return (i64)((u64)high << 32 | low);
}
DEVICE double shuffle(double x, int step) {
  const int low = __shfl_xor_sync(0xFFFFFFFFu, __double2loint(x), step);
  const int high = __shfl_xor_sync(0xFFFFFFFFu, __double2hiint(x), step);
  return __hiloint2double(high, low);
}

struct Add {
  DEVICE float of(float x, float y) { return x + y; }
  DEVICE double of(double x, double y) { return x + y; }
  DEVICE i64 of(i64 x, i64 y) { return wrap_add(x, y); }
};
DEVICE u64 magnitude_bits(double x) { return (u64)__double_as_longlong(x) & ~(1ull << 63); }
enum : u64 { kInfinityBits = 0x7FFull << 52 };
DEVICE double of_bits(u64 magnitude, double sign) {
  const u64 bits = (u64)__double_as_longlong(sign) & 1ull << 63;
  return __longlong_as_double((i64)(magnitude | bits));
}
// Of finite numbers at most the largest one, whose bits are those of infinity less 1.
DEVICE double held_product(double x, double y) {
  const double product = x * y;
  const bool finite = magnitude_bits(x) < kInfinityBits & magnitude_bits(y) < kInfinityBits;
  return finite & magnitude_bits(product) == kInfinityBits ? of_bits(kInfinityBits - 1, product)
                                                           : product;
}
// The NaN that stands for a product of finite numbers beyond the largest one, until a 0 ends it: a
// product of many one of which is 0 is 0, however they are grouped.
enum : u64 { kBeyondBits = 0x7FF80000B4700D0Cull };
DEVICE bool is_beyond(double x) { return magnitude_bits(x) == kBeyondBits; }
struct Multiply {
  DEVICE double of(double x, double y) {
    const double a = is_beyond(x) ? of_bits(kInfinityBits - 1, x) : x;
    const double b = is_beyond(y) ? of_bits(kInfinityBits - 1, y) : y;
    const double product = a * b;
    const u64 size = magnitude_bits(product);
    const bool finite = magnitude_bits(a) < kInfinityBits & magnitude_bits(b) < kInfinityBits;
    const bool stays = (is_beyond(x) | is_beyond(y)) & size != 0 & size < kInfinityBits;
    return (finite & size == kInfinityBits) | stays ? of_bits(kBeyondBits, product) : product;
  }
  DEVICE i64 of(i64 x, i64 y) { return wrap_mul(x, y); }
};
// The number that a running product stands for.
DEVICE double settled(double x) { return is_beyond(x) ? of_bits(kInfinityBits, x) : x; }
// The larger; NaN if either is NaN, the maximum of -0 and +0 is +0.
struct Maximum {
  DEVICE float of(float x, float y) {
    const float equal = __uint_as_float(__float_as_uint(x) & __float_as_uint(y));
    return x > y ? x : x < y ? y : x == y ? equal : x + y;
  }
  DEVICE double of(double x, double y) {
    const double equal = __longlong_as_double(__double_as_longlong(x) & __double_as_longlong(y));
    return x > y ? x : x < y ? y : x == y ? equal : x + y;
  }
  template <class T>
  DEVICE T of(T x, T y) {
    return x > y ? x : y;
  }
};
struct Minimum {
  DEVICE float of(float x, float y) {
    const float equal = __uint_as_float(__float_as_uint(x) | __float_as_uint(y));
    return x < y ? x : x > y ? y : x == y ? equal : x + y;
  }
  DEVICE double of(double x, double y) {
    const double equal = __longlong_as_double(__double_as_longlong(x) | __double_as_longlong(y));
    return x < y ? x : x > y ? y : x == y ? equal : x + y;
  }
  template <class T>
  DEVICE T of(T x, T y) {
    return x < y ? x : y;
  }
};

// The first NaN, else the first of the largest; `at` is negative where nothing was seen.
template <class T>
struct Best {
  T value;
  i64 at;
};
template <class T>
DEVICE Best<T> shuffle(const Best<T>& x, int step) {
  return {shuffle(x.value, step), shuffle(x.at, step)};
}
struct First {
  template <class T>
  DEVICE Best<T> of(const Best<T>& x, const Best<T>& y) {
    if (y.at < 0) return x;
    if (x.at < 0) return y;
    const bool x_nan = x.value != x.value, y_nan = y.value != y.value;
    if (x_nan != y_nan) return x_nan ? x : y;
    if (!x_nan && x.value != y.value) return x.value > y.value ? x : y;
    return x.at < y.at ? x : y;
  }
};

// The accumulators of the lanes of a thread as one, by halves. The number of each half is a
// template argument: a loop over halves is not always unrolled, and the array then lies in memory.
template <class Op, int Half, int V, class T>
DEVICE void fold_onto(T (&x)[V]) {
  if constexpr (Half > 0) {
#pragma unroll
    for (int j = 0; j < Half; ++j) x[j] = Op::of(x[j], x[j + Half]);
    fold_onto<Op, Half / 2>(x);
  }
}
template <class Op, int V, class T>
DEVICE T fold(T (&x)[V]) {
  fold_onto<Op, V / 2>(x);
  return x[0];
}

// All threads of the warp get the result; the order of the folds is fixed.
template <class Op, class T>
DEVICE T reduce_warp(T x) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) x = Op::of(x, shuffle(x, step));
  return x;
}

// All threads of the block get the result.
template <class Op, int Threads, class T>
DEVICE T reduce_block(T x) {
  __shared__ T parts[Threads / 32];
  x = reduce_warp<Op>(x);
  __syncthreads();  // the parts of the reduction before may still be read
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  T total = parts[0];
#pragma unroll
  for (int warp = 1; warp < Threads / 32; ++warp) total = Op::of(total, parts[warp]);
  return total;
}

// The accumulators of the threads of a column, Y of them in a block that is X columns wide, by
// halves: the first row of threads gets the totals. `parts` has room for V accumulators a thread.
template <class Op, int X, int Y, int V, class T>
DEVICE void reduce_columns(T (&x)[V], u64* parts) {
  T* mine = reinterpret_cast<T*>(parts) + threadIdx.x;
  const int y = (int)threadIdx.x / X;
  __syncthreads();  // the parts of the reduction before may still be read
#pragma unroll
  for (int j = 0; j < V; ++j) mine[j * (X * Y)] = x[j];
#pragma unroll
  for (int step = Y / 2; step > 0; step /= 2) {
    __syncthreads();
    if (y < step) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        x[j] = Op::of(x[j], mine[j * (X * Y) + step * X]);
        mine[j * (X * Y)] = x[j];
      }
    }
  }
}

// What the first row of threads has, for all threads of a column.
template <int X, int Y, int V, class T>
DEVICE void share_columns(T (&x)[V], u64* parts) {
  T* first = reinterpret_cast<T*>(parts) + threadIdx.x % X;
  __syncthreads();  // the parts of the reduction before may still be read
  if (threadIdx.x < X) {
#pragma unroll
    for (int j = 0; j < V; ++j) first[j * X] = x[j];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < V; ++j) x[j] = first[j * X];
}
