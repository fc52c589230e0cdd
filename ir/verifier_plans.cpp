// SPDX-License-Identifier: Apache-2.0
// Rules of the numbers that a text may state and that later index memory: plans of kernels, places
// of results, the length of the arena.
#include <mezzo/ir/cuda_matmul_plan.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/ir/verifier_rules.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace mezzo::ir {

namespace {

constexpr int64_t kMostVector = 1024;
constexpr int64_t kMostRegisterTile = 1024;

/// "" or what is wrong with a field of a plan.
std::string unfit_field(std::string_view name, const Attr& attr) {
  if (name == "reason") return attr.is<std::string>() ? "" : "must be a string";
  if (!attr.is<int64_t>()) return "must be an integer";
  int64_t value = attr.as<int64_t>();
  std::string got = ", not " + std::to_string(value);
  if (name == "vector" && (value < 1 || value > kMostVector || (value & (value - 1))))
    return "must be a power of two up to " + std::to_string(kMostVector) + got;
  if (name == "grain" && value < 1) return "must be positive" + got;
  if ((name == "pairs" || name == "prepack") && value != 0 && value != 1)
    return "must be 0 or 1" + got;
  if ((name == "mr" || name == "nr") && (value < 0 || value > kMostRegisterTile))
    return "must lie in [0, " + std::to_string(kMostRegisterTile) + "]" + got;
  if (value < 0 || value > kMostOfPlan)
    return "must lie in [0, " + std::to_string(kMostOfPlan) + "]" + got;
  return "";
}

void check_plan(VerifierContext& context, const Op& kernel) {
  const std::vector<std::string> known = Plan::field_names();
  for (const auto& [name, attr] : kernel.plan()) {
    std::string field = name;
    if (std::find(known.begin(), known.end(), field) == known.end())
      context.report(kernel, "plan: unknown field '" + field + "'" + did_you_mean(field, known));
    else if (std::string what = unfit_field(field, attr); !what.empty())
      context.report(kernel, "plan: '" + field + "' " + what);
  }
}

/// The architecture that the module's kernels are planned for, if it is one of NVIDIA's.
std::optional<Target> cuda_target(const Module& module) {
  const std::string name = module.attrs().get_string("target");
  if (!name.starts_with("sm_")) return std::nullopt;
  try {
    return target_by_name(name);
  } catch (const UserError&) {
    return std::nullopt;  // refused where code is made for it
  }
}

/// What a GPU can launch.
void check_launch(VerifierContext& context, const Op& kernel, const Target& target) {
  const Plan plan = Plan::from(kernel.plan());
  if (plan.threads < 32 || plan.threads > 1024 || plan.threads % 32 != 0)
    context.report(kernel, "plan: 'threads' must be a multiple of 32 up to 1024 on " + target.name +
                               ", not " + std::to_string(plan.threads));
  else if (family_of(kernel) == Family::Matmul)
    if (std::string what = unfit_blocking(cuda_matmul(kernel, target), target); !what.empty())
      context.report(kernel, "plan: " + what);
}

/// The number of `@result7`, or nullopt.
std::optional<int64_t> result_number(const std::string& name) {
  constexpr std::string_view kResult = "result";
  if (!name.starts_with(kResult)) return std::nullopt;
  int64_t number = -1;
  const char* end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + kResult.size(), end, number);
  if (error != std::errc() || stop != end || number < 0) return std::nullopt;
  return number;
}

/// "" or why `place` cannot hold a value of `type`.
std::string unfit_place(VerifierContext& context, const Attr& place, const Type& type,
                        int64_t arena) {
  const Function& function = context.function();
  if (place.is<int64_t>()) {
    constexpr int64_t kAligned = 64;
    int64_t offset = place.as<int64_t>();
    if (offset < 0 || offset % kAligned)
      return "place " + std::to_string(offset) + " is no multiple of " + std::to_string(kAligned);
    if (offset > arena || type.bytes() > arena - offset)
      return "place " + std::to_string(offset) + " of " + counted(type.bytes(), "byte") +
             " lies outside the arena of " + std::to_string(arena);
    return "";
  }
  if (place.is<ValueRef>()) {
    const ValueDef* value = place.as<ValueRef>().value;
    if (!context.alive(value)) return "";  // found with the references
    if (value->op || value->region != &function.body())
      return "place " + context.name(value) + " is no parameter";
    if (value->type.bytes() != type.bytes())
      return "place " + context.name(value) + " is " + to_string(value->type) + ", not " +
             to_string(type);
    return "";
  }
  const std::string& name = place.as<Symbol>().name;
  std::optional<int64_t> number = result_number(name);
  if (!number || *number >= function.num_results())
    return "there is no place @" + name + "; @" + function.name() + " has " +
           counted(function.num_results(), "result");
  std::vector<Value> results = function.results();
  if (static_cast<size_t>(*number) >= results.size()) return "";  // found with the updates
  Type result = results[static_cast<size_t>(*number)].type();
  if (result.bytes() != type.bytes())
    return "place @" + name + " is " + to_string(result) + ", not " + to_string(type);
  return "";
}

