// SPDX-License-Identifier: Apache-2.0
// The finite check and the verdict of a training step. What they look at stands in a table in
// device memory (codegen/cuda/step_kernels.h), so that this text serves every program. A step that
// went well costs a look at the flag words: nothing else is read, and one thread writes the answer.
// Otherwise all blocks look at the memory, and the last to finish answers.

#define DEVICE_MEMBER __device__ __forceinline__

// A tensor to look at. `kind`: 0 integers, which are finite, 1 f16, 2 bf16, 3 f32, 4 f64.
struct Tensor {
  u64 address, elements, kind;
};

struct alignas(16) Piece {
  u32 x, y, z, w;
};

// Whether a number of the word is not finite: all bits of its exponent are set.
struct Exponent {
  u32 low, high;
  DEVICE_MEMBER bool in(u32 word) const {
    return (word & low) == low | (word & high) == high;
  }
};

// Whether thread `thread` of `threads` sees a number that is not finite in its share.
static __device__ bool sees_nonfinite(const u64* table, const Tensor& tensor, u64 thread,
                                      u64 threads) {
  if (tensor.kind == 0) return false;
  const Exponent exponent = tensor.kind == 1   ? Exponent{0x7C00u, 0x7C000000u}
                            : tensor.kind == 2 ? Exponent{0x7F80u, 0x7F800000u}
                            : tensor.kind == 3 ? Exponent{0x7F800000u, 0x7F800000u}
                                               : Exponent{0x7FF00000u, 0x7FF00000u};
  const u32 bytes = tensor.kind < 3 ? 2 : tensor.kind == 3 ? 4 : 8;
  const Piece* pieces = global<const Piece>(table, tensor.address);
  const u64 count = tensor.elements * bytes / 16;
  bool seen = false;
#pragma unroll 2
  for (u64 i = thread; i < count; i += threads) {
    Piece piece = pieces[i];
    if (bytes == 8) {
      piece.x = piece.y;
      piece.z = piece.w;
    }
    seen |= exponent.in(piece.x) | exponent.in(piece.y) | exponent.in(piece.z) |
            exponent.in(piece.w);
  }
  // What is left does not fill a piece: an element a thread.
  const u64 element = count * (16 / bytes) + thread;
  if (element < tensor.elements) {
    if (bytes == 2)
      seen |= exponent.in(global<const u16>(table, tensor.address)[element]);
    else
      seen |= exponent.in(global<const u32>(table, tensor.address)[(element + 1) * (bytes / 4) - 1]);
  }
  return seen;
}

// Whether this block is the last to come here; whatever the others wrote is then visible.
static __device__ bool is_last_block(u32* arrived) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1) == gridDim.x - 1;
    if (last) atomicExch(arrived, 0);
    __threadfence();
  }
  __syncthreads();
  return last;
}

// --- all_finite

struct Watched {
  Tensor tensor;
  u64 word;  // address of the flag word of the op that computes it; 0: nobody watches
};
struct FiniteTable {
  u64 result, index_flag;  // addresses
  u64 tensors;
  u32 found, arrived;  // 0 between launches
  // What follows.
  DEVICE_MEMBER const Watched& tensor(u64 number) const {
    return reinterpret_cast<const Watched*>(this + 1)[number];
  }
};

// A clear word proves that a tensor is finite; a set one does not prove the contrary, since parts
// of an operation share it: then the memory decides.
extern "C" __global__ void __launch_bounds__(256, 2) mezzo_all_finite(u64* memory) {
  FiniteTable& table = *reinterpret_cast<FiniteTable*>(memory);
  __shared__ u32 doubtful[8];
  const u64 thread = (u64)blockIdx.x * 256 + threadIdx.x, threads = (u64)gridDim.x * 256;
  const bool bad_index = *global<const u32>(memory, table.index_flag) != 0;
  bool seen = false, looked = false;
  for (u64 first = 0; first < table.tensors && !bad_index; first += 256) {
    const u64 mine = first + threadIdx.x;
    bool doubt = false;
    if (mine < table.tensors) {
      const Watched& watched = table.tensor(mine);
      doubt = watched.tensor.kind != 0 &&
              (watched.word == 0 || (*global<const u32>(memory, watched.word) & 1u) != 0);
    }
    const u32 mask = __ballot_sync(0xFFFFFFFFu, doubt);
    if ((threadIdx.x & 31) == 0) doubtful[threadIdx.x / 32] = mask;
    __syncthreads();
    for (u32 group = 0; group < 8; ++group)
      for (u32 left = doubtful[group]; left != 0; left &= left - 1) {
        looked = true;
        seen |= sees_nonfinite(memory, table.tensor(first + group * 32 + (__ffs(left) - 1)).tensor,
                               thread, threads);
      }
    __syncthreads();
  }
  bool8* result = global<bool8>(memory, table.result);
  if (!looked) {
    if (thread == 0) narrow(*result, !bad_index);
    return;
  }
  if (seen) atomicOr(&table.found, 1u);
  if (is_last_block(&table.arrived) && threadIdx.x == 0)
    narrow(*result, atomicExch(&table.found, 0) == 0);
}

// --- verdict

// A flag word of the step with what ir::VerdictTable says of it.
struct Entry {
  u32 word;
  u32 role;    // 0 forward, 1 backward, 2 update, 3 scale
  u32 traits;  // 1: has a domain, 2: casts a trained parameter
  u32 producers, parameters, end;  // its lists: producers up to parameters, these up to the end
};
struct Judged {
  Tensor tensor;
  u32 trained;
  u32 reader;  // word of the op that reads it first, 0 where there is none
};
struct VerdictTable {
  u64 result, ok, index_flag, words, scale;  // addresses; no scale: 0
  Tensor loss;
  u64 entries, parameters;
  u64 entry, list, bad;  // bytes from the table to the arrays; one of `bad` a parameter
  u32 arrived, unused;   // `arrived` and `bad`: 0 between launches
  // What follows.
  DEVICE_MEMBER const Judged& parameter(u64 number) const {
    return reinterpret_cast<const Judged*>(this + 1)[number];
  }
};

