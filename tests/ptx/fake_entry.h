// SPDX-License-Identifier: Apache-2.0
// What every entry point of the fake driver goes through: the lock, the counters, failures on
// request, the current context and its fault.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <ptx/fake_objects.h>
#include <ptx/fake_profile.h>
#include <ptx/fake_report.h>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::fakecuda {

/// All that the driver remembers. Never freed: programs call it from destructors of statics.
struct Driver {
  std::recursive_mutex mutex;
  bool initialized = false;
  bool profile_read = false;
  std::string profile_error;
  Profile profile;
  std::vector<std::unique_ptr<runtime::cuda::ContextObject>> contexts;  // by device, or null
  std::set<const void*> live;  // handles that were given out and not destroyed
  std::set<std::shared_ptr<runtime::cuda::Capture>> captures;
  std::map<const void*, size_t> pinned;  // host memory and its bytes
  uint64_t allocations = 0;              // asked for so far
  size_t refused_bytes = 0;              // of the request that MEZZO_FAKE_OOM refused
  std::map<std::string, uint64_t, std::less<>> counts;
  std::string last_fault;
  Report report;
};
Driver& driver();

/// The contexts that a thread has pushed. Nothing is destroyed when the thread ends: destructors of
/// the program's statics run later, and they use the driver too.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  runtime::cuda::ContextObject*& back() { return at_[size_ - 1]; }
  void pop_back() { --size_; }
  /// Throws std::length_error where a program pushes and never pops.
  void push_back(runtime::cuda::ContextObject* context) {
    if (size_ == at_.size()) throw std::length_error("contexts are pushed and never popped");
    at_[size_++] = context;
  }

 private:
  std::array<runtime::cuda::ContextObject*, 256> at_ = {};
  size_t size_ = 0;
};

/// Contexts that are current in this thread, the top one last.
ContextStack& current_contexts();

void count(std::string_view what, uint64_t by = 1);
/// Counts a call that may make the host wait.
void count_synchronising();

/// Prints `text` and makes every later call on `context` return `code`.
void fault(runtime::cuda::ContextObject& context, runtime::cuda::Result code,
           const std::string& text);

/// Prints why a call is refused, for which the API has only a number.
void explain(std::string_view call, std::string_view why);

namespace detail {
/// Success, or what the call must return at once.
runtime::cuda::Result enter(std::string_view call, bool initialized);
runtime::cuda::Result enter_context(runtime::cuda::ContextObject*& context);
/// Ends recordings of this thread, in which calls that are no work of a stream have no place.
runtime::cuda::Result refuse_while_recording(std::string_view call);
}  // namespace detail

/// An entry point that needs no context, but cuInit unless `initialized` is false.
template <class Body>
runtime::cuda::Result with_driver(std::string_view call, Body&& body, bool initialized = true) {
  const std::lock_guard lock(driver().mutex);
  if (const auto code = detail::enter(call, initialized); code != runtime::cuda::Success)
    return code;
  return body();
}

/// Whether a call may come while the thread records a graph.
enum class Recording : bool { Refused, Allowed };

/// An entry point that needs a current context.
template <class Body>
runtime::cuda::Result with_context(std::string_view call, Body&& body,
                                   Recording recording = Recording::Allowed) {
  const std::lock_guard lock(driver().mutex);
  runtime::cuda::ContextObject* context = nullptr;
  if (const auto code = detail::enter(call, true); code != runtime::cuda::Success) return code;
  if (const auto code = detail::enter_context(context); code != runtime::cuda::Success) return code;
  if (recording == Recording::Refused)
    if (const auto code = detail::refuse_while_recording(call); code != runtime::cuda::Success)
      return code;
  try {
    return body(*context);
  } catch (const std::bad_alloc&) {
    return runtime::cuda::OutOfMemory;
  }
}

/// Gives out a handle that is good until it is disowned or its context is gone.
template <class Object>
Object* adopt(runtime::cuda::ContextObject& context, std::unique_ptr<Object> object) {
  Object* handle = object.get();
  object->context = &context;
  context.owned.emplace(handle, std::move(object));
  driver().live.insert(handle);
  return handle;
}
void disown(runtime::cuda::ContextObject& context, const void* handle);

/// Whether a handle was given out by `context` and is still good.
template <class Object>
bool is_live(const runtime::cuda::ContextObject& context, const Object* handle) {
  return handle && driver().live.contains(handle) && handle->context == &context;
}

}  // namespace mezzo::fakecuda
