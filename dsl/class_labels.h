// SPDX-License-Identifier: Apache-2.0
// The class labels of a traced loss: which ones its cross_entropy reads, what an accuracy compares
// with them, and how many of a batch count. Inside the library only.
#pragma once

#include <mezzo/dsl/trace.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace mezzo::detail {

/// Targets that must lie in [0, classes) or be ignored.
struct LabelRange {
  int64_t classes = 0, ignore_index = -100;
  ir::Location location;
};

/// Where a function of inputs and targets reads the targets themselves as class indices.
std::vector<LabelRange> find_label_ranges(const ir::Function& function);

/// Which labels a batch counts by.
struct LabelCounts {
  /// Labels of the metric in a batch as it was traced; 0 where there is no metric.
  int64_t labels = 0;
  /// The metric leaves this one out of the targets.
  std::optional<int64_t> without;
  /// The metric's labels are computed: their program gives the share that is not ignored, behind
  /// the metric.
  bool traced = false;
  /// The loss is a mean over the labels that the metric counts.
  bool loss_follows = false;
  /// The loss is a mean over the targets other than this one.
  std::optional<int64_t> mean_without;
};

/// Adds to `results` of the innermost function, whose first one is the loss: the share of labels at
/// which the largest output stands, where there are labels, and the share of labels that are not
/// ignored, where the targets alone do not tell. An ignored label is never hit.
LabelCounts trace_accuracy(Trace& trace, const Tensor& output, const Tensor& targets,
                           std::vector<ir::Value>& results, ir::Location location);

}  // namespace mezzo::detail
