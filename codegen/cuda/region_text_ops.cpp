// SPDX-License-Identifier: Apache-2.0
// Arithmetic of region values as CUDA text: conversions, rounding, integers, random numbers, and
// the frame of the finished kernel.
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/codegen/cuda/text_emitter.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/printer.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

std::string_view compute_type_name(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "double";
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return "float";
    case DType::I64:
      return "i64";
    case DType::I32:
      return "i32";
    case DType::U8:
      return "u8";
    case DType::Bool:
      return "bool";
  }
  throw InternalError("an element type without a CUDA type");
}

std::string_view storage_type_name(DType dtype) {
  if (dtype == DType::F16) return "f16";
  if (dtype == DType::BF16) return "bf16";
  if (dtype == DType::Bool) return "bool8";
  return compute_type_name(dtype);
}

std::string literal(DType dtype, double value) {
  std::string unused;
  return TextEmitter(unused, dtype == DType::F64 ? 64 : 32).constant(value);
}

std::string integer_literal(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::Bool:
      return value != 0 ? "true" : "false";
    case DType::U8:
      return fmt::format("(u8){}", static_cast<uint8_t>(value));
    case DType::I32:
      return fmt::format("(i32)0x{:X}u", static_cast<uint32_t>(value));
    default:
      return fmt::format("(i64)0x{:X}ull", static_cast<uint64_t>(value));
  }
}

namespace {

bool is_unsigned(DType dtype) { return dtype == DType::U8 || dtype == DType::Bool; }
int width_of(DType dtype) { return dtype == DType::F64 ? 64 : 32; }

/// A result may stand in the place of an operand of its size; any other operand is read-only.
bool may_be_overwritten(const ir::Op& kernel, ir::Value operand) {
  if (!ir::may_write_in_place(ir::family_of(kernel))) return false;
  for (ir::Value result : kernel.results())
    if (result.type().bytes() == operand.type().bytes()) return true;
  return false;
}

/// A name, an element or a literal: not worth a name of its own.
bool is_atom(const std::string& text) { return text.find_first_of(" (") == std::string::npos; }

}  // namespace

RegionText::Text RegionText::round(DType dtype, const Text& value) {
  if (!ir::is_16bit(dtype)) return value;
  const std::string outer = std::exchange(current_, current_ + "_r");
  const Text rounded = define(value.level, "float",
                              fmt::format("round_{}({})", storage_type_name(dtype), value.text));
  current_ = outer;
  unrounded_[rounded.text] = {dtype, value.text};
  return rounded;
}

RegionText::Text RegionText::convert(DType from, DType to, const Text& value) {
  const std::string& x = value.text;
  const std::string_view type = compute_type_name(to);
  std::string expression;
  if (to == DType::Bool)
    expression = from == DType::Bool ? x : fmt::format("{} != 0", x);
  else if (ir::is_float(from) && !ir::is_float(to))
    expression = fmt::format("to_{}({})", type, x);
  else if (ir::is_16bit(to) && from == DType::F64)
    expression = fmt::format("round_{}({})", storage_type_name(to), x);
  else if (ir::is_16bit(to) && ir::is_float(from))
    expression = x;
  else if (ir::is_16bit(to))  // f64 holds every i32, so that it is rounded once; i64 has its own
    expression = fmt::format("round_{}({}{})", storage_type_name(to),
                             from == DType::I64 ? "" : "(double)", x);
  else
    expression = compute_type_name(from) == type ? x : fmt::format("({}){}", type, x);
  if (is_atom(expression)) return {expression, value.level};
  return define(value.level, type, expression);
}

RegionText::Text RegionText::compute(const ir::Op& op, const std::vector<Text>& x, Level level) {
  const DType from = op.operand(op.kind() == OpKind::Where ? 1 : 0).dtype();
  const DType to = op.result().dtype();
  const std::string_view type = compute_type_name(to);
  switch (op.kind()) {
    case OpKind::Cast:
      // Rounding to 16 bits is left to `round`, so that a flag can compare before and after.
      return convert(from, to, x[0]);
    case OpKind::StopGradient:
      return x[0];
    case OpKind::Where:
      return define(level, type, fmt::format("{} ? {} : {}", x[0].text, x[1].text, x[2].text));
    case OpKind::LogicalAnd:
      return define(level, type, fmt::format("{} & {}", x[0].text, x[1].text));
    case OpKind::LogicalOr:
      return define(level, type, fmt::format("{} | {}", x[0].text, x[1].text));
    case OpKind::LogicalXor:
      return define(level, type, fmt::format("{} != {}", x[0].text, x[1].text));
    case OpKind::LogicalNot:
      return define(level, type, "!" + x[0].text);
    case OpKind::AddN: {
      Text total = x[0];
      for (size_t i = 1; i < x.size(); ++i)
        total = define(level, type, fmt::format("{} + {}", total.text, x[i].text));
      return total;
    }
    default:
      break;
  }
  if (!ir::is_float(from)) return compute_integer(op, x, level);
  std::vector<std::string> operands;
  for (const Text& text : x) operands.push_back(text.text);
  const std::string result = functions_.call(op.kind(), width_of(from), operands, writer(level),
                                             unique("t" + current_.substr(1)) + "_");
  return is_atom(result) ? Text{result, level} : define(level, type, result);
}

