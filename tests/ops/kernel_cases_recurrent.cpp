// SPDX-License-Identifier: Apache-2.0
// Kernel cases of recurrent sequences and their gradients: one step and many, more than one concat
// joins, empty axes, results straight from the accumulators.
#include <mezzo/ir/recurrent.h>

#include <ops/kernel_draft.h>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;

namespace {

struct Sizes {
  int64_t steps, batch, in, units;
};

Type operand_type(const std::string& name, const Sizes& s, const ir::RecurrentCell& cell,
                  DType narrow) {
  const DType wide = ir::default_acc(narrow);
  const int64_t columns = cell.gates * s.units;
  if (name == "x") return {narrow, {s.steps, s.batch, s.in}};
  if (name == "h0" || name == "c0") return {wide, {s.batch, s.units}};
  if (name == "w") return {narrow, {s.in, columns}};
  if (name == "u") return {narrow, {s.units, columns}};
  if (name == "b" || name == "v") return {wide, {columns}};
  const int64_t parts = name == "a" || name == "da" ? cell.saved : 1;
  return {name == "y" ? narrow : wide, {s.steps, s.batch, parts * s.units}};
}

}  // namespace

void recurrents(const Draft& draft) {
  if (!ir::is_float(draft.dtype)) return;
  const ir::RecurrentCell cell = ir::recurrent_cell(draft.kind);
  std::vector<Sizes> sizes = {{2, kRows, 1, 1}};
  if (draft.small())
    sizes = {{1, 1, 1, 1}, {3, 2, 4, 5}, {7, 1, 3, 2}, {18, 2, 2, 3},
             {0, 2, 3, 4}, {2, 0, 3, 4}, {3, 2, 0, 2}, {2, 3, 4, 0}};
  for (const Sizes& s : sizes) {
    std::vector<Type> operands;
    for (const std::string& name : draft.info().operands)
      operands.push_back(operand_type(name, s, cell, draft.dtype));
    // Weights of a size at which sequences neither explode nor freeze.
    const std::string domains(operands.size(), 'u');
    for (const char* activation : {"tanh", "relu"}) {
      Attrs attrs;
      if (draft.info().attribute("activation"))
        attrs.set("activation", Attr(std::string(activation)));
      else if (activation[0] == 'r')
        break;
      draft.add(operands, attrs, {}, domains);
    }
    if (!ir::is_16bit(draft.dtype)) continue;
    const std::vector<Type> straight(draft.info().results.size(), Type(DType::F32, {}));
    draft.add(operands, {}, straight, domains);
  }
}

}  // namespace mezzo::test
