// SPDX-License-Identifier: Apache-2.0
// Entry points of the fake driver: memory of the device and of the host, pools, copies.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <ptx/fake_entry.h>
#include <ptx/fake_stream.h>

namespace mezzo::runtime::cuda {

using namespace fakecuda;

namespace {

/// The request that MEZZO_FAKE_OOM counts to fails, and so does asking for the same again.
bool refuse_on_request(size_t bytes) {
  fakecuda::Driver& state = fakecuda::driver();
  ++state.allocations;
  const bool refused = (state.profile.oom != 0 && state.allocations == state.profile.oom) ||
                       (state.refused_bytes != 0 && state.refused_bytes == bytes);
  state.refused_bytes = refused ? bytes : 0;
  return refused;
}

Result allocate(ContextObject& context, DevicePointer* address, size_t bytes, PoolObject* pool) {
  const auto found = context.memory.allocate(bytes);
  if (!found) return OutOfMemory;
  context.allocations[*found] = pool;
  if (pool) pool->used += bytes;
  *address = *found;
  return Success;
}

bool free_now(ContextObject& context, DevicePointer address) {
  const auto found = context.allocations.find(address);
  if (found == context.allocations.end()) return false;
  if (found->second) found->second->used -= context.memory.find(address)->bytes;
  context.allocations.erase(found);
  return context.memory.free(address);
}

/// Whether a device's range is good when a copy begins; else that is a kernel's fault.
bool check_range(ContextObject& context, DevicePointer address, size_t bytes, const char* call) {
  if (context.memory.holds(address, bytes)) return true;
  const auto before = context.memory.nearest_before(address);
  fault(
      context, IllegalAddress,
      fmt::format("{} of {} bytes at {:#x}: no live allocation holds them{}", call, bytes, address,
                  before ? fmt::format("; the nearest one before has {} bytes at {:#x}",
                                       before->bytes, before->begin)
                         : std::string()));
  return false;
}

bool is_pinned(const void* memory, size_t bytes) {
  const auto& pinned = fakecuda::driver().pinned;
  auto next = pinned.upper_bound(memory);
  if (next == pinned.begin()) return false;
  --next;
  return static_cast<const char*>(memory) + bytes <=
         static_cast<const char*>(next->first) + next->second;
}

/// A copy between the device and memory that is not pinned may make the host wait. Here it never
/// does: a program must not lean on either.
void count_copy(const void* host, size_t bytes) {
  if (!is_pinned(host, bytes)) count_synchronising();
}

std::function<void()> copy_in(ContextObject& context, DevicePointer to, const void* from,
                              size_t bytes) {
  return [&context, to, from, bytes] {
    if (!check_range(context, to, bytes, "cuMemcpyHtoD")) return;
    std::memcpy(context.memory.host(to), from, bytes);
    count("bytes to device", bytes);
  };
}

std::function<void()> copy_out(ContextObject& context, void* to, DevicePointer from, size_t bytes) {
  return [&context, to, from, bytes] {
    if (!check_range(context, from, bytes, "cuMemcpyDtoH")) return;
    std::memcpy(to, context.memory.host(from), bytes);
    count("bytes to host", bytes);
  };
}

template <class Value>
std::function<void()> fill(ContextObject& context, DevicePointer to, Value value, size_t count) {
  return [&context, to, value, count] {
    if (!check_range(context, to, count * sizeof value, "cuMemset")) return;
    std::byte* at = context.memory.host(to);
    for (size_t i = 0; i < count; ++i) std::memcpy(at + i * sizeof value, &value, sizeof value);
  };
}

Result allocate_host(void** memory, size_t bytes) {
  if (!memory || bytes == 0) return InvalidValue;
  constexpr size_t kPage = 4096;
  *memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (!*memory) return OutOfMemory;
  std::memset(*memory, 0xCD, bytes);
  fakecuda::driver().pinned[*memory] = bytes;
  return Success;
}

}  // namespace

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  return with_context("cuMemGetInfo", [&](ContextObject& context) {
    *free = context.memory.capacity() - context.memory.used();
    *total = context.memory.capacity();
    return Success;
  });
}

