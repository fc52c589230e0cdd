// SPDX-License-Identifier: Apache-2.0
// What must hold of every function, each check on one module and its inputs. A check gives "" or
// the first thing that is wrong; exceptions count as wrong.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstdint>
#include <functional>
#include <fuzz/judge.h>
#include <map>
#include <memory>
#include <runtime/compiled.h>
#include <string>

namespace mezzo::test {

/// Runs `check`; an exception becomes its text.
std::string guarded(const std::function<std::string()>& check);

/// After each pass of the pipeline `infer` (rounding as-written) the module verifies, prints and
/// reads back; when `equal_bits`, the interpreter's results stay what they were.
std::string check_passes(const ir::Module& module, const Tensors& inputs, bool equal_bits);

/// As written, for exact functions: kernels fused with one and two threads, and unfused, equal the
/// interpreter on `module` bit for bit; flag words equal those of the interpreter on the planned
/// module.
std::string check_exact(const ir::Module& module, const Tensors& inputs);

/// As written, for exact functions of large tensors: kernels on two threads equal those on one bit
/// for bit, fused and unfused, and the interpreter. `threaded` counts kernels whose plan and bytes
/// give a second thread work.
std::string check_threads(const ir::Module& module, const Tensors& inputs, int64_t& threaded);

/// As written, for elementwise functions: fused equals unfused bit for bit.
std::string check_fusion(const ir::Module& module, const Tensors& inputs);

/// Excess, for exact functions: kernels equal the interpreter on the planned module, flags too.
std::string check_excess(const ir::Module& module, const Tensors& inputs);

struct OpRecord {
  int graphs = 0;
  double worst = 0, worst_ulp = 0;
};
using Records = std::map<std::string, OpRecord>;

/// As written, every value a result: each op is right for the operands that it had. `fuse` as in
/// CompileOptions; `records`, when given, gathers errors.
std::string check_ops(const ir::Module& module, const Tensors& inputs, bool fuse,
                      Records* records = nullptr);

/// The sum of all float results of the module's function with its gradients by all float
/// parameters, as a module of one function; null where there are none, or an op has no derivative
/// here.
std::unique_ptr<ir::Module> gradient_module(const ir::Module& module);

/// The gradient function prints and reads back, every pass keeps it valid, and each of its ops is
/// right for the operands that it had, fused and unfused. `counted` counts functions that have one.
std::string check_gradients(const ir::Module& module, const Tensors& inputs, int64_t& counted,
                            Records* records = nullptr);

/// Adds one to `graphs` of each op of the module's function.
void count_ops(const ir::Module& module, Records& records);

}  // namespace mezzo::test