RegionText::Text RegionText::compute_integer(const ir::Op& op, const std::vector<Text>& x,
                                             Level level) {
  const DType dtype = op.operand(0).dtype();
  const std::string& a = x[0].text;
  const std::string b = x.size() > 1 ? x[1].text : integer_literal(dtype, 0);
  const std::string zero = integer_literal(dtype, 0);
  auto as = [&](const std::string& expression) {
    return define(level, compute_type_name(op.result().dtype()), expression);
  };
  switch (op.kind()) {
    case OpKind::Add:
      return as(fmt::format("wrap_add({}, {})", a, b));
    case OpKind::Sub:
      return as(fmt::format("wrap_sub({}, {})", a, b));
    case OpKind::Mul:
      return as(fmt::format("wrap_mul({}, {})", a, b));
    case OpKind::Neg:
      return as(fmt::format("wrap_sub({}, {})", zero, a));
    case OpKind::Square:
      return as(fmt::format("wrap_mul({}, {})", a, a));
    case OpKind::Abs:
      if (is_unsigned(dtype)) return x[0];
      return as(fmt::format("{} < 0 ? wrap_sub({}, {}) : {}", a, zero, a, a));
    case OpKind::Sign:
      if (is_unsigned(dtype)) return as(fmt::format("{} > 0", a));
      return as(fmt::format("({} > 0) - ({} < 0)", a, a));
    case OpKind::FloorDiv:
    case OpKind::Remainder:
      raise_range(level, fmt::format("{} == 0", b));
      return as(
          fmt::format("floor_{}({}, {})", op.kind() == OpKind::FloorDiv ? "div" : "mod", a, b));
    case OpKind::Relu6:
      return as(fmt::format("{0} > 6 ? 6 : {0} > 0 ? {0} : 0", a));
    case OpKind::Clamp: {
      const std::string& high = x[2].text;
      const Text raised = as(fmt::format("{} > {} ? {} : {}", a, b, a, b));
      return as(fmt::format("{} < {} ? {} : {}", raised.text, high, raised.text, high));
    }
    case OpKind::Relu:
    case OpKind::Maximum:
      return as(fmt::format("{} > {} ? {} : {}", a, b, a, b));
    case OpKind::Minimum:
      return as(fmt::format("{} < {} ? {} : {}", a, b, a, b));
    case OpKind::BitwiseAnd:
      return as(fmt::format("{} & {}", a, b));
    case OpKind::BitwiseOr:
      return as(fmt::format("{} | {}", a, b));
    case OpKind::BitwiseXor:
      return as(fmt::format("{} ^ {}", a, b));
    case OpKind::BitwiseNot:
      return as(fmt::format("~{}", a));
    case OpKind::Eq:
      return as(fmt::format("{} == {}", a, b));
    case OpKind::Ne:
      return as(fmt::format("{} != {}", a, b));
    case OpKind::Lt:
      return as(fmt::format("{} < {}", a, b));
    case OpKind::Gt:
      return as(fmt::format("{} > {}", a, b));
    case OpKind::Le:
      return as(fmt::format("{} <= {}", a, b));
    case OpKind::Ge:
      return as(fmt::format("{} >= {}", a, b));
    default:
      throw InternalError(std::string("'") + op.info().name + "' has no integer code");
  }
}

RegionText::Text RegionText::check_index(const ir::Op& op, const Text& value) {
  const std::string& x = value.text;
  std::string bad = fmt::format("((i64){} < 0 | (i64){} >= {}ll)", x, x, op.int_attr("size"));
  if (const ir::Attr* ignore = op.attrs().find("ignore_index"))
    bad += fmt::format(" & (i64){} != {}", x, integer_literal(DType::I64, ignore->as<int64_t>()));
  raise_range(value.level, bad);
  return value;
}

void RegionText::raise_range(Level level, const std::string& bad) {
  writer(level).line(fmt::format("range |= {};", bad));
  range_here_ = range_used_ = true;
}

// --- random numbers

RegionText::Text RegionText::random(const ir::Op& op, const TextCoordinates& at) {
  const ir::Type& type = op.result().type();
  TextIndex index = linear(type.shape, at);
  // Element = global sample index * row size + offset within the sample.
  const bool sampled = op.num_operands() > 1;
  const int64_t row = type.rank() == 0 ? 1 : type.elements() / std::max<int64_t>(type.shape[0], 1);
  const int group = DeviceFunctions::random_group(type.dtype);
  const bool grouped = index.stride == 1 && lanes_ % group == 0 && index.divisor() % group == 0 &&
                       (!sampled || row % group == 0);
  const bool tail = !tail_.empty() && index.stride != 0;
  if (grouped)
    index.stride = 0;
  else if (tail)
    index = {.base = lane_element_, .level = Level::Lane};
  Level level = index.stride != 0 ? Level::Lane : index.level;
  std::string element = "(u64)" + index_text(index);
  if (sampled) {
    const Text sample = eval(op.operand(1), origin(op.operand(1).shape()));
    level = std::max(level, sample.level);
    element += fmt::format(" + (u64){} * {}ull", sample.text, row);
  }
  const Text seed = eval(op.operand(0), {TextIndex{}});
  const Text step = eval(op.operand(0), {TextIndex{.base = {}, .offset = 1}});
  level = std::max({level, seed.level, step.level});
  const std::string state =
      fmt::format("(u64){}, (u64){}, (u64)s{}", seed.text, step.text, slots_.at(&op));
  Text value;
  if (grouped) {
    value = random_groups(op, level, element, state, tail);
  } else {
    const std::string operands = element + ", " + state;
    value = define(level, compute_type_name(type.dtype), functions_.call_random(op, operands));
  }
  return op.kind() == OpKind::RandomNormal ? round(type.dtype, value) : value;
}

