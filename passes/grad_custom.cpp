// SPDX-License-Identifier: Apache-2.0
// The gradient that the user wrote: the body of the backward function in the place of a rule.
//
// It reads the op's results, not what made them, so that a second derivative takes this rule again
// where it leads through an output; everything else in it is differentiated as it is written. What
// it reads besides inputs, outputs and cotangents is a constant.
#include <mezzo/ir/error.h>
#include <mezzo/passes/autodiff.h>

namespace mezzo::passes {

using ir::Op;
using ir::Value;

void grad_custom_gradient(GradContext& c) {
  ir::Function& backward =
      *c.builder.module()->function(c.op().attrs().find("func")->as<ir::Symbol>().name);
  const int inputs = static_cast<int>(c.op().int_attr("inputs")),
            outputs = static_cast<int>(c.op().int_attr("outputs"));
  std::vector<Value> given;
  for (int i = 0; i < inputs; ++i) given.push_back(c.operand(i));
  for (int i = 0; i < outputs; ++i) given.push_back(c.result(i));
  for (int i = 0; i < outputs; ++i)
    if (is_float(c.result(i).dtype())) given.push_back(c.cotangent(i));
  for (int i = inputs + outputs; i < c.op().num_operands(); ++i) given.push_back(c.operand(i));

  ir::ValueMap map;
  for (size_t i = 0; i < given.size(); ++i)
    map[backward.parameter(static_cast<int>(i)).def()] = given[i];
  Op* place = c.place();
  for (Op& op : backward.body()) {
    if (op.info().has(ir::Trait::Terminator)) break;
    ir::clone_op(op, *place->region(), place, map)->attrs().set("role", "backward");
  }
  int next = 0;
  for (int i = 0; i < inputs; ++i)
    if (is_float(c.operand(i).dtype()))
      c.accumulate(i, map.at(backward.results()[static_cast<size_t>(next++)].def()));
}

}  // namespace mezzo::passes