/// The attribute `arena` of the function; 0 when it has none.
int64_t arena_of(VerifierContext& context) {
  const Attr* arena = context.function().attrs().find("arena");
  if (!arena) return 0;
  if (arena->is<int64_t>() && arena->as<int64_t>() >= 0 && arena->as<int64_t>() <= kMostOfPlan)
    return arena->as<int64_t>();
  context.report("attribute 'arena' must be a number of bytes up to " +
                 std::to_string(kMostOfPlan));
  return 0;
}

/// Values that are still read keep their places to themselves; what leaves the function stands
/// where the function says.
class Places {
 public:
  explicit Places(VerifierContext& context) : context_(context) {
    const Function& function = context.function();
    size_t number = 0;
    for (const Op& op : function.body()) {
      for (Value operand : op.operands()) last_read_[storage_of(operand).def()] = number;
      ++number;
    }
    std::vector<Value> results = function.results();
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const ValueDef* value = storage_of(results[static_cast<size_t>(i)]).def();
      leaves_["result" + std::to_string(i)] = value;
      if (Value updated = function.updated_parameter(i)) updates_[updated.def()] = value;
    }
  }

  /// `value`, made by op `number` of the body, goes to `place`.
  void store(const Op& op, size_t number, Value value, const Attr& place) {
    if (place.is<int64_t>()) return store_in_arena(op, number, value, place.as<int64_t>());
    const bool in_state = place.is<ValueRef>();
    const ValueDef* holder =
        in_state ? at(updates_, place.as<ValueRef>().value) : at(leaves_, place.as<Symbol>().name);
    if (holder == value.def()) return;
    const std::string name =
        in_state ? context_.name(place.as<ValueRef>().value) : "@" + place.as<Symbol>().name;
    context_.report(op, "place " + name + " is not for " + context_.name(value) +
                            (holder ? ", but for " + context_.name(holder)
                                    : ", the function updates it with nothing"));
  }

 private:
  struct Stored {
    int64_t end;
    const ValueDef* value;
    size_t made, last;
  };

  template <typename Map>
  static const ValueDef* at(const Map& map, const typename Map::key_type& key) {
    auto it = map.find(key);
    return it == map.end() ? nullptr : it->second;
  }

  void store_in_arena(const Op& op, size_t number, Value value, int64_t begin) {
    const int64_t end = begin + value.type().bytes();
    if (begin == end) return;
    auto it = arena_.lower_bound(begin);
    if (it != arena_.begin() && std::prev(it)->second.end > begin) --it;
    while (it != arena_.end() && it->first < end) {
      const Stored& other = it->second;
      if (other.last >= number || other.made == number)
        context_.report(op, "place " + std::to_string(begin) + " of " + context_.name(value) +
                                " overlaps " + context_.name(other.value) +
                                ", which is still read, at " + std::to_string(it->first));
      it = arena_.erase(it);
    }
    auto last = last_read_.find(value.def());
    arena_[begin] = {end, value.def(), number, last == last_read_.end() ? number : last->second};
  }

  VerifierContext& context_;
  std::unordered_map<const ValueDef*, size_t> last_read_;
  std::unordered_map<std::string, const ValueDef*> leaves_;       // by place
  std::unordered_map<const ValueDef*, const ValueDef*> updates_;  // of each updated parameter
  std::map<int64_t, Stored> arena_;                               // by first byte
};

}  // namespace

void verify_plans(VerifierContext& context) {
  for (const Op& op : context.function().body())
    if (op.kind() == OpKind::Kernel && op.has_plan()) check_plan(context, op);
  if (const std::optional<Target> target = cuda_target(context.module()); target && context.sound())
    for (const Op& op : context.function().body())
      if (op.kind() == OpKind::Kernel && op.has_plan()) check_launch(context, op, *target);
  if (!context.at_least(Stage::Planned)) return;
  int64_t arena = arena_of(context);
  std::optional<Places> holders;
  if (context.sound()) holders.emplace(context);
  size_t number = 0;
  for (const Op& op : context.function().body()) {
    ++number;
    const Attr* places = op.attrs().find("places");
    if (!places || !places->is<AttrList>()) continue;
    const AttrList& list = places->as<AttrList>();
    for (size_t i = 0; i < std::min(list.size(), static_cast<size_t>(op.num_results())); ++i) {
      const Attr& place = list[i];
      if (!place.is<int64_t>() && !place.is<ValueRef>() && !place.is<Symbol>())
        continue;  // a wrong kind is found with the types
      std::string what = unfit_place(context, place, op.result(static_cast<int>(i)).type(), arena);
      if (!what.empty())
        context.report(op, what);
      else if (holders)
        holders->store(op, number - 1, op.result(static_cast<int>(i)), place);
    }
  }
}

}  // namespace mezzo::ir
