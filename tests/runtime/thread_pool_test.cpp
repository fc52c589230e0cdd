// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task once, contiguous ranges, exceptions, nesting, several callers, and
// many short jobs in a row, which is where a lost wake-up or a job read too late would show.
#include <mezzo/runtime/thread_pool.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using mezzo::runtime::ThreadPool;

namespace {

struct Range {
  int64_t first = -1, last = -1;
};

std::vector<Range> ranges_of(ThreadPool& pool, int64_t tasks, int threads = 0) {
  std::vector<Range> ranges(static_cast<size_t>(pool.threads()));
  pool.run(
      tasks,
      [&](int64_t first, int64_t last, int thread) {
        ranges[static_cast<size_t>(thread)] = {first, last};
      },
      threads);
  return ranges;
}

}  // namespace

TEST_CASE("each thread takes one contiguous range and the ranges cover all tasks in order") {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (int64_t tasks : {1, 2, 5, 7, 100, 1001}) {
      CAPTURE(threads);
      CAPTURE(tasks);
      int64_t next = 0;
      const int64_t users = std::min<int64_t>(threads, tasks);
      for (const Range& range : ranges_of(pool, tasks)) {
        if (range.first < 0) continue;
        CHECK(range.first == next);
        CHECK(range.last - range.first >= tasks / users);
        CHECK(range.last - range.first <= tasks / users + 1);
        next = range.last;
      }
      CHECK(next == tasks);
    }
  }
}

TEST_CASE("no tasks means no call and a count near the limit does not overflow") {
  ThreadPool pool(3);
  pool.run(0, [](int64_t, int64_t, int) { FAIL("called without tasks"); });
  const std::vector<Range> ranges = ranges_of(pool, int64_t{1} << 62);
  CHECK(ranges[0].first == 0);
  CHECK(ranges[2].last == int64_t{1} << 62);
}

TEST_CASE("short work stays on the calling thread") {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  int calls = 0;
  pool.run(
      100,
      [&](int64_t first, int64_t last, int thread) {
        ++calls;
        CHECK(first == 0);
        CHECK(last == 100);
        CHECK(thread == 0);
        CHECK(std::this_thread::get_id() == caller);
      },
      1);
  CHECK(calls == 1);
}

TEST_CASE("an exception of a task reaches the caller and the pool works on") {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> finished{0};
    const auto fail = [&](int64_t, int64_t, int thread) {
      if (thread == 2 || thread == 1) throw std::runtime_error("task " + std::to_string(thread));
      ++finished;
    };
    CHECK_THROWS_WITH_AS(pool.run(4, fail), "task 1", std::runtime_error);
    CHECK(finished == 2);
    pool.run(4, [&](int64_t, int64_t, int) { ++finished; });
    CHECK(finished == 6);
  }
}

TEST_CASE("a run inside a task keeps to its own thread and number") {
  ThreadPool pool(3);
  std::atomic<int> wrong{0}, inner_tasks{0};
  pool.run(3, [&](int64_t, int64_t, int outer) {
    const std::thread::id self = std::this_thread::get_id();
    pool.run(10, [&](int64_t first, int64_t last, int inner) {
      if (inner != outer || std::this_thread::get_id() != self) ++wrong;
      inner_tasks += static_cast<int>(last - first);
    });
  });
  CHECK(wrong == 0);
  CHECK(inner_tasks == 30);
}

TEST_CASE("pools that call each other in a circle run on and keep to thread and number") {
  ThreadPool a(3), b(2);
  std::atomic<int> wrong{0}, tasks{0};
  const auto circle = [&](ThreadPool& outer, ThreadPool& middle) {
    for (int round = 0; round < 100; ++round)
      outer.run(3, [&](int64_t, int64_t, int number) {
        const std::thread::id self = std::this_thread::get_id();
        middle.run(5, [&](int64_t first, int64_t last, int in_middle) {
          if (first != 0 || last != 5 || in_middle != 0) ++wrong;
          outer.run(7, [&](int64_t from, int64_t to, int again) {
            if (again != number || std::this_thread::get_id() != self) ++wrong;
            tasks += static_cast<int>(to - from);
          });
        });
      });
  };
  circle(a, b);
  CHECK(tasks == 100 * 3 * 7);
  // From both ends at once: neither holds its turn while it waits for the other's.
  std::thread other([&] { circle(b, a); });
  circle(a, b);
  other.join();
  CHECK(tasks == 2 * 100 * 3 * 7 + 100 * 2 * 7);
  CHECK(wrong == 0);
  // An exception in the middle leaves the thread outside again.
  CHECK_THROWS_WITH_AS(
      a.run(1,
            [&](int64_t, int64_t, int) {
              b.run(1, [](int64_t, int64_t, int) { throw std::runtime_error("inner"); });
            }),
      "inner", std::runtime_error);
  CHECK(ranges_of(b, 2)[1].first == 1);
}

