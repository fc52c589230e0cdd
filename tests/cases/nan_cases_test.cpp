// SPDX-License-Identifier: Apache-2.0
// Reported faults around NaN on every back end. Test names hold their ids (ids.txt).
#include <algorithm>
#include <cases/edge_cases.h>
#include <cmath>

namespace mezzo::test {
namespace {

using namespace mezzo::ir;

/// Rows of ordinary numbers with NaN at some places: element i of row r is NaN where `places[r]`
/// names it. Vectors, their tails, warps and blocks all have their turn.
struct NanRows {
  std::vector<std::vector<int64_t>> places;
  int64_t length;

  Numbers numbers() const {
    Numbers out;
    for (const std::vector<int64_t>& row : places)
      for (int64_t i = 0; i < length; ++i)
        out.push_back(std::ranges::count(row, i) ? kNan : static_cast<double>(i % 7) - 3);
    return out;
  }
  InterpreterTensor tensor(DType dtype) const {
    return test::tensor(dtype, {std::ssize(places), length}, numbers());
  }
  /// The rows as columns.
  InterpreterTensor columns(DType dtype) const {
    const int64_t rows = std::ssize(places);
    const Numbers by_row = numbers();
    Numbers out;
    for (int64_t i = 0; i < length; ++i)
      for (int64_t r = 0; r < rows; ++r) out.push_back(by_row[static_cast<size_t>(r * length + i)]);
    return test::tensor(dtype, {length, rows}, out);
  }
};

const NanRows kShort{{{}, {0}, {31}, {32, 40}, {66}}, 67};
const NanRows kLong{{{}, {0, 1999}, {255}, {256, 257}, {1024}, {1999}}, 2000};

TEST_CASE("NP-01: extrema keep NaN, of two numbers and of many") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor x = vector_of(dtype, {kNan, 1, kNan, 1}),
                            y = vector_of(dtype, {1, kNan, kNan, 1});
    for (OpKind kind : {OpKind::Maximum, OpKind::Minimum})
      check_op(kind, {x, y}, {}, {kNan, kNan, kNan, 1});
    for (OpKind kind : {OpKind::Max, OpKind::Min}) {
      check_op(kind, {vector_of(dtype, {1, kNan, 3})}, over({0}), {kNan});
      const double extremum = kind == OpKind::Max ? 3 : -3;
      for (const NanRows* rows : {&kShort, &kLong}) {
        Numbers wanted{extremum};
        wanted.resize(rows->places.size(), kNan);
        check_op(kind, {rows->tensor(dtype)}, over({1}), wanted);
        check_op(kind, {rows->columns(dtype)}, over({0}), wanted);
      }
    }
    // Beside a number that is known.
    for (OpKind kind : {OpKind::Maximum, OpKind::Minimum})
      for (bool first : {false, true})
        check_runs(
            {vector_of(dtype, {kNan, 1})},
            [&](Builder& b, Values v) {
              const Value one = scalar(b, v[0], 1);
              return std::vector<Value>{first ? b.make(kind, {one, v[0]})
                                              : b.make(kind, {v[0], one})};
            },
            {{kNan, 1}}, 0);
  }
}

TEST_CASE("NP-02: relu and clamp keep NaN, and so do their kin") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor x = vector_of(dtype, {kNan, -8, 8});
    check_op(OpKind::Relu, {x}, {}, {kNan, 0, 8});
    check_op(OpKind::Relu6, {x}, {}, {kNan, 0, 6});
    check_op(OpKind::HardTanh, {x}, {}, {kNan, -1, 1});
    check_op(OpKind::HardSigmoid, {x}, {}, {kNan, 0, 1});
    check_op(OpKind::HardSwish, {x}, {}, {kNan, 0, 8});
    check_op(OpKind::Clamp, {x, vector_of(dtype, {0}), vector_of(dtype, {1})}, {}, {kNan, 0, 1});
    check_op(OpKind::LeakyRelu, {x, vector_of(dtype, {0.25})}, {}, {kNan, -2, 8});
    // With bounds and slope written down, and behind an operation that makes the NaN.
    check_runs(
        {vector_of(dtype, {0, -8, 8})},
        [](Builder& b, Values v) {
          const Value bad = b.make(OpKind::Mul, {b.make(OpKind::Div, {v[0], v[0]}), v[0]});
          return std::vector<Value>{
              b.make(OpKind::Relu, {bad}),
              b.make(OpKind::Clamp, {bad, scalar(b, bad, 0), scalar(b, bad, 1)}),
              b.make(OpKind::LeakyRelu, {bad, scalar(b, bad, 0.25)})};
        },
        {{kNan, 0, 8}, {kNan, 0, 1}, {kNan, -2, 8}}, 0);
  }
}

TEST_CASE("NP-03: argmax of NaN is the first of them, and so is argmin") {
  for (DType dtype : kFloats)
    for (OpKind kind : {OpKind::Argmax, OpKind::Argmin}) {
      CAPTURE(to_string(dtype));
      check_op(kind, {vector_of(dtype, {1, kNan, 3, kNan})}, {{"axis", 0}}, {1});
      for (const NanRows* rows : {&kShort, &kLong}) {
        // -3 stands first at 0, 3 at 6.
        Numbers wanted{kind == OpKind::Argmax ? 6.0 : 0.0};
        for (size_t r = 1; r < rows->places.size(); ++r)
          wanted.push_back(static_cast<double>(rows->places[r][0]));
        check_op(kind, {rows->tensor(dtype)}, {{"axis", 1}}, wanted);
        check_op(kind, {rows->columns(dtype)}, {{"axis", 0}}, wanted);
      }
    }
}

TEST_CASE("NP-05: isnan and isfinite are not folded") {
  for (DType dtype : kFloats) {
    CAPTURE(to_string(dtype));
    const InterpreterTensor x = vector_of(dtype, {1, kNan, kInf});
    check_op(OpKind::IsNan, {x}, {}, {0, 1, 0});
    check_op(OpKind::IsFinite, {x}, {}, {1, 0, 0});
    check_op(OpKind::IsInf, {x}, {}, {0, 0, 1});
    check_op(OpKind::Ne, {x, x}, {}, {0, 1, 0});
    // Of numbers that the kernel itself makes, of one operand written twice among them.
    check_runs(
        {x},
        [](Builder& b, Values v) {
          const Value rest = b.make(OpKind::Sub, {v[0], v[0]});
          const Value larger = b.make(OpKind::Maximum, {v[0], scalar(b, v[0], 0)});
          return std::vector<Value>{
              b.make(OpKind::IsNan, {rest}),    b.make(OpKind::IsFinite, {rest}),
              b.make(OpKind::IsNan, {larger}),  b.make(OpKind::IsFinite, {larger}),
              b.make(OpKind::Ne, {v[0], v[0]}), b.make(OpKind::Eq, {v[0], v[0]})};
        },
        {{0, 1, 1}, {1, 0, 0}, {0, 1, 0}, {1, 0, 0}, {0, 1, 0}, {1, 0, 1}}, 0);
  }
}

}  // namespace
}  // namespace mezzo::test
