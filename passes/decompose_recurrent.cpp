// SPDX-License-Identifier: Apache-2.0
// Decompositions of recurrent sequences: one product of all steps with w; then, step by step, a
// product with u and a kernel for the cell. Equal kernels are compiled once, whatever the number of
// steps. Carried states and sums are f32 (f64 for f64); products read the type of x. Backward the
// cotangents of all steps stand in one tensor, so that the weights' gradients are one product each.
#include <mezzo/ir/recurrent.h>
#include <mezzo/passes/decompose_parts.h>

#include <algorithm>

namespace mezzo::passes {

namespace {

/// Tensors that one concat joins: longer lists are joined in rounds, each a kernel of this many
/// operands.
constexpr size_t kJoined = 16;

/// What forward and backward share: sizes, cutting and joining.
class Steps {
 public:
  Steps(const Composite& op, ir::Builder& builder)
      : parts_{builder},
        op_(op),
        cell_(ir::recurrent_cell(op.kind)),
        narrow_(op.operand(0).dtype()),
        wide_(ir::default_acc(narrow_)),
        steps_(op.operand(0).shape()[0]),
        batch_(op.operand(0).shape()[1]),
        in_(op.operand(0).shape()[2]),
        units_(op.operand(1).shape()[1]),
        reverse_(op.bool_attr("reverse")) {}

 protected:
  Value named(std::string_view name) const {
    const auto& names = ir::op_info(op_.kind).operands;
    return op_.operand(static_cast<size_t>(std::ranges::find(names, name) - names.begin()));
  }
  Value make(OpKind kind, std::initializer_list<Value> operands) {
    return parts_.make(kind, operands);
  }
  Value one() { return parts_.scalar(wide_, 1); }
  Value product(Value a, Value b, bool transpose_a = false, bool transpose_b = false) {
    return parts_.builder.make(OpKind::Matmul, {a, b},
                               {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                               {Type(wide_, {})});
  }
  Value in_products(Value value) { return parts_.narrow(value, narrow_); }
  int64_t time(int64_t step) const { return reverse_ ? steps_ - 1 - step : step; }
  /// Step `t` of a sequence, [batch, columns].
  Value at(Value sequence, int64_t t) {
    const int64_t columns = sequence.shape()[2];
    return parts_.builder.reshape(
        parts_.builder.slice(sequence, {t, 0, 0}, {t + 1, batch_, columns}),
        Shape{batch_, columns});
  }
  /// Part `k` of the columns of one step.
  Value part(Value step, int64_t k) {
    return parts_.builder.slice(step, {0, k * units_}, {batch_, (k + 1) * units_});
  }
  Value join(std::vector<Value> values, int64_t axis) {
    while (values.size() > 1) {
      std::vector<Value> joined;
      for (size_t first = 0; first < values.size(); first += kJoined) {
        const size_t count = std::min(kJoined, values.size() - first);
        std::span<const Value> some = std::span(values).subspan(first, count);
        joined.push_back(
            count == 1 ? some[0]
                       : parts_.builder.create(OpKind::Concat, some, {{"axis", axis}})->result());
      }
      values = std::move(joined);
    }
    return values[0];
  }
  /// [batch, columns] of every step as a sequence of type `dtype`.
  Value stacked(std::vector<Value> steps, int64_t columns, DType dtype) {
    if (steps.empty())
      return parts_.builder.constant(Type(dtype, Shape{steps_, batch_, columns}), 0);
    for (Value& step : steps)
      step = parts_.builder.reshape(parts_.narrow(step, dtype), Shape{1, batch_, columns});
    return join(std::move(steps), 0);
  }
  /// All steps and samples as rows.
  Value flat(Value sequence) {
    return parts_.builder.reshape(sequence, Shape{steps_ * batch_, sequence.shape()[2]});
  }
  DType type_of(size_t result) const { return op_.results[result].dtype; }

  Parts parts_;
  const Composite& op_;
  ir::RecurrentCell cell_;
  DType narrow_, wide_;
  int64_t steps_, batch_, in_, units_;
  bool reverse_;
};

class Forward : public Steps {
 public:
  Forward(const Composite& op, ir::Builder& builder) : Steps(op, builder) {}

