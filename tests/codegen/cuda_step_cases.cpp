// SPDX-License-Identifier: Apache-2.0
// Updates of parameters, as the training step has them after `decompose`.
#include <mezzo/passes/pass.h>

#include <fmt/format.h>

#include <codegen/cuda_cases.h>

namespace mezzo::test {

using ir::Attrs;
using ir::Builder;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

struct Rule {
  const char* name;
  OpKind kind;
  Attrs attrs;
  int moments;
};

std::vector<Rule> rules() {
  return {{"sgd", OpKind::Sgd, {}, 0},
          {"nesterov",
           OpKind::Sgd,
           {{"momentum", 0.875}, {"nesterov", true}, {"weight_decay", 0.125}},
           1},
          {"adam", OpKind::Adam, {}, 2},
          {"adamw", OpKind::Adam, {{"weight_decay", 0.0625}}, 2}};
}

/// `count` parameters whose shapes are those of `shapes` in turn; each update has a word.
CudaCase updates(const Rule& rule, DType dtype, const std::vector<Shape>& shapes, int count,
                 bool predicate) {
  const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  std::vector<Type> parameters{Type(DType::F32, {}), Type(DType::I32, {}), Type(DType::Bool, {})};
  for (int i = 0; i < count; ++i) {
    const Shape& shape = shapes[static_cast<size_t>(i) % shapes.size()];
    parameters.emplace_back(dtype, shape);
    for (int m = 0; m <= rule.moments; ++m) parameters.emplace_back(wide, shape);
  }
  std::unique_ptr<ir::Module> module =
      module_of(parameters, [&](Builder& b, std::span<const Value> x) {
        b.set_role("update");
        std::vector<Value> results;
        for (int i = 0; i < count; ++i) {
          const std::span<const Value> own =
              x.subspan(3 + static_cast<size_t>(i * (2 + rule.moments)));
          std::vector<Value> operands{own[0], own[1]};
          if (rule.kind == OpKind::Sgd) operands.push_back(x[0]);
          for (int m = 0; m < rule.moments; ++m)
            operands.push_back(own[2 + static_cast<size_t>(m)]);
          if (rule.kind == OpKind::Adam) {
            operands.push_back(x[1]);
            operands.push_back(x[0]);
          }
          if (predicate) operands.push_back(x[2]);
          Attrs attrs = rule.attrs;
          attrs.set("word", int64_t{i});
          for (Value result : b.create(rule.kind, operands, attrs)->results())
            results.push_back(result);
        }
        return results;
      });
  module->set_stage(ir::Stage::Traced);
  passes::PassContext context;
  passes::decompose(*module, context);
  module->set_stage(ir::Stage::Primitive);
  return {fmt::format("{} {} of {}{}", rule.name, ir::to_string(dtype), count,
                      predicate ? " or none" : ""),
          std::move(module)};
}

}  // namespace

std::vector<CudaCase> optimizer_cases() {
  const std::vector<Shape> shapes = {{40, 25}, {7, 9}, {16}, {3, 1}, {130, 64}, {5, 0}};
  std::vector<CudaCase> cases;
  for (const Rule& rule : rules())
    for (DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64})
      for (bool predicate : {false, true})
        cases.push_back(updates(rule, dtype, shapes, 6, predicate));
  return cases;
}

CudaCase many_updates(int count) {
  return updates(rules()[3], DType::F32, {{40, 25}, {7, 9}, {16}, {130, 64}}, count, true);
}

}  // namespace mezzo::test
