// SPDX-License-Identifier: Apache-2.0
// Binding buffers to kernels, and the run: kernels, the finite check, the verdict, final copies.
#include <mezzo/runtime/executable.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/flags.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/verdict.h>
#include <mezzo/runtime/aligned_buffer.h>
#include <mezzo/runtime/finite_scan.h>
#include <mezzo/runtime/kernel_store.h>
#include <mezzo/runtime/launch_text.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/numerics_text.h>
#include <mezzo/runtime/run_plan.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

namespace mezzo::runtime {

namespace {

/// Work that pays for waking one more thread, some 20 us: bytes moved, a quarter of the operations
/// of a product counted as bytes.
constexpr int64_t kWorkPerThread = 512 << 10;

int64_t work_of(const ir::Op& kernel) {
  int64_t work = traffic_bytes(kernel);
  for (const ir::Op& op : *kernel.body()) {
    if (op.kind() != ir::OpKind::Matmul) continue;
    const ir::Shape& a = op.operand(0).shape();
    bool transposed = op.bool_attr("transpose_a");
    work += op.result().type().elements() * a[a.rank() - (transposed ? 2 : 1)] / 2;
  }
  return work;
}

}  // namespace

struct Executable::State {
  /// A kernel with the memory that it works on.
  struct Bound {
    std::shared_ptr<const LoadedKernel> kernel;
    std::vector<void*> buffers;
    std::vector<uint32_t*> flags;
    std::vector<int64_t> integers;
    codegen::KernelArgs args;
    int threads = 1;
  };

  std::unique_ptr<ir::Module> module;
  const ir::Function& function;
  RunPlan plan;
  std::shared_ptr<ThreadPool> pool;
  RunLog log;
  bool is_step = false;  // holds a verdict, which then tells of bad indices

  AlignedBuffer arena, workspace;
  std::vector<AlignedBuffer> scratch;    // by thread
  std::vector<AlignedBuffer> constants;  // by number
  std::vector<AlignedBuffer> staging;    // by result; empty where nothing is staged
  std::vector<uint32_t> words;           // and the index-range flag behind them
  std::vector<Bound> bound;              // by kernel
  std::vector<std::byte*> pointers;      // by buffer
  std::vector<void*> parameters, results;
  std::optional<ir::VerdictTable> verdict_table;  // made when a step goes wrong first

  State(std::unique_ptr<ir::Module> module_in, const ir::Function& function_in)
      : module(std::move(module_in)), function(function_in), plan(RunPlan::from(function_in)) {}

  uint32_t& index_flag() { return words.back(); }
  void prepare(std::vector<std::shared_ptr<const LoadedKernel>> kernels);
  void bind(std::span<void* const> new_parameters, std::span<void* const> new_results);
  void check(std::span<void* const> parameters, std::span<void* const> results) const;
  std::byte* result_pointer(size_t index) const;
  void launch(const RunStep& step);
  void logged_launch(const RunStep& step);
  void judge_finite(const RunStep& step);
  void give_verdict(const RunStep& step);
  void log_numerics(std::span<const uint32_t> run_words) const;
};

void Executable::State::prepare(std::vector<std::shared_ptr<const LoadedKernel>> kernels) {
  arena = AlignedBuffer(plan.arena_bytes);
  for (const std::vector<std::byte>& bytes : plan.constants) {
    constants.emplace_back(static_cast<int64_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), constants.back().data());
  }
  staging.resize(plan.staged.size());
  words.resize(static_cast<size_t>(plan.words) + 1);
  int64_t scratch_bytes = 0, workspace_bytes = 0;
  for (const auto& kernel : kernels) {
    scratch_bytes = std::max(scratch_bytes, kernel->scratch_bytes);
    workspace_bytes = std::max(workspace_bytes, kernel->workspace_bytes);
  }
  workspace = AlignedBuffer(workspace_bytes);
  for (int i = 0; i < pool->threads(); ++i) scratch.emplace_back(scratch_bytes);

  for (const RunStep& step : plan.steps) {
    is_step |= step.op->kind() == ir::OpKind::Verdict;
    if (step.kernel < 0) continue;
    MEZZO_CHECK(bound.size() < kernels.size(), "fewer kernels than kernel ops");
    Bound each;
    each.kernel = std::move(kernels[bound.size()]);
    for (int64_t word : ir::kernel_words(*step.op))
      each.flags.push_back(&words[static_cast<size_t>(word)]);
    each.flags.push_back(&index_flag());
    for (const ir::Op* op : ir::kernel_slots(*step.op)) each.integers.push_back(ir::slot_bits(*op));
    each.buffers.resize(step.buffers.size());
    if (each.kernel->workspace_bytes > 0) each.buffers.push_back(workspace.data());
    int64_t tasks = 1;
    for (const LoadedKernel::Launch& launch : each.kernel->launches)
      tasks = std::max(tasks, launch.tasks);
    each.threads = static_cast<int>(std::clamp<int64_t>(work_of(*step.op) / kWorkPerThread, 1,
                                                        std::min<int64_t>(tasks, pool->threads())));
    bound.push_back(std::move(each));
  }
  MEZZO_CHECK(bound.size() == kernels.size(), "more kernels than kernel ops");
  // Addresses of vectors that move no more.
  for (Bound& each : bound)
    each.args = {each.buffers.data(), each.flags.data(), each.integers.data()};
}

