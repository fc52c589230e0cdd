// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/compiler.h>

#include <mezzo/codegen/cuda/emit_kernel.h>
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/codegen/llvm/emit_kernel.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/plan.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/cpu_executable.h>
#include <mezzo/runtime/cpu_kernels.h>
#include <mezzo/runtime/cuda_executable.h>
#include <mezzo/runtime/cuda_kernels.h>
#include <mezzo/runtime/cuda_step.h>
#include <mezzo/runtime/files.h>
#include <mezzo/runtime/kernel_store.h>
#include <mezzo/runtime/launch_text.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/module_pipeline.h>
#include <mezzo/runtime/plan_check.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <unordered_set>

namespace mezzo::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The GPU's own target.
ir::Target gpu_target(const CudaContext& context, const std::string& name) {
  const std::string& own = context.target().name;
  if (name == "native" || name == own) return context.target();
  throw UserError({},
                  fmt::format("the module is planned for {}, and {} runs {}",
                              name.empty() ? "no GPU" : name, context.device_text(), own),
                  "plan it again: `mezzo opt` from an earlier stage, --target=" + own);
}

/// The target, which this machine's processor must be able to run.
ir::Target cpu_target(const std::string& name) {
  ir::Target target = codegen::resolve_target(name);
  ir::Target native = codegen::native_target();
  if (target.kind != ir::Target::Kind::Cpu)
    throw DeviceError(
        fmt::format("target '{}' is not a processor that this build can run; "
                    "targets that run here are native and x86-64-v2 to v4",
                    name));
  for (const std::string& feature : target.features)
    if (!native.has(feature))
      throw DeviceError(
          fmt::format("target '{}' needs {}, which this machine does not have; "
                      "compile for `native`",
                      name, feature));
  return target;
}

/// The machine that a planned module was planned for, if its plans were not made just now.
std::string target_name(const ir::Module& module, const passes::Pipeline& pipeline,
                        const CompileOptions& options) {
  if (contains(pipeline, "plan-kernels")) return options.target;
  std::string recorded = module.attrs().get_string("target");
  if (options.device.kind == DeviceId::Kind::Cuda) return recorded;
  if (recorded == codegen::native_target().name) return "native";
  // Without a target plans are made for vectors of 16 bytes, as every one of these has them.
  return recorded.empty() ? "x86-64-v2" : recorded;
}

void write_dump(const ir::DebugOptions& debug, const std::string& file, const std::string& text) {
  if (debug.to.empty()) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(debug.to, error);
  if (error)
    throw UserError({}, fmt::format("{}: cannot make the folder: {}", debug.to, error.message()),
                    "`to=` names a folder that can be written");
  write_file(std::filesystem::path(debug.to) / file,
             {std::as_bytes(std::span(text.data(), text.size()))});
}

/// Words that no compilation for this kind of device can answer; once a process, not once a model.
void warn_of_words(const ir::DebugOptions& debug, bool cuda) {
  static std::atomic<bool> told{false};
  const ir::DebugArea kAreas[] = {ir::DebugArea::Passes,
                                  cuda ? ir::DebugArea::CudaCode : ir::DebugArea::CpuCode,
                                  ir::DebugArea::Executable, ir::DebugArea::Runs};
  const std::vector<std::string> words = debug.words_outside(kAreas);
  if (words.empty() || told.exchange(true)) return;
  log_warning(fmt::format("MEZZO_DEBUG: '{}' shows nothing here: kernels are compiled for {}",
                          fmt::join(words, ","),
                          cuda ? "a GPU, and --device=cpu runs on the processor"
                               : "this processor; `mezzo build --target=sm_90` makes CUDA code"));
}

void dump_cuda_kernels(const std::vector<const ir::Op*>& kernels, const std::string& function,
                       const ir::Target& target, const ir::DebugOptions& debug) {
  if (!debug.dumps("cuda") && !debug.dumps("ptx")) return;
  for (const ir::Op* kernel : kernels) {
    const std::string name = function + "." + kernel->kernel_name();
    const codegen::CudaSource source =
        codegen::emit_cuda_kernel(*kernel, target, kernel->kernel_name());
    const std::string program = codegen::cuda_program(std::span(&source, 1));
    if (debug.dumps("cuda")) write_dump(debug, name + ".cu", program);
    if (debug.dumps("ptx"))
      write_dump(debug, name + ".ptx", codegen::compile_cuda(program, target.name, name).ptx);
  }
}

