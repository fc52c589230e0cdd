// SPDX-License-Identifier: Apache-2.0
// `mezzo opt`: parse, verify, run passes, print. Without --passes and --pipeline the pipeline that
// the module records is run, which is how a reproducer repeats a failure.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/tool/commands.h>
#include <mezzo/runtime/tool/explain.h>

#include <algorithm>
#include <cstdio>

namespace mezzo::tool {

namespace {

passes::Pipeline chosen_pipeline(const OptArguments& arguments, ir::Module& module) {
  // The record says what to do with this text; what comes out of it is done.
  std::string recorded = module.attrs().get_string("pipeline");
  module.attrs().erase("pipeline");
  passes::Pipeline pipeline;
  if (arguments.passes_given)
    pipeline = passes::parse_pipeline(arguments.passes, "--passes");
  else if (!arguments.pipeline.empty())
    pipeline = passes::pipeline_by_name(arguments.pipeline);
  else
    pipeline = passes::parse_pipeline(recorded, arguments.file + ": pipeline");
  if (!arguments.policy.empty()) passes::set_policy(pipeline, arguments.policy);
  if (!arguments.rounding.empty()) passes::set_rounding(pipeline, arguments.rounding);
  if (!arguments.target.empty()) passes::set_target(pipeline, arguments.target);
  return pipeline;
}

/// `native` and mistyped names are answered here: facts of this machine are the back end's to ask.
ir::Target target_of(const passes::Pipeline& pipeline) {
  ir::Target target;
  for (const passes::PipelineStep& step : pipeline)
    if (std::string name = step.options.get_string("target"); !name.empty())
      target = codegen::resolve_target(name);
  return target;
}

/// `--print-after=`: a word that prints nothing is an error.
void check_print_after(const std::string& word, const passes::Pipeline& pipeline) {
  if (pipeline.empty())
    throw UserError({}, "--print-after: '" + word + "' prints nothing, there are no passes",
                    "--passes or --pipeline names them");
  if (word == "all" || word == "changed") return;
  std::vector<std::string> known = passes::pass_names(), here;
  known.insert(known.end(), {"all", "changed"});
  if (std::find(known.begin(), known.end(), word) == known.end())
    throw UserError({},
                    "--print-after: unknown pass '" + word + "'" + ir::did_you_mean(word, known),
                    "all, changed or the name of a pass");
  for (const passes::PipelineStep& step : pipeline)
    if (word == step.pass->name) return;
  throw UserError({}, "--print-after: '" + word + "' is not in the pipeline",
                  "the pipeline is '" + passes::print_pipeline(pipeline) + "'");
}

passes::ManagerOptions manager_options(const OptArguments& arguments,
                                       const passes::Pipeline& pipeline) {
  constexpr ir::DebugArea kAreas[] = {ir::DebugArea::Passes};
  passes::ManagerOptions options;
  options.verify = true;
  for (const std::string& word : arguments.print_after) check_print_after(word, pipeline);
  options.debug = debug_options("opt", kAreas, arguments.print_after);
  options.debug.locs |= arguments.locs;
  return options;
}

}  // namespace

int opt(const OptArguments& arguments) {
  std::unique_ptr<ir::Module> module = read_module(arguments.file, ResourceUse::Optional);
  passes::Pipeline pipeline = chosen_pipeline(arguments, *module);
  passes::PassContext context;
  context.target = target_of(pipeline);
  passes::ManagerOptions options = manager_options(arguments, pipeline);
  History history;
  if (!arguments.explain.empty())
    options.observe = [&](const passes::PassInfo* pass, const ir::Module& now) {
      history.add(pass ? pass->name : "", now);
    };
  passes::PipelineReport report = passes::run_pipeline(*module, pipeline, options, context);
  for (const passes::Finding& finding : report.findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
  std::string text;
  if (!arguments.explain.empty()) text = history.explain(arguments.explain);
  write_module(arguments.output, *module, text + ir::print(*module, {.locations = arguments.locs}));
  return 0;
}

}  // namespace mezzo::tool
