// SPDX-License-Identifier: Apache-2.0
// What a kernel's region says about its own iteration: the space, the reduced axes, the segments of
// an optimizer. Read by planning and by every back end alike.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/plan.h>

#include <span>
#include <vector>

namespace mezzo::ir {

bool is_reduction(OpKind kind);
/// Axes that a sum, max, min or argmax reduces, ascending.
std::vector<int64_t> reduced_axes(const Op& op);

struct KernelSpace {
  Shape space;
  /// Trailing (rows) or leading (columns) axes of the space that are reduced.
  int reduced = 0;

  int kept() const { return space.rank() - reduced; }
};

/// Elementwise and movement: the shape of the results; rows and columns: of the reduced values;
/// matmul: of the product. An optimizer kernel has no single space.
KernelSpace kernel_space(const Op& kernel);

/// The segments of an optimizer kernel, each as its yields (which all have one shape): connected
/// sets of ops that share only parameters, constants and scalars.
std::vector<std::vector<Value>> optimizer_segments(const Op& kernel);

/// The last axis of `dims` that is longer than 1, along which vectors run; -1 when there is none.
int vector_axis(std::span<const int64_t> dims);

/// Distinct `word` attributes of the region in order of first appearance: the flag slots of the
/// kernel.
std::vector<int64_t> kernel_words(const Op& kernel);
/// Ops of the region whose `stream` is a kernel argument, in order: the integer slots of the
/// kernel.
std::vector<const Op*> kernel_streams(const Op& kernel);

}  // namespace mezzo::ir
