// SPDX-License-Identifier: Apache-2.0
// Constants, ramps, views, padding, and the checks of a run's inputs.
#include <mezzo/ir/error.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Ints = std::vector<int64_t>;

/// 0, 1, 2 ... as i32.
InterpreterTensor ramp(const Shape& shape) {
  InterpreterTensor tensor(Type(DType::I32, shape));
  for (size_t i = 0; i < tensor.integers.size(); ++i) tensor.integers[i] = static_cast<int64_t>(i);
  return tensor;
}

}  // namespace

TEST_CASE("transpose, slice, reshape, broadcast_to and pad move what their attributes say") {
  InterpreterTensor x = ramp({2, 3});
  CHECK(eval_op(OpKind::Transpose, {x}, {{"perm", Attr(Ints{1, 0})}}).integers ==
        Ints{0, 3, 1, 4, 2, 5});
  CHECK(eval_op(OpKind::Transpose, {ramp({2, 3, 2})}, {{"perm", Attr(Ints{2, 0, 1})}}).integers ==
        Ints{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
  CHECK(eval_op(
            OpKind::Slice, {ramp({3, 5})},
            {{"starts", Attr(Ints{1, 0})}, {"ends", Attr(Ints{3, 5})}, {"steps", Attr(Ints{1, 2})}})
            .integers == Ints{5, 7, 9, 10, 12, 14});
  CHECK(eval_op(OpKind::Reshape, {x}, {{"shape", Attr(Ints{3, 2})}}).integers ==
        Ints{0, 1, 2, 3, 4, 5});
  CHECK(eval_op(OpKind::BroadcastTo, {ramp({2, 1})}, {{"shape", Attr(Ints{2, 2, 3})}}).integers ==
        Ints{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  InterpreterTensor ones = full_tensor(Type(DType::I32, {2, 2}), 1);
  CHECK(eval_op(
            OpKind::Pad, {ones},
            {{"low", Attr(Ints{1, 0})}, {"high", Attr(Ints{0, 1})}, {"interior", Attr(Ints{0, 1})}})
            .integers == Ints{0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(eval_op(
            OpKind::Slice, {x},
            {{"starts", Attr(Ints{1, 1})}, {"ends", Attr(Ints{1, 3})}, {"steps", Attr(Ints{1, 1})}})
            .elements() == 0);
}

TEST_CASE("constants are splats, lists, bits and resources") {
  Type f16(DType::F16, {2});
  CHECK(eval_op(OpKind::Constant, {}, {{"value", 0.1}}, {f16}).floats ==
        std::vector<double>(2, round_to(DType::F16, 0.1)));
  CHECK(eval_op(OpKind::Constant, {}, {{"value", Bits{0x7C00, 4}}}, {f16}).floats[1] ==
        std::numeric_limits<double>::infinity());
  int64_t large = (int64_t{1} << 62) + 1;
  Attr list(AttrList{Attr(large), Attr(int64_t{-1})});
  CHECK(eval_op(OpKind::Constant, {}, {{"value", list}}, {Type(DType::I64, {2})}).integers ==
        Ints{large, -1});
  CHECK_THROWS_WITH_AS(eval_op(OpKind::Constant, {}, {{"value", Resource{"w"}}}, {f16}),
                       doctest::Contains("no reader was given for resource(\"w\")"),
                       mezzo::UserError);

  auto module = one_op_module(OpKind::Constant, {}, {{"value", Resource{"w"}}}, std::span(&f16, 1));
  RunOptions options;
  options.resource = [](const std::string& name, const Type& type) {
    CHECK(name == "w");
    return full_tensor(type, 3);
  };
  CHECK(run(*module, *module->function("f"), {}, options).results[0].floats[1] == 3);
  options.resource = [](const std::string&, const Type&) {
    return InterpreterTensor(Type(DType::F32, {2}));
  };
  CHECK_THROWS_WITH_AS(run(*module, *module->function("f"), {}, options),
                       doctest::Contains("is tensor<2xf32>, not tensor<2xf16>"), mezzo::UserError);
}

TEST_CASE("iota counts along its axis") {
  CHECK(eval_op(OpKind::Iota, {}, {{"axis", 1}}, {Type(DType::I32, {2, 3})}).integers ==
        Ints{0, 1, 2, 0, 1, 2});
  CHECK(eval_op(OpKind::Iota, {}, {{"axis", 0}}, {Type(DType::F16, {2, 2})}).floats ==
        std::vector<double>{0, 0, 1, 1});
}

TEST_CASE("bytes of every element type go in and out unchanged") {
  for (DType type : kAllDTypes) {
    Type four(type, {4});
    std::vector<std::byte> bytes(static_cast<size_t>(four.bytes())), back(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(type == DType::Bool ? i % 2 : 17 * i + 1);
    to_bytes(from_bytes(four, bytes), back);
    CHECK(bytes == back);
    bytes.pop_back();
    CHECK_THROWS_AS(from_bytes(four, bytes), mezzo::UserError);
  }
}

TEST_CASE("differences of bits are found and named") {
  Type type(DType::F32, {3});
  double nan = std::numeric_limits<double>::quiet_NaN();
  InterpreterTensor a = make_tensor(type, {1, nan, 0.0}), b = make_tensor(type, {1, -nan, -0.0});
  CHECK_FALSE(same_bits(a, b));
  CHECK(describe_difference(a, b) == "element 2: 0 and -0 (1 differ)");
  b.floats[2] = 0;
  CHECK(same_bits(a, b));
  CHECK(describe_difference(a, b).empty());
  CHECK_FALSE(same_bits(a, InterpreterTensor(Type(DType::F16, {3}))));
}

TEST_CASE("inputs must be as many and of the types of the parameters") {
  Type f32(DType::F32, {2});
  auto module = one_op_module(OpKind::Neg, std::span(&f32, 1));
  const Function& function = *module->function("f");
  CHECK_THROWS_WITH_AS(run(*module, function, {}), doctest::Contains("takes 1 input, not 0"),
                       mezzo::UserError);
  InterpreterTensor wrong(Type(DType::F16, {2}));
  CHECK_THROWS_WITH_AS(run(*module, function, std::span(&wrong, 1)),
                       doctest::Contains("must be tensor<2xf32>, not tensor<2xf16>"),
                       mezzo::UserError);
}

TEST_CASE("the observer sees every op with its results") {
  Type f32(DType::F32, {2});
  auto module = one_op_module(OpKind::Neg, std::span(&f32, 1));
  RunOptions options;
  std::vector<OpKind> seen;
  options.observe = [&](const Op& op, std::span<const InterpreterTensor> results) {
    seen.push_back(op.kind());
    if (op.kind() == OpKind::Neg) CHECK(results[0].floats[0] == -2);
  };
  InterpreterTensor x = full_tensor(f32, 2);
  run(*module, *module->function("f"), std::span(&x, 1), options);
  CHECK(seen == std::vector<OpKind>{OpKind::Neg, OpKind::Return});
}

TEST_CASE("gradient is refused with the remedy") {
  Module module;
  Function* loss = module.add_function("loss");
  Value w = loss->add_parameter(Type(DType::F32, {}), "w");
  Value results[] = {Builder(loss->body()).make(OpKind::Square, {w})};
  loss->set_results(results, {Attrs()});
  Function* step = module.add_function("step");
  Value p = step->add_parameter(Type(DType::F32, {}), "p");
  Op* gradient =
      Builder(step->body())
          .create(OpKind::Gradient, {p}, {{"func", Symbol{"loss"}}, {"wrt", Attr(Ints{0})}});
  step->set_results(gradient->results(), std::vector<Attrs>(2));
  InterpreterTensor one = full_tensor(p.type(), 1);
  CHECK_THROWS_WITH_AS(run(module, *step, std::span(&one, 1)),
                       doctest::Contains("run the pass `autodiff` first"), mezzo::UserError);
}
