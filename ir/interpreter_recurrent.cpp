// SPDX-License-Identifier: Apache-2.0
// The interpreter: recurrent sequences and their gradients, step by step and sample by sample in
// double. A state enters a product in the type of x, and so does the cotangent of a product; what
// is carried from step to step is not rounded.
#include <mezzo/ir/host_scalar.h>
#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/recurrent.h>

#include <cmath>

namespace mezzo::ir {

namespace {

/// [rows, columns] of one step, or a matrix.
struct Block {
  const double* data;
  int64_t columns;
  double operator()(int64_t row, int64_t column) const { return data[row * columns + column]; }
};

struct Sequence {
  OpRun& run;
  RecurrentCell cell;
  DType dtype;
  int64_t steps, batch, in, units, columns;
  bool reverse;

  explicit Sequence(OpRun& run)
      : run(run),
        cell(recurrent_cell(run.op.kind())),
        dtype(run.operand(0).type.dtype),
        steps(run.operand(0).type.shape[0]),
        batch(run.operand(0).type.shape[1]),
        in(run.operand(0).type.shape[2]),
        units(run.operand(1).type.shape[1]),
        columns(cell.gates * units),
        reverse(run.op.bool_attr("reverse")) {}

  /// A step in the order of time of this direction.
  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  const InterpreterTensor& named(std::string_view name) const {
    const auto& names = run.op.info().operands;
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return run.operand(static_cast<int>(i));
    throw InternalError("no operand " + std::string(name));
  }
  /// Step `t` of a sequence with `width` columns.
  Block at(std::string_view name, int64_t t, int64_t width) const {
    return {named(name).floats.data() + t * batch * width, width};
  }
  Block matrix(std::string_view name) const {
    const InterpreterTensor& tensor = named(name);
    return {tensor.floats.data(), tensor.type.shape[tensor.type.rank() - 1]};
  }
  double rounded(double value) const { return round_to(dtype, value); }

  /// row · matrix[:, column]
  static double dot(const std::vector<double>& row, const Block& matrix, int64_t column) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += row[i] * matrix(int64_t(i), column);
    return sum;
  }
  /// row · matrix[row index, :]
  static double dot_row(const std::vector<double>& row, const Block& matrix, int64_t at) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += row[i] * matrix(at, int64_t(i));
    return sum;
  }
};

/// Calls `unit(n, t, k, input, product)` for every unit in every step, where `input` is the row of
/// x times column k of w plus the bias, and `product` the state times column k of u; `finish(n, t)`
/// after the units of a step. `state` is [batch, units] and may change in `finish`.
void run_steps(const Sequence& s, std::vector<double>& state, auto unit, auto finish) {
  const Block w = s.matrix("w"), u = s.matrix("u");
  const std::vector<double>& bias = s.named("b").floats;
  std::vector<double> x(static_cast<size_t>(s.in)), h(static_cast<size_t>(s.units));
  for (int64_t step = 0; step < s.steps; ++step)
    for (int64_t n = 0; n < s.batch; ++n) {
      const int64_t t = s.time(step);
      const Block input = s.at("x", t, s.in);
      for (int64_t i = 0; i < s.in; ++i) x[static_cast<size_t>(i)] = input(n, i);
      for (int64_t k = 0; k < s.units; ++k)
        h[static_cast<size_t>(k)] = s.rounded(state[static_cast<size_t>(n * s.units + k)]);
      for (int64_t k = 0; k < s.columns; ++k)
        unit(n, t, k, Sequence::dot(x, w, k) + bias[static_cast<size_t>(k)],
             Sequence::dot(h, u, k));
      finish(n, t);
    }
}

double activated(bool relu, double a) { return relu ? host_relu(a) : std::tanh(a); }

}  // namespace

void eval_rnn(OpRun& run) {
  Sequence s(run);
  const bool relu = run.op.string_attr("activation") == "relu";
  std::vector<double> h = run.operand(1).floats, a(static_cast<size_t>(s.units));
  run_steps(
      s, h,
      [&](int64_t, int64_t, int64_t k, double input, double product) {
        a[static_cast<size_t>(k)] = input + product;
      },
      [&](int64_t n, int64_t t) {
        for (int64_t k = 0; k < s.units; ++k) {
          const double before = a[static_cast<size_t>(k)];
          const double state = h[static_cast<size_t>(n * s.units + k)] = activated(relu, before);
          run.store(0, (t * s.batch + n) * s.units + k, state);
          run.store(1, (t * s.batch + n) * s.units + k, before);
        }
      });
}

