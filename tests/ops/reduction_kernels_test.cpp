// SPDX-License-Identifier: Apache-2.0
// Conventions of reductions, scans and orders in compiled kernels, and sizes that give other code:
// long lines, many lines, every direction.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fuzz/judge.h>
#include <limits>
#include <runtime/compiled.h>

namespace mezzo::test {
namespace {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::InterpreterTensor;
using ir::OpKind;
using ir::Shape;
using ir::Type;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Type> types_of(const Tensors& inputs) {
  std::vector<Type> types;
  for (const InterpreterTensor& input : inputs) types.push_back(input.type);
  return types;
}

/// The op compiled for the test device, alone.
Tensors compiled(OpKind kind, const Tensors& inputs, const Attrs& attrs, int threads = 1) {
  runtime::CompileOptions options = in_memory();
  options.rounding = "as-written";
  options.threads = threads;
  const std::vector<Type> types = types_of(inputs);
  return run_compiled(*runtime::compile(one_op_module(kind, types, attrs), "f", options), inputs)
      .results;
}

/// Every result within its bound. On the fake device, where a program takes as long as ten here,
/// one check in five, all of them with MEZZO_KERNEL_CASES.
void check(OpKind kind, const Tensors& inputs, const Attrs& attrs) {
  static int number = 0;
  const bool thinned =
      test_device().kind == runtime::DeviceId::Kind::Cuda && !std::getenv("MEZZO_KERNEL_CASES");
  if (thinned && ++number % 5 != 0) return;
  const std::vector<Type> types = types_of(inputs);
  const std::unique_ptr<ir::Module> module = one_op_module(kind, types, attrs);
  const ir::Op& op = *module->functions()[0]->body().begin();
  INFO(std::string(op.info().name) << " of " << to_string(types[0]));
  const Tensors got = compiled(kind, inputs, attrs);
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(judge(op, inputs, got[i], static_cast<int>(i)).difference == "");
}

InterpreterTensor row(std::vector<double> values, DType dtype = DType::F32) {
  return ir::make_tensor(Type(dtype, {1, static_cast<int64_t>(values.size())}), values);
}

TEST_CASE("kernels keep the conventions of special rows") {
  const Attrs rows{{"axes", Attr(std::vector<int64_t>{1})}};
  const std::vector<std::vector<double>> cases = {
      {-kInf, -kInf, -kInf},
      {kInf, 3, -kInf},
      {kNan, 0, 1},
      {0, 0.0, -0.0},
      {0, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38, 1e38},
      {3e30, 4e30},
      {3e-30, 4e-30},
      {16777216, 16777218, 16777220},
      {7},
      {}};
  for (DType dtype : {DType::F32, DType::F64})
    for (const std::vector<double>& values : cases)
      for (OpKind kind : {OpKind::Prod, OpKind::AnyOf, OpKind::AllOf, OpKind::CountNonzero,
                          OpKind::Var, OpKind::Stddev, OpKind::LogSumExp, OpKind::Norm})
        check(kind, {row(values, dtype)}, rows);
  for (const std::vector<double>& values : cases) {
    if (!values.empty()) check(OpKind::Argmin, {row(values)}, {{"axis", 1}});
    for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Cummin,
                        OpKind::Sort, OpKind::Argsort})
      check(kind, {row(values)}, {{"axis", 1}});
  }
}

