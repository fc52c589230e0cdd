// SPDX-License-Identifier: Apache-2.0
// Every elementwise row × every element type it takes × shape classes, against an expectation that
// shares nothing with the interpreter: long double functions, own broadcasting, own NaN rules.
#include <mezzo/ir/error.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

using namespace mezzo::ir;
using namespace mezzo::test;

namespace {

using Wide = long double;
constexpr Wide kNan = std::numeric_limits<Wide>::quiet_NaN();

Wide larger(Wide x, Wide y) {
  if (x != x || y != y) return kNan;
  if (x == 0 && y == 0) return std::signbit(x) && std::signbit(y) ? -0.0L : 0.0L;
  return std::fmax(x, y);
}

Wide ties_to_even(Wide x) { return std::rintl(x); }

Wide normal_cdf(Wide x) { return 0.5L * std::erfc(-x / std::sqrt(2.0L)); }
Wide normal_pdf(Wide x) { return std::exp(-x * x / 2) / std::sqrt(2 * 3.14159265358979323846264L); }
Wide softplus(Wide x) { return x > 40 ? x + std::exp(-x) : std::log1p(std::exp(x)); }

Wide log_add_exp(Wide x, Wide y) {
  if (x == y) return x + std::log(2.0L);
  if (x != x || y != y) return kNan;
  return x > y ? x + std::log1p(std::exp(y - x)) : y + std::log1p(std::exp(x - y));
}

constexpr Wide kPi = 3.14159265358979323846264L;

bool negative_integer(Wide x) { return x < 0 && std::floor(x) == x && !std::isinf(x); }

/// By recurrence to large arguments and the logarithm of the factorial's derivative there.
Wide digamma(Wide x) {
  if (x == 0) return -1 / x;
  if (negative_integer(x)) return kNan;
  if (x < 0) return digamma(1 - x) - kPi / std::tan(kPi * (x - std::rint(x)));
  if (std::isinf(x)) return x;
  // By its Taylor series near the zero.
  constexpr Wide kZero = 1.46163214496836234126L;
  if (std::fabs(x - kZero) < 0.02L) {
    constexpr Wide kSlopes[] = {0.9676722454476211704274L,  -0.4427631689835921060929L,
                                0.2584997609556510106244L,  -0.1639427054424065275043L,
                                0.1078240506912623657572L,  -0.07219956125645471092612L,
                                0.04880428816414310722509L, -0.03316112647484735929226L,
                                0.02259764823221810465962L, -0.0154247659049489591388L};
    Wide d = (x - kZero) + 1.825709631596348e-20L, sum = 0;
    for (int k = 9; k >= 0; --k) sum = (sum + kSlopes[k]) * d;
    return sum;
  }
  Wide sum = 0;
  for (; x < 200; ++x) sum -= 1 / x;
  Wide s = 1 / (x * x);
  return sum + std::log(x) - 1 / (2 * x) - s / 12 + s * s / 120 - s * s * s / 252;
}

Wide trigamma(Wide x) {
  if (x == 0 || negative_integer(x)) return std::numeric_limits<Wide>::infinity();
  if (x < 0) {
    Wide sine = std::sin(kPi * (x - std::rint(x)));
    return kPi * kPi / (sine * sine) - trigamma(1 - x);
  }
  Wide sum = 0;
  for (; x < 200; ++x) sum += 1 / (x * x);
  Wide s = 1 / (x * x);
  return sum + (1 + 1 / (2 * x) + s / 6 - s * s / 30 + s * s * s / 42) / x;
}

bool other_signs(Wide x, Wide y) { return (x < 0 && y > 0) || (x > 0 && y < 0); }

Wide floor_div(Wide x, Wide y) {
  if (std::isinf(y) && !std::isinf(x) && other_signs(x, y)) return -1;
  return std::floor(x / y);
}

Wide remainder(Wide x, Wide y) {
  Wide rest = std::fmod(x, y);
  return rest == 0 ? std::copysign(0, y) : other_signs(rest, y) ? rest + y : rest;
}

/// In 113 bits, by the form in which none of them is lost.
Wide lerp(Wide x, Wide y, Wide weight) {
  __extension__ typedef __float128 Quad;
  const bool finite = std::isfinite(x) && std::isfinite(y) && std::isfinite(weight);
  if (!finite || (x == 0 && y == 0)) return x + weight * (y - x);
  if (std::fabs(weight) > 2) return static_cast<Wide>(Quad(x) + Quad(weight) * (Quad(y) - Quad(x)));
  return static_cast<Wide>((1 - Quad(weight)) * Quad(x) + Quad(weight) * Quad(y));
}

Wide mish(Wide x) {
  if (x > 100) return x;
  Wide power = std::exp(x), square = power * (power + 2);
  return std::isinf(x) ? -0.0L : x * square / (square + 2);
}

/// x times the logistic function of u.
Wide gated(Wide x, Wide u) {
  if (std::isinf(x)) return x > 0 ? x : -0.0L;
  return u < 0 ? x * std::exp(u) / (1 + std::exp(u)) : x / (1 + std::exp(-u));
}

Wide gelu_tanh(Wide x) { return gated(x, 2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)); }

