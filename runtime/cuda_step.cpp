// SPDX-License-Identifier: Apache-2.0
// Tables in device memory for the two kernels of codegen/cuda/step_kernels.h, one for each op.
#include <mezzo/runtime/cuda_step.h>

#include <mezzo/codegen/cuda/step_kernels.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/hash128.h>
#include <mezzo/ir/verdict.h>
#include <mezzo/runtime/cache_key.h>
#include <mezzo/runtime/cuda_kernels.h>
#include <mezzo/runtime/cuda_memory.h>
#include <mezzo/runtime/run_plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace mezzo::runtime {

namespace {

using codegen::StepTensor;

HelperCode step_code(const std::shared_ptr<CudaContext>& context) {
  const KeyContext key = KeyContext::here("", context->target());
  const codegen::CudaSource source = codegen::cuda_step_kernels();
  HelperCode code;
  code.key = ir::Hash128()
                 .update("step kernels")
                 .update(codegen::cuda_program(std::span(&source, 1)))
                 .update(ir::to_string(key.target))
                 .update(key.generator)
                 .update(key.compiler)
                 .hex();
  code.description =
      fmt::format("the finite check and the verdict of a training step\ntarget {}\ncompiler {}\n",
                  to_string(key.target), key.compiler);
  code.compile = [source, context] { return compile_cuda_image(source, context->target().name); };
  code.usable = [context] { return context->fault().empty(); };
  code.load = [context](const KernelImage& image) {
    return load_cuda_image(image, context, "the finite check and the verdict of a training step");
  };
  return code;
}

std::shared_ptr<const LoadedCudaKernel> step_kernels(const std::shared_ptr<CudaContext>& context,
                                                     bool disk) {
  const std::string device = CudaBackend(context).device();
  return std::static_pointer_cast<const LoadedCudaKernel>(
      load_helper(step_code(context), device, {.disk = disk}).kernel);
}

class StepOnDevice final : public CudaStep {
 public:
  StepOnDevice(const std::shared_ptr<CudaContext>& context, const ir::Function& function,
               const RunPlan& plan, bool disk)
      : context_(context),
        function_(function),
        plan_(plan),
        verdict_table_(ir::VerdictTable::from(function)),
        kernels_(step_kernels(context, disk)) {}

  void bind(const Addresses& addresses) override {
    for (const RunStep& step : plan_.steps) {
      if (step.kernel >= 0) continue;
      const bool is_check = step.op->kind() == ir::OpKind::AllFinite;
      const std::vector<uint64_t> table =
          is_check ? finite_table(step, addresses) : verdict_table(step, addresses);
      const size_t bytes = table.size() * sizeof(uint64_t);
      Launch& launch = launches_[&step];
      if (launch.table.bytes() != bytes)
        launch.table = context_->allocate(
            bytes, fmt::format("the {} of @{}", step.op->info().name, function_.name()));
      launch.table.upload(table.data(), bytes);
      launch.address = launch.table.address();
      launch.number = is_check ? codegen::kAllFiniteLaunch : codegen::kVerdictLaunch;
    }
  }

  void launch(const RunStep& step) const override {
    const Launch& launch = launches_.at(&step);
    const LoadedCudaKernel::Launch& kernel = kernels_->launches[launch.number];
    const std::array<const void*, 1> parameters = {&launch.address};
    kernel.kernel.launch(kernel.blocks, kernel.threads, kernel.shared_bytes, parameters);
  }

 private:
  struct Launch {
    size_t number = 0;  // of the kernel
    DeviceBuffer table;
    uint64_t address = 0;  // of the table, which is the kernel's parameter
  };

  uint64_t word(const Addresses& addresses, int64_t number) const {
    return addresses.words + static_cast<uint64_t>(number) * sizeof(uint32_t);
  }
  static uint64_t buffer(const Addresses& addresses, int number) {
    return addresses.buffers[static_cast<size_t>(number)];
  }

  std::vector<uint64_t> finite_table(const RunStep& step, const Addresses& addresses) const {
    std::vector<StepTensor> tensors;
    std::vector<uint64_t> words;
    for (const JudgedValue& value : step.judged) {
      tensors.push_back({value.type, buffer(addresses, value.buffer)});
      words.push_back(value.word < 0 ? 0 : word(addresses, value.word));
    }
    return codegen::all_finite_table(tensors, words,
                                     {.index_flag = word(addresses, plan_.words),
                                      .result = buffer(addresses, step.buffers.back())});
  }

  std::vector<uint64_t> verdict_table(const RunStep& step, const Addresses& addresses) const {
    std::vector<StepTensor> parameters;
    for (int i = 0; i < function_.num_parameters(); ++i)
      parameters.push_back(
          {function_.parameter(i).type(), addresses.parameters[static_cast<size_t>(i)]});
    StepTensor loss{ir::Type(ir::DType::F32, {0})};
    if (plan_.loss >= 0) loss = {function_.results()[0].type(), buffer(addresses, plan_.loss)};
    return codegen::verdict_table(verdict_table_, parameters, loss,
                                  {.ok = buffer(addresses, step.buffers[0]),
                                   .index_flag = word(addresses, plan_.words),
                                   .words = addresses.words,
                                   .result = buffer(addresses, step.buffers.back())});
  }

  std::shared_ptr<CudaContext> context_;
  const ir::Function& function_;
  const RunPlan& plan_;
  ir::VerdictTable verdict_table_;
  std::shared_ptr<const LoadedCudaKernel> kernels_;
  std::unordered_map<const RunStep*, Launch> launches_;
};

}  // namespace

std::vector<HelperCode> CudaStep::helpers(const std::shared_ptr<CudaContext>& context,
                                          const ir::Function& function) {
  for (const ir::Op& op : function.body())
    if (op.kind() == ir::OpKind::AllFinite || op.kind() == ir::OpKind::Verdict)
      return {step_code(context)};
  return {};
}

std::unique_ptr<CudaStep> CudaStep::make(const std::shared_ptr<CudaContext>& context,
                                         const ir::Function& function, const RunPlan& plan,
                                         bool disk) {
  const bool judges = std::any_of(plan.steps.begin(), plan.steps.end(),
                                  [](const RunStep& step) { return step.kernel < 0; });
  if (!judges) return nullptr;
  return std::make_unique<StepOnDevice>(context, function, plan, disk);
}

}  // namespace mezzo::runtime
