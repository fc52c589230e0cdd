// SPDX-License-Identifier: Apache-2.0
// Kernel cases of losses.
#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;

/// Over classes: labels or probabilities, with and without weights, each reduction.
void class_losses(const Draft& draft) {
  const bool labelled = draft.info().domain_of(1) == 'i';
  const bool gradient = draft.info().operands[2] == "dloss";
  for (const Shape& shape : draft.shapes()) {
    if (shape.rank() == 0 || shape[shape.rank() - 1] == 0) continue;
    const int64_t classes = shape[shape.rank() - 1];
    const Type logits(draft.dtype, shape), labels(DType::I32, shape.without(shape.rank() - 1));
    for (const char* reduce : {"mean", "sum", "none"})
      for (bool weighted : {false, true}) {
        std::vector<Type> operands = {logits, labelled ? labels : logits};
        const bool each = std::string_view(reduce) == "none";
        if (gradient) operands.push_back(logits.with(each ? labels.shape : Shape()));
        if (weighted) operands.emplace_back(draft.dtype, Shape{classes});
        draft.add(operands, {{"reduce", Attr(std::string(reduce))}}, {}, "", classes);
      }
  }
}

void element_losses(const Draft& draft) {
  for (const Shape& shape : draft.shapes()) {
    const Type type(draft.dtype, shape);
    draft.add({type, type}, {});
    if (draft.kind != OpKind::BceWithLogits || shape.rank() == 0) continue;
    draft.add({type, type, type.with(Shape{shape[shape.rank() - 1]})}, {});
    draft.add({type, type, type.with(Shape())}, {});
  }
}

}  // namespace mezzo::test
