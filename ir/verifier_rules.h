// SPDX-License-Identifier: Apache-2.0
// The verifier's inside: what a rule sees, and the rules that stand in files of their own.
#pragma once

#include <mezzo/ir/printer.h>
#include <mezzo/ir/verifier.h>

#include <optional>
#include <unordered_set>

namespace mezzo::ir {

/// One function under the verifier. Names are only made for findings.
class VerifierContext {
 public:
  VerifierContext(const Function& function, std::vector<VerifierFinding>& findings);

  const Function& function() const { return function_; }
  const Module& module() const { return *function_.module(); }
  bool at_least(Stage stage) const { return module().stage() >= stage; }
  /// The value stands in this function (also inside a kernel). Never looks behind the pointer.
  bool alive(const ValueDef* value) const { return alive_.contains(value); }
  const std::string& name(const ValueDef* value);
  const std::string& name(Value value) { return name(value.def()); }
  /// No rule has found anything yet: what reads kernels as a back end does may look.
  bool sound() const { return findings_.size() == before_; }
  void report(const Op& op, const std::string& what);
  void report(const std::string& what);

 private:
  const Function& function_;
  std::vector<VerifierFinding>& findings_;
  size_t before_;  // findings of other functions
  std::unordered_set<const ValueDef*> alive_;
  std::optional<ValueNames> names_;
};

/// Kernels: binding, yield, family, plan.
void verify_kernels(VerifierContext& context);
/// Stage planned: every kernel is planned, and nobody reads a parameter that was overwritten.
void verify_places(VerifierContext& context);
/// Numbers of plans, places and the arena: known, in range, inside memory.
void verify_plans(VerifierContext& context);

}  // namespace mezzo::ir
