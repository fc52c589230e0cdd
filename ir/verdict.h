// SPDX-License-Identifier: Apache-2.0
// The verdict on a training step: from flag words to the first operation that *produced* a
// non-finite number, shared by the interpreter and the runtime.
#pragma once

#include <mezzo/ir/flags.h>
#include <mezzo/ir/graph.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mezzo::ir {

/// The low byte of what `verdict` returns; the rest is the word of the producer.
enum class VerdictCode : int32_t {
  Taken = 0,
  NonfiniteLoss = 1,  // the step is taken
  NonfiniteParameter = 2,
  BadInput = 3,
  ForwardOverflow = 4,
  DomainError = 5,
  ScaleOverflow = 6,
  BackwardDomainError = 7,
  Unknown = 8,
  BadIndex = 9,
};

const char* to_string(VerdictCode code);
inline VerdictCode verdict_code(int32_t verdict) {
  return static_cast<VerdictCode>(verdict & 0xff);
}
inline int32_t verdict_word(int32_t verdict) { return verdict >> 8; }
/// The step was taken: codes 0 and 1.
inline bool is_taken(int32_t verdict) { return (verdict & 0xff) <= 1; }
/// The loss scale backs off: codes 6 and 8.
inline bool lowers_scale(int32_t verdict) {
  VerdictCode code = verdict_code(verdict);
  return code == VerdictCode::ScaleOverflow || code == VerdictCode::Unknown;
}

enum class Role : uint8_t { Forward, Backward, Update, Scale };

/// The ops that share one flag word: an operation, its replicas, or the parts of its decomposition.
struct VerdictEntry {
  int64_t word = 0;
  OpKind kind{};     // of the first of them in execution order
  std::string name;  // what the program called it, where its origin is known
  Role role = Role::Forward;
  Location location;
  /// One of them is a function that can leave its domain without a pole: log, sqrt, asin and so on.
  bool has_domain = false;
  /// They are nothing but a cast of a function parameter, through views.
  bool casts_parameter = false;
  /// Worded ops (places in `entries`) and function parameters whose values reach them through ops
  /// without a word; ascending.
  std::vector<int> producers;
  std::vector<int> parameters;
};

/// What the verdict needs to know of a function: plain values that may outlive it.
struct VerdictTable {
  /// In execution order, kernel regions in place.
  std::vector<VerdictEntry> entries;
  /// By function parameter: a trained parameter, or a 16-bit mirror of one.
  std::vector<bool> is_param;
  /// The state that holds the loss scale (the gradient seed), or -1.
  int scale_parameter = -1;

  /// Of a function at any stage after autodiff.
  static VerdictTable from(const Function& function);
};

/// What is known after the ops that a `verdict` judges have run.
struct StepFacts {
  std::span<const uint32_t> words;
  bool index_range = false;
  /// All gradients that updates read are finite, and the range flag is not set.
  bool all_finite = true;
  bool loss_finite = true;
  /// The loss scale is larger than 1.
  bool scaled = false;
  /// A function parameter holds a non-finite element; asked only about steps that went wrong.
  std::function<bool(int parameter)> parameter_has_nonfinite;
};

/// Code + 256 × word of the producer (word 0 when there is none). First match: bad_index; taken
/// and nonfinite_loss; nonfinite_parameter, also one whose 16-bit copy is not finite; bad_input;
/// forward_overflow or domain_error; scale_overflow; backward_domain_error; unknown.
int32_t judge(const VerdictTable& table, const StepFacts& facts);

}  // namespace mezzo::ir
