// SPDX-License-Identifier: Apache-2.0
// Bodies of device functions, written by the text emitter.
#include <mezzo/codegen/cuda/device_functions.h>

#include <mezzo/codegen/cuda/text_emitter.h>
#include <mezzo/codegen/scalar_functions.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/philox.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// Longer bodies become functions.
constexpr int kInlineLines = 2;

using Strings = std::vector<std::string>;

/// Calls a device function with as many operands as it takes; "" when it takes another number.
template <class Function>
std::string apply(Function function, const Strings& x) {
  using S = std::string;
  if constexpr (std::is_invocable_v<Function, S>)
    if (x.size() == 1) return function(x[0]);
  if constexpr (std::is_invocable_v<Function, S, S>)
    if (x.size() == 2) return function(x[0], x[1]);
  if constexpr (std::is_invocable_v<Function, S, S, S>)
    if (x.size() == 3) return function(x[0], x[1], x[2]);
  return "";
}

std::string emit(OpKind kind, TextEmitter& e, const Strings& x) {
  switch (kind) {
#define ELEMENTWISE(Kind, name, ...)                                                              \
  case OpKind::Kind:                                                                              \
    return apply([&](auto... v) -> decltype(dev_##name(e, v...)) { return dev_##name(e, v...); }, \
                 x);
#include <mezzo/ir/ops.def>
    default:
      return "";
  }
}

}  // namespace

std::string DeviceFunctions::call(OpKind kind, int width, const Strings& operands,
                                  SourceWriter& writer, const std::string& prefix) {
  const ir::OpInfo& info = ir::op_info(kind);
  const Strings names{"x", "y", "z"};
  const Strings parameters(names.begin(),
                           names.begin() + static_cast<std::ptrdiff_t>(operands.size()));
  std::string body;
  TextEmitter trial(body, width);
  const std::string result = emit(kind, trial, parameters);
  MEZZO_CHECK(!result.empty(), fmt::format("'{}' has no device function of {} operands", info.name,
                                           operands.size()));
  if (std::count(body.begin(), body.end(), '\n') <= kInlineLines) {
    TextEmitter e(writer.text(), width, prefix, writer.indent());
    return emit(kind, e, operands);
  }
  const std::string name = fmt::format("{}_f{}", info.name, width);
  if (defined_.insert(name).second) {
    std::string list;
    for (const std::string& parameter : parameters)
      list += fmt::format("{}const {} {}", list.empty() ? "" : ", ", trial.float_type(), parameter);
    const bool predicate = info.types == ir::TypeRule::PredicateFloat ||
                           info.types == ir::TypeRule::PredicateNumber ||
                           info.types == ir::TypeRule::PredicateAny;
    text_ += fmt::format("DEVICE {} {}({}) {{\n{}  return {};\n}}\n\n",
                         predicate ? "bool" : trial.float_type(), name, list, body, result);
  }
  return fmt::format("{}({})", name, fmt::join(operands, ", "));
}

namespace {

/// Bits of a uniform number of a narrow type.
int uniform_bits(DType dtype) { return dtype == DType::F16 ? 11 : dtype == DType::BF16 ? 8 : 24; }

uint64_t words_below(const ir::Op& op) { return ir::probability_words(op.float_attr("p")); }

/// The rounding of normal numbers is left to the caller, so only uniform ones depend on the type.
std::string random_name(const ir::Op& op) {
  const DType dtype = op.result().dtype();
  const bool wide = dtype == DType::F64;
  if (op.kind() == OpKind::Bernoulli) return fmt::format("bernoulli_{}", words_below(op));
  if (op.kind() == OpKind::RandomNormal) return wide ? "random_normal_f64" : "random_normal_f32";
  return fmt::format("random_uniform_{}", wide ? 53 : uniform_bits(dtype));
}

/// The four words of `counter`.
std::array<std::string, 4> random_words(TextEmitter& e) {
  auto word = [&](const std::string& value, int shift) {
    return fmt::format("{}({} >> {})", e.width() == 64 ? "(u64)(u32)" : "(u32)", value, shift);
  };
  return dev_philox(e,
                    {word("counter", 0), word("counter", 32), word("stream", 0), word("step", 0)},
                    {word("seed", 0), word("seed", 32)});
}

}  // namespace