void eval_lstm(OpRun& run) {
  Sequence s(run);
  std::vector<double> h = run.operand(1).floats, c = run.operand(2).floats,
                      a(static_cast<size_t>(s.columns));
  run_steps(
      s, h,
      [&](int64_t n, int64_t t, int64_t k, double input, double product) {
        a[static_cast<size_t>(k)] = input + product;
        run.store(2, (t * s.batch + n) * s.columns + k, input + product);
      },
      [&](int64_t n, int64_t t) {
        for (int64_t k = 0; k < s.units; ++k) {
          auto part = [&](int64_t gate) { return a[static_cast<size_t>(gate * s.units + k)]; };
          const auto place = static_cast<size_t>(n * s.units + k);
          c[place] = host_sigmoid(part(1)) * c[place] + host_sigmoid(part(0)) * std::tanh(part(2));
          h[place] = host_sigmoid(part(3)) * std::tanh(c[place]);
          run.store(0, (t * s.batch + n) * s.units + k, h[place]);
          run.store(1, (t * s.batch + n) * s.units + k, c[place]);
        }
      });
}

void eval_gru(OpRun& run) {
  Sequence s(run);
  const std::vector<double>& v = s.named("v").floats;
  std::vector<double> h = run.operand(1).floats, x(static_cast<size_t>(s.columns)),
                      q(static_cast<size_t>(s.columns));
  run_steps(
      s, h,
      [&](int64_t, int64_t, int64_t k, double input, double product) {
        x[static_cast<size_t>(k)] = input;
        q[static_cast<size_t>(k)] = product + v[static_cast<size_t>(k)];
      },
      [&](int64_t n, int64_t t) {
        for (int64_t k = 0; k < s.units; ++k) {
          auto of = [&](const std::vector<double>& row, int64_t gate) {
            return row[static_cast<size_t>(gate * s.units + k)];
          };
          const double reset = of(x, 0) + of(q, 0), update = of(x, 1) + of(q, 1);
          const double fresh = of(x, 2) + host_sigmoid(reset) * of(q, 2);
          const int64_t row = t * s.batch + n;
          const double saved[] = {reset, update, of(q, 2), fresh};
          for (int64_t part = 0; part < 4; ++part)
            run.store(2, (row * 4 + part) * s.units + k, saved[part]);
          // 1 - sigmoid(a) is sigmoid(-a), without the loss of digits.
          double& state = h[static_cast<size_t>(n * s.units + k)];
          state = host_sigmoid(update) * state + host_sigmoid(-update) * std::tanh(fresh);
          run.store(0, row * s.units + k, state);
          run.store(1, row * s.units + k, state);
        }
      });
}

namespace {

/// The backward walk: what the units give are cotangents of the two products of each step.
struct Backward : Sequence {
  Block w, u;
  std::vector<double> dh, dw, du, db, dv;

  explicit Backward(OpRun& run)
      : Sequence(run),
        w(matrix("w")),
        u(matrix("u")),
        dh(zeros(batch * units)),
        dw(zeros(in * columns)),
        du(zeros(units * columns)),
        db(zeros(columns)),
        dv(zeros(columns)) {}

  /// Calls `unit(n, t, k, dh, dx, dq)` for every unit, last step first: `dh` is the cotangent of
  /// the state behind the step, and `unit` sets it to what reaches the state before it by itself;
  /// `dx` and `dq` are rows of cotangents of the sums with x and with the state.
  void walk(auto unit) {
    std::vector<double> dx(static_cast<size_t>(columns)), dq(static_cast<size_t>(columns));
    for (int64_t step = steps; step-- > 0;)
      for (int64_t n = 0; n < batch; ++n) {
        const int64_t t = time(step);
        for (int64_t k = 0; k < units; ++k) {
          double& cotangent = dh[static_cast<size_t>(n * units + k)];
          cotangent += at("dy", t, units)(n, k);
          unit(n, t, k, cotangent, dx, dq);
        }
        add_products(n, t, step, dx, dq);
      }
  }

  /// The state before a step, as it enters the product.
  double before(int64_t n, int64_t step, int64_t k) const {
    return step == 0 ? rounded(named("h0").floats[static_cast<size_t>(n * units + k)])
                     : at("y", time(step - 1), units)(n, k);
  }
  int64_t step_of(int64_t t) const { return time(t); }  // its own inverse

  void store_results(int result) {
    for (size_t i = 0; i < dh.size(); ++i) run.store(1, int64_t(i), dh[i]);
    const std::vector<double>* rest[] = {&dw, &du, &db, &dv};
    for (int i = 0; i < 2 + cell.biases; ++i)
      for (size_t place = 0; place < rest[i]->size(); ++place)
        run.store(result + i, int64_t(place), (*rest[i])[place]);
  }

  static std::vector<double> zeros(int64_t count) {
    return std::vector<double>(static_cast<size_t>(count));
  }

