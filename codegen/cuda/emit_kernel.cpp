// SPDX-License-Identifier: Apache-2.0
// From a kernel's family to its emitter, and from kernels to a program.
#include <mezzo/codegen/cuda/emit_kernel.h>

#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>

namespace mezzo::codegen {

extern const std::string_view kPreludeTypes;
extern const std::string_view kPreludeMemory;
extern const std::string_view kPreludeReduce;
extern const std::string_view kPreludeMatrix;
extern const std::string_view kPreludeScatter;
extern const std::string_view kPreludeAxis;

using ir::Family;

namespace {

/// The kernel in a function of its own, so that names and the printed text are those of the kernel
/// wherever it stands, and naming costs no more than the kernel is long.
std::unique_ptr<ir::Module> isolated(const ir::Op& kernel) {
  auto module = std::make_unique<ir::Module>("kernel");
  ir::Function* function = module->add_function("f");
  ir::ValueMap map;
  for (int i = 0; i < kernel.num_operands(); ++i)
    map[kernel.operand(i).def()] =
        function->add_parameter(kernel.operand(i).type(), kernel.body()->parameter(i).name());
  ir::clone_op(kernel, function->body(), nullptr, map);
  return module;
}

}  // namespace

CudaSource emit_cuda_kernel(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name) {
  MEZZO_CHECK(target.kind == ir::Target::Kind::Cuda,
              "a CUDA kernel is emitted for the target " + target.name);
  MEZZO_CHECK(kernel.has_plan(), "kernel @" + kernel.kernel_name() + " has no plan");
  const ir::Plan plan = ir::Plan::from(kernel.plan());
  const Family family = ir::family_of(kernel);
  MEZZO_CHECK(plan.threads > 0 && plan.threads % 32 == 0 && plan.threads <= 1024 && plan.vector > 0,
              fmt::format("kernel @{}: the plan (threads = {}, vector = {}) is not one of CUDA",
                          kernel.kernel_name(), plan.threads, plan.vector));
  const std::unique_ptr<ir::Module> module = isolated(kernel);
  const ir::Op& copy = *module->functions()[0]->body().begin();
  switch (family) {
    case Family::Matmul:
      return emit_cuda_matmul(copy, target, name);
    case Family::Rows:
      return emit_cuda_rows(copy, plan, name);
    case Family::Columns:
      return emit_cuda_columns(copy, plan, name);
    case Family::RowsColumns:
      return emit_cuda_rows_columns(copy, plan, name);
    case Family::Scan:
      return emit_cuda_scan(copy, plan, name);
    case Family::Sort:
      return emit_cuda_sort(copy, plan, name);
    case Family::Optimizer:
      return emit_cuda_optimizer(copy, plan, name);
    case Family::Scatter:
      return emit_cuda_scatter(copy, plan, name);
    case Family::Elementwise:
    case Family::Movement:
      break;
  }
  return emit_cuda_elementwise(copy, plan, name);
}

std::string cuda_program(std::span<const CudaSource> kernels) {
  MEZZO_CHECK(kernels.size() <= kMaxKernelsPerProgram,
              fmt::format("{} kernels in one CUDA program, at most {}", kernels.size(),
                          kMaxKernelsPerProgram));
  std::string text;
  text.append(kPreludeTypes)
      .append("\n")
      .append(kPreludeMemory)
      .append("\n")
      .append(kPreludeReduce);
  if (std::ranges::any_of(kernels, &CudaSource::matrix)) text.append("\n").append(kPreludeMatrix);
  if (std::ranges::any_of(kernels, &CudaSource::scatter)) text.append("\n").append(kPreludeScatter);
  if (std::ranges::any_of(kernels, &CudaSource::axis)) text.append("\n").append(kPreludeAxis);
  // Device functions are the same wherever they are needed; each kernel has them in a namespace of
  // its own.
  for (const CudaSource& kernel : kernels)
    text += fmt::format("\nnamespace in_{} {{\n\n{}\n}}\n", kernel.name, kernel.text);
  return text;
}

}  // namespace mezzo::codegen
