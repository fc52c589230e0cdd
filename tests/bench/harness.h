// SPDX-License-Identifier: Apache-2.0
// Timing on a machine that others use too: the rows of a table take turns, one repetition each, so
// that a disturbance meets all of them; medians and minima are given, and what the machine can do
// at most is one of the rows.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/target.h>
#include <mezzo/runtime/aligned_buffer.h>
#include <mezzo/runtime/compiler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::bench {

struct Options {
  /// 0: MEZZO_THREADS, else the processors of this process; for products 1 and that many.
  int threads = 0;
  /// Time spent on every row.
  double seconds = 0.5;
  /// Products and ops whose row's name holds this text; all when empty.
  std::string only = {};
};

/// Something to be timed and how long its repetitions took.
struct Row {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds = {};    // as `measure` was told
  std::vector<double> processor = {};  // of all threads of this process

  double median() const;
  double minimum() const;
  double processor_median() const;
};

/// Runs each row once untimed, then all in turns until each has had its time, at least five times.
/// Times are those of the clock on the wall, except that on one thread they are processor time:
/// other programs on the machine then do not count.
void measure(std::vector<Row>& rows, const Options& options, int threads);

/// A compiled function of inputs with random numbers: floats in [-1, 1), integers in [0, `range`).
class Compiled {
 public:
  /// `text`: a module with one function; compiled without the disk cache.
  Compiled(const std::string& text, int threads, int64_t range = 1);
  void run();
  /// Of parameters and results.
  int64_t bytes() const;

 private:
  std::unique_ptr<runtime::Executable> executable_;
  std::vector<runtime::AlignedBuffer> memory_;
  std::vector<void*> parameters_, results_;
};

/// A row of `peak_flops(...)` multiply-adds in f32 a repetition, on every thread: one register tile
/// after the other out of the first cache, the same code that products run.
Row peak_row(int threads);
/// Floating-point operations of one repetition of it.
double peak_flops(int threads);

/// A row that copies 256 MiB with all threads.
Row copy_row(int threads);
/// Bytes read and written by one repetition of it.
double copy_bytes();

void matmul_rows(const Options& options);
void demo_rows(const Options& options);
void memory_rows(const Options& options);
void op_rows(const Options& options);
void compile_rows(const Options& options);
/// Graphs that grow; a part of compile_rows.
void compile_graph_rows(const Options& options);

}  // namespace mezzo::bench
