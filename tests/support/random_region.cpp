// SPDX-License-Identifier: Apache-2.0
// Draws a shape, operands that are full or broadcast, and a chain of ops over them.
#include <support/random_region.h>

#include <mezzo/ir/builder.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mezzo::test {

using namespace ir;

namespace {

/// SplitMix64.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  /// In [0, sides).
  int64_t roll(int64_t sides) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(sides));
  }
  bool one_in(int64_t sides) { return roll(sides) == 0; }

 private:
  uint64_t state_;
};

constexpr int64_t kLengths[] = {1, 2, 3, 5, 8, 10, 16, 33, 64, 100};
constexpr int64_t kColumnLengths[] = {1, 2, 7, 64, 600, 1000, 4096, 10007};
constexpr int64_t kRowLengths[] = {1, 2, 7, 10, 32, 64, 100, 256, 1000, 1024, 1536, 4096, 10007};

class Drawer {
 public:
  Drawer(Module& module, uint64_t seed)
      : dice_(seed), function_(module.add_function("main")), builder_(function_->body()) {}

  void elementwise() {
    draw_shape(1 + static_cast<int>(dice_.roll(3)));
    declare_parameters();
    std::vector<Value> pool = full_values();
    const int64_t steps = 3 + dice_.roll(8);
    for (int64_t i = 0; i < steps; ++i) pool.push_back(step(pool));
    finish({narrow(pool.back())});
  }

  void rows() {
    draw_shape(1 + static_cast<int>(dice_.roll(2)));
    const int last = shape_.rank() - 1;
    shape_ = shape_.with(last, kRowLengths[dice_.roll(std::size(kRowLengths))]);
    declare_parameters();
    std::vector<Value> pool = full_values();
    std::vector<Value> results;
    const int64_t chains = 1 + dice_.roll(3);
    for (int64_t i = 0; i < chains; ++i) {
      pool.push_back(step(pool));
      const OpKind kinds[] = {OpKind::Sum, OpKind::Max, OpKind::Min};
      Attrs attrs;
      attrs.set("axes", Attr(std::vector<int64_t>{last}));
      attrs.set("keepdims", true);
      Value reduced = builder_.make(kinds[dice_.roll(3)], {pool.back()}, attrs);
      pool.push_back(builder_.make(OpKind::Sub, {pool.back(), reduced}));
      if (dice_.one_in(3)) results.push_back(reduced);
    }
    if (dice_.one_in(4)) {
      Attrs attrs;
      attrs.set("axis", int64_t{last});
      results.push_back(builder_.make(OpKind::Argmax, {pool.back()}, attrs));
    }
    pool.push_back(step(pool));
    results.push_back(narrow(pool.back()));
    finish(results);
  }

  void rows_columns() {
    constexpr int64_t kMostElements = 100000;
    const int64_t columns = kRowLengths[dice_.roll(std::size(kRowLengths))];
    int64_t rows = kColumnLengths[dice_.roll(std::size(kColumnLengths))];
    rows = std::min(rows, std::max<int64_t>(1, kMostElements / columns));
    shape_ = Shape({rows, columns});
    if (dice_.one_in(3)) shape_ = Shape({1 + dice_.roll(3), 1 + dice_.roll(9), columns});
    const int last = shape_.rank() - 1;
    std::vector<int64_t> leading;
    for (int axis = 0; axis < last; ++axis) leading.push_back(axis);
    declare_parameters();
    std::vector<Value> pool = full_values(), results;
    const int64_t chains = 1 + dice_.roll(3);
    for (int64_t i = 0; i < chains; ++i) {
      pool.push_back(step(pool));
      const OpKind kinds[] = {OpKind::Sum, OpKind::Sum, OpKind::Max, OpKind::Min};
      const bool keepdims = dice_.one_in(2);
      Value reduced =
          builder_.make(kinds[dice_.roll(4)], {full(pool.back())},
                        {{"axes", Attr(std::vector<int64_t>{last})}, {"keepdims", true}});
      if (dice_.one_in(3)) results.push_back(reduced);
      pool.push_back(builder_.make(OpKind::Sub, {full(pool.back()), reduced}));
      if (i > 0 && dice_.one_in(2)) continue;
      Value column = builder_.make(kinds[dice_.roll(4)], {pool.back()},
                                   {{"axes", Attr(leading)}, {"keepdims", keepdims}});
      if (dice_.one_in(2)) column = builder_.make(OpKind::Tanh, {column});
      if (dice_.one_in(3)) column = builder_.cast(column, DType::F16);
      results.push_back(column);
    }
    if (dice_.one_in(2)) results.push_back(narrow(step(pool)));
    finish(results);
  }