void dump_kernels(const std::vector<const ir::Op*>& kernels, const std::string& function,
                  const ir::Target& target, const ir::DebugOptions& debug) {
  if (target.kind == ir::Target::Kind::Cuda)
    return dump_cuda_kernels(kernels, function, target, debug);
  for (const ir::Op* kernel : kernels) {
    std::string name = function + "." + kernel->kernel_name();
    for (bool assembly : {false, true}) {
      const char* word = assembly ? "asm" : "llvm";
      if (!debug.dumps(word)) continue;
      std::string text = codegen::cpu_kernel_text(*kernel, target, kernel->kernel_name(), assembly);
      write_dump(debug, fmt::format("{}.{}", name, assembly ? "s" : "ll"),
                 fmt::format("{} {} of @{}\n{}", assembly ? "#" : ";", word, name, text));
    }
  }
}

/// Once a process: a GPU that is old enough to have no bf16.
void tell_of_emulation(const std::vector<const ir::Op*>& kernels, const CudaContext& context) {
  static std::atomic<bool> told{false};
  if (context.target().compute_capability >= 80) return;
  const auto has_bf16 = [](const ir::Op* kernel) {
    for (const ir::Op& op : *kernel->body())
      for (ir::Value result : op.results())
        if (result.dtype() == ir::DType::BF16) return true;
    return false;
  };
  if (std::none_of(kernels.begin(), kernels.end(), has_bf16) || told.exchange(true)) return;
  log_warning(
      fmt::format("{} is of {}, which has no bf16: it is emulated, and products of bf16 do "
                  "not run on tensor cores; mixed_float16 uses them",
                  context.device_text(), context.target().name));
}

void count_ops(const std::vector<const ir::Op*>& kernels, CompileReport& report) {
  for (const ir::Op* kernel : kernels)
    for (const ir::Op& op : *kernel->body()) {
      if (op.kind() == ir::OpKind::Yield) continue;
      ++report.ops;
      if (op.kind() == ir::OpKind::Cast) ++report.casts;
    }
}

void count_sources(const std::vector<const ir::Op*>& kernels, std::span<const StoredKernel> stored,
                   bool log_cache, CompileReport& report) {
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < stored.size(); ++i) {
    const StoredKernel& each = stored[i];
    if (!seen.insert(each.kernel->key).second) continue;
    std::string line = fmt::format("kernel cache: @{} {} {}: ", kernels[i]->kernel_name(),
                                   to_string(ir::family_of(*kernels[i])), each.kernel->key);
    switch (each.source) {
      case KernelSource::Memory:
        ++report.memory_hits;
        line += "in memory";
        break;
      case KernelSource::Disk:
        ++report.disk_hits;
        line += "from disk";
        break;
      case KernelSource::Compiled:
        ++report.compiled;
        line += "compiled, since " + each.miss_reason;
        report.miss_reasons.push_back(
            fmt::format("@{}: {}", kernels[i]->kernel_name(), each.miss_reason));
        break;
    }
    if (log_cache) log_info(line);
  }
  report.kernels = static_cast<int>(kernels.size());
  report.unique_kernels = static_cast<int>(seen.size());
}

}  // namespace

