// SPDX-License-Identifier: Apache-2.0
// The machine in one line, and what it does with each 16-bit type.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/dsl/device.h>
#include <mezzo/runtime/machine_text.h>

#include <fmt/format.h>

#include <thread>

namespace mezzo {

std::string describe_machine() {
  ir::Target target = codegen::native_target();
  return fmt::format("CPU, {} hardware threads, vectors of {} bits; f16: {}; bf16: {}",
                     std::thread::hardware_concurrency(), 8 * target.vector_bytes,
                     runtime::f16_text(target), runtime::bf16_text(target));
}

}  // namespace mezzo
