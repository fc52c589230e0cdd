// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/run_plan.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace mezzo::runtime {

namespace {

using ir::Op;
using ir::OpKind;
using ir::Value;

Value storage_of(Value value) {
  while (value.is(OpKind::Reshape)) value = value.op()->operand(0);
  return value;
}

/// The word of the op inside a kernel whose result `value` is element for element; -1 if none has
/// one.
int64_t word_of(Value value) {
  while (!value.is_parameter()) {
    const Op& op = *value.op();
    if (const ir::Attr* word = op.attrs().find("word")) return word->as<int64_t>();
    if (op.kind() == OpKind::Kernel)
      value = op.body()->terminator()->operand(value.index());
    else if (op.kind() == OpKind::Reshape || op.kind() == OpKind::Transpose)
      value = op.operand(0);
    else
      return -1;
    // An operand of a kernel continues outside of it.
    if (value.is_parameter() && value.def()->region->owner())
      value = value.def()->region->owner()->operand(value.index());
  }
  return -1;
}

int64_t words_of(const ir::Region& region) {
  int64_t words = 0;
  for (const Op& op : region) {
    words = std::max(words, op.attrs().get_int("word", -1) + 1);
    if (op.body()) words = std::max(words, words_of(*op.body()));
  }
  return words;
}

std::vector<std::byte> constant_bytes(const Op& op) {
  const ir::Type& type = op.result().type();
  const ir::Attr& value = *op.attrs().find("value");
  if (value.is<ir::Resource>()) {
    const std::string& name = value.as<ir::Resource>().name;
    auto data = op.module()->resource(name);
    if (!data)
      throw UserError(op.location(), fmt::format("constant: resource(\"{}\") has no data", name),
                      "put the file with the data beside the module");
    if (!(data->type == type))
      throw UserError(op.location(), fmt::format("constant: resource(\"{}\") is {}, not {}", name,
                                                 to_string(data->type), to_string(type)));
    return data->bytes;
  }
  std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
  ir::to_bytes(ir::constant_tensor(op), bytes);
  return bytes;
}

class PlanBuilder {
 public:
  explicit PlanBuilder(const ir::Function& function) : function_(function) {}

  RunPlan build() {
    for (int i = 0; i < function_.num_parameters(); ++i)
      place(function_.parameter(i), {BufferPlace::Kind::Parameter, i});
    for (Op& op : function_.body()) add(op);
    plan_.arena_bytes = function_.attrs().get_int("arena");
    plan_.words = words_of(function_.body());
    finish_results();
    return std::move(plan_);
  }

 private:
  int place(Value value, const BufferPlace& where) {
    int number = static_cast<int>(plan_.buffers.size());
    plan_.buffers.push_back(where);
    buffers_.emplace(value.def(), number);
    return number;
  }

  int buffer(Value value) const {
    auto it = buffers_.find(storage_of(value).def());
    MEZZO_CHECK(it != buffers_.end(), "a value of @" + function_.name() + " has no place");
    return it->second;
  }

  BufferPlace place_of(const ir::Attr& attr) const {
    if (attr.is<int64_t>()) return {BufferPlace::Kind::Arena, attr.as<int64_t>()};
    if (attr.is<ir::ValueRef>())
      return {BufferPlace::Kind::Parameter, attr.as<ir::ValueRef>().value->index};
    MEZZO_CHECK(attr.is<ir::Symbol>(), "a place that is no number, value or symbol");
    const std::string& name = attr.as<ir::Symbol>().name;
    constexpr std::string_view kResult = "result";
    int64_t index = -1;
    if (name.starts_with(kResult))
      std::from_chars(name.data() + kResult.size(), name.data() + name.size(), index);
    MEZZO_CHECK(index >= 0 && index < function_.num_results(), "unknown place @" + name);
    return {BufferPlace::Kind::Result, index};
  }

  void add(Op& op) {
    switch (op.kind()) {
      case OpKind::Kernel:
      case OpKind::AllFinite:
      case OpKind::Verdict:
        return add_step(op);
      case OpKind::Constant:
        place(op.result(),
              {BufferPlace::Kind::Constant, static_cast<int64_t>(plan_.constants.size())});
        plan_.constants.push_back(constant_bytes(op));
        return;
      case OpKind::Reshape:
      case OpKind::Return:
        return;
      default:
        throw InternalError(fmt::format("'{}' is left in the planned function @{}", op.info().name,
                                        function_.name()));
    }
  }

  void add_step(Op& op) {
    RunStep step;
    step.op = &op;
    for (Value operand : op.operands()) step.buffers.push_back(buffer(operand));
    const ir::Attr* places = op.attrs().find("places");
    MEZZO_CHECK(places && places->is<ir::AttrList>() &&
                    static_cast<int>(places->as<ir::AttrList>().size()) == op.num_results(),
                fmt::format("'{}' has not one place for each result", op.info().name));
    for (int i = 0; i < op.num_results(); ++i)
      step.buffers.push_back(
          place(op.result(i), place_of(places->as<ir::AttrList>()[static_cast<size_t>(i)])));
    if (op.kind() == OpKind::Kernel) step.kernel = kernels_++;
    if (op.kind() == OpKind::AllFinite)
      for (Value operand : op.operands())
        step.judged.push_back({buffer(operand), operand.type(), word_of(operand)});
    plan_.steps.push_back(std::move(step));
  }

  void finish_results() {
    std::vector<Value> results = function_.results();
    plan_.staged.resize(results.size());
    if (!results.empty()) plan_.loss = buffer(results[0]);
    for (int i = 0; i < function_.num_results(); ++i) {
      Value value = results[static_cast<size_t>(i)];
      int from = buffer(value);
      int64_t bytes = value.type().bytes();
      const BufferPlace& where = plan_.buffers[static_cast<size_t>(from)];
      Value updated = function_.updated_parameter(i);
      bool own = where == BufferPlace{BufferPlace::Kind::Result, i};
      bool in_place =
          updated && where == BufferPlace{BufferPlace::Kind::Parameter, updated.index()};
      if (!own) plan_.to_results.push_back({from, i, bytes});
      if (!updated || in_place) continue;
      plan_.staged[static_cast<size_t>(i)] = true;
      plan_.to_parameters.push_back({i, updated.index(), bytes});
    }
  }

  const ir::Function& function_;
  RunPlan plan_;
  std::unordered_map<const ir::ValueDef*, int> buffers_;
  int kernels_ = 0;
};

}  // namespace

RunPlan RunPlan::from(const ir::Function& function) { return PlanBuilder(function).build(); }

}  // namespace mezzo::runtime
