// SPDX-License-Identifier: Apache-2.0
// Recurrent functions and layers beside the cells written out step by step: order of the gates,
// both directions, layers, layouts, biases, states, gradients, and what errors say.
#include <mezzo/dsl/trace.h>
#include <mezzo/mezzo.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace mezzo;
using mezzo::test::error_of;

namespace {

using Tensors = std::vector<Tensor>;
using Inputs = std::span<const Tensor>;

enum class Cell : uint8_t { Rnn, Lstm, Gru };
constexpr Cell kCells[] = {Cell::Rnn, Cell::Lstm, Cell::Gru};
constexpr int64_t kGates[] = {1, 4, 3};
constexpr const char* kNames[] = {"rnn", "lstm", "gru"};

struct States {
  Tensor h, c;
};
/// Empty biases are none.
struct Weights {
  Tensor w, u, b, v;
};
struct Sequence {
  Tensor h, c;  // of all steps
  States last;
};

/// Numbers in (-1, 1) that no two places share.
Array wave(Shape shape, double phase, DType dtype) {
  Array array{ir::Type(dtype, shape)};
  for (int64_t i = 0; i < array.type.elements(); ++i)
    array.set(i, std::sin(phase + 1.7 * static_cast<double>(i)));
  return array;
}

/// The same inside of a trace: so that the gradient tells every element from the others.
Tensor weighted_sum(const Tensor& x) {
  const Array factors = wave(x.shape(), 0.3, f64);
  return sum(x * constant(factors.to_doubles(), Dims(x.shape()), x.dtype()));
}

Tensor part(const Tensor& gates, int64_t index, int64_t units) {
  return slice(gates, {0, index * units}, {gates.shape()[0], (index + 1) * units});
}

/// One step of a cell, as its definition reads.
States step(Cell cell, const Tensor& x, const States& before, const Weights& weights,
            bool rectified) {
  const int64_t units = before.h.shape()[1];
  Tensor from_x = matmul(x, weights.w), from_h = matmul(before.h, weights.u);
  if (weights.b.has_value()) from_x += weights.b;
  if (weights.v.has_value()) from_h += weights.v;
  if (cell == Cell::Rnn) {
    const Tensor a = from_x + from_h;
    return {rectified ? relu(a) : tanh(a), {}};
  }
  if (cell == Cell::Lstm) {
    const Tensor a = from_x + from_h;
    const Tensor i = sigmoid(part(a, 0, units)), f = sigmoid(part(a, 1, units));
    const Tensor g = tanh(part(a, 2, units)), o = sigmoid(part(a, 3, units));
    const Tensor c = f * before.c + i * g;
    return {o * tanh(c), c};
  }
  const Tensor r = sigmoid(part(from_x, 0, units) + part(from_h, 0, units));
  const Tensor z = sigmoid(part(from_x, 1, units) + part(from_h, 1, units));
  const Tensor n = tanh(part(from_x, 2, units) + r * part(from_h, 2, units));
  return {(1.0 - z) * n + z * before.h, {}};
}

/// x is [steps, batch, in]; outputs stand at the step that they belong to.
Sequence unrolled(Cell cell, const Tensor& x, States state, const Weights& weights, bool reverse,
                  bool rectified = false) {
  const int64_t steps = x.shape()[0];
  Tensors h(static_cast<size_t>(steps)), c(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = reverse ? steps - 1 - i : i;
    const Tensor now = squeeze(slice(x, {t, 0, 0}, {t + 1, x.shape()[1], x.shape()[2]}), {0});
    state = step(cell, now, state, weights, rectified);
    h[static_cast<size_t>(t)] = state.h;
    c[static_cast<size_t>(t)] = state.c;
  }
  return {stack(h), cell == Cell::Lstm ? stack(c) : Tensor(), state};
}

/// What `results` gives, and the gradients of a weighted sum of it by all arguments.
detail::TensorFunction with_gradients(detail::TensorFunction results) {
  return [results](Inputs inputs) {
    auto loss = [&](Inputs inner) {
      Tensors all = results(inner);
      Tensor total = weighted_sum(all[0]);
      for (size_t i = 1; i < all.size(); ++i) total += weighted_sum(all[i]);
      all.insert(all.begin(), total);
      return all;
    };
    std::vector<Operand> operands(inputs.begin(), inputs.end());
    std::vector<int64_t> all(inputs.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    return detail::trace_gradient(loss, operands, all, ir::Location::here());
  };
}

void check_same(const std::vector<Array>& got, const std::vector<Array>& wanted, double tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].shape() == wanted[i].shape());
    double off = 0;
    for (int64_t j = 0; j < got[i].type.elements(); ++j) {
      const double number = wanted[i].as_double(j);
      off = std::fmax(off,
                      std::fabs(got[i].as_double(j) - number) / std::fmax(1.0, std::fabs(number)));
    }
    CAPTURE(i);
    CHECK(off <= tolerance);
  }
}