  void scan() {
    draw_space_along_axis();
    std::vector<Value> pool = full_values();
    for (int64_t i = dice_.roll(3); i > 0; --i) pool.push_back(step(pool));
    const OpKind kinds[] = {OpKind::Cumsum, OpKind::Cummax, OpKind::Cummin, OpKind::LinearScan};
    const OpKind kind = kinds[dice_.roll(4)];
    Attrs attrs{{"axis", axis_}, {"reverse", dice_.one_in(2)}};
    if (kind == OpKind::Cumsum) attrs.set("exclusive", dice_.one_in(2));
    std::vector<Value> operands{full(pool.back())};
    // Factors within -1 and 1, so that nothing leaves its range.
    if (kind == OpKind::LinearScan)
      operands.insert(operands.begin(), builder_.make(OpKind::Tanh, {full(pool.front())}));
    Value scanned = builder_.create(kind, operands, attrs)->result();
    std::vector<Value> results;
    if (dice_.one_in(3)) results.push_back(full(pool.back()));
    pool.push_back(scanned);
    for (int64_t i = dice_.roll(3); i > 0; --i) pool.push_back(step(pool));
    results.push_back(narrow(pool.back()));
    finish(results);
  }

  void sort() {
    draw_space_along_axis();
    Value keys = full(full_values().front());
    if (dice_.one_in(2)) keys = builder_.make(OpKind::Neg, {keys});
    Value x = function_->parameter(0);
    if (dice_.one_in(2)) x = keys;
    const bool descending = dice_.one_in(2);
    switch (dice_.roll(4)) {
      case 0:
        return finish(
            {builder_.make(OpKind::Sort, {x}, {{"axis", axis_}, {"descending", descending}})});
      case 1:
        return finish(
            {builder_.make(OpKind::Argsort, {x}, {{"axis", axis_}, {"descending", descending}})});
      case 2:
        return finish({builder_.make(OpKind::SortBy, {x, keys},
                                     {{"axis", axis_}, {"descending", descending}})});
      default: {
        const int64_t k = dice_.roll(shape_[static_cast<int>(axis_)] + 1);
        const Op& op = *builder_.create(OpKind::Topk, {x},
                                        {{"axis", axis_}, {"k", k}, {"largest", descending}});
        return finish({op.result(0), op.result(1)});
      }
    }
  }

  /// Side by side, or each made of those before it.
  void columns() {
    draw_shape(1 + static_cast<int>(dice_.roll(2)));
    std::vector<int64_t> dims{kColumnLengths[dice_.roll(std::size(kColumnLengths))]};
    for (int64_t dim : shape_.dims()) dims.push_back(dim);
    shape_ = Shape(dims);
    declare_parameters();
    std::vector<Value> pool = full_values();
    std::vector<Value> results;
    const bool chained = dice_.one_in(2);
    const int64_t reductions = 1 + dice_.roll(3);
    for (int64_t i = 0; i < reductions; ++i) {
      if (!dice_.one_in(3)) pool.push_back(step(pool));
      const OpKind kinds[] = {OpKind::Sum, OpKind::Sum, OpKind::Max, OpKind::Min};
      Attrs attrs;
      attrs.set("axes", Attr(std::vector<int64_t>{0}));
      if (dice_.one_in(2)) attrs.set("keepdims", true);
      Value reduced = builder_.make(kinds[dice_.roll(4)], {full(pool.back())}, attrs);
      if (dice_.one_in(2)) reduced = builder_.make(OpKind::Tanh, {reduced});
      if (chained)
        pool.push_back(builder_.make(dice_.one_in(2) ? OpKind::Sub : OpKind::Mul,
                                     {full(pool.back()), reduced}));
      if (dice_.one_in(3)) reduced = builder_.cast(reduced, DType::F16);
      if (!chained || dice_.one_in(2)) results.push_back(reduced);
    }
    if (chained && (results.empty() || dice_.one_in(2))) results.push_back(narrow(pool.back()));
    finish(results);
  }

