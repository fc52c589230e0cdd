// SPDX-License-Identifier: Apache-2.0
// Products of vectors and einsum against plain loops over all indices.
#include <mezzo/mezzo.h>
#include <support/error_of.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

using Numbers = std::vector<double>;

/// Whole numbers, so that sums are exact in any order.
Array small(const Shape& shape, uint64_t seed, DType dtype = f32) {
  ir::InterpreterTensor tensor = test::random_array('a', ir::Type(i32, shape), seed, 0);
  Numbers values;
  for (int64_t value : tensor.integers) values.push_back(static_cast<double>(value % 5));
  return Array(shape, values, dtype);
}

/// Sum over all values of all labels; operands as "ij", lengths of the labels as given.
Numbers by_loops(const std::vector<std::string>& inputs, const std::string& output,
                 const std::vector<Array>& operands, const std::map<char, int64_t>& lengths) {
  std::vector<char> labels;
  for (const auto& [label, length] : lengths) labels.push_back(label);
  int64_t results = 1;
  for (char label : output) results *= lengths.at(label);
  Numbers out(static_cast<size_t>(results), 0);
  std::map<char, int64_t> at;
  auto place = [&](const std::string& names, const Shape* shape) {
    int64_t linear = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const int64_t length = shape ? (*shape)[static_cast<int>(i)] : lengths.at(names[i]);
      linear = linear * length + (length == 1 ? 0 : at[names[i]]);
    }
    return static_cast<size_t>(linear);
  };
  int64_t all = 1;
  for (const auto& [label, length] : lengths) all *= length;
  for (int64_t i = 0; i < all; ++i) {
    int64_t left = i;
    for (char label : labels) {
      at[label] = left % lengths.at(label);
      left /= lengths.at(label);
    }
    double product = 1;
    for (size_t k = 0; k < inputs.size(); ++k)
      product *= operands[k].to_doubles()[place(inputs[k], &operands[k].type.shape)];
    out[place(output, nullptr)] += product;
  }
  return out;
}

struct Sum {
  const char* equation;
  std::vector<std::string> inputs;  // as by_loops takes them
  std::string output;
  std::vector<Shape> shapes;
};

void check(const Sum& test, DType dtype) {
  INFO(test.equation << " of " << std::string(ir::to_string(dtype)));
  std::vector<Array> operands;
  std::map<char, int64_t> lengths;
  for (size_t k = 0; k < test.shapes.size(); ++k) {
    operands.push_back(small(test.shapes[k], k + 1, dtype));
    for (size_t i = 0; i < test.inputs[k].size(); ++i) {
      int64_t& length = lengths.try_emplace(test.inputs[k][i], 1).first->second;
      length = std::max(length, test.shapes[k][static_cast<int>(i)]);
    }
  }
  const Numbers wanted = by_loops(test.inputs, test.output, operands, lengths);
  Array got;
  if (operands.size() == 1)
    got = jit([&](Tensor a) { return einsum(test.equation, {a}); })(operands[0]);
  else if (operands.size() == 2)
    got = jit([&](Tensor a, Tensor b) { return einsum(test.equation, {a, b}); })(operands[0],
                                                                                 operands[1]);
  else
    got = jit([&](Tensor a, Tensor b, Tensor c) { return einsum(test.equation, {a, b, c}); })(
        operands[0], operands[1], operands[2]);
  CHECK(got.to_doubles() == wanted);
}

std::string refused(const char* equation, const std::vector<Shape>& shapes) {
  return test::error_of([&] {
    if (shapes.size() == 1)
      jit([&](Tensor a) { return einsum(equation, {a}); })(small(shapes[0], 1));
    else
      jit([&](Tensor a, Tensor b) { return einsum(equation, {a, b}); })(small(shapes[0], 1),
                                                                        small(shapes[1], 2));
  });
}

}  // namespace