std::vector<Array> run(const detail::TensorFunction& function, const std::vector<Array>& inputs,
                       const Device& device) {
  const ir::Location here = ir::Location::here();
  return detail::JitPrograms(function, {.device = device}, here).call(inputs, here);
}

/// `got` by the interpreter and by kernels, `wanted` by the interpreter, both with their gradients.
void check_functions(const detail::TensorFunction& got, const detail::TensorFunction& wanted,
                     const std::vector<Array>& inputs, double tolerance) {
  const std::vector<Array> numbers = run(with_gradients(wanted), inputs, Device::interpreter());
  for (const Device& device : {Device::interpreter(), Device::cpu()}) {
    CAPTURE(device.name());
    check_same(run(with_gradients(got), inputs, device), numbers, tolerance);
  }
}

double tolerance_of(DType dtype) { return dtype == f64 ? 1e-12 : 1e-5; }

/// x, states, w, u and biases of so many steps, all different.
std::vector<Array> arguments_of(Cell cell, DType dtype, int64_t steps) {
  const int64_t batch = 3, in = 2, units = 4, columns = kGates[static_cast<size_t>(cell)] * units;
  std::vector<Array> inputs{wave({steps, batch, in}, 0.1, dtype), wave({batch, units}, 0.2, dtype)};
  if (cell == Cell::Lstm) inputs.push_back(wave({batch, units}, 0.4, dtype));
  inputs.push_back(wave({in, columns}, 0.5, dtype));
  inputs.push_back(wave({units, columns}, 0.6, dtype));
  inputs.push_back(wave({columns}, 0.7, dtype));
  if (cell == Cell::Gru) inputs.push_back(wave({columns}, 0.8, dtype));
  return inputs;
}

/// The function of the library.
Tensors called(Cell cell, Inputs in, bool reverse, const char* activation) {
  if (cell == Cell::Rnn)
    return {rnn(in[0], in[1], in[2], in[3], in[4], {.activation = activation, .reverse = reverse})};
  if (cell == Cell::Gru)
    return {gru(in[0], in[1], in[2], in[3], in[4], in[5], {.reverse = reverse})};
  const LstmResult result = lstm(in[0], in[1], in[2], in[3], in[4], in[5], {.reverse = reverse});
  return {result.h, result.c};
}

Tensors written(Cell cell, Inputs in, bool reverse, bool rectified) {
  const size_t w = cell == Cell::Lstm ? 3 : 2;
  const States initial{in[1], cell == Cell::Lstm ? in[2] : Tensor()};
  const Weights weights{in[w], in[w + 1], in[w + 2], cell == Cell::Gru ? in[w + 3] : Tensor()};
  const Sequence all = unrolled(cell, in[0], initial, weights, reverse, rectified);
  return cell == Cell::Lstm ? Tensors{all.h, all.c} : Tensors{all.h};
}

}  // namespace

TEST_CASE("rnn, lstm and gru are their cells written out, values and gradients") {
  for (Cell cell : kCells)
    for (DType dtype : {f32, f64})
      for (bool reverse : {false, true})
        for (bool rectified : {false, true}) {
          if (rectified && cell != Cell::Rnn) continue;
          CAPTURE(std::string(kNames[static_cast<size_t>(cell)]));
          CAPTURE(std::string(ir::to_string(dtype)));
          CAPTURE(reverse);
          CAPTURE(rectified);
          for (int64_t steps : {1, 5})
            check_functions(
                [=](Inputs in) { return called(cell, in, reverse, rectified ? "relu" : "tanh"); },
                [=](Inputs in) { return written(cell, in, reverse, rectified); },
                arguments_of(cell, dtype, steps), tolerance_of(dtype));
        }
}

