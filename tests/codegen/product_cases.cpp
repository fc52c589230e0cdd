// SPDX-License-Identifier: Apache-2.0
#include <codegen/product_cases.h>

#include <mezzo/ir/builder.h>

#include <fmt/format.h>

namespace mezzo::test {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

Shape matrix(int64_t batch, int64_t rows, int64_t columns) {
  return batch > 0 ? Shape{batch, rows, columns} : Shape{rows, columns};
}

Attrs word(bool flagged, int64_t number) { return flagged ? Attrs{{"word", number}} : Attrs{}; }

/// Makes the operands and what follows the product; parameters are added as they are needed.
class Maker {
 public:
  Maker(const ProductCase& product, ir::Function& function)
      : product_(product), function_(function), builder_(function.body()) {}

  std::vector<Value> make() {
    const ProductCase& p = product_;
    const Value a = operand("a", p.batch_a, p.m, p.k, p.trans_a, true);
    const Value b = operand("b", p.batch_b, p.k, p.n, p.trans_b, false);
    Attrs attrs = word(p.flagged, 0);
    if (p.trans_a) attrs.set("transpose_a", true);
    if (p.trans_b) attrs.set("transpose_b", true);
    const DType wide = p.type == DType::F64 ? DType::F64 : DType::F32;
    const DType stored = p.behind == Behind::Nothing ? p.type : wide;
    const Shape shape = matrix(std::max(p.batch_a, p.batch_b), p.m, p.n);
    return finish(builder_.make(OpKind::Matmul, {a, b}, attrs, {Type(stored, shape)}));
  }

 private:
  Value parameter(DType dtype, const Shape& shape, const std::string& name) {
    return function_.add_parameter(Type(dtype, shape), name);
  }

  /// A [rows][columns] or, transposed, [columns][rows].
  Value operand(const std::string& name, int64_t batch, int64_t rows, int64_t columns, bool turned,
                bool first) {
    const Shape shape = turned ? matrix(batch, columns, rows) : matrix(batch, rows, columns);
    const DType type = product_.type;
    switch (product_.before) {
      case Before::Nothing:
        break;
      case Before::Cast:
        return builder_.make(OpKind::Cast, {parameter(DType::F32, shape, name)}, {},
                             {Type(type, shape)});
      case Before::Relu:
        if (first) return builder_.make(OpKind::Relu, {parameter(type, shape, name)});
        break;
      case Before::Mask: {
        if (first) {
          const Value x = parameter(type, shape, name), zero = builder_.constant(Type(type, {}), 0);
          return builder_.make(OpKind::Where, {builder_.make(OpKind::Gt, {x, zero}), x, zero});
        }
        std::vector<int64_t> dims(shape.begin(), shape.end());
        dims[dims.size() - 2] = 1;
        return builder_.broadcast_to(parameter(type, Shape(dims), name), shape);
      }
      case Before::Transpose: {
        if (!first) break;
        const Shape other = turned ? matrix(batch, rows, columns) : matrix(batch, columns, rows);
        return builder_.transpose(parameter(type, other, name), batch > 0
                                                                    ? std::vector<int64_t>{0, 2, 1}
                                                                    : std::vector<int64_t>{1, 0});
      }
    }
    return parameter(type, shape, name);
  }

  Value narrowed(Value value) {
    if (value.dtype() == product_.type) return value;
    return builder_.make(OpKind::Cast, {value}, word(product_.flagged, 1),
                         {value.type().with(product_.type)});
  }

  std::vector<Value> finish(Value y) {
    const DType wide = y.dtype();
    switch (product_.behind) {
      case Behind::Nothing:
      case Behind::Accumulator:
        return {y};
      case Behind::Bias: {
        const Value bias = parameter(wide, Shape{product_.n}, "bias");
        return {narrowed(builder_.make(OpKind::Relu, {builder_.make(OpKind::Add, {y, bias})}))};
      }
      case Behind::Outputs: {
        const Value bias = parameter(wide, Shape{product_.n}, "bias");
        const Value sum = builder_.make(OpKind::Add, {y, bias});
        const Value zero = builder_.constant(Type(wide, {}), 0);
        return {sum, narrowed(builder_.make(OpKind::Relu, {sum})),
                builder_.make(OpKind::Gt, {sum, zero})};
      }
      case Behind::Residual: {
        const Value residual = parameter(wide, y.shape(), "residual");
        const Value scale = parameter(wide, Shape{product_.m, 1}, "scale");
        return {builder_.make(OpKind::Add, {residual, builder_.make(OpKind::Mul, {scale, y})})};
      }
    }
    return {};
  }

