// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/graph.h>

#include <mezzo/ir/error.h>

namespace mezzo::ir {

namespace {

void link(Use& use, ValueDef* value) {
  use.value = value;
  use.next = value->uses;
  if (use.next) use.next->previous_link = &use.next;
  use.previous_link = &value->uses;
  value->uses = &use;
}

void unlink(Use& use) {
  if (!use.value) return;
  *use.previous_link = use.next;
  if (use.next) use.next->previous_link = use.previous_link;
  use.value = nullptr;
}

}  // namespace

bool Value::is(OpKind kind) const { return op() && op()->kind() == kind; }

std::vector<Op*> Value::users() const {
  std::vector<Op*> out;
  for (Use* use = def_->uses; use; use = use->next) out.push_back(use->user);
  return out;
}

void Value::replace_all_uses_with(Value other) const {
  if (other.def_ == def_) return;
  while (Use* use = def_->uses) {
    unlink(*use);
    link(*use, other.def_);
  }
}

// --- Op

Op::~Op() = default;

std::vector<Value> Op::operands() const {
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(num_operands_));
  for (int i = 0; i < num_operands_; ++i) out.push_back(operand(i));
  return out;
}

std::vector<Value> Op::results() const {
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(num_results_));
  for (int i = 0; i < num_results_; ++i) out.push_back(result(i));
  return out;
}

void Op::set_operand(int index, Value value) {
  Use& use = operands_[static_cast<size_t>(index)];
  ir::unlink(use);
  link(use, value.def());
}

void Op::drop_operands() {
  for (int i = 0; i < num_operands_; ++i) ir::unlink(operands_[static_cast<size_t>(i)]);
  operands_.reset();
  num_operands_ = 0;
}

void Op::set_operands(std::span<const Value> values) {
  std::vector<Value> copy(values.begin(), values.end());  // may alias what is dropped
  drop_operands();
  num_operands_ = static_cast<int>(copy.size());
  operands_ = std::make_unique<Use[]>(copy.size());
  for (size_t i = 0; i < copy.size(); ++i) {
    operands_[i].user = this;
    operands_[i].index = static_cast<int>(i);
    link(operands_[i], copy[i].def());
  }
}

int64_t Op::int_attr(std::string_view name) const {
  return attr_or_default(kind_, attrs_, name).as<int64_t>();
}
double Op::float_attr(std::string_view name) const {
  return attr_or_default(kind_, attrs_, name).as<double>();
}
bool Op::bool_attr(std::string_view name) const {
  return attr_or_default(kind_, attrs_, name).as<bool>();
}
std::string Op::string_attr(std::string_view name) const {
  return attr_or_default(kind_, attrs_, name).as<std::string>();
}

Function* Op::function() const { return region_ ? region_->function() : nullptr; }
Module* Op::module() const { return region_ ? region_->module() : nullptr; }

void Op::unlink() {
  if (!region_) return;
  (previous_ ? previous_->next_ : region_->first_) = next_;
  (next_ ? next_->previous_ : region_->last_) = previous_;
  previous_ = next_ = nullptr;
  region_ = nullptr;
}

void Op::move_before(Op* other) {
  if (other == this) return;
  unlink();
  Module::insert_before(other, this);
}

void Op::erase() {
  for (int i = 0; i < num_results_; ++i)
    MEZZO_CHECK(result(i).unused(),
                std::string("erased '") + info().name + "' while its result is used");
  Module* owner = module();
  MEZZO_CHECK(owner, "erased an op that stands nowhere");
  if (body_)
    while (Op* last = body_->back()) last->erase();
  drop_operands();
  unlink();
  size_t slot = slot_;
  owner->free_slots_.push_back(slot);
  --owner->alive_;
  owner->arena_[slot].reset();  // frees this
}

// --- Region

Op* Region::terminator() const {
  return last_ && last_->info().has(Trait::Terminator) ? last_ : nullptr;
}

int64_t Region::count() const {
  int64_t n = 0;
  for (Op* op = first_; op; op = op->next()) ++n;
  return n;
}

