// SPDX-License-Identifier: Apache-2.0
// The targets that have names: the x86-64 levels and NVIDIA's architectures. A name alone must give
// a plan, so that the sizes of a common machine stand in for what only a real one could tell.
#include <mezzo/ir/target.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <iterator>

namespace mezzo::ir {
namespace {

// The features that each level adds to the one before, by the x86-64 psABI, in LLVM's words.
constexpr const char* kLevel2[] = {"cmov", "crc32",  "cx16",   "cx8",   "fxsr",
                                   "mmx",  "popcnt", "sahf",   "sse",   "sse2",
                                   "sse3", "sse4.1", "sse4.2", "ssse3", "x87"};
constexpr const char* kLevel3[] = {"avx", "avx2",  "bmi",   "bmi2", "f16c",
                                   "fma", "lzcnt", "movbe", "xsave"};
constexpr const char* kLevel4[] = {"avx512bw", "avx512cd", "avx512dq",
                                   "avx512f",  "avx512vl", "evex512"};

struct CudaArchitecture {
  int compute_capability;
  int shared_kilobytes;  // the most that one block may ask for
  int multiprocessors;   // of the architecture's common data-centre or workstation card
};

// Shared memory is from the table of technical specifications in NVIDIA's CUDA programming guide.
constexpr CudaArchitecture kCuda[] = {
    {75, 64, 40},    {80, 163, 108},  {86, 99, 84},   {87, 163, 16},  {89, 99, 142}, {90, 227, 132},
    {100, 227, 148}, {103, 227, 148}, {110, 227, 20}, {120, 99, 170}, {121, 99, 48},
};

Target cpu(const std::string& name, int level) {
  Target target;
  target.name = name;
  target.features.assign(std::begin(kLevel2), std::end(kLevel2));
  if (level >= 3) {
    target.features.insert(target.features.end(), std::begin(kLevel3), std::end(kLevel3));
    target.vector_bytes = 32;
    target.fma = true;
    target.f16c = true;
  }
  if (level >= 4) {
    target.features.insert(target.features.end(), std::begin(kLevel4), std::end(kLevel4));
    target.vector_bytes = 64;
    target.vector_registers = 32;
    target.l2_bytes = 1 << 20;
  }
  std::sort(target.features.begin(), target.features.end());
  return target;
}

}  // namespace

bool Target::has(const std::string& feature) const {
  return std::binary_search(features.begin(), features.end(), feature);
}

Target target_by_name(const std::string& name) {
  if (name == "native")
    throw UserError({},
                    "target 'native' is not resolved: these are facts that only the back end "
                    "can ask the machine for",
                    "name a target, or let compile() or `mezzo` resolve it");
  std::vector<std::string> known{"native"};
  for (int level : {2, 3, 4}) {
    known.push_back("x86-64-v" + std::to_string(level));
    if (name == known.back()) return cpu(name, level);
  }
  for (const CudaArchitecture& architecture : kCuda) {
    known.push_back("sm_" + std::to_string(architecture.compute_capability));
    if (name != known.back()) continue;
    Target target;
    target.kind = Target::Kind::Cuda;
    target.name = name;
    target.compute_capability = architecture.compute_capability;
    target.shared_bytes = int64_t{architecture.shared_kilobytes} << 10;
    target.multiprocessors = architecture.multiprocessors;
    return target;
  }
  std::string list;
  for (const std::string& word : known) list += (list.empty() ? "" : ", ") + word;
  throw UserError({}, "unknown target '" + name + "'" + did_you_mean(name, known),
                  "known targets: " + list);
}

std::string to_string(const Target& target) {
  std::string out = target.name;
  const auto fact = [&out](const char* word, int64_t value) {
    out += std::string(" ") + word + "=" + std::to_string(value);
  };
  if (target.kind == Target::Kind::Cuda) {
    fact("compute", target.compute_capability);
    fact("shared", target.shared_bytes);
    fact("multiprocessors", target.multiprocessors);
    return out;
  }
  fact("vector", target.vector_bytes);
  fact("registers", target.vector_registers);
  fact("fma", target.fma);
  fact("f16c", target.f16c);
  fact("avx512bf16", target.avx512bf16);
  fact("l1", target.l1_bytes);
  fact("l2", target.l2_bytes);
  fact("l3", target.l3_bytes);
  out += " features=";
  for (size_t i = 0; i < target.features.size(); ++i)
    out += (i == 0 ? "" : ",") + target.features[i];
  return out;
}

}  // namespace mezzo::ir
