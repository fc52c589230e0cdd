// SPDX-License-Identifier: Apache-2.0
// Kernels from memory, from disk and from the code generator.
#include <mezzo/runtime/kernel_store.h>

#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/kernel_cache.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/thread_pool.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <runtime/compiled.h>
#include <runtime/temporary_folder.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

/// Points the kernel cache to a folder of its own for one test.
class CacheFolder {
 public:
  CacheFolder() {
    if (const char* value = std::getenv("MEZZO_CACHE_DIR")) before_ = value;
    ::setenv("MEZZO_CACHE_DIR", (folder_ / "cache").c_str(), 1);
  }
  ~CacheFolder() {
    before_.empty() ? ::unsetenv("MEZZO_CACHE_DIR")
                    : ::setenv("MEZZO_CACHE_DIR", before_.c_str(), 1);
  }
  fs::path path() const { return folder_ / "cache"; }

 private:
  TemporaryFolder folder_;
  std::string before_;
};

runtime::CompileReport compile_step(int rows = 5) {
  runtime::CompileReport report;
  compile_text(mlp_step_text(rows, 7, 6), "step", {.policy = "mixed_float16"}, &report);
  return report;
}

TEST_CASE("a second compilation finds every kernel on disk, and in memory while one is alive") {
  CacheFolder folder;
  runtime::CompileReport cold = compile_step();
  CHECK(cold.compiled == cold.unique_kernels);
  CHECK(cold.compiled > 0);
  CHECK(static_cast<int>(cold.miss_reasons.size()) == cold.compiled);
  for (const std::string& reason : cold.miss_reasons) CHECK(reason.find(": ") != std::string::npos);

  runtime::CompileReport warm = compile_step();
  CHECK(warm.compiled == 0);
  CHECK(warm.disk_hits == warm.unique_kernels);
  CHECK(warm.miss_reasons.empty());

  auto alive = compile_text(mlp_step_text(5, 7, 6), "step", {.policy = "mixed_float16"});
  runtime::CompileReport hot = compile_step();
  CHECK(hot.memory_hits == hot.unique_kernels);
}

TEST_CASE("kernels from disk compute the same bits") {
  CacheFolder folder;
  Tensors results[2];
  for (Tensors& each : results) {
    auto executable = compile_text(mlp_step_text(5, 7, 6), "step", {.policy = "mixed_float16"});
    each = run_compiled(*executable,
                        inputs_for(executable->function(), 9, {{"lr", 0.125}, {"scale", 1024}}))
               .results;
  }
  for (size_t i = 0; i < results[0].size(); ++i)
    CHECK(ir::describe_difference(results[0][i], results[1][i]) == "");
}

