// SPDX-License-Identifier: Apache-2.0
// The graph: SSA values, operations in lists, regions, functions, and the module that owns them
// all. Nodes live in the module's arena until the module dies or the op is erased; `Value` and
// `Op*` are borrowed views that never own. Freeing is a walk over the arena, never over the graph,
// so depth does not matter.
#pragma once

#include <mezzo/ir/attr.h>
#include <mezzo/ir/location.h>
#include <mezzo/ir/op_info.h>
#include <mezzo/ir/shape.h>

#include <cstddef>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mezzo::ir {

class Op;
class Region;
class Function;
class Module;

/// One operand of an op, and a link in the list of uses of its value.
struct Use {
  ValueDef* value = nullptr;
  Op* user = nullptr;
  int index = 0;
  Use* next = nullptr;
  Use** previous_link = nullptr;
};

/// The definition of a value: a result of an op, or a parameter of a region.
struct ValueDef {
  Type type;
  Op* op = nullptr;            // null for a parameter
  Region* region = nullptr;    // the region whose parameter it is; null for a result
  int index = 0;               // result or parameter number
  const char* name = nullptr;  // interned; null: printed as a number
  Use* uses = nullptr;         // newest first
};

/// A borrowed view of a value; empty by default.
class Value {
 public:
  Value() = default;
  explicit Value(ValueDef* def) : def_(def) {}

  explicit operator bool() const { return def_ != nullptr; }
  bool operator==(const Value&) const = default;
  const Type& type() const { return def_->type; }
  DType dtype() const { return def_->type.dtype; }
  const Shape& shape() const { return def_->type.shape; }
  /// The op that makes it; null for a parameter.
  Op* op() const { return def_->op; }
  bool is_parameter() const { return def_->op == nullptr; }
  /// The op that makes it is of this kind.
  bool is(OpKind kind) const;
  int index() const { return def_->index; }
  std::string_view name() const { return def_->name ? def_->name : ""; }
  void set_name(std::string_view name) const { def_->name = name.empty() ? nullptr : intern(name); }
  /// Changes the type in place; the caller keeps the graph valid.
  void set_type(const Type& type) const { def_->type = type; }
  /// The ops that read it, newest first, one entry for each operand: a copy, so that uses may
  /// change meanwhile.
  std::vector<Op*> users() const;
  /// Calls `visit(op)` for each of them on the list itself until it returns false; uses must not
  /// change meanwhile. False when it was stopped.
  template <typename Visit>
  bool visit_users(Visit&& visit) const {
    for (const Use* use = def_->uses; use; use = use->next)
      if (!visit(*use->user)) return false;
    return true;
  }
  bool unused() const { return def_->uses == nullptr; }
  bool has_one_use() const { return def_->uses && !def_->uses->next; }
  /// Every operand that reads this value reads `other` instead. References in attributes are not
  /// operands.
  void replace_all_uses_with(Value other) const;
  ValueDef* def() const { return def_; }

 private:
  ValueDef* def_ = nullptr;
};

/// The user-written operation that an op stands for; a value, so it survives that op.
struct Origin {
  const char* name = nullptr;  // op name as written, interned
  Location location;
  bool operator==(const Origin&) const = default;
};

class Op {
 public:
  OpKind kind() const { return kind_; }
  const OpInfo& info() const { return op_info(kind_); }

  int num_operands() const { return num_operands_; }
  Value operand(int index) const { return Value(operands_[static_cast<size_t>(index)].value); }
  std::vector<Value> operands() const;
  void set_operand(int index, Value value);
  void set_operands(std::span<const Value> values);

  int num_results() const { return num_results_; }
  Value result(int index = 0) const { return Value(&results_[static_cast<size_t>(index)]); }
  std::vector<Value> results() const;

  Attrs& attrs() { return attrs_; }
  const Attrs& attrs() const { return attrs_; }
  /// The attribute, or the default of the op table.
  int64_t int_attr(std::string_view name) const;
  double float_attr(std::string_view name) const;
  bool bool_attr(std::string_view name) const;
  std::string string_attr(std::string_view name) const;
  std::vector<int64_t> ints_attr(std::string_view name) const { return attrs_.get_ints(name); }
  /// "forward" (default), "backward", "update" or "scale".
  std::string role() const { return attrs_.get_string("role", "forward"); }

