// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_cases.h>

#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/shape_rules.h>

#include <fmt/format.h>

#include <functional>

namespace mezzo::test {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpInfo;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::TypeRule;
using ir::Value;

/// A module whose function `@f` returns what `build` makes of its parameters.
std::unique_ptr<ir::Module> module_of(
    const std::vector<Type>& parameters,
    const std::function<std::vector<Value>(Builder&, std::span<const Value>)>& build) {
  auto module = std::make_unique<ir::Module>("case");
  ir::Function* function = module->add_function("f");
  for (size_t i = 0; i < parameters.size(); ++i)
    function->add_parameter(parameters[i], "x" + std::to_string(i));
  Builder builder(function->body());
  const std::vector<Value> results = build(builder, function->parameters());
  function->set_results(results, std::vector<Attrs>(results.size()));
  module->set_stage(ir::Stage::Primitive);
  return module;
}

std::unique_ptr<ir::Module> one_op(OpKind kind, const std::vector<Type>& parameters, Attrs attrs,
                                   const std::vector<Type>& declared) {
  return module_of(parameters, [&](Builder& builder, std::span<const Value> x) {
    return builder.create(kind, x, attrs, declared)->results();
  });
}

namespace {

ir::Attr ints(std::vector<int64_t> values) { return ir::Attr(std::move(values)); }

struct ShapeClass {
  const char* name;
  std::vector<Shape> operands;  // the last repeats
  bool flagged;                 // the op has a flag word
};

/// What each element type is tried with, then what only the first type of a row is.
const std::vector<ShapeClass> kShapes = {
    {"whole vectors", {{32, 64}}, false},
    {"tail", {{7, 9}, {9}, {1}}, true},
    {"broadcast", {{5, 1, 3}, {4, 3}}, true},
};
const std::vector<ShapeClass> kSpecialShapes = {
    {"one element", {Shape{}}, true},
    {"row operand", {{6, 64}, {6, 1}, {64}}, false},
    {"empty", {{3, 0}}, true},
};

void add_elementwise(const OpInfo& info, DType dtype, const ShapeClass& shapes,
                     std::vector<CudaCase>& cases) {
  const int count = info.max_operands < 0 ? 3 : info.max_operands;
  std::vector<Type> parameters;
  for (int i = 0; i < count; ++i) {
    const size_t last = shapes.operands.size() - 1;
    const Shape& shape = shapes.operands[std::min(static_cast<size_t>(i), last)];
    const bool condition = info.types == TypeRule::Select && i == 0;
    parameters.emplace_back(condition ? DType::Bool : dtype, shape);
  }
  Attrs attrs;
  if (shapes.flagged) attrs.set("word", 0);
  if (info.kind == OpKind::CheckIndex) {
    attrs.set("size", int64_t{3});
    if (shapes.flagged) attrs.set("ignore_index", int64_t{dtype == DType::U8 ? 255 : -100});
  }
  const std::string name = fmt::format("{} {} {}", info.name, ir::to_string(dtype), shapes.name);
  if (info.types != TypeRule::Cast) {
    cases.push_back({name, one_op(info.kind, parameters, attrs)});
    return;
  }
  for (DType to : ir::kAllDTypes)
    if (to != dtype)
      cases.push_back({fmt::format("{} to {}", name, ir::to_string(to)),
                       one_op(info.kind, parameters, attrs, {parameters[0].with(to)})});
}

}  // namespace

std::vector<CudaCase> elementwise_cases() {
  std::vector<CudaCase> cases;
  for (const OpInfo& info : ir::all_ops()) {
    if (info.op_class != ir::OpClass::Elementwise) continue;
    bool first = true;
    for (DType dtype : ir::kAllDTypes) {
      if (!ir::may_enter(info.types, dtype)) continue;
      for (const ShapeClass& shapes : kShapes) add_elementwise(info, dtype, shapes, cases);
      if (first)
        for (const ShapeClass& shapes : kSpecialShapes) add_elementwise(info, dtype, shapes, cases);
      first = false;
    }
  }
  return cases;
}

std::vector<CudaCase> movement_cases() {
  std::vector<CudaCase> cases;
  auto add = [&](const std::string& name, std::unique_ptr<ir::Module> module) {
    cases.push_back({name, std::move(module)});
  };
  for (DType dtype : ir::kAllDTypes) {
    const std::string type = ir::to_string(dtype);
    auto of = [&](const Shape& shape) { return Type(dtype, shape); };
    add("pad edges " + type,
        one_op(OpKind::Pad, {of({6, 16})},
               {{"low", ints({1, 0})}, {"high", ints({2, 0})}, {"interior", ints({0, 0})}}));
    add("pad inside " + type,
        one_op(OpKind::Pad, {of({5, 7})},
               {{"low", ints({0, 3})}, {"high", ints({1, 0})}, {"interior", ints({1, 2})}}));
    add("slice " + type,
        one_op(
            OpKind::Slice, {of({9, 16, 3})},
            {{"starts", ints({1, 0, 1})}, {"ends", ints({9, 15, 3})}, {"steps", ints({3, 2, 1})}}));
    add("slice rows " + type,
        one_op(OpKind::Slice, {of({9, 32})},
               {{"starts", ints({2, 16})}, {"ends", ints({8, 32})}, {"steps", ints({1, 1})}}));
    add("remap " + type, one_op(OpKind::Remap, {of({2, 9, 4})},
                                {{"shape", ints({2, 4, 3, 4})},
                                 {"axes", ints({0, 1, 3})},
                                 {"multiples", ints({1, 2, 1})},
                                 {"offsets", ints({0, -1, 0})},
                                 {"divisors", ints({1, 1, 1})},
                                 {"minor_axes", ints({-1, 2, -1})},
                                 {"minor_multiples", ints({0, 2, 0})}}));
    add("transpose " + type,
        one_op(OpKind::Transpose, {of({4, 6, 5})}, {{"perm", ints({2, 0, 1})}}));
    add("transpose outer " + type,
        one_op(OpKind::Transpose, {of({4, 6, 16})}, {{"perm", ints({1, 0, 2})}}));
    add("transpose tiles " + type,
        one_op(OpKind::Transpose, {of({70, 3, 45})}, {{"perm", ints({2, 1, 0})}}));
    add("transpose whole tiles " + type,
        one_op(OpKind::Transpose, {of({64, 128})}, {{"perm", ints({1, 0})}}));
    if (dtype != DType::Bool)
      add("transpose and more " + type,
          module_of({of({33, 1, 50}), of({50, 33}), of({33, 50}), of({33})},
                    [&](Builder& b, std::span<const Value> x) {
                      const Value flat = b.reshape(x[0], {33, 50});
                      const Value first =
                          b.make(OpKind::Transpose, {flat}, {{"perm", ints({1, 0})}});
                      const Value second =
                          b.make(OpKind::Transpose, {x[2]}, {{"perm", ints({1, 0})}});
                      const Value sum = b.make(OpKind::Maximum, {first, x[1]}, {{"word", 0}});
                      return std::vector<Value>{
                          sum, b.make(OpKind::Minimum, {b.make(OpKind::Add, {sum, x[3]}), second})};
                    }));
    add("broadcast " + type,
        one_op(OpKind::BroadcastTo, {of({3, 1})}, {{"shape", ints({2, 3, 32})}}));
    add("reshape " + type, module_of({of({4, 1, 9})}, [](Builder& b, std::span<const Value> x) {
          const Value y = b.reshape(x[0], {1, 4, 9});
          return std::vector<Value>{b.make(OpKind::Where, {b.make(OpKind::Eq, {y, y}), y, y})};
        }));
    add("constant " + type, module_of({of({4, 9})}, [&](Builder& b, std::span<const Value> x) {
          const Value one = b.constant(Type(dtype, {}), 1.0);
          return std::vector<Value>{
              b.make(OpKind::Where, {b.make(OpKind::Ne, {x[0], one}), x[0], one})};
        }));
    if (dtype != DType::Bool)
      for (int64_t axis : {0, 1})
        add(fmt::format("iota {} axis {}", type, axis),
            module_of({of({6, 20})}, [&](Builder& b, std::span<const Value> x) {
              const Value count = b.make(OpKind::Iota, {}, {{"axis", axis}}, {of({6, 20})});
              return std::vector<Value>{b.make(OpKind::Add, {x[0], count})};
            }));
    if (!ir::is_float(dtype)) continue;
    const Type rng(DType::I64, {2}), offset(DType::I64, {});
    for (OpKind kind : {OpKind::RandomUniform, OpKind::RandomNormal}) {
      const std::string name = fmt::format("{} {}", ir::to_string(kind), type);
      add(name, one_op(kind, {rng}, {{"stream", int64_t{3}}}, {of({33, 5})}));
      add(name + " offset", one_op(kind, {rng, offset}, {{"stream", int64_t{5}}}, {of({8, 16})}));
    }
    // Dropout, with the mask stored.
    add("dropout " + type,
        module_of({rng, of({16, 48})}, [&](Builder& b, std::span<const Value> x) {
          const Value u =
              b.make(OpKind::RandomUniform, {x[0]}, {{"stream", int64_t{1}}}, {x[1].type()});
          const Value keep = b.make(OpKind::Lt, {u, b.constant(Type(dtype, {}), 0.75)});
          const Value zero = b.constant(Type(dtype, {}), 0.0);
          return std::vector<Value>{keep, b.make(OpKind::Where, {keep, x[1], zero})};
        }));
  }
  add("bernoulli", one_op(OpKind::Bernoulli, {Type(DType::I64, {2})},
                          {{"p", 0.25}, {"stream", int64_t{3}}}, {Type(DType::Bool, {33, 5})}));
  add("rng_advance", one_op(OpKind::RngAdvance, {Type(DType::I64, {2})}, {}));
  return cases;
}

namespace {

struct Reduced {
  const char* name;
  Shape shape;
  std::vector<int64_t> axes;
};

/// Every row of trait Reduction over the shapes that it takes; `largest`: elements that still are
/// tried with and without `keepdims`.
std::vector<CudaCase> reductions_over(const std::vector<Reduced>& shapes, int64_t largest) {
  std::vector<CudaCase> cases;
  for (const OpInfo& info : ir::all_ops()) {
    if (!info.has(ir::Trait::Reduction) || info.op_class != ir::OpClass::Structural) continue;
    const bool one_axis = info.attribute("axis") != nullptr;
    for (DType dtype : ir::kAllDTypes)
      for (const Reduced& each : shapes)
        for (bool keepdims : {false, true}) {
          // An index along a leading axis is no family's.
          if (one_axis && (each.axes.size() > 1 || each.axes[0] == 0)) continue;
          if (keepdims && each.shape.elements() > largest) continue;
          const Type type(dtype, each.shape);
          Attrs attrs{{"keepdims", keepdims}};
          if (one_axis)
            attrs.set("axis", each.axes[0]);
          else
            attrs.set("axes", ir::Attr(each.axes));
          if (ir::is_float(dtype)) attrs.set("word", 0);
          try {
            cases.push_back({fmt::format("{} {} {}{}", info.name, ir::to_string(dtype), each.name,
                                         keepdims ? " kept" : ""),
                             one_op(info.kind, {type}, attrs)});
          } catch (const UserError&) {
            // Bools and rows without elements do not enter every row.
          }
        }
  }
  return cases;
}

}  // namespace

std::vector<CudaCase> reduction_cases() {
  return reductions_over({{"short row", {6, 7}, {1}},
                          {"warp", {33, 256}, {1}},
                          {"block", {3, 4096}, {1}},
                          {"odd block", {2, 1031}, {1}},
                          {"two axes", {3, 2, 5, 64}, {2, 3}},
                          {"all", {4, 3, 7}, {0, 1, 2}},
                          {"one column", {5, 1}, {1}},
                          {"no rows", {0, 8}, {1}},
                          {"no columns", {3, 0}, {1}},
                          {"long", {1, 600000}, {1}}},
                         1000);
}

std::vector<CudaCase> column_cases() {
  std::vector<CudaCase> cases = reductions_over({{"few rows", {6, 7}, {0}},
                                                 {"vectors", {33, 256}, {0}},
                                                 {"slabs", {3001, 40}, {0}},
                                                 {"odd slabs", {5003, 3}, {0}},
                                                 {"wide", {3, 1111}, {0}},
                                                 {"two axes", {5, 61, 3, 8}, {0, 1}},
                                                 {"short last axis", {9, 4, 3}, {0}},
                                                 {"no rows", {0, 8}, {0}},
                                                 {"no columns", {5, 0}, {0}},
                                                 {"long", {150001, 4}, {0}}},
                                                1000);
  // What a normalisation learns: two sums of what is computed on the way, scaled and flagged.
  for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64})
    for (const Shape& shape : {Shape{12, 24}, Shape{2500, 24}, Shape{700, 5}}) {
      const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
      const Shape row{shape[1]};
      cases.push_back(
          {fmt::format("normalisation {} of {}", ir::to_string(dtype), shape[0]),
           module_of({Type(dtype, shape), Type(dtype, shape), Type(wide, row), Type(wide, {})},
                     [&](Builder& b, std::span<const Value> x) {
                       auto widened = [&](Value value) {
                         return value.dtype() == wide ? value : b.cast(value, wide);
                       };
                       const Value dy = widened(x[0]);
                       const Value shifted = b.make(OpKind::Sub, {widened(x[1]), x[2]});
                       const Value product = b.make(OpKind::Mul, {dy, shifted}, {{"word", 0}});
                       const Value dbeta = b.sum(dy, {0});
                       const Value dgamma =
                           b.make(OpKind::Sum, {product}, {{"axes", ints({0})}, {"word", 1}});
                       const Value most = b.max(dy, {0});
                       const Value scaled = b.make(OpKind::Mul, {dgamma, x[3]}, {{"word", 2}});
                       const Value narrow =
                           dtype == wide
                               ? dbeta
                               : b.make(OpKind::Cast, {dbeta}, {{"word", 3}}, {Type(dtype, row)});
                       return std::vector<Value>{scaled, narrow, b.make(OpKind::Sub, {most, x[2]})};
                     })});
    }
  return cases;
}