  std::vector<Value> run() {
    const int64_t columns = cell_.gates * units_;
    Value inputs = make(OpKind::Add, {product(flat(named("x")), named("w")), named("b")});
    inputs = parts_.builder.reshape(inputs, Shape{steps_, batch_, columns});
    Value h = named("h0"), c = op_.kind == OpKind::Lstm ? named("c0") : Value();
    const auto count = static_cast<size_t>(steps_);
    std::vector<Value> y(count), carried(count), saved(count);
    for (int64_t step = 0; step < steps_; ++step) {
      const int64_t t = time(step);
      const auto place = static_cast<size_t>(t);
      Value input = at(inputs, t), state = product(in_products(h), named("u"));
      switch (op_.kind) {
        case OpKind::Rnn:
          saved[place] = make(OpKind::Add, {input, state});
          y[place] = h = make(relu() ? OpKind::Relu : OpKind::Tanh, {saved[place]});
          break;
        case OpKind::Lstm:
          saved[place] = make(OpKind::Add, {input, state});
          carried[place] = c = cell_state(saved[place], c);
          y[place] = h = make(OpKind::Mul, {make(OpKind::Sigmoid, {part(saved[place], 3)}),
                                            make(OpKind::Tanh, {c})});
          break;
        default:
          y[place] = carried[place] = h =
              gru_state(input, make(OpKind::Add, {state, named("v")}), h, saved[place]);
      }
    }
    std::vector<Value> results{stacked(std::move(y), units_, type_of(0))};
    if (cell_.carry) results.push_back(stacked(std::move(carried), units_, type_of(1)));
    results.push_back(
        stacked(std::move(saved), cell_.saved * units_, type_of(cell_.carry ? 2 : 1)));
    return results;
  }

 private:
  bool relu() const { return op_.string_attr("activation") == "relu"; }

  Value cell_state(Value a, Value before) {
    Value kept = make(OpKind::Mul, {make(OpKind::Sigmoid, {part(a, 1)}), before});
    Value fresh =
        make(OpKind::Mul, {make(OpKind::Sigmoid, {part(a, 0)}), make(OpKind::Tanh, {part(a, 2)})});
    return make(OpKind::Add, {kept, fresh});
  }

  Value gru_state(Value input, Value state, Value before, Value& saved) {
    Value reset = make(OpKind::Add, {part(input, 0), part(state, 0)});
    Value update = make(OpKind::Add, {part(input, 1), part(state, 1)});
    Value fresh =
        make(OpKind::Add,
             {part(input, 2), make(OpKind::Mul, {make(OpKind::Sigmoid, {reset}), part(state, 2)})});
    saved = join({reset, update, part(state, 2), fresh}, 1);
    // 1 - sigmoid(a) is sigmoid(-a), without the loss of digits.
    Value share = make(OpKind::Sigmoid, {make(OpKind::Neg, {update})});
    return make(OpKind::Add, {make(OpKind::Mul, {make(OpKind::Sigmoid, {update}), before}),
                              make(OpKind::Mul, {share, make(OpKind::Tanh, {fresh})})});
  }
};

class Backward : public Steps {
 public:
  Backward(const Composite& op, ir::Builder& builder) : Steps(op, builder) {}

  std::vector<Value> run() {
    const int64_t columns = cell_.gates * units_;
    const auto count = static_cast<size_t>(steps_);
    const Type state(wide_, Shape{batch_, units_});
    Value dh, dc;
    std::vector<Value> by_input(count), by_state(count);
    for (int64_t step = steps_; step-- > 0;) {
      const int64_t t = time(step);
      const auto place = static_cast<size_t>(t);
      Value g = plus(at(named("dy"), t), dh);
      Step made;
      switch (op_.kind) {
        case OpKind::RnnGrad:
          made = rnn(t, g);
          break;
        case OpKind::LstmGrad:
          made = lstm(t, step, g, dc);
          break;
        default:
          made = gru(t, step, g);
      }
      by_input[place] = made.by_input;
      by_state[place] = made.by_state;
      dh = plus(product(in_products(made.by_state), named("u"), false, true), made.carried);
    }
    if (!dh) dh = parts_.builder.constant(state, 0);
    if (!dc) dc = parts_.builder.constant(state, 0);
    const bool same = op_.kind != OpKind::GruGrad;
    Value dx = stacked(by_input, columns, wide_);
    Value dq = same ? dx : stacked(by_state, columns, wide_);
    return results(dh, dc, dx, dq);
  }

 private:
  /// Cotangents of the sums with x and with the state; what reaches the state before without u.
  struct Step {
    Value by_input, by_state, carried;
  };

  Value plus(Value a, Value b) { return b ? make(OpKind::Add, {a, b}) : a; }
  Value mul0(Value g, Value d) { return make(OpKind::Mul0, {g, d}); }
  Value sigmoid(Value a) { return make(OpKind::Sigmoid, {a}); }
  Value opposite(Value a) { return sigmoid(make(OpKind::Neg, {a})); }
  Value through_sigmoid(Value g, Value a) {
    return mul0(g, make(OpKind::Mul, {sigmoid(a), opposite(a)}));
  }
  Value through_tanh(Value g, Value a) {
    Value y = make(OpKind::Tanh, {a});
    return mul0(g, make(OpKind::Sub, {one(), make(OpKind::Mul, {y, y})}));
  }
  /// The state of sequence `name` before a step, or the initial one.
  Value before(std::string_view sequence, std::string_view initial, int64_t step) {
    return step == 0 ? named(initial) : at(named(sequence), time(step - 1));
  }

