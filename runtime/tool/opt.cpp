// SPDX-License-Identifier: Apache-2.0
// `mezzo opt`: parse, verify, run passes, print. Without --passes and --pipeline the pipeline that
// the module records is run, which is how a reproducer repeats a failure.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/tool/commands.h>

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

passes::ManagerOptions manager_options(const OptArguments& arguments) {
  passes::ManagerOptions options;
  options.verify = true;
  options.debug = ir::debug_options_from_environment(passes::pass_names());
  options.debug.locs |= arguments.locs;
  std::vector<std::string> known = passes::pass_names();
  known.insert(known.end(), {"all", "changed"});
  for (const std::string& word : arguments.print_after) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw UserError({},
                      "--print-after: unknown pass '" + word + "'" + ir::did_you_mean(word, known),
                      "all, changed or the name of a pass");
    options.debug.dump.push_back(word);
  }
  return options;
}

}  // namespace

int opt(const OptArguments& arguments) {
  std::string text = read_text(arguments.file);
  std::unique_ptr<ir::Module> module = ir::parse(text, arguments.file);
  passes::Pipeline pipeline = chosen_pipeline(arguments, *module);
  passes::PassContext context;
  // Passes know targets by name; only codegen knows this machine.
  for (const passes::PipelineStep& step : pipeline)
    if (step.options.get_string("target") == "native") context.target = codegen::native_target();
  passes::PipelineReport report =
      passes::run_pipeline(*module, pipeline, manager_options(arguments), context);
  for (const passes::Finding& finding : report.findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
  write_text(arguments.output, ir::print(*module, {.locations = arguments.locs}));
  return 0;
}

}  // namespace mezzo::tool
