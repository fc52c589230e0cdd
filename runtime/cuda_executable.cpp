// SPDX-License-Identifier: Apache-2.0
// Addresses, the recorded graph, and the run: inputs are copied into buffers of the executable,
// parameters and state are used where the model has them, small results are on their way to the
// host when the run returns.
#include <mezzo/runtime/cuda_executable.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/runtime/activation_text.h>
#include <mezzo/runtime/binding.h>
#include <mezzo/runtime/cuda_arrays.h>
#include <mezzo/runtime/cuda_graph.h>
#include <mezzo/runtime/cuda_kernels.h>
#include <mezzo/runtime/cuda_step.h>
#include <mezzo/runtime/launch_text.h>
#include <mezzo/runtime/log.h>
#include <mezzo/runtime/numerics_text.h>
#include <mezzo/runtime/run_plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace mezzo::runtime {

namespace {

using cuda::DevicePointer;

/// Results up to this size go to the host with every run; others when somebody looks.
constexpr int64_t kSmallResult = 16 << 10;
/// Inputs go through pinned memory, and so does state that the host has changed, up to this size.
constexpr int64_t kMostStagedState = 16 << 20;

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(std::unique_ptr<ir::Module> module, const ir::Function& function,
                 std::span<const StoredKernel> kernels, std::shared_ptr<CudaContext> context,
                 const RunLog& log, bool disk)
      : module_(std::move(module)),
        function_(function),
        plan_(RunPlan::from(function)),
        context_(std::move(context)),
        log_(log) {
    prepare(kernels, disk);
  }

  const ir::Module& module() const override { return *module_; }
  const ir::Function& function() const override { return function_; }
  int64_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t kernels() const override { return static_cast<int64_t>(bound_.size()); }
  std::vector<std::string> launch_lines() const override;
  RunStatus run(std::span<void* const> parameters, std::span<void* const> results) override;
  IndexFlag run(std::span<const Binding> parameters, std::span<HostArray* const> results) override;

 private:
  /// A kernel with the values of its parameters, 8 bytes each.
  struct Bound {
    std::shared_ptr<const LoadedCudaKernel> kernel;
    const RunStep* step = nullptr;
    std::vector<uint64_t> values;
    DeviceBuffer table;  // of `values`, where the kernel is indirect
    uint64_t table_address = 0;
    std::vector<const void*> pointers;  // what a launch takes
  };

  void prepare(std::span<const StoredKernel> kernels, bool disk);
  DeviceBuffer allocate(int64_t bytes, const std::string& what) {
    return context_->allocate(static_cast<size_t>(bytes),
                              fmt::format("{} of @{}", what, function_.name()));
  }
  /// A parameter that is used where the model has it.
  bool is_shared(int parameter) const {
    return function_.is_param(parameter) || function_.is_state(parameter);
  }
  /// `%w (tensor<784x512xf32>)`
  std::string parameter_text(int index) const {
    const ir::Value value = function_.parameter(index);
    return fmt::format("%{} ({})", value.name(), to_string(value.type()));
  }
  DevicePointer word(int64_t number) const {
    return words_.address() + static_cast<uint64_t>(number) * sizeof(uint32_t);
  }
  DevicePointer index_flag() const { return word(plan_.words); }
  DevicePointer address(int buffer) const;
  void upload_inputs(std::span<const Binding> parameters);
  std::shared_ptr<CudaCopy> shared_copy(int parameter, const Binding& binding);
  void bind();
  /// Puts everything that happens between the copies in and out on the stream; `launch` is called
  /// for each kernel.
  template <class Launch>
  void enqueue(Launch launch);
  void launch(const Bound& bound) const;
  std::vector<std::shared_ptr<CudaCopy>> copies_for(std::span<HostArray* const> results) const;
  IndexFlag copy_results(std::span<const Binding> parameters, std::span<HostArray* const> results,
                         std::span<const std::shared_ptr<CudaCopy>> copies);
  void log_launches();
  void log_numerics(std::span<const Binding> parameters, std::span<HostArray* const> results);
  std::vector<uint32_t> read_words() const;

