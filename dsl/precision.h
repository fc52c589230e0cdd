// SPDX-License-Identifier: Apache-2.0
// What a program says about precision: a policy by name, regions under another policy, and the
// rule of the loss scale. The meaning of the policies is that of the pass `autocast`.
#pragma once

#include <mezzo/dsl/gradients.h>

#include <string>

namespace mezzo {

class Policy {
 public:
  /// Everything in f32.
  static Policy float32() { return Policy("float32", f32, f32); }
  /// Matrix products in f16, unsafe operations and parameters in f32.
  static Policy mixed_float16() { return Policy("mixed_float16", f16, f32); }
  static Policy mixed_bfloat16() { return Policy("mixed_bfloat16", bf16, f32); }
  /// Parameters in 16 bits too: an explicit choice that loses small updates.
  static Policy float16() { return Policy("float16", f16, f16); }
  static Policy bfloat16() { return Policy("bfloat16", bf16, bf16); }
  /// By the names above; throws UserError that lists them.
  static Policy by_name(const std::string& name, ir::Location location = ir::Location::here());

  const char* name() const { return name_; }
  DType compute() const { return compute_; }
  DType accumulate() const { return f32; }
  /// Element type of parameters; moments of optimizers are f32.
  DType storage() const { return storage_; }
  /// Loss scaling is on by default exactly when this holds.
  bool needs_loss_scale() const { return compute_ == f16; }
  bool operator==(const Policy& other) const {
    return compute_ == other.compute_ && storage_ == other.storage_;
  }

 private:
  Policy(const char* name, DType compute, DType storage)
      : name_(name), compute_(compute), storage_(storage) {}
  const char* name_;
  DType compute_, storage_;
};

/// Runs `f`, whose operations follow `policy` instead of the program's.
template <typename F>
auto with_policy(const Policy& policy, F&& f, ir::Location location = ir::Location::here()) {
  detail::require_function(f, "with_policy: the function", location);
  detail::RegionScope scope(policy.name(), location);
  return f();
}

/// How the loss is scaled so that small f16 gradients survive. All factors are powers of two.
struct LossScale {
  enum class Kind : uint8_t { ByPolicy, Dynamic, Static, None };

  Kind kind = Kind::ByPolicy;
  double initial = 32768;  // 2^15: the largest that a unit gradient survives in f16
  double growth = 2;       // after `interval` clean steps
  double backoff = 0.5;    // when the scale caused an overflow
  int64_t interval = 2000;
  double floor = 0x1p-14;
  double ceiling = 0x1p24;

  /// Dynamic when the policy computes in f16, else none.
  static LossScale by_policy() { return {}; }
  static LossScale dynamic(double initial = 32768, int64_t interval = 2000) {
    LossScale scale;
    scale.kind = Kind::Dynamic;
    scale.initial = initial;
    scale.interval = interval;
    return scale;
  }
  static LossScale static_scale(double scale) {
    LossScale fixed;
    fixed.kind = Kind::Static;
    fixed.initial = scale;
    return fixed;
  }
  static LossScale none() {
    LossScale scale;
    scale.kind = Kind::None;
    return scale;
  }

  bool enabled(const Policy& policy) const {
    return kind == Kind::ByPolicy ? policy.needs_loss_scale() : kind != Kind::None;
  }
  /// Options of the pass loss-scale, or "off"; throws UserError for a factor that is not a power of
  /// two in f32 or moves the wrong way, and for an initial scale outside of [floor, ceiling].
  std::string options(const Policy& policy, ir::Location location = ir::Location::here()) const;
};

}  // namespace mezzo