Wide relu6(Wide x) { return x != x ? x : std::fmin(larger(x, 0), 6); }

using Function3 = Wide (*)(Wide, Wide, Wide);

/// One entry for each row that takes floats; the test below fails for a row without one.
const std::map<OpKind, Function3>& expectations() {
  static const std::map<OpKind, Function3> table = {
      {OpKind::Add, [](Wide x, Wide y, Wide) { return x + y; }},
      {OpKind::Sub, [](Wide x, Wide y, Wide) { return x - y; }},
      {OpKind::Mul, [](Wide x, Wide y, Wide) { return x * y; }},
      {OpKind::Div, [](Wide x, Wide y, Wide) { return x / y; }},
      {OpKind::FloorDiv, [](Wide x, Wide y, Wide) { return floor_div(x, y); }},
      {OpKind::Remainder, [](Wide x, Wide y, Wide) { return remainder(x, y); }},
      {OpKind::Mul0, [](Wide x, Wide y, Wide) { return x == 0 ? 0 : x * y; }},
      {OpKind::AddN, [](Wide x, Wide y, Wide) { return x + y; }},
      {OpKind::Neg, [](Wide x, Wide, Wide) { return -x; }},
      {OpKind::Abs, [](Wide x, Wide, Wide) { return std::signbit(x) ? -x : x; }},
      {OpKind::Sign, [](Wide x, Wide, Wide) { return x == 0 || x != x ? x : std::copysign(1, x); }},
      {OpKind::Square, [](Wide x, Wide, Wide) { return x * x; }},
      {OpKind::Reciprocal, [](Wide x, Wide, Wide) { return 1 / x; }},
      {OpKind::Sqrt, [](Wide x, Wide, Wide) { return std::sqrt(x); }},
      {OpKind::Rsqrt, [](Wide x, Wide, Wide) { return 1 / std::sqrt(x); }},
      {OpKind::Pow, [](Wide x, Wide y, Wide) { return std::pow(x, y); }},
      {OpKind::Maximum, [](Wide x, Wide y, Wide) { return larger(x, y); }},
      {OpKind::Minimum, [](Wide x, Wide y, Wide) { return -larger(-x, -y); }},
      {OpKind::Clamp, [](Wide x, Wide y, Wide z) { return -larger(-larger(x, y), -z); }},
      {OpKind::Lerp, [](Wide x, Wide y, Wide z) { return lerp(x, y, z); }},
      {OpKind::Floor, [](Wide x, Wide, Wide) { return std::floor(x); }},
      {OpKind::Ceil, [](Wide x, Wide, Wide) { return std::ceil(x); }},
      {OpKind::Round, [](Wide x, Wide, Wide) { return ties_to_even(x); }},
      {OpKind::Trunc, [](Wide x, Wide, Wide) { return std::trunc(x); }},
      {OpKind::Exp, [](Wide x, Wide, Wide) { return std::exp(x); }},
      {OpKind::Expm1, [](Wide x, Wide, Wide) { return std::expm1(x); }},
      {OpKind::Log, [](Wide x, Wide, Wide) { return std::log(x); }},
      {OpKind::Log1p, [](Wide x, Wide, Wide) { return std::log1p(x); }},
      {OpKind::Tanh, [](Wide x, Wide, Wide) { return std::tanh(x); }},
      {OpKind::Sigmoid, [](Wide x, Wide, Wide) { return 1 / (1 + std::exp(-x)); }},
      {OpKind::LogSigmoid, [](Wide x, Wide, Wide) { return -softplus(-x); }},
      {OpKind::Softplus, [](Wide x, Wide, Wide) { return softplus(x); }},
      {OpKind::Relu, [](Wide x, Wide, Wide) { return larger(x, 0); }},
      {OpKind::Relu6, [](Wide x, Wide, Wide) { return relu6(x); }},
      {OpKind::LeakyRelu, [](Wide x, Wide y, Wide) { return x > 0 ? x : x * y; }},
      {OpKind::Elu, [](Wide x, Wide y, Wide) { return x > 0 ? x : y * std::expm1(x); }},
      {OpKind::Selu,
       [](Wide x, Wide, Wide) {
         constexpr Wide kAlpha = 1.6732632423543772848170429916717L;
         return 1.0507009873554804934193349852946L * (x > 0 ? x : kAlpha * std::expm1(x));
       }},
      {OpKind::Celu,
       [](Wide x, Wide y, Wide) { return x < 0 && (x / y != 0) ? y * std::expm1(x / y) : x; }},
      {OpKind::Silu, [](Wide x, Wide, Wide) { return gated(x, x); }},
      {OpKind::Mish, [](Wide x, Wide, Wide) { return mish(x); }},
      {OpKind::Softsign,
       [](Wide x, Wide, Wide) {
         return std::isinf(x) ? std::copysign(1, x) : x / (1 + std::fabs(x));
       }},
      {OpKind::HardSigmoid, [](Wide x, Wide, Wide) { return relu6(x + 3) / 6; }},
      {OpKind::HardSwish,
       [](Wide x, Wide, Wide) { return x >= 3   ? x
                                       : x < -3 ? -0.0L
                                                : x * relu6(x + 3) / 6; }},
      {OpKind::HardTanh, [](Wide x, Wide, Wide) { return -larger(-larger(x, -1), -1); }},
      {OpKind::GeluTanh, [](Wide x, Wide, Wide) { return gelu_tanh(x); }},
      {OpKind::Xlogy, [](Wide x, Wide y, Wide) { return x == 0 && y == y ? 0 : x * std::log(y); }},
      {OpKind::Xlog1py,
       [](Wide x, Wide y, Wide) { return x == 0 && y == y ? 0 : x * std::log1p(y); }},
      {OpKind::Erf, [](Wide x, Wide, Wide) { return std::erf(x); }},
      {OpKind::Gelu,
       [](Wide x, Wide, Wide) { return normal_cdf(x) == 0 ? -0.0L : x * normal_cdf(x); }},
      {OpKind::GeluGrad,
       [](Wide x, Wide, Wide) {
         if (x < -100) return -0.0L;  // negative, and nearer to 0 than any f64
         return std::isinf(x) ? 1 : normal_cdf(x) + x * normal_pdf(x);
       }},
      {OpKind::Cbrt, [](Wide x, Wide, Wide) { return std::cbrt(x); }},
      {OpKind::Hypot, [](Wide x, Wide y, Wide) { return std::hypot(x, y); }},
      {OpKind::Exp2, [](Wide x, Wide, Wide) { return std::exp2(x); }},
      {OpKind::Log2, [](Wide x, Wide, Wide) { return std::log2(x); }},
      {OpKind::Log10, [](Wide x, Wide, Wide) { return std::log10(x); }},
      {OpKind::LogAddExp, [](Wide x, Wide y, Wide) { return log_add_exp(x, y); }},
      {OpKind::Erfc, [](Wide x, Wide, Wide) { return std::erfc(x); }},
      {OpKind::Sin, [](Wide x, Wide, Wide) { return std::sin(x); }},
      {OpKind::Cos, [](Wide x, Wide, Wide) { return std::cos(x); }},
      {OpKind::Tan, [](Wide x, Wide, Wide) { return std::tan(x); }},
      {OpKind::Asin, [](Wide x, Wide, Wide) { return std::asin(x); }},
      {OpKind::Acos, [](Wide x, Wide, Wide) { return std::acos(x); }},
      {OpKind::Atan, [](Wide x, Wide, Wide) { return std::atan(x); }},
      {OpKind::Atan2, [](Wide x, Wide y, Wide) { return std::atan2(x, y); }},
      {OpKind::Sinh, [](Wide x, Wide, Wide) { return std::sinh(x); }},
      {OpKind::Cosh, [](Wide x, Wide, Wide) { return std::cosh(x); }},
      {OpKind::Asinh, [](Wide x, Wide, Wide) { return std::asinh(x); }},
      {OpKind::Acosh, [](Wide x, Wide, Wide) { return std::acosh(x); }},
      {OpKind::Atanh, [](Wide x, Wide, Wide) { return std::atanh(x); }},
      {OpKind::Lgamma, [](Wide x, Wide, Wide) { return std::lgamma(x); }},
      {OpKind::Digamma, [](Wide x, Wide, Wide) { return digamma(x); }},
      {OpKind::Trigamma, [](Wide x, Wide, Wide) { return trigamma(x); }},
      {OpKind::Eq, [](Wide x, Wide y, Wide) -> Wide { return x == y; }},
      {OpKind::Ne, [](Wide x, Wide y, Wide) -> Wide { return !(x == y); }},
      {OpKind::Lt, [](Wide x, Wide y, Wide) -> Wide { return x < y; }},
      {OpKind::Le, [](Wide x, Wide y, Wide) -> Wide { return x < y || x == y; }},
      {OpKind::Gt, [](Wide x, Wide y, Wide) -> Wide { return y < x; }},
      {OpKind::Ge, [](Wide x, Wide y, Wide) -> Wide { return y < x || x == y; }},
      {OpKind::IsNan, [](Wide x, Wide, Wide) -> Wide { return x != x; }},
      {OpKind::IsInf, [](Wide x, Wide, Wide) -> Wide { return x == x && x - x != x - x; }},
      {OpKind::IsFinite, [](Wide x, Wide, Wide) -> Wide { return x - x == 0; }},
      {OpKind::Where, [](Wide c, Wide x, Wide y) { return c == 1 ? x : y; }},
      {OpKind::Cast, [](Wide x, Wide, Wide) { return x; }},
      {OpKind::StopGradient, [](Wide x, Wide, Wide) { return x; }},
  };
  return table;
}

