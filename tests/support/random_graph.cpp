// SPDX-License-Identifier: Apache-2.0
// The generator: one op after another on values made so far. What an op needs and no value offers
// is made by a cast, a comparison or a constant.
#include <support/random_graph.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/shape_rules.h>
#include <support/random_array.h>
#include <support/random_graph_axis.h>
#include <support/random_graph_indexing.h>
#include <support/random_graph_losses.h>
#include <support/random_graph_windows.h>

#include <algorithm>
#include <limits>
#include <random>

namespace mezzo::test {

using ir::Attrs;
using ir::DType;
using ir::OpInfo;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::TypeRule;
using ir::Value;

namespace {

/// The elementwise rows that `ops` allows.
std::vector<const OpInfo*> elementwise_rows(GraphOps ops) {
  std::vector<const OpInfo*> out;
  for (const OpInfo& info : ir::all_ops())
    if (info.op_class == ir::OpClass::Elementwise &&
        (ops != GraphOps::Exact || info.has(ir::Trait::Exact)))
      out.push_back(&info);
  return out;
}

class Generator {
 public:
  Generator(uint64_t seed, const GraphOptions& options)
      : random_(seed * 0x9E3779B97F4A7C15u + 1),
        seed_(seed),
        options_(options),
        most_elements_(options.large ? 600000 : 20000),
        module_(std::make_unique<ir::Module>("random")),
        function_(module_->add_function("f")),
        builder_(function_->body()) {}

  std::unique_ptr<ir::Module> run();

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

  int64_t length();
  void choose_base();
  Shape part_of(const Shape& shape);
  DType any_dtype() { return ir::kAllDTypes[below(std::size(ir::kAllDTypes))]; }

  Value any_value(const std::function<bool(Value)>& fits);
  Value value_of(DType dtype);
  Value float_value(int least_rank);
  Value partner(Value x, const Shape& shape);
  Value constant(DType dtype, const Shape& shape);
  std::vector<int64_t> some_axes(int rank);

  void make_op();
  void make_elementwise(const OpInfo& info);
  void make_view();
  void make_pattern();
  void make_source();
  AxisDraw axis_draw();
  void make_reduction();
  void make_along_axis();
  void make_product();
  void make_composite();
  void make_random();
  void make_one_of(std::vector<Value> (*make)(const GraphTools&));
  Value keep(Value value) {
    made_.push_back(value);
    return value;
  }