Result cuMemAlloc_v2(DevicePointer* address, size_t bytes) {
  return with_context(
      "cuMemAlloc",
      [&](ContextObject& context) {
        count_synchronising();
        if (!address || bytes == 0) return InvalidValue;
        if (refuse_on_request(bytes)) return OutOfMemory;
        return allocate(context, address, bytes, nullptr);
      },
      Recording::Refused);
}

Result cuMemFree_v2(DevicePointer address) {
  return with_context(
      "cuMemFree",
      [&](ContextObject& context) {
        count_synchronising();
        if (address == 0) return Success;
        drain_all(context);
        if (context.fault != Success) return context.fault;
        return free_now(context, address) ? Success : InvalidValue;
      },
      Recording::Refused);
}

Result cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return with_context(
      "cuMemHostAlloc", [&](ContextObject&) { return allocate_host(memory, bytes); },
      Recording::Refused);
}

Result cuMemAllocHost_v2(void** memory, size_t bytes) {
  return with_context(
      "cuMemAllocHost", [&](ContextObject&) { return allocate_host(memory, bytes); },
      Recording::Refused);
}

// Works after a fault too: host memory is the program's own.
Result cuMemFreeHost(void* memory) {
  return with_driver("cuMemFreeHost", [&] {
    if (fakecuda::driver().pinned.erase(memory) == 0) return InvalidValue;
    std::free(memory);
    return Success;
  });
}

Result cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  return with_context("cuMemPoolCreate", [&](ContextObject& context) {
    if (!fakecuda::driver().profile.pools) return NotSupported;
    if (!pool || !properties || properties->allocation_type != AllocationPinned ||
        properties->location_type != LocationDevice || properties->location_id != context.device)
      return InvalidValue;
    *pool = adopt(context, std::make_unique<PoolObject>());
    return Success;
  });
}

Result cuMemPoolDestroy(Pool pool) {
  return with_context("cuMemPoolDestroy", [&](ContextObject& context) {
    if (!is_live(context, pool)) return InvalidHandle;
    drain_all(context);
    // What is still allocated stays so and belongs to no pool.
    for (auto& [address, owner] : context.allocations)
      if (owner == pool) owner = nullptr;
    disown(context, pool);
    return Success;
  });
}

Result cuMemPoolSetAttribute(Pool pool, PoolAttribute attribute, void* value) {
  return with_context("cuMemPoolSetAttribute", [&](ContextObject& context) {
    if (!is_live(context, pool)) return InvalidHandle;
    if (attribute != PoolReleaseThreshold || !value) return InvalidValue;
    std::memcpy(&pool->threshold, value, sizeof pool->threshold);
    return Success;
  });
}

// Nothing is kept in reserve: what is freed can be found to be used no sooner than at once.
Result cuMemPoolGetAttribute(Pool pool, PoolAttribute attribute, void* value) {
  return with_context("cuMemPoolGetAttribute", [&](ContextObject& context) {
    if (!is_live(context, pool)) return InvalidHandle;
    if (!value) return InvalidValue;
    switch (attribute) {
      case PoolReleaseThreshold:
        std::memcpy(value, &pool->threshold, sizeof pool->threshold);
        break;
      case PoolReservedBytes:
      case PoolUsedBytes:
        std::memcpy(value, &pool->used, sizeof pool->used);
        break;
      default:
        return InvalidValue;
    }
    return Success;
  });
}

Result cuMemPoolTrimTo(Pool pool, size_t) {
  return with_context("cuMemPoolTrimTo", [&](ContextObject& context) {
    return is_live(context, pool) ? Success : InvalidHandle;
  });
}

