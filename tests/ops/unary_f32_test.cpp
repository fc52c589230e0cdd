// SPDX-License-Identifier: Apache-2.0
// Every unary row on f32 inputs from the whole range of bit patterns, every MEZZO_F32_STRIDE-th of
// them (1: all 2^32), through compiled kernels and against the oracle's scalar in f64. Exact rows
// bit for bit; the others within their bound, with the worst error and the number of results that
// are not the f32 nearest to the oracle's.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/scalar_eval.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fuzz/judge.h>
#include <mutex>
#include <runtime/compiled.h>
#include <thread>

namespace mezzo::test {

namespace {

using ir::DType;
using ir::OpInfo;
using ir::OpKind;

constexpr int64_t kChunk = 1 << 16;
constexpr uint64_t kPatterns = uint64_t{1} << 32;

uint64_t stride() {
  const char* text = std::getenv("MEZZO_F32_STRIDE");
  return text ? std::strtoull(text, nullptr, 10) : 4099;
}

/// A function of one op, compiled for one thread.
struct UnaryKernel {
  ir::Module module{"unary"};
  const ir::Op* op = nullptr;
  std::unique_ptr<runtime::Executable> executable;

  explicit UnaryKernel(OpKind kind) {
    ir::Function* function = module.add_function("f");
    ir::Value x = function->add_parameter(ir::Type(DType::F32, {kChunk}), "x");
    ir::Builder builder(function->body());
    op = builder.create(kind, std::vector<ir::Value>{x});
    function->set_results(std::vector<ir::Value>{op->result()}, {ir::Attrs()});
    runtime::CompileOptions options = in_memory();
    options.threads = 1;
    executable = runtime::compile(module.clone(), "f", options);
  }

  void run(std::vector<float>& inputs, std::vector<float>& outputs) {
    void* in = inputs.data();
    void* out = outputs.data();
    executable->run(std::span<void* const>(&in, 1), std::span<void* const>(&out, 1));
  }
};

struct Tally {
  int64_t compared = 0, not_correct = 0, by_terms = 0;
  double worst_ulp = 0, worst_at = 0;
  std::string difference;

  void add(const Tally& other) {
    compared += other.compared;
    not_correct += other.not_correct;
    by_terms += other.by_terms;
    if (other.worst_ulp > worst_ulp) {
      worst_ulp = other.worst_ulp;
      worst_at = other.worst_at;
    }
    if (difference.empty()) difference = other.difference;
  }
};

/// Bounds in units in the last place hold for most results; the rest, where a row's bound is that
/// of its terms, goes to the judge.
void compare(const UnaryKernel& kernel, const std::vector<float>& inputs,
             const std::vector<float>& outputs, size_t count, Tally& tally) {
  std::vector<double> rest_inputs, rest_outputs;
  for (size_t i = 0; i < count; ++i) {
    const double x = inputs[i];
    const double want = ir::eval_scalar(kernel.op->kind(), std::span(&x, 1));
    const auto rounded = static_cast<float>(want);
    const float got = outputs[i];
    if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(rounded) ||
        (std::isnan(got) && std::isnan(rounded)))
      continue;
    ++tally.not_correct;
    const double error = ulp_distance(DType::F32, got, want);
    if (error <= 1 && !is_exact(*kernel.op)) {
      if (error > tally.worst_ulp) {
        tally.worst_ulp = error;
        tally.worst_at = x;
      }
      continue;
    }
    rest_inputs.push_back(x);
    rest_outputs.push_back(got);
  }
  tally.compared += static_cast<int64_t>(count);
  if (rest_inputs.empty()) return;
  const ir::Type type(DType::F32, {static_cast<int64_t>(rest_inputs.size())});
  const ir::InterpreterTensor operand = ir::make_tensor(type, rest_inputs);
  const Judgement verdict = judge(*kernel.op, {operand}, ir::make_tensor(type, rest_outputs));
  if (tally.difference.empty()) tally.difference = verdict.difference;
  for (size_t i = 0; i < rest_inputs.size(); ++i) {
    const double want = ir::eval_scalar(kernel.op->kind(), std::span(&rest_inputs[i], 1));
    const double error = ulp_distance(DType::F32, rest_outputs[i], want);
    if (error > 2)
      ++tally.by_terms;
    else if (error > tally.worst_ulp) {
      tally.worst_ulp = error;
      tally.worst_at = rest_inputs[i];
    }
  }
}

Tally check_row(OpKind kind) {
  const uint64_t step = stride(), chunks = (kPatterns + step * kChunk - 1) / (step * kChunk);
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Tally all;
  const auto work = [&] {
    UnaryKernel kernel(kind);
    std::vector<float> inputs(kChunk), outputs(kChunk);
    Tally tally;
    for (uint64_t chunk = next++; chunk < chunks; chunk = next++) {
      size_t count = 0;
      for (uint64_t i = 0; i < kChunk; ++i) {
        const uint64_t bits = (chunk * kChunk + i) * step;
        count += bits < kPatterns;
        inputs[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
      }
      kernel.run(inputs, outputs);
      compare(kernel, inputs, outputs, count, tally);
    }
    const std::lock_guard lock(mutex);
    all.add(tally);
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  threads.clear();
  return all;
}

bool f32_function(const OpInfo& info) {
  return info.op_class == ir::OpClass::Elementwise && info.max_operands == 1 &&
         (info.types == ir::TypeRule::SameFloat || info.types == ir::TypeRule::SameNumber);
}

}  // namespace

TEST_CASE("unary kernels are within their bound over all f32 bit patterns") {
  fmt::print("{:12}    inputs  not correctly rounded  worst ulp  beyond 2 ulp, within terms\n",
             "op");
  const char* only = std::getenv("MEZZO_KERNEL_OP");
  for (const OpInfo& info : ir::all_ops()) {
    if (!f32_function(info) || (only && info.name != std::string(only))) continue;
    const Tally tally = check_row(info.kind);
    fmt::print("{:12} {:10} {:11} = {:6.3f} %  {:9.3f} at {:a}  {}\n", info.name, tally.compared,
               tally.not_correct, 100.0 * double(tally.not_correct) / double(tally.compared),
               tally.worst_ulp, tally.worst_at, tally.by_terms);
    std::fflush(stdout);
    CHECK_MESSAGE(tally.difference == "", info.name << ": " << tally.difference);
    CHECK(tally.compared == static_cast<int64_t>((kPatterns + stride() - 1) / stride()));
  }
}

}  // namespace mezzo::test
