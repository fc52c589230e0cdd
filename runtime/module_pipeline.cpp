// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/module_pipeline.h>

#include <mezzo/ir/error.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace mezzo::runtime {

namespace {

ir::Stage stage_after(const passes::Pipeline& pipeline, ir::Stage stage) {
  for (const passes::PipelineStep& step : pipeline)
    if (step.pass->gives) stage = std::max(stage, *step.pass->gives);
  return stage;
}

/// What comes after the passes that were asked for. For the interpreter the passes of the training
/// pipeline that decide results and types, no others.
passes::Pipeline remaining(const CompileOptions& options, Engine engine, bool gradient,
                           bool differentiated, bool typed) {
  if (options.pipeline == "train" || options.pipeline == "infer")
    return passes::pipeline_by_name(options.pipeline);
  if (!options.pipeline.empty()) return passes::parse_pipeline(options.pipeline);
  const bool differentiate = gradient && !differentiated;
  if (engine == Engine::Compiled)
    return passes::pipeline_by_name(differentiate ? "train" : "infer");
  std::unordered_set<std::string_view> wanted;
  if (differentiate) wanted = {"finite-check", "loss-scale", "autodiff"};
  if (!typed && (!options.policy.empty() || (gradient && options.passes.empty())))
    wanted.insert({"autocast", "cast-cleanup"});
  passes::Pipeline pipeline = passes::pipeline_by_name("train");
  std::erase_if(pipeline, [&](const auto& step) { return !wanted.contains(step.pass->name); });
  return pipeline;
}

void set_loss_scale(passes::Pipeline& pipeline, const std::string& options) {
  if (options.empty() || options == "off" || !contains(pipeline, "loss-scale")) return;
  const passes::Pipeline scale =
      passes::parse_pipeline("loss-scale " + options, "options of the loss scale");
  for (const auto& [name, value] : scale.at(0).options)
    passes::set_option(pipeline, "loss-scale", name, value);
}

void apply_policy(passes::Pipeline& pipeline, const ir::Module& module, const std::string& policy) {
  if (policy.empty()) return;
  passes::policy_by_name(policy);  // a name that is unknown is told as such
  if (contains(pipeline, "autocast")) return passes::set_policy(pipeline, policy);
  const std::string recorded = module.attrs().get_string("policy");
  if (recorded == policy) return;
  throw UserError({},
                  fmt::format("policy '{}' comes too late: the module has stage {}, its types are "
                              "{}",
                              policy, to_string(module.stage()),
                              recorded.empty() ? "as written" : "those of '" + recorded + "'"),
                  "a policy decides the types of a module up to stage differentiated");
}

void apply_rounding(passes::Pipeline& pipeline, const ir::Module& module, Engine engine,
                    const std::string& rounding) {
  if (!rounding.empty()) passes::check_rounding(rounding);
  if (module.attrs().has("rounding")) {
    const std::string recorded = module.attrs().get_string("rounding");
    if (rounding.empty() || rounding == recorded) return;
    throw UserError({},
                    fmt::format("rounding '{}' comes too late: the module has stage {} and is "
                                "rounded '{}'",
                                rounding, to_string(module.stage()), recorded),
                    "a rounding is chosen where kernels are fused");
  }
  if (contains(pipeline, "round-mode"))
    return passes::set_rounding(pipeline, rounding.empty() ? "excess" : rounding);
  if (rounding.empty() || rounding == "as-written") return;  // as it stands
  throw UserError({},
                  engine == Engine::Interpreted
                      ? "rounding 'excess' is a matter of kernels, and the interpreter runs the "
                        "module without them"
                      : fmt::format("rounding 'excess' comes too late: the module has stage {}",
                                    to_string(module.stage())),
                  engine == Engine::Interpreted
                      ? "run it compiled, or give passes that fuse and round: ... fuse, round-mode"
                      : "a rounding is chosen where kernels are fused");
}

}  // namespace