void Executable::State::check(std::span<void* const> new_parameters,
                              std::span<void* const> new_results) const {
  MEZZO_CHECK(
      static_cast<int>(new_parameters.size()) == function.num_parameters(),
      fmt::format("@{} takes {}, not {}", function.name(),
                  ir::counted(function.num_parameters(), "parameter"), new_parameters.size()));
  MEZZO_CHECK(static_cast<int>(new_results.size()) == function.num_results(),
              fmt::format("@{} gives {}, not {}", function.name(),
                          ir::counted(function.num_results(), "result"), new_results.size()));
  for (int i = 0; i < function.num_parameters(); ++i)
    MEZZO_CHECK(new_parameters[static_cast<size_t>(i)] || function.parameter(i).type().bytes() == 0,
                fmt::format("parameter {} (%{}) of @{} has no memory", i,
                            function.parameter(i).name(), function.name()));
  std::vector<ir::Value> values = function.results();
  for (int i = 0; i < function.num_results(); ++i) {
    size_t place = static_cast<size_t>(i);
    MEZZO_CHECK(
        new_results[place] || function.updated_parameter(i) || values[place].type().bytes() == 0,
        fmt::format("result {} of @{} has no memory", i, function.name()));
  }
}

std::byte* Executable::State::result_pointer(size_t index) const {
  return results[index] ? static_cast<std::byte*>(results[index]) : staging[index].data();
}

/// Fills in the pointers of all buffers; nothing to do when the caller passes those of the last
/// run.
void Executable::State::bind(std::span<void* const> new_parameters,
                             std::span<void* const> new_results) {
  if (!pointers.empty() && std::ranges::equal(parameters, new_parameters) &&
      std::ranges::equal(results, new_results))
    return;
  check(new_parameters, new_results);
  parameters.assign(new_parameters.begin(), new_parameters.end());
  results.assign(new_results.begin(), new_results.end());
  std::vector<ir::Value> values = function.results();
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i] && !staging[i].data() && (plan.staged[i] || values[i].type().bytes() == 0))
      staging[i] = AlignedBuffer(values[i].type().bytes());
  pointers.clear();
  for (const BufferPlace& place : plan.buffers) {
    size_t index = static_cast<size_t>(place.index);
    switch (place.kind) {
      case BufferPlace::Kind::Arena:
        pointers.push_back(arena.data() + place.index);
        break;
      case BufferPlace::Kind::Parameter:
        pointers.push_back(static_cast<std::byte*>(parameters[index]));
        break;
      case BufferPlace::Kind::Result:
        pointers.push_back(result_pointer(index));
        break;
      case BufferPlace::Kind::Constant:
        pointers.push_back(constants[index].data());
        break;
    }
  }
  for (const RunStep& step : plan.steps) {
    if (step.kernel < 0) continue;
    Bound& each = bound[static_cast<size_t>(step.kernel)];
    for (size_t i = 0; i < step.buffers.size(); ++i)
      each.buffers[i] = pointers[static_cast<size_t>(step.buffers[i])];
  }
}

void Executable::State::launch(const RunStep& step) {
  Bound& each = bound[static_cast<size_t>(step.kernel)];
  for (const LoadedKernel::Launch& launch : each.kernel->launches) {
    if (launch.tasks == 0) continue;
    if (each.threads == 1 || launch.tasks == 1) {
      launch.function(&each.args, 0, launch.tasks, scratch[0].data());
      continue;
    }
    auto work = [&](int64_t first, int64_t last, int thread) {
      launch.function(&each.args, first, last, scratch[static_cast<size_t>(thread)].data());
    };
    pool->run(launch.tasks, work, each.threads);
  }
}

void Executable::State::logged_launch(const RunStep& step) {
  auto start = std::chrono::steady_clock::now();
  launch(step);
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  const Bound& each = bound[static_cast<size_t>(step.kernel)];
  log_info(fmt::format("launch {}, {:.1f} us on {}", launch_text(*step.op, *each.kernel),
                       took.count(), ir::counted(each.threads, "thread")));
}

