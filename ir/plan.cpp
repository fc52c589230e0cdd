// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/plan.h>

#include <mezzo/ir/error.h>

#include <iterator>

namespace mezzo::ir {

namespace {

constexpr const char* kFamilies[] = {
#define FAMILY(Kind, name, summary) name,
#include <mezzo/ir/kernel_families.def>
#undef FAMILY
};

/// Every integer field under its printed name.
template <class P, class F>
void for_each_field(P& plan, F visit) {
  visit("vector", plan.vector, 0);
  visit("tasks", plan.tasks, 1);
  visit("grain", plan.grain, 0);
  visit("threads", plan.threads, 0);
  visit("mr", plan.mr, 0);
  visit("nr", plan.nr, 0);
  visit("mc", plan.mc, 0);
  visit("nc", plan.nc, 0);
  visit("kc", plan.kc, 0);
  visit("stages", plan.stages, 0);
  visit("slices", plan.slices, 0);
  visit("at_once", plan.at_once, 0);
  visit("slice_blocks", plan.slice_blocks, 0);
  visit("run_blocks", plan.run_blocks, 0);
  visit("prepack", plan.prepack, 0);
  visit("pairs", plan.pairs, 0);
  visit("scratch", plan.scratch, 0);
  visit("workspace", plan.workspace, 0);
}

}  // namespace

const char* to_string(Family family) { return kFamilies[static_cast<size_t>(family)]; }

std::optional<Family> parse_family(std::string_view text) {
  for (size_t i = 0; i < std::size(kFamilies); ++i)
    if (text == kFamilies[i]) return static_cast<Family>(i);
  return std::nullopt;
}

Family family_of(const Op& kernel) {
  std::optional<Family> family = parse_family(kernel.attrs().get_string("family"));
  MEZZO_CHECK(family, "kernel @" + kernel.kernel_name() + " has no family");
  return *family;
}

Plan Plan::from(const Attrs& attrs) {
  Plan plan;
  for_each_field(plan, [&](const char* name, int64_t& field, int64_t fallback) {
    field = attrs.get_int(name, fallback);
  });
  plan.reason = attrs.get_string("reason");
  return plan;
}

std::vector<std::string> Plan::field_names() {
  std::vector<std::string> names;
  Plan plan;
  for_each_field(plan, [&](const char* name, int64_t&, int64_t) { names.emplace_back(name); });
  names.emplace_back("reason");
  return names;
}

Attrs Plan::to_attrs() const {
  Attrs attrs;
  for_each_field(*this, [&](const char* name, const int64_t& field, int64_t fallback) {
    if (field != fallback) attrs.set(name, field);
  });
  if (!reason.empty()) attrs.set("reason", reason);
  return attrs;
}

}  // namespace mezzo::ir
