// SPDX-License-Identifier: Apache-2.0
// Long programs: tracing, printing, reading, differentiating, passes, compiling and throwing away
// do not recurse over ops, walk no value twice for each path to it, and make no kernel that grows
// with the program. MEZZO_BIG_GRAPHS=full takes ten times the size.
#include <support/big_graphs.h>

#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/compiler.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <functional>
#include <pthread.h>
#include <string>

namespace mezzo::test {

namespace {

int scale() {
  const char* text = std::getenv("MEZZO_BIG_GRAPHS");
  return text && std::string(text) == "full" ? 10 : 1;
}

/// Runs `f` on 512 KiB of stack: what recurses over thousands of ops does not come back.
void on_a_small_stack(const std::function<void()>& f) {
  struct Call {
    const std::function<void()>& f;
    std::exception_ptr error;
  } call{f, nullptr};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 512 << 10) == 0);
  pthread_t thread;
  auto run = [](void* argument) -> void* {
    auto& call = *static_cast<Call*>(argument);
    try {
      call.f();
    } catch (...) {
      call.error = std::current_exception();
    }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &call) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (call.error) std::rethrow_exception(call.error);
}

std::string read_back(const std::string& text) {
  return ir::print(*ir::parse(text, "big.mz", ir::ParseOptions{}));
}

/// Through text and all passes; gives the kernels of `main`.
std::vector<const ir::Op*> planned(ir::Module& module, const std::string& policy, bool gradient) {
  const std::string text = ir::print(module);
  CHECK(read_back(text) == text);
  passes::Pipeline pipeline = passes::pipeline_by_name(gradient ? "train" : "infer");
  passes::set_policy(pipeline, policy.empty() ? "float32" : policy);
  passes::set_target(pipeline, "x86-64-v3");
  passes::PassContext context;
  passes::run_pipeline(module, pipeline, {}, context);
  const std::string after = ir::print(module);
  CHECK(read_back(after) == after);
  std::vector<const ir::Op*> kernels;
  for (const ir::Op& op : module.function("main")->body())
    if (op.kind() == ir::OpKind::Kernel) kernels.push_back(&op);
  return kernels;
}

void check_chain(int ops, bool gradient, const std::string& policy) {
  CAPTURE(gradient);
  CAPTURE(policy);
  std::unique_ptr<ir::Module> module = traced(Chain{ops}, gradient);
  const std::vector<const ir::Op*> kernels = planned(*module, policy, gradient);
  CHECK(std::ssize(kernels) < ops / 16);
  for (const ir::Op* kernel : kernels) CHECK(kernel->num_operands() <= 128);
}

}  // namespace

TEST_CASE("a chain of 10,000 ops, its gradient, and that under a policy") {
  on_a_small_stack([] {
    const int ops = 10'000 * scale();
    check_chain(ops, false, "");
    check_chain(ops, true, "");
    check_chain(ops, true, "mixed_float16");
  });
}

TEST_CASE("a chain computes what a loop does, and has few kernels that differ") {
  const int ops = 2'000 * scale();
  Array x(ir::Type(f32, {4}));
  for (int i = 0; i < 4; ++i) x.set(i, 0.1 * (i + 1));
  const Array y = jit(Chain{ops})(x);
  for (int i = 0; i < 4; ++i) {
    const float number = x.view<float>()[static_cast<size_t>(i)];
    float expected = number;
    for (int op = 0; op < ops; ++op)
      expected = op % 3 == 0   ? std::fmax(expected, 0.0F)
                 : op % 3 == 1 ? expected * number
                               : expected + number;
    CHECK(y.view<float>()[static_cast<size_t>(i)] == doctest::Approx(expected).epsilon(1e-5));
  }
  const auto slope = jit(grad([ops](Tensor t) { return sum(Chain{ops}(t)); }))(x);
  // y = 2 x / (1 - x) - x at rest, the last op being one of the three: by differences instead.
  for (int i = 0; i < 4; ++i) {
    const double step = 1e-3, number = x.view<float>()[static_cast<size_t>(i)];
    auto at = [&](double value) {
      double made = value;
      for (int op = 0; op < ops; ++op)
        made = op % 3 == 0 ? std::fmax(made, 0.0) : op % 3 == 1 ? made * value : made + value;
      return made;
    };
    CHECK(slope.view<float>()[static_cast<size_t>(i)] ==
          doctest::Approx((at(number + step) - at(number - step)) / (2 * step)).epsilon(1e-3));
  }
}

TEST_CASE("60 doublings are 60 ops, forward and backward") {
  Array x(ir::Type(f32, {4}));
  for (int i = 0; i < 4; ++i) x.set(i, i + 1);
  on_a_small_stack([] {
    for (bool gradient : {false, true}) {
      std::unique_ptr<ir::Module> module = traced(Doublings{60}, gradient);
      CHECK(planned(*module, "", gradient).size() <= 4);
    }
  });
  const Array y = jit(Doublings{60})(x);
  const Array slope = jit(grad([](Tensor t) { return sum(Doublings{60}(t)); }))(x);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(y.view<float>()[i] == std::ldexp(static_cast<float>(i + 1), 60));
    CHECK(slope.view<float>()[i] == std::ldexp(1.0F, 60));
  }
}

TEST_CASE("a gradient of a thousand terms is their sum") {
  // Each use of x is a term that no pass knows, more than one kernel reads: a[i] times the
  // cotangent of the sum, whose elements differ by b.
  const int uses = 1'000;
  auto f = [](Tensor x, Tensor a, Tensor b) {
    Tensor y = slice(a, {0}, {1}) * x;
    for (int i = 1; i < uses; ++i) y = y + slice(a, {i}, {i + 1}) * x;
    return sum(b * y);
  };
  Array x(ir::Type(f32, {4})), a(ir::Type(f32, {uses}));
  const Array b({4}, {1, -0.5, 3, 0.125});
  for (int64_t i = 0; i < uses; ++i) a.set(i, std::sin(0.7 * static_cast<double>(i)) + 0.25);
  const auto slope = jit(grad(f), {.rounding = "as-written"});

  std::unique_ptr<ir::Module> module = ir::parse(slope.ir(x, a, b));
  passes::PassContext context;
  passes::run_pipeline(*module, passes::parse_pipeline("canonicalize, autodiff"), {}, context);
  int longest = 0;
  for (const auto& function : module->functions())
    for (const ir::Op& op : function->body())
      if (op.kind() == ir::OpKind::AddN) longest = std::max(longest, op.num_operands());
  CHECK(longest == uses);

  double total = 0, magnitude = 0;
  for (int64_t i = 0; i < uses; ++i) {
    total += a.as_double(i);
    magnitude += std::fabs(a.as_double(i));
  }
  for (const Array& got : {slope(x, a, b), jit(grad(f))(x, a, b)})
    for (int64_t i = 0; i < 4; ++i)
      CHECK(std::fabs(got.as_double(i) - b.as_double(i) * total) <=
            1e-6 * magnitude * std::fabs(b.as_double(i)));
}

TEST_CASE("a deep network has the kernels of its one layer") {
  const int layers = 50 * scale();
  Trainer trainer(DeepMlp(layers), losses::cross_entropy, optim::Adam{},
                  {.policy = Policy::mixed_float16(), .batch = DeepMlp::kBatch});
  const Dataset batch = DeepMlp::batch();
  trainer.compile(batch);
  CHECK(trainer.compile_report().kernels > layers);
  CHECK(trainer.compile_report().unique_kernels < 30);
  trainer.step(batch.inputs, batch.targets);
}

}  // namespace mezzo::test
