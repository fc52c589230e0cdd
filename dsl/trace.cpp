// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/trace.h>

#include <mezzo/dsl/located.h>
#include <mezzo/ir/error.h>

#include <atomic>

namespace mezzo::detail {

namespace {

thread_local Trace* t_current = nullptr;

uint64_t next_trace_id() {
  static std::atomic<uint64_t> count{0};
  return ++count;
}

ir::Function* function_of(ir::Value value) {
  return value.is_parameter() ? value.def()->region->function() : value.op()->function();
}

}  // namespace

Trace::Trace(std::string module_name, DType storage)
    : previous_(t_current),
      id_(next_trace_id()),
      storage_(storage),
      module_(std::make_unique<ir::Module>(std::move(module_name))) {
  t_current = this;
}

Trace::~Trace() { t_current = previous_; }

Trace& Trace::require(std::string_view what, ir::Location location) {
  if (t_current && !t_current->frames_.empty()) return *t_current;
  throw UserError(location, std::string(what) + ": called outside of a trace",
                  "tensors have values only inside a function given to `jit`, `grad` or a Trainer; "
                  "numbers outside of it are an `Array`");
}

ir::Function* Trace::begin_function(const std::string& name) {
  Frame frame;
  frame.function = module_->add_function(name);
  frames_.push_back(std::move(frame));
  return frames_.back().function;
}

std::vector<ir::Value> Trace::end_function(std::span<const ir::Value> results,
                                           std::vector<ir::Attrs> attrs) {
  attrs.resize(results.size());
  frames_.back().function->set_results(results, std::move(attrs));
  std::vector<ir::Value> captured = std::move(frames_.back().captured);
  frames_.pop_back();
  if (frames_.empty()) {
    for (ir::Function* function : abandoned_) module_->erase_function(function);
    abandoned_.clear();
  }
  return captured;
}

void Trace::abandon_functions(size_t first) {
  for (size_t i = first; i < module_->functions().size(); ++i)
    abandoned_.insert(module_->functions()[i].get());
}

std::string Trace::fresh_function_name(const std::string& wanted) const {
  std::string name = wanted;
  for (int i = 1; module_->function(name); ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

std::string Trace::fresh_name(Frame& frame, std::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !frame.names.insert(name).second; ++i)
    name = std::string(wanted) + "_" + std::to_string(i);
  return name;
}

void Trace::name_value(ir::Value value, std::string_view name) {
  value.set_name(fresh_name(frames_.back(), name));
}

Tensor Trace::input(const ir::Type& type, std::string_view name, ir::Attrs attrs) {
  Frame& frame = frames_.back();
  return tensor(frame.function->add_parameter(type, fresh_name(frame, name), std::move(attrs)));
}

Tensor Trace::tensor(ir::Value value) const {
  Tensor tensor;
  tensor.def_ = value.def();
  tensor.trace_ = id_;
  tensor.type_ = value.type();
  return tensor;
}

ir::Value Trace::value(const Tensor& tensor, std::string_view what, ir::Location location) {
  if (!tensor.def_)
    throw UserError(location, std::string(what) + ": the tensor is empty",
                    "a Tensor without initialiser has no value; assign one before it is used");
  if (tensor.trace_ != id_)
    throw UserError(location,
                    std::string(what) + ": the tensor (" + to_string(tensor.type()) +
                        ") belongs to another trace",
                    "a tensor lives as long as the function that made it is being traced; pass "
                    "it as an argument or return it");
  return lift(frames_.size() - 1, ir::Value(tensor.def_), what, location);
}

ir::Value Trace::lift(size_t index, ir::Value value, std::string_view what, ir::Location location) {
  ir::Function* home = function_of(value);
  // Frames are few, captures deep inside of several gradients rarer still.
  if (frames_[index].function == home) return value;
  auto found = frames_[index].inner.find(value.def());
  if (found != frames_[index].inner.end()) return found->second;
  if (index == 0)
    throw UserError(location,
                    std::string(what) + ": the tensor (" + to_string(value.type()) +
                        ") belongs to a function that has ended",
                    "return it from that function");
  ir::Value outer = lift(index - 1, value, what, location);
  ir::Attrs attrs;
  if (outer.is_parameter()) attrs = frames_[index - 1].function->parameter_attrs(outer.index());
  Frame& frame = frames_[index];
  std::string name(outer.name());
  ir::Value inner = frame.function->add_parameter(
      outer.type(), name.empty() ? "" : fresh_name(frame, name), std::move(attrs));
  frame.inner.emplace(value.def(), inner);
  frame.captured.push_back(outer);
  return inner;
}

Tensor Trace::parameter(const std::shared_ptr<ParameterState>& state) {
  auto found = parameter_values_.find(state.get());
  if (found == parameter_values_.end()) {
    // By this trace alone and by names that stay: each trace of a program gives the same names.
    std::string path = scope().empty() ? state->local_name : scope() + "." + state->local_name;
    std::string name = path;
    for (int i = 1; !parameter_names_.insert(name).second; ++i)
      name = path + "_" + std::to_string(i);
    if (state->name.empty()) state->name = name;
    Frame& root = frames_.front();
    const char* role = state->is_state ? "state" : "param";
    ir::Value value =
        root.function->add_parameter(ir::Type(state->is_state ? f32 : storage_, state->shape),
                                     fresh_name(root, name), {{role, true}});
    parameters_.push_back(state);
    found = parameter_values_.emplace(state.get(), value).first;
  }
  return tensor(found->second);
}

Tensor Trace::state(const std::shared_ptr<ParameterState>& state) {
  for (const StateUpdate& update : state_updates_)
    if (update.state == state) return tensor(update.next);
  return parameter(state);
}

void Trace::set_state(const std::shared_ptr<ParameterState>& state, const Tensor& next,
                      std::string_view what, ir::Location location) {
  if (frames_.size() != 1)
    throw UserError(location, std::string(what) + ": statistics cannot be updated inside of `grad`",
                    "call the layer outside of the function that is differentiated, or set "
                    "`update` to false");
  ir::Value now = value(next, what, location);
  for (StateUpdate& update : state_updates_)
    if (update.state == state) {
      update.next = now;
      return;
    }
  parameter(state);  // also where nothing has read it
  state_updates_.push_back({state, now});
}

std::vector<ProgramParameter> Trace::parameters() const {
  std::vector<ProgramParameter> out;
  for (const std::shared_ptr<ParameterState>& state : parameters_)
    out.push_back({state, std::string(parameter_values_.at(state.get()).name())});
  return out;
}

ir::Value Trace::rng(ir::Location location) {
  if (!rng_) {
    Frame& root = frames_.front();
    rng_ = root.function->add_parameter(ir::Type(i64, {2}), fresh_name(root, "rng"),
                                        {{"state", true}});
  }
  return lift(frames_.size() - 1, rng_, "rng", location);
}

ir::Op* Trace::create(ir::OpKind kind, std::span<const ir::Value> operands, ir::Attrs attrs,
                      ir::Location location, std::span<const ir::Type> declared) {
  ir::Builder builder(frames_.back().function->body());
  if (place.known()) location = place;
  builder.set_location({location.file ? ir::intern(location.file) : nullptr, location.line});
  if (!scopes_.empty()) attrs.set("scope", scopes_.back());
  if (!policies.empty()) attrs.set("policy", policies.back());
  if (!checkpoints.empty()) attrs.set("checkpoint", checkpoints.back());
  return located(location, ir::to_string(kind),
                 [&] { return builder.create(kind, operands, std::move(attrs), declared); });
}

ir::Value Trace::make(ir::OpKind kind, std::initializer_list<ir::Value> operands, ir::Attrs attrs,
                      ir::Location location, std::initializer_list<ir::Type> declared) {
  return create(kind, {operands.begin(), operands.size()}, std::move(attrs), location,
                {declared.begin(), declared.size()})
      ->result();
}

void Trace::enter_layer(const std::shared_ptr<LayerState>& layer, ir::Location location) {
  std::string prefix = scope().empty() ? "" : scope() + ".";
  auto found = layers_.find(layer.get());
  if (found == layers_.end()) {
    std::string name = layer->name.empty() ? layer->kind : layer->name;
    if (layer->given && layer_names_.count(prefix + name))
      throw UserError(location, "two layers are named '" + prefix + name + "'",
                      "give one of them a name of its own: {.name = \"...\"}");
    for (int i = 1; layer_names_.count(prefix + name); ++i)
      name = layer->kind + "_" + std::to_string(i);
    if (layer->name.empty()) layer->name = name;
    found = layers_.emplace(layer.get(), prefix + name).first;
    layer_names_.insert(found->second);
    kept_layers_.push_back(layer);  // its address must not be reused while it is a key
  }
  scopes_.push_back(found->second);
}

}  // namespace mezzo::detail
