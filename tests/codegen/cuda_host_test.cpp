// SPDX-License-Identifier: Apache-2.0
// The text of CUDA kernels, compiled as C++ and run on this machine: exact kernels equal the
// interpreter bit for bit, flags too; other single ops are within the bound of their row.
// MEZZO_FUZZ_GRAPHS: random graphs (default 40); more than that runs every case of the table.
#include <codegen/cuda_host.h>

#include <mezzo/ir/plan.h>
#include <mezzo/ir/printer.h>
#include <support/random_array.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <codegen/cuda_cases.h>
#include <codegen/cuda_kernels.h>
#include <cstdlib>
#include <fuzz/judge.h>
#include <limits>
#include <optional>

namespace mezzo::test {
namespace {

constexpr int kGraphs = 40;
/// Kernels of one program: the compiler's memory and time.
constexpr size_t kKernels = 120;

int graphs_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_GRAPHS");
  return text ? std::max(1, std::atoi(text)) : kGraphs;
}

struct NamedKernel {
  std::string name;
  std::unique_ptr<ir::Module> module;
};

/// Rows whose result is one value whatever computes it.
bool is_exact(const ir::Op& op) {
  return op.info().has(ir::Trait::Exact) || op.kind() == ir::OpKind::RandomUniform ||
         op.kind() == ir::OpKind::CheckIndex || op.kind() == ir::OpKind::Yield;
}

struct Counts {
  int exact = 0, judged = 0, unjudged = 0;
  double worst = 0;  // error / bound
};

void check_run(const NamedKernel& kernel, const HostProgram& program, size_t number,
               Counts& counts) {
  const ir::Module& module = program.module(number);
  const ir::Function& function = *module.functions()[0];
  const ir::Region& body = *kernels_of(module).at(0)->body();
  std::vector<const ir::Op*> ops;
  bool exact = true, sums = false;
  for (const ir::Op& op : body) {
    exact &= is_exact(op) || op.kind() == ir::OpKind::Sum;
    sums |= op.kind() == ir::OpKind::Sum && ir::is_float(op.result().dtype());
    if (op.kind() != ir::OpKind::Yield) ops.push_back(&op);
  }
  // In the domain of the row where there is one op.
  std::vector<ir::InterpreterTensor> inputs;
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Type& type = function.parameter(i).type();
    char domain = type.dtype == ir::DType::Bool ? 'b' : 'a';
    for (int o = 0; ops.size() == 1 && o < ops[0]->num_operands(); ++o)
      if (ops[0]->operand(o) == body.parameters()[static_cast<size_t>(i)])
        domain = ops[0]->info().domain_of(o);
    if (domain == 'a' && type.dtype == ir::DType::Bool) domain = 'b';
    inputs.push_back(random_array(domain, type, 7 * number + static_cast<uint64_t>(i), 0.1));
  }
  // Sums of small whole numbers are exact in any order; a sum alone is judged with any numbers.
  exact &= !sums || ops.size() > 1;
  if (exact && sums)
    for (ir::InterpreterTensor& input : inputs)
      for (double& x : input.floats) x = std::isfinite(x) ? std::round(std::fmod(x, 4)) : 1;
  INFO(kernel.name << "\n" << program.source(number).text);
  const ir::RunResult got = program.run(number, inputs);
  if (exact) {
    ++counts.exact;
    const ir::RunResult wanted = ir::run(module, function, inputs);
    for (size_t r = 0; r < wanted.results.size(); ++r) {
      const std::string difference = ir::describe_difference(got.results[r], wanted.results[r]);
      CHECK_MESSAGE(difference.empty(), "result " << r << ": " << difference);
    }
    for (size_t w = 0; w < std::max(got.words.size(), wanted.words.size()); ++w)
      CHECK((w < got.words.size() ? got.words[w] : 0) ==
            (w < wanted.words.size() ? wanted.words[w] : 0));
    CHECK(got.index_range == wanted.index_range);
  } else if (ops.size() == 1) {
    ++counts.judged;
    const Judgement judgement = judge(*ops[0], inputs, got.results.at(0));
    CHECK_MESSAGE(judgement.difference.empty(), judgement.difference);
    counts.worst = std::max(counts.worst, judgement.worst);
  } else {
    ++counts.unjudged;
  }
}

