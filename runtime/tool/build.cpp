// SPDX-License-Identifier: Apache-2.0
// `mezzo build`: compiles the kernels of a module for CUDA architectures and writes sources, PTX
// and cubins with a manifest. Neither a GPU nor a driver is needed.
#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/target.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/cuda_driver.h>
#include <mezzo/runtime/module_pipeline.h>
#include <mezzo/runtime/plan_check.h>
#include <mezzo/runtime/tool/commands.h>
#include <mezzo/runtime/tool/program.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <set>

namespace mezzo::tool {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

fs::path make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw UserError(
        {}, fmt::format("{}: cannot make the folder: {}", folder.string(), failed.message()));
  return folder;
}

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

/// One target and where its files go.
struct Job {
  ir::Target target;
  fs::path folder;
  ir::DebugOptions debug;
};

void plan(ir::Module& module, const Job& job, const std::string& policy) {
  if (module.stage() == ir::Stage::Planned)
    throw UserError({},
                    fmt::format("the module is planned already, for {}",
                                module.attrs().get_string("target", "no machine")),
                    "build plans the kernels itself: give it the module before plan-kernels");
  passes::Pipeline pipeline = pipeline_for(module);
  if (!policy.empty()) passes::set_policy(pipeline, policy);
  passes::set_target(pipeline, job.target.name);
  passes::ManagerOptions options;
  options.debug = job.debug;
  passes::PassContext context;
  for (const passes::Finding& finding :
       passes::run_pipeline(module, pipeline, options, context).findings)
    std::fprintf(stderr, "%s\n", passes::to_string(finding).c_str());
  for (const auto& function : module.functions()) runtime::check_plans(*function, job.target);
}

/// `dump=cuda`, `dump=ptx`: the text on standard error, or in the folder of `to=`.
void dump(const Job& job, const char* word, const std::string& file, const std::string& text) {
  if (!job.debug.dumps(word)) return;
  if (job.debug.to.empty())
    std::fwrite(text.data(), 1, text.size(), stderr);
  else
    write_text((make_folder(job.debug.to) / (job.target.name + "-" + file)).string(), text);
}

/// Files of a kernel are named as it is in the module.
std::string file_of(const ir::Op& kernel) {
  return kernel.function()->name() + "." + kernel.kernel_name();
}

/// The symbol of a kernel: a name in C that no kernel before has.
std::string symbol_of(const ir::Op& kernel, std::set<std::string>& taken) {
  std::string symbol = file_of(kernel);
  for (char& c : symbol)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (std::isdigit(static_cast<unsigned char>(symbol[0]))) symbol.insert(0, "k");
  std::string unique = symbol;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", symbol, i);
  return unique;
}

ordered_json compile_kernel(const codegen::CudaSource& kernel, const ir::Op& op, const Job& job) {
  const std::string program = codegen::cuda_program(std::span(&kernel, 1));
  const std::string file = file_of(op);
  const fs::path base = job.folder / file;
  // The source is there to be read when the compiler refuses it.
  write_text(base.string() + ".cu", program);
  dump(job, "cuda", file + ".cu", program);
  const codegen::CudaBinary binary = codegen::compile_cuda(program, job.target.name, kernel.name);
  write_text(base.string() + ".ptx", binary.ptx);
  dump(job, "ptx", file + ".ptx", binary.ptx);
  write_text(base.string() + ".cubin", binary.cubin);
  ordered_json launches = ordered_json::array();
  for (const codegen::CudaLaunch& launch : kernel.launches) {
    codegen::KernelResources resources;
    for (const codegen::KernelResources& each : binary.kernels)
      if (each.entry == launch.entry) resources = each;
    launches.push_back({{"name", launch.entry},
                        {"threads", launch.threads},
                        {"blocks", launch.blocks},
                        {"dynamic_shared_bytes", launch.shared_bytes},
                        {"registers", resources.registers},
                        {"spill_bytes", resources.spill_store_bytes + resources.spill_load_bytes},
                        {"shared_bytes", resources.shared_bytes}});
  }
  return {{"name", kernel.name},
          {"kernel", op.kernel_name()},
          {"function", op.function()->name()},
          {"family", ir::to_string(ir::family_of(op))},
          {"workspace_bytes", kernel.workspace_bytes},
          {"launches", launches}};
}

void build_for(const Job& job, const BuildArguments& arguments) {
  std::unique_ptr<ir::Module> module = read_module(arguments.file, ResourceUse::Optional);
  module->attrs().erase("pipeline");  // of a reproducer: what `opt` is to do
  if (!arguments.function.empty())
    runtime::keep_only(*module, runtime::find_function(*module, arguments.function));
  plan(*module, job, arguments.policy);
  const int version = codegen::nvrtc_version();
  make_folder(job.folder);
  ordered_json kernels = ordered_json::array();
  std::set<std::string> symbols;
  for (const auto& function : module->functions())
    for (ir::Op& op : function->body()) {
      if (op.kind() != ir::OpKind::Kernel) continue;
      kernels.push_back(compile_kernel(
          codegen::emit_cuda_kernel(op, job.target, symbol_of(op, symbols)), op, job));
    }
  const ordered_json manifest = {{"target", job.target.name},
                                 {"nvrtc", runtime::cuda_version_text(version)},
                                 {"kernels", kernels}};
  write_text((job.folder / "manifest.json").string(), manifest.dump(2) + "\n");
  std::printf("%s for %s in %s\n", ir::counted(kernels.size(), "kernel").c_str(),
              job.target.name.c_str(), job.folder.c_str());
}

}  // namespace

int build(const BuildArguments& arguments) {
  constexpr ir::DebugArea kAreas[] = {ir::DebugArea::Passes, ir::DebugArea::CudaCode};
  const ir::DebugOptions debug = debug_options("build", kAreas);
  std::vector<Job> jobs;
  for (const std::string& name : arguments.targets) {
    Job job{codegen::resolve_target(name), arguments.output, debug};
    if (job.target.kind != ir::Target::Kind::Cuda)
      throw UserError({},
                      fmt::format("not supported yet: build for the target {}, a processor", name),
                      "CUDA architectures such as sm_80 and sm_90 are supported; `mezzo run` and "
                      "programs compile for this machine when they run");
    if (arguments.targets.size() > 1) job.folder /= name;
    jobs.push_back(std::move(job));
  }
  for (const Job& job : jobs) build_for(job, arguments);
  return 0;
}

}  // namespace mezzo::tool
