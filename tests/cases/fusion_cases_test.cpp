// SPDX-License-Identifier: Apache-2.0
// Reported faults of compilers that fuse and fold, on every back end. Test names hold their ids
// (ids.txt).
#include <mezzo/mezzo.h>
#include <support/error_of.h>
#include <support/random_array.h>

#include <fmt/format.h>

#include <algorithm>
#include <cases/edge_cases.h>
#include <codegen/cuda_kernels.h>
#include <numeric>
#include <regex>
#include <runtime/compiled.h>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

std::vector<Device> devices() {
  return {Device::interpreter(), Device::by_name(runtime::to_string(test_device()))};
}

bool on_cpu() { return test_device().kind == runtime::DeviceId::Kind::Cpu; }

/// check_runs with every rounding as it is written, one value from one vector.
void check_written(const InterpreterTensor& x, const BuildValue& build, const Numbers& wanted,
                   double tolerance = 0) {
  check_runs(
      {x}, [&](Builder& b, Values v) { return std::vector<Value>{build(b, v)}; }, {wanted},
      tolerance, "as-written");
}

TEST_CASE("CF-01: casts written down are kept, in both rounding modes") {
  struct Case {
    DType wide, narrow;
    Numbers x, wanted;
  };
  const Case cases[] = {
      {DType::F32,
       DType::F16,
       {1 + 0x1p-12, 1 + 3 * 0x1p-12, 65536, 1e-8},
       {1, 1.0009765625, kInf, 0}},
      {DType::F64,
       DType::F16,
       {1 + 0x1p-12, 1 + 3 * 0x1p-12, 65536, 1e-8},
       {1, 1.0009765625, kInf, 0}},
      {DType::F32, DType::BF16, {1 + 0x1p-9, 1 + 3 * 0x1p-9, 3.4e38}, {1, 1.0078125, kInf}},
      {DType::F64,
       DType::F32,
       {1 + 0x1p-25, 1 + 3 * 0x1p-25, 1e39, 1e-46},
       {1, 1 + 0x1p-23, kInf, 0}},
  };
  for (const Case& each : cases)
    for (const char* rounding : {"as-written", "excess"}) {
      CAPTURE(to_string(each.narrow));
      CAPTURE(rounding);
      const InterpreterTensor x = vector_of(each.wide, each.x);
      check_runs(
          {x},
          [&](Builder& b, Values v) {
            const Value down =
                b.make(OpKind::Cast, {v[0]}, {{"user", true}}, {v[0].type().with(each.narrow)});
            const Value up = b.make(OpKind::Cast, {down}, {{"user", true}}, {v[0].type()});
            return std::vector<Value>{up, b.make(OpKind::Neg, {up})};
          },
          {each.wanted,
           [&] {
             Numbers negative = each.wanted;
             for (double& number : negative) number = -number;
             return negative;
           }()},
          0, rounding);
      for (const Device& device : devices()) {
        auto f = jit([&](Tensor t) { return cast(cast(t, each.narrow), each.wide); },
                     {.device = device, .rounding = rounding});
        CHECK(f(Array(x.type.shape, each.x, each.wide)).to_doubles() == each.wanted);
      }
    }
}

TEST_CASE("CF-03: a literal times bf16 is rounded to that type first, and so for other types") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const double wanted = round_to(dtype, 9 * round_to(dtype, 0.1));
    if (dtype == DType::BF16) CHECK(wanted == 0.90234375);
    const auto product = [](Builder& b, Values v) {
      return b.make(OpKind::Mul, {v[0], scalar(b, v[0], 0.1)});
    };
    check_written(vector_of(dtype, {9, -9}), product, {wanted, -wanted});
    for (const Device& device : devices()) {
      auto f = jit([](Tensor x) { return x * 0.1; }, {.device = device});
      const Array y = f(Array({2}, {9, -9}, dtype));
      CHECK(y.dtype() == dtype);
      CHECK(y.to_doubles() == Numbers{wanted, -wanted});
    }
  }
}

