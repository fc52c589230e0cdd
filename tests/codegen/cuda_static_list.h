// SPDX-License-Identifier: Apache-2.0
// Kernels whose machine code is watched: what a training step and the large workloads of
// `mezzo-bench` are made of.
#pragma once

#include <mezzo/ir/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

/// A module of primitive ops that becomes one kernel on every architecture, or one of family
/// optimizer and others.
struct StaticKernel {
  std::string name;
  std::unique_ptr<ir::Module> module;
  /// Instructions of the hot loop that are no product, for each one that is: at most so many where
  /// there are tensor cores; 0: no such goal.
  double most_overhead = 0;
};

std::vector<StaticKernel> static_kernels();

}  // namespace mezzo::test