TEST_CASE("a number of threads that no pool can have is an error of the caller") {
  for (int threads : {-1, 1025, 5000})
    CHECK_THROWS_WITH_AS(mezzo::runtime::shared_thread_pool(threads),
                         ("error: threads: " + std::to_string(threads) +
                          " is not a number from 1 to 1024\nnote: 0 is the default of the machine")
                             .c_str(),
                         mezzo::UserError);
  CHECK(mezzo::runtime::shared_thread_pool(2)->threads() == 2);
}

TEST_CASE("many short jobs of changing width see the data of the job before") {
  ThreadPool pool(4);
  std::vector<int64_t> data(257, 0);
  for (int job = 1; job <= 20000; ++job) {
    const int width = 1 + job % 4;
    pool.run(
        static_cast<int64_t>(data.size()),
        [&](int64_t first, int64_t last, int) {
          // Reads what another thread wrote in the job before.
          for (int64_t i = first; i < last; ++i) ++data[static_cast<size_t>(i)];
        },
        width);
  }
  for (int64_t value : data) REQUIRE(value == 20000);
}

TEST_CASE("jobs after a pause wake sleeping workers") {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.run(3, [&](int64_t, int64_t, int) { ++calls; });
  }
  CHECK(calls == 60);
}

TEST_CASE("the caller runs the range of a thread that has no processor") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  int taken = 0, calls = 0;
  {
    ThreadPool pool(2);  // both threads on one processor
    const std::thread::id caller = std::this_thread::get_id();
    for (int job = 0; job < 500; ++job) {
      std::atomic<int> of_job{0}, by_caller{0};
      pool.run(2, [&](int64_t first, int64_t, int thread) {
        CHECK(first == thread);
        ++of_job;
        if (thread == 1 && std::this_thread::get_id() == caller) ++by_caller;
      });
      calls += of_job;
      taken += by_caller;
    }
  }
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(calls == 1000);
  CHECK(taken > 0);
}

TEST_CASE("several callers take turns") {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(4, 0);
  for (size_t caller = 0; caller < sums.size(); ++caller)
    callers.emplace_back([&, caller] {
      for (int job = 0; job < 500; ++job) {
        std::vector<int64_t> partial(3, 0);
        pool.run(64, [&](int64_t first, int64_t last, int thread) {
          for (int64_t i = first; i < last; ++i) partial[static_cast<size_t>(thread)] += i;
        });
        sums[caller] += std::accumulate(partial.begin(), partial.end(), int64_t{0});
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (int64_t sum : sums) CHECK(sum == 500 * 2016);
}

TEST_CASE("pools start and stop without work") {
  for (int i = 0; i < 50; ++i) ThreadPool pool(1 + i % 5);
  CHECK_THROWS_AS(ThreadPool(0), mezzo::InternalError);
}

TEST_CASE("MEZZO_THREADS sets the default and is checked") {
  const char* before = std::getenv("MEZZO_THREADS");
  const std::string saved = before != nullptr ? before : "";
  setenv("MEZZO_THREADS", "3", 1);
  CHECK(mezzo::runtime::default_threads() == 3);
  for (const char* bad : {"0", "two", "3x", "-1", "99999999999"}) {
    setenv("MEZZO_THREADS", bad, 1);
    CHECK_THROWS_WITH_AS(
        mezzo::runtime::default_threads(),
        ("error: MEZZO_THREADS: '" + std::string(bad) + "' is not a number from 1 to 1024").c_str(),
        mezzo::UserError);
  }
  unsetenv("MEZZO_THREADS");
  CHECK(mezzo::runtime::default_threads() >= 1);
  if (!saved.empty()) setenv("MEZZO_THREADS", saved.c_str(), 1);
}
