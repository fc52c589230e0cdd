// SPDX-License-Identifier: Apache-2.0
// Binding buffers to kernels, and the run: kernels, the finite check, the verdict, final copies.
#include <mezzo/runtime/cpu_executable.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/flags.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/sizes.h>
#include <mezzo/ir/verdict.h>
#include <mezzo/runtime/aligned_buffer.h>
#include <mezzo/runtime/binding.h>
#include <mezzo/runtime/cpu_kernels.h>
#include <mezzo/runtime/finite_scan.h>
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
    const int64_t inner = a[a.rank() - (transposed ? 2 : 1)];
    work = ir::saturated_sum(work, ir::saturated_product(op.result().type().elements(), inner) / 2);
  }
  return work;
}

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(std::unique_ptr<ir::Module> module, const ir::Function& function,
                std::vector<std::shared_ptr<const LoadedCpuKernel>> kernels,
                std::shared_ptr<ThreadPool> pool, const RunLog& log)
      : module_(std::move(module)),
        function_(function),
        plan_(RunPlan::from(function)),
        pool_(std::move(pool)),
        log_(log) {
    prepare(std::move(kernels));
  }

  const ir::Module& module() const override { return *module_; }
  const ir::Function& function() const override { return function_; }
  int64_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t kernels() const override { return static_cast<int64_t>(bound_.size()); }
  std::vector<std::string> launch_lines() const override;
  RunStatus run(std::span<void* const> parameters, std::span<void* const> results) override;
  IndexFlag run(std::span<const Binding> parameters, std::span<HostArray* const> results) override {
    const HostPointers pointers = host_pointers(function_, parameters, results);
    return run(pointers.parameters, pointers.results).index_out_of_range;
  }

 private:
  /// A kernel with the memory that it works on.
  struct Bound {
    std::shared_ptr<const LoadedCpuKernel> kernel;
    std::vector<void*> buffers;
    std::vector<uint32_t*> flags;
    std::vector<int64_t> integers;
    codegen::KernelArgs args;
    int threads = 1;
  };

  uint32_t& index_flag() { return words_.back(); }
  void prepare(std::vector<std::shared_ptr<const LoadedCpuKernel>> kernels);
  void bind(std::span<void* const> parameters, std::span<void* const> results);
  std::byte* result_pointer(size_t index) const;
  void launch(const RunStep& step);
  void logged_launch(const RunStep& step);
  void judge_finite(const RunStep& step);
  void give_verdict(const RunStep& step);
  void log_numerics(std::span<const uint32_t> run_words) const;

  std::unique_ptr<ir::Module> module_;
  const ir::Function& function_;
  RunPlan plan_;
  std::shared_ptr<ThreadPool> pool_;
  RunLog log_;
  bool is_step_ = false;  // holds a verdict, which then tells of bad indices

  AlignedBuffer arena_, workspace_;
  std::vector<AlignedBuffer> scratch_;    // by thread
  std::vector<AlignedBuffer> constants_;  // by number
  std::vector<AlignedBuffer> staging_;    // by result; empty where nothing is staged
  std::vector<uint32_t> words_;           // and the index-range flag behind them
  std::vector<Bound> bound_;              // by kernel
  std::vector<std::byte*> pointers_;      // by buffer
  std::vector<void*> parameters_, results_;
  std::optional<ir::VerdictTable> verdict_table_;  // made when a step goes wrong first
};

void CpuExecutable::prepare(std::vector<std::shared_ptr<const LoadedCpuKernel>> kernels) {
  arena_ = AlignedBuffer(plan_.arena_bytes);
  for (const std::vector<std::byte>& bytes : plan_.constants) {
    constants_.emplace_back(static_cast<int64_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), constants_.back().data());
  }
  staging_.resize(plan_.staged.size());
  words_.resize(static_cast<size_t>(plan_.words) + 1);
  int64_t scratch_bytes = 0, workspace_bytes = 0;
  for (const auto& kernel : kernels) {
    scratch_bytes = std::max(scratch_bytes, kernel->scratch_bytes);
    workspace_bytes = std::max(workspace_bytes, kernel->workspace_bytes);
  }
  workspace_ = AlignedBuffer(workspace_bytes);
  for (int i = 0; i < pool_->threads(); ++i) scratch_.emplace_back(scratch_bytes);

  for (const RunStep& step : plan_.steps) {
    is_step_ |= step.op->kind() == ir::OpKind::Verdict;
    if (step.kernel < 0) continue;
    MEZZO_CHECK(bound_.size() < kernels.size(), "fewer kernels than kernel ops");
    Bound each;
    each.kernel = std::move(kernels[bound_.size()]);
    for (int64_t word : ir::kernel_words(*step.op))
      each.flags.push_back(&words_[static_cast<size_t>(word)]);
    each.flags.push_back(&index_flag());
    for (const ir::Op* op : ir::kernel_slots(*step.op)) each.integers.push_back(ir::slot_bits(*op));
    each.buffers.resize(step.buffers.size());
    if (each.kernel->workspace_bytes > 0) each.buffers.push_back(workspace_.data());
    int64_t tasks = 1;
    for (int64_t launch : each.kernel->tasks) tasks = std::max(tasks, launch);
    each.threads = static_cast<int>(std::clamp<int64_t>(
        work_of(*step.op) / kWorkPerThread, 1, std::min<int64_t>(tasks, pool_->threads())));
    bound_.push_back(std::move(each));
  }
  MEZZO_CHECK(bound_.size() == kernels.size(), "more kernels than kernel ops");
  // Addresses of vectors that move no more.
  for (Bound& each : bound_)
    each.args = {each.buffers.data(), each.flags.data(), each.integers.data()};
}

