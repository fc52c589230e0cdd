// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/machine_text.h>

namespace mezzo::runtime {

std::string f16_text(const ir::Target& target) {
  if (target.kind == ir::Target::Kind::Cuda) return "native";
  return target.f16c ? "converted (F16C)" : "emulated (integer code)";
}

std::string bf16_text(const ir::Target& target) {
  if (target.kind == ir::Target::Kind::Cuda)
    return target.compute_capability >= 80 ? "native" : "emulated (integer code)";
  return target.avx512bf16 ? "native products (AVX512-BF16), else converted"
                           : "converted (integer code)";
}

}  // namespace mezzo::runtime
