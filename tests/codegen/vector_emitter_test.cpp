// SPDX-License-Identifier: Apache-2.0
// The LLVM emitter against the host emitter: every device function compiled for vectors of eight
// lanes and for scalars gives the same bits (NaN equals NaN).
#include <mezzo/codegen/llvm/vector_emitter.h>

#include <mezzo/codegen/scalar_functions.h>
#include <support/host_emitter.h>

#include <doctest/doctest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mezzo::test {
namespace {

using codegen::VectorEmitter;

constexpr int kMaxLanes = 8;

// Every function as one of three operands, of which it reads the first ones.
struct Function {
  const char* name;
  llvm::Value* (*emit)(VectorEmitter&, llvm::Value*, llvm::Value*, llvm::Value*);
  float (*f32)(float, float, float);
  double (*f64)(double, double, double);
};

template <class T, class D>
T on_host(D function, T x, T y, T z) {
  HostEmitter<T> e;
  return function(e, x, y, z);
}

#define FUNCTION(name, ...)                                                               \
  {name,                                                                                  \
   [](VectorEmitter& e, llvm::Value* x, llvm::Value* y, llvm::Value* z) -> llvm::Value* { \
     static_cast<void>(y), static_cast<void>(z);                                          \
     return __VA_ARGS__;                                                                  \
   },                                                                                     \
   [](float a, float b, float c) {                                                        \
     return on_host<float>([](auto& e, auto x, [[maybe_unused]] auto y,                   \
                              [[maybe_unused]] auto z) { return __VA_ARGS__; },           \
                           a, b, c);                                                      \
   },                                                                                     \
   [](double a, double b, double c) {                                                     \
     return on_host<double>([](auto& e, auto x, [[maybe_unused]] auto y,                  \
                               [[maybe_unused]] auto z) { return __VA_ARGS__; },          \
                            a, b, c);                                                     \
   }}
#define UNARY(name) FUNCTION(#name, codegen::dev_##name(e, x))
#define BINARY(name) FUNCTION(#name, codegen::dev_##name(e, x, y))
#define PREDICATE(name) FUNCTION(#name, e.select(codegen::dev_##name(e, x, y), x, z))
#define UNARY_PREDICATE(name) FUNCTION(#name, e.select(codegen::dev_##name(e, x), y, z))

const Function kFunctions[] = {
    BINARY(add),
    BINARY(sub),
    BINARY(mul),
    BINARY(div),
    BINARY(mul0),
    UNARY(neg),
    UNARY(abs),
    UNARY(sign),
    UNARY(square),
    UNARY(reciprocal),
    UNARY(sqrt),
    UNARY(rsqrt),
    UNARY(floor),
    UNARY(ceil),
    UNARY(trunc),
    UNARY(round),
    BINARY(maximum),
    BINARY(minimum),
    PREDICATE(eq),
    PREDICATE(ne),
    PREDICATE(lt),
    PREDICATE(le),
    PREDICATE(gt),
    PREDICATE(ge),
    UNARY_PREDICATE(isnan),
    UNARY_PREDICATE(isinf),
    UNARY_PREDICATE(isfinite),
    FUNCTION("where", codegen::dev_where(e, e.bnot(e.lt(x, y)), y, z)),
    UNARY(exp),
    UNARY(expm1),
    UNARY(log),
    UNARY(log1p),
    UNARY(softplus),
    UNARY(log_sigmoid),
    UNARY(relu),
    UNARY(sigmoid),
    UNARY(tanh),
    UNARY(erf),
    UNARY(gelu),
    UNARY(gelu_grad),
    BINARY(pow),
    UNARY(cbrt),
    BINARY(hypot),
    UNARY(exp2),
    UNARY(log2),
    UNARY(log10),
    BINARY(logaddexp),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(asin),
    UNARY(acos),
    UNARY(atan),
    BINARY(atan2),
    UNARY(sinh),
    UNARY(cosh),
    UNARY(asinh),
    UNARY(acosh),
    UNARY(atanh),
    UNARY(erfc),
    UNARY(lgamma),
    UNARY(digamma),
    UNARY(trigamma),
    BINARY(floor_div),
    BINARY(remainder),
    FUNCTION("clamp", codegen::dev_clamp(e, x, y, z)),
    FUNCTION("lerp", codegen::dev_lerp(e, x, y, z)),
    BINARY(xlogy),
    BINARY(xlog1py),
    UNARY(relu6),
    BINARY(leaky_relu),
    BINARY(elu),
    UNARY(selu),
    BINARY(celu),
    UNARY(silu),
    UNARY(mish),
    UNARY(gelu_tanh),
    UNARY(softsign),
    UNARY(hard_sigmoid),
    UNARY(hard_swish),
    UNARY(hard_tanh),
    FUNCTION("normal", codegen::dev_box_muller(e, x, e.sub(y, e.floor(y)))[0]),
    FUNCTION("philox", codegen::word_to_float(
                           e,
                           e.ilshr(codegen::dev_philox(
                                       e,
                                       {e.ilshr(e.to_bits(x), e.width() - 32), e.iconstant(1),
                                        e.ilshr(e.to_bits(y), e.width() - 32), e.iconstant(3)},
                                       {e.ilshr(e.to_bits(z), e.width() - 32), e.iconstant(5)})[2],
                                   9)))};

template <class T>
using Kernel = void (*)(const T* x, const T* y, const T* z, T* result);

std::string symbol(const Function& function, int width, int lanes) {
  return std::string(function.name) + "_" + std::to_string(width) + "_" + std::to_string(lanes);
}

void emit_kernel(llvm::Module& module, const Function& function, int width, int lanes) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Type* pointer = builder.getPtrTy();
  auto* type =
      llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer, pointer, pointer}, false);
  auto* kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                        symbol(function, width, lanes), module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", kernel));
  // A builder for approximate code: the emitter must not take its flags.
  llvm::FastMathFlags fast;
  fast.setFast();
  builder.setFastMathFlags(fast);
  VectorEmitter e(builder, width, lanes);
  const llvm::Align align(4);
  const auto load = [&](unsigned i) {
    return builder.CreateAlignedLoad(e.float_type(), kernel->getArg(i), align);
  };
  llvm::Value* x = load(0);
  llvm::Value* y = load(1);
  llvm::Value* z = load(2);
  builder.CreateAlignedStore(function.emit(e, x, y, z), kernel->getArg(3), align);
  builder.CreateRetVoid();
}

