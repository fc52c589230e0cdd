// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/numerics_text.h>

#include <mezzo/ir/flags.h>
#include <mezzo/ir/interpreter_tensor.h>
#include <mezzo/ir/verdict.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace mezzo::runtime {

namespace {

std::string flag_names(uint32_t word) {
  std::string out;
  const auto add = [&](ir::FlagBit bit, const char* name) {
    if (ir::has_flag(word, bit)) out += (out.empty() ? "" : ", ") + std::string(name);
  };
  add(ir::FlagBit::NonFinite, "non-finite");
  add(ir::FlagBit::Overflow, "overflow");
  add(ir::FlagBit::Pole, "pole");
  return out;
}

std::string role_name(ir::Role role) {
  switch (role) {
    case ir::Role::Forward:
      return "forward";
    case ir::Role::Backward:
      return "backward";
    case ir::Role::Update:
      return "update";
    case ir::Role::Scale:
      break;
  }
  return "scale";
}

}  // namespace

std::string result_line(const ir::Function& function, int index, const HostArray& array) {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  int64_t finite = 0, nans = 0, infinities = 0, zeros = 0;
  // In blocks that are converted at once: an array may be most of the memory there is.
  constexpr int64_t kBlock = 4096;
  const int64_t elements = array.type.elements(), size = ir::byte_size(array.type.dtype);
  for (int64_t first = 0; first < elements; first += kBlock) {
    const ir::Type type(array.type.dtype, {std::min(kBlock, elements - first)});
    const ir::InterpreterTensor block = ir::from_bytes(
        type, std::span(array.bytes())
                  .subspan(static_cast<size_t>(first * size), static_cast<size_t>(type.bytes())));
    for (int64_t i = 0; i < block.elements(); ++i) {
      const double value = block.number(i);
      nans += std::isnan(value);
      infinities += std::isinf(value);
      zeros += value == 0;
      if (!std::isfinite(value)) continue;
      ++finite;
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
    }
  }
  std::string range = "min - max - mean -";
  if (finite > 0)
    range = fmt::format("min {:.6g} max {:.6g} mean {:.6g}", low, high,
                        sum / static_cast<double>(finite));
  std::string name(function.results()[static_cast<size_t>(index)].name());
  if (ir::Value updated = function.updated_parameter(index))
    name = std::string(updated.name()) + "'";
  return fmt::format("{}{}: {} {} nan {} inf {} zero {}", index, name.empty() ? "" : " %" + name,
                     to_string(array.type), range, nans, infinities, zeros);
}

std::vector<std::string> numerics_lines(const ir::Function& function,
                                        std::span<const uint32_t> words,
                                        std::span<const HostArray> results) {
  std::vector<std::string> lines;
  for (const ir::VerdictEntry& entry : ir::VerdictTable::from(function).entries) {
    const auto place = static_cast<size_t>(entry.word);
    if (place >= words.size() || words[place] == 0) continue;
    lines.push_back(fmt::format("flag word {}: {} at {}, {}: {}", entry.word, entry.name,
                                ir::to_string(entry.location), role_name(entry.role),
                                flag_names(words[place])));
  }
  if (lines.empty()) lines.push_back("no flag word is set");
  for (size_t i = 0; i < results.size(); ++i)
    lines.push_back(result_line(function, static_cast<int>(i), results[i]));
  return lines;
}

}  // namespace mezzo::runtime
