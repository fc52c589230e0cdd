// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_arrays.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <cstring>

namespace mezzo::runtime {

CudaCopy::CudaCopy(const std::shared_ptr<CudaContext>& context, int64_t bytes,
                   std::string_view what)
    : context_(context), buffer_(context->allocate(static_cast<size_t>(bytes), what)) {}

void CudaCopy::download(std::span<std::byte> to) {
  if (!to.empty()) buffer_.download(to.data(), to.size());
}

CopyOf copy_of(const HostArray& array, const CudaContext& context) {
  const HostArray::OnDevice there = array.device_copy();
  auto copy = std::dynamic_pointer_cast<CudaCopy>(there.copy);
  // Anyone may change an array's type and bytes.
  if (!copy || copy->context().get() != &context || copy->bytes() != array.type.bytes()) return {};
  return {std::move(copy), there.current};
}

// --- to the device

UploadRing::UploadRing(std::shared_ptr<CudaContext> context, size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  for (size_t i = 0; i < kSlots; ++i) {
    slots_.push_back(context_->allocate_pinned(bytes_, "inputs on their way to the device"));
    read_.emplace_back(context_);
  }
}

void UploadRing::begin() {
  if (open_) end();  // a run that an error has ended
  open_ = true;
  ++run_;
  used_ = 0;
  if (run_ > kSlots) read_[run_ % kSlots].wait();
}

void UploadRing::copy(cuda::DevicePointer to, std::span<const std::byte> from) {
  if (from.empty()) return;
  if (used_ + from.size() > bytes_) {
    context_->copy_to_device(to, from.data(), from.size());
    return context_->synchronize();  // the bytes may change as soon as this returns
  }
  std::byte* place = static_cast<std::byte*>(slots_[run_ % kSlots].data()) + used_;
  std::memcpy(place, from.data(), from.size());
  context_->copy_to_device(to, place, from.size());
  used_ += static_cast<size_t>(pinned_bytes(static_cast<int64_t>(from.size())));
}

void UploadRing::end() {
  open_ = false;
  read_[run_ % kSlots].record();
}

// --- to the host

struct Readback::Slot {
  Slot(const std::shared_ptr<CudaContext>& context, size_t bytes)
      : memory(context->allocate_pinned(bytes, "results on their way to the host")),
        written(context) {}
  PinnedBuffer memory;
  CudaEvent written;
  std::vector<std::weak_ptr<Result>> results;  // of the last run that used it
};

class Readback::Result final : public DeviceCopy {
 public:
  Result(std::shared_ptr<Slot> slot, size_t offset, size_t bytes)
      : slot_(std::move(slot)), offset_(offset), bytes_(bytes) {}

  void download(std::span<std::byte> to) override {
    fetch();
    MEZZO_CHECK(to.size() == own_.size(), "a result is read into an array of another size");
    std::copy(own_.begin(), own_.end(), to.begin());
  }

  /// Takes the bytes out of the slot.
  void fetch() {
    std::lock_guard lock(mutex_);
    if (!slot_) return;
    slot_->written.wait();
    const std::byte* from = static_cast<const std::byte*>(slot_->memory.data()) + offset_;
    own_.assign(from, from + bytes_);
    slot_.reset();
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Slot> slot_;  // null when the bytes are `own_`
  size_t offset_, bytes_;
  std::vector<std::byte> own_;
};

Readback::Readback(std::shared_ptr<CudaContext> context, size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  for (size_t i = 0; i < kSlots; ++i) slots_.push_back(std::make_shared<Slot>(context_, bytes_));
}

Readback::~Readback() = default;

void Readback::begin() {
  ++run_;
  used_ = 0;
  Slot& slot = *slots_[run_ % kSlots];
  for (const std::weak_ptr<Result>& each : slot.results)
    if (const std::shared_ptr<Result> result = each.lock()) result->fetch();
  slot.results.clear();
}

std::shared_ptr<DeviceCopy> Readback::copy(cuda::DevicePointer from, size_t bytes) {
  MEZZO_CHECK(used_ + bytes <= bytes_, "more results than there is room for");
  const std::shared_ptr<Slot>& slot = slots_[run_ % kSlots];
  if (bytes > 0)
    context_->copy_to_host(static_cast<std::byte*>(slot->memory.data()) + used_, from, bytes);
  auto result = std::make_shared<Result>(slot, used_, bytes);
  slot->results.push_back(result);
  used_ += static_cast<size_t>(pinned_bytes(static_cast<int64_t>(bytes)));
  return result;
}

void Readback::end() { slots_[run_ % kSlots]->written.record(); }

}  // namespace mezzo::runtime
