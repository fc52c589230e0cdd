// SPDX-License-Identifier: Apache-2.0
// Rows of losses, layers, random numbers and the training step.
#include <errors/shape_rule_rows.h>

namespace mezzo::test {

using ir::OpKind;

const std::vector<Row>& sequences_and_losses() {
  static const std::vector<Row> rows = {
      {OpKind::CrossEntropy, "4x3xf32, 4x3xf32", "{}",
       "cross_entropy: labels must be i32, not f32 (logits tensor<4x3xf32>, labels "
       "tensor<4x3xf32>)\nnote: labels are class indices; cast them to i32"},
      {OpKind::CrossEntropy, "4x3xf32, 4xi32", "{reduce = \"max\"}",
       "cross_entropy: reduce must be \"mean\", \"sum\" or \"none\", not \"max\" (logits "
       "tensor<4x3xf32>, labels tensor<4xi32>)"},
      {OpKind::CrossEntropyGrad, "4x3xf32, 4xi32, 4xf32", "{}",
       "cross_entropy_grad: dloss must be tensor<f32>, not tensor<4xf32> (logits tensor<4x3xf32>, "
       "labels tensor<4xi32>, dloss tensor<4xf32>)"},
      {OpKind::SoftCrossEntropy, "4x3xf32, 4xf32", "{}",
       "soft_cross_entropy: target must be tensor<4x3xf32> as the logits, not tensor<4xf32> "
       "(logits tensor<4x3xf32>, target tensor<4xf32>)\nnote: targets are probabilities, one for "
       "each class; class indices are cast to i32"},
      {OpKind::SoftCrossEntropyGrad, "4x3xf32, 4x3xf32, f32", "{label_smoothing = 2.0}",
       "soft_cross_entropy_grad: label_smoothing must lie in [0, 1], not 2 (logits "
       "tensor<4x3xf32>, target tensor<4x3xf32>, dloss tensor<f32>)"},
      {OpKind::Nll, "4x0xf32, 4xi32", "{}",
       "nll: there must be at least one class, not 0 (x tensor<4x0xf32>, labels "
       "tensor<4xi32>)\nnote: the classes are the last axis of x"},
      {OpKind::Nll, "4x3xf32, 4xi32, 4xf32", "{}",
       "nll: weight must be tensor<3xf32>, one number for each class, not tensor<4xf32> (x "
       "tensor<4x3xf32>, labels tensor<4xi32>, weight tensor<4xf32>)"},
      {OpKind::Bce, "4x3xf32, 4xf32", "{}",
       "bce: target must be tensor<4x3xf32> as probability, not tensor<4xf32> (probability "
       "tensor<4x3xf32>, target tensor<4xf32>)\nnote: nothing is broadcast between an output and "
       "its target; reshape or cast one of them"},
      {OpKind::BceWithLogits, "4x3xf32, 4x3xf32, 4xf32", "{}",
       "bce_with_logits: pos_weight must be f32 and broadcast to tensor<4x3xf32>, not "
       "tensor<4xf32> (logits tensor<4x3xf32>, target tensor<4x3xf32>, pos_weight "
       "tensor<4xf32>)\nnote: one number for each class along the last axis, or one for all"},
      {OpKind::KlDiv, "4x3xf32, 4x3xf16", "{}",
       "kl_div: target must be tensor<4x3xf32> as x, not tensor<4x3xf16> (x tensor<4x3xf32>, "
       "target tensor<4x3xf16>)\nnote: nothing is broadcast between an output and its target; "
       "reshape or cast one of them"},
      {OpKind::Attention, "1x2x4x8xf32, 1x3x4x8xf32, 1x3x4x8xf32", "{scale = 1.0}",
       "attention: 3 heads of keys and values do not divide 2 heads of queries (q "
       "tensor<1x2x4x8xf32>, k tensor<1x3x4x8xf32>, v tensor<1x3x4x8xf32>)\nnote: query head i "
       "reads key head i / (query heads / key heads)"},
      {OpKind::Attention, "1x2x4x8xf32, 1x2x4x8xf32, 1x2x4x8xf32, 5xbool", "{scale = 1.0, masked}",
       "attention: mask does not broadcast to the scores [1x2x4x4] (q tensor<1x2x4x8xf32>, k "
       "tensor<1x2x4x8xf32>, v tensor<1x2x4x8xf32>, mask tensor<5xbool>)\nnote: scores are [batch, "
       "heads, queries, keys]"},
      {OpKind::Attention, "1x2x4x8xf16, 1x2x4x8xf16, 1x2x4x8xf16", "{scale = 1.0}",
       "attention: gives f16 or f32, not f64 (q tensor<1x2x4x8xf16>, k tensor<1x2x4x8xf16>, v "
       "tensor<1x2x4x8xf16>)",
       "1x2x4x8xf64"},
      {OpKind::AttentionGrad,
       "1x2x4x8xf32, 1x2x4x8xf32, 1x2x4x8xf32, 1x2x4x8xf32, 1x2x4xf32, 1x2x4x8xf32, 1x2x4xf32",
       "{scale = 1.0, mask_grad}",
       "attention_grad: mask_grad needs a mask of numbers, not none (q tensor<1x2x4x8xf32>, k "
       "tensor<1x2x4x8xf32>, v tensor<1x2x4x8xf32>, y tensor<1x2x4x8xf32>, lse tensor<1x2x4xf32>, "
       "dy tensor<1x2x4x8xf32>, dlse tensor<1x2x4xf32>)\nnote: a mask of bools has no gradient"},
      {OpKind::Rnn, "5x2x3xf32, 2x4xf32, 3x4xf32, 4x4xf32, 5xf32", "{}",
       "rnn: b must be tensor<4xf32>, not tensor<5xf32> (x tensor<5x2x3xf32>, h0 tensor<2x4xf32>, "
       "w tensor<3x4xf32>, u tensor<4x4xf32>, b tensor<5xf32>)" +
           kSequence},
      {OpKind::Rnn, "5x2x3xf32, 4xf32, 3x4xf32, 4x4xf32, 4xf32", "{}",
       "rnn: h0 must have 2 axes, not 1 (x tensor<5x2x3xf32>, h0 tensor<4xf32>, w tensor<3x4xf32>, "
       "u tensor<4x4xf32>, b tensor<4xf32>)" +
           kSequence},
      {OpKind::Rnn, "5x2x3xf32, 2x4xf32, 3x4xf32, 4x4xf32, 4xf32", "{activation = \"sin\"}",
       "rnn: unknown activation \"sin\" (x tensor<5x2x3xf32>, h0 tensor<2x4xf32>, w "
       "tensor<3x4xf32>, u tensor<4x4xf32>, b tensor<4xf32>)\nnote: it is \"tanh\" or \"relu\""},
      {OpKind::Lstm, "5x2xf32, 2x4xf32, 2x4xf32, 3x16xf32, 4x16xf32, 16xf32", "{}",
       "lstm: x must have 3 axes, not 2 (x tensor<5x2xf32>, h0 tensor<2x4xf32>, c0 "
       "tensor<2x4xf32>, w tensor<3x16xf32>, u tensor<4x16xf32>, b tensor<16xf32>)" +
           kSequence},
      {OpKind::Gru, "5x2x3xf16, 2x4xf16, 3x12xf16, 4x12xf16, 12xf32, 12xf32", "{}",
       "gru: h0 must be tensor<2x4xf32>, not tensor<2x4xf16> (x tensor<5x2x3xf16>, h0 "
       "tensor<2x4xf16>, w tensor<3x12xf16>, u tensor<4x12xf16>, b tensor<12xf32>, v "
       "tensor<12xf32>)" +
           kSequence},
      {OpKind::Gru, "5x2x3xf16, 2x4xf32, 3x12xf16, 4x12xf16, 12xf32, 12xf32", "{}",
       "gru: y is f16 or f32, not f64 (x tensor<5x2x3xf16>, h0 tensor<2x4xf32>, w "
       "tensor<3x12xf16>, u tensor<4x12xf16>, b tensor<12xf32>, v tensor<12xf32>)",
       "5x2x4xf64"},
      {OpKind::RnnGrad,
       "5x2x3xf32, 2x4xf32, 3x4xf32, 4x4xf32, 5x2x4xf32, 5x2x4xf32, 2x4xf32, 5x2x4xf32", "{}",
       "rnn_grad: dy must be tensor<5x2x4xf32>, not tensor<2x4xf32> (x tensor<5x2x3xf32>, h0 "
       "tensor<2x4xf32>, w tensor<3x4xf32>, u tensor<4x4xf32>, y tensor<5x2x4xf32>, a "
       "tensor<5x2x4xf32>, dy tensor<2x4xf32>, da tensor<5x2x4xf32>)" +
           kSequence},
      {OpKind::LstmGrad, "5x2x3xf32", "{}",
       "lstm_grad: takes 11 operands, not 1 (x tensor<5x2x3xf32>)"},
      {OpKind::GruGrad, "5x2x3xf32", "{}",
       "gru_grad: takes 10 operands, not 1 (x tensor<5x2x3xf32>)"},
  };
  return rows;
}

const std::vector<Row>& layers() {
  static const std::vector<Row> rows = {
      {OpKind::LayerNorm, "4x3xf32, 4xf32", "{axis = 1}",
       "layer_norm: weight must be tensor<3xf32>, not tensor<4xf32> (x tensor<4x3xf32>, weight "
       "tensor<4xf32>)\nnote: weight and bias have the shape of the axes that are normalised"},
      {OpKind::LayerNormGrad, "4x3xf32, 3xf32", "{axis = 1}",
       "layer_norm_grad: dy must be tensor<4x3xf32>, not tensor<3xf32> (x tensor<4x3xf32>, dy "
       "tensor<3xf32>)\nnote: the gradient of a normalisation has the type of x"},
      {OpKind::RmsNorm, "4x3xf32", "{axis = 2}",
       "rms_norm: axis 2 is out of range for rank 2" + kOfPair +
           "\nnote: axis is the first of the axes that are normalised, up to the last one"},
      {OpKind::RmsNormGrad, "4x3xi32, 4x3xi32", "{axis = 1}",
       "rms_norm_grad: takes a float type, not i32 (x tensor<4x3xi32>, dy tensor<4x3xi32>)" +
           kFloat},
      {OpKind::GroupNorm, "4x1xf32", "{groups = 2}",
       "group_norm: 1 channel does not divide into 2 groups (x tensor<4x1xf32>)\nnote: the number "
       "of groups must divide the number of channels, the last axis"},
      {OpKind::GroupNorm, "4x3xf32", "{groups = 2}",
       "group_norm: 3 channels do not divide into 2 groups" + kOfPair +
           "\nnote: the number of groups must divide the number of channels, the last axis"},
      {OpKind::GroupNormGrad, "4xf32, 4xf32", "{groups = 2}",
       "group_norm_grad: x has 1 axis, not 2 or more (x tensor<4xf32>, dy tensor<4xf32>)\nnote: "
       "samples along the first axis, channels along the last"},
      {OpKind::BatchNorm, "4x3xf32", "{eps = -1.0}",
       "batch_norm: eps must be a finite number from 0 on, not -1" + kOfPair},
      {OpKind::BatchNormGrad, "4x3xf16, 4x3xf16, 3xf16, 3xf32, 3xf32", "{}",
       "batch_norm_grad: mean must be tensor<3xf32>, not tensor<3xf16> (x tensor<4x3xf16>, dy "
       "tensor<4x3xf16>, mean tensor<3xf16>, variance tensor<3xf32>, shift tensor<3xf32>)\nnote: "
       "statistics are one for each channel, the last axis, and f32 also for 16-bit types"},
      {OpKind::BatchNormInference, "4x3xf32, 3xf32, 4xf32", "{}",
       "batch_norm_inference: variance must be tensor<3xf32>, not tensor<4xf32> (x "
       "tensor<4x3xf32>, mean tensor<3xf32>, variance tensor<4xf32>)\nnote: statistics are one for "
       "each channel, the last axis, and f32 also for 16-bit types"},
      {OpKind::Remap, "4xf32",
       "{shape = [4], axes = [1], multiples = [1], offsets = [0], divisors = [1]}",
       "remap: axis 1 is out of range for a result of rank 1 (x tensor<4xf32>)\nnote: -1 stands "
       "for no axis"},
      {OpKind::Remap, "4xf32",
       "{shape = [4], axes = [0, 1], multiples = [1], offsets = [0], divisors = [1]}",
       "remap: axes has 2 entries for 1 axis of x (x tensor<4xf32>)\nnote: give one number for "
       "each axis of x"},
      {OpKind::Conv, "1x8x3xf32, 2x3x4xf32",
       "{strides = [1], low = [0], high = [0], dilations = [1]}",
       "conv: x has 3 channels, 3 a group, weight reads 4 (x tensor<1x8x3xf32>, weight "
       "tensor<2x3x4xf32>)\nnote: the last axis of x is that of channels, the last of weights "
       "[out, window ..., in / groups]"},
      {OpKind::Conv, "1x8x3xf32, 2x9x3xf32",
       "{strides = [1], low = [0], high = [0], dilations = [1]}",
       "conv: a window of reach 9 does not fit axis 1 of length 8 with padding 0 and 0 (x "
       "tensor<1x8x3xf32>, weight tensor<2x9x3xf32>)\nnote: pad that axis more, or take a smaller "
       "window or dilation"},
      {OpKind::Conv, "1x8x3xf16, 2x3x3xf16",
       "{strides = [1], low = [0], high = [0], dilations = [1]}",
       "conv: gives f16 or f32, not f64 (x tensor<1x8x3xf16>, weight tensor<2x3x3xf16>)\nnote: "
       "cast the result",
       "1x6x2xf64"},
      {OpKind::ConvGradInput, "1x5x2xf32, 2x3x3xf32",
       "{strides = [1], low = [0], high = [0], dilations = [1], shape = [1, 8, 3]}",
       "conv_grad_input: dy must be tensor<1x6x2xf32>, not tensor<1x5x2xf32> (dy "
       "tensor<1x5x2xf32>, weight tensor<2x3x3xf32>)\nnote: dy has the shape of the convolution of "
       "x, whose shape is the attribute, by weight"},
      {OpKind::ConvGradWeight, "1x8x3xf32, 1x5x2xf32",
       "{strides = [1], low = [0], high = [0], dilations = [1], shape = [2, 3, 3]}",
       "conv_grad_weight: dy must be tensor<1x6x2xf32>, not tensor<1x5x2xf32> (x "
       "tensor<1x8x3xf32>, dy tensor<1x5x2xf32>)\nnote: dy has the shape of the convolution of x "
       "by weight, whose shape is the attribute"},
      {OpKind::MaxPool, "8x3xf32",
       "{window = [2], strides = [1], low = [0], high = [0], dilations = [1]}",
       "max_pool: x has 2 axes, not 3 or more (x tensor<8x3xf32>)\nnote: axes are [batch, places "
       "..., channels]; reshape adds one"},
      {OpKind::MaxPool, "1x8x3xf32",
       "{window = [2, 2], strides = [1], low = [0], high = [0], dilations = [1]}",
       "max_pool: window has 2 entries for 1 axis of places (x tensor<1x8x3xf32>)\nnote: give one "
       "number for each axis of places"},
      {OpKind::MaxPoolGrad, "1x8x3xf32, 1x8x3xf32, 1x7x3xf32",
       "{window = [2], strides = [1], low = [0], high = [0], dilations = [1]}",
       "max_pool_grad: y must be tensor<1x7x3xf32>, not tensor<1x8x3xf32> (x tensor<1x8x3xf32>, y "
       "tensor<1x8x3xf32>, dy tensor<1x7x3xf32>)\nnote: y and dy have the pooled shape of x"},
      {OpKind::AvgPool, "1x8x3xf32", "{window = [2], strides = [1], low = [2], high = [0]}",
       "avg_pool: padding 2 and 0 of axis 1 is not less than the reach 2 of its window (x "
       "tensor<1x8x3xf32>)\nnote: a window must not lie in the padding alone"},
      {OpKind::AvgPool, "1x1073741825x3xf32",
       "{window = [2], strides = [1], low = [0], high = [0]}",
       "avg_pool: a window of 2 elements along an axis of length 1073741825 is out of range (x "
       "tensor<1x1073741825x3xf32>)\nnote: windows have 1 to 2^30 elements, axes as many at most"},
      {OpKind::AvgPoolGrad, "1x8x3xf32",
       "{window = [2], strides = [1], low = [0], high = [0], shape = [1, 8, 3]}",
       "avg_pool_grad: dy must be tensor<1x7x3xf32>, not tensor<1x8x3xf32> (dy "
       "tensor<1x8x3xf32>)\nnote: dy has the pooled shape of x, whose shape is the attribute"},
      {OpKind::UpsampleNearest, "1x8x3xf32", "{size = [4, 4]}",
       "upsample_nearest: size has 2 entries for 1 axis of places (x tensor<1x8x3xf32>)\nnote: "
       "give one number for each axis of places"},
      {OpKind::UpsampleNearestGrad, "1x0x3xf32", "{size = [4]}",
       "upsample_nearest_grad: axis 1 of length 0 cannot become 4 (dy tensor<1x0x3xf32>)\nnote: "
       "axes of places have 1 to 2^30 elements"},
      {OpKind::UpsampleLinear, "1x8x3xi32", "{size = [4]}",
       "upsample_linear: takes a float type, not i32 (x tensor<1x8x3xi32>)" + kFloat},
      {OpKind::UpsampleLinearGrad, "1x8x3xf32", "{size = [0]}",
       "upsample_linear_grad: size 0 lies outside [1, 1073741824] (dy tensor<1x8x3xf32>)"},
  };
  return rows;
}

const std::vector<Row>& random_and_training() {
  static const std::vector<Row> rows = {
      {OpKind::RandomUniform, "2xi64", "{stream = 0}",
       "random_uniform: gives a float type, not i32 (rng tensor<2xi64>)\nnote: cast the result",
       "3xi32"},
      {OpKind::RandomNormal, "3xi64", "{stream = 0}",
       "random_normal: rng must be tensor<2xi64>, not tensor<3xi64> (rng tensor<3xi64>)", "3xf32"},
      {OpKind::RandomNormal, "2xi64, f32", "{stream = 0}",
       "random_normal: offset must be tensor<i64>, not tensor<f32> (rng tensor<2xi64>, offset "
       "tensor<f32>)",
       "3xf32"},
      {OpKind::Bernoulli, "2xi64", "{p = 0.5, stream = 0}",
       "bernoulli: gives bool, not f32 (rng tensor<2xi64>)\nnote: cast the result to a number",
       "3xf32"},
      {OpKind::Dropout, "4xf32, 2xi64", "{rate = 1.5, stream = 0}",
       "dropout: rate must lie in [0, 1], not 1.5 (x tensor<4xf32>, rng tensor<2xi64>)\nnote: it "
       "is a probability"},
      {OpKind::Categorical, "4x0xf32, 2xi64", "{axis = 1, stream = 0}",
       "categorical: there must be at least one class, not 0 (logits tensor<4x0xf32>, rng "
       "tensor<2xi64>)\nnote: the classes are axis 1 of logits"},
      {OpKind::Categorical, "4x3xf32, 2xi64, i64", "{axis = 0, stream = 0}",
       "categorical: an offset counts samples along axis 0, which is the axis of classes (logits "
       "tensor<4x3xf32>, rng tensor<2xi64>, offset tensor<i64>)\nnote: move the classes to the "
       "last axis"},
      {OpKind::Categorical, "4xf32, 2xi64", "{axis = 0, stream = -1}",
       "categorical: stream -1 lies outside [0, 4294967295] (logits tensor<4xf32>, rng "
       "tensor<2xi64>)"},
      {OpKind::RngAdvance, "2xi32", "{}",
       "rng_advance: rng must be tensor<2xi64>, not tensor<2xi32> (rng tensor<2xi32>)"},
      {OpKind::Gradient, "3xf32", "{func = @row, wrt = [0]}",
       "gradient: the first result of @row must be a float scalar, the loss, not tensor<3xf32> (x "
       "tensor<3xf32>)\nnote: sum or mean makes a scalar of a tensor"},
      {OpKind::Gradient, "f32", "{func = @loss, wrt = [0]}",
       "gradient: @loss takes 2 operands, not 1 (x tensor<f32>)"},
      {OpKind::Gradient, "f32, i32", "{func = @loss, wrt = [1]}",
       "gradient: wrt 1 is of type i32, not of a float type (x tensor<f32>, x tensor<i32>)\nnote: "
       "there are gradients by floats alone"},
      {OpKind::Gradient, "f32, i32", "{func = @loss, wrt = [2]}",
       "gradient: wrt 2 is out of range for 2 operands (x tensor<f32>, x tensor<i32>)"},
      {OpKind::Gradient, "f32, f32", "{func = @loss, wrt = [0]}",
       "gradient: operand 1 of @loss must be tensor<i32>, not tensor<f32> (x tensor<f32>, x "
       "tensor<f32>)"},
      {OpKind::Gradient, "f32, i32", "{func = @los, wrt = [0]}",
       "gradient: there is no function 'los'; did you mean 'loss'? (x tensor<f32>, x tensor<i32>)"},
      {OpKind::CustomGradient, "3xf32", "{func = @row, inputs = 1, outputs = 1}",
       "custom_gradient: takes at least 2 operands (1 input and 1 output), not 1 (x "
       "tensor<3xf32>)"},
      {OpKind::CustomGradient, "3xf32, 3xf32", "{func = @row, inputs = 1, outputs = 1}",
       "custom_gradient: @row must take 3 tensors, not 1 (x tensor<3xf32>, x tensor<3xf32>)"},
      {OpKind::CustomGradient, "i32, i32", "{func = @row, inputs = 1, outputs = 1}",
       "custom_gradient: @row must take 2 tensors, not 1 (x tensor<i32>, x tensor<i32>)"},
      {OpKind::CustomGradient, "3xf32, 3xf32", "{func = @back, inputs = 1, outputs = 1}",
       "custom_gradient: tensor 2 that @back takes must be tensor<3xf32>, not tensor<f32> (x "
       "tensor<3xf32>, x tensor<3xf32>)\nnote: a backward function takes inputs, outputs and the "
       "cotangents of the outputs, and gives a cotangent of its type for each float input"},
      {OpKind::AllFinite, "3xi32", "{}",
       "all_finite: takes a float type, not i32 (x tensor<3xi32>)" + kFloat},
      {OpKind::Verdict, "3xbool", "{}",
       "verdict: ok must be tensor<bool>, not tensor<3xbool> (ok tensor<3xbool>)"},
      {OpKind::ScaleUpdate, "f16, i32, i32",
       "{backoff = 0.5, ceiling = 65536.0, floor = 1.0, growth = 2.0, interval = 10}",
       "scale_update: scale must be tensor<f32>, not tensor<f16> (scale tensor<f16>, clean "
       "tensor<i32>, verdict tensor<i32>)"},
      {OpKind::ScaleUpdate, "f32, i32, i32",
       "{backoff = 2.0, ceiling = 65536.0, floor = 1.0, growth = 2.0, interval = 10}",
       "scale_update: backoff must be at most 1, not 2 (scale tensor<f32>, clean tensor<i32>, "
       "verdict tensor<i32>)"},
      {OpKind::Sgd, "3xf32, 3xf32, f32, 3xf32", "{momentum = 0.9, weight_decay = -1.0}",
       "sgd: weight_decay must not be negative and be finite, not -1 (w tensor<3xf32>, dw "
       "tensor<3xf32>, lr tensor<f32>, rest tensor<3xf32>)"},
      {OpKind::Sgd, "3xf32, 3xf32, f32", "{momentum = 0.9}",
       "sgd: takes w, dw, lr, velocity and optionally ok, not 3 operands (w tensor<3xf32>, dw "
       "tensor<3xf32>, lr tensor<f32>)\nnote: velocity is there where momentum is not 0"},
      {OpKind::Sgd, "3xf32, 3xf32, f32", "{nesterov}",
       "sgd: nesterov needs a momentum above 0, not 0 (w tensor<3xf32>, dw tensor<3xf32>, lr "
       "tensor<f32>)\nnote: 0.9 is usual"},
      {OpKind::Sgd, "3xf16, 3xf16, f32", "{}",
       "sgd: dw must be tensor<3xf32>, not tensor<3xf16> (w tensor<3xf16>, dw tensor<3xf16>, lr "
       "tensor<f32>)"},
      {OpKind::Adam, "3xf32, 3xf32, 3xf32, 3xf32, i32, f32", "{beta1 = 1.0}",
       "adam: beta1 must lie in [0, 1), not 1 (w tensor<3xf32>, dw tensor<3xf32>, m tensor<3xf32>, "
       "v tensor<3xf32>, t tensor<i32>, lr tensor<f32>)"},
      {OpKind::Adam, "3xf32, 3xf32, 3xf32, 3xf32, i64, f32", "{}",
       "adam: t must be tensor<i32>, not tensor<i64> (w tensor<3xf32>, dw tensor<3xf32>, m "
       "tensor<3xf32>, v tensor<3xf32>, t tensor<i64>, lr tensor<f32>)"},
  };
  return rows;
}

}  // namespace mezzo::test
