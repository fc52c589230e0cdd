// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_device.h>

#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/kernel_region.h>

#include <algorithm>
#include <codegen/cuda_kernels.h>
#include <codegen/device_buffers.h>

namespace mezzo::test {

namespace {

constexpr uint64_t kCapacity = uint64_t{1} << 30;

}  // namespace

DeviceProgram::DeviceProgram(std::vector<std::unique_ptr<ir::Module>> modules,
                             const std::string& arch,
                             const std::function<std::string(const std::string& program)>& edit)
    : modules_(std::move(modules)), memory_(kCapacity) {
  const ir::Target target = ir::target_by_name(arch);
  for (size_t i = 0; i < modules_.size(); ++i)
    sources_.push_back(codegen::emit_cuda_kernel(*kernels_of(*modules_[i]).at(0), target,
                                                 "k" + std::to_string(i)));
  // A virtual architecture: the same PTX without the assembler's time.
  const std::string program = codegen::cuda_program(sources_);
  ptx_ = codegen::compile_cuda(edit ? edit(program) : program,
                               "compute_" + std::to_string(target.compute_capability))
             .ptx;
  loaded_ = std::make_unique<ptx::Module>(ptx_, memory_);
}

ir::RunResult DeviceProgram::run(size_t number, std::span<const ir::InterpreterTensor> inputs,
                                 const ptx::Options& options, std::vector<ptx::Counters>* counters,
                                 std::span<const size_t> in_place) const {
  std::vector<std::vector<std::byte>> bytes;
  for (const ir::InterpreterTensor& input : inputs) {
    bytes.emplace_back(static_cast<size_t>(input.type.bytes()));
    ir::to_bytes(input, bytes.back());
  }
  return run_bytes(number, bytes, options, counters, in_place);
}

ir::RunResult DeviceProgram::run_bytes(size_t number,
                                       std::span<const std::vector<std::byte>> inputs,
                                       const ptx::Options& options,
                                       std::vector<ptx::Counters>* counters,
                                       std::span<const size_t> in_place) const {
  const ir::Op& kernel = *kernels_of(*modules_[number]).at(0);
  const codegen::CudaSource& source = sources_[number];
  DeviceBuffers buffers(memory_);
  std::vector<uint64_t> values;
  for (const std::vector<std::byte>& input : inputs)
    values.push_back(buffers.add(std::span<const std::byte>(input)));
  const size_t first_result = values.size();
  for (int r = 0; r < kernel.num_results(); ++r)
    values.push_back(in_place.empty() ? buffers.add(kernel.result(r).type().bytes())
                                      : values[in_place[static_cast<size_t>(r)]]);
  const std::vector<int64_t> numbers = ir::kernel_words(kernel);
  const size_t first_word = values.size();
  const uint32_t clear = 0;
  for (size_t i = 0; i < numbers.size() + (source.checks_index ? 1 : 0); ++i)
    values.push_back(buffers.add(std::span(&clear, 1)));
  for (const ir::Op* op : ir::kernel_slots(kernel))
    values.push_back(static_cast<uint64_t>(ir::slot_bits(*op)));
  if (source.workspace_bytes > 0) values.push_back(buffers.add(source.workspace_bytes));
  const size_t word_end = first_word + numbers.size();
  std::vector<uint64_t> arguments = values;
  if (source.indirect) arguments = {buffers.add(std::span<const uint64_t>(values))};
  for (const codegen::CudaLaunch& launch : source.launches) {
    if (launch.blocks == 0) continue;
    const ptx::Kernel entry = loaded_->kernel(launch.entry);
    ptx::Counters counted = entry.launch(
        memory_, {static_cast<uint32_t>(launch.blocks)}, {static_cast<uint32_t>(launch.threads)},
        static_cast<uint32_t>(launch.shared_bytes), parameter_bytes(entry, arguments), options);
    if (counters) counters->push_back(std::move(counted));
  }

  auto word = [&](size_t index) { return buffers.read<uint32_t>(values[index]); };
  ir::RunResult out;
  for (int r = 0; r < kernel.num_results(); ++r) {
    const ir::Type& type = kernel.result(r).type();
    out.results.push_back(ir::from_bytes(
        type, buffers.bytes(values[first_result + static_cast<size_t>(r)], type.bytes())));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto place = static_cast<size_t>(numbers[i]);
    if (out.words.size() <= place) out.words.resize(place + 1);
    out.words[place] = word(first_word + i);
  }
  out.index_range = source.checks_index && word(word_end) != 0;
  return out;
}

}  // namespace mezzo::test
