// SPDX-License-Identifier: Apache-2.0
// The loop over ops, dispatch by the op table, elementwise ops, kernels and the ops that end a
// region.
#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter_ops.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/scalar_eval.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace mezzo::ir {

const InterpreterTensor* Execution::find(Value value) const {
  auto it = values.find(value.def());
  return it == values.end() ? nullptr : &it->second;
}

const InterpreterTensor& Execution::get(Value value) const {
  const InterpreterTensor* tensor = find(value);
  MEZZO_CHECK(tensor, "a value is read before it is computed");
  return *tensor;
}

void OpRun::flag(FlagBit bit) {
  const Attr* word = op.attrs().find("word");
  if (word) execution.words[static_cast<size_t>(word->as<int64_t>())] |= static_cast<uint32_t>(bit);
}

void OpRun::store(int index_of_result, int64_t index, double wide) {
  InterpreterTensor& tensor = result(index_of_result);
  DType dtype = tensor.type.dtype;
  double value = round_to(dtype, wide);
  tensor.floats[static_cast<size_t>(index)] = value;
  if (std::isfinite(value)) return;
  flag(FlagBit::NonFinite);
  if (is_16bit(dtype) && std::isinf(value) && std::isfinite(round_to(DType::F32, wide)))
    flag(FlagBit::Overflow);
}

void OpRun::store_integer(int64_t index, int64_t value) {
  result().integers[static_cast<size_t>(index)] = wrap_integer(result().type.dtype, value);
}

Strides broadcast_strides(const Shape& from, const Shape& to) {
  Strides strides{}, own = from.strides();
  int missing = to.rank() - from.rank();
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] != 1)
      strides[static_cast<size_t>(missing + axis)] = own[static_cast<size_t>(axis)];
  return strides;
}

void IndexWalk::advance() {
  --left_;
  ++linear_;
  for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
    if (++index_[static_cast<size_t>(axis)] < shape_[axis]) return;
    index_[static_cast<size_t>(axis)] = 0;
  }
}

int64_t IndexWalk::offset(const Strides& strides) const {
  int64_t sum = 0;
  for (size_t axis = 0; axis < static_cast<size_t>(shape_.rank()); ++axis)
    sum += index_[axis] * strides[axis];
  return sum;
}

AxisView::AxisView(const Shape& shape, int64_t axis) {
  length = shape[static_cast<int>(axis)];
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < axis) outer *= shape[i];
    if (i > axis) inner *= shape[i];
  }
}

namespace {

void cast_element(OpRun& run, int64_t to, const InterpreterTensor& from, int64_t at) {
  DType dtype = run.result().type.dtype;
  size_t place = static_cast<size_t>(at);
  if (is_float(dtype) && from.holds_floats()) {
    double value = from.floats[place];
    run.store(to, value);
    // The source decides, also an f64 that no f32 could hold.
    if (is_16bit(dtype) && std::isfinite(value) && std::isinf(round_to(dtype, value)))
      run.flag(FlagBit::Overflow);
  } else if (is_float(dtype)) {
    run.store(to, integer_to_float(dtype, from.integers[place]));
    if (is_16bit(dtype) && !std::isfinite(run.result().floats[static_cast<size_t>(to)]))
      run.flag(FlagBit::Overflow);
  } else if (from.holds_floats()) {
    run.store_integer(to, float_to_integer(dtype, from.floats[place]));
  } else {
    run.store_integer(to, from.integers[place]);
  }
}

void check_index(OpRun& run, int64_t index) {
  const Attr* ignored = run.op.attrs().find("ignore_index");
  if (ignored && index == ignored->as<int64_t>()) return;
  if (index < 0 || index >= run.op.int_attr("size")) run.execution.index_range = true;
}

}  // namespace

void eval_elementwise(OpRun& run) {
  OpKind kind = run.op.kind();
  const Shape& shape = run.result().type.shape;
  size_t count = run.operands.size();
  std::vector<Strides> strides;
  bool any_float = false;
  for (const InterpreterTensor* operand : run.operands) {
    strides.push_back(broadcast_strides(operand->type.shape, shape));
    any_float |= operand->holds_floats();
  }
  std::vector<double> floats(count);
  std::vector<int64_t> integers(count);
  for (IndexWalk walk(shape); !walk.done(); walk.advance()) {
    int64_t to = walk.linear();
    if (kind == OpKind::Cast) {
      cast_element(run, to, run.operand(0), walk.offset(strides[0]));
    } else if (any_float) {
      for (size_t i = 0; i < count; ++i)
        floats[i] = run.operands[i]->number(walk.offset(strides[i]));
      double wide = kind == OpKind::AddN ? eval_add_n(run.result().type.dtype, floats)
                                         : eval_scalar(kind, floats);
      if (at_pole(kind, floats)) run.flag(FlagBit::Pole);
      if (run.result().holds_floats())
        run.store(to, wide);
      else
        run.store_integer(to, wide != 0);
    } else {
      for (size_t i = 0; i < count; ++i)
        integers[i] = run.operands[i]->integers[static_cast<size_t>(walk.offset(strides[i]))];
      if (kind == OpKind::CheckIndex) check_index(run, integers[0]);
      if (divides_integers(run.op) && integers[1] == 0) run.execution.index_range = true;
      run.store_integer(to, eval_scalar(kind, integers));
    }
  }
}

