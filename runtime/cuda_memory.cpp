// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_memory.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_error.h>
#include <mezzo/runtime/memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mezzo::runtime {

namespace {

std::string bytes_text(size_t bytes) { return runtime::bytes_text(static_cast<double>(bytes)); }

}  // namespace

DeviceBuffer CudaContext::allocate(size_t bytes, std::string_view what) {
  DeviceBuffer buffer;
  buffer.context_ = shared_from_this();
  if (bytes == 0) return buffer;
  const Use use(*this);
  MEZZO_CHECK(!recording_, "device memory is asked for while a graph is recorded");
  const char* call = pool_ ? "cuMemAllocFromPoolAsync" : "cuMemAlloc";
  cuda::DevicePointer address = 0;
  cuda::Result code = try_allocate(address, bytes);
  if (code == cuda::OutOfMemory && pool_) {
    // What the pool keeps in reserve may be in pieces that are all too small.
    synchronize();
    check(driver_.cuMemPoolTrimTo(pool_, 0), "cuMemPoolTrimTo");
    code = try_allocate(address, bytes);
  }
  if (code == cuda::OutOfMemory) {
    const CudaMemoryUse use_of = memory_use();
    const auto free = static_cast<size_t>(use_of.free_bytes);
    fail(code, call,
         fmt::format("{} for {}, and {} of {} are free on {}{}{}", bytes_text(bytes), what,
                     bytes_text(free), bytes_text(static_cast<size_t>(use_of.total_bytes)),
                     device_text(), bytes <= free ? ", but not in one piece" : "",
                     largest_allocations()));
  }
  check(code, call);
  allocations_[address] = {bytes, std::string(what)};
  buffer.address_ = address;
  buffer.bytes_ = bytes;
  return buffer;
}

cuda::Result CudaContext::try_allocate(cuda::DevicePointer& address, size_t bytes) {
  return pool_ ? driver_.cuMemAllocFromPoolAsync(&address, bytes, pool_, stream_)
               : driver_.cuMemAlloc(&address, bytes);
}

std::string CudaContext::largest_allocations() const {
  constexpr size_t kNamed = 5;
  std::vector<const Allocation*> all;
  for (const auto& [address, allocation] : allocations_) all.push_back(&allocation);
  if (all.empty()) return "";
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  std::string text = "\nnote: the largest of this program: ";
  for (size_t i = 0; i < std::min(all.size(), kNamed); ++i)
    text += fmt::format("{}{} for {}", i == 0 ? "" : "; ", bytes_text(all[i]->bytes), all[i]->what);
  if (all.size() > kNamed) text += fmt::format("; and {} more", all.size() - kNamed);
  return text;
}