// The first of each kind, none: 0xFFFFFFFF.
struct Firsts {
  u32 parameter, cast, input, role[4];
};

// What ir::judge says, by the threads of one block. The first match of a rule is the least number.
static __device__ u32 judge(const u64* memory, const VerdictTable& table, bool ok, Firsts& first) {
  const char* base = reinterpret_cast<const char*>(memory);
  const Entry* entries = reinterpret_cast<const Entry*>(base + table.entry);
  const u32* list = reinterpret_cast<const u32*>(base + table.list);
  // By atomics of other blocks: what a cache kept from before is not asked.
  const volatile u32* bad = reinterpret_cast<const u32*>(base + table.bad);
  const u32* words = global<const u32>(memory, table.words);
  constexpr u32 kNonFinite = 1, kOverflow = 2, kPole = 4, kNone = 0xFFFFFFFFu;
  if (threadIdx.x < sizeof(Firsts) / 4) reinterpret_cast<u32*>(&first)[threadIdx.x] = kNone;
  __syncthreads();
  for (u32 number = threadIdx.x; number < table.entries; number += 256) {
    const Entry& entry = entries[number];
    // Non-finite although no op before it is.
    bool produces = (words[entry.word] & kNonFinite) != 0;
    for (u32 i = entry.producers; i < entry.parameters && produces; ++i)
      produces = (words[entries[list[i]].word] & kNonFinite) == 0;
    if (!produces) continue;
    atomicMin(&first.role[entry.role], number);
    if ((entry.traits & 2u) != 0) atomicMin(&first.cast, number);
    if (ok || entry.role > 1) continue;
    for (u32 i = entry.parameters; i < entry.end; ++i)
      if (bad[list[i]] != 0) atomicMin(&first.input, number);
  }
  if (!ok)
    for (u32 number = threadIdx.x; number < table.parameters; number += 256)
      if (table.parameter(number).trained != 0 && bad[number] != 0)
        atomicMin(&first.parameter, number);
  __syncthreads();

  auto coded = [&](u32 code, u32 number) {
    return code + (number == kNone ? 0u : 256u * entries[number].word);
  };
  auto made_by = [&](u32 number) {
    const Entry& entry = entries[number];
    const u32 flags = words[entry.word];
    const bool domain =
        (flags & kOverflow) == 0 && ((flags & kPole) != 0 || (entry.traits & 1u) != 0);
    return coded(domain ? 5 : 4, number);
  };
  const u32 forward = first.role[0], backward = first.role[1], update = first.role[2];
  if (ok) return coded(1, forward);
  if (first.parameter != kNone) return 2 + 256u * table.parameter(first.parameter).reader;
  if (first.cast != kNone) return coded(2, first.cast);
  if (first.input != kNone) return coded(3, first.input);
  if (forward != kNone) return made_by(forward);
  if (backward != kNone) {
    const u32 flags = words[entries[backward].word];
    if ((flags & kOverflow) != 0) return coded(6, backward);
    if ((flags & kPole) != 0 || (entries[backward].traits & 1u) != 0) return coded(7, backward);
    const bool scaled = table.scale != 0 && *global<const float>(memory, table.scale) > 1;
    return coded(scaled ? 6 : 8, backward);
  }
  if (update != kNone) return made_by(update);
  return coded(8, first.role[3]);
}

extern "C" __global__ void __launch_bounds__(256, 2) mezzo_verdict(u64* memory) {
  VerdictTable& table = *reinterpret_cast<VerdictTable*>(memory);
  __shared__ Firsts first;
  const u64 thread = (u64)blockIdx.x * 256 + threadIdx.x, threads = (u64)gridDim.x * 256;
  i32* result = global<i32>(memory, table.result);
  u32* bad = reinterpret_cast<u32*>(reinterpret_cast<char*>(memory) + table.bad);
  const bool ok = widen(*global<const bool8>(memory, table.ok));
  const bool bad_index = *global<const u32>(memory, table.index_flag) != 0;
  // The loss, which is one number as a rule and which every block looks at; then the parameters,
  // unless the step is taken, whatever they hold. One loop, so that the text is compiled once.
  for (u64 number = 0; number <= table.parameters; ++number) {
    const bool is_loss = number == 0;
    const Tensor& tensor = is_loss ? table.loss : table.parameter(number - 1).tensor;
    const bool seen = sees_nonfinite(memory, tensor, is_loss ? threadIdx.x : thread,
                                     is_loss ? 256 : threads);
    if (!is_loss) {
      if (seen) atomicOr(&bad[number - 1], 1u);
      continue;
    }
    const bool lost = __syncthreads_or(seen);
    if (bad_index || (ok && !lost)) {
      if (thread == 0) *result = bad_index ? 9 : 0;
      return;
    }
    if (ok) break;
  }
  if (ok ? blockIdx.x != 0 : !is_last_block(&table.arrived)) return;
  const u32 verdict = judge(memory, table, ok, first);
  if (!ok) {
    __syncthreads();
    for (u64 number = threadIdx.x; number < table.parameters; number += 256) bad[number] = 0;
  }
  if (threadIdx.x == 0) *result = (i32)verdict;
}