  std::mt19937_64 random_;
  uint64_t seed_;
  GraphOptions options_;
  int64_t most_elements_;
  std::unique_ptr<ir::Module> module_;
  ir::Function* function_;
  ir::Builder builder_;
  Shape base_;
  std::vector<Value> made_;
  Value rng_;
  std::vector<const OpInfo*> rows_;
};

int64_t Generator::length() {
  static const std::vector<int64_t> lengths = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 64};
  return pick(lengths);
}

/// Scalars, one element, odd lengths, an empty axis, or an axis of 4097.
void Generator::choose_base() {
  if (options_.large) {
    static const std::vector<Shape> shapes = {{262147}, {65539, 4}, {5, 52433}, {3, 257, 343}};
    base_ = pick(shapes);
    return;
  }
  int rank = static_cast<int>(below(4));
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(length());
  while (Shape(std::span<const int64_t>(dims)).elements() > 3000)
    dims[static_cast<size_t>(below(rank))] = 1 + below(4);
  if (rank > 0 && chance(8)) dims[static_cast<size_t>(below(rank))] = 0;
  if (rank > 0 && chance(10)) {
    std::fill(dims.begin(), dims.end(), 1 + below(2));
    dims[static_cast<size_t>(below(rank))] = 4097;
    if (rank == 3) dims[static_cast<size_t>(below(rank))] = 1;
  }
  base_ = Shape(std::span<const int64_t>(dims));
}

/// A shape that broadcasts to `shape`.
Shape Generator::part_of(const Shape& shape) {
  if (chance(55)) return shape;
  std::vector<int64_t> dims(shape.begin(), shape.end());
  for (int64_t& dim : dims)
    if (chance(40)) dim = 1;
  if (!dims.empty()) dims.erase(dims.begin(), dims.begin() + below(std::ssize(dims) + 1));
  return Shape(std::span<const int64_t>(dims));
}

/// A random value that fits, or an empty one.
Value Generator::any_value(const std::function<bool(Value)>& fits) {
  std::vector<Value> fitting;
  for (Value value : made_)
    if (fits(value)) fitting.push_back(value);
  if (fitting.empty()) return {};
  // Later values more often: long chains.
  if (chance(40)) {
    int64_t last = std::min<int64_t>(std::ssize(fitting), 4);
    return fitting[fitting.size() - 1 - static_cast<size_t>(below(last))];
  }
  return pick(fitting);
}

Value Generator::value_of(DType dtype) {
  if (Value value = any_value([&](Value v) { return v.dtype() == dtype; })) return value;
  return keep(builder_.cast(pick(made_), dtype));
}

Value Generator::float_value(int least_rank) {
  return any_value(
      [&](Value v) { return ir::is_float(v.dtype()) && v.type().rank() >= least_rank; });
}

Value Generator::constant(DType dtype, const Shape& shape) {
  return builder_.constant(Type(dtype, shape),
                           random_array('a', Type(dtype, Shape()), random_(), 0.3).number(0));
}

/// A value of the type of `x` that broadcasts with `shape`.
Value Generator::partner(Value x, const Shape& shape) {
  if (chance(12)) return keep(constant(x.dtype(), chance(70) ? Shape() : part_of(shape)));
  Value value = any_value([&](Value v) {
    if (v.dtype() != x.dtype()) return false;
    std::optional<Shape> both = ir::broadcast(v.shape(), shape);
    return both && both->elements() <= most_elements_;
  });
  return value ? value : x;
}

std::vector<int64_t> Generator::some_axes(int rank) {
  std::vector<int64_t> axes;
  int kind = static_cast<int>(below(4));
  int64_t split = rank ? below(rank) : 0;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (kind == 0 || (kind == 1 && axis >= split) || (kind == 2 && axis <= split) ||
        (kind == 3 && chance(50)))
      axes.push_back(axis);
  return axes;
}

void Generator::make_elementwise(const OpInfo& info) {
  // Mostly a type that is there already.
  DType dtype = pick(made_).dtype();
  while (!ir::may_enter(info.types, dtype)) dtype = any_dtype();
  Value x = value_of(dtype);
  Attrs attrs;
  if (info.types == TypeRule::Cast) {
    DType to = any_dtype();
    if (ir::is_float(x.dtype()) && chance(70)) to = chance(50) ? DType::F16 : DType::BF16;
    if (chance(30)) attrs.set("user", true);
    keep(builder_.make(info.kind, {x}, attrs, {x.type().with(to)}));
    return;
  }
  if (info.kind == OpKind::CheckIndex) {
    attrs.set("size", 1 + below(100));
    if (chance(50)) attrs.set("ignore_index", -1);
  }
  int count = info.max_operands < 0 ? 1 + static_cast<int>(below(4)) : info.max_operands;
  std::vector<Value> operands;
  Shape shape = x.shape();
  bool select = info.types == TypeRule::Select;
  for (int i = select ? 1 : 0; i < count; ++i) {
    operands.push_back(operands.empty() ? x : partner(x, shape));
    shape = *ir::broadcast(shape, operands.back().shape());
  }
  if (select) {
    Value condition = any_value([&](Value v) {
      std::optional<Shape> both = ir::broadcast(v.shape(), shape);
      return v.dtype() == DType::Bool && both && both->elements() <= most_elements_;
    });
    if (!condition) condition = keep(builder_.make(OpKind::Ne, {x, constant(dtype, Shape())}));
    operands.insert(operands.begin(), condition);
  }
  keep(builder_.create(info.kind, operands, attrs)->result());
}

void Generator::make_view() {
  Value x = pick(made_);
  const Shape& shape = x.shape();
  int rank = shape.rank();
  switch (below(5)) {
    case 0: {
      Value value = any_value([&](Value v) {
        std::optional<Shape> both = ir::broadcast(v.shape(), base_);
        return both && *both == base_;
      });
      Shape to = value ? base_ : shape;
      if (to.rank() < 4 && to.elements() <= 3000 && chance(30)) to = to.inserted(0, 1 + below(3));
      keep(builder_.broadcast_to(value ? value : x, to));
      return;
    }
    case 1: {
      Shape to{x.type().elements()};
      if (chance(30))
        to = shape.rank() < 5 ? shape.inserted(static_cast<int>(below(rank + 1)), 1) : shape;
      // Two neighbouring axes become one, or swap their lengths.
      if (rank > 1 && chance(50)) {
        int at = static_cast<int>(below(rank - 1));
        to = chance(50) ? shape.without(at).with(at, shape[at] * shape[at + 1])
                        : shape.with(at, shape[at + 1]).with(at + 1, shape[at]);
      }
      keep(builder_.reshape(x, to));
      return;
    }
    case 2: {
      std::vector<int64_t> perm;
      for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
      std::shuffle(perm.begin(), perm.end(), random_);
      keep(builder_.transpose(x, perm));
      return;
    }
    case 3: {
      std::vector<int64_t> starts, ends, steps;
      for (int64_t dim : shape) {
        int64_t start = chance(50) ? 0 : below(dim + 1);
        starts.push_back(start);
        ends.push_back(chance(50) ? dim : start + below(dim - start + 1));
        steps.push_back(chance(60) ? 1 : 1 + below(3));
      }
      keep(builder_.make(
          OpKind::Slice, {x},
          {{"starts", ir::Attr(starts)}, {"ends", ir::Attr(ends)}, {"steps", ir::Attr(steps)}}));
      return;
    }
    default: {
      if (x.type().elements() > 5000) return;
      std::vector<int64_t> low, high, interior;
      for (int i = 0; i < rank; ++i) {
        low.push_back(below(3));
        high.push_back(below(3));
        interior.push_back(chance(70) ? 0 : 1);
      }
      keep(builder_.make(
          OpKind::Pad, {x},
          {{"low", ir::Attr(low)}, {"high", ir::Attr(high)}, {"interior", ir::Attr(interior)}}));
    }
  }
}

/// What rewrites look for, too rare in random sequences: a cast to a narrower type and back, or a
/// product that is added to something.
void Generator::make_pattern() {
  Value x = value_of(chance(70) ? DType::F32 : DType::F64);
  if (chance(50)) {
    Attrs attrs;
    if (chance(30)) attrs.set("user", true);
    DType narrow = chance(50) ? DType::F16 : DType::BF16;
    Value rounded = keep(builder_.make(OpKind::Cast, {x}, attrs, {x.type().with(narrow)}));
    keep(builder_.cast(rounded, x.dtype()));
    return;
  }
  Value product = keep(builder_.make(OpKind::Mul, {x, partner(x, x.shape())}));
  keep(builder_.make(chance(50) ? OpKind::Add : OpKind::Sub,
                     {product, partner(product, product.shape())}));
}

void Generator::make_source() {
  Shape shape = part_of(base_);
  if (chance(40) && shape.rank() > 0) {
    DType dtype = any_dtype();
    if (dtype == DType::Bool) dtype = DType::I32;
    keep(builder_.make(OpKind::Iota, {}, {{"axis", below(shape.rank())}}, {Type(dtype, shape)}));
    return;
  }
  keep(constant(any_dtype(), shape));
}

AxisDraw Generator::axis_draw() {
  return {builder_, [this](int64_t n) { return below(n); }, options_.ops == GraphOps::Exact};
}

void Generator::make_reduction() {
  Value x = any_value([](Value) { return true; });
  if (Value value = random_reduction(axis_draw(), x, some_axes(x.type().rank()))) keep(value);
}

void Generator::make_along_axis() {
  Value x = any_value([](Value v) { return v.type().rank() > 0; });
  if (!x) return;
  Value other = any_value([&](Value v) { return v.type() == x.type(); });
  for (Value value : random_along_axis(axis_draw(), x, other)) keep(value);
}

void Generator::make_product() {
  Value a = float_value(2);
  if (!a) return;
  Attrs attrs;
  bool transpose_a = chance(30), transpose_b = chance(40);
  auto inner = [&](Value v, bool last) { return v.shape()[v.type().rank() - (last ? 1 : 2)]; };
  auto batch = [](Value v) {
    return Shape(v.shape().dims().first(static_cast<size_t>(v.type().rank() - 2)));
  };
  auto fits = [&](Value v) {
    if (v.dtype() != a.dtype() || v.type().rank() < 2) return false;
    if (inner(v, transpose_b) != inner(a, !transpose_a)) return false;
    std::optional<Shape> both = ir::broadcast(batch(a), batch(v));
    if (!both) return false;
    int64_t size = both->elements() * inner(a, transpose_a) * inner(v, !transpose_b);
    return size <= most_elements_ && size * std::max<int64_t>(1, inner(a, !transpose_a)) <= 400000;
  };
  Value b = any_value(fits);
  if (!b) {
    transpose_b = !transpose_a;
    if (!fits(a)) return;
    b = a;
  }
  if (transpose_a) attrs.set("transpose_a", true);
  if (transpose_b) attrs.set("transpose_b", true);
  std::vector<Type> declared;
  std::vector<Value> operands = {a, b};
  if (ir::is_16bit(a.dtype()) && chance(50)) declared = {Type(DType::F32, a.shape())};
  keep(builder_.create(OpKind::Matmul, operands, attrs, declared)->result());
}

void Generator::make_composite() {
  static const std::vector<OpKind> kinds = {OpKind::Softmax, OpKind::LogSoftmax,
                                            OpKind::SoftmaxGrad, OpKind::LogSoftmaxGrad,
                                            OpKind::CrossEntropy};
  OpKind kind = pick(kinds);
  Value x = any_value([](Value v) {
    return ir::is_float(v.dtype()) && v.type().rank() > 0 && v.type().elements() > 0;
  });
  if (!x) return;
  if (kind == OpKind::CrossEntropy) {
    Value labels = builder_.make(OpKind::Argmax, {x}, {{"axis", x.type().rank() - 1}});
    static const std::vector<std::string> reduces = {"mean", "sum", "none"};
    keep(labels);
    keep(builder_.make(kind, {x, labels},
                       {{"reduce", pick(reduces)}, {"label_smoothing", chance(50) ? 0.0 : 0.125}}));
    return;
  }
  Attrs attrs{{"axis", below(x.type().rank())}};
  std::vector<Value> operands = {x};
  if (ir::op_info(kind).max_operands > 1)
    operands.push_back(any_value([&](Value v) { return v.type() == x.type(); }));
  keep(builder_.create(kind, operands, attrs)->result());
}

void Generator::make_random() {
  if (chance(20)) {
    rng_ = builder_.make(OpKind::RngAdvance, {rng_});
    keep(rng_);
    return;
  }
  static const std::vector<DType> dtypes = {DType::F64, DType::F32, DType::F16, DType::BF16};
  OpKind kind = chance(60) ? OpKind::RandomUniform : OpKind::RandomNormal;
  std::vector<Value> operands = {rng_};
  Value offset = any_value([](Value v) { return v.type() == Type(DType::I64, Shape()); });
  if (offset && chance(50)) operands.push_back(offset);
  std::vector<Type> declared = {Type(pick(dtypes), part_of(base_))};
  keep(builder_.create(kind, operands, {{"stream", below(1000)}}, declared)->result());
}

void Generator::make_one_of(std::vector<Value> (*make)(const GraphTools&)) {
  const GraphTools tools{builder_, rng_, [this](int64_t n) { return below(n); },
                         [this](const auto& fits) { return any_value(fits); }};
  for (Value value : make(tools)) keep(value);
}

void Generator::make_op() {
  int64_t dice = below(100);
  if (dice < 9) return make_view();
  if (dice < 12 && options_.ops != GraphOps::Elementwise) {
    for (Value value :
         make_indexing(builder_, std::vector(made_), [&](int64_t n) { return below(n); },
                       {options_.ops == GraphOps::Exact, most_elements_}))
      keep(value);
    return;
  }
  if (dice < 17) return make_source();
  if (dice >= 94) return make_pattern();
  if (dice < 20 && options_.ops == GraphOps::Exact)
    return chance(50) ? make_reduction() : make_along_axis();
  if (options_.ops == GraphOps::All) {
    if (dice < 27) return make_reduction();
    if (dice < 32) return make_product();
    if (dice < 36) return make_composite();
    if (dice < 39) return make_one_of(random_loss);
    if (dice < 40) return make_one_of(random_attention);
    if (dice < 42) return make_one_of(random_draw);
    if (dice < 45) return make_random();
    if (dice < 50) return make_along_axis();
    if (dice < 53) return make_one_of(random_window);
    if (dice < 55) return make_one_of(random_norm);
    if (dice < 56) return make_one_of(random_sequence);
  }
  make_elementwise(*pick(rows_));
}

std::unique_ptr<ir::Module> Generator::run() {
  choose_base();
  rows_ = elementwise_rows(options_.ops);
  int64_t inputs = 2 + below(4);
  for (int64_t i = 0; i < inputs; ++i) {
    DType dtype = i == 0 ? DType::F32 : i == 1 ? DType::F16 : any_dtype();
    made_.push_back(function_->add_parameter(Type(dtype, part_of(base_)), "p" + std::to_string(i)));
  }
  if (options_.ops == GraphOps::All) rng_ = function_->add_parameter(Type(DType::I64, {2}), "rng");
  size_t first = made_.size();
  int64_t wanted = options_.least_ops + below(options_.most_ops - options_.least_ops + 1);
  int64_t own = below(wanted);  // where the row of this seed stands at the earliest
  bool due = true;
  while (std::ssize(made_) - static_cast<int64_t>(first) < wanted || due) {
    bool now = due && std::ssize(made_) - static_cast<int64_t>(first) >= own;
    if (now) make_elementwise(*rows_[seed_ % rows_.size()]);
    if (!now) make_op();
    due &= !now;
  }
  std::vector<Value> results;
  if (options_.all_results) {
    results.assign(made_.begin() + static_cast<std::ptrdiff_t>(first), made_.end());
  } else {
    for (Value value : made_)
      if (value.unused() && !value.is_parameter()) results.push_back(value);
    std::shuffle(results.begin(), results.end(), random_);
    if (results.size() > 8) results.resize(8);
    // A value of the middle, a result twice, or a parameter as a result.
    for (int64_t extra = below(3); extra > 0; --extra) results.push_back(pick(made_));
    if (results.empty()) results.push_back(made_.back());
  }
  function_->set_results(results, std::vector<Attrs>(results.size()));
  return std::move(module_);
}

}  // namespace

std::unique_ptr<ir::Module> random_graph(uint64_t seed, const GraphOptions& options) {
  return Generator(seed, options).run();
}

std::vector<ir::InterpreterTensor> random_inputs(const ir::Function& function, uint64_t seed) {
  std::vector<ir::InterpreterTensor> inputs;
  for (Value parameter : function.parameters()) {
    uint64_t own = seed;
    for (char letter : parameter.name()) own = own * 131 + static_cast<unsigned char>(letter);
    // Six of the fourteen edge values are NaN, infinite or subnormal.
    static constexpr double kShares[] = {0, 0.1, 0.24, 0.6};
    double special = kShares[seed % 4];
    inputs.push_back(random_array('a', parameter.type(), own, special));
  }
  return inputs;
}

}  // namespace mezzo::test