std::byte* CpuExecutable::result_pointer(size_t index) const {
  return results_[index] ? static_cast<std::byte*>(results_[index]) : staging_[index].data();
}

/// Fills in the pointers of all buffers; nothing to do when the caller passes those of the last
/// run.
void CpuExecutable::bind(std::span<void* const> new_parameters,
                         std::span<void* const> new_results) {
  if (!pointers_.empty() && std::ranges::equal(parameters_, new_parameters) &&
      std::ranges::equal(results_, new_results))
    return;
  check_pointers(function_, new_parameters, new_results);
  parameters_.assign(new_parameters.begin(), new_parameters.end());
  results_.assign(new_results.begin(), new_results.end());
  std::vector<ir::Value> values = function_.results();
  for (size_t i = 0; i < results_.size(); ++i)
    if (!results_[i] && !staging_[i].data() && (plan_.staged[i] || values[i].type().bytes() == 0))
      staging_[i] = AlignedBuffer(values[i].type().bytes());
  pointers_.clear();
  for (const BufferPlace& place : plan_.buffers) {
    size_t index = static_cast<size_t>(place.index);
    switch (place.kind) {
      case BufferPlace::Kind::Arena:
        pointers_.push_back(arena_.data() + place.index);
        break;
      case BufferPlace::Kind::Parameter:
        pointers_.push_back(static_cast<std::byte*>(parameters_[index]));
        break;
      case BufferPlace::Kind::Result:
        pointers_.push_back(result_pointer(index));
        break;
      case BufferPlace::Kind::Constant:
        pointers_.push_back(constants_[index].data());
        break;
    }
  }
  for (const RunStep& step : plan_.steps) {
    if (step.kernel < 0) continue;
    Bound& each = bound_[static_cast<size_t>(step.kernel)];
    for (size_t i = 0; i < step.buffers.size(); ++i)
      each.buffers[i] = pointers_[static_cast<size_t>(step.buffers[i])];
  }
}

void CpuExecutable::launch(const RunStep& step) {
  Bound& each = bound_[static_cast<size_t>(step.kernel)];
  for (size_t i = 0; i < each.kernel->tasks.size(); ++i) {
    const int64_t tasks = each.kernel->tasks[i];
    const codegen::KernelFunction function = each.kernel->functions[i];
    if (tasks == 0) continue;
    if (each.threads == 1 || tasks == 1) {
      function(&each.args, 0, tasks, scratch_[0].data());
      continue;
    }
    auto work = [&](int64_t first, int64_t last, int thread) {
      function(&each.args, first, last, scratch_[static_cast<size_t>(thread)].data());
    };
    pool_->run(tasks, work, each.threads);
  }
}

void CpuExecutable::logged_launch(const RunStep& step) {
  auto start = std::chrono::steady_clock::now();
  launch(step);
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  const Bound& each = bound_[static_cast<size_t>(step.kernel)];
  log_info(fmt::format("launch {}, {:.1f} us on {}", launch_text(*step.op, *each.kernel),
                       took.count(), ir::counted(each.threads, "thread")));
}

/// A clear word proves that the elements are finite. A set one does not prove the contrary, since
/// parts of an operation share it: then the memory decides.
void CpuExecutable::judge_finite(const RunStep& step) {
  bool finite = index_flag() == 0;
  for (const JudgedValue& value : step.judged) {
    if (!finite) break;
    if (value.word >= 0 &&
        !ir::has_flag(words_[static_cast<size_t>(value.word)], ir::FlagBit::NonFinite))
      continue;
    finite = all_finite(value.type, pointers_[static_cast<size_t>(value.buffer)]);
  }
  *pointers_[static_cast<size_t>(step.buffers.back())] = static_cast<std::byte>(finite);
}

