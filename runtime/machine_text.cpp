// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/machine_text.h>

namespace mezzo::runtime {

std::string f16_text(const ir::Target& target) {
  return target.f16c ? "converted (F16C)" : "emulated (integer code)";
}

std::string bf16_text(const ir::Target& target) {
  return target.avx512bf16 ? "native products (AVX512-BF16), else converted"
                           : "converted (integer code)";
}

}  // namespace mezzo::runtime
