// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions: ldmatrix, stmatrix, movmatrix, mma.sync.
#include <fmt/format.h>

#include <cstring>
#include <ptx/half.h>
#include <ptx/lanes.h>
#include <ptx/memory_operand.h>

namespace mezzo::ptx::detail {

namespace {

// ---- 8x8 matrices of 16 bits. Row r of matrix m has its address in lane 8 m + r; lane l holds
// ---- elements 2 (l % 4) and the next one of row l / 4 ----

/// Lanes that give addresses.
Mask givers(uint32_t count) { return count == 4 ? kAllLanes : (Mask{1} << (8 * count)) - 1; }

void matrix_addresses(Warp& warp, const Instruction& instruction, Addresses& at) {
  read_addresses(warp, instruction, instruction.op[1], instruction.address_bytes,
                 instruction.immediate, at);
  const Mask lanes = givers(instruction.count);
  const SpaceMasks spaces = sort_lanes(MemoryMode::unpack(instruction.mode).space, lanes, at);
  if (const Mask others = lanes & ~spaces.shared)
    fail(warp, instruction, FaultKind::OutOfBounds, first_lane(others),
         "the address is not in shared memory");
  check_shared_bounds(warp, instruction, lanes, at, 16);
  count_wavefronts(warp, instruction, lanes, at, 16);
}

template <bool kTranspose>
void load_matrices(Warp& warp, const Instruction& instruction, Mask) {
  Addresses at;
  matrix_addresses(warp, instruction, at);
  SharedMemory& shared = warp.block->shared;
  for (uint32_t m = 0; m < instruction.count; ++m) {
    // The register's 64 halves are the matrix, row after row.
    uint16_t* const to = warp.lanes<uint16_t>(instruction.list[m]);
    for (int r = 0; r < 8; ++r) {
      const int giver = static_cast<int>(8 * m) + r;
      const auto address = static_cast<uint32_t>(at.of[giver]);
      if (const Finding finding = shared.read_together(address, 16, warp.index))
        fail_shared(warp, instruction, giver, 16, finding);
      const std::byte* const from = shared.data() + address;
      if constexpr (kTranspose) {
        uint16_t row[8];
        std::memcpy(row, from, 16);
        for (int c = 0; c < 8; ++c) to[8 * c + r] = row[c];
      } else {
        std::memcpy(to + 8 * r, from, 16);
      }
    }
  }
}

template <bool kTranspose>
void store_matrices(Warp& warp, const Instruction& instruction, Mask) {
  Addresses at;
  matrix_addresses(warp, instruction, at);
  SharedMemory& shared = warp.block->shared;
  for (uint32_t m = 0; m < instruction.count; ++m) {
    const uint16_t* const from = warp.lanes<uint16_t>(instruction.list[m]);
    for (int r = 0; r < 8; ++r) {
      const int giver = static_cast<int>(8 * m) + r;
      const auto address = static_cast<uint32_t>(at.of[giver]);
      if (const Finding finding =
              shared.write(address, 16, warp.first_thread + static_cast<uint32_t>(giver)))
        fail_shared(warp, instruction, giver, 16, finding);
      uint16_t row[8];
      for (int c = 0; c < 8; ++c) row[c] = from[kTranspose ? 8 * c + r : 8 * r + c];
      std::memcpy(shared.data() + address, row, 16);
    }
  }
}

void move_matrix(Warp& warp, const Instruction& instruction, Mask) {
  const uint16_t* from = warp.lanes<uint16_t>(instruction.op[1]);
  uint16_t result[64];
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column) result[8 * row + column] = from[8 * column + row];
  std::memcpy(warp.lanes<uint16_t>(instruction.op[0]), result, sizeof(result));
}

void decode_matrix_list(Decoder& d, const Operand& operand, bool output) {
  const uint32_t count = d.instruction.count;
  const bool braces = operand.kind == Operand::Kind::Vector;
  if ((braces ? operand.parts.size() : 1) != count)
    d.error(fmt::format("{} registers expected", count));
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < count; ++i) {
    const Operand& part = braces ? operand.parts[i] : operand;
    list.push_back(output ? d.output(part, 4) : d.input(part, kB32));
  }
  d.instruction.list = d.builder().add_list(std::move(list));
}

template <bool kLoad>
void decode_matrices(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8")) d.error_modifiers();
  const int many = d.take_one_of({"x1", "x2", "x4"});
  if (many < 0) d.error_modifiers();
  const bool transpose = d.take("trans");
  MemoryMode mode = take_memory_mode(d);
  if (d.take_type() != kB16) d.error_modifiers();
  d.finish();
  d.expect_operands(2);
  Instruction& to = d.instruction;
  to.count = static_cast<uint8_t>(1 << many);
  decode_address(d, d.operand(kLoad ? 1 : 0), mode);
  decode_matrix_list(d, d.operand(kLoad ? 0 : 1), kLoad);
  d.builder().note_shared_width(16);
  to.mode = mode.pack();
  to.flow = Flow::Aligned;
  if constexpr (kLoad)
    d.emit(transpose ? load_matrices<true> : load_matrices<false>);
  else
    d.emit(transpose ? store_matrices<true> : store_matrices<false>);
}