bool takes(TypeRule rule, DType type) {
  switch (rule) {
    case TypeRule::SameFloat:
    case TypeRule::PredicateFloat:
      return is_float(type);
    case TypeRule::SameNumber:
    case TypeRule::PredicateNumber:
      return type != DType::Bool;
    case TypeRule::SameInteger:
      return is_integer(type);
    case TypeRule::Logical:
      return type == DType::Bool;
    default:
      return true;
  }
}

struct ShapeClass {
  const char* name;
  std::vector<Shape> operands;  // the last repeats
  Shape result;
};

const std::vector<ShapeClass>& shape_classes() {
  static const std::vector<ShapeClass> classes = {
      {"scalar", {Shape{}}, Shape{}},
      {"odd", {Shape{7, 13}}, Shape{7, 13}},
      {"broadcast", {Shape{5, 1, 3}, Shape{4, 3}, Shape{1}}, Shape{5, 4, 3}},
      {"size 1", {Shape{1, 1}}, Shape{1, 1}},
      {"empty", {Shape{3, 0}}, Shape{3, 0}},
  };
  return classes;
}

/// Element of `tensor` that stands at the index `at` of `shape`, found by div and mod.
double at_index(const InterpreterTensor& tensor, const Shape& shape, int64_t at) {
  int64_t place = 0, stride = 1;
  const Shape& own = tensor.type.shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    int64_t index = at % shape[axis];
    at /= shape[axis];
    int mine = axis - (shape.rank() - own.rank());
    if (mine < 0) continue;
    place += (own[mine] == 1 ? 0 : index) * stride;
    stride *= own[mine];
  }
  return tensor.number(place);
}

