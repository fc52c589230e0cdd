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

std::unique_ptr<ir::Module> alone(const ir::Op& kernel) {
  auto module = std::make_unique<ir::Module>("alone");
  ir::Function* function = module->add_function("f");
  ir::ValueMap map;
  for (int i = 0; i < kernel.num_operands(); ++i)
    map[kernel.operand(i).def()] =
        function->add_parameter(kernel.operand(i).type(), "x" + std::to_string(i));
  const ir::Op* copy = ir::clone_op(kernel, function->body(), nullptr, map);
  function->set_results(copy->results(), std::vector<ir::Attrs>(copy->results().size()));
  module->set_stage(ir::Stage::Fused);
  return module;
}

}  // namespace mezzo::test