void decode_movmatrix(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8") || !d.take("trans"))
    d.error_modifiers();
  if (d.take_type() != kB16) d.error_modifiers();
  d.finish();
  d.expect_operands(2);
  d.instruction.op[1] = d.input(1, kB32);
  d.instruction.op[0] = d.output(0, 4);
  d.instruction.flow = Flow::Aligned;
  d.emit(move_matrix);
}

// ---- mma: C[16][8] += A[16][K] B[K][8]. Lane l is in group l / 4 and its place in it is l % 4.
// ---- A register of halves is an 8x8 block of A by rows, or of B by columns; one of tf32 is 8x4.
// ---- The upper and lower eight rows of A take turns, block after block along K ----

constexpr int kRows = 16, kColumns = 8;

/// Part of a row of C, in a register of the host.
using Four __attribute__((vector_size(16))) = float;

/// f16 and bf16 lie in pairs along K, tf32 one by one.
struct Tf32 {
  uint32_t bits;
  operator float() const { return std::bit_cast<float>(bits & 0xFFFFE000u); }
};

/// Elements of a register, by rows of 8 or 4.
template <class T>
constexpr int kElements = kLanes * 4 / static_cast<int>(sizeof(T));
template <class T>
constexpr int kWide = kElements<T> / 8;

template <class T, int kDepth>
struct Operands {
  alignas(64) float a[kDepth / kWide<T>][2][8][kWide<T>];
  alignas(64) float b[kDepth][kColumns];

  Operands(Warp& warp, const uint32_t* list) {
    constexpr int kSteps = kDepth / kWide<T>;
    for (int step = 0; step < kSteps; ++step) {
      for (int half = 0; half < 2; ++half) {
        const T* from = warp.lanes<T>(list[2 * step + half]);
        float* const to = a[step][half][0];
        for (int i = 0; i < kElements<T>; ++i) to[i] = from[i];
      }
    }
    for (int step = 0; step < kSteps; ++step) {
      const T* from = warp.lanes<T>(list[2 * kSteps + step]);
      alignas(64) float columns[kElements<T>];
      for (int i = 0; i < kElements<T>; ++i) columns[i] = from[i];
      for (int k = 0; k < kWide<T>; ++k)
        for (int n = 0; n < kColumns; ++n) b[kWide<T> * step + k][n] = columns[kWide<T> * n + k];
    }
  }
  const float* row(int step, int m) const { return a[step][m / 8][m % 8]; }
};

/// One product after another, each sum rounded to f32.
template <class T, int kDepth>
void multiply_in_turn(const Operands<T, kDepth>& operands, float (&c)[kRows][kColumns]) {
  constexpr int kTogether = 4;  // rows, whose sums do not wait for each other
  for (int m = 0; m < kRows; m += kTogether) {
    Four sums[kTogether][2];
    std::memcpy(sums, c[m], sizeof(sums));
    for (int step = 0; step < kDepth / kWide<T>; ++step) {
      const float* const left = operands.row(step, m);
      for (int k = 0; k < kWide<T>; ++k) {
        Four right[2];
        std::memcpy(right, operands.b[step * kWide<T> + k], sizeof(right));
        for (int i = 0; i < kTogether; ++i) {
          sums[i][0] += left[i * kWide<T> + k] * right[0];
          sums[i][1] += left[i * kWide<T> + k] * right[1];
        }
      }
    }
    std::memcpy(c[m], sums, sizeof(sums));
  }
}

/// The exact sum, cut to f32.
template <class T, int kDepth>
void multiply_exactly(const Operands<T, kDepth>& operands, float (&c)[kRows][kColumns]) {
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; ++n) {
      double terms[kDepth + 1];
      terms[0] = c[m][n];
      for (int k = 0; k < kDepth; ++k)
        terms[k + 1] =
            double(operands.row(k / kWide<T>, m)[k % kWide<T>]) * double(operands.b[k][n]);
      c[m][n] = sum_toward_zero(terms, kDepth + 1);
    }
  }
}

/// C from its registers: f16 pairs by rows, or f32 where one register has the even columns and the
/// next one the odd ones; and back.
template <bool kHalfSums>
void gather_sums(Warp& warp, const uint32_t* list, float (&c)[kRows][kColumns]) {
  for (int half = 0; half < 2; ++half) {
    float* const to = c[8 * half];
    if constexpr (kHalfSums) {
      const F16* from = warp.lanes<F16>(list[half]);
      for (int i = 0; i < 64; ++i) to[i] = from[i];
    } else {
      const float* even = warp.lanes<float>(list[2 * half]);
      const float* odd = warp.lanes<float>(list[2 * half + 1]);
      for (int lane = 0; lane < kLanes; lane += 4) {
        Four a, b;
        std::memcpy(&a, even + lane, sizeof(a));
        std::memcpy(&b, odd + lane, sizeof(b));
        const Four low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        const Four high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        std::memcpy(to + 2 * lane, &low, sizeof(low));
        std::memcpy(to + 2 * lane + 4, &high, sizeof(high));
      }
    }
  }
}