/// Distance in units of the type's last place at `expected`.
double ulps(DType type, double got, Wide expected) {
  if (got != got || expected != expected) return got != got && expected != expected ? 0 : 1e9;
  if (std::isinf(got) || std::isinf(expected)) {
    double rounded = round_to(type, static_cast<double>(expected));
    return got == rounded ? 0 : 1e9;
  }
  int digits = type == DType::F64 ? 53 : type == DType::F32 ? 24 : type == DType::F16 ? 11 : 8;
  int smallest = type == DType::F64   ? -1074
                 : type == DType::F32 ? -149
                 : type == DType::F16 ? -24
                                      : -133;
  int exponent = expected == 0 ? smallest : std::max(smallest, std::ilogb(expected) - digits + 1);
  return static_cast<double>(std::fabs(got - expected) / std::exp2(static_cast<Wide>(exponent)));
}

void check_row(const OpInfo& info, DType type, const ShapeClass& shapes, double special) {
  bool select = info.types == TypeRule::Select;
  int count = info.max_operands < 0 ? 2 : info.max_operands;
  std::vector<InterpreterTensor> inputs;
  for (int i = 0; i < count; ++i) {
    size_t which = std::min(static_cast<size_t>(i), shapes.operands.size() - 1);
    DType dtype = select && i == 0 ? DType::Bool : type;
    char domain = info.domain_of(i);
    uint64_t seed = 100 * static_cast<uint64_t>(info.kind) + static_cast<uint64_t>(i);
    inputs.push_back(random_array(domain, Type(dtype, shapes.operands[which]), seed, special));
  }
  std::vector<Type> declared;
  if (info.types == TypeRule::Cast) declared = {Type(type, inputs[0].type.shape)};
  Attrs attrs;
  if (info.kind == OpKind::CheckIndex) attrs.set("size", 4);
  InterpreterTensor result = eval_op(info.kind, inputs, attrs, declared);

  Shape shape = inputs[0].type.shape;
  for (const InterpreterTensor& input : inputs) shape = *broadcast(shape, input.type.shape);
  bool predicate = info.types == TypeRule::PredicateFloat ||
                   info.types == TypeRule::PredicateNumber || info.types == TypeRule::PredicateAny;
  DType wanted = predicate ? DType::Bool : type;
  CHECK(result.type == Type(wanted, shape));
  if (count > 1) CHECK(shape == shapes.result);
  if (!is_float(type)) return;  // values of integers have their own test

  auto expectation = expectations().find(info.kind);
  REQUIRE_MESSAGE(expectation != expectations().end(), "no expectation for " << info.name);
  for (int64_t i = 0; i < result.elements(); ++i) {
    Wide operand[3] = {};
    for (int k = 0; k < count; ++k) operand[k] = at_index(inputs[static_cast<size_t>(k)], shape, i);
    Wide expected = expectation->second(operand[0], operand[1], operand[2]);
    double got = result.number(i);
    if (wanted == DType::Bool) {
      CHECK_MESSAGE(got == static_cast<double>(expected), "element " << i);
      continue;
    }
    bool exact = info.has(Trait::Exact);
    // Rounding of the expectation twice (to long double, to the type) may only matter at a tie.
    double allowed = exact ? 0.5 : type == DType::F64 ? 2.0 : 0.5000001;
    double distance = ulps(type, got, expected);
    CHECK_MESSAGE(distance <= allowed, info.name << "(" << static_cast<double>(operand[0]) << ", "
                                                 << static_cast<double>(operand[1]) << ") gives "
                                                 << got << ", " << distance << " ulp away");
    CHECK_MESSAGE((expected != 0 || std::signbit(got) == std::signbit(expected)),
                  info.name << "(" << static_cast<double>(operand[0]) << ") has the wrong zero");
    CHECK(same_bits(got, round_to(type, got)));
  }
}

}  // namespace