std::vector<Value> Region::parameters() const {
  std::vector<Value> out;
  for (int i = 0; i < num_parameters(); ++i) out.push_back(parameter(i));
  return out;
}

Value Region::add_parameter(const Type& type, std::string_view name) {
  ValueDef& def = parameters_.emplace_back();
  def.type = type;
  def.region = this;
  def.index = num_parameters() - 1;
  if (!name.empty()) def.name = intern(name);
  return Value(&def);
}

void Region::erase_parameter(int index) {
  MEZZO_CHECK(parameter(index).unused(), "erased a parameter in use");
  // Definitions must keep their addresses, so contents move down and uses follow.
  for (int i = index; i + 1 < num_parameters(); ++i) {
    Value from = parameter(i + 1), to = parameter(i);
    to.set_type(from.type());
    to.def()->name = from.def()->name;
    from.replace_all_uses_with(to);
  }
  parameters_.pop_back();
}

// --- Function

Value Function::add_parameter(const Type& type, std::string_view name, Attrs attrs) {
  parameter_attrs_.push_back(std::move(attrs));
  return body_.add_parameter(type, name);
}

std::vector<Value> Function::results() const {
  Op* last = body_.terminator();
  return last ? last->operands() : std::vector<Value>{};
}

Value Function::updated_parameter(int index) const {
  const Attr* attr = result_attrs(index).find("updates");
  return attr ? Value(attr->as<ValueRef>().value) : Value();
}

void Function::set_results(std::span<const Value> values, std::vector<Attrs> attrs) {
  MEZZO_CHECK(values.size() == attrs.size(), "one set of attributes a result");
  if (Op* last = body_.terminator())
    last->set_operands(values);
  else
    Module::append(body_, module()->make_op(OpKind::Return, values, {}, {}, {}));
  result_attrs_ = std::move(attrs);
}

// --- Module

namespace {
constexpr const char* kStages[] = {"traced",    "differentiated", "typed",
                                   "primitive", "fused",          "planned"};
}

const char* to_string(Stage stage) { return kStages[static_cast<size_t>(stage)]; }

std::optional<Stage> parse_stage(std::string_view text) {
  for (size_t i = 0; i < std::size(kStages); ++i)
    if (text == kStages[i]) return static_cast<Stage>(i);
  return std::nullopt;
}

Module::~Module() = default;

Function* Module::add_function(std::string name) {
  return functions_.emplace_back(std::make_unique<Function>(this, std::move(name))).get();
}

Function* Module::function(std::string_view name) const {
  for (const auto& function : functions_)
    if (function->name() == name) return function.get();
  return nullptr;
}

void Module::erase_function(Function* function) {
  while (Op* last = function->body().back()) last->erase();
  std::erase_if(functions_, [&](const auto& entry) { return entry.get() == function; });
}

std::shared_ptr<const ResourceData> Module::resource(std::string_view name) const {
  auto it = resources_.find(std::string(name));
  return it == resources_.end() ? nullptr : it->second;
}

void Module::set_resource(std::string_view name, std::shared_ptr<const ResourceData> data) {
  resources_[std::string(name)] = std::move(data);
}

Op* Module::make_op(OpKind kind, std::span<const Value> operands, std::span<const Type> results,
                    Attrs attrs, Location location) {
  std::unique_ptr<Op> op(new Op);
  op->kind_ = kind;
  op->attrs_ = std::move(attrs);
  op->location_ = location;
  op->num_results_ = static_cast<int>(results.size());
  op->results_ = std::make_unique<ValueDef[]>(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    op->results_[i].type = results[i];
    op->results_[i].op = op.get();
    op->results_[i].index = static_cast<int>(i);
  }
  op->set_operands(operands);
  ++alive_;
  Op* raw = op.get();
  if (free_slots_.empty()) {
    raw->slot_ = arena_.size();
    arena_.push_back(std::move(op));
  } else {
    raw->slot_ = free_slots_.back();
    free_slots_.pop_back();
    arena_[raw->slot_] = std::move(op);
  }
  return raw;
}

