// SPDX-License-Identifier: Apache-2.0
#include <ptx/fake_entry.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

namespace mezzo::fakecuda {

using namespace runtime::cuda;

Driver& driver() {
  static auto* result = new Driver;
  return *result;
}

ContextStack& current_contexts() {
  thread_local constinit ContextStack contexts;
  return contexts;
}

void count(std::string_view what, uint64_t by) {
  auto& counts = driver().counts;
  const auto found = counts.find(what);
  if (found != counts.end())
    found->second += by;
  else
    counts.emplace(what, by);
}

void count_synchronising() {
  count("synchronising calls");
  count("synchronising calls since graph launch");
}

void explain(std::string_view call, std::string_view why) {
  fmt::print(stderr, "fake CUDA driver: {}: {}\n", call, why);
}

void fault(ContextObject& context, Result code, const std::string& text) {
  driver().last_fault = text;
  fmt::print(stderr, "fake CUDA driver: {}\n", text);
  if (context.fault == Success) context.fault = code;
}

void disown(ContextObject& context, const void* handle) {
  driver().live.erase(handle);
  context.owned.erase(handle);
}

namespace detail {

namespace {

/// At the end of the process.
void write_report() {
  const Driver& state = driver();
  std::FILE* file = std::fopen(state.profile.report.c_str(), "w");
  if (!file || std::fputs(state.report.text().c_str(), file) < 0)
    explain("report", "cannot write " + state.profile.report);
  if (file) std::fclose(file);
}

}  // namespace

Result enter(std::string_view call, bool initialized) {
  Driver& state = driver();
  count(call);
  if (!state.profile_read) {
    state.profile_read = true;
    try {
      state.profile = read_profile(environ);
      if (!state.profile.report.empty()) std::atexit(write_report);
    } catch (const std::invalid_argument& error) {
      state.profile_error = error.what();
      explain("profile", state.profile_error);
    }
  }
  // The stub that toolkits have for linking answers everything so.
  if (state.profile.init == StubLibrary) return StubLibrary;
  if (initialized && !state.initialized) return NotInitialized;
  const auto failing = state.profile.failing.find(std::string(call));
  return failing == state.profile.failing.end() ? Success : static_cast<Result>(failing->second);
}

Result enter_context(ContextObject*& context) {
  if (current_contexts().empty() || !current_contexts().back()) return InvalidContext;
  context = current_contexts().back();
  // A context whose device was released is gone, though a thread may still have it current.
  if (!driver().live.contains(context)) return InvalidContext;
  return context->fault;
}

Result refuse_while_recording(std::string_view call) {
  Result code = Success;
  for (const std::shared_ptr<Capture>& capture : driver().captures) {
    const bool concerns =
        capture->mode == CaptureGlobal ||
        (capture->mode == CaptureThreadLocal && capture->thread == std::this_thread::get_id());
    if (!concerns) continue;
    capture->invalid = true;
    code = StreamCaptureUnsupported;
  }
  if (code != Success) explain(call, "not while a graph is recorded");
  return code;
}

}  // namespace detail

}  // namespace mezzo::fakecuda

const char* mezzo_fake_last_fault() {
  mezzo::fakecuda::Driver& state = mezzo::fakecuda::driver();
  const std::lock_guard lock(state.mutex);
  return state.last_fault.c_str();
}

uint64_t mezzo_fake_count(const char* what) {
  mezzo::fakecuda::Driver& state = mezzo::fakecuda::driver();
  const std::lock_guard lock(state.mutex);
  const auto found = state.counts.find(std::string_view(what));
  return found == state.counts.end() ? 0 : found->second;
}

void mezzo_fake_reset_counts() {
  mezzo::fakecuda::Driver& state = mezzo::fakecuda::driver();
  const std::lock_guard lock(state.mutex);
  state.counts.clear();
}

void mezzo_fake_reread_options() {
  mezzo::fakecuda::Driver& state = mezzo::fakecuda::driver();
  const std::lock_guard lock(state.mutex);
  state.profile.options = mezzo::fakecuda::read_profile(environ).options;
}