std::unique_ptr<Executable> compile(std::unique_ptr<ir::Module> module, const std::string& function,
                                    const CompileOptions& options, CompileReport* report) {
  Clock::time_point start = Clock::now();
  CompileReport own;
  CompileReport& out = report ? *report : own;
  out = {};
  ir::DebugOptions debug = options.debug;
  if (debug == ir::DebugOptions()) debug = ir::debug_options_from_environment(passes::pass_names());
  warn_of_unserved(debug);
  debug.to = dump_folder(debug.to);

  const bool cuda = options.device.kind == DeviceId::Kind::Cuda;
  MEZZO_CHECK(options.device.kind != DeviceId::Kind::Interpreter,
              "the interpreter compiles nothing");
  std::shared_ptr<CudaContext> gpu;
  if (cuda) gpu = cuda_context(options.device.ordinal);
  warn_of_words(debug, cuda);
  std::shared_ptr<ThreadPool> pool = shared_thread_pool(options.threads);

  // All below may rely on what the verifier promises: references, plans, places.
  passes::check_valid(*module);
  keep_only(*module, find_function(*module, function));
  const passes::Pipeline pipeline =
      choose_pipeline(*module, find_function(*module, function), options, Engine::Compiled);
  out.pipeline = passes::print_pipeline(pipeline);

  passes::PassContext context;
  const std::string target = target_name(*module, pipeline, options);
  context.target = cuda ? gpu_target(*gpu, target) : cpu_target(target);
  passes::ManagerOptions manager;
  manager.debug = debug;
#ifndef NDEBUG
  manager.verify = true;
#endif
  passes::PipelineReport passed = passes::run_pipeline(*module, pipeline, manager, context);
  out.findings = std::move(passed.findings);
  for (const passes::StepReport& step : passed.steps)
    out.timings.push_back({step.pass->name, step.milliseconds});
  if (module->stage() != ir::Stage::Planned) {
    const char* stage = to_string(module->stage());
    blame_debug_words(debug,
                      fmt::format("the module stays at stage {}, which does not run", stage));
    throw UserError({},
                    fmt::format("the pipeline leaves the module at stage {}, not planned: {}",
                                stage, out.pipeline),
                    "it must end in plan-memory");
  }

  const ir::Function& planned = find_function(*module, function);
  std::vector<const ir::Op*> kernels;
  for (const ir::Op& op : planned.body())
    if (op.kind() == ir::OpKind::Kernel) kernels.push_back(&op);
  check_plans(planned, context.target);
  if (cuda) tell_of_emulation(kernels, *gpu);
  dump_kernels(kernels, function, context.target, debug);
  count_ops(kernels, out);

  Clock::time_point generation = Clock::now();
  std::string rounding = module->attrs().get_string("rounding", "as-written");
  std::unique_ptr<KernelBackend> backend;
  if (cuda)
    backend = std::make_unique<CudaBackend>(gpu);
  else
    backend = std::make_unique<CpuBackend>(context.target);
  std::vector<HelperCode> helpers;
  if (cuda) helpers = CudaStep::helpers(gpu, planned);
  const std::vector<StoredKernel> loaded = load_kernels(
      kernels, KeyContext::here(rounding, context.target), *backend,
      {.disk = options.disk_cache, .pool = options.background ? nullptr : pool.get()}, helpers);
  const std::span<const StoredKernel> stored = std::span(loaded).first(kernels.size());
  count_sources(kernels, stored, debug.cache, out);
  out.timings.push_back({"kernels", milliseconds_since(generation)});

  Clock::time_point binding = Clock::now();
  const RunLog log{debug.launch, debug.numerics};
  auto executable =
      cuda ? make_cuda_executable(std::move(module), planned, stored, std::move(gpu), log,
                                  options.disk_cache)
           : make_cpu_executable(std::move(module), planned, stored, std::move(pool), log);
  out.timings.push_back({"executable", milliseconds_since(binding)});
  out.milliseconds = milliseconds_since(start);
  if (debug.dumps("plan")) {
    std::string text = fmt::format("// plan of @{}, arena {}\n", function,
                                   ir::counted(executable->arena_bytes(), "byte"));
    for (const std::string& line : executable->launch_lines()) text += "// " + line + "\n";
    write_dump(debug, function + ".plan.txt", text);
  }
  if (debug.time) {
    std::string text;
    for (const CompileReport::Timing& timing : std::span(out.timings).last(2))
      text += fmt::format("{:9.3f} ms  {}\n", timing.milliseconds, timing.name);
    write_dump(debug, "times-kernels.txt",
               text + fmt::format("{:9.3f} ms  compilation of @{}\n", out.milliseconds, function));
  }
  return executable;
}

}  // namespace mezzo::runtime
