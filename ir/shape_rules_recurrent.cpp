// SPDX-License-Identifier: Apache-2.0
// Shape rules of recurrent sequences, time first: x [steps, batch, in], states [batch, units], w
// [in, gates * units], u [units, gates * units], biases [gates * units]. Products read the type of
// x; states and biases have that of the accumulators, results either of the two.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/recurrent.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::ir {

namespace {

constexpr const char* kLayout =
    "x is [steps, batch, in], states are [batch, units], w [in, gates * units], u [units, gates * "
    "units]";

struct Rule {
  const InferContext& context;
  RecurrentCell cell = recurrent_cell(context.kind);
  int64_t steps = 0, batch = 0, in = 0, units = 0;
  DType narrow = DType::F32, wide = DType::F32;

  /// The place of the operand of that name, behind the last one where the op has none.
  size_t place(std::string_view name) const {
    const auto& names = op_info(context.kind).operands;
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  }
  const Type& operand(std::string_view name) const { return context.operands[place(name)]; }
  bool has(std::string_view name) const { return place(name) < context.operands.size(); }

  void read_sizes() {
    const Type &x = operand("x"), &h0 = operand("h0");
    expect_float(context, 0);
    if (x.rank() != 3) context.fail(fmt::format("x must have 3 axes, not {}", x.rank()), kLayout);
    if (h0.rank() != 2)
      context.fail(fmt::format("h0 must have 2 axes, not {}", h0.rank()), kLayout);
    steps = x.shape[0];
    batch = x.shape[1];
    in = x.shape[2];
    units = h0.shape[1];
    narrow = x.dtype;
    wide = default_acc(x.dtype);
  }

  void expect(std::string_view name, DType dtype, const Shape& shape) const {
    if (has(name)) expect_type(context, place(name), Type(dtype, shape), kLayout);
  }
  /// What the product of a step gives in all steps.
  Shape sequence(int64_t parts) const { return Shape{steps, batch, parts * units}; }

  void check() const {
    const int64_t gates = cell.gates;
    expect("h0", wide, {batch, units});
    expect("c0", wide, {batch, units});
    expect("w", narrow, {in, gates * units});
    expect("u", narrow, {units, gates * units});
    expect("b", wide, {gates * units});
    expect("v", wide, {gates * units});
    expect("y", narrow, sequence(1));
    expect("c", wide, sequence(1));
    expect("h", wide, sequence(1));
    expect("a", wide, sequence(cell.saved));
    expect("dy", wide, sequence(1));
    expect("dc", wide, sequence(1));
    expect("dh", wide, sequence(1));
    expect("da", wide, sequence(cell.saved));
    if (context.attrs.has("activation")) {
      const std::string activation = context.text("activation");
      if (activation != "tanh" && activation != "relu")
        context.fail("unknown activation \"" + activation + "\"", "it is \"tanh\" or \"relu\"");
    }
  }

  /// In the type that is declared for it, else in `dtype`.
  void result(std::vector<Type>& types, DType dtype, const Shape& shape) const {
    const size_t index = types.size();
    if (index < context.declared.size()) {
      const DType chosen = context.declared[index].dtype;
      if (chosen != narrow && chosen != wide)
        context.fail(fmt::format("{} is {} or {}, not {}", op_info(context.kind).results[index],
                                 to_string(narrow), to_string(wide), to_string(chosen)));
      dtype = chosen;
    }
    types.emplace_back(dtype, shape);
  }
};

}  // namespace

std::vector<Type> infer_recurrent(const InferContext& context) {
  Rule rule{context};
  rule.read_sizes();
  rule.check();
  std::vector<Type> types;
  rule.result(types, rule.narrow, rule.sequence(1));
  if (rule.cell.carry) rule.result(types, rule.wide, rule.sequence(1));
  rule.result(types, rule.wide, rule.sequence(rule.cell.saved));
  return types;
}

std::vector<Type> infer_recurrent_grad(const InferContext& context) {
  Rule rule{context};
  rule.read_sizes();
  rule.check();
  const int64_t columns = rule.cell.gates * rule.units;
  const Shape state{rule.batch, rule.units};
  std::vector<Type> types;
  rule.result(types, rule.narrow, rule.operand("x").shape);
  rule.result(types, rule.wide, state);
  if (rule.has("c0")) rule.result(types, rule.wide, state);
  rule.result(types, rule.narrow, {rule.in, columns});
  rule.result(types, rule.narrow, {rule.units, columns});
  for (int i = 0; i < rule.cell.biases; ++i) rule.result(types, rule.wide, {columns});
  return types;
}

}  // namespace mezzo::ir