TEST_CASE("a cell by hand: gates i, f, g, o and r, z, n, the second bias inside of r") {
  const JitOptions interpreter{.device = Device::interpreter()};
  auto sigmoid_of = [](double x) { return 1 / (1 + std::exp(-x)); };
  auto numbers = [](Dims shape, std::vector<double> values) {
    return constant(std::move(values), shape, f64);
  };
  // Products are 0: the biases alone make the gates.
  const Array x({1, 1, 1}, {1}, f64), h0({1, 1}, {0.25}, f64), c0({1, 1}, {0.75}, f64);
  const std::vector<Array> lstm_state = jit(
      [&](Tensor a, Tensor h, Tensor c) {
        const Tensor none = full({1, 4}, 0, f64);
        const LstmResult out = lstm(a, h, c, none, none, numbers({4}, {0.1, -0.2, 0.3, 0.4}));
        return std::pair(out.h, out.c);
      },
      interpreter)(x, h0, c0);
  const double c = sigmoid_of(-0.2) * 0.75 + sigmoid_of(0.1) * std::tanh(0.3);
  CHECK(lstm_state[1].item() == doctest::Approx(c).epsilon(1e-14));
  CHECK(lstm_state[0].item() == doctest::Approx(sigmoid_of(0.4) * std::tanh(c)).epsilon(1e-14));
  const Array h = jit(
      [&](Tensor a, Tensor before) {
        return gru(a, before, full({1, 3}, 0, f64), numbers({1, 3}, {0, 0, 2}),
                   numbers({3}, {0.1, -0.2, 0.3}), numbers({3}, {0.4, 0.5, -0.6}));
      },
      interpreter)(x, h0);
  const double r = sigmoid_of(0.1 + 0.4), z = sigmoid_of(-0.2 + 0.5);
  const double n = std::tanh(0.3 + r * (0.25 * 2 - 0.6));
  CHECK(h.item() == doctest::Approx((1 - z) * n + z * 0.25).epsilon(1e-14));
}

TEST_CASE("states of 16-bit operands are f32, outputs 16-bit") {
  for (DType dtype : {f16, bf16}) {
    CAPTURE(std::string(ir::to_string(dtype)));
    const std::vector<Array> inputs = arguments_of(Cell::Lstm, dtype, 5);
    const std::vector<Array> got =
        run([](Inputs in) { return called(Cell::Lstm, in, false, "tanh"); }, inputs, Device::cpu());
    CHECK(got[0].dtype() == dtype);
    CHECK(got[1].dtype() == f32);
    check_same(got,
               run(
                   [](Inputs in) {
                     Tensors wide;
                     for (const Tensor& each : in) wide.push_back(cast(each, f64));
                     return written(Cell::Lstm, wide, false, false);
                   },
                   inputs, Device::interpreter()),
               dtype == f16 ? 2e-3 : 2e-2);
  }
}

