// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions: ldmatrix, stmatrix, movmatrix, mma.sync.
#include "half.h"
#include "lanes.h"
#include "memory_operand.h"

#include <fmt/format.h>

#include <cstring>

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
    uint16_t rows[8][8];
    for (int r = 0; r < 8; ++r) {
      const int giver = static_cast<int>(8 * m) + r;
      const auto address = static_cast<uint32_t>(at.of[giver]);
      if (const Finding finding = shared.read_together(address, 16, warp.index))
        fail_shared(warp, instruction, giver, 16, finding);
      std::memcpy(rows[r], shared.data() + address, 16);
    }
    uint32_t* const to = warp.lanes<uint32_t>(instruction.list[m]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const uint16_t low = kTranspose ? rows[column][row] : rows[row][column];
      const uint16_t high = kTranspose ? rows[column + 1][row] : rows[row][column + 1];
      to[lane] = uint32_t{high} << 16 | low;
    }
  }
}

template <bool kTranspose>
void store_matrices(Warp& warp, const Instruction& instruction, Mask) {
  Addresses at;
  matrix_addresses(warp, instruction, at);
  SharedMemory& shared = warp.block->shared;
  for (uint32_t m = 0; m < instruction.count; ++m) {
    const uint32_t* const from = warp.lanes<uint32_t>(instruction.list[m]);
    uint16_t rows[8][8];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const auto low = static_cast<uint16_t>(from[lane]);
      const auto high = static_cast<uint16_t>(from[lane] >> 16);
      (kTranspose ? rows[column][row] : rows[row][column]) = low;
      (kTranspose ? rows[column + 1][row] : rows[row][column + 1]) = high;
    }
    for (int r = 0; r < 8; ++r) {
      const int giver = static_cast<int>(8 * m) + r;
      const auto address = static_cast<uint32_t>(at.of[giver]);
      if (const Finding finding =
              shared.write(address, 16, warp.first_thread + static_cast<uint32_t>(giver)))
        fail_shared(warp, instruction, giver, 16, finding);
      std::memcpy(shared.data() + address, rows[r], 16);
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

// ---- mma: C[16][8] += A[16][K] B[K][8]. Lane l is in group l / 4 and its place in it is l % 4
// ----

constexpr int kRows = 16, kColumns = 8;

/// f16 and bf16 lie in pairs along K, tf32 one by one.
struct Tf32 {
  uint32_t bits;
  operator float() const { return std::bit_cast<float>(bits & 0xFFFFE000u); }
};

template <class T, int kDepth>
void gather(Warp& warp, const uint32_t* list, float (&a)[kRows][kDepth],
            float (&b)[kDepth][kColumns]) {
  constexpr int kTogether = 4 / sizeof(T);  // elements of a register
  constexpr int kStep = 4 * kTogether;      // along K, of a register
  constexpr int kSteps = kDepth / kStep;
  for (int step = 0; step < kSteps; ++step) {
    for (int half = 0; half < 2; ++half) {
      const T* from = warp.lanes<T>(list[2 * step + half]);
      for (int lane = 0; lane < kLanes; ++lane)
        for (int i = 0; i < kTogether; ++i)
          a[lane / 4 + 8 * half][kStep * step + lane % 4 * kTogether + i] =
              from[lane * kTogether + i];
    }
    const T* from = warp.lanes<T>(list[2 * kSteps + step]);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < kTogether; ++i)
        b[kStep * step + lane % 4 * kTogether + i][lane / 4] = from[lane * kTogether + i];
  }
}

/// One product after another, each sum rounded to f32.
template <int kDepth>
void multiply_in_turn(const float (&a)[kRows][kDepth], const float (&b)[kDepth][kColumns],
                      float (&c)[kRows][kColumns]) {
  for (int row = 0; row < kRows; ++row) {
    float sums[kColumns];
    for (int column = 0; column < kColumns; ++column) sums[column] = c[row][column];
    for (int k = 0; k < kDepth; ++k) {
      const float left = a[row][k];
      for (int column = 0; column < kColumns; ++column) sums[column] += left * b[k][column];
    }
    for (int column = 0; column < kColumns; ++column) c[row][column] = sums[column];
  }
}

/// The exact sum, cut to f32: error terms of the f64 sums are carried along.
template <int kDepth>
void multiply_exactly(const float (&a)[kRows][kDepth], const float (&b)[kDepth][kColumns],
                      float (&c)[kRows][kColumns]) {
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      double terms[kDepth + 1];
      terms[0] = c[row][column];
      for (int k = 0; k < kDepth; ++k) terms[k + 1] = double(a[row][k]) * double(b[k][column]);
      c[row][column] = sum_toward_zero(terms, kDepth + 1);
    }
  }
}

template <class T, int kDepth, bool kHalfSums>
void multiply(Warp& warp, const Instruction& instruction, Mask) {
  alignas(64) float a[kRows][kDepth];
  alignas(64) float b[kDepth][kColumns];
  alignas(64) float c[kRows][kColumns];
  constexpr int kInputs = 3 * kDepth * sizeof(T) / 16;
  gather<T, kDepth>(warp, instruction.list, a, b);
  const uint32_t* const before = instruction.list + kInputs;
  const uint32_t* const after = before + (kHalfSums ? 2 : 4);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        float& to = c[lane / 4 + 8 * half][lane % 4 * 2 + i];
        if constexpr (kHalfSums)
          to = warp.lanes<F16>(before[half])[2 * lane + i];
        else
          to = warp.lanes<float>(before[2 * half + i])[lane];
      }
    }
  }
  if (warp.block->launch->options.mma == MmaMode::Exact)
    multiply_exactly<kDepth>(a, b, c);
  else
    multiply_in_turn<kDepth>(a, b, c);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float from = c[lane / 4 + 8 * half][lane % 4 * 2 + i];
        if constexpr (kHalfSums)
          warp.lanes<F16>(after[half])[2 * lane + i] = F16::nearest(from);
        else
          warp.lanes<float>(after[2 * half + i])[lane] = canonical(from);
      }
    }
  }
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
