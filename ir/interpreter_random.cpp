// SPDX-License-Identifier: Apache-2.0
// The interpreter: random numbers. An element's value depends on seed, step, stream and the global
// number of the element alone: sample offset × row size + place.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/philox.h>

#include <cmath>
#include <numbers>

namespace mezzo::ir {

namespace {

/// The random words of the elements of one result.
class Stream {
 public:
  explicit Stream(const OpRun& run)
      : seed_(static_cast<uint64_t>(run.operand(0).integers[0])),
        step_(static_cast<uint64_t>(run.operand(0).integers[1])),
        stream_(static_cast<uint32_t>(run.op.int_attr("stream"))) {
    if (run.num_operands() < 2) return;
    const Shape& shape = run.op.result().shape();
    uint64_t row = 1;
    for (int axis = 1; axis < shape.rank(); ++axis) row *= static_cast<uint64_t>(shape[axis]);
    first_ = static_cast<uint64_t>(run.operand(1).integers[0]) * row;
  }

  /// Global number of an element of the result.
  uint64_t element(int64_t index) const { return first_ + static_cast<uint64_t>(index); }
  uint32_t word(uint64_t element) const {
    return random_block(seed_, step_, stream_, element / 4)[element % 4];
  }
  /// The upper 53 of the element's 64 bits.
  uint64_t word53(uint64_t element) const {
    std::array<uint32_t, 4> words = random_block(seed_, step_, stream_, element / 2);
    size_t high = 2 * (element % 2);
    return (uint64_t{words[high]} << 32 | words[high + 1]) >> 11;
  }

 private:
  uint64_t seed_, step_;
  uint32_t stream_;
  uint64_t first_ = 0;
};

/// Box and Muller on two uniform numbers; u is in (0, 1], v in [0, 1). In long double and on the
/// part of v beyond the nearest quarter, because a rounded angle would cost more digits than an f64
/// kernel loses.
double normal(double u, double v, bool odd) {
  double quarter = std::nearbyint(4 * v);
  long double part = 2 * std::numbers::pi_v<long double> * (v - quarter / 4);
  long double radius = std::sqrt(-2 * std::log(static_cast<long double>(u)));
  int turns = static_cast<int>(quarter) + (odd ? 0 : 1);  // cos x = sin(x + a quarter)
  long double value = turns % 2 ? std::cos(part) : std::sin(part);
  return static_cast<double>(turns % 4 < 2 ? radius * value : -radius * value);
}

}  // namespace

void eval_random_uniform(OpRun& run) {
  Stream stream(run);
  for (int64_t i = 0; i < run.result().elements(); ++i) {
    uint64_t element = stream.element(i);
    switch (run.result().type.dtype) {
      case DType::F64:
        run.store(i, static_cast<double>(stream.word53(element)) * 0x1p-53);
        break;
      case DType::F16:
        run.store(i, (stream.word(element) >> 21) * 0x1p-11);
        break;
      case DType::BF16:
        run.store(i, (stream.word(element) >> 24) * 0x1p-8);
        break;
      default:
        run.store(i, (stream.word(element) >> 8) * 0x1p-24);
    }
  }
}

void eval_random_normal(OpRun& run) {
  Stream stream(run);
  for (int64_t i = 0; i < run.result().elements(); ++i) {
    uint64_t element = stream.element(i), even = element & ~uint64_t{1};
    double u, v;
    if (run.result().type.dtype == DType::F64) {
      u = static_cast<double>(stream.word53(even) + 1) * 0x1p-53;
      v = static_cast<double>(stream.word53(even + 1)) * 0x1p-53;
    } else {
      u = ((stream.word(even) >> 8) + 1) * 0x1p-24;
      v = (stream.word(even + 1) >> 8) * 0x1p-24;
    }
    run.store(i, normal(u, v, element % 2 != 0));
  }
}

void eval_rng_advance(OpRun& run) {
  run.result().integers = {run.operand(0).integers[0], host_add(run.operand(0).integers[1], 1)};
}

}  // namespace mezzo::ir