  void add_products(int64_t n, int64_t t, int64_t step, std::vector<double>& dx,
                    std::vector<double>& dq) {
    for (int64_t k = 0; k < columns; ++k) {
      const auto column = static_cast<size_t>(k);
      db[column] += dx[column];
      dv[column] += dq[column];
      dx[column] = rounded(dx[column]);
      dq[column] = rounded(dq[column]);
      for (int64_t i = 0; i < in; ++i)
        dw[static_cast<size_t>(i * columns + k)] += at("x", t, in)(n, i) * dx[column];
      for (int64_t j = 0; j < units; ++j)
        du[static_cast<size_t>(j * columns + k)] += before(n, step, j) * dq[column];
    }
    for (int64_t i = 0; i < in; ++i) run.store(0, (t * batch + n) * in + i, dot_row(dx, w, i));
    for (int64_t j = 0; j < units; ++j) dh[static_cast<size_t>(n * units + j)] += dot_row(dq, u, j);
  }
};

/// g · σ'(a)
double through_sigmoid(double g, double a) { return mul0(g, host_sigmoid(a) * host_sigmoid(-a)); }
/// g · tanh'(a)
double through_tanh(double g, double a) {
  const double y = std::tanh(a);
  return mul0(g, 1 - y * y);
}

}  // namespace

void eval_rnn_grad(OpRun& run) {
  Backward s(run);
  const bool relu = run.op.string_attr("activation") == "relu";
  s.walk([&](int64_t n, int64_t t, int64_t k, double& dh, auto& dx, auto& dq) {
    const double a = s.at("a", t, s.units)(n, k);
    const double da = (relu ? mul0(dh, a > 0) : through_tanh(dh, a)) + s.at("da", t, s.units)(n, k);
    dx[static_cast<size_t>(k)] = dq[static_cast<size_t>(k)] = da;
    dh = 0;
  });
  s.store_results(2);
}

void eval_lstm_grad(OpRun& run) {
  Backward s(run);
  std::vector<double> dc(static_cast<size_t>(s.batch * s.units));
  s.walk([&](int64_t n, int64_t t, int64_t k, double& dh, auto& dx, auto& dq) {
    const Block a = s.at("a", t, s.columns), da = s.at("da", t, s.columns);
    const int64_t step = s.step_of(t);
    const double c = s.at("c", t, s.units)(n, k);
    const double before = step == 0 ? s.named("c0").floats[static_cast<size_t>(n * s.units + k)]
                                    : s.at("c", s.time(step - 1), s.units)(n, k);
    auto part = [&](int64_t gate) { return a(n, gate * s.units + k); };
    double& cell = dc[static_cast<size_t>(n * s.units + k)];
    cell += s.at("dc", t, s.units)(n, k) + through_tanh(mul0(dh, host_sigmoid(part(3))), c);
    const double by_gate[] = {through_sigmoid(mul0(cell, std::tanh(part(2))), part(0)),
                              through_sigmoid(mul0(cell, before), part(1)),
                              through_tanh(mul0(cell, host_sigmoid(part(0))), part(2)),
                              through_sigmoid(mul0(dh, std::tanh(c)), part(3))};
    for (int64_t gate = 0; gate < 4; ++gate) {
      const auto column = static_cast<size_t>(gate * s.units + k);
      dx[column] = dq[column] = by_gate[gate] + da(n, gate * s.units + k);
    }
    cell = mul0(cell, host_sigmoid(part(1)));
    dh = 0;
  });
  for (size_t i = 0; i < dc.size(); ++i) run.store(2, int64_t(i), dc[i]);
  s.store_results(3);
}

void eval_gru_grad(OpRun& run) {
  Backward s(run);
  s.walk([&](int64_t n, int64_t t, int64_t k, double& dh, auto& dx, auto& dq) {
    const Block a = s.at("a", t, 4 * s.units), da = s.at("da", t, 4 * s.units);
    const int64_t step = s.step_of(t);
    const double before = step == 0 ? s.named("h0").floats[static_cast<size_t>(n * s.units + k)]
                                    : s.at("h", s.time(step - 1), s.units)(n, k);
    auto part = [&](int64_t gate) { return a(n, gate * s.units + k); };
    auto given = [&](int64_t gate) { return da(n, gate * s.units + k); };
    const double g = dh + s.at("dh", t, s.units)(n, k);
    const double reset = host_sigmoid(part(0)), update = host_sigmoid(part(1));
    const double fresh = through_tanh(mul0(g, host_sigmoid(-part(1))), part(3)) + given(3);
    const double by_update = through_sigmoid(mul0(g, before - std::tanh(part(3))), part(1));
    const double by_reset = through_sigmoid(mul0(fresh, part(2)), part(0));
    const auto column = [&](int64_t gate) { return static_cast<size_t>(gate * s.units + k); };
    dx[column(0)] = dq[column(0)] = by_reset + given(0);
    dx[column(1)] = dq[column(1)] = by_update + given(1);
    dx[column(2)] = fresh;
    dq[column(2)] = mul0(fresh, reset) + given(2);
    dh = mul0(g, update);
  });
  s.store_results(2);
}

}  // namespace mezzo::ir