TEST_CASE("CF-04: log of exp, root of a square: both overflow where they are written to") {
  const auto log_exp = [](Builder& b, Values v) {
    return b.make(OpKind::Log, {b.make(OpKind::Exp, {v[0]})});
  };
  const auto root_of_product = [](Builder& b, Values v) {
    return b.make(OpKind::Sqrt, {b.make(OpKind::Mul, {v[0], v[0]})});
  };
  const auto root_of_square = [](Builder& b, Values v) {
    return b.make(OpKind::Sqrt, {b.make(OpKind::Square, {v[0]})});
  };
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const double exponent = dtype == DType::F16 ? 12 : dtype == DType::F64 ? 800 : 89;
    check_written(vector_of(dtype, {exponent, 1}), log_exp, {kInf, 1}, tolerance_of(dtype));
    const double huge = dtype == DType::F16 ? 300 : dtype == DType::F64 ? 1e200 : 1e20;
    for (const BuildValue& root : {BuildValue(root_of_product), BuildValue(root_of_square)})
      check_written(vector_of(dtype, {huge, -huge, -3}), root, {kInf, kInf, 3});
    // What a kernel keeps in f32 need not overflow: the interpreter then says so too.
    const InterpreterTensor x = vector_of(dtype, {exponent, huge, -3});
    Module module("m");
    Function* function = module.add_function("f");
    const Value parameter[] = {function->add_parameter(x.type, "x")};
    Builder b(function->body());
    function->set_results(std::vector{log_exp(b, parameter), root_of_product(b, parameter)},
                          std::vector<Attrs>(2));
    for (bool fuse : {true, false}) {
      runtime::CompileOptions options = in_memory();
      options.fuse = fuse;
      const auto executable = runtime::compile(module.clone(), "f", options);
      const Tensors got = run_compiled(*executable, {x}).results,
                    wanted = run_interpreted(*executable, {x}).results;
      for (size_t i = 0; i < got.size(); ++i) CHECK(describe_distance(got[i], wanted[i]) == "");
    }
  }
}

TEST_CASE("CF-06: no contraction of products that cancel with their sum") {
  const auto sum = [](Builder& b, Values v) {
    const Value first = b.make(OpKind::Mul, {v[0], v[2]});
    const Value second = b.make(OpKind::Mul, {v[1], v[2]});
    return std::vector<Value>{b.make(OpKind::Add, {first, second}),
                              b.make(OpKind::Sub, {first, b.make(OpKind::Neg, {second})}),
                              b.make(OpKind::AddN, {first, second})};
  };
  for (const char* rounding : {"as-written", "excess"})
    for (DType dtype : kFloats) {
      CAPTURE(to_string(dtype));
      // The products have more digits than the type, also f16's 1/3 times 1/7.
      const double a = dtype == DType::F16 ? 1.0 / 3 : 1e20,
                   x = dtype == DType::F16 ? 1.0 / 7 : 1e10;
      check_runs({vector_of(dtype, Numbers(5, a)), vector_of(dtype, Numbers(5, -a)),
                  vector_of(dtype, Numbers(5, x))},
                 sum, {Numbers(5, 0), Numbers(5, 0), Numbers(5, 0)}, 0, rounding);
    }
}

TEST_CASE("CF-08: folds that would hide NaN are not done") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor x = vector_of(dtype, {1, kInf, kNan, 0});
    check_runs(
        {x},
        [](Builder& b, Values v) {
          const Value zero = scalar(b, v[0], 0);
          const Value inverse = b.make(OpKind::Reciprocal, {v[0]});
          return std::vector<Value>{
              b.make(OpKind::Mul, {v[0], zero}),    b.make(OpKind::Mul, {zero, v[0]}),
              b.make(OpKind::Sub, {v[0], v[0]}),    b.make(OpKind::Div, {v[0], v[0]}),
              b.make(OpKind::Mul, {v[0], inverse}), b.make(OpKind::Div, {zero, v[0]})};
        },
        {{0, kNan, kNan, 0},
         {0, kNan, kNan, 0},
         {0, kNan, kNan, 0},
         {1, kNan, kNan, kNan},
         {1, kNan, kNan, kNan},
         {0, 0, kNan, kNan}},
        0);
  }
}

