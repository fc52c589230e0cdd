// SPDX-License-Identifier: Apache-2.0
// The register of passes, made from passes.def.
#include <mezzo/ir/error.h>
#include <mezzo/passes/pass.h>

namespace mezzo::passes {

namespace {

constexpr ir::Stage Traced = ir::Stage::Traced;
constexpr ir::Stage Differentiated = ir::Stage::Differentiated;
constexpr ir::Stage Typed = ir::Stage::Typed;
constexpr ir::Stage Primitive = ir::Stage::Primitive;
constexpr ir::Stage Fused = ir::Stage::Fused;
constexpr ir::Stage Planned = ir::Stage::Planned;
constexpr std::nullopt_t Same = std::nullopt;

constexpr PassInfo kPasses[] = {
#define PASS(function, name, summary, latest, gives) {name, summary, function, latest, gives},
#include <mezzo/passes/passes.def>
};

struct Option {
  std::string_view function;
  const char* name;
  OptionKind kind;
};

constexpr Option kOptions[] = {
#define OPTION(function, name, kind) {#function, #name, OptionKind::kind},
#include <mezzo/passes/passes.def>
};

/// The name of a pass in C++: `cast_cleanup` for `cast-cleanup`.
std::string function_name(const PassInfo& pass) {
  std::string name = pass.name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

std::string text_of(const Finding& finding, const char* word) {
  std::string place = finding.location.known() ? to_string(finding.location) + ": " : "";
  return place + word + finding.text + " [" + finding.name + "]" +
         (finding.remedy.empty() ? "" : "\nnote: " + finding.remedy);
}

}  // namespace

std::string to_string(const Finding& finding) { return text_of(finding, "warning: "); }
std::string log_text(const Finding& finding) { return text_of(finding, ""); }

std::span<const PassInfo> all_passes() { return kPasses; }

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& pass : kPasses)
    if (name == pass.name) return &pass;
  return nullptr;
}

std::vector<std::string> pass_options(const PassInfo& pass) {
  std::string function = function_name(pass);
  std::vector<std::string> names;
  for (const Option& option : kOptions)
    if (function == option.function) names.emplace_back(option.name);
  return names;
}

OptionKind option_kind(const PassInfo& pass, std::string_view name) {
  std::string function = function_name(pass);
  for (const Option& option : kOptions)
    if (function == option.function && name == option.name) return option.kind;
  throw InternalError(std::string("'") + pass.name + "' has no option '" + std::string(name) + "'");
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const PassInfo& pass : kPasses) names.emplace_back(pass.name);
  return names;
}

}  // namespace mezzo::passes
