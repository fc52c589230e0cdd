// SPDX-License-Identifier: Apache-2.0
// Second part of every generated CUDA source.
// Vectors of elements in memory: 16 bytes at a time wherever the elements fill them.

// The pointer at `address`, which was itself read from memory: as a distance from a parameter, so
// that the compiler sees what memory it points to.
template <class T>
DEVICE T* global(const u64* parameter, u64 address) {
  const char* base = reinterpret_cast<const char*>(parameter);
  return (T*)(base + (address - reinterpret_cast<u64>(parameter)));
}

struct alignas(16) Words4 {
  u32 x, y, z, w;
};
struct alignas(8) Words2 {
  u32 x, y;
};

template <int N>
DEVICE void load_words(u32 (&words)[N], const void* p) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int k = 0; k < N / 4; ++k) {
      const Words4 q = static_cast<const Words4*>(p)[k];
      words[4 * k] = q.x;
      words[4 * k + 1] = q.y;
      words[4 * k + 2] = q.z;
      words[4 * k + 3] = q.w;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
      const Words2 q = static_cast<const Words2*>(p)[k];
      words[2 * k] = q.x;
      words[2 * k + 1] = q.y;
    }
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) words[k] = static_cast<const u32*>(p)[k];
  }
}

template <int N>
DEVICE void store_words(void* p, const u32 (&words)[N]) {
  if constexpr (N % 4 == 0) {
#pragma unroll
    for (int k = 0; k < N / 4; ++k) {
      const Words4 q = {words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]};
      static_cast<Words4*>(p)[k] = q;
    }
  } else if constexpr (N % 2 == 0) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
      const Words2 q = {words[2 * k], words[2 * k + 1]};
      static_cast<Words2*>(p)[k] = q;
    }
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) static_cast<u32*>(p)[k] = words[k];
  }
}

// Element j of a vector held in words.
template <int N>
DEVICE void take(float& to, const u32 (&words)[N], int j) {
  to = __uint_as_float(words[j]);
}
template <int N>
DEVICE void take(double& to, const u32 (&words)[N], int j) {
  to = __hiloint2double((int)words[2 * j + 1], (int)words[2 * j]);
}
template <int N>
DEVICE void take(i32& to, const u32 (&words)[N], int j) {
  to = (i32)words[j];
}
template <int N>
DEVICE void take(i64& to, const u32 (&words)[N], int j) {
  to = (i64)((u64)words[2 * j + 1] << 32 | words[2 * j]);
}
template <int N>
DEVICE void take(u8& to, const u32 (&words)[N], int j) {
  to = (u8)(words[j / 4] >> 8 * (j % 4));
}
template <int N>
DEVICE void take(bool8& to, const u32 (&words)[N], int j) {
  take(to.bits, words, j);
}
template <int N>
DEVICE void take(f16& to, const u32 (&words)[N], int j) {
  to.bits = (u16)(words[j / 2] >> 16 * (j % 2));
}
template <int N>
DEVICE void take(bf16& to, const u32 (&words)[N], int j) {
  to.bits = (u16)(words[j / 2] >> 16 * (j % 2));
}

template <int V, class C>
DEVICE void pack(u32 (&words)[V], const C (&x)[V], const float*) {
#pragma unroll
  for (int j = 0; j < V; ++j) words[j] = __float_as_uint(x[j]);
}
template <int V, class C>
DEVICE void pack(u32 (&words)[V], const C (&x)[V], const i32*) {
#pragma unroll
  for (int j = 0; j < V; ++j) words[j] = (u32)x[j];
}
template <int V, class C>
DEVICE void pack(u32 (&words)[2 * V], const C (&x)[V], const double*) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    words[2 * j] = (u32)__double2loint(x[j]);
    words[2 * j + 1] = (u32)__double2hiint(x[j]);
  }
}
template <int V, class C>
DEVICE void pack(u32 (&words)[2 * V], const C (&x)[V], const i64*) {
#pragma unroll
  for (int j = 0; j < V; ++j) {
    words[2 * j] = (u32)(u64)x[j];
    words[2 * j + 1] = (u32)((u64)x[j] >> 32);
  }
}
// u8 and bool, whose values are 0 to 255.
template <int V, class C, class T>
DEVICE void pack(u32 (&words)[V / 4], const C (&x)[V], const T*) {
  static_assert(sizeof(T) == 1, "one byte an element");
#pragma unroll
  for (int k = 0; k < V / 4; ++k)
    words[k] = (u32)x[4 * k] | (u32)x[4 * k + 1] << 8 | (u32)x[4 * k + 2] << 16 |
               (u32)x[4 * k + 3] << 24;
}
template <int V>
DEVICE void pack(u32 (&words)[V / 2], const float (&x)[V], const f16*) {
#pragma unroll
  for (int k = 0; k < V / 2; ++k) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
#else
    words[k] = bits_f16(x[2 * k]) | (u32)bits_f16(x[2 * k + 1]) << 16;
#endif
  }
}
template <int V>
DEVICE void pack(u32 (&words)[V / 2], const float (&x)[V], const bf16*) {
#pragma unroll
  for (int k = 0; k < V / 2; ++k) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
#else
    words[k] = bits_bf16(x[2 * k]) | (u32)bits_bf16(x[2 * k + 1]) << 16;
#endif
  }
}

// V elements from p, which is aligned to the whole vector or to 16 bytes, in their compute type C.
template <int V, class C, class T>
DEVICE void load_vector(C (&x)[V], const T* p) {
  if constexpr (V * sizeof(T) % 4 == 0) {
    u32 words[V * sizeof(T) / 4];
    load_words(words, p);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      T element;
      take(element, words, j);
      x[j] = widen(element);
    }
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) x[j] = widen(p[j]);
  }
}

template <int V, class C, class T>
DEVICE void store_vector(T* p, const C (&x)[V]) {
  if constexpr (V * sizeof(T) % 4 == 0) {
    u32 words[V * sizeof(T) / 4];
    pack(words, x, p);
    store_words(p, words);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) narrow(p[j], x[j]);
  }
}

// The same at the end of a tensor, where `count` elements are left (1 to V). Lanes beyond repeat
// the last element, so that whatever is computed of them is computed of an element that is there.
template <int V, class C, class T>
DEVICE void load_tail(C (&x)[V], const T* p, int count) {
  if (count == V) {
    load_vector(x, p);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j) x[j] = widen(p[j < count ? j : count - 1]);
  }
}

template <int V, class C, class T>
DEVICE void store_tail(T* p, const C (&x)[V], int count) {
  if (count == V) {
    store_vector(p, x);
  } else {
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (j < count) narrow(p[j], x[j]);
  }
}