ir::Function& find_function(ir::Module& module, const std::string& name) {
  if (ir::Function* function = module.function(name)) return *function;
  std::vector<std::string> known;
  for (const auto& each : module.functions()) known.push_back(each->name());
  throw UserError({},
                  fmt::format("there is no function @{}{}", name, ir::did_you_mean(name, known)));
}

void keep_only(ir::Module& module, const ir::Function& wanted) {
  std::vector<const ir::Function*> queue{&wanted};
  std::unordered_set<const ir::Function*> kept{&wanted};
  while (!queue.empty()) {
    const ir::Function* function = queue.back();
    queue.pop_back();
    for (const ir::Op& op : function->body()) {
      if (op.kind() != ir::OpKind::Gradient && op.kind() != ir::OpKind::CustomGradient) continue;
      ir::Function* target = module.function(op.attrs().find("func")->as<ir::Symbol>().name);
      if (target && kept.insert(target).second) queue.push_back(target);
    }
  }
  std::vector<ir::Function*> all;
  for (const auto& function : module.functions()) all.push_back(function.get());
  for (ir::Function* function : all)
    if (!kept.contains(function)) module.erase_function(function);
}

bool holds(const ir::Function& function, ir::OpKind kind) {
  for (const ir::Op& op : function.body())
    if (op.kind() == kind) return true;
  return false;
}

bool contains(const passes::Pipeline& pipeline, std::string_view pass) {
  return std::ranges::any_of(pipeline, [&](const auto& step) { return pass == step.pass->name; });
}

passes::Pipeline choose_pipeline(const ir::Module& module, const ir::Function& function,
                                 const CompileOptions& options, Engine engine) {
  passes::Pipeline pipeline = passes::parse_pipeline(options.passes, "--passes");
  const ir::Stage stage = stage_after(pipeline, module.stage());
  const bool gradient = holds(function, ir::OpKind::Gradient),
             differentiated = contains(pipeline, "autodiff");
  if (gradient && !differentiated && !options.passes.empty() &&
      stage > passes::find_pass("autodiff")->latest)
    throw UserError({},
                    fmt::format("passes '{}' lead to stage {}, but @{} still holds a gradient",
                                options.passes, to_string(stage), function.name()),
                    "put 'autodiff' before them, as the pipeline 'train' has it");
  passes::Pipeline rest =
      remaining(options, engine, gradient, differentiated, stage >= ir::Stage::Typed);
  std::erase_if(rest, [&](const passes::PipelineStep& step) {
    return stage > step.pass->latest ||
           (options.loss_scale == "off" && step.pass->name == std::string_view("loss-scale"));
  });
  // A planned module was looked at when it was made.
  if (module.stage() == ir::Stage::Planned)
    std::erase_if(rest,
                  [](const auto& step) { return step.pass->name == std::string_view("lint"); });
  set_loss_scale(rest, options.loss_scale);
  pipeline.insert(pipeline.end(), rest.begin(), rest.end());
  apply_policy(pipeline, module, options.policy);
  apply_rounding(pipeline, module, engine, options.rounding);
  if (contains(rest, "plan-kernels")) passes::set_target(pipeline, options.target);
  if (!options.fuse && contains(pipeline, "fuse"))
    passes::set_option(pipeline, "fuse", "unfused", true);
  return pipeline;
}

void blame_debug_words(const ir::DebugOptions& debug, const std::string& lacks) {
  std::string words;
  if (debug.stop_after) words = fmt::format("stop-after={}", *debug.stop_after);
  for (const std::string& pass : debug.skip) words += (words.empty() ? "" : ",") + ("skip=" + pass);
  if (words.empty()) return;
  throw UserError({}, fmt::format("MEZZO_DEBUG: with '{}' {}", words, lacks),
                  "`mezzo opt` prints a module that does not run");
}

void warn_of_unserved(const ir::DebugOptions& debug) {
  static std::atomic<bool> told{false};
  const std::vector<std::string> texts = debug.unserved();
  if (texts.empty() || told.exchange(true)) return;
  for (const std::string& text : texts) log_warning("MEZZO_DEBUG: " + text);
}

}  // namespace mezzo::runtime
