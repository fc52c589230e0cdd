// SPDX-License-Identifier: Apache-2.0
// Random numbers: a function of the program's seed, the step and the number of the element. Every
// call has a stream of its own, in the order of the trace, so that the same program draws the same
// numbers on every device, with any number of threads, and under every policy. (Normal numbers are
// functions of those: the interpreter, which computes in f64, is some ulp off.)
#pragma once

#include <mezzo/dsl/operand.h>

namespace mezzo {

struct RandomOptions {
  /// The number of the first sample (along axis 0) among all samples of the step, a scalar i64: the
  /// parts of a batch then draw what the whole would. Empty: 0.
  Tensor offset = {};
};

/// Uniform in [0, 1).
Tensor random_uniform(Dims shape, DType dtype = f32, ir::Location location = ir::Location::here());
/// Normal with mean 0 and deviation 1.
Tensor random_normal(Dims shape, DType dtype = f32, ir::Location location = ir::Location::here());

struct UniformOptions {
  double low = 0, high = 1;
  DType dtype = f32;
  /// As in RandomOptions.
  Tensor offset = {};
};
/// Uniform in [low, high): a number that rounds to `high` is the one below it. Computed in f32 (f64
/// for f64). Throws UserError unless low < high and both are finite in `dtype`.
Tensor random_uniform(Dims shape, UniformOptions options,
                      ir::Location location = ir::Location::here());

struct NormalOptions {
  double mean = 0, deviation = 1;
  DType dtype = f32;
  /// As in RandomOptions.
  Tensor offset = {};
};
/// Normal, computed in f32 (f64 for f64). Throws UserError for a deviation below 0.
Tensor random_normal(Dims shape, NormalOptions options,
                     ir::Location location = ir::Location::here());

/// Bools that are true with probability `p`: where a random word is less than floor(p 2^32).
Tensor bernoulli(Dims shape, double p, RandomOptions options = {},
                 ir::Location location = ir::Location::here());
/// One bool for each probability of a float tensor, in steps of 2^-24 (f64: 2^-53).
Tensor bernoulli(Operand p, RandomOptions options = {});

/// `x` with a share `rate` of its elements set to 0 and the others times 1 / (1 - rate), in f32.
/// Rate 0 gives x itself, rate 1 zeros with gradient 0. The backward pass draws the mask anew.
/// Always drops: the layer nn::Dropout tells training from evaluation.
Tensor dropout(Operand x, double rate, RandomOptions options = {});

/// A class for each row of logits, i32, drawn with the probabilities softmax(logits) along `axis`:
/// the first largest logit plus Gumbel noise, which has 24 random bits (f64: 53). A logit of -inf
/// is never drawn unless all are, which gives 0; a row with NaN gives the first NaN.
Tensor categorical(Operand logits, int64_t axis = -1, RandomOptions options = {});

}  // namespace mezzo