  std::unique_ptr<ir::Module> module_;
  const ir::Function& function_;
  RunPlan plan_;
  std::shared_ptr<CudaContext> context_;
  RunLog log_;
  bool stale_ = true;           // an address is another one than the graph and the tables have
  bool is_step_ = false;        // holds a verdict, which then tells of bad indices
  bool checks_index_ = false;   // some kernel does
  std::vector<uint32_t> read_;  // words of the last run by pointers

  DeviceBuffer arena_, workspace_, words_;         // words, and the index-range flag behind them
  std::vector<DeviceBuffer> constants_;            // by number
  std::vector<DeviceBuffer> inputs_;               // by parameter; none for those that are shared
  std::vector<DeviceBuffer> results_;              // by result; none for those updated in place
  std::vector<std::shared_ptr<CudaCopy>> shared_;  // by parameter: where the graph finds it
  std::vector<Bound> bound_;                       // by kernel
  std::unique_ptr<CudaStep> step_;                 // finite check and verdict, where there are any
  std::optional<UploadRing> uploads_;
  std::optional<Readback> readback_;
  std::optional<CudaGraph> graph_;
};

void CudaExecutable::prepare(std::span<const StoredKernel> kernels, bool disk) {
  arena_ = context_->allocate(static_cast<size_t>(plan_.arena_bytes),
                              activations_text(function_, plan_));
  words_ = allocate((plan_.words + 1) * static_cast<int64_t>(sizeof(uint32_t)), "flag words");
  for (const std::vector<std::byte>& bytes : plan_.constants) {
    constants_.push_back(allocate(static_cast<int64_t>(bytes.size()), "a constant"));
    if (!bytes.empty()) constants_.back().upload(bytes.data(), bytes.size());
  }
  int64_t staged_inputs = 0, staged_state = 0;
  for (int i = 0; i < function_.num_parameters(); ++i) {
    const int64_t bytes = function_.parameter(i).type().bytes();
    inputs_.push_back(is_shared(i) ? DeviceBuffer()
                                   : allocate(bytes, "input " + parameter_text(i)));
    (is_shared(i) ? staged_state : staged_inputs) += pinned_bytes(bytes);
  }
  shared_.resize(inputs_.size());
  int64_t small = pinned_bytes(sizeof(uint32_t));  // the index flag
  const std::vector<ir::Value> values = function_.results();
  for (int i = 0; i < function_.num_results(); ++i) {
    const auto place = static_cast<size_t>(i);
    const int64_t bytes = values[place].type().bytes();
    const bool own = !function_.updated_parameter(i) || plan_.staged[place];
    results_.push_back(
        own ? allocate(bytes, fmt::format("result {} ({})", i, to_string(values[place].type())))
            : DeviceBuffer());
    if (bytes <= kSmallResult) small += pinned_bytes(bytes);
  }
  uploads_.emplace(context_,
                   static_cast<size_t>(staged_inputs + std::min(staged_state, kMostStagedState)));
  readback_.emplace(context_, static_cast<size_t>(small));

  int64_t workspace = 0;
  for (const StoredKernel& each : kernels)
    workspace = std::max(workspace, each.kernel->workspace_bytes);
  workspace_ = allocate(workspace, "workspace");
  for (const RunStep& step : plan_.steps) {
    is_step_ |= step.op->kind() == ir::OpKind::Verdict;
    if (step.kernel < 0) continue;
    MEZZO_CHECK(bound_.size() < kernels.size(), "fewer kernels than kernel ops");
    Bound each;
    each.kernel = std::static_pointer_cast<const LoadedCudaKernel>(kernels[bound_.size()].kernel);
    each.step = &step;
    checks_index_ |= each.kernel->checks_index;
    bound_.push_back(std::move(each));
  }
  MEZZO_CHECK(bound_.size() == kernels.size(), "more kernels than kernel ops");
  step_ = CudaStep::make(context_, function_, plan_, disk);
}

