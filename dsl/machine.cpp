// SPDX-License-Identifier: Apache-2.0
// The machine in one line, and what it does with each 16-bit type.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/dsl/device.h>

#include <fmt/format.h>

#include <thread>

namespace mezzo {

std::string describe_machine() {
  ir::Target target = codegen::native_target();
  const char* f16_by = target.f16c ? "converted (F16C)" : "emulated (integer code)";
  const char* bf16_by = target.avx512bf16 ? "native products (AVX512-BF16), else converted"
                                          : "converted (integer code)";
  return fmt::format("CPU, {} hardware threads, vectors of {} bits; f16: {}; bf16: {}",
                     std::thread::hardware_concurrency(), 8 * target.vector_bytes, f16_by, bf16_by);
}

}  // namespace mezzo