 private:
  void draw_shape(int rank) {
    std::vector<int64_t> dims;
    for (int i = 0; i < rank; ++i) dims.push_back(kLengths[dice_.roll(std::size(kLengths))]);
    shape_ = Shape(dims);
  }

  /// One axis of any of the lengths of rows, the others short where it is long.
  void draw_space_along_axis() {
    draw_shape(static_cast<int>(dice_.roll(3)));
    const int64_t length = kRowLengths[dice_.roll(std::size(kRowLengths))];
    for (int i = 0; i < shape_.rank(); ++i)
      shape_ = shape_.with(i, std::min<int64_t>(shape_[i], length > 300 ? 3 : 40));
    axis_ = dice_.roll(shape_.rank() + 1);
    shape_ = shape_.inserted(static_cast<int>(axis_), length);
    declare_parameters();
  }

  void declare_parameters() {
    const DType types[] = {DType::F32, DType::F16, DType::BF16, DType::F32};
    const int64_t count = 1 + dice_.roll(4);
    for (int64_t i = 0; i < count; ++i) {
      Shape shape = shape_;
      // The first one has the full shape; others may broadcast.
      if (i > 0)
        for (int axis = 0; axis < shape.rank(); ++axis)
          if (dice_.one_in(3)) shape = shape.with(axis, 1);
      function_->add_parameter(Type(types[dice_.roll(4)], shape), "x" + std::to_string(i));
    }
  }

  /// Every parameter in f32.
  std::vector<Value> full_values() {
    std::vector<Value> pool;
    for (Value value : function_->parameters())
      pool.push_back(value.dtype() == DType::F32 ? value : builder_.cast(value, DType::F32));
    return pool;
  }

  Value step(const std::vector<Value>& pool) {
    constexpr OpKind kUnary[] = {OpKind::Neg,  OpKind::Abs,  OpKind::Exp,     OpKind::Tanh,
                                 OpKind::Relu, OpKind::Gelu, OpKind::Sigmoid, OpKind::Square};
    constexpr OpKind kBinary[] = {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Maximum,
                                  OpKind::Minimum};
    Value x = pool.back(),
          y = pool[static_cast<size_t>(dice_.roll(static_cast<int64_t>(pool.size())))];
    switch (dice_.roll(6)) {
      case 0:
        return builder_.make(OpKind::Where, {builder_.make(OpKind::Gt, {x, y}), x, y});
      case 1: {
        Value one = builder_.constant(Type(DType::F32, {}), 1.0);
        Value positive = builder_.make(OpKind::Add, {builder_.make(OpKind::Square, {x}), one});
        return builder_.make(dice_.one_in(2) ? OpKind::Log : OpKind::Rsqrt, {positive});
      }
      case 2:
      case 3:
        return builder_.make(kUnary[dice_.roll(std::size(kUnary))], {x});
      default:
        return builder_.make(kBinary[dice_.roll(std::size(kBinary))], {x, y});
    }
  }

  /// Broadcast to the full shape.
  Value full(Value value) {
    if (value.shape() == shape_) return value;
    return builder_.make(OpKind::Add, {value, builder_.constant(Type(DType::F32, shape_), 0.0)});
  }

  /// The same and, often, in 16 bits.
  Value narrow(Value value) {
    value = full(value);
    switch (dice_.roll(3)) {
      case 0:
        return builder_.cast(value, DType::F16);
      case 1:
        return builder_.cast(value, DType::BF16);
      default:
        return value;
    }
  }

  void finish(const std::vector<Value>& results) {
    function_->set_results(results, std::vector<Attrs>(results.size()));
  }

  Dice dice_;
  Function* function_;
  Builder builder_;
  Shape shape_;
  int64_t axis_ = 0;
};

}  // namespace

std::unique_ptr<Module> random_region(RegionFamily family, uint64_t seed) {
  auto module = std::make_unique<Module>("random");
  Drawer drawer(*module, seed);
  if (family == RegionFamily::Rows)
    drawer.rows();
  else if (family == RegionFamily::Columns)
    drawer.columns();
  else if (family == RegionFamily::RowsColumns)
    drawer.rows_columns();
  else if (family == RegionFamily::Scan)
    drawer.scan();
  else if (family == RegionFamily::Sort)
    drawer.sort();
  else
    drawer.elementwise();
  module->set_stage(Stage::Primitive);
  return module;
}

}  // namespace mezzo::test
