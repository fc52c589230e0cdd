// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences: small modules with one loss, run by the interpreter.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mezzo::test {

/// A parameter of the function under test. `domain` is a letter of the op table; `differentiated`
/// says whether its gradient is asked for.
struct Input {
  ir::Type type;
  char domain = 'a';
  bool differentiated = true;
};

/// Builds the value under test from the parameters.
using BuildBody = std::function<ir::Value(ir::Builder&, std::span<const ir::Value>)>;

/// `sum(body(inputs) * weights)` as the function @loss; the weights are its last parameter.
std::unique_ptr<ir::Module> make_loss(const std::vector<Input>& inputs, const BuildBody& body);

/// One tensor for each parameter of @loss, from the domains of the inputs; weights in [-1, 1).
std::vector<ir::InterpreterTensor> random_inputs(const ir::Module& module,
                                                 const std::vector<Input>& inputs, unsigned seed);

/// Value and gradients by `inputs` of the module's function @loss, on the given tensors.
struct Gradients {
  double loss = 0;
  std::vector<ir::InterpreterTensor> by_input;
};
Gradients gradients_of(const ir::Module& module, const std::vector<Input>& inputs,
                       const std::vector<ir::InterpreterTensor>& tensors);

/// Checks first (and second) derivatives of @loss against central differences in f64: by element up
/// to 64 elements, along random directions above.
void check_gradients(const std::vector<Input>& inputs, const BuildBody& body, bool second,
                     unsigned seed);

/// Gradients of `sum(body)` at the given points, without weights.
Gradients gradients_at(const std::vector<ir::InterpreterTensor>& points, const BuildBody& body);

/// All elements of `tensor` as doubles.
std::vector<double> numbers(const ir::InterpreterTensor& tensor);

}  // namespace mezzo::test