TEST_CASE("a product that leaves the range is infinite, and 0 after a 0, in every direction") {
  struct Case {
    DType dtype;
    std::vector<double> factors, running;
  };
  const double most = std::numeric_limits<double>::max();
  const std::vector<Case> cases = {
      {DType::F64, {1e200, -1e200, 2, 0.5}, {1e200, -kInf, -kInf, -kInf}},
      {DType::F64, {1e200, 1e200, 0, 1e200}, {1e200, kInf, 0, 0}},
      {DType::F64, {most, 1, -1}, {most, most, -most}},
      {DType::F64, {1e200, 1e200, kInf, -1}, {1e200, kInf, kInf, -kInf}},
      {DType::F64, {1e200, 1e200, kNan}, {1e200, kInf, kNan}},
      {DType::F32, {1e38, -1e38, 0, 1e38}, {1e38, -kInf, 0, 0}},
      {DType::F32, std::vector<double>(9, 0x1p127), {}},
      {DType::F16, {60000, 2, -1}, {60000, kInf, -kInf}},
      {DType::BF16, {0x1p127, -2, 0}, {0x1p127, -kInf, 0}},
  };
  for (Case each : cases) {
    const auto n = static_cast<int64_t>(each.factors.size());
    for (double& x : each.factors) x = ir::round_to(each.dtype, x);
    if (each.running.empty())
      each.running = {0x1p127}, each.running.resize(each.factors.size(), kInf);
    for (double& x : each.running) x = ir::round_to(each.dtype, x);
    INFO(std::string(to_string(each.dtype)) << " product of " << n);
    const auto same = [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); };
    // Three columns, so that both a line and lines side by side are multiplied.
    const InterpreterTensor line = row(each.factors, each.dtype);
    std::vector<double> thrice;
    for (double x : each.factors) thrice.insert(thrice.end(), 3, x);
    const InterpreterTensor columns = ir::make_tensor(Type(each.dtype, {n, 3}), thrice);
    const Tensors totals = {
        compiled(OpKind::Prod, {line}, {{"axes", Attr(std::vector<int64_t>{1})}})[0],
        compiled(OpKind::Prod, {columns}, {{"axes", Attr(std::vector<int64_t>{0})}})[0]};
    for (const InterpreterTensor& total : totals)
      for (double x : total.floats) CHECK(same(x, each.running.back()));
    const InterpreterTensor running = compiled(OpKind::Cumprod, {line}, {{"axis", 1}})[0];
    for (size_t i = 0; i < each.running.size(); ++i)
      CHECK(same(running.floats[i], each.running[i]));
  }
}

TEST_CASE("norms of every order and variances of every correction are within their bounds") {
  const InterpreterTensor x = random_array('a', Type(DType::F32, {5, 300}), 11);
  for (int64_t axis : {0, 1}) {
    const Attrs axes{{"axes", Attr(std::vector<int64_t>{axis})}};
    for (double order : {1.0, 2.0, 3.0, 1.5, 0.5}) {
      Attrs attrs = axes;
      attrs.set("ord", order);
      check(OpKind::Norm, {x}, attrs);
    }
    for (int64_t correction : {0, 1, 5}) {
      Attrs attrs = axes;
      attrs.set("correction", correction);
      check(OpKind::Var, {x}, attrs);
      check(OpKind::Stddev, {x}, attrs);
    }
  }
}

TEST_CASE("a variance far from 0 keeps its digits over rows, columns and all") {
  InterpreterTensor x = random_array('u', Type(DType::F32, {60, 50}), 5);
  for (double& value : x.floats) value = ir::round_to(DType::F32, 4096 + value);
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {1}, {0, 1}}) {
    check(OpKind::Var, {x}, {{"axes", Attr(axes)}});
    check(OpKind::Stddev, {x}, {{"axes", Attr(axes)}});
  }
}

TEST_CASE("scans in every direction, along any axis, of long and of many lines") {
  const std::vector<Shape> shapes = {{40000}, {3, 1000}, {130, 33}, {7, 5, 3}, {2, 40, 65}, {1, 1}};
  for (const Shape& shape : shapes)
    for (int64_t axis = 0; axis < shape.rank(); ++axis)
      for (bool reverse : {false, true}) {
        const Attrs attrs{{"axis", axis}, {"reverse", reverse}};
        const InterpreterTensor x = random_array('n', Type(DType::F32, shape), 3, 0.01);
        const InterpreterTensor c = random_array('c', x.type, 4);
        for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Cummin})
          check(kind, {x}, attrs);
        check(OpKind::LinearScan, {c, random_array('a', x.type, 5)}, attrs);
        Attrs exclusive = attrs;
        exclusive.set("exclusive", true);
        check(OpKind::Cumsum, {x}, exclusive);
        check(OpKind::Cumprod, {random_array('n', x.type, 6)}, exclusive);
      }
}

