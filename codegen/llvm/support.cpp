// SPDX-License-Identifier: Apache-2.0
// Host facts come from CPUID through LLVM (features, never the model name) and from sysfs (cache
// sizes).
#include <mezzo/codegen/llvm/support.h>

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <fstream>

namespace mezzo::codegen {
namespace {

/// Bytes of the data or unified cache of `level` that CPU 0 uses, or `otherwise` where the kernel
/// does not tell.
int64_t cache_bytes(int level, int64_t otherwise) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::ifstream level_file(folder + "level"), type_file(folder + "type"),
        size_file(folder + "size");
    int found = 0;
    std::string type;
    if (!(level_file >> found) || found != level) continue;
    if (!(type_file >> type) || type == "Instruction") continue;
    int64_t size = 0;
    char unit = 'B';
    if (!(size_file >> size) || size <= 0) continue;
    size_file >> unit;
    if (unit == 'K') size <<= 10;
    if (unit == 'M') size <<= 20;
    return size;
  }
  return otherwise;
}

ir::Target ask_host() {
  ir::Target target;
  target.kind = ir::Target::Kind::Cpu;
  target.name = "host";
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (feature.second) target.features.push_back(feature.first().str());
  }
#if defined(__x86_64__)
  target.features.push_back("x87");  // every processor of this kind has it; LLVM lists it nowhere
#endif
  std::sort(target.features.begin(), target.features.end());
  target.features.erase(std::unique(target.features.begin(), target.features.end()),
                        target.features.end());
  auto has = [&](const char* word) {
    return std::binary_search(target.features.begin(), target.features.end(), std::string(word));
  };
  const bool avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  target.vector_bytes = avx512 ? 64 : has("avx2") ? 32 : 16;
  target.vector_registers = avx512 ? 32 : 16;
  target.fma = has("fma");
  target.f16c = has("f16c");
  target.avx512bf16 = avx512 && has("avx512bf16");
  target.l1_bytes = cache_bytes(1, target.l1_bytes);
  target.l2_bytes = cache_bytes(2, target.l2_bytes);
  target.l3_bytes = cache_bytes(3, target.l3_bytes);
  return target;
}

}  // namespace

ir::Target native_target() {
  // Never freed: the destructor of a static of the program may compile.
  static const auto* host = new ir::Target(ask_host());
  return *host;
}

ir::Target resolve_target(const std::string& name) {
  return name == "native" ? native_target() : ir::target_by_name(name);
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace mezzo::codegen