template <bool kHalfSums>
void scatter_sums(Warp& warp, const uint32_t* list, float (&c)[kRows][kColumns]) {
  for (int half = 0; half < 2; ++half) {
    float* const from = c[8 * half];
    if constexpr (kHalfSums) {
      F16* const to = warp.lanes<F16>(list[half]);
      for (int i = 0; i < 64; ++i) to[i] = F16::nearest(from[i]);
    } else {
      float* const even = warp.lanes<float>(list[2 * half]);
      float* const odd = warp.lanes<float>(list[2 * half + 1]);
      for (int i = 0; i < 64; ++i) from[i] = canonical(from[i]);
      for (int lane = 0; lane < kLanes; lane += 4) {
        Four a, b;
        std::memcpy(&a, from + 2 * lane, sizeof(a));
        std::memcpy(&b, from + 2 * lane + 4, sizeof(b));
        const Four low = __builtin_shufflevector(a, b, 0, 2, 4, 6);
        const Four high = __builtin_shufflevector(a, b, 1, 3, 5, 7);
        std::memcpy(even + lane, &low, sizeof(low));
        std::memcpy(odd + lane, &high, sizeof(high));
      }
    }
  }
}

template <class T, int kDepth, bool kHalfSums>
void multiply(Warp& warp, const Instruction& instruction, Mask) {
  constexpr int kInputs = 3 * kDepth / kWide<T>;
  const Operands<T, kDepth> operands(warp, instruction.list);
  const uint32_t* const sums = instruction.list + kInputs;
  alignas(64) float c[kRows][kColumns];
  gather_sums<kHalfSums>(warp, sums, c);
  if (warp.block->launch->options.mma == MmaMode::Exact)
    multiply_exactly(operands, c);
  else
    multiply_in_turn(operands, c);
  scatter_sums<kHalfSums>(warp, sums + (kHalfSums ? 2 : 4), c);
}

void add_registers(Decoder& d, const Operand& operand, size_t count, bool output,
                   std::vector<uint32_t>& list) {
  const bool braces = operand.kind == Operand::Kind::Vector;
  if ((braces ? operand.parts.size() : 1) != count)
    d.error(fmt::format("{} registers expected", count));
  for (size_t i = 0; i < count; ++i) {
    const Operand& part = braces ? operand.parts[i] : operand;
    list.push_back(output ? d.output(part, 4) : d.input(part, kB32));
  }
}

Execute pick_mma(int shape, int type, bool half_sums) {
  switch (shape) {
    case 0:  // m16n8k4
      return type == 2 && !half_sums ? multiply<Tf32, 4, false> : nullptr;
    case 1:  // m16n8k8
      if (half_sums) return type == 0 ? multiply<F16, 8, true> : nullptr;
      return type == 0   ? multiply<F16, 8, false>
             : type == 1 ? multiply<Bf16, 8, false>
                         : multiply<Tf32, 8, false>;
    default:  // m16n8k16
      if (half_sums) return type == 0 ? multiply<F16, 16, true> : nullptr;
      return type == 0 ? multiply<F16, 16, false> : type == 1 ? multiply<Bf16, 16, false> : nullptr;
  }
}

/// Types come as D, A, B, C.
void decode_mma(Decoder& d) {
  if (!d.take("sync") || !d.take("aligned")) d.error_modifiers();
  const int shape = d.take_one_of({"m16n8k4", "m16n8k8", "m16n8k16"});
  if (shape < 0) d.error("this shape of mma is not known");
  if (!d.take("row") || !d.take("col")) d.error("row.col expected");
  const bool tf32 = d.take("tf32");
  if (tf32 && !d.take("tf32")) d.error_modifiers();
  const Type c = d.take_type();
  Type a = kF32;
  if (!tf32) {
    a = d.take_type();
    if (d.take_type() != a || (a != kF16 && a != kBf16)) d.error_modifiers();
  }
  if (d.take_type() != c || (c != kF32 && c != kF16)) d.error_modifiers();
  d.finish();
  d.expect_operands(4);
  const size_t depth = size_t{4} << shape;
  const size_t registers = depth * (tf32 ? 4 : 2) / 16;  // of B
  const size_t sums = c == kF16 ? 2 : 4;
  std::vector<uint32_t> list;
  add_registers(d, d.operand(1), 2 * registers, false, list);
  add_registers(d, d.operand(2), registers, false, list);
  add_registers(d, d.operand(3), sums, false, list);
  add_registers(d, d.operand(0), sums, true, list);
  d.instruction.list = d.builder().add_list(std::move(list));
  d.instruction.flow = Flow::Aligned;
  d.emit(pick_mma(shape, tf32 ? 2 : a == kBf16 ? 1 : 0, c == kF16));
}

constexpr Opcode kTable[] = {
    {"ldmatrix", decode_matrices<true>},
    {"stmatrix", decode_matrices<false>},
    {"movmatrix", decode_movmatrix},
    {"mma", decode_mma},
};

}  // namespace

const std::span<const Opcode> kMatrixOpcodes = kTable;

}  // namespace mezzo::ptx::detail