std::vector<CudaCase> wide_cases() {
  std::vector<CudaCase> cases;
  auto add = [&](const std::string& name, std::unique_ptr<ir::Module> module) {
    cases.push_back({name, std::move(module), false});
  };
  const Shape flat{3000000001}, square{70000, 70000}, rows{3, 3000000000};
  const Type rng(DType::I64, {2});
  add("wide tail", one_op(OpKind::Add, {Type(DType::F16, flat), Type(DType::F16, flat)}, {}));
  add("wide broadcast",
      one_op(OpKind::Mul, {Type(DType::F32, square), Type(DType::F32, {70000})}, {}));
  add("wide transpose",
      one_op(OpKind::Transpose, {Type(DType::U8, square)}, {{"perm", ints({1, 0})}}));
  add("wide pad", one_op(OpKind::Pad, {Type(DType::U8, flat)},
                         {{"low", ints({5})}, {"high", ints({0})}, {"interior", ints({1})}}));
  add("wide slice",
      one_op(OpKind::Slice, {Type(DType::F32, square)},
             {{"starts", ints({1, 0})}, {"ends", ints({3, 70000})}, {"steps", ints({1, 2})}}));
  add("wide random",
      one_op(OpKind::RandomUniform, {rng}, {{"stream", int64_t{0}}}, {Type(DType::F32, flat)}));
  for (OpKind kind : {OpKind::Sum, OpKind::Max}) {
    add(fmt::format("wide {}", ir::to_string(kind)),
        one_op(kind, {Type(DType::F32, square)}, {{"axes", ints({1})}}));
    add(fmt::format("wide {} of long rows", ir::to_string(kind)),
        one_op(kind, {Type(DType::F16, rows)}, {{"axes", ints({1})}}));
  }
  add("wide columns",
      one_op(OpKind::Sum, {Type(DType::F16, {30000, 100000})}, {{"axes", ints({0})}}));
  add("wide long columns",
      one_op(OpKind::Max, {Type(DType::U8, {1000000000, 3})}, {{"axes", ints({0})}}));
  add("wide chain of columns",
      module_of({Type(DType::F16, {30000, 100000})}, [](Builder& b, std::span<const Value> p) {
        const Value most = b.make(OpKind::Max, {p[0]}, {{"axes", ints({0})}});
        return std::vector<Value>{b.make(OpKind::Sub, {p[0], most})};
      }));
  return cases;
}

const std::vector<std::pair<OpKind, const char*>>& rows_elsewhere() {
  static const std::vector<std::pair<OpKind, const char*>> rows = {
      {OpKind::Matmul, "family matmul"},
      {OpKind::Gradient, "differentiated before fusion"},
      {OpKind::CustomGradient, "dropped before fusion"},
      {OpKind::AllFinite, "a step kernel, which is no kernel op"},
      {OpKind::Verdict, "a step kernel, which is no kernel op"},
      {OpKind::Kernel, "the kernel itself"},
      {OpKind::Return, "ends a function"},
  };
  return rows;
}

}  // namespace mezzo::test
