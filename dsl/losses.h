// SPDX-License-Identifier: Apache-2.0
// Losses, each as a function of tensors and as an object of (output, target) for a Trainer. Options
// and conventions are those of PyTorch, except that classes lie along the last axis and that a mean
// of nothing is 0. Computed in f32 (f64 for f64).
//
// `reduce` is "mean", "sum" or "none". Outputs and targets of losses of elements have one shape,
// else UserError: nothing is broadcast. Numbers of a constant target that no target can be are an
// error at the line of the call; a class index out of range is one when the program runs.
#pragma once

#include <mezzo/dsl/operand.h>

#include <string_view>
#include <vector>

namespace mezzo {

struct CrossEntropyOptions {
  std::string_view reduce = "mean";
  /// Labels of this value count for nothing. Class indices only.
  int64_t ignore_index = -100;
  /// Share of the target that is spread over all classes.
  double label_smoothing = 0;
  /// A number for each class, `[classes]`: how much it counts. Without gradient.
  Tensor weight = {};
};
/// Negative log-likelihood under the softmax of the last axis. Targets are class indices (i32, of
/// the shape of the logits without the last axis) or probabilities (floats of the shape of the
/// logits). The mean is Σ w l / Σ w over the labels that are not ignored, w the weight of the
/// label's class, 0 where nothing counts; over rows for probabilities. The part that smoothing
/// spreads over the classes weighs each class by its own weight.
Tensor cross_entropy(Operand logits, Operand target, CrossEntropyOptions options = {});

struct NllOptions {
  std::string_view reduce = "mean";
  int64_t ignore_index = -100;
  /// As in CrossEntropyOptions.
  Tensor weight = {};
};
/// -x at the label of each row: cross_entropy of what log_softmax has given.
Tensor nll(Operand x, Operand labels, NllOptions options = {});

struct BceOptions {
  std::string_view reduce = "mean";
  /// Broadcasts to the elements; the mean is over their number.
  Tensor weight = {};
};
/// -(t ln p + (1 - t) ln(1 - p)) with logarithms of at least -100. The gradient by p is (p - t) /
/// max(p (1 - p), 1e-12). Where p is a sigmoid, bce_with_logits keeps digits that p has lost.
Tensor bce(Operand probability, Operand target, BceOptions options = {});

struct BceWithLogitsOptions {
  std::string_view reduce = "mean";
  /// As in BceOptions.
  Tensor weight = {};
  /// Factor of the positive targets; broadcasts to the logits.
  Tensor pos_weight = {};
};
/// bce of sigmoid(logits), w t softplus(-x) + (1 - t) softplus(x): exact in both tails, infinite
/// logits included.
Tensor bce_with_logits(Operand logits, Operand target, BceWithLogitsOptions options = {});

struct KlDivOptions {
  /// Also "batchmean": the sum over the length of axis 0.
  std::string_view reduce = "mean";
  /// The target is given as its logarithm.
  bool log_target = false;
};
/// t (ln t - x) for log-probabilities x; 0 for a target of 0, with gradient 0.
Tensor kl_div(Operand x, Operand target, KlDivOptions options = {});

struct ElementLossOptions {
  std::string_view reduce = "mean";
  /// Broadcasts to the elements; the mean is then Σ w l / Σ w, 0 where Σ w is 0.
  Tensor weight = {};
};
/// (output - target)^2.
Tensor mse_loss(Operand output, Operand target, ElementLossOptions options = {});
/// |output - target|; gradient 0 where they are equal.
Tensor l1_loss(Operand output, Operand target, ElementLossOptions options = {});
/// d^2 / 2 for differences d of up to `delta`, delta (d - delta / 2) beyond. Throws UserError
/// unless delta > 0.
Tensor huber_loss(Operand output, Operand target, double delta = 1,
                  ElementLossOptions options = {});
/// huber_loss / beta, which is l1_loss for beta = 0.
Tensor smooth_l1_loss(Operand output, Operand target, double beta = 1,
                      ElementLossOptions options = {});
/// max(0, margin - output target) for targets of -1 and 1.
Tensor hinge_loss(Operand output, Operand target, double margin = 1,
                  ElementLossOptions options = {});

/// a·b / (max(|a|, eps) max(|b|, eps)) along `axis`; the other axes broadcast. 0 for a vector of
/// zeros. Each length is taken in f32 before they meet, so that no square leaves a 16-bit range.
Tensor cosine_similarity(Operand a, Operand b, int64_t axis = -1, double eps = 1e-8);

struct CosineEmbeddingOptions {
  std::string_view reduce = "mean";
  double margin = 0;
};
/// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; cosines along
/// the last axis.
Tensor cosine_embedding_loss(Operand a, Operand b, Operand target,
                             CosineEmbeddingOptions options = {});

namespace losses {

/// Outputs are logits, `[batch, classes]`; targets class indices (i32 or u8) or probabilities.
struct CrossEntropy {
  double label_smoothing = 0;
  int64_t ignore_index = -100;
  std::string_view reduce = "mean";
  /// One number for each class; empty: all count alike.
  std::vector<double> class_weights = {};
  Tensor operator()(Operand logits, Operand target) const;
};
inline const CrossEntropy cross_entropy{};

/// Outputs are log-probabilities, `[batch, classes]`; targets class indices (i32 or u8).
struct Nll {
  int64_t ignore_index = -100;
  std::string_view reduce = "mean";
  std::vector<double> class_weights = {};
  Tensor operator()(Operand output, Operand labels) const;
};
inline const Nll nll{};

/// Outputs are probabilities.
struct Bce {
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr Bce bce{};

struct BceWithLogits {
  std::string_view reduce = "mean";
  /// One number for all outputs, or one for each along the last axis; empty: 1.
  std::vector<double> pos_weight = {};
  Tensor operator()(Operand logits, Operand target) const;
};
inline const BceWithLogits bce_with_logits{};

/// Outputs are log-probabilities.
struct KlDiv {
  std::string_view reduce = "batchmean";
  bool log_target = false;
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr KlDiv kl_div{};

struct MeanSquaredError {
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr MeanSquaredError mse{};

struct L1 {
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr L1 l1{};

struct Huber {
  double delta = 1;
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr Huber huber{};

struct SmoothL1 {
  double beta = 1;
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr SmoothL1 smooth_l1{};

struct Hinge {
  double margin = 1;
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr Hinge hinge{};

/// 1 - the cosine of output and target along the last axis.
struct Cosine {
  std::string_view reduce = "mean";
  Tensor operator()(Operand output, Operand target) const;
};
inline constexpr Cosine cosine{};

}  // namespace losses
}  // namespace mezzo
