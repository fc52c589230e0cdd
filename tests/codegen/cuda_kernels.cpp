// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_kernels.h>

#include <mezzo/passes/pass_manager.h>
#include <mezzo/passes/pipeline.h>

namespace mezzo::test {

void compile_passes(ir::Module& module, const std::string& target, const std::string& rounding) {
  passes::Pipeline pipeline = passes::pipeline_by_name("infer");
  passes::set_rounding(pipeline, rounding);
  passes::set_target(pipeline, target);
  std::erase_if(pipeline, [&](const passes::PipelineStep& step) {
    return step.pass->latest < module.stage();
  });
  passes::ManagerOptions options;
  options.debug.to = "/dev/null";
  passes::PassContext context;
  passes::run_pipeline(module, pipeline, options, context);
}

}  // namespace mezzo::test