TEST_CASE("equal kernels of one function are compiled once") {
  runtime::CompileReport report;
  compile_text(R"(module @m {
  func @f(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
    %0 = sum %a {axes = [1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
    %1 = sum %b {axes = [1], keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
    return %0, %1 : (tensor<4x1xf32>, tensor<4x1xf32>)
  }
}
)",
               "f", in_memory({.fuse = false}), &report);
  CHECK(report.kernels == 2);
  CHECK(report.unique_kernels == 1);
  CHECK(report.compiled == 1);
}

TEST_CASE("a lost device is no reason to compile a stored helper anew") {
  CacheFolder folder;
  bool lost = false;
  int compiled = 0;
  runtime::HelperCode helper;
  helper.key = std::string(32, 'b');
  helper.compile = [&] {
    ++compiled;
    return runtime::KernelImage();
  };
  helper.load = [&](const runtime::KernelImage&) {
    if (lost) throw DeviceError("the device is lost");
    return std::make_shared<runtime::LoadedKernel>();
  };
  helper.usable = [&] { return !lost; };
  runtime::load_helper(helper, "noting", {});
  CHECK(compiled == 1);
  lost = true;
  CHECK_THROWS_WITH_AS(runtime::load_helper(helper, "noting", {}), "the device is lost",
                       DeviceError);
  CHECK(compiled == 1);
  // An entry that the device does not take is compiled anew.
  helper.usable = [] { return true; };
  CHECK_THROWS_AS(runtime::load_helper(helper, "noting", {}), DeviceError);
  CHECK(compiled == 2);
}

/// Makes nothing, notes the order of what it is asked for, and refuses some of it.
class NotingBackend final : public runtime::KernelBackend {
 public:
  explicit NotingBackend(std::set<std::string> refused = {}) : refused_(std::move(refused)) {}
  std::string device() const override { return "noting"; }
  runtime::KernelImage compile(const ir::Op& kernel, const std::string&) const override {
    const std::lock_guard lock(mutex_);
    asked.push_back(kernel.kernel_name());
    if (refused_.contains(kernel.kernel_name())) throw UserError({}, kernel.kernel_name());
    return {};
  }
  std::shared_ptr<runtime::LoadedKernel> load(const runtime::KernelImage&,
                                              const ir::Op&) const override {
    return std::make_shared<runtime::LoadedKernel>();
  }
  mutable std::vector<std::string> asked;

 private:
  std::set<std::string> refused_;
  mutable std::mutex mutex_;
};

std::vector<const ir::Op*> kernels_of(const ir::Function& function) {
  std::vector<const ir::Op*> kernels;
  for (const ir::Op& op : function.body())
    if (op.kind() == ir::OpKind::Kernel) kernels.push_back(&op);
  return kernels;
}

bool has_product(const ir::Op& kernel) {
  for (const ir::Op& op : *kernel.body())
    if (op.kind() == ir::OpKind::Matmul) return true;
  return false;
}

TEST_CASE("what takes longest is compiled first, helpers along with it") {
  const auto executable = compile_text(mlp_step_text(5, 7, 6), "step", in_memory());
  const std::vector<const ir::Op*> kernels = kernels_of(executable->function());
  const NotingBackend backend;
  int helped = 0;
  runtime::HelperCode helper;
  helper.key = std::string(32, 'a');
  helper.compile = [&] {
    ++helped;
    return runtime::KernelImage();
  };
  helper.load = [](const runtime::KernelImage&) {
    return std::make_shared<runtime::LoadedKernel>();
  };
  const auto loaded =
      runtime::load_kernels(kernels, runtime::KeyContext::here("", codegen::native_target()),
                            backend, {.disk = false}, std::span(&helper, 1));
  REQUIRE(loaded.size() == kernels.size() + 1);
  CHECK(loaded.back().kernel->key == helper.key);
  CHECK(helped == 1);
  // Products before other kernels of few ops.
  std::map<std::string, bool> products, small;
  for (const ir::Op* kernel : kernels) {
    products[kernel->kernel_name()] = has_product(*kernel);
    small[kernel->kernel_name()] =
        std::distance(kernel->body()->begin(), kernel->body()->end()) < 20;
  }
  std::vector<std::string> asked = backend.asked;
  CHECK(asked.size() == kernels.size());
  std::erase_if(asked, [&](const std::string& name) { return !small.at(name); });
  const auto is_product = [&](const std::string& name) { return products.at(name); };
  CHECK(std::ranges::is_partitioned(asked, is_product));
  CHECK(std::ranges::count_if(asked, is_product) > 1);
  CHECK_FALSE(is_product(asked.back()));
}

TEST_CASE(
    "of several kernels that cannot be compiled the first is named, by any number of threads") {
  const auto executable = compile_text(mlp_step_text(5, 7, 6), "step", in_memory());
  const std::vector<const ir::Op*> kernels = kernels_of(executable->function());
  // The simplest come last, products first.
  const auto product = std::ranges::find_if(kernels, [](auto* op) { return has_product(*op); });
  const auto simple = std::ranges::find_if(kernels, [](auto* op) { return !has_product(*op); });
  REQUIRE(product != kernels.end());
  REQUIRE(simple != kernels.end());
  const std::string first = (*std::min(product, simple))->kernel_name();
  runtime::ThreadPool pool(4);
  for (runtime::ThreadPool* threads : {static_cast<runtime::ThreadPool*>(nullptr), &pool}) {
    const NotingBackend backend({(*product)->kernel_name(), (*simple)->kernel_name()});
    CHECK_THROWS_WITH_AS(
        runtime::load_kernels(kernels, runtime::KeyContext::here("", codegen::native_target()),
                              backend, {.disk = false, .pool = threads}),
        doctest::Contains(first.c_str()), UserError);
  }
}

TEST_CASE("a manifest says in words what a binary is") {
  CacheFolder folder;
  compile_step();
  std::vector<runtime::DiskCache::Entry> entries = runtime::DiskCache(folder.path()).entries();
  REQUIRE_FALSE(entries.empty());
  for (const char* word : {"family", "plan", "rounding excess", "target", "llvm 19.1", "generator",
                           "launch", "kernel @k", "yield"})
    CHECK(entries[0].manifest.find(word) != std::string::npos);
}

TEST_CASE("a damaged entry is compiled anew with a warning, and then good again") {
  CacheFolder folder;
  int entries = compile_step().compiled;
  for (const auto& file : fs::directory_iterator(folder.path()))
    if (file.path().extension() == ".bin") write_text(file.path(), "not a kernel");
  int warnings = 0;
  runtime::LogSink before = runtime::set_log_sink([&](runtime::Level level, std::string_view) {
    warnings += level == runtime::Level::Warning;
  });
  runtime::CompileReport again = compile_step();
  runtime::set_log_sink(before);
  CHECK(again.compiled == entries);
  CHECK(warnings >= 1);
  CHECK(compile_step().compiled == 0);
}

TEST_CASE("a cache that cannot be written is one warning, and compilation goes on") {
  CacheFolder folder;
  write_text(folder.path(), "a file where a folder should be");
  int warnings = 0;
  runtime::LogSink before = runtime::set_log_sink([&](runtime::Level level, std::string_view) {
    warnings += level == runtime::Level::Warning;
  });
  runtime::CompileReport first = compile_step(), second = compile_step();
  runtime::set_log_sink(before);
  CHECK(first.compiled == first.unique_kernels);
  CHECK(second.compiled == second.unique_kernels);
  CHECK(warnings == 1);
}

TEST_CASE("eight processes fill one cache at the same time") {
  CacheFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // A fresh process: no pool, no kernels. It ends without the destructors of its parent.
      int status = 1;
      try {
        runtime::CompileReport report;
        compile_text(mlp_step_text(5, 7, 6), "step", {.policy = "float32", .threads = 1}, &report);
        status = report.compiled + report.disk_hits == report.unique_kernels ? 0 : 2;
      } catch (const std::exception&) {
        status = 3;
      }
      ::_exit(status);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  runtime::CompileReport report;
  compile_text(mlp_step_text(5, 7, 6), "step", {.policy = "float32"}, &report);
  CHECK(report.compiled == 0);
}

TEST_CASE("an image reads back, and a shortened or foreign one does not") {
  runtime::KernelImage image;
  image.code = {std::byte{1}, std::byte{2}, std::byte{3}};
  image.launches = {{.symbol = "first", .tasks = 12},
                    {.symbol = "second", .tasks = 1, .threads = 128, .shared_bytes = 4096}};
  image.checks_index = true;
  image.scratch_bytes = 640;
  image.workspace_bytes = 64;
  std::vector<std::byte> bytes = runtime::write_image(image);
  auto back = runtime::read_image(bytes);
  REQUIRE(back);
  CHECK(back->code == image.code);
  REQUIRE(back->launches.size() == 2);
  CHECK(back->launches[0].symbol == "first");
  CHECK(back->launches[0].tasks == 12);
  CHECK(back->launches[1].threads == 128);
  CHECK(back->launches[1].shared_bytes == 4096);
  CHECK(back->checks_index);
  CHECK_FALSE(back->indirect);
  CHECK(back->scratch_bytes == 640);
  CHECK(back->workspace_bytes == 64);
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(runtime::read_image(std::span(bytes).first(size)));
  bytes.push_back(std::byte{0});
  CHECK_FALSE(runtime::read_image(bytes));
  bytes.pop_back();
  bytes[0] ^= std::byte{1};
  CHECK_FALSE(runtime::read_image(bytes));
}

TEST_CASE("what cannot be compiled is refused in words") {
  std::string text = mlp_step_text(5, 7, 6);
  CHECK_THROWS_WITH_AS(compile_text(text, "stp", in_memory()),
                       doctest::Contains("there is no function @stp; did you mean 'step'?"),
                       UserError);
  CHECK_THROWS_WITH_AS(compile_text(text, "step", in_memory({.target = "sm_90"})),
                       doctest::Contains("target 'sm_90' is not a processor"), DeviceError);
  CHECK_THROWS_WITH_AS(compile_text(text, "step", in_memory({.pipeline = "canonicalize"})),
                       doctest::Contains("leaves the module at stage traced"), UserError);
}

/// Compiled and interpreted with `constant` in an elementwise op, a reduction and, for floats, the
/// epilogue of a product.
std::unique_ptr<runtime::Executable> compile_constant(const std::string& dtype,
                                                      const std::string& constant,
                                                      runtime::CompileReport* report) {
  const std::string scalar = fmt::format("tensor<{}>", dtype);
  const std::string matrix = fmt::format("tensor<5x5x{}>", dtype);
  const std::string sum = dtype == "u8" ? "i32" : dtype;
  std::string text, results = "%0, %2", types = matrix + ", " + matrix;
  text += fmt::format("  %c = constant {{value = {}}} : {}\n", constant, scalar);
  if (dtype == "bool") {
    text += fmt::format("  %0 = eq %x, %c : ({}, {}) -> {}\n", matrix, scalar, matrix);
    text += fmt::format("  %2 = where %x, %x, %c : ({0}, {0}, {1}) -> {0}\n", matrix, scalar);
  } else {
    text += fmt::format("  %0 = mul %x, %c : ({}, {}) -> {}\n", matrix, scalar, matrix);
    text += fmt::format("  %1 = max %x {{axes = [1], keepdims = true}} : {} -> tensor<5x1x{}>\n",
                        matrix, dtype);
    text += fmt::format("  %m = maximum %1, %c : (tensor<5x1x{0}>, {1}) -> tensor<5x1x{0}>\n",
                        dtype, scalar);
    text += fmt::format("  %2 = sub %x, %m : ({0}, tensor<5x1x{1}>) -> {0}\n", matrix, dtype);
  }
  if (dtype == "f32" || dtype == "f16" || dtype == "bf16" || dtype == "f64") {
    text += fmt::format("  %3 = matmul %x, %x : ({0}, {0}) -> {0}\n", matrix);
    text += fmt::format("  %4 = add %3, %c : ({0}, {1}) -> {0}\n", matrix, scalar);
    results += ", %4";
    types += ", " + matrix;
  }
  return compile_text(
      fmt::format("module @m {{\nfunc @f(%x: {}) -> ({}) {{\n{}  return {} : ({})\n}}"
                  "\n}}\n",
                  matrix, types, text, results, types),
      "f", in_memory({.rounding = "as-written"}), report);
}

TEST_CASE("kernels that differ in constants of the program are one code, in every element type") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> kConstants = {
      {"f16", {"1.5", "-0.25", "0x7E00", "65504.0"}},
      {"bf16", {"1.5", "-0.25", "0xFF80", "0x0001"}},
      {"f32", {"1.5", "-2.5", "0x7F800000", "1e-42"}},
      {"f64", {"1.5", "0.1", "0x7FF0000000000000", "-1e300"}},
      {"i32", {"3", "-2147483648"}},
      {"i64", {"3", "-9223372036854775808", "5000000000"}},
      {"u8", {"3", "255"}},
      {"bool", {"true", "false"}}};
  for (const auto& [dtype, constants] : kConstants) {
    CAPTURE(dtype);
    auto first = compile_constant(dtype, constants[0], nullptr);
    for (const std::string& constant : constants) {
      CAPTURE(constant);
      runtime::CompileReport report;
      auto each = compile_constant(dtype, constant, &report);
      CHECK(report.unique_kernels > 0);
      CHECK(report.compiled == 0);
      Tensors inputs = inputs_for(each->function(), 11, {});
      Outcome got = run_compiled(*each, inputs), expected = run_interpreted(*each, inputs);
      for (size_t i = 0; i < got.results.size(); ++i)
        CHECK(describe_distance(got.results[i], expected.results[i]) == "");
    }
  }
}

TEST_CASE("a planned module runs as it stands") {
  auto first = compile_text(mlp_step_text(5, 7, 6), "step", in_memory({.policy = "float32"}));
  runtime::CompileReport report;
  auto second = runtime::compile(first->module().clone(), "step", in_memory(), &report);
  CHECK(report.compiled == 0);  // the same kernels
  Tensors inputs = inputs_for(first->function(), 10, {{"lr", 0.125}, {"scale", 8}});
  Outcome a = run_compiled(*first, inputs), b = run_compiled(*second, inputs);
  for (size_t i = 0; i < a.results.size(); ++i)
    CHECK(ir::describe_difference(a.results[i], b.results[i]) == "");
}

}  // namespace
}  // namespace mezzo::test