  Location location() const { return location_; }
  void set_location(Location location) { location_ = location; }
  const Origin& origin() const { return origin_; }
  void set_origin(const Origin& origin) { origin_ = origin; }

  // Kernels only: name, bound region (parameter i is bound to operand i), plan attributes.
  Region* body() const { return body_.get(); }
  const std::string& kernel_name() const { return kernel_name_; }
  void set_kernel_name(std::string name) { kernel_name_ = std::move(name); }
  Attrs& plan() { return plan_; }
  const Attrs& plan() const { return plan_; }
  bool has_plan() const { return has_plan_; }
  void set_plan(Attrs plan) {
    plan_ = std::move(plan);
    has_plan_ = true;
  }

  Op* next() const { return next_; }
  Op* previous() const { return previous_; }
  Region* region() const { return region_; }
  Function* function() const;
  Module* module() const;

  /// Moves before `other`, which may stand in another region of the same module.
  void move_before(Op* other);
  /// Unlinks and frees; no result may be in use. O(operands).
  void erase();

  ~Op();
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

 private:
  friend class Module;
  friend class Region;
  Op() = default;
  void unlink();
  void drop_operands();

  OpKind kind_{};
  int num_operands_ = 0, num_results_ = 0;
  std::unique_ptr<Use[]> operands_;
  std::unique_ptr<ValueDef[]> results_;
  Attrs attrs_, plan_;
  bool has_plan_ = false;
  std::string kernel_name_;
  std::unique_ptr<Region> body_;
  Location location_;
  Origin origin_;
  Op* previous_ = nullptr;
  Op* next_ = nullptr;
  Region* region_ = nullptr;
  size_t slot_ = 0;  // place in the module's arena
};

/// Parameters and a list of ops; order is execution order; the last op is `return` or `yield`.
class Region {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Op;
    using difference_type = std::ptrdiff_t;
    using pointer = Op*;
    using reference = Op&;

    explicit Iterator(Op* op) : op_(op), next_(op ? op->next() : nullptr) {}
    Op& operator*() const { return *op_; }
    Op* operator->() const { return op_; }
    /// The next op was read before, so the current one may be erased or moved while iterating.
    Iterator& operator++() {
      op_ = next_;
      next_ = op_ ? op_->next() : nullptr;
      return *this;
    }
    bool operator==(const Iterator& other) const { return op_ == other.op_; }

   private:
    Op* op_;
    Op* next_;
  };

  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(nullptr); }
  bool empty() const { return first_ == nullptr; }
  Op* front() const { return first_; }
  Op* back() const { return last_; }
  /// The `return` or `yield` at the end, or null while the region is being built.
  Op* terminator() const;
  /// Number of ops, counted.
  int64_t count() const;

  int num_parameters() const { return static_cast<int>(parameters_.size()); }
  Value parameter(int index) const {
    return Value(const_cast<ValueDef*>(&parameters_[static_cast<size_t>(index)]));
  }
  std::vector<Value> parameters() const;
  Value add_parameter(const Type& type, std::string_view name = "");
  /// Removes an unused parameter; later ones move down.
  void erase_parameter(int index);

  Module* module() const { return module_; }
  Function* function() const { return function_; }
  /// The kernel whose body this is, or null.
  Op* owner() const { return owner_; }

  Region(Module* module, Function* function, Op* owner)
      : module_(module), function_(function), owner_(owner) {}

 private:
  friend class Op;
  friend class Module;
  Op* first_ = nullptr;
  Op* last_ = nullptr;
  std::deque<ValueDef> parameters_;
  Module* module_;
  Function* function_;
  Op* owner_;
};

class Function {
 public:
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Module* module() const { return body_.module(); }
  Region& body() { return body_; }
  const Region& body() const { return body_; }