DevicePointer CudaExecutable::address(int buffer) const {
  const BufferPlace& place = plan_.buffers[static_cast<size_t>(buffer)];
  const auto index = static_cast<size_t>(place.index);
  switch (place.kind) {
    case BufferPlace::Kind::Arena:
      return arena_.address() + index;
    case BufferPlace::Kind::Parameter:
      return shared_[index] ? shared_[index]->address() : inputs_[index].address();
    case BufferPlace::Kind::Result:
      return results_[index].address();
    case BufferPlace::Kind::Constant:
      break;
  }
  return constants_[index].address();
}

/// Fills in the parameters of all kernels.
void CudaExecutable::bind() {
  for (Bound& each : bound_) {
    const RunStep& step = *each.step;
    each.values.clear();
    for (int buffer : step.buffers) each.values.push_back(address(buffer));
    for (int64_t number : ir::kernel_words(*step.op)) each.values.push_back(word(number));
    if (each.kernel->checks_index) each.values.push_back(index_flag());
    for (const ir::Op* op : ir::kernel_slots(*step.op))
      each.values.push_back(static_cast<uint64_t>(ir::slot_bits(*op)));
    if (each.kernel->workspace_bytes > 0) each.values.push_back(workspace_.address());
    each.pointers.clear();
    if (each.kernel->indirect) {
      const size_t bytes = each.values.size() * sizeof(uint64_t);
      if (each.table.bytes() != bytes)
        each.table = allocate(static_cast<int64_t>(bytes), "parameters of a kernel");
      each.table.upload(each.values.data(), bytes);
      each.table_address = each.table.address();
      each.pointers.push_back(&each.table_address);
    } else {
      for (const uint64_t& value : each.values) each.pointers.push_back(&value);
    }
  }
  if (step_) {
    CudaStep::Addresses addresses;
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      addresses.buffers.push_back(address(static_cast<int>(i)));
    for (size_t i = 0; i < shared_.size(); ++i)
      addresses.parameters.push_back(shared_[i] ? shared_[i]->address() : inputs_[i].address());
    addresses.words = words_.address();
    step_->bind(addresses);
  }
}

void CudaExecutable::launch(const Bound& bound) const {
  for (const LoadedCudaKernel::Launch& launch : bound.kernel->launches)
    if (launch.blocks > 0)
      launch.kernel.launch(launch.blocks, launch.threads, launch.shared_bytes, bound.pointers);
}

template <class Launch>
void CudaExecutable::enqueue(Launch launch) {
  context_->fill(words_.address(), 0, words_.bytes());
  for (const RunStep& step : plan_.steps) {
    if (step.kernel >= 0)
      launch(bound_[static_cast<size_t>(step.kernel)]);
    else
      step_->launch(step);
  }
  for (const FinalCopy& copy : plan_.to_results)
    if (const DeviceBuffer& to = results_[static_cast<size_t>(copy.to)];
        to.address() && copy.bytes > 0)
      context_->copy_on_device(to.address(), address(copy.from), static_cast<size_t>(copy.bytes));
  for (const FinalCopy& copy : plan_.to_parameters)
    if (copy.bytes > 0)
      context_->copy_on_device(shared_[static_cast<size_t>(copy.to)]->address(),
                               results_[static_cast<size_t>(copy.from)].address(),
                               static_cast<size_t>(copy.bytes));
}

