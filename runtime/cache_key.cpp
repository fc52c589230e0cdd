// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cache_key.h>

#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/codegen/llvm/orc.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/generated/generator_id.h>
#include <mezzo/ir/hash.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/runtime/cuda_driver.h>

#include <algorithm>

namespace mezzo::runtime {

namespace {

/// Of what KernelStore puts into an entry; a new layout must not read old entries.
constexpr int kFormat = 3;

}  // namespace

KeyContext KeyContext::here(std::string rounding, const ir::Target& target) {
  if (target.kind == ir::Target::Kind::Cuda) {
    return {std::move(rounding), target, MEZZO_GENERATOR_ID,
            "nvrtc " + cuda_version_text(codegen::nvrtc_version()), false};
  }
  return {std::move(rounding), target, MEZZO_GENERATOR_ID, "llvm " + codegen::llvm_version(),
          codegen::sanitized_build()};
}

std::string kernel_key(const ir::Op& kernel, const KeyContext& context) {
  ir::Hash128 hash;
  hash.update(kFormat).update(ir::kernel_hash(kernel));
  // The number of a word is an argument, but code is made for the slots: which ops set a flag, and
  // which of them set the same one.
  std::vector<int64_t> words = ir::kernel_words(kernel);
  for (const ir::Op& op : *kernel.body()) {
    const ir::Attr* word = op.attrs().find("word");
    if (!word) {
      hash.update(-1);
      continue;
    }
    hash.update(std::find(words.begin(), words.end(), word->as<int64_t>()) - words.begin());
  }
  hash.update(context.rounding).update(ir::to_string(context.target));
  hash.update(context.generator).update(context.compiler).update(context.sanitized);
  return hash.hex();
}

}  // namespace mezzo::runtime
