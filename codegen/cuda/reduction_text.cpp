// SPDX-License-Identifier: Apache-2.0
#include <mezzo/codegen/cuda/reduction_text.h>

#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <limits>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// Bytes are folded as words: machine code for bytes packs and unpacks them at every step.
std::string folded_type(DType dtype) {
  return std::string(compute_type_name(dtype == DType::U8 ? DType::I32 : dtype));
}

}  // namespace

Reduction reduction_of(const ir::Op& op, bool some) {
  const DType dtype = op.operand(0).dtype();
  const std::string type = folded_type(dtype);
  switch (op.kind()) {
    case OpKind::Sum:
      if (!ir::is_float(dtype)) return {&op, "Add", "i64", "0"};
      return {&op, "Add", type, literal(dtype, some ? -0.0 : 0.0)};
    case OpKind::Prod:
      if (!ir::is_float(dtype)) return {&op, "Multiply", "i64", "1"};
      return {&op, "Multiply", "double", literal(DType::F64, 1)};
    case OpKind::Argmax:
      return {&op, "First", "Best<" + type + ">", "{0, -1}"};
    default:
      break;
  }
  Reduction out = extremum_of(op.kind() == OpKind::Max, dtype);
  out.op = &op;
  return out;
}

Reduction extremum_of(bool largest, DType dtype) {
  Reduction out{nullptr, largest ? "Maximum" : "Minimum", folded_type(dtype), ""};
  if (ir::is_float(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    out.initial = literal(dtype, largest ? -infinity : infinity);
  } else {
    const bool bytes = dtype == DType::U8;
    const int64_t top = bytes                 ? 255
                        : dtype == DType::I64 ? std::numeric_limits<int64_t>::max()
                                              : std::numeric_limits<int32_t>::max();
    const int64_t bottom = bytes ? 0 : -top - 1;
    out.initial = integer_literal(bytes ? DType::I32 : dtype, largest ? bottom : top);
  }
  return out;
}

int64_t accumulator_bytes(const std::string& type) {
  return type == "double" || type == "i64" ? 8 : 4;
}

void declare_accumulators(SourceWriter& out, const std::string& type, const std::string& initial,
                          const std::string& array, int64_t lanes) {
  out.line(fmt::format("{} {}[{}];", type, array, lanes));
  out.line("#pragma unroll");
  out.line(fmt::format("for (u32 j = 0; j < {}; ++j) {}[j] = {};", lanes, array, initial));
}

void accumulate(RegionText& region, const Reduction& reduction, const std::string& array,
                const TextCoordinates& at) {
  const ir::Op& op = *reduction.op;
  std::string value = region.eval(op.operand(0), at).text;
  if (op.kind() == OpKind::Argmax)
    value = fmt::format("{}{{{}, (i64){}}}", reduction.type, value,
                        region.index_text(at[static_cast<size_t>(op.int_attr("axis"))]));
  else if (reduction.type != compute_type_name(op.operand(0).dtype()))
    value = fmt::format("({}){}", reduction.type, value);
  region.writer(Level::Lane)
      .line(fmt::format("{0}[{1}] = {2}::of({0}[{1}], {3});", array, region.lanes() > 1 ? "j" : "0",
                        reduction.fold, value));
}

}  // namespace mezzo::codegen
