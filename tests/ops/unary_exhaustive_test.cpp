// SPDX-License-Identifier: Apache-2.0
// Every unary elementwise row on every f16 and every bf16 value, through compiled kernels: exact
// rows bit for bit, the others within one unit in the last place and correctly rounded for all but
// one input in a thousand; fused between neighbours as alone. Casts go to every element type.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fuzz/judge.h>
#include <ops/kernel_cases.h>
#include <runtime/compiled.h>

namespace mezzo::test {

namespace {

using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Value;

constexpr int64_t kValues = 65536;

InterpreterTensor every_value(DType dtype) {
  std::vector<uint16_t> bits(kValues);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  return ir::from_bytes(ir::Type(dtype, {kValues}), std::as_bytes(std::span(bits)));
}

/// The row on a parameter. `neighbours`: between a selection that gives its operand and a
/// comparison and a selection that read its result. The condition `always` is true.
struct Unary {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>("unary");
  const ir::Op* op = nullptr;

  Unary(const KernelCase& each, bool neighbours) {
    const ir::Type& type = each.operands[0];
    ir::Function* function = module->add_function("f");
    ir::Builder builder(function->body());
    Value x = function->add_parameter(type, "x"), always;
    if (neighbours) {
      always = function->add_parameter(type.with(DType::Bool), "always");
      x = builder.make(OpKind::Where, {always, x, builder.constant(type, 1)});
    }
    op = builder.create(each.kind, std::vector<Value>{x}, each.attrs, each.declared);
    std::vector<Value> results = {op->result()};
    if (neighbours) {
      Value same = builder.make(OpKind::Eq, {op->result(), op->result()});
      results.push_back(builder.make(OpKind::LogicalOr, {same, always}));
      results.push_back(builder.make(OpKind::Where, {always, op->result(), op->result()}));
    }
    function->set_results(results, std::vector<ir::Attrs>(results.size()));
  }
};

Outcome run_unary(const Unary& unary, const Tensors& inputs) {
  runtime::CompileOptions options = in_memory();
  options.rounding = "as-written";
  options.threads = 1;
  auto executable = runtime::compile(unary.module->clone(), "f", options);
  CHECK(executable->kernels() <= 1);  // none where the row changes nothing
  return run_compiled(*executable, inputs);
}

struct Report {
  double worst = 0, worst_ulp = 0;
  int64_t misrounded = 0;
};

Report check_unary(const KernelCase& each, const InterpreterTensor& values) {
  Unary alone(each, false), between(each, true);
  InterpreterTensor single = run_unary(alone, {values}).results[0];
  InterpreterTensor always = ir::full_tensor(values.type.with(DType::Bool), 1);
  Outcome fused = run_unary(between, {values, always});
  CHECK(ir::describe_difference(fused.results[0], single) == "");
  CHECK(ir::describe_difference(fused.results[1], always) == "");
  CHECK(ir::describe_difference(fused.results[2], single) == "");
  Judgement verdict = judge(*alone.op, {values}, single);
  CHECK(verdict.difference == "");
  CHECK(verdict.not_correct <= kValues / 1000);
  return {verdict.worst, verdict.worst_ulp, verdict.not_correct};
}

}  // namespace

TEST_CASE("unary kernels are right for every f16 and bf16 value, alone and fused") {
  fmt::print("{:16}      to    error/bound  worst ulp  not correctly rounded\n", "op");
  int rows = 0;
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.op_class != ir::OpClass::Elementwise || info.max_operands != 1) continue;
    for (DType dtype : {DType::F16, DType::BF16}) {
      InterpreterTensor values = every_value(dtype);
      // One case for each target of a cast, and for each variant of the attributes.
      for (KernelCase& each : kernel_cases(info.kind, dtype, Extent::Small)) {
        if (each.operands[0].rank() != 1 || each.operands[0].elements() != 1) continue;
        each.operands[0] = values.type;
        for (ir::Type& type : each.declared) type = values.type.with(type.dtype);
        INFO(each.text());
        Report report = check_unary(each, values);
        ++rows;
        const char* to = each.declared.empty() ? "" : ir::to_string(each.declared[0].dtype);
        fmt::print("{:16} {:4} {:4}  {:11.3f}  {:9.3f}  {}\n", info.name, ir::to_string(dtype), to,
                   report.worst, report.worst_ulp, report.misrounded);
      }
    }
  }
  CHECK(rows > 50);
}

}  // namespace mezzo::test
