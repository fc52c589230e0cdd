// SPDX-License-Identifier: Apache-2.0
// The trace that DSL calls of this thread add to: a module being built, a stack of functions (a
// loss inside a gradient), and the attributes of the regions that are open. Inside the library
// only.
#pragma once

#include <mezzo/dsl/nn_state.h>
#include <mezzo/dsl/operand.h>
#include <mezzo/ir/builder.h>
#include <mezzo/passes/pass.h>

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mezzo::detail {

class Trace {
 public:
  /// Becomes the trace of this thread until it dies; the one before comes back then. Parameters are
  /// stored in `storage`.
  explicit Trace(std::string module_name, DType storage = f32);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// The trace of this thread; throws UserError "`WHAT`: called outside of a trace" when there is
  /// none.
  static Trace& require(std::string_view what, ir::Location location);

  ir::Module& module() { return *module_; }
  std::unique_ptr<ir::Module> take_module() { return std::move(module_); }

  /// Opens a function; calls go there until `end_function`.
  ir::Function* begin_function(const std::string& name);
  /// Sets the results and closes it. Values of enclosing functions that it read have become its
  /// last parameters: they are returned, to be passed by whoever calls it.
  std::vector<ir::Value> end_function(std::span<const ir::Value> results,
                                      std::vector<ir::Attrs> attrs = {});
  /// Closes it without results.
  void leave_function() { frames_.pop_back(); }
  /// Erases the functions from number `first` of the module on, when the outermost one ends: until
  /// then a tensor of theirs is known to be one.
  void abandon_functions(size_t first);
  ir::Function* function() const { return frames_.back().function; }
  /// A name that no function of the module has yet.
  std::string fresh_function_name(const std::string& wanted) const;

  /// A parameter of the innermost function.
  Tensor input(const ir::Type& type, std::string_view name, ir::Attrs attrs = {});
  Tensor tensor(ir::Value value) const;
  /// The value of a tensor in the innermost function; throws UserError for tensors of another
  /// trace.
  ir::Value value(const Tensor& tensor, std::string_view what, ir::Location location);
  /// The value of a model's parameter, which becomes a parameter of the outermost function at its
  /// first use.
  Tensor parameter(const std::shared_ptr<ParameterState>& state);
  /// What a state of the model holds now: what this program has set it to, or its parameter.
  Tensor state(const std::shared_ptr<ParameterState>& state);
  /// Sets it when the step is taken. Throws UserError "WHAT: ..." inside of a function whose
  /// gradient is taken, whose values do not leave it.
  void set_state(const std::shared_ptr<ParameterState>& state, const Tensor& next,
                 std::string_view what, ir::Location location);
  /// States that were set, in order, each with its last value.
  struct StateUpdate {
    std::shared_ptr<ParameterState> state;
    ir::Value next;
  };
  const std::vector<StateUpdate>& state_updates() const { return state_updates_; }
  /// `%rng`, state of the outermost function.
  ir::Value rng(ir::Location location);
  int64_t next_stream() { return streams_++; }
  /// How many random operations there are so far.
  int64_t streams() const { return streams_; }
  bool uses_rng() const { return static_cast<bool>(rng_); }

  /// Makes an op at the end of the innermost function with the attributes of the open regions.
  ir::Op* create(ir::OpKind kind, std::span<const ir::Value> operands, ir::Attrs attrs,
                 ir::Location location, std::span<const ir::Type> declared = {});
  ir::Value make(ir::OpKind kind, std::initializer_list<ir::Value> operands, ir::Attrs attrs,
                 ir::Location location, std::initializer_list<ir::Type> declared = {});
  void name_value(ir::Value value, std::string_view name);

  // Regions.
  std::vector<std::string> policies;  // innermost last
  std::vector<int64_t> checkpoints;   // innermost last
  int64_t checkpoint_count = 0;
  /// 16-bit operands are cast up: the region is kept in f32.
  bool widens() const { return !policies.empty() && policies.back() == "float32"; }

  /// Enters a layer. Without a name from the user it has the one of its first trace, or the next
  /// that is free where another layer of this trace has it; throws UserError when the user gave two
  /// layers one name.
  void enter_layer(const std::shared_ptr<LayerState>& layer, ir::Location location);
  void leave_layer() { scopes_.pop_back(); }
  std::string scope() const { return scopes_.empty() ? "" : scopes_.back(); }

  /// Where it is known, the place of all ops: code of the library that stands for one line of the
  /// user.
  ir::Location place;

  /// Layers do what they do while a model is trained: dropout drops, batch normalisation reads its
  /// batch and updates running statistics.
  bool training = false;

  /// Calls of layers, in order, for the summary.
  struct LayerCall {
    std::string scope, kind;
    ir::Type input, output;
    int64_t parameters = 0;
    ir::Location location;
    std::string policy;
  };
  std::vector<LayerCall> layer_calls;

  /// Parameters in order of their first use, by the names that they have now in the outermost
  /// function: the program may name any value.
  std::vector<ProgramParameter> parameters() const;
  /// Name of the random state in the outermost function; empty when nothing is random.
  std::string rng_name() const { return rng_ ? std::string(rng_.name()) : ""; }
  std::vector<passes::Finding> findings;

 private:
  struct Frame {
    ir::Function* function = nullptr;
    std::vector<ir::Value> captured;                           // of the enclosing function
    std::unordered_map<const ir::ValueDef*, ir::Value> inner;  // what stands for it here
    std::set<std::string, std::less<>> names;
  };
  /// `value` in frame `index`, made a parameter of the frames between where it must be.
  ir::Value lift(size_t index, ir::Value value, std::string_view what, ir::Location location);
  std::string fresh_name(Frame& frame, std::string_view wanted);

  Trace* previous_;
  uint64_t id_;
  DType storage_;
  std::unique_ptr<ir::Module> module_;
  std::vector<Frame> frames_;
  std::set<ir::Function*> abandoned_;
  std::vector<std::string> scopes_;
  std::unordered_map<const LayerState*, std::string> layers_;
  std::unordered_map<const ParameterState*, ir::Value> parameter_values_;
  std::vector<std::shared_ptr<ParameterState>> parameters_;
  std::vector<StateUpdate> state_updates_;
  std::vector<std::shared_ptr<LayerState>> kept_layers_;
  std::set<std::string> layer_names_, parameter_names_;
  ir::Value rng_;
  int64_t streams_ = 0;
};

/// A function that is open until `end`. Unless it is kept, since something threw, it is erased with
/// those that were made inside of it.
class FunctionScope {
 public:
  FunctionScope(Trace& trace, const std::string& name)
      : trace_(trace), place_(trace.module().functions().size()) {
    trace_.begin_function(name);
  }
  ~FunctionScope() {
    if (open_) trace_.leave_function();
    if (!kept_) trace_.abandon_functions(place_);
  }
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;

  /// As Trace::end_function.
  std::vector<ir::Value> end(std::span<const ir::Value> results) {
    std::vector<ir::Value> captured = trace_.end_function(results);
    open_ = false;
    return captured;
  }
  void keep() { kept_ = true; }

 private:
  Trace& trace_;
  size_t place_;
  bool open_ = true, kept_ = false;
};

/// While it lives, ops are made at `location`, if that is known.
class PlaceScope {
 public:
  explicit PlaceScope(ir::Location location)
      : trace_(Trace::require("schedule", location)), before_(trace_.place) {
    if (location.known()) trace_.place = location;
  }
  ~PlaceScope() { trace_.place = before_; }
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 private:
  Trace& trace_;
  ir::Location before_;
};

/// The attribute of a number in `dtype`. Throws UserError "`WHAT`: the literal ..." where an
/// integer type cannot hold it.
ir::Attr literal_attr(std::string_view what, DType dtype, const Literal& literal,
                      ir::Location location);
/// Values of the operands after promotion, in one element type (see ops.h). For `where` the first
/// stays what it is.
std::vector<ir::Value> promote(Trace& trace, ir::OpKind kind, std::span<const Operand> operands);
/// The value of one operand; a literal becomes f32 or i32, a 16-bit tensor in a `keep_f32` region
/// f32.
ir::Value single(Trace& trace, ir::OpKind kind, const Operand& operand);

/// While it lives, the flag is set: that functions of the program are being called for a trace.
class FlagScope {
 public:
  explicit FlagScope(bool& flag) : flag_(flag), before_(flag) { flag_ = true; }
  ~FlagScope() { flag_ = before_; }
  FlagScope(const FlagScope&) = delete;
  FlagScope& operator=(const FlagScope&) = delete;

 private:
  bool& flag_;
  bool before_;
};

}  // namespace mezzo::detail
