// SPDX-License-Identifier: Apache-2.0
// Two ranges of host addresses of one size: one that nobody may touch gives the device's addresses,
// the other one holds the bytes. Allocations walk through the range before they use a freed place
// again, so that a stale address is found to be stale.
#include <ptx/memory.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <sys/mman.h>

namespace mezzo::ptx {

namespace {

constexpr uint64_t kAlignment = 512;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kGap = 4096;
constexpr unsigned char kPoison = 0xCD;
constexpr uint64_t kSlack = uint64_t{64} << 20;  // so that small capacities have room for gaps

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::byte* reserve(uint64_t bytes, int protection) {
  void* const at =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

}  // namespace

DeviceMemory::DeviceMemory(uint64_t capacity)
    : capacity_(capacity), reserved_(round_up(4 * capacity + kSlack, kPage)) {
  arena_ = reserve(reserved_, PROT_NONE);
  if (!arena_) throw std::bad_alloc();
  storage_ = reserve(reserved_, PROT_READ | PROT_WRITE);
  if (!storage_) {
    munmap(arena_, reserved_);
    throw std::bad_alloc();
  }
  const auto begin = reinterpret_cast<Address>(arena_);
  distance_ = reinterpret_cast<uint64_t>(storage_) - begin;
  cursor_ = round_up(begin, kAlignment);
  free_.emplace(cursor_, begin + reserved_);
}

DeviceMemory::~DeviceMemory() {
  munmap(arena_, reserved_);
  munmap(storage_, reserved_);
  if (writers_) munmap(writers_, reserved_ * sizeof(uint32_t));
}

DeviceMemory::Writers DeviceMemory::writers(uint32_t numbers) {
  const uint64_t bytes = reserved_ * sizeof(uint32_t);
  if (!writers_) {
    writers_ = reinterpret_cast<uint32_t*>(reserve(bytes, PROT_READ | PROT_WRITE));
    if (!writers_) throw std::bad_alloc();
  }
  if (next_number_ + numbers > ~uint32_t{0}) {
    madvise(writers_, bytes, MADV_DONTNEED);
    next_number_ = 1;
  }
  const auto first = static_cast<uint32_t>(next_number_);
  next_number_ += numbers;
  return {writers_, reinterpret_cast<Address>(arena_), first};
}

std::optional<Address> DeviceMemory::allocate(uint64_t bytes) {
  if (bytes > capacity_ - used_) return std::nullopt;
  const uint64_t extent = round_up(bytes, kAlignment) + kGap;
  // From the cursor to the end, then from the beginning: what was freed last is found last.
  auto place = free_.upper_bound(cursor_);
  if (place != free_.begin()) --place;
  Address begin = 0;
  for (size_t tries = 0; tries <= free_.size(); ++tries) {
    if (place == free_.end()) {
      place = free_.begin();
      cursor_ = 0;
      if (place == free_.end()) return std::nullopt;
    }
    begin = std::max(place->first, cursor_);
    if (begin < place->second && place->second - begin >= extent) break;
    begin = 0;
    ++place;
  }
  if (begin == 0) return std::nullopt;
  const Address free_begin = place->first, free_end = place->second;
  free_.erase(place);
  if (free_begin < begin) free_.emplace(free_begin, begin);
  if (begin + extent < free_end) free_.emplace(begin + extent, free_end);
  cursor_ = begin + extent;
  live_.emplace(begin, bytes);
  used_ += bytes;
  std::memset(host(begin), kPoison, bytes);
  return begin;
}

bool DeviceMemory::free(Address address) {
  const auto block = live_.find(address);
  if (block == live_.end()) return false;
  const uint64_t bytes = block->second;
  Address begin = address, end = address + round_up(bytes, kAlignment) + kGap;
  live_.erase(block);
  used_ -= bytes;
  const Address first_page = round_up(begin, kPage), last_page = end / kPage * kPage;
  if (first_page < last_page) madvise(host(first_page), last_page - first_page, MADV_DONTNEED);
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->second == begin) {
      begin = before->first;
      free_.erase(before);
    }
  }
  free_.emplace(begin, end);
  return true;
}

std::optional<DeviceMemory::Block> DeviceMemory::nearest_before(Address address) const {
  auto next = live_.upper_bound(address);
  if (next == live_.begin()) return std::nullopt;
  --next;
  return Block{next->first, next->second};
}

std::optional<DeviceMemory::Block> DeviceMemory::find(Address address) const {
  std::optional<Block> block = nearest_before(address);
  if (block && !block->contains(address, 1)) return std::nullopt;
  return block;
}

bool DeviceMemory::holds(Address address, uint64_t bytes) const {
  const std::optional<Block> block = nearest_before(address);
  return block && block->contains(address, bytes);
}

}  // namespace mezzo::ptx
