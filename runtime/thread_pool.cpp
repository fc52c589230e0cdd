// SPDX-License-Identifier: Apache-2.0
// One word announces a job, one counter tells its end; both are spun on for some 30 microseconds
// before a thread sleeps in the kernel. Spinning is left out where there are more threads than
// processors: it would only delay the others. Each range of a job is offered in a word of its own,
// and whoever clears that word runs the range: its thread, or the caller when that thread is asleep
// or has lost its processor. So a job waits only for ranges that somebody is at work on.
#include <mezzo/runtime/thread_pool.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace mezzo::runtime {
namespace {

constexpr std::chrono::microseconds kSpinTime{30};
// Pauses between two looks at the clock; a pause is 10 to 140 cycles.
constexpr int kPausesPerLook = 32;

// Which pool's task this thread is inside, and under which number; `outer` is the task around it.
struct Inside {
  const ThreadPool* pool;
  int thread;
  const Inside* outer;
};
thread_local const Inside* inside = nullptr;

// This thread is inside one more task while it lives.
class Enter {
 public:
  explicit Enter(const Inside& task) { inside = &task; }
  ~Enter() { inside = inside->outer; }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;
};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Returns the first value other than `old`.
template <typename T>
T wait_for_change(const std::atomic<T>& word, T old, bool spin) {
  T value = word.load(std::memory_order_acquire);
  if (value != old) return value;
  if (spin) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        pause();
        value = word.load(std::memory_order_acquire);
        if (value != old) return value;
      }
    } while (std::chrono::steady_clock::now() < end);
  }
  while ((value = word.load(std::memory_order_acquire)) == old)
    word.wait(old, std::memory_order_acquire);
  return value;
}

}  // namespace

int default_threads() {
  const char* text = std::getenv("MEZZO_THREADS");
  if (text == nullptr || *text == '\0') return std::min(processors(), ThreadPool::kMaxThreads);
  int threads = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, threads);
  if (error != std::errc() || rest != end || threads < 1 || threads > ThreadPool::kMaxThreads)
    throw UserError({}, "MEZZO_THREADS: '" + std::string(text) + "' is not a number from 1 to " +
                            std::to_string(ThreadPool::kMaxThreads));
  return threads;
}

ThreadPool::ThreadPool(int threads)
    : spin_(threads <= processors()),
      offers_(static_cast<size_t>(std::clamp(threads, 1, kMaxThreads))) {
  MEZZO_CHECK(threads >= 1 && threads <= kMaxThreads,
              "a thread pool of " + std::to_string(threads) + " threads");
  failures_.resize(static_cast<size_t>(threads));
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread)
      workers_.emplace_back([this, thread] { worker(thread); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size() + 1;
    stop();
    throw DeviceError("the system refused thread " + std::to_string(started + 1) + " of " +
                      std::to_string(threads) + ": " + error.what() +
                      "\nnote: set MEZZO_THREADS to a smaller number");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  ticket_.fetch_add(1, std::memory_order_release);
  ticket_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::worker(int thread) {
  const Inside task{this, thread, nullptr};
  const Enter enter(task);
  // Not the ticket's present value: a job may have been announced before this thread came to life.
  uint32_t seen = 0;
  while (true) {
    seen = wait_for_change(ticket_, seen, spin_);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (take_offer(thread) && pending_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      pending_.notify_one();
  }
}

bool ThreadPool::take_offer(int thread) {
  std::atomic<bool>& open = offers_[static_cast<size_t>(thread)].open;
  if (!open.load(std::memory_order_relaxed) || !open.exchange(false, std::memory_order_acquire))
    return false;
  run_range(thread);
  return true;
}

void ThreadPool::run_range(int thread) {
  // Equal to tasks * t / participants, without the product that could overflow.
  const auto start = [this](int64_t t) {
    const int64_t whole = job_.tasks / job_.participants, rest = job_.tasks % job_.participants;
    return whole * t + rest * t / job_.participants;
  };
  try {
    (*job_.work)(start(thread), start(thread + 1), thread);
  } catch (...) {
    failures_[static_cast<size_t>(thread)] = std::current_exception();
    failed_.store(true, std::memory_order_relaxed);
  }
}

void ThreadPool::run(int64_t tasks, Work work, int threads) {
  if (tasks <= 0) return;
  if (inside != nullptr) {
    // A turn or a worker waited for here may wait for the task that this is.
    for (const Inside* task = inside; task != nullptr; task = task->outer)
      if (task->pool == this) return work(0, tasks, task->thread);
    const Inside task{this, 0, inside};
    const Enter enter(task);
    return work(0, tasks, 0);
  }
  const int wanted = threads <= 0 ? this->threads() : std::min(threads, this->threads());
  const int participants = static_cast<int>(std::min<int64_t>(wanted, tasks));

  std::lock_guard turn(callers_);
  Inside task{this, 0, nullptr};
  std::optional<Enter> enter(std::in_place, task);
  job_ = {&work, tasks, participants};
  if (participants > 1) {
    pending_.store(participants - 1, std::memory_order_relaxed);
    for (int thread = 1; thread < participants; ++thread)
      offers_[static_cast<size_t>(thread)].open.store(true, std::memory_order_release);
    ticket_.fetch_add(1, std::memory_order_release);
    ticket_.notify_all();
  }
  run_range(0);
  // The last first: a thread woken late is likeliest to find the low ones.
  for (int thread = participants - 1; thread > 0; --thread) {
    task.thread = thread;
    if (take_offer(thread)) pending_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (int left = pending_.load(std::memory_order_acquire); left != 0;)
    left = wait_for_change(pending_, left, spin_);
  enter.reset();

  if (!failed_.load(std::memory_order_relaxed)) return;
  failed_.store(false, std::memory_order_relaxed);
  std::exception_ptr first;
  for (std::exception_ptr& failure : failures_) {
    if (failure && !first) first = failure;
    failure = nullptr;
  }
  std::rethrow_exception(first);
}

std::shared_ptr<ThreadPool> shared_thread_pool(int threads) {
  // Never freed: the destructor of a static of the program may ask for a pool.
  static auto* mutex = new std::mutex;
  static auto* pools = new std::map<int, std::weak_ptr<ThreadPool>>;
  if (threads < 0 || threads > ThreadPool::kMaxThreads)
    throw UserError({},
                    "threads: " + std::to_string(threads) + " is not a number from 1 to " +
                        std::to_string(ThreadPool::kMaxThreads),
                    "0 is the default of the machine");
  if (threads == 0) threads = default_threads();
  std::lock_guard lock(*mutex);
  std::weak_ptr<ThreadPool>& entry = (*pools)[threads];
  std::shared_ptr<ThreadPool> pool = entry.lock();
  if (!pool) entry = pool = std::make_shared<ThreadPool>(threads);
  return pool;
}

}  // namespace mezzo::runtime
