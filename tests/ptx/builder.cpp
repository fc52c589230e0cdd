// SPDX-License-Identifier: Apache-2.0
// Registers and constants of a kernel. Offset 0 is a predicate that is always true.
#include <ptx/builder.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mezzo::ptx::detail {

KernelBuilder::KernelBuilder(KernelData& data, const SourceText& source)
    : data_(data), source_(source) {
  add_predicate();  // grown memory is all ones
}

uint32_t KernelBuilder::grow(uint32_t bytes, uint32_t alignment) {
  const auto at =
      static_cast<uint32_t>((data_.registers.size() + alignment - 1) / alignment * alignment);
  data_.registers.resize(at + bytes, std::byte{0xFF});
  return at;
}

uint32_t KernelBuilder::add_register(uint32_t bytes) { return grow(bytes * kLanes, 64); }

uint32_t KernelBuilder::add_predicate() {
  if (!predicates_left_) {
    next_predicate_ = grow(64, 64);
    predicates_left_ = 64 / sizeof(Mask);
  }
  --predicates_left_;
  const uint32_t at = next_predicate_;
  next_predicate_ += sizeof(Mask);
  return at;
}

uint32_t KernelBuilder::constant(uint64_t bits, uint32_t bytes) {
  if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
  const auto [entry, fresh] = constants_.try_emplace({bits, bytes}, 0);
  if (fresh) {
    entry->second = add_register(bytes);
    std::byte* const to = data_.registers.data() + entry->second;
    for (uint32_t lane = 0; lane < kLanes; ++lane) std::memcpy(to + lane * bytes, &bits, bytes);
  }
  return entry->second;
}

uint32_t KernelBuilder::special(Special special) {
  const auto [entry, fresh] = specials_.try_emplace(special, 0);
  if (fresh) {
    entry->second = add_register(4);
    data_.specials.push_back({special, entry->second});
  }
  return entry->second;
}

uint32_t KernelBuilder::carry() {
  if (!carry_) carry_ = add_predicate();
  return carry_;
}

const uint32_t* KernelBuilder::add_list(std::vector<uint32_t> list) {
  data_.lists.push_back(std::move(list));
  return data_.lists.back().data();
}

uint32_t KernelBuilder::add_local(uint32_t bytes, uint32_t alignment) {
  const uint32_t at = (data_.local_bytes + alignment - 1) / alignment * alignment;
  // Threads' memories lie one after another: each begins aligned.
  data_.local_bytes = (at + bytes + 15) / 16 * 16;
  return at;
}

void KernelBuilder::note_shared_width(uint32_t bytes) {
  data_.shared_unit = std::min<uint8_t>(data_.shared_unit, std::countr_zero(bytes));
}

void KernelBuilder::note_global_width(uint32_t bytes) {
  data_.global_unit = std::min<uint8_t>(data_.global_unit, std::countr_zero(bytes));
}

uint32_t KernelBuilder::append(const Instruction& instruction, int line) {
  data_.code.push_back(instruction);
  data_.sources.push_back({line, source_.line(line), location_});
  return next_index() - 1;
}

bool find_special(std::string_view name, Special& special, uint8_t& bytes) {
  struct Entry {
    std::string_view name;
    Special special;
    uint8_t bytes;
  };
  static constexpr Entry kSpecials[] = {
      {"%tid.x", Special::TidX, 4},
      {"%tid.y", Special::TidY, 4},
      {"%tid.z", Special::TidZ, 4},
      {"%ntid.x", Special::NtidX, 4},
      {"%ntid.y", Special::NtidY, 4},
      {"%ntid.z", Special::NtidZ, 4},
      {"%ctaid.x", Special::CtaidX, 4},
      {"%ctaid.y", Special::CtaidY, 4},
      {"%ctaid.z", Special::CtaidZ, 4},
      {"%nctaid.x", Special::NctaidX, 4},
      {"%nctaid.y", Special::NctaidY, 4},
      {"%nctaid.z", Special::NctaidZ, 4},
      {"%laneid", Special::LaneId, 4},
      {"%warpid", Special::WarpId, 4},
      {"%nwarpid", Special::NwarpId, 4},
      {"%smid", Special::SmId, 4},
      {"%nsmid", Special::NsmId, 4},
      {"%lanemask_eq", Special::LanemaskEq, 4},
      {"%lanemask_le", Special::LanemaskLe, 4},
      {"%lanemask_lt", Special::LanemaskLt, 4},
      {"%lanemask_ge", Special::LanemaskGe, 4},
      {"%lanemask_gt", Special::LanemaskGt, 4},
      {"%dynamic_smem_size", Special::DynamicSharedBytes, 4},
      {"%total_smem_size", Special::TotalSharedBytes, 4},
      {"%cluster_ctarank", Special::Zero, 4},
      {"%cluster_nctarank", Special::One, 4},
      {"%clock", Special::Clock, 4},
      {"%clock_hi", Special::Zero, 4},
      {"%clock64", Special::Clock64, 8},
      {"%globaltimer", Special::Clock64, 8},
      {"%globaltimer_lo", Special::Clock, 4},
      {"%globaltimer_hi", Special::Zero, 4},
  };
  for (const Entry& entry : kSpecials) {
    if (entry.name != name) continue;
    special = entry.special;
    bytes = entry.bytes;
    return true;
  }
  return false;
}

}  // namespace mezzo::ptx::detail
