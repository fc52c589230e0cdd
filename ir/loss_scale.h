// SPDX-License-Identifier: Apache-2.0
// What a loss scale and its rule may be, for everything that takes one: `scale_update`, the pass
// loss-scale, `mezzo grad` and the language.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mezzo::ir {

/// How the scale moves between two steps.
struct ScaleRule {
  double growth = 2;
  double backoff = 0.5;
  double floor = 0x1p-14;
  double ceiling = 0x1p24;
  double interval = 2000;  // clean steps
};

/// What is wrong with a number, starting with its name, and what to do.
struct ScaleFault {
  std::string text, hint;
};

/// A scale, and what it is multiplied by or bounded with, is a power of two in [2^-126, 2^127], so
/// that scaling and unscaling in f32 are exact; `what` is its name in the text.
std::optional<ScaleFault> power_of_two_fault(std::string_view what, double value);

/// The first fault of a rule: growth >= 1, backoff <= 1, floor <= ceiling, all powers of two;
/// interval a whole number in [1, 2^31 - 1].
std::optional<ScaleFault> scale_rule_fault(const ScaleRule& rule);

}  // namespace mezzo::ir
