// SPDX-License-Identifier: Apache-2.0
// Flag words of region values as CUDA text: what a kernel keeps of the values that they watch, and
// the bits that follow from it.
#include <mezzo/codegen/cuda/region_text.h>
#include <mezzo/ir/flags.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

using ir::DType;
using ir::FlagBit;
using ir::OpKind;

namespace {

/// Values of more flagged ops keep bits: waiting for their turn to be folded they fill the
/// registers. Folded, the 20 ops of an AdamW update of bf16 parameters spilled 156 bytes of
/// registers on sm_80 (NVRTC 13.0), those of Adam 44; with bits none spills.
constexpr int64_t kMostFolded = 8;

/// What is kept of the values that a flag word watches, and which bits of the word follow from it.
/// Numbers in the order of their magnitude: one comparison an element instead of one a bit.
struct WatchText {
  const char *name, *start, *fold;
  const char* place;  // what is folded, of {}
  const char* bits;   // of {}, the result of all folds
};

WatchText watch_text(RegionText::Watch watch) {
  switch (watch) {
    case RegionText::Watch::Bits:
      break;
    case RegionText::Watch::F32:
      return {"top", "0", "max", "magnitude({})", "{} >= kInfinity ? 1u : 0u"};
    case RegionText::Watch::F64:
      return {"top64_", "0", "max", "magnitude({})", "{} >= kInfinity64 ? 1u : 0u"};
    case RegionText::Watch::ToF16:
      return {"least_f16_", "~0u", "min", "excess({}, kBeyondF16)",
              "overflow_flags({}, kBeyondF16)"};
    case RegionText::Watch::ToBF16:
      return {"least_bf16_", "~0u", "min", "excess({}, kBeyondBF16)",
              "overflow_flags({}, kBeyondBF16)"};
  }
  return {"flags", "0", "", "", ""};
}

}  // namespace

bool RegionText::few_flags(const ir::Op& kernel) {
  int64_t flagged = 0;
  for (const ir::Op& op : *kernel.body()) flagged += op.attrs().has("word") ? 1 : 0;
  return flagged <= kMostFolded;
}

std::string RegionText::watched_by(const ir::Op& op, Watch watch) {
  const int64_t word = op.attrs().get_int("word");
  const auto slot =
      static_cast<size_t>(std::find(words_.begin(), words_.end(), word) - words_.begin());
  watches_.insert({slot, Watch::Bits});
  watches_.insert({slot, watch});
  return watch_text(watch).name + std::to_string(slot);
}

void RegionText::watch(const ir::Op& op, Watch watch, const Text& value) {
  const std::string variable = watched_by(op, watch);
  const WatchText text = watch_text(watch);
  writer(value.level)
      .line(fmt::format("{0} = {1}({0}, {2});", variable, text.fold,
                        fmt::format(fmt::runtime(text.place), value.text)));
}

void RegionText::add_flag(const ir::Op& op, uint32_t bit, Level level,
                          const std::string& condition) {
  writer(level).line(
      fmt::format("{} |= {} ? {}u : 0u;", watched_by(op, Watch::Bits), condition, bit));
}

void RegionText::flag(const ir::Op& op, const std::vector<Text>& x, const Text& unrounded,
                      const Text& rounded) {
  const DType dtype = op.result().dtype();
  if (!op.attrs().has("word") || !ir::is_float(dtype)) return;
  const bool cast = op.kind() == OpKind::Cast && x.size() == 1;
  const DType from = cast ? op.operand(0).dtype() : dtype;
  if (folds_flags_ && !ir::is_16bit(dtype)) {
    watch(op, dtype == DType::F64 ? Watch::F64 : Watch::F32, rounded);
  } else if (folds_flags_ && ir::is_float(from) && from != DType::F64) {
    watch(op, dtype == DType::F16 ? Watch::ToF16 : Watch::ToBF16,
          {(cast ? x[0] : unrounded).text, rounded.level});
  } else {  // many, or rounded by way of another type
    add_flag(op, static_cast<uint32_t>(FlagBit::NonFinite), rounded.level,
             fmt::format("nonfinite({})", rounded.text));
    if (ir::is_16bit(dtype)) {
      std::string condition = fmt::format("is_infinite({})", rounded.text);
      if (ir::is_float(from))  // an integer is finite
        condition += fmt::format(" & !nonfinite({})", cast ? x[0].text : unrounded.text);
      add_flag(op, static_cast<uint32_t>(FlagBit::Overflow), rounded.level, condition);
    }
  }
  std::string there;
  for (const ir::Pole& pole : op.info().poles) {
    if (!there.empty()) there += " | ";
    there += fmt::format("{} == {}", x[static_cast<size_t>(pole.operand)].text, pole.value);
    if (pole.other >= 0)
      there += fmt::format(" & {} {} 0", x[static_cast<size_t>(pole.other)].text,
                           pole.when == ir::PoleWhen::Negative ? "<" : "!=");
  }
  if (there.empty()) return;
  add_flag(op, static_cast<uint32_t>(FlagBit::Pole), rounded.level, "(" + there + ")");
}

void RegionText::declare_flags(SourceWriter& out) const {
  for (const auto& [slot, watch] : watches_) {
    const WatchText text = watch_text(watch);
    out.line(fmt::format("u32 {}{} = {};", text.name, slot, text.start));
  }
}

void RegionText::store_flags(SourceWriter& out) const {
  for (const auto& [slot, watch] : watches_) {
    if (watch == Watch::Bits) continue;
    const WatchText text = watch_text(watch);
    out.line(fmt::format("flags{} |= {};", slot,
                         fmt::format(fmt::runtime(text.bits), text.name + std::to_string(slot))));
  }
  for (const auto& [slot, watch] : watches_)
    if (watch == Watch::Bits) out.line(fmt::format("or_flags(w{0}, flags{0});", slot));
}

}  // namespace mezzo::codegen
