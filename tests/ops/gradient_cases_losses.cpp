// SPDX-License-Identifier: Apache-2.0
// Losses: with and without weights, label smoothing and ignored labels, in each reduction.
#include <ops/gradient_cases.h>

namespace mezzo::test {

using ir::Attrs;
using ir::OpKind;
using ir::Shape;

std::vector<GradientCase> loss_gradient_cases() {
  std::vector<GradientCase> cases;
  const Shape x{4, 3}, labels{4}, weight{3};
  for (const char* reduce : {"mean", "sum", "none"}) {
    const Shape loss = std::string_view(reduce) == "none" ? Shape{4} : Shape{};
    // Labels are drawn from 0, 1, 2, so that class 1 is ignored in some rows.
    for (int64_t ignored : {-100, 1}) {
      const Attrs nll{{"reduce", reduce}, {"ignore_index", ignored}};
      cases.push_back({OpKind::Nll, {x, labels}, nll});
      cases.push_back({OpKind::Nll, {x, labels, weight}, nll});
      for (double smoothing : {0.0, 0.1}) {
        Attrs attrs = nll;
        attrs.set("label_smoothing", smoothing);
        cases.push_back({OpKind::CrossEntropy, {x, labels}, attrs});
        cases.push_back({OpKind::CrossEntropy, {x, labels, weight}, attrs, {2}});
        cases.push_back({OpKind::CrossEntropyGrad, {x, labels, loss}, attrs});
        cases.push_back({OpKind::CrossEntropyGrad, {x, labels, loss, weight}, attrs});
      }
    }
    for (double smoothing : {0.0, 0.1}) {
      const Attrs attrs{{"reduce", reduce}, {"label_smoothing", smoothing}};
      cases.push_back({OpKind::SoftCrossEntropy, {x, x}, attrs});
      cases.push_back({OpKind::SoftCrossEntropy, {x, x, weight}, attrs, {2}});
      cases.push_back({OpKind::SoftCrossEntropyGrad, {x, x, loss}, attrs});
      cases.push_back({OpKind::SoftCrossEntropyGrad, {x, x, loss, weight}, attrs});
    }
  }
  cases.push_back({OpKind::CrossEntropy, {{2, 3, 5}, {2, 3}}});
  cases.push_back({OpKind::SoftCrossEntropy, {{2, 3, 5}, {2, 3, 5}}});
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{3, 4}, Shape{0, 3}, Shape{9, 11}}) {
    cases.push_back({OpKind::Bce, {shape, shape}});
    cases.push_back({OpKind::BceWithLogits, {shape, shape}});
    cases.push_back({OpKind::KlDiv, {shape, shape}});
    cases.push_back({OpKind::KlDiv, {shape, shape}, {{"log_target", true}}});
  }
  cases.push_back({OpKind::BceWithLogits, {{3, 4}, {3, 4}, {4}}});
  cases.push_back({OpKind::BceWithLogits, {{3, 4}, {3, 4}, {3, 1}}});
  cases.push_back({OpKind::BceWithLogits, {{3, 4}, {3, 4}, Shape{}}});
  return cases;
}

}  // namespace mezzo::test
