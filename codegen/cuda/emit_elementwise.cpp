// SPDX-License-Identifier: Apache-2.0
// Elementwise and movement kernels: one vector of consecutive elements a thread. Operands that run
// along the vector are loaded 16 bytes at a time, results stored likewise; whatever does not change
// within a vector is computed once for it. The last vector of a tensor may be short: its spare
// lanes repeat the last element and are not stored.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

void write_elements(RegionText& region, const ir::Op& kernel, const ElementRange& range) {
  const ir::Shape space = ir::kernel_space(kernel).space;
  const int lanes = region.lanes();
  region.enter(4);
  region.enter_lanes(4);
  const TextIndex vector{
      .base = "i", .stride = lanes > 1 ? 1 : 0, .multiple = lanes, .level = Level::Iteration};
  if (lanes > 1)
    region.lazy(Level::Lane, "e",
                range.tail ? fmt::format("i + j < {0} ? i + j : {0}", range.last) : "i + j");
  const TextCoordinates coordinates = region.decompose(space.dims(), "c", vector, "e");
  region.add_identity(space, coordinates, vector);
  if (range.tail) {
    region.lazy(
        Level::Iteration, "count",
        fmt::format("{0} - i < {1} ? {0} - i : {1}", range.elements, region.index_literal(lanes)));
    region.set_tail("count", "e");
  }

  const ir::Op* yield = kernel.body()->terminator();
  // All are evaluated before any is stored: a result may overwrite an operand in place.
  std::vector<std::string> stores;
  for (int r = 0; r < yield->num_operands(); ++r) {
    const std::string result = region.eval_to_store(yield->operand(r), coordinates).text;
    const std::string count =
        range.tail ? region.index_text({.base = "count", .level = Level::Iteration}) : "";
    stores.push_back(region.store_result(r, result, "i", lanes > 1 ? count : ""));
  }
  region.leave_lanes();
  for (const std::string& store : stores) region.writer(Level::Iteration).line(store);
  const std::string body = region.leave();
  SourceWriter& thread = region.writer(Level::Thread);
  // Every thread reads an operand of one element, whose place one of them may write.
  if (space.elements() == 1 && region.may_write_in_place()) thread.line("__syncthreads();");
  thread.open(range.head);
  thread.append(body);
  thread.close();
}

CudaSource emit_cuda_elementwise(const ir::Op& kernel, const ir::Plan& plan,
                                 const std::string& name) {
  if (std::optional<CudaSource> tiles = emit_cuda_tiles(kernel, plan, name)) return *tiles;
  const int64_t elements = ir::kernel_space(kernel).space.elements();
  const int lanes = static_cast<int>(plan.vector);
  RegionText region(kernel, lanes);
  region.enter(2);
  region.eval_scalars();
  region.writer(Level::Thread)
      .line(fmt::format("const {0} i = (({0})blockIdx.x * {1} + threadIdx.x) * {2};",
                        region.index_type(), plan.threads, lanes));
  const std::string count = region.index_literal(elements);
  write_elements(region, kernel,
                 {.head = fmt::format("if (i < {})", count),
                  .elements = count,
                  .last = region.index_literal(std::max<int64_t>(elements, 1) - 1),
                  .tail = elements % lanes != 0});

  CudaSource source;
  source.name = name;
  source.launches.push_back({name, static_cast<int>(plan.threads),
                             (elements + plan.threads * lanes - 1) / (plan.threads * lanes)});
  source.text = region.finish(name, plan.threads);
  source.checks_index = region.checks_index();
  return source;
}

}  // namespace mezzo::codegen