  Step rnn(int64_t t, Value g) {
    Value a = at(named("a"), t);
    Value da = op_.string_attr("activation") == "relu"
                   ? make(OpKind::Where,
                          {make(OpKind::Gt, {a, parts_.scalar(a, 0)}), g, parts_.scalar(a, 0)})
                   : through_tanh(g, a);
    da = make(OpKind::Add, {da, at(named("da"), t)});
    return {da, da, {}};
  }

  Step lstm(int64_t t, int64_t step, Value g, Value& dc) {
    Value a = at(named("a"), t), c = at(named("c"), t);
    Value cell =
        make(OpKind::Add, {at(named("dc"), t), through_tanh(mul0(g, sigmoid(part(a, 3))), c)});
    cell = plus(cell, dc);
    Value by_input = through_sigmoid(mul0(cell, make(OpKind::Tanh, {part(a, 2)})), part(a, 0));
    Value by_forget = through_sigmoid(mul0(cell, before("c", "c0", step)), part(a, 1));
    Value by_cell = through_tanh(mul0(cell, sigmoid(part(a, 0))), part(a, 2));
    Value by_output = through_sigmoid(mul0(g, make(OpKind::Tanh, {c})), part(a, 3));
    dc = mul0(cell, sigmoid(part(a, 1)));
    Value all =
        make(OpKind::Add, {join({by_input, by_forget, by_cell, by_output}, 1), at(named("da"), t)});
    return {all, all, {}};
  }

  Step gru(int64_t t, int64_t step, Value g) {
    Value a = at(named("a"), t), given = at(named("da"), t);
    g = make(OpKind::Add, {g, at(named("dh"), t)});
    auto with_given = [&](Value value, int64_t k) {
      return make(OpKind::Add, {value, part(given, k)});
    };
    Value reset = part(a, 0), update = part(a, 1), fresh = part(a, 3);
    Value by_fresh = with_given(through_tanh(mul0(g, opposite(update)), fresh), 3);
    Value change = make(OpKind::Sub, {before("h", "h0", step), make(OpKind::Tanh, {fresh})});
    Value by_update = with_given(through_sigmoid(mul0(g, change), update), 1);
    Value by_reset = with_given(through_sigmoid(mul0(by_fresh, part(a, 2)), reset), 0);
    Value by_product = with_given(mul0(by_fresh, sigmoid(reset)), 2);
    return {join({by_reset, by_update, by_fresh}, 1), join({by_reset, by_update, by_product}, 1),
            mul0(g, sigmoid(update))};
  }

  /// States before every step, in the type that products read.
  Value states_before() {
    Value first = parts_.builder.reshape(in_products(named("h0")), Shape{1, batch_, units_});
    if (steps_ <= 1) return first;
    const int64_t start = reverse_ ? 1 : 0;
    Value rest =
        parts_.builder.slice(named("y"), {start, 0, 0}, {start + steps_ - 1, batch_, units_});
    return reverse_ ? join({rest, first}, 0) : join({first, rest}, 0);
  }

  std::vector<Value> results(Value dh, Value dc, Value dx, Value dq) {
    const int64_t columns = cell_.gates * units_;
    Value rows = in_products(flat(dx)), state_rows = in_products(flat(dq));
    std::vector<Value> out{
        parts_.builder.reshape(product(rows, named("w"), false, true), named("x").shape()), dh};
    if (op_.kind == OpKind::LstmGrad) out.push_back(dc);
    out.push_back(product(flat(named("x")), rows, true));
    if (steps_ == 0)
      out.push_back(parts_.builder.constant(Type(wide_, Shape{units_, columns}), 0));
    else
      out.push_back(product(flat(states_before()), state_rows, true));
    out.push_back(parts_.builder.sum(dx, {0, 1}));
    if (cell_.biases > 1) out.push_back(parts_.builder.sum(dq, {0, 1}));
    for (size_t i = 0; i < out.size(); ++i) out[i] = parts_.narrow(out[i], type_of(i));
    return out;
  }
};

}  // namespace

std::vector<Value> decompose_rnn(const Composite& op, ir::Builder& builder) {
  return Forward(op, builder).run();
}
std::vector<Value> decompose_lstm(const Composite& op, ir::Builder& builder) {
  return Forward(op, builder).run();
}
std::vector<Value> decompose_gru(const Composite& op, ir::Builder& builder) {
  return Forward(op, builder).run();
}
std::vector<Value> decompose_rnn_grad(const Composite& op, ir::Builder& builder) {
  return Backward(op, builder).run();
}
std::vector<Value> decompose_lstm_grad(const Composite& op, ir::Builder& builder) {
  return Backward(op, builder).run();
}
std::vector<Value> decompose_gru_grad(const Composite& op, ir::Builder& builder) {
  return Backward(op, builder).run();
}

}  // namespace mezzo::passes
