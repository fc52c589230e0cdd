// SPDX-License-Identifier: Apache-2.0
// Compiling, loading and unloading of kernels, the conversion helpers they call, and that
// AddressSanitizer sees into them.
#include <mezzo/codegen/llvm/orc.h>

#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>

#include <doctest/doctest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace mezzo;
using namespace mezzo::codegen;

namespace {

/// Kernel `k`: buffer 1 [i] = buffer 0 [i] + 1 for the tasks i, f32.
ModuleBuilder add_one_module() {
  ModuleBuilder module("add_one", native_target());
  KernelFrame frame(module, "k");
  auto& b = frame.builder();
  frame.loop(frame.first_task(), frame.last_task(), 1, [&](llvm::Value* i) {
    llvm::Type* f32 = b.getFloatTy();
    llvm::Value* x = b.CreateLoad(f32, b.CreateGEP(f32, frame.buffer(0), i));
    llvm::Value* y = b.CreateFAdd(x, llvm::ConstantFP::get(f32, 1.0));
    b.CreateStore(y, b.CreateGEP(f32, frame.buffer(1), i));
  });
  frame.close();
  return module;
}

/// Kernel `k`: buffer 1 [i] = buffer 0 [i] converted, for the tasks i.
ModuleBuilder convert_module(const ir::Target& target, bool from_f64, bool to_bf16) {
  ModuleBuilder module("convert", target);
  KernelFrame frame(module, "k");
  auto& b = frame.builder();
  frame.loop(frame.first_task(), frame.last_task(), 1, [&](llvm::Value* i) {
    llvm::Type* from = from_f64 ? b.getDoubleTy() : b.getFloatTy();
    llvm::Type* to = to_bf16 ? b.getBFloatTy() : b.getHalfTy();
    llvm::Value* x = b.CreateLoad(from, b.CreateGEP(from, frame.buffer(0), i));
    b.CreateStore(b.CreateFPTrunc(x, to), b.CreateGEP(to, frame.buffer(1), i));
  });
  frame.close();
  return module;
}

void run(const LoadedCode& code, std::vector<void*> buffers, int64_t tasks) {
  const KernelArgs args{buffers.data(), nullptr, nullptr};
  code.kernel("k")(&args, 0, tasks, nullptr);
}

}  // namespace

TEST_CASE("a compiled kernel runs its range of tasks only") {
  Jit jit;
  const LoadedCode code = jit.load(compile_module(add_one_module()));
  std::vector<float> x = {1, 2, 3, 4}, y(4, 0.0f);
  void* buffers[] = {x.data(), y.data()};
  const KernelArgs args{buffers, nullptr, nullptr};
  code.kernel("k")(&args, 1, 3, nullptr);
  CHECK(y == std::vector<float>{0, 3, 4, 0});
}

TEST_CASE("two objects may define the same symbol and live longer than the jit") {
  LoadedCode first, second;
  {
    Jit jit;
    const ObjectCode object = compile_module(add_one_module());
    first = jit.load(object);
    second = jit.load(object);
    CHECK(first.find("k") != second.find("k"));
  }
  first = LoadedCode();
  std::vector<float> x = {1}, y = {0};
  run(second, {x.data(), y.data()}, 1);
  CHECK(y[0] == 2.0f);
}

TEST_CASE("an unknown symbol and a malformed object are internal errors") {
  Jit jit;
  const LoadedCode code = jit.load(compile_module(add_one_module()));
  CHECK_THROWS_AS(code.find("missing"), InternalError);
  ObjectCode garbage;
  garbage.bytes.resize(64);
  CHECK_THROWS_AS(jit.load(garbage).find("k"), InternalError);
  CHECK_THROWS_AS(LoadedCode().find("k"), InternalError);
}

TEST_CASE("a malformed module is an internal error with the verifier's words") {
  ModuleBuilder module("broken", native_target());
  KernelFrame frame(module, "k");
  llvm::BasicBlock::Create(module.context(), "open", frame.function());
  frame.close();
  CHECK_THROWS_WITH_AS(compile_module(std::move(module)), doctest::Contains("terminator"),
                       InternalError);
}

TEST_CASE("conversions that llvm leaves to helpers round once") {
  Jit jit;
  for (const ir::Target& target : {native_target(), ir::target_by_name("x86-64-v2")}) {
    // 1 + 2^-11 + 2^-40 rounds up in f16 from f64; by way of f32 the last bit would be lost and the
    // tie go down.
    double wide = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
    uint16_t bits = 0;
    run(jit.load(compile_module(convert_module(target, true, false))), {&wide, &bits}, 1);
    CHECK(bits == 0x3C01);
    wide = 1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40);
    run(jit.load(compile_module(convert_module(target, true, true))), {&wide, &bits}, 1);
    CHECK(bits == 0x3F81);
    float narrow = 65520.0f;
    run(jit.load(compile_module(convert_module(target, false, false))), {&narrow, &bits}, 1);
    CHECK(bits == 0x7C00);
    // The processor's own instruction is no helper: it flushes subnormals, and no kernel uses it.
    if (target.avx512bf16) continue;
    narrow = std::ldexp(1.0f, -127);
    run(jit.load(compile_module(convert_module(target, false, true))), {&narrow, &bits}, 1);
    CHECK(bits == 0x0040);
  }
}

TEST_CASE("objects are loaded and unloaded from several threads") {
  Jit jit;
  const ObjectCode object = compile_module(add_one_module());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        float x = 1, y = 0;
        run(jit.load(object), {&x, &y}, 1);
        if (y == 2.0f) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 80);
}

TEST_CASE("texts of a module name its instructions at every stage") {
  CHECK(llvm_text(add_one_module()).find("fadd float") != std::string::npos);
  CHECK(optimized_llvm_text(add_one_module()).find("fadd float") != std::string::npos);
  CHECK(assembly_text(add_one_module()).find("addss") != std::string::npos);
  CHECK(llvm_version().starts_with("19."));
}

TEST_CASE("native facts are those of the machine") {
  const ir::Target host = native_target();
  CHECK(host.kind == ir::Target::Kind::Cpu);
  CHECK(host.has("sse2"));
  CHECK(host.l1_bytes >= 8 << 10);
  CHECK(host.l2_bytes > host.l1_bytes);
  CHECK(resolve_target("native") == host);
}

TEST_CASE("an out-of-bounds read in a compiled kernel dies under address sanitizer" *
          doctest::skip(!sanitized_build())) {
  Jit jit;
  const LoadedCode code = jit.load(compile_module(add_one_module()));
  auto dies = [&](int64_t tasks) {
    const pid_t child = fork();
    if (child == 0) {
      // The report belongs to this test, not to the reader of its output.
      close(STDERR_FILENO);
      std::vector<float> x(4, 1.0f), y(64, 0.0f);
      run(code, {x.data(), y.data()}, tasks);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  };
  CHECK_FALSE(dies(4));
  CHECK(dies(5));
}