Result cuMemAllocFromPoolAsync(DevicePointer* address, size_t bytes, Pool pool, Stream handle) {
  return with_context("cuMemAllocFromPoolAsync", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream || !is_live(context, pool)) return InvalidHandle;
    if (stream->capture) {
      stream->capture->invalid = true;
      explain("cuMemAllocFromPoolAsync", "allocations in a graph are not supported");
      return StreamCaptureUnsupported;
    }
    if (!address || bytes == 0) return InvalidValue;
    if (refuse_on_request(bytes)) return OutOfMemory;
    const Result code = allocate(context, address, bytes, pool);
    if (code != OutOfMemory) return code;
    // What was freed earlier in the stream can be had again.
    drain(*stream);
    return context.fault != Success ? context.fault : allocate(context, address, bytes, pool);
  });
}

Result cuMemFreeAsync(DevicePointer address, Stream handle) {
  return with_context("cuMemFreeAsync", [&](ContextObject& context) {
    if (!context.allocations.contains(address)) return InvalidValue;
    if (const StreamObject* stream = find_stream(context, handle); stream && stream->capture) {
      stream->capture->invalid = true;
      explain("cuMemFreeAsync", "memory that is no node of the graph is freed in it");
      return StreamCaptureUnsupported;
    }
    return enqueue(context, handle, [&context, address] {
      if (!free_now(context, address))
        fault(context, IllegalAddress,
              fmt::format("cuMemFreeAsync of {:#x}: freed before", address));
    });
  });
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, Stream stream) {
  return with_context("cuMemcpyHtoDAsync", [&](ContextObject& context) {
    if (!from || !context.memory.holds(to, bytes)) return InvalidValue;
    count_copy(from, bytes);
    return enqueue(context, stream, copy_in(context, to, from, bytes));
  });
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream stream) {
  return with_context("cuMemcpyDtoHAsync", [&](ContextObject& context) {
    if (!to || !context.memory.holds(from, bytes)) return InvalidValue;
    count_copy(to, bytes);
    return enqueue(context, stream, copy_out(context, to, from, bytes));
  });
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  return with_context("cuMemcpyDtoDAsync", [&](ContextObject& context) {
    if (!context.memory.holds(to, bytes) || !context.memory.holds(from, bytes)) return InvalidValue;
    return enqueue(context, stream, [&context, to, from, bytes] {
      if (!check_range(context, to, bytes, "cuMemcpyDtoD") ||
          !check_range(context, from, bytes, "cuMemcpyDtoD"))
        return;
      std::memmove(context.memory.host(to), context.memory.host(from), bytes);
      count("bytes on device", bytes);
    });
  });
}

Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  return with_context(
      "cuMemcpyHtoD",
      [&](ContextObject& context) {
        count_synchronising();
        if (!from || !context.memory.holds(to, bytes)) return InvalidValue;
        const Result code = enqueue(context, nullptr, copy_in(context, to, from, bytes));
        drain(context.legacy);
        return code != Success ? code : context.fault;
      },
      Recording::Refused);
}

Result cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  return with_context(
      "cuMemcpyDtoH",
      [&](ContextObject& context) {
        count_synchronising();
        if (!to || !context.memory.holds(from, bytes)) return InvalidValue;
        const Result code = enqueue(context, nullptr, copy_out(context, to, from, bytes));
        drain(context.legacy);
        return code != Success ? code : context.fault;
      },
      Recording::Refused);
}

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, Stream stream) {
  return with_context("cuMemsetD8Async", [&](ContextObject& context) {
    if (!context.memory.holds(to, bytes)) return InvalidValue;
    return enqueue(context, stream, fill(context, to, value, bytes));
  });
}

Result cuMemsetD32Async(DevicePointer to, unsigned value, size_t number, Stream stream) {
  return with_context("cuMemsetD32Async", [&](ContextObject& context) {
    if (to % sizeof value != 0 || number > SIZE_MAX / sizeof value ||
        !context.memory.holds(to, number * sizeof value))
      return InvalidValue;
    return enqueue(context, stream, fill(context, to, value, number));
  });
}

}  // namespace mezzo::runtime::cuda
