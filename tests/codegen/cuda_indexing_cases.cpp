// SPDX-License-Identifier: Apache-2.0
// Reversal, concatenation, padding with a value, reading and adding by index: with and without
// vectors, through views, with ops before and behind.
#include <fmt/format.h>

#include <codegen/cuda_cases.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

using Ints = std::vector<int64_t>;

Attrs axis(int64_t number) { return {{"axis", Attr(number)}}; }

/// Indices that are computed, so that they lie in [0, size) whatever the parameter holds, but for
/// every seventh or so.
Value computed_indices(Builder& b, Value from, int64_t size) {
  const Type scalar(from.dtype(), {});
  const Value low = b.make(OpKind::Maximum, {from, b.constant(scalar, 0)});
  return b.make(OpKind::Minimum, {low, b.constant(scalar, static_cast<double>(size - 1))});
}

}  // namespace

std::vector<CudaCase> indexing_cases() {
  std::vector<CudaCase> cases;
  auto add = [&](const std::string& name, std::unique_ptr<ir::Module> module) {
    cases.push_back({name, std::move(module)});
  };
  for (DType dtype : ir::kAllDTypes) {
    const std::string type = ir::to_string(dtype);
    auto of = [&](const Shape& shape) { return Type(dtype, shape); };
    auto index = [&](const Shape& shape) { return Type(DType::I32, shape); };
    add("flip rows " + type, one_op(OpKind::Flip, {of({6, 16})}, {{"axes", Attr(Ints{0})}}));
    add("flip all " + type, one_op(OpKind::Flip, {of({5, 7})}, {{"axes", Attr(Ints{0, 1})}}));
    add("flip columns " + type, one_op(OpKind::Flip, {of({6, 32})}, {{"axes", Attr(Ints{1})}}));
    add("concat rows " + type,
        one_op(OpKind::Concat, {of({2, 32}), of({0, 32}), of({5, 32})}, axis(0)));
    add("concat vectors " + type,
        one_op(OpKind::Concat, {of({3, 16}), of({3, 32}), of({3, 16})}, axis(1)));
    add("concat elements " + type,
        one_op(OpKind::Concat, {of({4, 3}), of({4, 5}), of({4, 1})}, axis(1)));
    add("concat in the middle " + type,
        one_op(OpKind::Concat, {of({2, 3, 16}), of({2, 1, 16})}, axis(1)));
    if (dtype != DType::Bool)
      add("concat through views and ops " + type,
          module_of({of({16, 4}), of({4, 16}), of({1, 1})}, [&](Builder& b,
                                                                std::span<const Value> x) {
            const Value turned = b.make(OpKind::Transpose, {x[0]}, {{"perm", Attr(Ints{1, 0})}});
            const Value back = b.make(OpKind::Flip, {x[1]}, {{"axes", Attr(Ints{1})}});
            const Value one = b.constant(Type(dtype, {4, 8}), 1);
            const Value wide = b.make(OpKind::Concat, {turned, back, one, x[1]}, axis(1));
            return std::vector<Value>{b.make(OpKind::Maximum, {wide, x[2]})};
          }));
    add("pad with a value " + type, one_op(OpKind::Pad, {of({5, 16}), of({})},
                                           {{"low", Attr(Ints{1, 0})},
                                            {"high", Attr(Ints{2, 16})},
                                            {"interior", Attr(Ints{0, 0})}}));
    add("pad columns " + type, one_op(OpKind::Pad, {of({5, 7}), of({})},
                                      {{"low", Attr(Ints{0, 3})},
                                       {"high", Attr(Ints{1, 0})},
                                       {"interior", Attr(Ints{1, 1})}}));
    add("gather rows " + type, one_op(OpKind::Gather, {of({9, 32}), index({11})}, axis(0)));
    add("gather rows by matrix " + type,
        one_op(OpKind::Gather, {of({4, 5}), Type(DType::I64, {3, 7})}, axis(0)));
    add("gather elements " + type,
        one_op(OpKind::Gather, {of({6, 9}), Type(DType::U8, {16})}, axis(1)));
    add("gather in the middle " + type,
        one_op(OpKind::Gather, {of({2, 5, 16}), index({2, 2})}, axis(1)));
    add("gather of nothing " + type, one_op(OpKind::Gather, {of({0, 4}), index({3})}, axis(0)));
    add("take along rows " + type,
        one_op(OpKind::TakeAlongAxis, {of({7, 9}), index({7, 16})}, axis(1)));
    add("take along columns " + type,
        one_op(OpKind::TakeAlongAxis, {of({7, 32}), Type(DType::I64, {3, 32})}, axis(0)));
    if (dtype != DType::Bool)
      add("gather between ops " + type,
          module_of({of({32, 9}), index({11, 1}), of({11, 1})}, [&](Builder& b,
                                                                    std::span<const Value> x) {
            const Value turned = b.make(OpKind::Transpose, {x[0]}, {{"perm", Attr(Ints{1, 0})}});
            const Value at = b.reshape(computed_indices(b, x[1], 9), {11});
            const Value read = b.make(OpKind::Gather, {turned, at}, axis(0));
            return std::vector<Value>{b.make(OpKind::Minimum, {read, x[2]}), read};
          }));
  }
  return cases;
}