/// The copy of a parameter or state, with the bytes that the array has now.
std::shared_ptr<CudaCopy> CudaExecutable::shared_copy(int parameter, const Binding& binding) {
  const HostArray& array = binding.array();
  auto [copy, current] = copy_of(array, *context_);
  if (copy && current) return copy;
  // One that nobody else knows any more: the graph keeps its address.
  if (const auto& last = shared_[static_cast<size_t>(parameter)]; !copy && last.use_count() == 1)
    copy = last;
  if (!copy)
    copy = std::make_shared<CudaCopy>(context_, function_.parameter(parameter).type().bytes(),
                                      parameter_text(parameter));
  uploads_->copy(copy->address(), array.bytes());
  if (HostArray* updated = binding.updated()) updated->set_device_copy(copy, false);
  return copy;
}

void CudaExecutable::upload_inputs(std::span<const Binding> parameters) {
  uploads_->begin();
  for (int i = 0; i < function_.num_parameters(); ++i) {
    const auto place = static_cast<size_t>(i);
    const Binding& binding = parameters[place];
    if (is_shared(i)) {
      std::shared_ptr<CudaCopy> copy = shared_copy(i, binding);
      stale_ |= !shared_[place] || shared_[place]->address() != copy->address();
      shared_[place] = std::move(copy);
      continue;
    }
    const auto [copy, current] = copy_of(binding.array(), *context_);
    const DeviceBuffer& to = inputs_[place];
    if (copy && current && to.bytes() > 0)
      context_->copy_on_device(to.address(), copy->address(), to.bytes());
    else
      uploads_->copy(to.address(), binding.array().bytes());
  }
  uploads_->end();
  if (!stale_) return;
  graph_.reset();
  bind();
  stale_ = false;
}

/// Device memory for results that nobody may look at, before anything is launched: a lack of it
/// then leaves everything as it was.
std::vector<std::shared_ptr<CudaCopy>> CudaExecutable::copies_for(
    std::span<HostArray* const> results) const {
  std::vector<std::shared_ptr<CudaCopy>> copies(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i] || results[i]->type.bytes() <= kSmallResult) continue;
    copies[i] = copy_of(*results[i], *context_).copy;
    if (!copies[i])
      copies[i] = std::make_shared<CudaCopy>(context_, results[i]->type.bytes(),
                                             fmt::format("result {} of @{}", i, function_.name()));
  }
  return copies;
}

IndexFlag CudaExecutable::copy_results(std::span<const Binding> parameters,
                                       std::span<HostArray* const> results,
                                       std::span<const std::shared_ptr<CudaCopy>> copies) {
  // What was launched happens, whatever fails below.
  for (int i = 0; i < function_.num_results(); ++i)
    if (const ir::Value updated = function_.updated_parameter(i)) {
      const auto parameter = static_cast<size_t>(updated.index());
      parameters[parameter].updated()->set_device_copy(shared_[parameter], true);
    }
  std::vector<std::shared_ptr<DeviceCopy>> made(results.size());
  readback_->begin();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    const ir::Value updated = function_.updated_parameter(static_cast<int>(i));
    const DevicePointer from =
        updated ? shared_[static_cast<size_t>(updated.index())]->address() : results_[i].address();
    const auto bytes = static_cast<size_t>(results[i]->type.bytes());
    if (!copies[i]) {
      made[i] = readback_->copy(from, bytes);
      continue;
    }
    context_->copy_on_device(copies[i]->address(), from, bytes);
    made[i] = copies[i];
  }
  IndexFlag flag;
  if (!is_step_ && checks_index_) flag = IndexFlag(readback_->copy(index_flag(), sizeof(uint32_t)));
  readback_->end();
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) results[i]->set_device_copy(std::move(made[i]), true);
  return flag;
}

IndexFlag CudaExecutable::run(std::span<const Binding> parameters,
                              std::span<HostArray* const> results) {
  check_bindings(function_, parameters, results);
  const std::vector<std::shared_ptr<CudaCopy>> copies = copies_for(results);
  upload_inputs(parameters);
  const auto launch_all = [&] { enqueue([&](const Bound& bound) { launch(bound); }); };
  if (log_.launches) {
    log_launches();
  } else if (context_->blocking()) {
    launch_all();  // one by one, so that a fault has one kernel
  } else {
    if (!graph_) graph_.emplace(context_, "@" + function_.name(), launch_all);
    graph_->launch();
  }
  IndexFlag flag = copy_results(parameters, results, copies);
  if (log_.numerics) log_numerics(parameters, results);
  return flag;
}

