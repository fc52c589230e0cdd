// SPDX-License-Identifier: Apache-2.0
// `mezzo build`: compiles the kernels of a module for a CUDA architecture and writes sources, PTX
// and cubins with a manifest. Neither a GPU nor a driver is needed. Kernels that cannot be emitted
// yet are listed by name.
#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/target.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/tool/commands.h>
#include <mezzo/runtime/tool/program.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace mezzo::tool {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// `train` for a module with a gradient or an update, else `infer`; what stages the module has
/// behind it is left out.
passes::Pipeline pipeline_for(const ir::Module& module) {
  bool trains = false;
  for (const auto& function : module.functions())
    for (ir::Op& op : function->body())
      trains |= op.kind() == ir::OpKind::Gradient || op.info().has(ir::Trait::Optimizer);
  passes::Pipeline pipeline = passes::pipeline_by_name(trains ? "train" : "infer");
  std::erase_if(pipeline, [&](const passes::PipelineStep& step) {
    return step.pass->latest < module.stage();
  });
  return pipeline;
}

void plan(ir::Module& module, const BuildArguments& arguments) {
  passes::Pipeline pipeline = pipeline_for(module);
  if (!arguments.policy.empty()) passes::set_policy(pipeline, arguments.policy);
  passes::set_target(pipeline, arguments.target);
  passes::ManagerOptions options;
  options.debug = ir::debug_options_from_environment(passes::pass_names());
  passes::PassContext context;
  for (const passes::Finding& finding :
       passes::run_pipeline(module, pipeline, options, context).findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
}

ordered_json compile_kernel(const codegen::CudaSource& kernel, const ir::Op& op,
                            const BuildArguments& arguments) {
  const std::string program = codegen::cuda_program(std::span(&kernel, 1));
  const fs::path base = fs::path(arguments.output) / kernel.entry;
  // The source is there to be read when the compiler refuses it.
  write_text(base.string() + ".cu", program);
  const codegen::CudaBinary binary = codegen::compile_cuda(program, arguments.target, kernel.entry);
  write_text(base.string() + ".ptx", binary.ptx);
  write_text(base.string() + ".cubin", binary.cubin);
  const codegen::KernelResources resources =
      binary.kernels.empty() ? codegen::KernelResources{} : binary.kernels.front();
  return {{"name", kernel.entry},
          {"kernel", op.kernel_name()},
          {"function", op.function()->name()},
          {"family", ir::to_string(ir::family_of(op))},
          {"threads", kernel.threads},
          {"blocks", kernel.blocks},
          {"registers", resources.registers},
          {"spill_bytes", resources.spill_store_bytes + resources.spill_load_bytes},
          {"shared_bytes", resources.shared_bytes}};
}

}  // namespace

int build(const BuildArguments& arguments) {
  const ir::Target target = ir::target_by_name(arguments.target);
  if (target.kind != ir::Target::Kind::Cuda)
    throw UserError({}, fmt::format("not supported yet: build for the target {}", target.name),
                    "sm_80, sm_90 and other CUDA architectures are supported");
  std::unique_ptr<ir::Module> module = ir::parse(read_text(arguments.file), arguments.file);
  plan(*module, arguments);
  const int version = codegen::nvrtc_version();
  std::error_code failed;
  fs::create_directories(arguments.output, failed);
  if (failed)
    throw UserError(
        {}, fmt::format("{}: cannot make the folder: {}", arguments.output, failed.message()));
  ordered_json kernels = ordered_json::array(), missing = ordered_json::array();
  for (const auto& function : module->functions())
    for (ir::Op& op : function->body()) {
      if (op.kind() != ir::OpKind::Kernel) continue;
      if (codegen::can_emit_cuda(op)) {
        const std::string name = fmt::format("k{}", kernels.size());
        kernels.push_back(
            compile_kernel(codegen::emit_cuda_kernel(op, target, name), op, arguments));
        continue;
      }
      const std::string family = ir::to_string(ir::family_of(op));
      missing.push_back(
          {{"kernel", op.kernel_name()}, {"function", function->name()}, {"family", family}});
      std::fprintf(stderr, "warning: not supported yet: kernel @%s of family %s\n",
                   op.kernel_name().c_str(), family.c_str());
    }
  const ordered_json manifest = {
      {"target", target.name},
      {"nvrtc", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
      {"kernels", kernels},
      {"not_supported", missing}};
  write_text((fs::path(arguments.output) / "manifest.json").string(), manifest.dump(2) + "\n");
  std::printf("%zu kernels for %s in %s, %zu not supported yet\n", kernels.size(),
              target.name.c_str(), arguments.output.c_str(), missing.size());
  return missing.empty() ? 0 : 1;
}

}  // namespace mezzo::tool