  int num_parameters() const { return body_.num_parameters(); }
  Value parameter(int index) const { return body_.parameter(index); }
  std::vector<Value> parameters() const { return body_.parameters(); }
  Value add_parameter(const Type& type, std::string_view name, Attrs attrs = {});
  /// Attributes of a parameter: `param`, `state`, `mirror_of` ...
  Attrs& parameter_attrs(int index) { return parameter_attrs_[static_cast<size_t>(index)]; }
  const Attrs& parameter_attrs(int index) const {
    return parameter_attrs_[static_cast<size_t>(index)];
  }
  bool is_param(int index) const { return parameter_attrs(index).get_bool("param"); }
  bool is_state(int index) const { return parameter_attrs(index).get_bool("state"); }

  /// Result values and types are those of the `return`; attributes of results (`updates`) are kept
  /// here.
  std::vector<Value> results() const;
  int num_results() const { return static_cast<int>(result_attrs_.size()); }
  Attrs& result_attrs(int index) { return result_attrs_[static_cast<size_t>(index)]; }
  const Attrs& result_attrs(int index) const { return result_attrs_[static_cast<size_t>(index)]; }
  /// The parameter that result `index` updates, or an empty value.
  Value updated_parameter(int index) const;
  /// Replaces the list of results: makes or rewrites the `return`.
  void set_results(std::span<const Value> values, std::vector<Attrs> attrs);

  Attrs& attrs() { return attrs_; }
  const Attrs& attrs() const { return attrs_; }

  Function(Module* module, std::string name)
      : name_(std::move(name)), body_(module, this, nullptr) {}

 private:
  std::string name_;
  Region body_;
  std::vector<Attrs> parameter_attrs_;
  std::vector<Attrs> result_attrs_;
  Attrs attrs_;
};

enum class Stage : uint8_t { Traced, Differentiated, Typed, Primitive, Fused, Planned };
const char* to_string(Stage stage);
std::optional<Stage> parse_stage(std::string_view text);

/// Constant data too large for the text, `resource("name")`: row-major elements of `type` in
/// memory order. Shared by all copies of a module.
struct ResourceData {
  Type type;
  std::vector<std::byte> bytes;
};

class Module {
 public:
  explicit Module(std::string name = "main") : name_(std::move(name)) {}
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// A deep copy; values keep names, locations and order.
  std::unique_ptr<Module> clone() const;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Stage stage() const { return stage_; }
  void set_stage(Stage stage) { stage_ = stage; }
  /// Module attributes except `stage`: `rounding`, `policy`, `pipeline`, `target` ...
  Attrs& attrs() { return attrs_; }
  const Attrs& attrs() const { return attrs_; }

  /// In order of creation; stable addresses.
  const std::vector<std::unique_ptr<Function>>& functions() const { return functions_; }
  Function* add_function(std::string name);
  /// The function of that name, or null.
  Function* function(std::string_view name) const;
  void erase_function(Function* function);

  /// A detached op; insert it with `append` or `insert_before`. No checks: builders go through
  /// ir/builder.h.
  Op* make_op(OpKind kind, std::span<const Value> operands, std::span<const Type> results,
              Attrs attrs, Location location);
  /// Gives a kernel op its (empty) body.
  Region* make_body(Op* op);
  static void append(Region& region, Op* op);
  static void insert_before(Op* place, Op* op);

  /// The data of `resource("name")`, or null when nobody supplied it.
  std::shared_ptr<const ResourceData> resource(std::string_view name) const;
  void set_resource(std::string_view name, std::shared_ptr<const ResourceData> data);

  /// Ops alive, in all functions.
  size_t op_count() const { return alive_; }

 private:
  friend class Op;
  std::string name_;
  Stage stage_ = Stage::Traced;
  Attrs attrs_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::unordered_map<std::string, std::shared_ptr<const ResourceData>> resources_;
  std::vector<std::unique_ptr<Op>> arena_;  // erased slots are null and reused
  std::vector<size_t> free_slots_;
  size_t alive_ = 0;
};

/// Which value stands for which, while copying.
using ValueMap = std::unordered_map<const ValueDef*, Value>;

/// A copy of `op` (and its body), of the same or another module, before `place` or, when that is
/// null, at the end of `region`. Operands are looked up in `map` (a value that is not there stands
/// for itself); results are added to it.
Op* clone_op(const Op& op, Region& region, Op* place, ValueMap& map);

}  // namespace mezzo::ir
