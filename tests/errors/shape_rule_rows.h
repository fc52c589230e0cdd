// SPDX-License-Identifier: Apache-2.0
// Ops that cannot be, and what their shape rules say of them.
#pragma once

#include <mezzo/ir/op_info.h>

#include <string>
#include <vector>

namespace mezzo::test {

/// An op: its operands and, where they are stated, its results as `4x3xf32, 3xi32`.
struct Row {
  ir::OpKind kind;
  const char* operands;
  const char* attrs;
  std::string text;
  const char* declared = "";
};

const std::vector<Row>& movement();
const std::vector<Row>& reductions();
const std::vector<Row>& sequences_and_losses();
const std::vector<Row>& layers();
const std::vector<Row>& random_and_training();

// Parts of the texts that many rows share.
inline const std::string
    kOfPair = " (x tensor<4x3xf32>)",
    kFloat = "\nnote: cast it to f32 first", kNumber = "\nnote: cast it to i32 first",
    kAxes = "\nnote: axes are 0 to 1",
    kBroadcasts =
        "\nnote: axes are matched from the last one; each pair must be equal or one "
        "of them 1",
    kSequence =
        "\nnote: x is [steps, batch, in], states are [batch, units], w [in, gates * "
        "units], u [units, gates * units]";

}  // namespace mezzo::test