TEST_CASE("orders of lines that fill a block, several, or many lines") {
  const std::vector<Shape> few = {{2049}, {40, 33}};
  const std::vector<Shape> shapes = {{2048},    {2049},    {5000}, {3, 1000},
                                     {130, 33}, {7, 5, 3}, {6, 1}};
  for (DType dtype : {DType::F32, DType::I64, DType::Bool})
    for (const Shape& shape : dtype == DType::F32 ? shapes : few)
      for (int64_t axis = 0; axis < shape.rank(); ++axis)
        for (bool descending : {false, true}) {
          const Attrs attrs{{"axis", axis}, {"descending", descending}};
          InterpreterTensor x = random_array('s', Type(dtype, shape), 7, 0.1);
          // Many are equal.
          for (double& value : x.floats)
            if (std::fabs(value) < 4) value = std::round(4 * value);
          check(OpKind::Sort, {x}, attrs);
          check(OpKind::Argsort, {x}, attrs);
          check(OpKind::SortBy, {random_array('a', Type(DType::F16, shape), 8), x}, attrs);
          const int64_t length = shape[static_cast<int>(axis)];
          for (int64_t k : {int64_t{1}, length / 2, length})
            check(OpKind::Topk, {x}, {{"axis", axis}, {"k", k}, {"largest", descending}});
        }
}

TEST_CASE("results do not depend on the number of threads") {
  const InterpreterTensor x = random_array('a', Type(DType::F32, {400, 333}), 9);
  for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Argsort})
    for (int64_t axis : {0, 1}) {
      const Tensors one = compiled(kind, {x}, {{"axis", axis}}, 1);
      CHECK(ir::describe_difference(one[0], compiled(kind, {x}, {{"axis", axis}}, 2)[0]) == "");
    }
}

/// Families of the kernels that a function of one op becomes.
std::vector<std::string> families(OpKind kind, const Type& type, const Attrs& attrs) {
  std::vector<std::string> names;
  const std::unique_ptr<runtime::Executable> executable =
      runtime::compile(one_op_module(kind, std::vector<Type>{type}, attrs), "f", in_memory());
  for (const ir::Op& op : executable->function().body())
    if (op.kind() == OpKind::Kernel) names.push_back(to_string(ir::family_of(op)));
  return names;
}

TEST_CASE("statistics of rows are one kernel") {
  using Names = std::vector<std::string>;
  const Type type(DType::F16, {64, 100});
  const Attrs rows{{"axes", Attr(std::vector<int64_t>{1})}};
  for (OpKind kind : {OpKind::Prod, OpKind::AnyOf, OpKind::AllOf, OpKind::CountNonzero, OpKind::Var,
                      OpKind::Stddev, OpKind::LogSumExp, OpKind::Norm}) {
    INFO(std::string(ir::to_string(kind)));
    CHECK(families(kind, type, rows) == Names{"rows"});
  }
  CHECK(families(OpKind::Argmin, type, {{"axis", 1}}) == Names{"rows"});
  CHECK(families(OpKind::Cumsum, type, {{"axis", 0}}) == Names{"scan"});
  CHECK(families(OpKind::Sort, type, {{"axis", 0}}) == Names{"sort"});
}

}  // namespace
TEST_CASE("a sum of thousands of operands has the error of a tree of short sums") {
  // In one chain, 4,000 tenths add up to 400.015.
  constexpr double kTerms = 4000, kTenth = 0.1f;
  const Tensors operands(static_cast<size_t>(kTerms), vector_of(DType::F32, {kTenth, -kTenth}));
  const double wanted = kTerms * kTenth, bound = 0x1p-24 * (256 + std::log2(kTerms)) * wanted;
  for (const Tensors& results : run_everywhere(OpKind::AddN, operands, {})) {
    CHECK(std::fabs(results[0].floats[0] - wanted) <= bound);
    CHECK(results[0].floats[1] == -results[0].floats[0]);
  }
}

}  // namespace mezzo::test