namespace {

struct Layer {
  Cell cell = Cell::Rnn;
  nn::RnnLayerOptions options = {};
  bool initial = false;
};

constexpr int64_t kIn = 2, kUnits = 3, kBatch = 2, kSteps = 4;

/// Sequence and, where they are given, initial states.
std::vector<Array> arguments_of(const Layer& layer, DType dtype) {
  const int64_t networks = layer.options.layers * (layer.options.bidirectional ? 2 : 1);
  std::vector<Array> inputs{layer.options.batch_first ? wave({kBatch, kSteps, kIn}, 0.1, dtype)
                                                      : wave({kSteps, kBatch, kIn}, 0.1, dtype)};
  if (layer.initial) inputs.push_back(wave({networks, kBatch, kUnits}, 0.2, dtype));
  if (layer.initial && layer.cell == Cell::Lstm)
    inputs.push_back(wave({networks, kBatch, kUnits}, 0.4, dtype));
  return inputs;
}

/// The layer of the library: the sequence and the last states.
detail::TensorFunction called(const Layer& layer) {
  auto run = [](auto network, bool cells) -> detail::TensorFunction {
    return [=](Inputs in) {
      nn::RecurrentState initial;
      if (in.size() > 1) initial.h = in[1];
      if (in.size() > 2) initial.c = in[2];
      const nn::RecurrentOutput out = network(in[0], initial);
      CHECK(out.c.has_value() == cells);
      return cells ? Tensors{out.y, out.h, out.c} : Tensors{out.y, out.h};
    };
  };
  if (layer.cell == Cell::Rnn) return run(nn::Rnn(kIn, kUnits, layer.options), false);
  if (layer.cell == Cell::Gru) return run(nn::Gru(kIn, kUnits, layer.options), false);
  return run(nn::Lstm(kIn, kUnits, layer.options), true);
}

/// The parameter `NAME` of the layer that the trace has called; empty when there is none.
Tensor parameter_of(const Layer& layer, const std::string& name) {
  detail::Trace& trace = detail::Trace::require("test", ir::Location::here());
  const std::string full = std::string(kNames[static_cast<size_t>(layer.cell)]) + "." + name;
  for (const detail::ProgramParameter& each : trace.parameters())
    if (each.name == full) return trace.parameter(each.state);
  return {};
}

/// The same, written out with the numbers of that layer.
Tensors written(const Layer& layer, Inputs in) {
  auto swapped = [&](const Tensor& x) {
    return layer.options.batch_first ? transpose(x, {1, 0, 2}) : x;
  };
  auto state = [&](size_t argument, int64_t network) {
    if (in.size() <= argument) return full({kBatch, kUnits}, 0, in[0].dtype());
    return reshape(slice(in[argument], {network, 0, 0}, {network + 1, kBatch, kUnits}),
                   {kBatch, kUnits});
  };
  Tensor sequence = swapped(in[0]);
  Tensors last_h, last_c;
  for (int64_t depth = 0, network = 0; depth < layer.options.layers; ++depth) {
    Tensors outputs;
    for (bool reverse : {false, true}) {
      if (reverse && !layer.options.bidirectional) continue;
      const std::string scope = "l" + std::to_string(depth) + (reverse ? "_reverse." : ".");
      const Weights weights{parameter_of(layer, scope + "w"), parameter_of(layer, scope + "u"),
                            parameter_of(layer, scope + "b"), parameter_of(layer, scope + "v")};
      REQUIRE(weights.w.has_value());
      REQUIRE(weights.u.has_value());
      CHECK(weights.b.has_value() == layer.options.bias);
      CHECK(weights.v.has_value() == (layer.options.bias && layer.cell == Cell::Gru));
      const Sequence all = unrolled(layer.cell, sequence, {state(1, network), state(2, network)},
                                    weights, reverse, layer.options.activation == "relu");
      outputs.push_back(all.h);
      last_h.push_back(all.last.h);
      last_c.push_back(all.last.c);
      ++network;
    }
    sequence = outputs.size() == 1 ? outputs[0] : concat(outputs, 2);
  }
  Tensors results{swapped(sequence), stack(last_h)};
  if (layer.cell == Cell::Lstm) results.push_back(stack(last_c));
  return results;
}

/// Both in one program of the interpreter, which shares the parameters, and the layer by kernels.
void check_layer(const Layer& layer, DType dtype, bool by_kernels) {
  CAPTURE(std::string(kNames[static_cast<size_t>(layer.cell)]));
  CAPTURE(std::string(ir::to_string(dtype)));
  CAPTURE(layer.options.layers);
  CAPTURE(layer.options.bidirectional);
  CAPTURE(layer.options.batch_first);
  CAPTURE(layer.options.bias);
  CAPTURE(layer.initial);
  const detail::TensorFunction network = called(layer);
  auto both = [&](Inputs in) {
    Tensors all = with_gradients(network)(in);
    const Tensors wanted = with_gradients([&](Inputs inner) { return written(layer, inner); })(in);
    all.insert(all.end(), wanted.begin(), wanted.end());
    return all;
  };
  const std::vector<Array> inputs = arguments_of(layer, dtype);
  const std::vector<Array> all = run(both, inputs, Device::interpreter());
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  const std::vector<Array> wanted(middle, all.end());
  check_same({all.begin(), middle}, wanted, tolerance_of(dtype));
  if (by_kernels)
    check_same(run(with_gradients(network), inputs, Device::cpu()), wanted, tolerance_of(dtype));
}

}  // namespace