void check_all(const char* name, std::vector<NamedKernel> kernels, size_t share) {
  if (graphs_wanted() > kGraphs) share = 1;
  Counts counts;
  std::vector<NamedKernel> taken;
  for (size_t i = 0; i < kernels.size(); ++i)
    if ((i + i / share) % share == 0) taken.push_back(std::move(kernels[i]));
  for (size_t first = 0; first < taken.size(); first += kKernels) {
    const size_t size = std::min(kKernels, taken.size() - first);
    std::vector<std::unique_ptr<ir::Module>> modules;
    for (size_t i = first; i < first + size; ++i) modules.push_back(std::move(taken[i].module));
    const HostProgram program(std::move(modules));
    for (size_t i = 0; i < size; ++i) check_run(taken[first + i], program, i, counts);
  }
  fmt::print(
      "{}: {} kernels equal the interpreter, {} within bounds (worst error / bound {:.3f})\n", name,
      counts.exact, counts.judged, counts.worst);
  CHECK(counts.exact + counts.judged > 0);
  CHECK(counts.unjudged == 0);
}

std::vector<NamedKernel> kernels_from(const std::vector<CudaCase>& cases,
                                      std::optional<ir::Family> family = {}) {
  std::vector<NamedKernel> kernels;
  for (const CudaCase& each : cases) {
    plan_for(*each.module, "sm_90");
    for (const ir::Op* kernel : kernels_of(*each.module))
      if (!family || ir::family_of(*kernel) == *family)
        kernels.push_back({each.name, alone(*kernel)});
  }
  return kernels;
}

TEST_CASE("elementwise rows of the CUDA text compute what the interpreter does") {
  check_all("elementwise rows", kernels_from(elementwise_cases()), 3);
}

TEST_CASE("views, pad, iota and random numbers of the CUDA text are those of the interpreter") {
  check_all("movement", kernels_from(movement_cases()), 1);
}

TEST_CASE("reductions of the CUDA text compute what the interpreter does") {
  check_all("reductions", kernels_from(reduction_cases()), 2);
}

TEST_CASE("reductions over leading axes of the CUDA text compute what the interpreter does") {
  check_all("columns", kernels_from(column_cases()), 2);
}

TEST_CASE("updates of many parameters in one CUDA text are those of the interpreter") {
  std::vector<NamedKernel> kernels = kernels_from(optimizer_cases(), ir::Family::Optimizer);
  CHECK(kernels.size() == optimizer_cases().size());
  check_all("optimizer", std::move(kernels), 1);
}

TEST_CASE("kernels of random exact graphs are what the interpreter computes, as CUDA text too") {
  for (const char* rounding : {"as-written", "excess"}) {
    std::vector<NamedKernel> kernels;
    for (int seed = 1; seed <= graphs_wanted(); ++seed) {
      std::unique_ptr<ir::Module> module =
          random_graph(static_cast<uint64_t>(seed), {.ops = GraphOps::Exact});
      compile_passes(*module, "sm_90", rounding);
      for (const ir::Op* kernel : kernels_of(*module))
        if (ir::family_of(*kernel) != ir::Family::Matmul)
          kernels.push_back(
              {fmt::format("{} {} @{}", rounding, seed, kernel->kernel_name()), alone(*kernel)});
    }
    check_all(rounding, std::move(kernels), 1);
  }
}

/// The kernel of a module of primitive ops; `lanes` in place of the vector of its plan.
std::unique_ptr<ir::Module> kernel_from(const std::string& text, int64_t lanes = 0) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  plan_for(*module, "sm_90");
  for (ir::Op& op : module->functions()[0]->body()) {
    if (op.kind() != ir::OpKind::Kernel || lanes == 0) continue;
    ir::Plan plan = ir::Plan::from(op.plan());
    plan.vector = lanes;
    op.set_plan(plan.to_attrs());
  }
  REQUIRE(kernels_of(*module).size() == 1);
  return alone(*kernels_of(*module)[0]);
}

/// Runs a kernel alone and expects the interpreter's bits and flag words.
void check_exact(std::unique_ptr<ir::Module> module,
                 const std::vector<ir::InterpreterTensor>& inputs,
                 const std::vector<size_t>& in_place = {}) {
  const ir::RunResult wanted = ir::run(*module, *module->functions()[0], inputs);
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(std::move(module));
  const HostProgram program(std::move(modules));
  INFO(program.source(0).text);
  const ir::RunResult got = program.run(0, inputs, in_place);
  REQUIRE(got.results.size() == wanted.results.size());
  for (size_t r = 0; r < wanted.results.size(); ++r)
    CHECK(ir::describe_difference(got.results[r], wanted.results[r]) == "");
  CHECK(got.words == wanted.words);
}

