// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the PTX interpreter and judges what they compute.
#pragma once

#include <mezzo/ir/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

struct NamedKernel {
  std::string name;
  std::unique_ptr<ir::Module> module;  // made by `alone`
};

struct FamilyCounts {
  int exact = 0;       // kernels that equal the interpreter
  int judged = 0;      // kernels whose ops are within their bounds
  int judged_ops = 0;  // of these
  int unjudged =
      0;  // kernels some of whose inexact ops are no results of any kernel: only that runs agree
  double worst = 0;  // error / bound
};
std::string to_string(const FamilyCounts& counts);

/// Compiles the kernels, which are planned for `arch`, and runs each twice on inputs in the domain
/// of its op: blocks in order, then in another order with hostile divergence. Fails the test where
/// the runs differ, a result is not what it should be or the interpreter finds a fault. A kernel of
/// several inexact ops is run once more with every value a result that its family allows: its own
/// results are then the same bits, and each op is judged by the operands that it had.
void run_kernels(std::vector<NamedKernel> kernels, const std::string& arch, FamilyCounts& counts);

}  // namespace mezzo::test
