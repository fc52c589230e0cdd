// SPDX-License-Identifier: Apache-2.0
// Device memory of the PTX interpreter: addresses that the host cannot dereference, with the bytes
// at a constant distance. Every access is checked against live allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace mezzo::ptx {

using Address = uint64_t;

/// Not thread-safe for allocate and free; reads and writes of running kernels may come from several
/// threads.
class DeviceMemory {
 public:
  /// `capacity` is what allocations may hold together, in bytes. Throws std::bad_alloc where the
  /// host has no address space for it.
  explicit DeviceMemory(uint64_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Aligned to 512 bytes, filled with 0xCD, with a gap behind it that belongs to nobody; nothing
  /// where `capacity` does not suffice. Addresses of freed blocks are used again last.
  std::optional<Address> allocate(uint64_t bytes);
  /// False where no allocation begins at `address`.
  bool free(Address address);

  struct Block {
    Address begin = 0;
    uint64_t bytes = 0;
    bool contains(Address address, uint64_t size) const {
      return address >= begin && size <= bytes && address - begin <= bytes - size;
    }
  };
  /// The live allocation that holds `address`; the nearest one that begins at or before it.
  std::optional<Block> find(Address address) const;
  std::optional<Block> nearest_before(Address address) const;
  /// Whether all of [address, address + bytes) lies in one live allocation.
  bool holds(Address address, uint64_t bytes) const;

  /// Where the host finds the bytes of a device address. No check.
  std::byte* host(Address address) const {
    return reinterpret_cast<std::byte*>(address + distance_);
  }
  /// A table for the interpreter, created when it is first asked for: one number a byte of the
  /// range of addresses that begins at `begin`, 0 at first, and `numbers` fresh ones for a launch.
  struct Writers {
    uint32_t* table = nullptr;
    Address begin = 0;
    uint32_t first_number = 0;
  };
  Writers writers(uint32_t numbers);

  uint64_t used() const { return used_; }
  uint64_t capacity() const { return capacity_; }

 private:
  uint64_t capacity_ = 0, used_ = 0;
  std::byte* arena_ = nullptr;    // PROT_NONE: device addresses
  std::byte* storage_ = nullptr;  // the bytes
  uint64_t reserved_ = 0;         // of both ranges
  uint64_t distance_ = 0;
  uint32_t* writers_ = nullptr;
  uint64_t next_number_ = 1;
  std::map<Address, uint64_t> live_;  // begin to bytes
  std::map<Address, Address> free_;   // begin to end, no two touch
  Address cursor_ = 0;                // where the next search begins
};

}  // namespace mezzo::ptx
