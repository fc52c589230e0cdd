// SPDX-License-Identifier: Apache-2.0
// Rules of the numbers that a text may state and that later index memory: plans of kernels, places
// of results, the length of the arena.
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/verifier_rules.h>

#include <algorithm>
#include <charconv>

namespace mezzo::ir {

namespace {

/// No tile, task count or buffer is larger; so that products of two fields cannot overflow.
constexpr int64_t kMostOfPlan = int64_t{1} << 59;
constexpr int64_t kMostVector = 1024;

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
      return "place " + std::to_string(offset) + " of " + std::to_string(type.bytes()) +
             " bytes lies outside the arena of " + std::to_string(arena);
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
           std::to_string(function.num_results()) + " results";
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

}  // namespace

void verify_plans(VerifierContext& context) {
  for (const Op& op : context.function().body())
    if (op.kind() == OpKind::Kernel && op.has_plan()) check_plan(context, op);
  if (!context.at_least(Stage::Planned)) return;
  int64_t arena = arena_of(context);
  for (const Op& op : context.function().body()) {
    const Attr* places = op.attrs().find("places");
    if (!places || !places->is<AttrList>()) continue;
    const AttrList& list = places->as<AttrList>();
    for (size_t i = 0; i < std::min(list.size(), static_cast<size_t>(op.num_results())); ++i) {
      const Attr& place = list[i];
      if (!place.is<int64_t>() && !place.is<ValueRef>() && !place.is<Symbol>())
        continue;  // a wrong kind is found with the types
      std::string what = unfit_place(context, place, op.result(static_cast<int>(i)).type(), arena);
      if (!what.empty()) context.report(op, what);
    }
  }
}

}  // namespace mezzo::ir
