// SPDX-License-Identifier: Apache-2.0
// Every access of a warp to memory goes through here: addresses of the lanes, checks, counters.
#pragma once

#include <cstring>
#include <ptx/warp.h>

namespace mezzo::ptx::detail {

/// Byte addresses of 32 lanes; those of inactive lanes are not looked at.
struct Addresses {
  alignas(64) uint64_t of[kLanes];
};

/// Register plus displacement; a register of 32 bits is not extended beyond 32 bits.
void read_addresses(Warp& warp, const Instruction& instruction, uint32_t at, uint8_t register_bytes,
                    int64_t displacement, Addresses& out);

enum class Access : uint8_t { Read, Write, Atomic };

/// Checks alignment and bounds in device memory and counts sectors. Afterwards
/// `memory->host(address)` may be used for the lanes.
void check_global(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                  uint32_t bytes, Access access);

/// The same for the sources of copies of `bytes`, of which each lane reads `sizes` only.
void check_copy_sources(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                        const uint32_t (&sizes)[kLanes], uint32_t bytes);

/// Notes a store of another block's bytes: `data` is what the lane is about to write.
void note_global_store(Warp& warp, const Instruction& instruction, int lane, Address address,
                       const std::byte* data, uint32_t bytes);

/// Checks alignment, bounds, races and initialisation in shared memory and counts wavefronts.
/// Addresses are offsets into the block's shared memory.
void check_shared(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                  uint32_t bytes, Access access, bool strong);
/// The part of check_shared that comes before races.
void check_shared_bounds(Warp& warp, const Instruction& instruction, Mask lanes,
                         const Addresses& at, uint32_t bytes);
void count_wavefronts(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                      uint32_t bytes);
void count_sectors(Warp& warp, const Instruction& instruction, Mask lanes, const Addresses& at,
                   uint32_t bytes);
/// Fails where there is something found.
void fail_shared(Warp& warp, const Instruction& instruction, int lane, uint32_t bytes,
                 const Finding& finding);

/// Where a lane's local memory holds `address`, an offset.
std::byte* check_local(Warp& warp, const Instruction& instruction, int lane, uint64_t address,
                       uint32_t bytes);
/// Where the parameters hold `address`, an offset.
const std::byte* check_parameter(Warp& warp, const Instruction& instruction, int lane,
                                 uint64_t address, uint32_t bytes);

}  // namespace mezzo::ptx::detail