TEST_CASE("einsum is the sum over all labels that the result lacks") {
  const std::vector<Sum> sums = {
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"ij,jk", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"ji,jk->ki", {"ji", "jk"}, "ki", {{4, 3}, {4, 5}}},
      {"bij,bjk->bik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}, "bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}},
      {"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}, "bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
      {"i,i", {"i", "i"}, "", {{7}, {7}}},
      {"i,j->ij", {"i", "j"}, "ij", {{3}, {4}}},
      {"bi,bi->b", {"bi", "bi"}, "b", {{3, 4}, {3, 4}}},
      {"ii", {"ii"}, "", {{4, 4}}},
      {"ii->i", {"ii"}, "i", {{4, 4}}},
      {"iji->j", {"iji"}, "j", {{3, 2, 3}}},
      {"ijk->kji", {"ijk"}, "kji", {{2, 3, 4}}},
      {"ijk->j", {"ijk"}, "j", {{2, 3, 4}}},
      {"ba", {"ba"}, "ab", {{2, 3}}},
      {"...ij,...jk->...ik", {"aij", "jk"}, "aik", {{2, 3, 4}, {4, 5}}},
      {"...i->...", {"abi"}, "ab", {{2, 3, 4}}},
      {"i...,i...", {"iab", "ib"}, "ab", {{3, 2, 4}, {3, 4}}},
      {"ij,j", {"ij", "j"}, "i", {{3, 4}, {1}}},
      {"ij,ij->ij", {"ij", "ij"}, "ij", {{3, 1}, {3, 4}}},
      {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il", {{2, 3}, {3, 4}, {4, 2}}},
      {"ij,ik,il->jkl", {"ij", "ik", "il"}, "jkl", {{3, 2}, {3, 2}, {3, 4}}},
      {" i j , j k -> i k ", {"ij", "jk"}, "ik", {{2, 3}, {3, 2}}},
      {"ij,kl->", {"ij", "kl"}, "", {{2, 3}, {3, 2}}},
      {"Ab,bA->A", {"ab", "ba"}, "a", {{2, 3}, {3, 2}}},
  };
  for (const Sum& each : sums) {
    check(each, f32);
    check(each, i32);
  }
}

TEST_CASE("einsum says which label does not fit, and where") {
  CHECK(refused("ij,jk->ik", {{3, 4}, {5, 2}})
            .find("einsum: 'j' has length 4 in operand 0 and 5 in operand 1 in \"ij,jk->ik\"") !=
        std::string::npos);
  CHECK(refused("ij->ijk", {{3, 4}}).find("'k' of the result is in no operand") !=
        std::string::npos);
  CHECK(refused("ij->ii", {{3, 4}}).find("'i' stands twice in the result") != std::string::npos);
  CHECK(refused("ij,jk", {{3, 4}}).find("2 operands are named, 1 given") != std::string::npos);
  CHECK(refused("ijk", {{3, 4}}).find("operand 0 of tensor<3x4xf32> has 2 axes for 3 labels") !=
        std::string::npos);
  CHECK(refused("i1", {{3, 4}}).find("'1' is no label") != std::string::npos);
  CHECK(refused("...i->i", {{3, 4}}).find("the result lacks the '...' of the operands") !=
        std::string::npos);
  CHECK(refused("...,...", {{3, 4}, {3, 5}}).find("axis -1 of '...' has length 4") !=
        std::string::npos);
}

TEST_CASE("products of vectors have the axes that NumPy gives them") {
  const Array v({3}, {1, 2, 3}), w({3}, {4, 5, 6}), m({2, 3}, {1, 0, 2, 3, 1, 0});
  const Array stack({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  auto of = [](auto f) { return jit([f](Tensor a, Tensor b) { return f(a, b); }); };
  auto product = of([](Tensor a, Tensor b) { return matmul(a, b); });
  CHECK(product(v, w).type == ir::Type(f32, {}));
  CHECK(product(v, w).to_doubles() == Numbers{32});
  CHECK(product(m, v).to_doubles() == Numbers{7, 5});
  CHECK(product(v, stack).type.shape == Shape{2, 2});
  CHECK(product(v, stack).to_doubles() == Numbers{22, 28, 58, 64});
  auto dots = of([](Tensor a, Tensor b) { return dot(a, b); });
  CHECK(dots(v, w).to_doubles() == Numbers{32});
  CHECK(dots(m, v).to_doubles() == Numbers{7, 5});
  CHECK(dots(m, stack).type.shape == Shape{2, 2, 2});
  CHECK(dots(m, stack).to_doubles() == Numbers{11, 14, 29, 32, 6, 10, 30, 34});
  CHECK(of([](Tensor a, Tensor b) { return outer(a, b); })(v, w).to_doubles() ==
        Numbers{4, 5, 6, 8, 10, 12, 12, 15, 18});
  CHECK(test::error_of([&] {
          jit([](Tensor a, Tensor b) { return matmul(a, b, {.transpose_a = true}); })(v, m);
        }).find("matmul: a vector has no axes to transpose") != std::string::npos);
}

TEST_CASE("the gradient of einsum is that of the products it is made of") {
  const Array a = small({3, 4}, 1), b = small({4, 2}, 2);
  auto slope = jit([](Tensor x, Tensor y) {
    return grad([&](Tensor t) { return sum(einsum("ij,jk->ik", {t, y})); })(x);
  });
  const Numbers y = b.to_doubles(), dx = slope(a, b).to_doubles();
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 4; ++j) CHECK(dx[i * 4 + j] == y[j * 2] + y[j * 2 + 1]);
}