RunStatus CudaExecutable::run(std::span<void* const> parameters, std::span<void* const> results) {
  check_pointers(function_, parameters, results);
  std::vector<HostArray> in, out;
  std::vector<HostArray*> out_pointers;
  const auto bytes_at = [](void* from, const ir::Type& type) {
    const auto* first = static_cast<const std::byte*>(from);
    return std::vector<std::byte>(first, first + type.bytes());
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::Type& type = function_.parameter(static_cast<int>(i)).type();
    in.emplace_back(type).bytes() = bytes_at(parameters[i], type);
  }
  for (ir::Value value : function_.results()) out.emplace_back(value.type());
  // A result without elements may have no memory.
  for (size_t i = 0; i < out.size(); ++i)
    out_pointers.push_back(results[i] || out[i].type.bytes() == 0 ? &out[i] : nullptr);
  const std::vector<Binding> bound(in.begin(), in.end());
  RunStatus status;
  status.index_out_of_range = run(bound, out_pointers).raised();
  read_ = read_words();
  status.words = std::span(read_).first(read_.size() - 1);
  const std::vector<bool> updated = updated_parameters(function_);
  const auto write = [](const HostArray& array, void* to) {
    std::copy(array.bytes().begin(), array.bytes().end(), static_cast<std::byte*>(to));
  };
  for (size_t i = 0; i < in.size(); ++i)
    if (updated[i]) write(std::as_const(in[i]), parameters[i]);
  for (size_t i = 0; i < out.size(); ++i)
    if (results[i]) write(std::as_const(out[i]), results[i]);
  return status;
}

/// Without the graph, one kernel after the other, so that each can be timed.
void CudaExecutable::log_launches() {
  CudaEvent start(context_, true), end(context_, true);
  enqueue([&](const Bound& bound) {
    start.record();
    launch(bound);
    end.record();
    end.wait();
    log_info(fmt::format("launch {}, {:.1f} us", launch_text(*bound.step->op, *bound.kernel),
                         1e3 * end.milliseconds_since(start)));
  });
}

std::vector<uint32_t> CudaExecutable::read_words() const {
  std::vector<uint32_t> words(words_.bytes() / sizeof(uint32_t));
  words_.download(words.data(), words_.bytes());
  return words;
}

void CudaExecutable::log_numerics(std::span<const Binding> parameters,
                                  std::span<HostArray* const> results) {
  const std::vector<uint32_t> words = read_words();
  std::vector<HostArray> arrays;
  for (int i = 0; i < function_.num_results(); ++i) {
    const auto place = static_cast<size_t>(i);
    if (results[place])
      arrays.push_back(*results[place]);
    else
      arrays.push_back(
          parameters[static_cast<size_t>(function_.updated_parameter(i).index())].array());
  }
  for (const std::string& line :
       numerics_lines(function_, std::span(words).first(words.size() - 1), arrays))
    log_info(fmt::format("numerics of @{}: {}", function_.name(), line));
}

std::vector<std::string> CudaExecutable::launch_lines() const {
  std::vector<std::string> lines;
  for (const Bound& each : bound_) lines.push_back(launch_text(*each.step->op, *each.kernel));
  return lines;
}

}  // namespace

std::unique_ptr<Executable> make_cuda_executable(std::unique_ptr<ir::Module> module,
                                                 const ir::Function& function,
                                                 std::span<const StoredKernel> kernels,
                                                 std::shared_ptr<CudaContext> context,
                                                 const RunLog& log, bool disk) {
  return std::make_unique<CudaExecutable>(std::move(module), function, kernels, std::move(context),
                                          log, disk);
}

}  // namespace mezzo::runtime