TEST_CASE("every elementwise op has its value and type for every element type and shape class") {
  for (const OpInfo& info : all_ops()) {
    if (info.op_class != OpClass::Elementwise) continue;
    for (DType type : kAllDTypes) {
      if (!takes(info.types, type)) continue;
      for (const ShapeClass& shapes : shape_classes()) {
        INFO(std::string(info.name)
             << " of " << std::string(to_string(type)) << ", " << std::string(shapes.name));
        check_row(info, type, shapes, 0);
      }
    }
  }
}

TEST_CASE("every elementwise op keeps the rules on NaN, infinities, zeros and subnormals") {
  const ShapeClass many{"many", {Shape{2000}}, Shape{2000}};
  for (const OpInfo& info : all_ops()) {
    if (info.op_class != OpClass::Elementwise) continue;
    for (DType type : kAllDTypes) {
      if (!takes(info.types, type)) continue;
      INFO(std::string(info.name) << " of " << std::string(to_string(type)));
      check_row(info, type, many, 0.6);
    }
  }
}

TEST_CASE("every elementwise op refuses the element types that its row does not take") {
  for (const OpInfo& info : all_ops()) {
    if (info.op_class != OpClass::Elementwise || info.types == TypeRule::Select) continue;
    for (DType type : kAllDTypes) {
      if (takes(info.types, type)) continue;
      int count = info.max_operands < 0 ? 2 : info.max_operands;
      std::vector<InterpreterTensor> inputs(static_cast<size_t>(count),
                                            InterpreterTensor(Type(type, {2})));
      Attrs attrs;
      if (info.kind == OpKind::CheckIndex) attrs.set("size", 4);
      INFO(std::string(info.name) << " of " << std::string(to_string(type)));
      CHECK_THROWS_AS(eval_op(info.kind, inputs, attrs), mezzo::UserError);
    }
  }
}
