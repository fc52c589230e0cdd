// SPDX-License-Identifier: Apache-2.0
// What the handles of layers and parameters share: names that the first trace fixes, and the
// numbers. Inside the library only.
#pragma once

#include <mezzo/dsl/initializers.h>
#include <mezzo/ir/location.h>
#include <mezzo/runtime/array.h>

#include <optional>
#include <string>

namespace mezzo::detail {

struct ParameterState {
  std::string local_name;  // `weight`
  std::string name;        // `hidden1.weight`, fixed at the first trace
  Shape shape;
  Initializer initializer;
  /// Empty until the first program that uses it binds it.
  std::optional<Array> value;
  /// Place in the order of first use: the random stream of the initial values.
  uint32_t ordinal = 0;

  /// A Trainer has chosen the element type of `value`: it holds what was trained and is never
  /// narrowed.
  bool trained = false;

  /// The numbers for a program that only reads them: `value` itself, or `copy` after a conversion
  /// to `dtype`. Made by the initializer the first time.
  Array& read(DType dtype, uint64_t seed, Array& copy);
  /// The numbers for a step that updates them. Throws UserError when they were trained in a wider
  /// type than `dtype`.
  Array& bind(DType dtype, uint64_t seed, ir::Location location);
};

struct LayerState {
  std::string kind;  // `dense`: the default name
  std::string name;  // given by the user, or at the first call
};

}  // namespace mezzo::detail
