// SPDX-License-Identifier: Apache-2.0
// A persistent pool for kernels of 5 to 500 microseconds. Every thread takes one contiguous range
// of the tasks, so that memory stays with the thread that touched it last; the range of a thread
// that has not come by then is run by the caller. Idle workers spin for a moment, because the next
// kernel of a graph usually follows at once, and then sleep.
#pragma once

#include <mezzo/ir/function_ref.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mezzo::runtime {

/// MEZZO_THREADS if set (1 to ThreadPool::kMaxThreads, else UserError), otherwise the processors
/// this process may use.
int default_threads();

/// Runs ranges of tasks on a fixed number of threads, the calling one among them.
class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// `first` to `last` (exclusive) are tasks, `thread` counts from 0 to threads() - 1 and names a
  /// scratch buffer.
  using Work = ir::FunctionRef<void(int64_t first, int64_t last, int thread)>;

  /// Starts `threads` - 1 workers (1 to kMaxThreads); throws DeviceError when the system refuses
  /// one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs tasks 0 to `tasks` - 1 and returns when all are done. At most `threads` threads take
  /// part, 0 means all; 1 is a plain call. Callers from several threads take turns. The caller may
  /// run the range of a late thread, under that thread's number. A call from inside a task of any
  /// pool waits for nobody: it runs on that thread alone, under its number in this pool if it is
  /// inside one of its tasks, else under 0 and without taking turns. If tasks throw, the others
  /// still finish and the exception of the lowest number is thrown here.
  void run(int64_t tasks, Work work, int threads = 0);

 private:
  struct Job {
    const Work* work = nullptr;
    int64_t tasks = 0;
    int participants = 0;
  };

  /// The range of one thread in the present job, to be taken once.
  struct alignas(64) Offer {
    std::atomic<bool> open{false};
  };

  void worker(int thread);
  /// Runs the range of `thread` if nobody else has taken it.
  bool take_offer(int thread);
  void run_range(int thread);
  void stop();

  // Written by the caller of run() before it opens offers, read by who closes one.
  Job job_;
  std::vector<std::exception_ptr> failures_;
  bool spin_;

  // By thread. An open one makes the job readable to who closes it, until it counts down
  // `pending_`.
  std::vector<Offer> offers_;
  // Counts jobs: the word that workers spin and sleep on. A worker that sleeps through a whole
  // round of it misses offers only, which the callers take.
  alignas(64) std::atomic<uint32_t> ticket_{0};
  alignas(64) std::atomic<int32_t> pending_{0};
  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<bool> stopping_{false};

  std::mutex callers_;
  std::vector<std::thread> workers_;
};

/// The pool of that many threads (1 to ThreadPool::kMaxThreads, 0: default_threads(), else
/// UserError) that all who ask for it at the same time share.
std::shared_ptr<ThreadPool> shared_thread_pool(int threads = 0);

}  // namespace mezzo::runtime