TEST_CASE("a 64-bit integer becomes a 16-bit float in one rounding") {
  // Half a step of bf16, less and more by what no f64 holds beside it.
  std::vector<int64_t> values;
  for (int64_t base : {int64_t{1} << 62, int64_t{1} << 55, int64_t{1} << 53, int64_t{65504}})
    for (int64_t half : {base >> 8, (base >> 8) * 3, int64_t{0}, int64_t{16}})
      for (int64_t step : {-1, 0, 1})
        for (int64_t sign : {-1, 1}) values.push_back(sign * (base + half + step));
  values.push_back(std::numeric_limits<int64_t>::min());
  values.push_back(std::numeric_limits<int64_t>::max());
  ir::InterpreterTensor input(
      ir::Type(ir::DType::I64, ir::Shape{static_cast<int64_t>(values.size())}));
  input.integers = values;
  for (const char* to : {"bf16", "f16", "f32", "f64"}) {
    INFO(to);
    check_exact(kernel_from(fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<{0}xi64>) -> tensor<{0}x{1}> {{
    %0 = cast %x {{word = 0}} : tensor<{0}xi64> -> tensor<{0}x{1}>
    return %0 : tensor<{0}x{1}>
  }}
}}
)",
                                        values.size(), to)),
                {input});
  }
}

TEST_CASE("a sum of negative zeros is -0, a sum of nothing +0") {
  for (const char* type : {"f32", "f16", "f64"})
    for (int64_t columns : {0, 1, 7, 1024, 1031, 300000}) {
      INFO(type << " " << columns);
      const std::string text = fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<2x{0}x{1}>) -> tensor<2x{1}> {{
    %0 = sum %x {{axes = [1]}} : tensor<2x{0}x{1}> -> tensor<2x{1}>
    return %0 : tensor<2x{1}>
  }}
}}
)",
                                           columns, type);
      std::unique_ptr<ir::Module> module = kernel_from(text);
      ir::InterpreterTensor input(module->functions()[0]->parameter(0).type());
      input.floats.assign(input.floats.size(), -0.0);
      check_exact(std::move(module), {input});
    }
}

TEST_CASE("long sums keep their blocks in f64, so that no length adds to their error") {
  const std::string text = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<1x1064960xf32>) -> tensor<1xf32> {
    %0 = sum %x {axes = [1]} : tensor<1x1064960xf32> -> tensor<1xf32>
    return %0 : tensor<1xf32>
  }
}
)";
  std::unique_ptr<ir::Module> module = kernel_from(text);
  ir::InterpreterTensor input(module->functions()[0]->parameter(0).type());
  // 512 threads of 4 lanes, 520 elements a lane: its blocks of 256 terms are 2^24, 1 and -2^24, and
  // a total in f32 would lose the 1.
  input.floats.assign(input.floats.size(), 0.0);
  for (size_t lane = 0; lane < 2048; ++lane) {
    input.floats[lane] = 0x1p24;
    input.floats[2048 * 256 + lane] = 1;
    input.floats[2048 * 512 + lane] = -0x1p24;
  }
  check_exact(std::move(module), {input});
}

TEST_CASE("results in the place of operands are stored after all operands were read") {
  const std::string swap = R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<37xf32>, %y: tensor<37xf32>) -> (tensor<37xf32>, tensor<37xf32>) {
    %0 = neg %x : tensor<37xf32>
    %1 = add %0, %y : tensor<37xf32>
    return %0, %1 : (tensor<37xf32>, tensor<37xf32>)
  }
}
)";
  const ir::Type type(ir::DType::F32, ir::Shape{37});
  for (int64_t lanes : {1, 2, 4})
    check_exact(kernel_from(swap, lanes), {random_array('a', type, 1), random_array('a', type, 2)},
                {1, 0});
  // One element, which every thread of the block reads and flags: 1e60 would not be finite.
  ir::InterpreterTensor one(ir::Type(ir::DType::F32, ir::Shape{}));
  one.floats = {ir::round_to(ir::DType::F32, 1e15)};
  check_exact(kernel_from(R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = square %x {word = 0} : tensor<f32>
    return %0 : tensor<f32>
  }
}
)"),
              {one}, {0});
}

TEST_CASE("inline PTX becomes a call of its name") {
  CHECK(without_asm("a; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits)); b;") ==
        "a; y = ptx_cvt_f32_f16(x.bits); b;");
  CHECK(without_asm("asm(\"op.x %0, %1, %2;\" : \"=r\"(w[k]) : \"f\"(x[f(1)]), \"f\"(z));") ==
        "w[k] = ptx_op_x(x[f(1)], z);");
}

}  // namespace
}  // namespace mezzo::test