TEST_CASE("CF-10: shifted update in place reads what stood there before") {
  for (const char* dtype : {"f64", "f32", "f16", "bf16", "i32"})
    for (int64_t n : {3, 1000}) {
      CAPTURE(dtype);
      CAPTURE(n);
      const std::string all = fmt::format("tensor<{}x{}>", n, dtype),
                        less = fmt::format("tensor<{}x{}>", n - 1, dtype),
                        one = fmt::format("tensor<1x{}>", dtype);
      const std::string text = fmt::format(
          R"(module @m {{
  func @f(%x: {0} {{state}}) -> ({0} {{updates = %x}}) {{
    %head = slice %x {{ends = [1], starts = [0], steps = [1]}} : {0} -> {2}
    %old = slice %x {{ends = [{3}], starts = [0], steps = [1]}} : {0} -> {1}
    %ten = constant {{value = 10{5}}} : tensor<{4}>
    %new = add %old, %ten : ({1}, tensor<{4}>) -> {1}
    %y = concat %head, %new {{axis = 0}} : ({2}, {1}) -> {0}
    return %y : {0}
  }}
}}
)",
          all, less, one, n - 1, dtype, dtype[0] == 'i' ? "" : ".0");
      Numbers numbers(static_cast<size_t>(n)), wanted{1};
      for (size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<double>(i % 100) + 1;
        if (i > 0) wanted.push_back(numbers[i - 1] + 10);
      }
      const auto module = parse(text);
      const Type type = module->functions()[0]->parameter(0).type();
      const Tensors inputs{tensor(type.dtype, type.shape, numbers)};
      const InterpreterTensor expected = tensor(type.dtype, type.shape, wanted);
      CHECK(describe_difference(ir::run(*module, *module->functions()[0], inputs).results[0],
                                expected) == "");
      for (bool fuse : {true, false}) {
        runtime::CompileOptions options = in_memory();
        options.fuse = fuse;
        const auto executable = compile_text(text, "f", options);
        // Into the state, and into memory of the result beside it.
        for (bool bare : {true, false}) {
          const Outcome outcome = run_compiled(*executable, inputs, bare);
          CHECK(describe_difference(outcome.results[0], expected) == "");
          CHECK(describe_difference(outcome.parameters[0], expected) == "");
        }
      }
    }
}

TEST_CASE("CF-12: sums repeat to the bit") {
  const int repeats = on_cpu() ? 1000 : 3;
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I32})
    for (int64_t n : {33, 63, 65, 257, 1024}) {
      // The numbers themselves, or as many as a 16-bit type can count, over and over.
      const int64_t modulus = dtype == DType::F16 || dtype == DType::BF16 ? 2 : n;
      InterpreterTensor x(Type(dtype, {n}));
      double total = 0;
      for (int64_t i = 0; i < n; ++i) {
        x.set_number(i, static_cast<double>(i % modulus));
        total += static_cast<double>(i % modulus);
      }
      if (dtype == DType::F32 && n == 1024) CHECK(total == 523776);
      if (dtype == DType::F32 && n == 257) CHECK(total == 32896);
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      check_op(OpKind::Sum, {x}, over({0}), {total});
      const std::unique_ptr<Module> module =
          one_op_module(OpKind::Sum, std::vector{x.type}, over({0}));
      const auto executable =
          runtime::compile(module->clone(), module->functions()[0]->name(), in_memory());
      int wrong = 0;
      for (int repeat = 0; repeat < repeats; ++repeat)
        wrong += run_compiled(*executable, {x}).results[0].number(0) != total;
      CHECK(wrong == 0);
    }
}

