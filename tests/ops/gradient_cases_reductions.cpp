// SPDX-License-Identifier: Apache-2.0
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::OpKind;

namespace {

Attrs axes(std::vector<int64_t> list, bool keepdims = false) {
  return {{"axes", Attr(list)}, {"keepdims", keepdims}};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

}  // namespace

std::vector<GradientCase> reduction_gradient_cases() {
  std::vector<GradientCase> cases;
  for (OpKind kind : {OpKind::Prod, OpKind::Var, OpKind::Stddev, OpKind::LogSumExp, OpKind::Norm})
    cases.insert(cases.end(), {{kind, {{5}}, axes({0})},
                               {kind, {{3, 4}}, axes({1})},
                               {kind, {{3, 4}}, axes({0}, true)},
                               {kind, {{2, 3, 4}}, axes({0, 2})},
                               {kind, {{2, 3, 4}}, axes({0, 1, 2}, true)},
                               {kind, {{9, 11}}, axes({1})},
                               {kind, {{0, 3}}, axes({1})}});
  for (OpKind kind : {OpKind::Prod, OpKind::LogSumExp, OpKind::Norm})
    cases.insert(cases.end(), {{kind, {{3, 1}}, axes({1})}, {kind, {{2, 2}}, axes({})}});
  for (OpKind kind : {OpKind::Var, OpKind::Stddev})
    cases.push_back({kind, {{3, 4}}, with(axes({1}), "correction", 0)});
  for (double order : {1.0, 3.0, 1.5, 0.5})
    cases.insert(cases.end(), {{OpKind::Norm, {{3, 4}}, with(axes({1}), "ord", order)},
                               {OpKind::Norm, {{4, 3}}, with(axes({0}), "ord", order)}});
  for (OpKind kind : {OpKind::Cumsum, OpKind::Cumprod, OpKind::Cummax, OpKind::Cummin})
    for (bool reverse : {false, true}) {
      auto along = [&](int64_t axis) { return Attrs{{"axis", axis}, {"reverse", reverse}}; };
      cases.insert(cases.end(), {{kind, {{5}}, along(0)},
                                 {kind, {{3, 4}}, along(1)},
                                 {kind, {{2, 3, 4}}, along(1)},
                                 {kind, {{3, 1}}, along(1)},
                                 {kind, {{3, 0}}, along(1)},
                                 {kind, {{9, 11}}, along(0)}});
      if (kind == OpKind::Cumsum || kind == OpKind::Cumprod)
        cases.insert(cases.end(), {{kind, {{5}}, with(along(0), "exclusive", true)},
                                   {kind, {{2, 3, 2}}, with(along(1), "exclusive", true)}});
    }
  for (bool reverse : {false, true})
    for (const ir::Shape& shape :
         {ir::Shape{5}, ir::Shape{3, 4}, ir::Shape{4, 1}, ir::Shape{9, 11}})
      cases.push_back(
          {OpKind::LinearScan, {shape, shape}, {{"axis", shape.rank() - 1}, {"reverse", reverse}}});
  for (bool flag : {false, true}) {
    for (OpKind kind : {OpKind::Sort, OpKind::SortBy})
      for (int64_t axis : {0, 1}) {
        std::vector<ir::Shape> shapes(kind == OpKind::Sort ? 1 : 2, ir::Shape{4, 5});
        cases.push_back({kind, shapes, {{"axis", axis}, {"descending", flag}}});
      }
    for (int64_t k : {1, 3, 5})
      cases.push_back({OpKind::Topk, {{3, 5}}, {{"axis", 1}, {"k", k}, {"largest", flag}}});
    cases.push_back({OpKind::Topk, {{5, 3}}, {{"axis", 0}, {"k", 2}, {"largest", flag}}});
  }
  return cases;
}

}  // namespace mezzo::test