/// All numbers of a counter at once, for every group of a vector.
RegionText::Text RegionText::random_groups(const ir::Op& op, Level level,
                                           const std::string& element, const std::string& state,
                                           bool tail) {
  const DType dtype = op.result().dtype();
  const int group = DeviceFunctions::random_group(dtype);
  const std::string array = unique("u" + current_.substr(1));
  SourceWriter& out = writer(level);
  out.line(fmt::format("{} {}[{}];", compute_type_name(dtype), array, lanes_));
  out.line("#pragma unroll");
  out.line(fmt::format(
      "for (u32 k = 0; k < {}; k += {}) {};", lanes_, group,
      functions_.call_random_group(op, fmt::format("{}, k, {} + k, {}", array, element, state))));
  if (tail) {
    use(tail_);
    out.line(fmt::format("repeat_last({}, {});", array, tail_));
  }
  return {array + "[j]", Level::Lane};
}

// --- the kernel

std::string entry_head(const std::string& name, int64_t threads, int64_t threads_at_once) {
  return fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) {}", threads,
                     std::max<int64_t>(1, threads_at_once / threads), name);
}

bool RegionText::may_write_in_place() const {
  const std::vector<ir::Value> operands = kernel_.operands();
  return std::any_of(operands.begin(), operands.end(),
                     [&](ir::Value operand) { return may_be_overwritten(kernel_, operand); });
}

std::string RegionText::take_body() {
  MEZZO_CHECK(writers_.size() == 1, "a kernel's levels are left before it is finished");
  SourceWriter body(2);
  declare_flags(body);
  if (range_here_) body.line("u32 range = 0;");
  body.append(leave());
  store_flags(body);
  if (range_here_) body.line("or_flags(wrange, range);");
  watches_.clear();
  range_here_ = false;
  identities_.clear();
  presets_.clear();
  kept_ = {};
  return body.text();
}

std::vector<RegionText::Parameter> RegionText::parameters() const {
  std::vector<Parameter> parameters;
  for (int i = 0; i < kernel_.num_operands(); ++i) {
    const ir::Value operand = kernel_.operand(i);
    parameters.push_back({fmt::format("const {}*{}", storage_type_name(operand.dtype()),
                                      may_be_overwritten(kernel_, operand) ? "" : " __restrict__"),
                          named_after("p_", kernel_.body()->parameter(i))});
  }
  for (int i = 0; i < kernel_.num_results(); ++i)
    parameters.push_back({fmt::format("{}*", storage_type_name(kernel_.result(i).dtype())),
                          "r" + std::to_string(i)});
  for (size_t i = 0; i < words_.size(); ++i)
    parameters.push_back({"u32*", "w" + std::to_string(i)});
  if (range_used_) parameters.push_back({"u32*", "wrange"});
  for (const ir::Op* op : ir::kernel_slots(kernel_))
    parameters.push_back(
        {std::string(op->kind() == OpKind::Constant ? compute_type_name(op->result().dtype())
                                                    : "i64"),
         "s" + std::to_string(slots_.at(op))});
  return parameters;
}

std::string RegionText::finish(std::span<const Entry> entries, bool workspace) {
  std::vector<Parameter> parameters = this->parameters();
  if (workspace) parameters.push_back({"u8*", "workspace"});
  SourceWriter out;
  out.append(functions_.text());
  // The kernel as the IR has it.
  const std::string text = ir::print(kernel_);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out.line("// " + text.substr(at, end - at));
    at = end + 1;
  }
  for (const Entry& entry : entries) {
    if (&entry != entries.data()) out.line("");
    out.line(entry_head(entry.name, entry.threads, entry.threads_at_once) + "(");
    for (size_t i = 0; i < parameters.size(); ++i)
      out.line(fmt::format("    {} {}{}", parameters[i].type, parameters[i].name,
                           i + 1 < parameters.size() ? "," : ") {"));
    out.append(entry.body);
    out.line("}");
  }
  return out.text();
}

std::string RegionText::finish(const std::string& entry, int64_t threads, bool workspace,
                               int64_t threads_at_once) {
  const Entry only{entry, threads, take_body(), threads_at_once};
  return finish(std::span(&only, 1), workspace);
}

}  // namespace mezzo::codegen
