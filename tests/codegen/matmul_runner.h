// SPDX-License-Identifier: Apache-2.0
// Compiles one matrix product and runs it on plain buffers, with exactly the memory that the plan
// asks for, so that AddressSanitizer sees every step outside.
#pragma once

#include <mezzo/codegen/llvm/emit_matmul.h>
#include <mezzo/codegen/llvm/orc.h>

#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace mezzo::testing {

struct AlignedFree {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<void, AlignedFree>;

inline AlignedMemory aligned_memory(int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + 63) / 64 * 64;
  return AlignedMemory(std::aligned_alloc(64, size > 0 ? size : 64));
}

class MatmulRunner {
 public:
  MatmulRunner(codegen::Jit& jit, const ir::MatmulSpec& spec, const ir::Target& target,
               const codegen::MatmulHooks& hooks = {})
      : launches_(codegen::matmul_launches(spec, "product")),
        workspace_(aligned_memory(ir::workspace_bytes(spec))),
        scratch_bytes_(ir::scratch_bytes(spec)) {
    codegen::ModuleBuilder module("product", target);
    codegen::emit_matmul(module, spec, "product", hooks);
    code_ = jit.load(codegen::compile_module(std::move(module)));
    for (const auto& launch : launches_) functions_.push_back(code_.kernel(launch.symbol));
  }

  /// Each launch's tasks in `parts` contiguous ranges, each on a thread of its own when `parallel`,
  /// else last first.
  void run(const void* a, const void* b, void* c, int64_t parts = 1, bool parallel = false) {
    void* buffers[] = {const_cast<void*>(a), const_cast<void*>(b), c, workspace_.get()};
    const codegen::KernelArgs args{buffers, nullptr, nullptr};
    while (static_cast<int64_t>(scratch_.size()) < (parallel ? parts : 1)) {
      scratch_.push_back(aligned_memory(scratch_bytes_));
    }
    for (size_t i = 0; i < launches_.size(); ++i) {
      const int64_t tasks = launches_[i].tasks;
      std::vector<std::thread> threads;
      for (int64_t part = parts - 1; part >= 0; --part) {
        const int64_t first = tasks * part / parts, last = tasks * (part + 1) / parts;
        void* scratch = scratch_[parallel ? static_cast<size_t>(part) : 0].get();
        auto work = [=, this, &args] { functions_[i](&args, first, last, scratch); };
        if (parallel && part > 0) {
          threads.emplace_back(work);
        } else {
          work();
        }
      }
      for (auto& thread : threads) thread.join();
    }
  }

  const std::vector<codegen::KernelLaunch>& launches() const { return launches_; }

 private:
  std::vector<codegen::KernelLaunch> launches_;
  codegen::LoadedCode code_;
  std::vector<codegen::KernelFunction> functions_;
  AlignedMemory workspace_;
  int64_t scratch_bytes_;
  std::vector<AlignedMemory> scratch_;
};

}  // namespace mezzo::testing