TEST_CASE("nn::Rnn, nn::Lstm and nn::Gru are stacks of cells, with every option") {
  for (Cell cell : kCells)
    for (unsigned options = 0; options < 32; ++options) {
      Layer layer{.cell = cell, .initial = (options & 1) != 0};
      layer.options.layers = (options & 2) != 0 ? 2 : 1;
      layer.options.bidirectional = (options & 4) != 0;
      layer.options.batch_first = (options & 8) != 0;
      layer.options.bias = (options & 16) != 0;
      // By kernels the least, the most and one between.
      const bool by_kernels = options == 0 || options == 22 || options == 31;
      for (DType dtype : {f32, f64}) check_layer(layer, dtype, by_kernels);
    }
  Layer rectified;
  rectified.options.activation = "relu";
  check_layer(rectified, f64, true);
}

TEST_CASE("recurrent functions and layers say what they do not take") {
  auto traced = [](auto f) {
    return error_of([&] {
      jit(f, {.device = Device::interpreter()})(wave({2, 4, 3}, 0, f32), wave({2, 2, 5}, 0, f32));
    });
  };
  auto told = [](const std::string& error, const std::string& text) {
    CAPTURE(error);
    CHECK(error.find(text) != std::string::npos);
  };
  nn::RnnLayerOptions none;
  none.layers = 0;
  told(error_of([&] { nn::Rnn(3, 5, none); }),
       "rnn: 0 layers are none\nnote: a recurrent network has one layer at least");
  told(error_of([] { nn::Gru(3, 5, {.layers = -1}); }), "gru: -1 layers are none");
  told(error_of([] { nn::Lstm(3, -5); }),
       "lstm 3 -> -5: a number of features is negative\nnote: the layer takes the features of its "
       "argument, then its units");

  const nn::Lstm layer{3, 5, {.name = "memory"}};
  const nn::Gru first_steps{1, 5, {.name = "time", .batch_first = false}};
  told(traced([&](Tensor x, Tensor) { return first_steps(x).y; }),
       "gru 'time': takes [steps, batch, 1 feature], not tensor<2x4x3xf32>\nnote: batch_first says "
       "which axis comes first");
  told(traced([&](Tensor, Tensor s) { return layer(s).y; }),
       "lstm 'memory': takes [batch, steps, 3 features], not tensor<2x2x5xf32>");
  told(traced([&](Tensor x, Tensor) { return layer(reshape(x, {8, 3})).y; }),
       "lstm 'memory': takes [batch, steps, 3 features], not tensor<8x3xf32>");
  told(traced([&](Tensor, Tensor) { return layer(2.0).y; }),
       "lstm 'memory': takes [batch, steps, 3 features], not a number");
  told(traced([&](Tensor, Tensor) { return layer(full({2, 0, 3}, 1.0)).y; }),
       "lstm 'memory': a sequence of no steps\nnote: a recurrent network needs one step at least");
  told(traced([&](Tensor x, Tensor s) { return layer(x, {.h = s}).y; }),
       "lstm 'memory': the initial h must be [1, 2, 5], not tensor<2x2x5xf32>\nnote: states are "
       "[layers * directions, batch, units]");
  told(traced([&](Tensor x, Tensor s) {
         return layer(x, {.h = slice(s, {0, 0, 0}, {1, 2, 5}), .c = s}).y;
       }),
       "lstm 'memory': the initial c must be [1, 2, 5], not tensor<2x2x5xf32>");

  nn::RnnLayerOptions unknown;
  unknown.activation = "gelu";
  const nn::Rnn other{3, 5, unknown};
  told(traced([&](Tensor x, Tensor) { return other(x).y; }), "rnn: unknown activation \"gelu\"");
  told(traced([](Tensor x, Tensor) {
         return rnn(x, full({4, 5}, 0.0), full({3, 5}, 1.0), full({5, 5}, 1.0), full({4}, 0.0));
       }),
       "rnn: b must be tensor<5xf32>, not tensor<4xf32>");
  told(traced([](Tensor x, Tensor) {
         return gru(x, full({4, 5}, 0.0), full({3, 20}, 1.0), full({5, 15}, 1.0), full({15}, 0.0),
                    full({15}, 0.0));
       }),
       "gru: w must be tensor<3x15xf32>, not tensor<3x20xf32>");
}
