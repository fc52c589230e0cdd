// SPDX-License-Identifier: Apache-2.0
// Reported faults around shapes, broadcasts, empty axes and tails on every back end. Test names
// hold their ids (ids.txt).
#include <mezzo/mezzo.h>

#include <algorithm>
#include <cases/edge_cases.h>
#include <runtime/compiled.h>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

TEST_CASE("SB-01: sum of a column and a row is a matrix") {
  const auto sum = [](Builder& b, Values v) { return b.make(OpKind::Add, {v[0], v[1]}); };
  const Numbers wanted{11, 21, 31, 12, 22, 32, 13, 23, 33};
  for (DType dtype : kFloats)
    check_gradient_runs({tensor(dtype, {3, 1}, {1, 2, 3}), vector_of(dtype, {10, 20, 30})}, sum,
                        {wanted, {3, 3, 3}, {3, 3, 3}}, 0);
  for (DType dtype : kNumbers)
    check_op(OpKind::Add, {tensor(dtype, {3, 1}, {1, 2, 3}), vector_of(dtype, {10, 20, 30})}, {},
             wanted);
}

TEST_CASE("SB-03: axes of size 1 and transposes are read with their own strides") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    check_runs(
        {tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6})},
        [](Builder& b, Values v) {
          const Value turned = b.transpose(v[0], {1, 0});
          return std::vector<Value>{b.sum(turned, {1}), b.sum(turned, {0}), turned};
        },
        {{5, 7, 9}, {6, 15}, {1, 4, 2, 5, 3, 6}}, 0);
    Numbers counted(20);
    for (size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<double>(i);
    check_runs(
        {tensor(dtype, {4, 5}, counted), tensor(dtype, {1, 2}, {1, 2})},
        [](Builder& b, Values v) {
          const Value first = b.slice(v[0], {0, 0}, {4, 1});
          const Value fourth = b.slice(v[0], {0, 3}, {4, 4});
          return std::vector<Value>{
              first,
              b.make(OpKind::Neg, {first}),
              b.sum(first, {1}),
              b.sum(first, {0}),
              b.transpose(fourth, {1, 0}),
              b.make(OpKind::Add, {first, v[1]}),
              b.make(OpKind::Matmul, {fourth, v[1]}),
          };
        },
        {{0, 5, 10, 15},
         {0, -5, -10, -15},
         {0, 5, 10, 15},
         {30},
         {3, 8, 13, 18},
         {1, 2, 6, 7, 11, 12, 16, 17},
         {3, 6, 8, 16, 13, 26, 18, 36}},
        0);
  }
}

TEST_CASE("SB-04: reduced axis of size 0 among others") {
  for (DType dtype : kNumbers) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor none(Type(dtype, {3, 4, 0, 5}));
    check_op(OpKind::Sum, {none}, over({2}), Numbers(60, 0));
    check_op(OpKind::Prod, {none}, over({2}), Numbers(60, 1));
    check_op(OpKind::Sum, {none}, over({0, 2, 3}, true), Numbers(4, 0));
    // What is left has no elements either.
    check_op(OpKind::Sum, {none}, over({0}), {});
    check_op(OpKind::Max, {none}, over({1, 3}), {});
    if (is_float(dtype)) check_op(OpKind::Mean, {none}, over({2}), Numbers(60, kNan));
    for (OpKind kind : {OpKind::Max, OpKind::Min})
      CHECK_THROWS_AS(one_op_module(kind, std::vector{none.type}, over({2})), UserError);
  }
}

TEST_CASE("SB-06: reductions of nothing give what is written for each") {
  struct Row {
    OpKind kind;
    double of_nothing;
  };
  const Row any[] = {{OpKind::Sum, 0},
                     {OpKind::Prod, 1},
                     {OpKind::AnyOf, 0},
                     {OpKind::AllOf, 1},
                     {OpKind::CountNonzero, 0}};
  const Row floats[] = {{OpKind::Mean, kNan},
                        {OpKind::Var, kNan},
                        {OpKind::Stddev, kNan},
                        {OpKind::LogSumExp, -kInf},
                        {OpKind::Norm, 0}};
  for (DType dtype : kNumbers) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor empty(Type(dtype, {0})), rows(Type(dtype, {2, 0})),
        columns(Type(dtype, {0, 3}));
    const auto check = [&](const Row& row) {
      CAPTURE(to_string(row.kind));
      check_op(row.kind, {empty}, over({0}), {row.of_nothing});
      check_op(row.kind, {rows}, over({1}), Numbers(2, row.of_nothing));
      check_op(row.kind, {columns}, over({0}), Numbers(3, row.of_nothing));
    };
    for (const Row& row : any) check(row);
    if (is_float(dtype))
      for (const Row& row : floats) check(row);
    for (OpKind kind : {OpKind::Max, OpKind::Min})
      CHECK_THROWS_AS(one_op_module(kind, std::vector{rows.type}, over({1})), UserError);
    for (OpKind kind : {OpKind::Argmax, OpKind::Argmin})
      CHECK_THROWS_AS(one_op_module(kind, std::vector{rows.type}, {{"axis", 1}}), UserError);
  }
}

