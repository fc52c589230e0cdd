// SPDX-License-Identifier: Apache-2.0
// The interpreter: random numbers and what is drawn from them.
#include <mezzo/ir/dtype.h>
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_stream.h>
#include <mezzo/ir/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mezzo::ir {

RandomStream::RandomStream(const OpRun& run, int state, const Shape& shape)
    : seed_(static_cast<uint64_t>(run.operand(state).integers[0])),
      step_(static_cast<uint64_t>(run.operand(state).integers[1])),
      stream_(static_cast<uint32_t>(run.op.int_attr("stream"))) {
  if (run.num_operands() <= state + 1) return;
  uint64_t row = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) row *= static_cast<uint64_t>(shape[axis]);
  first_ = static_cast<uint64_t>(run.operand(state + 1).integers[0]) * row;
}

uint32_t RandomStream::word(uint64_t element) const {
  return random_block(seed_, step_, stream_, element / 4)[element % 4];
}

uint64_t RandomStream::word53(uint64_t element) const {
  std::array<uint32_t, 4> words = random_block(seed_, step_, stream_, element / 2);
  size_t high = 2 * (element % 2);
  return (uint64_t{words[high]} << 32 | words[high + 1]) >> 11;
}

bool RandomStream::below(int64_t index, double probability) const {
  return word(element(index)) < probability_words(probability);
}

namespace {

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
  RandomStream stream(run, 0, run.result().type.shape);
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
  RandomStream stream(run, 0, run.result().type.shape);
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

void eval_bernoulli(OpRun& run) {
  RandomStream stream(run, 0, run.result().type.shape);
  double p = run.op.float_attr("p");
  for (int64_t i = 0; i < run.result().elements(); ++i) run.store_integer(i, stream.below(i, p));
}

// Kept values times 1 / (1 - rate), a number of f32 (of f64 for f64), in which the product is
// taken.
void eval_dropout(OpRun& run) {
  RandomStream stream(run, 1, run.result().type.shape);
  double rate = run.op.float_attr("rate");
  DType wide = run.result().type.dtype == DType::F64 ? DType::F64 : DType::F32;
  double factor = round_to(wide, 1 / (1 - rate));
  for (int64_t i = 0; i < run.result().elements(); ++i)
    run.store(i, stream.below(i, rate) ? 0 : round_to(wide, run.operand(0).number(i) * factor));
}

// The first largest x - ln(-ln u), a uniform u for each class: class k with probability
// softmax(x)_k. u = 0 counts as half its step, so that every noise is finite and a class of -inf
// never wins.
void eval_categorical(OpRun& run) {
  const InterpreterTensor& logits = run.operand(0);
  RandomStream stream(run, 1, logits.type.shape);
  AxisView view(logits.type.shape, run.op.int_attr("axis"));
  bool wide = logits.type.dtype == DType::F64;
  auto uniform = [&](int64_t index) {
    uint64_t element = stream.element(index);
    double u = wide ? static_cast<double>(stream.word53(element)) * 0x1p-53
                    : (stream.word(element) >> 8) * 0x1p-24;
    return std::max(u, wide ? 0x1p-54 : 0x1p-25);
  };
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i) {
      int64_t best = 0;
      double highest = 0;
      for (int64_t k = 0; k < view.length && !std::isnan(highest); ++k) {
        double score =
            logits.number(view.at(o, k, i)) - std::log(-std::log(uniform(view.at(o, k, i))));
        if (k > 0 && !(score > highest) && !std::isnan(score)) continue;
        best = k;
        highest = score;
      }
      run.store_integer(o * view.inner + i, best);
    }
}

void eval_rng_advance(OpRun& run) {
  run.result().integers = {run.operand(0).integers[0], host_add(run.operand(0).integers[1], 1)};
}

}  // namespace mezzo::ir
