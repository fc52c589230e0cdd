// SPDX-License-Identifier: Apache-2.0
// The text of CUDA kernels, compiled as C++ and run on this machine: exact kernels equal the
// interpreter bit for bit, flags too; other single ops are within the bound of their row.
// MEZZO_FUZZ_GRAPHS: random graphs (default 40); more than that runs every case of the table.
#include <codegen/cuda_host.h>

#include <mezzo/ir/printer.h>
#include <support/random_array.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <codegen/cuda_cases.h>
#include <codegen/cuda_kernels.h>
#include <cstdlib>
#include <fuzz/judge.h>

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
  bool exact = true;
  for (const ir::Op& op : body) {
    exact &= is_exact(op);
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

std::vector<NamedKernel> kernels_from(const std::vector<CudaCase>& cases) {
  std::vector<NamedKernel> kernels;
  for (const CudaCase& each : cases) {
    plan_for(*each.module, "sm_90");
    for (const ir::Op* kernel : kernels_of(*each.module))
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

TEST_CASE("kernels of random exact graphs are what the interpreter computes, as CUDA text too") {
  for (const char* rounding : {"as-written", "excess"}) {
    std::vector<NamedKernel> kernels;
    for (int seed = 1; seed <= graphs_wanted(); ++seed) {
      std::unique_ptr<ir::Module> module =
          random_graph(static_cast<uint64_t>(seed), {.ops = GraphOps::Exact});
      compile_passes(*module, "sm_90", rounding);
      for (const ir::Op* kernel : kernels_of(*module))
        if (codegen::can_emit_cuda(*kernel))
          kernels.push_back(
              {fmt::format("{} {} @{}", rounding, seed, kernel->kernel_name()), alone(*kernel)});
    }
    check_all(rounding, std::move(kernels), 1);
  }
}

TEST_CASE("inline PTX becomes a call of its name") {
  CHECK(without_asm("a; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits)); b;") ==
        "a; y = ptx_cvt_f32_f16(x.bits); b;");
  CHECK(without_asm("asm(\"op.x %0, %1, %2;\" : \"=r\"(w[k]) : \"f\"(x[f(1)]), \"f\"(z));") ==
        "w[k] = ptx_op_x(x[f(1)], z);");
}

}  // namespace
}  // namespace mezzo::test
