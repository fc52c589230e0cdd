// SPDX-License-Identifier: Apache-2.0
// Reads through an affine index, and sums of such reads: what pooling, upsampling and their
// gradients are made of. Every tap is one read of the whole tensor, so that a sum of them is one
// elementwise kernel whose vectors run along the channels.
#pragma once

#include <mezzo/ir/remap.h>
#include <mezzo/passes/decompose_parts.h>

#include <span>
#include <utility>
#include <vector>

namespace mezzo::passes {

using ir::RemapAxis;

/// What a read outside of the tensor, or between two elements, gives.
enum class Outside : uint8_t { Zero, Lowest, Nearest };

/// The tensor of `shape` whose elements are those of `x` at these places.
ir::Value make_remap(ir::Builder& builder, ir::Value x, const ir::Shape& shape,
                     std::span<const RemapAxis> axes, Outside outside = Outside::Zero);

/// One term along an axis: index i of the result reads index (multiple * i + offset) / divisor.
struct Tap {
  int64_t multiple = 1, offset = 0, divisor = 1;
  std::vector<double> weights;  // one for each index of the result; empty: all 1
};

/// The result's length along an axis and the terms that are added along it.
struct TapAxis {
  int64_t size = 0;
  std::vector<Tap> taps;
};

/// Row i of a matrix: what index i of the result is made of, as indices in ascending order and
/// their weights, none of them 0.
using TapRow = std::vector<std::pair<int64_t, double>>;

/// Taps of a matrix whose entries stand about a line: those of row i near (multiple * i + offset) /
/// divisor, rounded down. Reads outside of the tensor have weight 0.
TapAxis taps_of(std::span<const TapRow> rows, int64_t multiple, int64_t offset, int64_t divisor);

/// The matrix with rows and columns exchanged; it has `columns` rows.
std::vector<TapRow> transposed(std::span<const TapRow> rows, int64_t columns);

/// Sums of taps along the axes 1, 2 ... of x; a weight of 0 hides what it meets. 16-bit values are
/// not widened here.
ir::Value sum_taps(Parts& parts, ir::Value x, std::span<const TapAxis> axes, Outside outside);

/// Terms of one kernel, each of a few ops.
inline constexpr size_t kTermsOfKernel = 12;
/// The sum of all: of more than `most`, the sum of the sums of at most as many, and so on, so that
/// each fits a kernel and the error is that of a tree.
ir::Value sum_terms(Parts& parts, std::span<const ir::Value> terms, size_t most = kTermsOfKernel);

}  // namespace mezzo::passes