TEST_CASE("SB-08: sizes 0, 1 and many are each compiled once and never taken for each other") {
  for (const Device& device :
       {Device::interpreter(), Device::by_name(runtime::to_string(test_device()))})
    for (DType dtype : kFloats) {
      CAPTURE(device.name());
      int programs = 0;
      auto add = jit(
          [&](Tensor x, Tensor b) {
            ++programs;
            return x + b;
          },
          {.device = device});
      for (int64_t n : {1, 2, 1, 3, 0, 1, 2, 3, 0}) {
        CAPTURE(n);
        Array x(Type(dtype, {n, 3})), b(Type(dtype, {n, 1}));
        Numbers wanted;
        for (int64_t i = 0; i < 3 * n; ++i) {
          x.set(i, static_cast<double>(i));
          if (i < n) b.set(i, static_cast<double>(10 * (i + 1)));
          wanted.push_back(static_cast<double>(i + 10 * (i / 3 + 1)));
        }
        const Array y = add(x, b);
        CHECK(y.shape() == Shape{n, 3});
        CHECK(y.to_doubles() == wanted);
      }
      CHECK(programs == 4);  // one for each n
    }
}

TEST_CASE("SB-09: more than 65535 rows and products are all written") {
  const int64_t rows = 70000;
  const bool cpu = test_device().kind == runtime::DeviceId::Kind::Cpu;
  for (DType dtype : kFloats) {
    // One type shows the grid; a driver that is interpreted takes its time.
    if (!cpu && dtype != DType::F32) continue;
    CAPTURE(to_string(dtype));
    check_op(OpKind::Sum, {full_tensor(Type(dtype, {rows, 4}), 1)}, over({1}), Numbers(rows, 4));
    InterpreterTensor a(Type(dtype, {rows, 2, 2}));
    Numbers wanted;
    for (int64_t i = 0; i < rows; ++i) {
      const auto own = static_cast<double>(i % 7);
      for (int64_t at : {0, 1, 2, 3}) a.set_number(4 * i + at, at == 0 ? own : 1);
      // [own 1; 1 1] squared.
      for (double each : {own * own + 1, own + 1, own + 1, 2.0}) wanted.push_back(each);
    }
    check_op(OpKind::Matmul, {a, a}, {}, wanted);
  }
}

/// The executable of y = x + 1 for n elements.
std::unique_ptr<runtime::Executable> increment(DType dtype, int64_t n, bool fuse) {
  Module module("m");
  Function* function = module.add_function("f");
  const Value x = function->add_parameter(Type(dtype, {n}), "x");
  Builder b(function->body());
  function->set_results(std::vector<Value>{b.make(OpKind::Add, {x, scalar(b, x, 1)})}, {Attrs()});
  runtime::CompileOptions options = in_memory();
  options.fuse = fuse;
  return runtime::compile(module.clone(), "f", options);
}

TEST_CASE("SB-11: odd tails are written whole, and nothing behind them or in front") {
  for (DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8})
    for (int64_t n : {1, 2, 3, 5, 7, 8, 9, 31, 33}) {
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      // In user memory: one guard in front, so that vectors are unaligned, and as many behind as
      // the widest vector has.
      const InterpreterTensor guards = full_tensor(Type(dtype, {n + 65}), 77);
      InterpreterTensor x(Type(dtype, {n}));
      for (int64_t i = 0; i < n; ++i) x.set_number(i, static_cast<double>(i + 1));
      std::vector<std::byte> in(static_cast<size_t>(x.type.bytes()));
      to_bytes(x, in);
      for (bool fuse : {true, false}) {
        std::vector<std::byte> out(static_cast<size_t>(guards.type.bytes()));
        to_bytes(guards, out);
        void* parameters[] = {in.data()};
        void* results[] = {out.data() + byte_size(dtype)};
        increment(dtype, n, fuse)->run(parameters, results);
        InterpreterTensor wanted = guards;
        for (int64_t i = 0; i < n; ++i) wanted.set_number(i + 1, static_cast<double>(i + 2));
        CHECK(describe_difference(from_bytes(guards.type, out), wanted) == "");
      }
      // In memory of the device: the guards are the next elements of one result.
      Numbers joined(1, 77);
      for (int64_t i = 0; i < n; ++i) joined.push_back(static_cast<double>(i + 2));
      joined.push_back(77);
      check_runs(
          {x, full_tensor(Type(dtype, {1}), 77)},
          [](Builder& b, Values v) {
            const Value more = b.make(OpKind::Add, {v[0], scalar(b, v[0], 1)});
            return std::vector<Value>{b.make(OpKind::Concat, {v[1], more, v[1]}, {{"axis", 0}})};
          },
          {joined}, 0);
    }
}

}  // namespace
}  // namespace mezzo::test