void CpuExecutable::give_verdict(const RunStep& step) {
  ir::StepFacts facts;
  facts.words = std::span(words_).first(words_.size() - 1);
  facts.index_range = index_flag() != 0;
  facts.all_finite = *pointers_[static_cast<size_t>(step.buffers[0])] != std::byte{0};
  facts.loss_finite = plan_.loss < 0 || all_finite(function_.results()[0].type(),
                                                   pointers_[static_cast<size_t>(plan_.loss)]);
  int32_t verdict = 0;
  if (!facts.all_finite || !facts.loss_finite || facts.index_range) {
    if (!verdict_table_) verdict_table_ = ir::VerdictTable::from(function_);
    if (int scale = verdict_table_->scale_parameter; scale >= 0) {
      float value;
      std::memcpy(&value, parameters_[static_cast<size_t>(scale)], sizeof value);
      facts.scaled = value > 1;
    }
    facts.parameter_has_nonfinite = [&](int index) {
      return !all_finite(function_.parameter(index).type(),
                         parameters_[static_cast<size_t>(index)]);
    };
    verdict = ir::judge(*verdict_table_, facts);
  }
  std::memcpy(pointers_[static_cast<size_t>(step.buffers.back())], &verdict, sizeof verdict);
}

void CpuExecutable::log_numerics(std::span<const uint32_t> run_words) const {
  std::vector<HostArray> arrays;
  const std::vector<ir::Value> values = function_.results();
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* from = result_pointer(i);
    if (const ir::Value updated = function_.updated_parameter(static_cast<int>(i));
        updated && !from)
      from = static_cast<const std::byte*>(parameters_[static_cast<size_t>(updated.index())]);
    HostArray& array = arrays.emplace_back(values[i].type());
    if (from) std::copy_n(from, array.bytes().size(), array.bytes().data());
  }
  for (const std::string& line : numerics_lines(function_, run_words, arrays))
    log_info(fmt::format("numerics of @{}: {}", function_.name(), line));
}

std::vector<std::string> CpuExecutable::launch_lines() const {
  std::vector<std::string> lines;
  for (const RunStep& step : plan_.steps)
    if (step.kernel >= 0)
      lines.push_back(launch_text(*step.op, *bound_[static_cast<size_t>(step.kernel)].kernel));
  return lines;
}

RunStatus CpuExecutable::run(std::span<void* const> parameters, std::span<void* const> results) {
  bind(parameters, results);
  std::fill(words_.begin(), words_.end(), 0);
  for (const RunStep& step : plan_.steps) {
    if (step.kernel >= 0)
      log_.launches ? logged_launch(step) : launch(step);
    else if (step.op->kind() == ir::OpKind::AllFinite)
      judge_finite(step);
    else
      give_verdict(step);
  }
  for (const FinalCopy& copy : plan_.to_results) {
    size_t to = static_cast<size_t>(copy.to);
    if (std::byte* target = result_pointer(to); target && copy.bytes > 0)
      std::memcpy(target, pointers_[static_cast<size_t>(copy.from)],
                  static_cast<size_t>(copy.bytes));
  }
  for (const FinalCopy& copy : plan_.to_parameters)
    if (copy.bytes > 0)
      std::memmove(parameters_[static_cast<size_t>(copy.to)],
                   result_pointer(static_cast<size_t>(copy.from)), static_cast<size_t>(copy.bytes));
  RunStatus status;
  status.index_out_of_range = !is_step_ && index_flag() != 0;
  status.words = std::span<const uint32_t>(words_).first(words_.size() - 1);
  if (log_.numerics) log_numerics(status.words);
  return status;
}

}  // namespace

std::unique_ptr<Executable> make_cpu_executable(std::unique_ptr<ir::Module> module,
                                                const ir::Function& function,
                                                std::span<const StoredKernel> kernels,
                                                std::shared_ptr<ThreadPool> pool,
                                                const RunLog& log) {
  std::vector<std::shared_ptr<const LoadedCpuKernel>> loaded;
  for (const StoredKernel& each : kernels)
    loaded.push_back(std::static_pointer_cast<const LoadedCpuKernel>(each.kernel));
  return std::make_unique<CpuExecutable>(std::move(module), function, std::move(loaded),
                                         std::move(pool), log);
}

}  // namespace mezzo::runtime