std::vector<CudaCase> scatter_cases() {
  std::vector<CudaCase> cases;
  for (DType dtype : ir::kAllDTypes) {
    if (dtype == DType::Bool) continue;
    const std::string type = ir::to_string(dtype);
    auto of = [&](const Shape& shape) { return Type(dtype, shape); };
    auto index = [&](const Shape& shape) { return Type(DType::I32, shape); };
    Attrs attrs = axis(0);
    if (ir::is_float(dtype)) attrs.set("word", 0);
    auto add = [&](const std::string& name, const std::vector<Type>& operands, Attrs of_op) {
      cases.push_back({name + " " + type, one_op(OpKind::ScatterAdd, operands, std::move(of_op))});
    };
    add("scatter rows", {of({9, 20}), index({30}), of({30, 20})}, attrs);
    add("scatter elements", {of({40}), Type(DType::I64, {3, 7}), of({3, 7})}, attrs);
    add("scatter in the middle", {of({2, 5, 6}), Type(DType::U8, {2, 4}), of({2, 2, 4, 6})},
        axis(1));
    add("scatter at one place", {of({3, 4}), index({}), of({4})}, axis(0));
    add("scatter nothing", {of({3, 4}), index({0}), of({0, 4})}, axis(0));
    add("scatter to nothing", {of({0, 4}), index({5}), of({5, 4})}, axis(0));
    add("scatter columns of nothing", {of({3, 0}), index({5}), of({5, 0})}, axis(0));
    // More than a digit of the sort, more than a block of threads, more than a block of a sum.
    cases.push_back(
        {"scatter many rows " + type,
         module_of(
             {of({700}), index({2500}), of({2500})}, [&](Builder& b, std::span<const Value> x) {
               const Type scalar(DType::I32, {});
               const Value spread = b.make(OpKind::Mul, {x[1], b.constant(scalar, 3)});
               const Value at = b.make(OpKind::Add, {spread, b.constant(scalar, 300)});
               return std::vector<Value>{b.make(OpKind::ScatterAdd, {x[0], at, x[2]}, axis(0))};
             })});
    if (!ir::is_float(dtype)) continue;
    const Type wide = Type(dtype == DType::F64 ? DType::F64 : DType::F32, {6, 9});
    cases.push_back(
        {"scatter between ops " + type,
         module_of({index({14}), of({14, 9}), wide.with(Shape{})},
                   [&](Builder& b, std::span<const Value> x) {
                     const Value at = computed_indices(b, x[0], 6);
                     const Value product = b.make(OpKind::Mul, {x[1], x[1]}, {{"word", 0}});
                     const Value zeros = b.constant(wide, 0);
                     const Value sums = b.make(OpKind::ScatterAdd, {zeros, at, product},
                                               {{"axis", Attr(int64_t{0})}, {"word", 1}});
                     const Value scaled = b.make(OpKind::Mul, {sums, x[2]}, {{"word", 2}});
                     return std::vector<Value>{scaled, sums};
                   })});
  }
  return cases;
}

}  // namespace mezzo::test