void eval_kernel(OpRun& run) {
  const Region& body = *run.op.body();
  for (int i = 0; i < body.num_parameters(); ++i)
    run.execution.values[body.parameter(i).def()] = run.operand(i);
  run.execution.run_region(body);
  for (size_t i = 0; i < run.results.size(); ++i)
    run.results[i] = run.execution.get(body.terminator()->operand(static_cast<int>(i)));
}

// The values are read by who runs the region.
void eval_return(OpRun&) {}
void eval_yield(OpRun&) {}

// Only its gradient is the user's own.
void eval_custom_gradient(OpRun& run) {
  for (size_t i = 0; i < run.results.size(); ++i)
    run.results[i] = run.operand(static_cast<int>(run.op.int_attr("inputs")) + static_cast<int>(i));
}

void eval_gradient(OpRun& run) {
  throw UserError(run.op.location(), "gradient: the interpreter cannot differentiate",
                  "run the pass `autodiff` first");
}

namespace {

void evaluate(OpRun& run) {
  switch (run.op.kind()) {
#define ELEMENTWISE(Kind, ...) \
  case OpKind::Kind:           \
    return eval_elementwise(run);
#define STRUCTURAL(Kind, name, ...) \
  case OpKind::Kind:                \
    return eval_##name(run);
#define COMPOSITE(Kind, name, ...) \
  case OpKind::Kind:               \
    return eval_##name(run);
#include <mezzo/ir/ops.def>
  }
}

}  // namespace

int64_t largest_word(const Region& region) {
  int64_t largest = -1;
  for (const Op& op : region) {
    largest = std::max(largest, op.attrs().get_int("word", -1));
    if (op.body()) largest = std::max(largest, largest_word(*op.body()));
  }
  return largest;
}

void Execution::run_op(const Op& op) {
  OpRun run{*this, op, {}, {}};
  for (Value operand : op.operands()) run.operands.push_back(&get(operand));
  for (Value result : op.results()) run.results.emplace_back(result.type());
  evaluate(run);
  if (options.observe) options.observe(op, run.results);
  for (int i = 0; i < op.num_results(); ++i)
    values[op.result(i).def()] = std::move(run.results[static_cast<size_t>(i)]);
}

void Execution::run_region(const Region& region) {
  for (const Op& op : region) run_op(op);
}

RunResult run(const Module& module, const Function& function,
              std::span<const InterpreterTensor> inputs, const RunOptions& options) {
  if (static_cast<int>(inputs.size()) != function.num_parameters())
    throw UserError({}, "@" + function.name() + " takes " +
                            counted(function.num_parameters(), "input") + ", not " +
                            std::to_string(inputs.size()));
  Execution execution{module, function, options, {}, {}, false};
  for (int i = 0; i < function.num_parameters(); ++i) {
    Value parameter = function.parameter(i);
    const InterpreterTensor& input = inputs[static_cast<size_t>(i)];
    if (!(parameter.type() == input.type))
      throw UserError({}, "@" + function.name() + ": input " + std::to_string(i) + " (" +
                              std::string(parameter.name()) + ") must be " +
                              to_string(parameter.type()) + ", not " + to_string(input.type));
    execution.values[parameter.def()] = input;
  }
  execution.words.resize(static_cast<size_t>(largest_word(function.body()) + 1));
  execution.run_region(function.body());

  RunResult result;
  // The last place of a value takes its memory, which may be most of what there is.
  const std::vector<Value> values = function.results();
  for (auto value = values.begin(); value != values.end(); ++value) {
    const bool again = std::find(std::next(value), values.end(), *value) != values.end();
    if (again)
      result.results.push_back(execution.get(*value));
    else
      result.results.push_back(std::move(execution.values.at(value->def())));
  }
  result.words = std::move(execution.words);
  result.index_range = execution.index_range;
  return result;
}

}  // namespace mezzo::ir
