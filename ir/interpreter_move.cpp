// SPDX-License-Identifier: Apache-2.0
// The interpreter: constants, index ramps, views and padding.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/scalar_eval.h>

#include <algorithm>

namespace mezzo::ir {

namespace {

/// Element `to` of the result becomes element `from` of the operand.
void copy_element(OpRun& run, int64_t to, int64_t from) {
  const InterpreterTensor& source = run.operand(0);
  size_t at = static_cast<size_t>(to), place = static_cast<size_t>(from);
  if (source.holds_floats())
    run.result().floats[at] = source.floats[place];
  else
    run.result().integers[at] = source.integers[place];
}

void set_constant(InterpreterTensor& tensor, int64_t index, const Attr& attr) {
  if (!tensor.holds_floats() && attr.is<int64_t>())  // no detour through double: 64 bits
    tensor.integers[static_cast<size_t>(index)] =
        wrap_integer(tensor.type.dtype, attr.as<int64_t>());
  else if (attr.is<int64_t>())
    tensor.floats[static_cast<size_t>(index)] =
        integer_to_float(tensor.type.dtype, attr.as<int64_t>());
  else
    tensor.set_number(index, scalar_value(tensor.type.dtype, attr));
}

}  // namespace

InterpreterTensor constant_tensor(const Op& constant) {
  const Attr& value = *constant.attrs().find("value");
  InterpreterTensor tensor(constant.result().type());
  bool list = value.is<AttrList>();
  for (int64_t i = 0; i < tensor.elements(); ++i)
    set_constant(tensor, i, list ? value.as<AttrList>()[static_cast<size_t>(i)] : value);
  return tensor;
}

void eval_constant(OpRun& run) {
  const Attr& value = *run.op.attrs().find("value");
  InterpreterTensor& tensor = run.result();
  if (value.is<Resource>()) {
    const std::string& name = value.as<Resource>().name;
    if (!run.execution.options.resource)
      throw UserError(run.op.location(),
                      "constant: no reader was given for resource(\"" + name + "\")");
    Type wanted = tensor.type;
    tensor = run.execution.options.resource(name, wanted);
    if (!(tensor.type == wanted))
      throw UserError(run.op.location(), "constant: resource(\"" + name + "\") is " +
                                             to_string(tensor.type) + ", not " + to_string(wanted));
    return;
  }
  tensor = constant_tensor(run.op);
}

void eval_iota(OpRun& run) {
  int axis = static_cast<int>(run.op.int_attr("axis"));
  if (axis < 0) axis += run.result().type.rank();
  for (IndexWalk walk(run.result().type.shape); !walk.done(); walk.advance()) {
    if (run.result().holds_floats())
      run.store(walk.linear(), static_cast<double>(walk[axis]));
    else
      run.store_integer(walk.linear(), walk[axis]);
  }
}

void eval_broadcast_to(OpRun& run) {
  const Shape& shape = run.result().type.shape;
  Strides strides = broadcast_strides(run.operand(0).type.shape, shape);
  for (IndexWalk walk(shape); !walk.done(); walk.advance())
    copy_element(run, walk.linear(), walk.offset(strides));
}

void eval_reshape(OpRun& run) {
  for (int64_t i = 0; i < run.result().elements(); ++i) copy_element(run, i, i);
}

void eval_transpose(OpRun& run) {
  std::vector<int64_t> perm = run.op.ints_attr("perm");
  Strides from = run.operand(0).type.shape.strides(), strides{};
  for (size_t axis = 0; axis < perm.size(); ++axis)
    strides[axis] = from[static_cast<size_t>(perm[axis])];
  for (IndexWalk walk(run.result().type.shape); !walk.done(); walk.advance())
    copy_element(run, walk.linear(), walk.offset(strides));
}

void eval_slice(OpRun& run) {
  std::vector<int64_t> starts = run.op.ints_attr("starts"), steps = run.op.ints_attr("steps");
  Strides from = run.operand(0).type.shape.strides(), strides{};
  int64_t first = 0;
  for (size_t axis = 0; axis < starts.size(); ++axis) {
    first += starts[axis] * from[axis];
    strides[axis] = steps[axis] * from[axis];
  }
  for (IndexWalk walk(run.result().type.shape); !walk.done(); walk.advance())
    copy_element(run, walk.linear(), first + walk.offset(strides));
}

void eval_pad(OpRun& run) {
  std::vector<int64_t> low = run.op.ints_attr("low"), interior = run.op.ints_attr("interior");
  // Results start as zeros, or as the value given; the operand's elements are scattered among them.
  if (run.num_operands() > 1) {
    InterpreterTensor& result = run.result();
    std::ranges::fill(result.floats, run.operand(1).holds_floats() ? run.operand(1).floats[0] : 0);
    std::ranges::fill(result.integers,
                      run.operand(1).holds_floats() ? 0 : run.operand(1).integers[0]);
  }
  Strides to = run.result().type.shape.strides(), strides{};
  int64_t first = 0;
  for (size_t axis = 0; axis < low.size(); ++axis) {
    first += low[axis] * to[axis];
    strides[axis] = (interior[axis] + 1) * to[axis];
  }
  for (IndexWalk walk(run.operand(0).type.shape); !walk.done(); walk.advance())
    copy_element(run, first + walk.offset(strides), walk.linear());
}

}  // namespace mezzo::ir