/// All functions in one module, compiled for the machine that runs the test.
std::unique_ptr<llvm::orc::LLJIT> compile_all() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = std::make_unique<llvm::Module>("device_functions", *context);
  for (const Function& function : kFunctions) {
    for (int width : {32, 64}) {
      for (int lanes : {1, kMaxLanes}) emit_kernel(*module, function, width, lanes);
    }
  }
  REQUIRE_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  auto jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  module->setDataLayout(jit->getDataLayout());
  llvm::cantFail(
      jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
  return jit;
}

template <class T>
std::vector<T> inputs(size_t count, uint64_t seed) {
  using Limits = std::numeric_limits<T>;
  using Bits = typename HostEmitter<T>::I;
  const T special[] = {0,
                       T(-0.0),
                       Limits::infinity(),
                       -Limits::infinity(),
                       1,
                       -1,
                       Limits::quiet_NaN(),
                       Limits::denorm_min(),
                       Limits::min(),
                       Limits::max(),
                       T(0.625),
                       -Limits::denorm_min()};
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-12, 12);
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    if (bits % 16 == 0) {
      values.push_back(special[bits / 16 % std::size(special)]);
    } else if (bits % 2 == 0) {
      values.push_back(static_cast<T>(uniform(random)));
    } else {
      values.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    }
  }
  return values;
}

template <class T, class Host>
void compare(llvm::orc::LLJIT& jit, const Function& function, Host host, int lanes) {
  using Bits = typename HostEmitter<T>::I;
  const std::string name = symbol(function, 8 * sizeof(T), lanes);
  const auto kernel = llvm::cantFail(jit.lookup(name)).template toPtr<Kernel<T>>();
  const size_t count = 8192;
  const std::vector<T> x = inputs<T>(count, 1);
  const std::vector<T> y = inputs<T>(count, 2);
  const std::vector<T> z = inputs<T>(count, 3);
  int wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < count; i += static_cast<size_t>(lanes)) {
    T results[kMaxLanes];
    kernel(&x[i], &y[i], &z[i], results);
    for (size_t lane = 0; lane < static_cast<size_t>(lanes); ++lane) {
      const T want = host(x[i + lane], y[i + lane], z[i + lane]);
      const bool same = std::isnan(want)
                            ? std::isnan(results[lane])
                            : std::bit_cast<Bits>(results[lane]) == std::bit_cast<Bits>(want);
      if (!same && wrong++ == 0) first = i + lane;
    }
  }
  INFO(name, ": first at ", double(x[first]), ", ", double(y[first]), ", ", double(z[first]));
  CHECK(wrong == 0);
}

TEST_CASE("LLVM code of every device function gives the bits of the host emitter") {
  const auto jit = compile_all();
  for (const Function& function : kFunctions) {
    for (int lanes : {1, kMaxLanes}) {
      compare<float>(*jit, function, function.f32, lanes);
      compare<double>(*jit, function, function.f64, lanes);
    }
  }
}

}  // namespace
}  // namespace mezzo::test