  const ProductCase& product_;
  ir::Function& function_;
  Builder builder_;
};

}  // namespace

std::string ProductCase::name() const {
  constexpr const char* kBefore[] = {"", " cast", " relu", " mask", " transpose"};
  constexpr const char* kBehind[] = {"", " accumulator", " bias", " outputs", " residual"};
  std::string text = fmt::format("{} {}{} {}x{}x{}", ir::to_string(type), trans_a ? 'T' : 'N',
                                 trans_b ? 'T' : 'N', m, n, k);
  if (batch_a > 0 || batch_b > 0) text += fmt::format(" batch {}x{}", batch_a, batch_b);
  text += kBefore[static_cast<size_t>(before)];
  text += kBehind[static_cast<size_t>(behind)];
  return flagged ? text + " flagged" : text;
}

std::unique_ptr<ir::Module> ProductCase::module() const {
  auto module = std::make_unique<ir::Module>("product");
  ir::Function* function = module->add_function("f");
  const std::vector<Value> results = Maker(*this, *function).make();
  function->set_results(results, std::vector<Attrs>(results.size()));
  module->set_stage(ir::Stage::Primitive);
  return module;
}

std::vector<PlannedProduct> fixed_products() {
  return {
      {{.m = 64, .n = 64, .k = 64}},
      {{.m = 100, .n = 72, .k = 104, .trans_b = true, .flagged = true}},
      {{.m = 97, .n = 89, .k = 33, .trans_a = true}, 3},
      {{.m = 136, .n = 144, .k = 200, .trans_a = true, .trans_b = true}, 0, 1, 4},
      {{.m = 1, .n = 1, .k = 1, .behind = Behind::Bias}},
      {{.m = 150, .n = 264, .k = 160, .behind = Behind::Outputs, .flagged = true}, 0},
      {{.m = 70, .n = 40, .k = 400, .type = DType::BF16}, 6, 3},
      {{.m = 40,
        .n = 24,
        .k = 72,
        .batch_a = 3,
        .batch_b = 3,
        .trans_b = true,
        .type = DType::BF16,
        .behind = Behind::Accumulator}},
      {{.m = 33, .n = 65, .k = 129, .batch_a = 2, .batch_b = 1, .behind = Behind::Residual}, 5, 2},
      {{.m = 96, .n = 100, .k = 68, .before = Before::Cast, .behind = Behind::Bias}, 1},
      {{.m = 50, .n = 30, .k = 64, .before = Before::Relu}},
      {{.m = 37, .n = 48, .k = 41, .trans_a = true, .before = Before::Mask}, 2},
      {{.m = 56, .n = 32, .k = 80, .before = Before::Transpose}, 4},
      {{.m = 100, .n = 60, .k = 40, .type = DType::F32, .behind = Behind::Bias}, 0},
      {{.m = 67, .n = 71, .k = 53, .trans_a = true, .type = DType::F32, .flagged = true}},
      {{.m = 36, .n = 20, .k = 300, .trans_b = true, .type = DType::F32}, 1, 4},
      {{.m = 20,
        .n = 36,
        .k = 28,
        .batch_a = 2,
        .batch_b = 2,
        .trans_a = true,
        .trans_b = true,
        .type = DType::F32,
        .behind = Behind::Residual}},
      {{.m = 45, .n = 34, .k = 50, .type = DType::F64}},
      {{.m = 24, .n = 16, .k = 0, .behind = Behind::Bias}},
      {{.m = 0, .n = 16, .k = 8}},
  };
}

}  // namespace mezzo::test
