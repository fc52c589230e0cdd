// SPDX-License-Identifier: Apache-2.0
// The machine in one line, and what it does with each 16-bit type.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/dsl/device.h>
#include <mezzo/runtime/cuda_driver.h>
#include <mezzo/runtime/machine_text.h>

#include <fmt/format.h>

#include <thread>

namespace mezzo {

std::string describe_machine(Device device) {
  ir::Target target = codegen::native_target();
  std::string machine = fmt::format("CPU, {} hardware threads, vectors of {} bits",
                                    std::thread::hardware_concurrency(), 8 * target.vector_bytes);
  if (device.is_cuda()) {
    const runtime::CudaDeviceFacts facts = runtime::cuda_device_facts(device.id().ordinal);
    target = runtime::cuda_target(facts);
    machine = fmt::format("{}: {}, {}, {} multiprocessors, {:.1f} GiB", device.name(), facts.name,
                          target.name, facts.multiprocessors,
                          static_cast<double>(facts.memory_bytes) / (int64_t{1} << 30));
  }
  return fmt::format("{}; f16: {}; bf16: {}", machine, runtime::f16_text(target),
                     runtime::bf16_text(target));
}

}  // namespace mezzo