/// A clear word proves that the elements are finite. A set one does not prove the contrary, since
/// parts of an operation share it: then the memory decides.
void Executable::State::judge_finite(const RunStep& step) {
  bool finite = index_flag() == 0;
  for (const JudgedValue& value : step.judged) {
    if (!finite) break;
    if (value.word >= 0 &&
        !ir::has_flag(words[static_cast<size_t>(value.word)], ir::FlagBit::NonFinite))
      continue;
    finite = all_finite(value.type, pointers[static_cast<size_t>(value.buffer)]);
  }
  *pointers[static_cast<size_t>(step.buffers.back())] = static_cast<std::byte>(finite);
}

void Executable::State::give_verdict(const RunStep& step) {
  ir::StepFacts facts;
  facts.words = std::span(words).first(words.size() - 1);
  facts.index_range = index_flag() != 0;
  facts.all_finite = *pointers[static_cast<size_t>(step.buffers[0])] != std::byte{0};
  facts.loss_finite = plan.loss < 0 || all_finite(function.results()[0].type(),
                                                  pointers[static_cast<size_t>(plan.loss)]);
  int32_t verdict = 0;
  if (!facts.all_finite || !facts.loss_finite || facts.index_range) {
    if (!verdict_table) verdict_table = ir::VerdictTable::from(function);
    if (int scale = verdict_table->scale_parameter; scale >= 0) {
      float value;
      std::memcpy(&value, parameters[static_cast<size_t>(scale)], sizeof value);
      facts.scaled = value > 1;
    }
    facts.parameter_has_nonfinite = [&](int index) {
      return !all_finite(function.parameter(index).type(), parameters[static_cast<size_t>(index)]);
    };
    verdict = ir::judge(*verdict_table, facts);
  }
  std::memcpy(pointers[static_cast<size_t>(step.buffers.back())], &verdict, sizeof verdict);
}

void Executable::State::log_numerics(std::span<const uint32_t> run_words) const {
  std::vector<HostArray> arrays;
  const std::vector<ir::Value> values = function.results();
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* from = result_pointer(i);
    if (const ir::Value updated = function.updated_parameter(static_cast<int>(i)); updated && !from)
      from = static_cast<const std::byte*>(parameters[static_cast<size_t>(updated.index())]);
    HostArray& array = arrays.emplace_back(values[i].type());
    if (from) std::copy_n(from, array.bytes.size(), array.bytes.data());
  }
  for (const std::string& line : numerics_lines(function, run_words, arrays))
    log_info(fmt::format("numerics of @{}: {}", function.name(), line));
}

Executable::Executable(std::unique_ptr<ir::Module> module, const ir::Function& function,
                       std::vector<std::shared_ptr<const LoadedKernel>> kernels,
                       std::shared_ptr<ThreadPool> pool, const RunLog& log)
    : state_(std::make_unique<State>(std::move(module), function)) {
  state_->pool = std::move(pool);
  state_->log = log;
  state_->prepare(std::move(kernels));
}

Executable::~Executable() = default;

const ir::Module& Executable::module() const { return *state_->module; }
const ir::Function& Executable::function() const { return state_->function; }
int64_t Executable::arena_bytes() const { return state_->plan.arena_bytes; }
int64_t Executable::kernels() const { return static_cast<int64_t>(state_->bound.size()); }

std::vector<std::string> Executable::launch_lines() const {
  std::vector<std::string> lines;
  for (const RunStep& step : state_->plan.steps)
    if (step.kernel >= 0)
      lines.push_back(
          launch_text(*step.op, *state_->bound[static_cast<size_t>(step.kernel)].kernel));
  return lines;
}

RunStatus Executable::run(std::span<void* const> parameters, std::span<void* const> results) {
  State& state = *state_;
  state.bind(parameters, results);
  std::fill(state.words.begin(), state.words.end(), 0);
  for (const RunStep& step : state.plan.steps) {
    if (step.kernel >= 0)
      state.log.launches ? state.logged_launch(step) : state.launch(step);
    else if (step.op->kind() == ir::OpKind::AllFinite)
      state.judge_finite(step);
    else
      state.give_verdict(step);
  }
  for (const FinalCopy& copy : state.plan.to_results) {
    size_t to = static_cast<size_t>(copy.to);
    if (std::byte* target = state.result_pointer(to); target && copy.bytes > 0)
      std::memcpy(target, state.pointers[static_cast<size_t>(copy.from)],
                  static_cast<size_t>(copy.bytes));
  }
  for (const FinalCopy& copy : state.plan.to_parameters)
    if (copy.bytes > 0)
      std::memmove(state.parameters[static_cast<size_t>(copy.to)],
                   state.result_pointer(static_cast<size_t>(copy.from)),
                   static_cast<size_t>(copy.bytes));
  RunStatus status;
  status.index_out_of_range = !state.is_step && state.index_flag() != 0;
  status.words = std::span<const uint32_t>(state.words).first(state.words.size() - 1);
  if (state.log.numerics) state.log_numerics(status.words);
  return status;
}

}  // namespace mezzo::runtime
