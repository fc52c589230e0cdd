// SPDX-License-Identifier: Apache-2.0
// Precision policies by name: which type the operands of narrow ops (matmul, conv, attention,
// recurrent) have. Accumulators, wide ops, parameters and outputs are f32 under every policy;
// parameters of the pure policies are declared in 16 bits by whoever makes the module. And the
// names of the rounding modes.
#pragma once

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/location.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::passes {

struct PrecisionPolicy {
  std::string name;
  ir::DType compute = ir::DType::F32;
  /// Type in which parameters are stored.
  ir::DType storage = ir::DType::F32;
  /// Loss scaling is on by default exactly when the compute type is f16.
  bool scales_loss() const { return compute == ir::DType::F16; }
};

/// `float32`, `mixed_float16`, `mixed_bfloat16`, `float16`, `bfloat16`; throws UserError naming the
/// known ones, at `location`.
PrecisionPolicy policy_by_name(std::string_view name, ir::Location location = {});
const std::vector<std::string>& policy_names();
/// Throws UserError, naming the known ones, for a rounding mode other than `excess` and
/// `as-written`.
void check_rounding(std::string_view rounding, ir::Location location = {});
/// A cast of a finite value of type `from` to `to` can give an infinity.
bool can_overflow(ir::DType from, ir::DType to);

/// What rounding to a 16-bit type makes of a finite number of a program that it was not.
enum class LiteralLoss : uint8_t { None, Zero, Infinite, One };
LiteralLoss loss_of_literal(double value, ir::DType dtype);
/// `stays`, `becomes 0`, `becomes infinite`, `becomes 1`.
const char* to_string(LiteralLoss loss);
inline bool leaves_range(LiteralLoss loss) {
  return loss == LiteralLoss::Zero || loss == LiteralLoss::Infinite;
}

}  // namespace mezzo::passes