Region* Module::make_body(Op* op) {
  op->body_ = std::make_unique<Region>(this, op->function(), op);
  return op->body_.get();
}

void Module::append(Region& region, Op* op) {
  MEZZO_CHECK(!op->region_, "inserted an op twice");
  op->region_ = &region;
  op->previous_ = region.last_;
  (region.last_ ? region.last_->next_ : region.first_) = op;
  region.last_ = op;
}

void Module::insert_before(Op* place, Op* op) {
  MEZZO_CHECK(!op->region_, "inserted an op twice");
  op->region_ = place->region_;
  op->next_ = place;
  op->previous_ = place->previous_;
  (place->previous_ ? place->previous_->next_ : place->region_->first_) = op;
  place->previous_ = op;
}

// --- copying

namespace {

Value mapped(const ValueMap& map, Value value) {
  auto it = map.find(value.def());
  return it == map.end() ? value : it->second;
}

Attr remapped(const Attr& attr, const ValueMap& map) {
  if (attr.is<ValueRef>())
    return Attr(ValueRef{mapped(map, Value(attr.as<ValueRef>().value)).def()});
  if (!attr.is<AttrList>()) return attr;
  AttrList list;
  for (const Attr& item : attr.as<AttrList>()) list.push_back(remapped(item, map));
  return Attr(std::move(list));
}

void remap_references(Attrs& attrs, const ValueMap& map) {
  for (auto& [name, attr] : attrs)
    if (attr.is<ValueRef>() || attr.is<AttrList>()) attr = remapped(attr, map);
}

}  // namespace

Op* clone_op(const Op& op, Region& region, Op* place, ValueMap& map) {
  std::vector<Value> operands;
  for (Value value : op.operands()) operands.push_back(mapped(map, value));
  std::vector<Type> types;
  for (Value value : op.results()) types.push_back(value.type());
  Attrs attrs = op.attrs();
  remap_references(attrs, map);
  Op* copy = region.module()->make_op(op.kind(), operands, types, std::move(attrs), op.location());
  copy->set_origin(op.origin());
  copy->set_kernel_name(op.kernel_name());
  if (op.has_plan()) copy->set_plan(op.plan());
  for (int i = 0; i < op.num_results(); ++i) {
    copy->result(i).set_name(op.result(i).name());
    map[op.result(i).def()] = copy->result(i);
  }
  if (place)
    Module::insert_before(place, copy);
  else
    Module::append(region, copy);
  if (const Region* body = op.body()) {
    Region* inner = region.module()->make_body(copy);
    for (Value parameter : body->parameters())
      map[parameter.def()] = inner->add_parameter(parameter.type(), parameter.name());
    for (Op& nested : *body) clone_op(nested, *inner, nullptr, map);
  }
  return copy;
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>(name_);
  copy->stage_ = stage_;
  copy->attrs_ = attrs_;
  copy->resources_ = resources_;
  for (const auto& function : functions_) {
    Function* target = copy->add_function(function->name());
    target->attrs() = function->attrs();
    ValueMap map;
    for (int i = 0; i < function->num_parameters(); ++i) {
      Value from = function->parameter(i);
      map[from.def()] = target->add_parameter(from.type(), from.name());
    }
    for (int i = 0; i < function->num_parameters(); ++i) {
      Attrs attrs = function->parameter_attrs(i);
      remap_references(attrs, map);
      target->parameter_attrs(i) = std::move(attrs);
    }
    for (Op& op : function->body()) clone_op(op, target->body(), nullptr, map);
    std::vector<Attrs> results;
    for (int i = 0; i < function->num_results(); ++i) {
      Attrs attrs = function->result_attrs(i);
      remap_references(attrs, map);
      results.push_back(std::move(attrs));
    }
    if (!results.empty() || target->body().terminator()) {
      std::vector<Value> values = target->results();
      target->set_results(values, std::move(results));
    }
  }
  return copy;
}

}  // namespace mezzo::ir