std::string DeviceFunctions::call_random(const ir::Op& op, const std::string& operands) {
  const DType dtype = op.result().dtype();
  const bool wide = dtype == DType::F64, normal = op.kind() == OpKind::RandomNormal;
  const std::string name = random_name(op);
  if (!defined_.insert(name).second) return fmt::format("{}({})", name, operands);
  std::string body;
  TextEmitter e(body, wide ? 64 : 32);
  const std::array<std::string, 4> words = random_words(e);
  std::string result;
  auto pick = [](const char* condition, const std::string& yes, const std::string& no) {
    return fmt::format("(({}) ? {} : {})", condition, yes, no);
  };
  const char* odd = "element & 1";
  if (wide && normal) {
    const auto pair = dev_normal(e, words);
    result = pick(odd, pair[1], pair[0]);
  } else if (wide) {
    result = dev_uniform53(e, pick(odd, words[2], words[0]), pick(odd, words[3], words[1]));
  } else {
    const std::string first = pick("element & 2", words[2], words[0]);
    const std::string second = pick("element & 2", words[3], words[1]);
    if (normal) {
      const auto pair = dev_normal(e, first, second);
      result = pick(odd, pair[1], pair[0]);
    } else if (op.kind() == OpKind::Bernoulli) {
      result = dev_word_below(e, pick(odd, second, first), words_below(op));
    } else {
      result = dev_uniform(e, pick(odd, second, first), uniform_bits(dtype));
    }
  }
  text_ += fmt::format(
      "DEVICE {0} {1}(const u64 element, const u64 seed, const u64 step, const u64 stream) {{\n"
      "  const u64 counter = element >> {2};\n{3}  return {4};\n}}\n\n",
      op.kind() == OpKind::Bernoulli ? "bool" : e.float_type(), name, wide ? 1 : 2, body, result);
  return fmt::format("{}({})", name, operands);
}

std::string DeviceFunctions::call_random_group(const ir::Op& op, const std::string& operands) {
  const DType dtype = op.result().dtype();
  const bool wide = dtype == DType::F64;
  const std::string name = random_name(op) + "_group";
  if (!defined_.insert(name).second) return fmt::format("{}({})", name, operands);
  std::string body;
  TextEmitter e(body, wide ? 64 : 32);
  const std::array<std::string, 4> words = random_words(e);
  std::vector<std::string> results;
  if (op.kind() == OpKind::RandomNormal) {
    const auto first = wide ? dev_normal(e, words) : dev_normal(e, words[0], words[1]);
    results.assign(first.begin(), first.end());
    if (!wide)
      for (const std::string& second : dev_normal(e, words[2], words[3])) results.push_back(second);
  } else if (wide) {
    results = {dev_uniform53(e, words[0], words[1]), dev_uniform53(e, words[2], words[3])};
  } else if (op.kind() == OpKind::Bernoulli) {
    for (const std::string& word : words)
      results.push_back(dev_word_below(e, word, words_below(op)));
  } else {
    for (const std::string& word : words)
      results.push_back(dev_uniform(e, word, uniform_bits(dtype)));
  }
  for (size_t i = 0; i < results.size(); ++i)
    body += fmt::format("  x[at + {}] = {};\n", i, results[i]);
  text_ += fmt::format(
      "template <int V>\n"
      "DEVICE void {0}({1} (&x)[V], const u32 at, const u64 element, const u64 seed,\n"
      "    const u64 step, const u64 stream) {{\n"
      "  const u64 counter = element >> {2};\n{3}}}\n\n",
      name, op.kind() == OpKind::Bernoulli ? "bool" : e.float_type(), wide ? 1 : 2, body);
  return fmt::format("{}({})", name, operands);
}

}  // namespace mezzo::codegen
