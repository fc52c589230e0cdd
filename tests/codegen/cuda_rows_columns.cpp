// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/builder.h>

#include <fmt/format.h>

#include <codegen/cuda_cases.h>
#include <numeric>

namespace mezzo::test {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

/// Axes [from, to).
Attrs axes(int from, int to, bool keepdims, int64_t word = -1) {
  std::vector<int64_t> list(static_cast<size_t>(to - from));
  std::iota(list.begin(), list.end(), from);
  Attrs attrs{{"axes", ir::Attr(std::move(list))}, {"keepdims", keepdims}};
  if (word >= 0) attrs.set("word", word);
  return attrs;
}

/// The gradients of x, scale and shift of `scale * (x - mean) / deviation + shift` over the last
/// axes of x, of which `kept` stay; f32 (f64) inside, flagged.
CudaCase normalisation(DType dtype, const Shape& shape, int kept) {
  const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  const Shape columns(shape.dims().subspan(static_cast<size_t>(kept)));
  const int rank = shape.rank();
  auto build = [&](Builder& b, std::span<const Value> p) {
    auto widened = [&](Value value) { return value.dtype() == wide ? value : b.cast(value, wide); };
    const double count = static_cast<double>(std::max<int64_t>(columns.elements(), 1));
    const Value each = b.constant(Type(wide, {}), 1 / count);
    const Value epsilon = b.constant(Type(wide, {}), 1e-3);
    auto mean = [&](Value value, int64_t word) {
      return b.make(OpKind::Mul,
                    {b.make(OpKind::Sum, {value}, axes(kept, rank, true, word)), each});
    };
    const Value x = widened(p[0]), dy = widened(p[1]);
    const Value shifted = b.make(OpKind::Sub, {x, mean(x, 0)});
    const Value square = b.make(OpKind::Square, {shifted});
    const Value root = b.make(OpKind::Rsqrt, {b.make(OpKind::Add, {mean(square, 1), epsilon})});
    const Value norm = b.make(OpKind::Mul, {shifted, root}, {{"word", 2}});
    const Value scaled = b.make(OpKind::Mul, {dy, widened(p[2])});
    const Value along = b.make(OpKind::Mul, {norm, mean(b.make(OpKind::Mul, {scaled, norm}), 3)});
    const Value rest = b.make(OpKind::Sub, {b.make(OpKind::Sub, {scaled, mean(scaled, 4)}), along});
    const Value dx = b.make(OpKind::Mul, {rest, root});
    const Value dscale =
        b.make(OpKind::Sum, {b.make(OpKind::Mul, {dy, norm})}, axes(0, kept, false, 5));
    const Value dshift = b.make(OpKind::Sum, {dy}, axes(0, kept, true, 6));
    auto narrow = [&](Value value, int64_t word) {
      if (dtype == wide) return value;
      return b.make(OpKind::Cast, {value}, {{"word", word}}, {value.type().with(dtype)});
    };
    return std::vector<Value>{narrow(dx, 7), b.make(OpKind::Mul, {dscale, each}), narrow(dshift, 8),
                              root};
  };
  return {fmt::format("normalisation {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of({Type(dtype, shape), Type(dtype, shape), Type(dtype, columns)}, build)};
}

/// Softmax of the rows less a target, and its sums over the rows: a loss and a bias.
CudaCase loss(DType dtype, const Shape& shape) {
  const Type all(DType::F32, shape);
  return {fmt::format("loss {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of({Type(dtype, shape), Type(DType::I32, {shape[0], 1})},
                    [&](Builder& b, std::span<const Value> p) {
                      const Value x = dtype == DType::F32 ? p[0] : b.cast(p[0], DType::F32);
                      const Value most = b.make(OpKind::Max, {x}, axes(1, 2, true));
                      const Value shifted = b.make(OpKind::Sub, {x, most});
                      const Value power = b.make(OpKind::Exp, {shifted});
                      const Value sum = b.make(OpKind::Sum, {power}, axes(1, 2, true));
                      const Value number = b.make(OpKind::Iota, {}, {{"axis", int64_t{1}}},
                                                  {Type(DType::I32, shape)});
                      const Value hit = b.cast(b.make(OpKind::Eq, {number, p[1]}), DType::F32);
                      const Value d = b.make(OpKind::Sub, {b.make(OpKind::Div, {power, sum}), hit});
                      const Value best = b.make(OpKind::Argmax, {x}, {{"axis", int64_t{1}}});
                      return std::vector<Value>{d, b.make(OpKind::Sum, {d}, axes(0, 1, false)),
                                                b.make(OpKind::Log, {sum}), best};
                    })};
}

/// Reductions of numbers that have no rounding, in every order the same.
CudaCase integers(DType dtype, const Shape& shape) {
  return {fmt::format("integers {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of(
              {Type(dtype, shape), Type(dtype, shape)}, [&](Builder& b, std::span<const Value> p) {
                const Value top = b.make(OpKind::Max, {p[0]}, axes(1, 2, true));
                const Value lower = b.make(OpKind::Minimum, {top, p[1]});
                const Value best = b.make(OpKind::Argmax, {lower}, {{"axis", int64_t{1}}});
                return std::vector<Value>{b.make(OpKind::Max, {lower}, axes(0, 1, false)),
                                          b.make(OpKind::Min, {lower}, axes(0, 1, true)),
                                          b.make(OpKind::Sum, {lower}, axes(0, 1, false)), best};
              })};
}

/// Three columns of what a row sum is taken from: no full result.
CudaCase columns_alone(const Shape& shape) {
  return {fmt::format("columns alone of {}", ir::to_string(shape)),
          module_of({Type(DType::F32, shape)}, [&](Builder& b, std::span<const Value> p) {
            const Value sum = b.make(OpKind::Sum, {p[0]}, axes(1, 2, true));
            const Value rest = b.make(OpKind::Sub, {p[0], sum});
            return std::vector<Value>{b.make(OpKind::Sum, {rest}, axes(0, 1, false)),
                                      b.make(OpKind::Max, {rest}, axes(0, 1, false)),
                                      b.make(OpKind::Min, {rest}, axes(0, 1, false))};
          })};
}

/// x over the first `reduced` axes made a mean of 0 and a deviation of 1, scaled and shifted, with
/// mean and variance; f32 (f64) inside, flagged.
CudaCase standardised(DType dtype, const Shape& shape, int reduced, bool keepdims) {
  const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  const Shape columns(shape.dims().subspan(static_cast<size_t>(reduced)));
  auto build = [&](Builder& b, std::span<const Value> p) {
    auto widened = [&](Value value) { return value.dtype() == wide ? value : b.cast(value, wide); };
    const double count = static_cast<double>(std::max<int64_t>(shape.elements(), 1)) /
                         static_cast<double>(std::max<int64_t>(columns.elements(), 1));
    const Value each = b.constant(Type(wide, {}), 1 / count);
    const Value epsilon = b.constant(Type(wide, {}), 1e-3);
    auto mean = [&](Value value, int64_t word) {
      return b.make(OpKind::Mul,
                    {b.make(OpKind::Sum, {value}, axes(0, reduced, keepdims, word)), each});
    };
    const Value x = widened(p[0]), level = mean(x, 0);
    const Value rest = b.make(OpKind::Sub, {x, level}, {{"word", int64_t{1}}});
    const Value variance = mean(b.make(OpKind::Square, {rest}), 2);
    const Value root = b.make(OpKind::Rsqrt, {b.make(OpKind::Add, {variance, epsilon})});
    const Value norm = b.make(OpKind::Mul, {rest, root}, {{"word", int64_t{3}}});
    Value y = b.make(OpKind::Add, {b.make(OpKind::Mul, {norm, widened(p[1])}), widened(p[2])});
    if (dtype != wide)
      y = b.make(OpKind::Cast, {y}, {{"word", int64_t{4}}}, {y.type().with(dtype)});
    return std::vector<Value>{level, y, variance};
  };
  return {fmt::format("standardised {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of({Type(dtype, shape), Type(dtype, columns), Type(DType::F32, columns)}, build)};
}

/// Softmax down the columns: what costs is read by two passes.
CudaCase softmax_down(DType dtype, const Shape& shape) {
  return {fmt::format("softmax down {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of({Type(dtype, shape)}, [&](Builder& b, std::span<const Value> p) {
            const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
            const Value x = b.cast(p[0], wide);
            const Value most = b.make(OpKind::Max, {x}, axes(0, 1, true));
            const Value power = b.make(OpKind::Exp, {b.make(OpKind::Sub, {x, most})});
            const Value sum = b.make(OpKind::Sum, {power}, axes(0, 1, false));
            const Value y = b.make(OpKind::Div, {power, sum});
            return std::vector<Value>{b.cast(y, dtype)};
          })};
}

/// Passes of numbers that have no rounding, with a full result and without.
CudaCase integers_down(DType dtype, const Shape& shape, bool full) {
  return {fmt::format("integers down {} of {}", ir::to_string(dtype), ir::to_string(shape)),
          module_of({Type(dtype, shape), Type(dtype, shape)},
                    [&](Builder& b, std::span<const Value> p) {
                      const Value top = b.make(OpKind::Max, {p[0]}, axes(0, 1, true));
                      const Value lower = b.make(OpKind::Minimum, {top, p[1]});
                      const Value least = b.make(OpKind::Min, {lower}, axes(0, 1, false));
                      const Value rest = b.make(OpKind::Maximum, {lower, least});
                      const Value sum = b.make(OpKind::Sum, {rest}, axes(0, 1, false));
                      return full ? std::vector<Value>{sum, rest, least} : std::vector<Value>{sum};
                    })};
}

/// A product, whose accumulator is wider than the value that the next pass reads (so that numbers
/// beside an infinity do not vanish in some order of the factors).
CudaCase products_down(const Shape& shape) {
  return {fmt::format("products down f32 of {}", ir::to_string(shape)),
          module_of({Type(DType::F32, shape)}, [&](Builder& b, std::span<const Value> p) {
            const Value product = b.make(OpKind::Prod, {p[0]}, axes(0, 1, true));
            const Value most = b.make(OpKind::Maximum, {p[0], product});
            const Value least = b.make(OpKind::Min, {most}, axes(0, 1, false));
            return std::vector<Value>{product, b.make(OpKind::Sub, {most, least}), most};
          })};
}

}  // namespace

std::vector<CudaCase> column_chain_cases() {
  std::vector<CudaCase> cases;
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64})
    for (const Shape& shape : {Shape{24, 12}, Shape{300, 96}, Shape{1031, 19}})
      cases.push_back(standardised(dtype, shape, 1, dtype == DType::F16));
  // One row, one column, none of either; square; many rows; few; several axes.
  for (const Shape& shape : {Shape{1, 40}, Shape{77, 1}, Shape{1, 1}, Shape{0, 8}, Shape{5, 0},
                             Shape{6, 6}, Shape{70001, 3}, Shape{3, 5000}})
    cases.push_back(standardised(DType::F32, shape, 1, shape[0] == 1));
  cases.push_back(standardised(DType::F16, {3, 5, 2, 32}, 3, false));
  cases.push_back(standardised(DType::F32, {2, 1, 3, 7}, 1, true));
  cases.push_back(standardised(DType::BF16, {9, 4, 1, 5}, 2, false));
  for (DType dtype : {DType::F64, DType::F32, DType::F16})
    for (const Shape& shape : {Shape{10, 128}, Shape{1000, 33}, Shape{9000, 16}})
      cases.push_back(softmax_down(dtype, shape));
  // More than the buffer of a thread, whatever the vectors.
  cases.push_back(softmax_down(DType::F32, {40000, 4}));
  cases.push_back(products_down({50, 24}));
  cases.push_back(products_down({3000, 7}));
  for (DType dtype : {DType::U8, DType::I32, DType::I64}) {
    cases.push_back(integers_down(dtype, {65, 33}, true));
    cases.push_back(integers_down(dtype, {640, 10}, false));
  }
  return cases;
}

std::vector<CudaCase> rows_columns_cases() {
  std::vector<CudaCase> cases;
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64})
    for (const Shape& shape : {Shape{12, 24}, Shape{300, 96}, Shape{19, 1031}})
      cases.push_back(normalisation(dtype, shape, 1));
  // One row, one column, none of either; square; several axes; many rows.
  for (const Shape& shape : {Shape{1, 40}, Shape{77, 1}, Shape{1, 1}, Shape{0, 8}, Shape{5, 0},
                             Shape{6, 6}, Shape{70001, 3}})
    cases.push_back(normalisation(DType::F32, shape, 1));
  cases.push_back(normalisation(DType::F16, {3, 5, 2, 32}, 2));
  cases.push_back(normalisation(DType::F32, {2, 1, 3, 7}, 3));
  cases.push_back(normalisation(DType::BF16, {9, 4, 1, 5}, 1));
  for (DType dtype : {DType::F32, DType::F16})
    for (const Shape& shape : {Shape{128, 10}, Shape{33, 1000}})
      cases.push_back(loss(dtype, shape));
  for (DType dtype : {DType::U8, DType::I32, DType::I64}) {
    cases.push_back(integers(dtype, {65, 33}));
    cases.push_back(integers(dtype, {10, 640}));
  }
  // Accumulators that do not fit the registers.
  cases.push_back(columns_alone({9, 8192}));
  cases.push_back(columns_alone({7, 6001}));
  cases.push_back(columns_alone({40, 64}));
  return cases;
}

}  // namespace mezzo::test