TEST_CASE("CF-12: sums of fractions, in which every order tells, repeat to the bit") {
  // Enough bytes for a second thread on a processor.
  const Shape shape = on_cpu() ? Shape{700, 771} : Shape{65, 33};
  const int repeats = on_cpu() ? 20 : 2;
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    const InterpreterTensor x = random_array('a', Type(dtype, shape), 12);
    if (dtype == DType::F32) {
      float forwards = 0, backwards = 0;
      for (double number : x.floats) forwards += static_cast<float>(number);
      for (size_t i = x.floats.size(); i-- > 0;) backwards += static_cast<float>(x.floats[i]);
      CHECK(forwards != backwards);
    }
    for (const std::vector<int64_t>& axes :
         {std::vector<int64_t>{1}, std::vector<int64_t>{0}, std::vector<int64_t>{0, 1}}) {
      CAPTURE(std::string(to_string(dtype)));
      CAPTURE(axes.size());
      CAPTURE(axes[0]);
      InterpreterTensor first;
      for (int threads : {1, 2}) {
        const std::unique_ptr<Module> module =
            one_op_module(OpKind::Sum, std::vector{x.type}, over(axes));
        const auto executable = runtime::compile(module->clone(), module->functions()[0]->name(),
                                                 in_memory({.threads = threads}));
        // A sum of everything is one task.
        if (on_cpu() && threads == 2)
          CHECK((kernels_for_two_threads(*executable) > 0) == (axes.size() == 1));
        int wrong = 0;
        for (int repeat = 0; repeat < repeats; ++repeat) {
          InterpreterTensor sums = run_compiled(*executable, {x}).results[0];
          if (threads == 1 && repeat == 0)
            first = std::move(sums);
          else
            wrong += !describe_difference(sums, first).empty();
        }
        CAPTURE(threads);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("CF-14: integer division floors, and the rest has the sign of the divisor") {
  const Numbers x{-7, 7, -8, 7, -7, 8}, y{2, -2, 2, 2, -2, -2};
  const Numbers quotient{-4, -4, -4, 3, 3, -4}, rest{1, -1, 0, 1, -1, 0};
  for (DType dtype : kNumbers) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor a = vector_of(dtype, x), d = vector_of(dtype, y);
    check_op(OpKind::FloorDiv, {a, d}, {}, quotient);
    check_op(OpKind::Remainder, {a, d}, {}, rest);
    // A divisor that is known, a power of two or not.
    for (double divisor : {2.0, -2.0, 3.0}) {
      Numbers by, left;
      for (double each : x) {
        by.push_back(std::floor(each / divisor));
        left.push_back(each - by.back() * divisor);
      }
      check_runs(
          {a},
          [&](Builder& b, Values v) {
            const Value known = scalar(b, v[0], divisor);
            return std::vector<Value>{b.make(OpKind::FloorDiv, {v[0], known}),
                                      b.make(OpKind::Remainder, {v[0], known})};
          },
          {by, left}, 0);
    }
  }
}

TEST_CASE("CF-15: index out of range is refused alike by gather and scatter_add") {
  for (const Device& device : devices())
    for (DType dtype : kFloats) {
      CAPTURE(device.name());
      CAPTURE(to_string(dtype));
      const Array x({3}, {10, 20, 30}, dtype);
      auto read = jit([](Tensor t, Tensor i) { return gather(t, i); }, {.device = device});
      auto add = jit([](Tensor t, Tensor i) { return scatter_add(t, i, full({1}, 1, t.dtype())); },
                     {.device = device});
      for (int64_t index : {3, -1, -4}) {
        const Array at({1}, {static_cast<double>(index)}, i32);
        const std::string told =
            ": index " + std::to_string(index) + " is out of range for size 3\n";
        CHECK(error_of([&] { read(x, at); }).find("gather" + told) != std::string::npos);
        CHECK(error_of([&] { add(x, at); }).find("scatter_add" + told) != std::string::npos);
      }
      for (int64_t index : {0, 2}) {
        const Array at({1}, {static_cast<double>(index)}, i32);
        CHECK(read(x, at).item() == x.as_double(index));
        CHECK(add(x, at).as_double(index) == x.as_double(index) + 1);
      }
    }
  // Below the language, where a flag of the run says it, of kernels of one op each too.
  for (bool fuse : {true, false})
    for (bool adds : {false, true}) {
      Tensors inputs{vector_of(DType::F32, {10, 20, 30}), vector_of(DType::I32, {0})};
      if (adds) inputs.push_back(vector_of(DType::F32, {1}));
      std::vector<Type> types;
      for (const InterpreterTensor& input : inputs) types.push_back(input.type);
      runtime::CompileOptions options = in_memory();
      options.fuse = fuse;
      const auto executable = runtime::compile(
          one_op_module(adds ? OpKind::ScatterAdd : OpKind::Gather, types, {{"axis", 0}}), "f",
          options);
      for (double index : {0.0, 1.0, 2.0, 3.0, -1.0, -4.0}) {
        CAPTURE(index);
        inputs[1].set_number(0, index);
        CHECK(run_compiled(*executable, inputs).index_out_of_range == (index < 0 || index > 2));
        CHECK(run_interpreted(*executable, inputs).index_out_of_range == (index < 0 || index > 2));
      }
    }
}

TEST_CASE("CF-16: fill of masked lanes adds nothing") {
  const auto reductions = [](Builder& b, Values v) {
    const Value grown = b.make(OpKind::Exp, {v[0]});
    const Value lower = b.make(OpKind::Sub, {v[0], scalar(b, v[0], 1)});
    return std::vector<Value>{
        b.sum(grown, {0}),
        b.make(OpKind::Mean, {grown}, over({0})),
        b.make(OpKind::Prod, {lower}, over({0})),
        b.max(lower, {0}),
        b.make(OpKind::Min, {grown}, over({0})),
        b.make(OpKind::LogSumExp, {v[0]}, over({0})),
        b.make(OpKind::Softmax, {v[0]}, {{"axis", 0}}),
    };
  };
  for (DType dtype : kFloats)
    for (int64_t n : {1, 3, 4, 7, 17, 33}) {
      CAPTURE(to_string(dtype));
      CAPTURE(n);
      const auto count = static_cast<double>(n);
      check_runs({full_tensor(Type(dtype, {n}), 0)}, reductions,
                 {{count},
                  {1},
                  {n % 2 ? -1.0 : 1.0},
                  {-1},
                  {1},
                  {std::log(count)},
                  Numbers(static_cast<size_t>(n), 1 / count)},
                 tolerance_of(dtype));
    }
  // The padding written down: of four lanes the last one is no number of the row.
  for (DType dtype : kFloats)
    check_runs(
        {vector_of(dtype, {0, 0, 0})},
        [](Builder& b, Values v) {
          const auto padded = [&](double fill) {
            return b.make(OpKind::Pad, {v[0], scalar(b, v[0], fill)},
                          {{"low", Attr(std::vector<int64_t>{0})},
                           {"high", Attr(std::vector<int64_t>{1})},
                           {"interior", Attr(std::vector<int64_t>{0})}});
          };
          const Value lane = b.make(OpKind::Iota, {}, {{"axis", 0}}, {Type(DType::I32, {4})});
          const Value valid = b.make(OpKind::Lt, {lane, scalar(b, lane, 3)});
          const Value grown = b.make(OpKind::Exp, {padded(0)});
          return std::vector<Value>{
              b.sum(b.make(OpKind::Exp, {padded(-kInf)}), {0}),
              b.sum(b.make(OpKind::Where, {valid, grown, scalar(b, grown, 0)}), {0})};
        },
        {{3}, {3}}, 0);
}

TEST_CASE("CF-18: infinite and NaN literals, scalars and vectors, in every type") {
  for (DType dtype : kFloats)
    for (bool spread : {false, true}) {
      CAPTURE(to_string(dtype));
      CAPTURE(spread);
      const auto results = [&](Builder& b, Values v) {
        const auto literal = [&](double value) {
          return spread ? b.constant(v[0].type(), value) : scalar(b, v[0], value);
        };
        const Value positive = b.make(OpKind::Gt, {v[0], literal(0)});
        return std::vector<Value>{b.make(OpKind::Where, {positive, v[0], literal(kInf)}),
                                  b.make(OpKind::Add, {v[0], literal(-kInf)}),
                                  b.make(OpKind::Mul, {v[0], literal(kNan)})};
      };
      const InterpreterTensor x = vector_of(dtype, {1, -1});
      check_runs({x}, results, {{1, kInf}, {-kInf, -kInf}, {kNan, kNan}}, 0);

      // The source text of a GPU has no name for them.
      Module module("m");
      Function* function = module.add_function("f");
      const Value parameter[] = {function->add_parameter(x.type, "x")};
      Builder b(function->body());
      function->set_results(results(b, parameter), std::vector<Attrs>(3));
      compile_passes(module, "sm_90");
      for (const Op* kernel : kernels_of(module)) {
        const std::string text =
            codegen::emit_cuda_kernel(*kernel, target_by_name("sm_90"), "k0").text;
        CAPTURE(text);
        CHECK_FALSE(
            std::regex_search(text, std::regex("\\b(inff?|nanf?|INFINITY|NAN|Inf|NaN)\\b")));
      }
    }
}

TEST_CASE("CF-19: literals beside f16 and its siblings") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    check_runs(
        {vector_of(dtype, {1, -1})},
        [](Builder& b, Values v) {
          const Value zero = scalar(b, v[0], 0);
          const Value doubled = b.make(OpKind::Mul, {v[0], scalar(b, v[0], 2)});
          return std::vector<Value>{
              b.make(OpKind::Where,
                     {b.make(OpKind::Gt, {v[0], zero}), doubled, scalar(b, v[0], 0.5)}),
              b.make(OpKind::Maximum, {v[0], zero}), b.make(OpKind::Lt, {v[0], scalar(b, v[0], 1)}),
              b.make(OpKind::Neg, {v[0]})};
        },
        {{2, 0.5}, {1, 0}, {0, 1}, {-1, 1}}, 0);
    for (const Device& device : devices()) {
      CAPTURE(device.name());
      auto f = jit(
          [](Tensor x) {
            return std::vector<Tensor>{where(x > 0, x * 2, 0.5), maximum(x, 0), x < 1, -x};
          },
          {.device = device});
      const std::vector<Array> y = f(Array({2}, {1, -1}, dtype));
      CHECK(y[0].dtype() == dtype);
      CHECK(y[0].to_doubles() == Numbers{2, 0.5});
      CHECK(y[1].to_doubles() == Numbers{1, 0});
      CHECK(y[2].to_doubles() == Numbers{0, 1});
      CHECK(y[3].to_doubles() == Numbers{-1, 1});
    }
  }
}

}  // namespace
}  // namespace mezzo::test