CudaMemoryUse CudaContext::memory_use() {
  const Use use(*this);
  CudaMemoryUse result;
  size_t free = 0, total = 0;
  check(driver_.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  if (pool_) {
    uint64_t reserved = 0, used = 0;
    check(driver_.cuMemPoolGetAttribute(pool_, cuda::PoolReservedBytes, &reserved),
          "cuMemPoolGetAttribute");
    check(driver_.cuMemPoolGetAttribute(pool_, cuda::PoolUsedBytes, &used),
          "cuMemPoolGetAttribute");
    free += reserved - std::min(reserved, used);
  }
  result.free_bytes = static_cast<int64_t>(free);
  result.total_bytes = static_cast<int64_t>(total);
  for (const auto& [address, allocation] : allocations_)
    result.allocated_bytes += static_cast<int64_t>(allocation.bytes);
  return result;
}

void CudaContext::release(cuda::DevicePointer address) noexcept {
  const std::lock_guard lock(mutex_);
  allocations_.erase(address);
  if (recording_)
    released_while_recording_.push_back(address);
  else
    release_now(address);
}

void CudaContext::release_now(cuda::DevicePointer address) noexcept {
  destroy([this, address] {
    if (pool_)
      driver_.cuMemFreeAsync(address, stream_);
    else
      driver_.cuMemFree(address);
  });
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  context_ = std::move(other.context_);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceBuffer::release() noexcept {
  if (address_ != 0) context_->release(address_);
  address_ = 0;
  bytes_ = 0;
  context_.reset();
}

void DeviceBuffer::check_range(size_t bytes, size_t offset) const {
  MEZZO_CHECK(
      offset <= bytes_ && bytes <= bytes_ - offset,
      fmt::format("a copy of {} bytes at {} of a device buffer of {}", bytes, offset, bytes_));
}

void DeviceBuffer::upload(const void* from, size_t bytes, size_t offset) {
  check_range(bytes, offset);
  if (bytes == 0) return;
  context_->copy_to_device(address_ + offset, from, bytes);
  context_->synchronize();
}

void DeviceBuffer::download(void* to, size_t bytes, size_t offset) const {
  check_range(bytes, offset);
  if (bytes == 0) return;
  context_->copy_to_host(to, address_ + offset, bytes);
  context_->synchronize();
}

PinnedBuffer CudaContext::allocate_pinned(size_t bytes, std::string_view what) {
  PinnedBuffer buffer;
  buffer.context_ = shared_from_this();
  if (bytes == 0) return buffer;
  const Use use(*this);
  const cuda::Result code = driver_.cuMemHostAlloc(&buffer.memory_, bytes, 0);
  if (code == cuda::OutOfMemory)
    throw DeviceError(
        fmt::format("cuMemHostAlloc failed: {}: {} of pinned host memory for {} were refused\n"
                    "note: the host has too little memory that can be locked: end other programs, "
                    "or raise the limits of the container",
                    cuda_code_text(code), bytes_text(bytes), what));
  check(code, "cuMemHostAlloc");
  buffer.bytes_ = bytes;
  return buffer;
}

void CudaContext::release_pinned(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (recording_)
    pinned_released_while_recording_.push_back(memory);
  else
    release_pinned_now(memory);
}

void CudaContext::release_pinned_now(void* memory) noexcept {
  destroy([this, memory] {
    driver_.cuStreamSynchronize(stream_);  // copies from and to it may be under way
    driver_.cuMemFreeHost(memory);
  });
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  context_ = std::move(other.context_);
  memory_ = std::exchange(other.memory_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void PinnedBuffer::release() noexcept {
  if (memory_) context_->release_pinned(memory_);
  memory_ = nullptr;
  bytes_ = 0;
  context_.reset();
}

CudaEvent::CudaEvent(std::shared_ptr<CudaContext> context, bool timing)
    : context_(std::move(context)) {
  const CudaContext::Use use(*context_);
  context_->check(context_->driver().cuEventCreate(
                      &event_, timing ? cuda::EventDefault : cuda::EventDisableTiming),
                  "cuEventCreate");
}

CudaEvent::CudaEvent(CudaEvent&& other) noexcept
    : context_(std::move(other.context_)), event_(std::exchange(other.event_, nullptr)) {}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  if (this == &other) return *this;
  release();
  context_ = std::move(other.context_);
  event_ = std::exchange(other.event_, nullptr);
  return *this;
}

void CudaEvent::release() noexcept {
  if (event_) context_->destroy([this] { context_->driver().cuEventDestroy(event_); });
  event_ = nullptr;
  context_.reset();
}

void CudaEvent::record() {
  const CudaContext::Use use(*context_);
  context_->check(context_->driver().cuEventRecord(event_, context_->stream()), "cuEventRecord");
}

void CudaEvent::wait() {
  const CudaContext::Use use(*context_, CudaContext::Use::Kind::Waiting);
  context_->check(context_->driver().cuEventSynchronize(event_), "cuEventSynchronize");
}

bool CudaEvent::done() {
  const CudaContext::Use use(*context_, CudaContext::Use::Kind::Waiting);
  const cuda::Result code = context_->driver().cuEventQuery(event_);
  if (code == cuda::NotReady) return false;
  context_->check(code, "cuEventQuery");
  return true;
}

double CudaEvent::milliseconds_since(const CudaEvent& start) const {
  const CudaContext::Use use(*context_, CudaContext::Use::Kind::Waiting);
  float milliseconds = 0;
  context_->check(context_->driver().cuEventElapsedTime(&milliseconds, start.event_, event_),
                  "cuEventElapsedTime");
  return milliseconds;
}

}  // namespace mezzo::runtime
