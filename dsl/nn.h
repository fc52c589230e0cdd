// SPDX-License-Identifier: Apache-2.0
// Layers. A layer is a handle: a copy shares its parameters. Names that the user does not give are
// given by each trace in the order of the calls, and kept from the first one where they are free; a
// layer's call, not its declaration, is the place that errors and diagnoses name. The first program
// that runs makes the numbers, from its seed and the order in which it uses the parameters:
// programs with equal seeds make equal numbers.
#pragma once

#include <mezzo/dsl/initializers.h>
#include <mezzo/dsl/ops.h>

#include <memory>
#include <string>

namespace mezzo {

namespace detail {
struct LayerState;
struct ParameterState;
}  // namespace detail

namespace nn {

/// Base of models and of layers made of layers. A model is a value: a struct with layers as members
/// and a call operator; a copy shares the layers.
struct Module {};

/// Numbers that training changes. Usable as an operand inside of a trace. Of a handle that was
/// moved from, everything but its destructor and an assignment throws UserError.
class Parameter {
 public:
  /// `name` is completed by the names of the layers around it, and by a number where it is taken.
  /// Throws UserError for a shape that cannot be.
  Parameter(Dims shape, Initializer initializer, std::string name = "parameter",
            ir::Location location = ir::Location::here());

  /// The full name in the first program that uses it, empty before; another program may give it a
  /// number where layers without names of their own meet.
  const std::string& name(ir::Location location = ir::Location::here()) const;
  const Shape& shape(ir::Location location = ir::Location::here()) const;
  /// The numbers; throws UserError before the first program that uses it has run.
  const Array& value(ir::Location location = ir::Location::here()) const;
  /// The same, not trained: `{state}` of every program that uses it, f32 under every policy. What
  /// a layer sets in a training step is kept when that step is taken.
  static Parameter state(Dims shape, Initializer initializer, std::string name,
                         ir::Location location = ir::Location::here());
  /// Replaces the numbers for all handles of the parameter, that of a layer among them:
  /// `dense.weight().set_value(w)`. They are rounded to its element type once it has one. A
  /// Trainer's policy fixes that type: a later one may widen it, never narrow it; a program that
  /// only reads parameters gets a rounded copy.
  void set_value(const Array& value, ir::Location location = ir::Location::here()) const;

 private:
  friend const std::shared_ptr<detail::ParameterState>& detail_state(const Parameter& parameter,
                                                                     ir::Location location);
  std::shared_ptr<detail::ParameterState> state_;
};

/// What copies of the handle share; throws UserError where it was moved from. Inside the library
/// only.
const std::shared_ptr<detail::ParameterState>& detail_state(const Parameter& parameter,
                                                            ir::Location location);

struct DenseOptions {
  std::string name = "";
  bool bias = true;
  Initializer initializer = initializers::glorot_uniform();
};

/// `x @ w + b` over the last axis; w is `[in, out]`. A call of a layer that was moved from throws
/// UserError.
class Dense {
 public:
  /// Throws UserError for negative sizes.
  Dense(int64_t in, int64_t out, DenseOptions options = {},
        ir::Location location = ir::Location::here());
  Tensor operator()(Operand x) const;

  const Parameter& weight() const { return weight_; }
  /// Zeros and unused when the layer has none.
  const Parameter& bias() const { return bias_; }

 private:
  int64_t in_, out_;
  bool has_bias_;
  std::shared_ptr<detail::LayerState> state_;
  Parameter weight_, bias_;
};

}  // namespace nn
}  // namespace mezzo
