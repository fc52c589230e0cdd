// SPDX-License-Identifier: Apache-2.0
// Kernel cases of random numbers and what is drawn from them.
#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::Shape;
using ir::Type;

namespace {

const Type kState(DType::I64, {2}), kOffset(DType::I64, {});

/// `operands` and the random state, with and without an offset.
void with_state(const Draft& draft, const std::vector<Type>& operands, Attrs attrs,
                const std::vector<Type>& declared, bool may_offset = true) {
  attrs.set("stream", Attr(int64_t{7}));
  for (bool offset : {false, true}) {
    if (offset && !may_offset) continue;
    std::vector<Type> all = operands;
    all.push_back(kState);
    if (offset) all.push_back(kOffset);
    draft.add(all, attrs, declared);
  }
}

}  // namespace

void randoms(const Draft& draft) {
  for (const Shape& shape : draft.shapes()) with_state(draft, {}, {}, {Type(draft.dtype, shape)});
}

void bernoullis(const Draft& draft) {
  if (draft.dtype != DType::Bool) return;
  for (const Shape& shape : draft.shapes())
    for (double p : {0.3, 0.0, 1.0, 0x1p-20})
      with_state(draft, {}, {{"p", Attr(p)}}, {Type(draft.dtype, shape)});
}

void dropouts(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (double rate : {0.1, 0.5, 0.0, 1.0})
      with_state(draft, {Type(draft.dtype, shape)}, {{"rate", Attr(rate)}}, {});
}

void categoricals(const Draft& draft) {
  for (const Shape& shape : draft.shapes())
    for (int64_t axis = 0; axis < shape.rank(); ++axis)
      if (shape[static_cast<int>(axis)] > 0)
        with_state(draft, {Type(draft.dtype, shape)}, {{"axis", Attr(axis)}}, {}, axis != 0);
}

void generators_of_random(const Draft& draft) {
  if (draft.dtype == DType::I64 && draft.small()) draft.add({kState}, {});
}

}  // namespace mezzo::test
