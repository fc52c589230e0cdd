// SPDX-License-Identifier: Apache-2.0
#include <gpu/timed_function.h>

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/runtime/compiler.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <unordered_map>

namespace mezzo::gpu {

using runtime::DeviceBuffer;

namespace {

constexpr int kWarmUp = 3, kFewest = 5;
constexpr double kBatchSeconds = 250e-6;
/// What numbers are drawn for; larger tensors repeat them.
constexpr int64_t kDrawn = 1 << 20;

/// Random, never zeros: a GPU draws less power on zeros and is faster then.
std::vector<std::byte> draw(const ir::Type& type, int64_t range, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const int64_t count = std::min(type.elements(), kDrawn);
  const auto size = static_cast<size_t>(ir::byte_size(type.dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    switch (type.dtype) {
      case ir::DType::F32:
        value = std::bit_cast<uint32_t>(uniform(engine));
        break;
      case ir::DType::F16:
        value = ir::f32_to_f16(uniform(engine));
        break;
      case ir::DType::BF16:
        value = ir::f32_to_bf16(uniform(engine));
        break;
      default:
        MEZZO_CHECK(!ir::is_float(type.dtype), "nothing is measured in f64");
        value = engine() % static_cast<uint64_t>(range);
    }
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, &value, size);
  }
  return bytes;
}

}  // namespace

double median_seconds(const std::shared_ptr<runtime::CudaContext>& context, double seconds,
                      const std::function<void()>& work) {
  runtime::CudaEvent start(context, true), end(context, true);
  const auto timed = [&](int calls) {
    start.record();
    for (int i = 0; i < calls; ++i) work();
    end.record();
    end.wait();
    return 1e-3 * end.milliseconds_since(start) / calls;
  };
  timed(kWarmUp);
  const double once = std::max(timed(1), 1e-7);
  const int calls = std::clamp(static_cast<int>(std::ceil(kBatchSeconds / once)), 1, 200);
  std::vector<double> times;
  for (double spent = 0; spent < seconds || times.size() < kFewest;) {
    times.push_back(timed(seconds > 0 ? calls : 1));
    spent += times.back() * calls;
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

double seconds_a_row(bool quick) { return quick ? 0 : 0.3; }

TimedFunction::TimedFunction(std::shared_ptr<runtime::CudaContext> context,
                             std::unique_ptr<ir::Module> module, int64_t range)
    : context_(std::move(context)) {
  runtime::CompileOptions options;
  options.device = {runtime::DeviceId::Kind::Cuda, context_->facts().ordinal};
  options.disk_cache = false;
  const std::string name(module->functions()[0]->name());
  // The plans are the product's; its memory and copies are not what is measured.
  const std::unique_ptr<ir::Module> planned =
      runtime::compile(std::move(module), name, options)->module().clone();
  const ir::Function& function = *planned->function(name);

  std::unordered_map<const ir::ValueDef*, uint64_t> addresses;
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Value parameter = function.parameter(i);
    buffers_.push_back(filled(parameter.type(), range, static_cast<uint64_t>(i + 1)));
    addresses[parameter.def()] = buffers_.back().address();
    bytes_ += parameter.type().bytes();
  }
  for (const ir::Value result : function.results()) bytes_ += result.type().bytes();
  for (const ir::Op& op : function.body()) {
    if (op.num_results() == 0) continue;
    MEZZO_CHECK(op.kind() == ir::OpKind::Kernel,
                fmt::format("@{} has more than kernels: {}", name, op.info().name));
    for (const ir::Value result : op.results()) {
      buffers_.push_back(
          context_->allocate(static_cast<size_t>(result.type().bytes()), "a measured kernel"));
      addresses[result.def()] = buffers_.back().address();
    }
    add_kernel(op, [&](ir::Value value) { return addresses.at(value.def()); });
  }
}

DeviceBuffer TimedFunction::filled(const ir::Type& type, int64_t range, uint64_t seed) {
  DeviceBuffer buffer = context_->allocate(static_cast<size_t>(type.bytes()), "a measured kernel");
  const std::vector<std::byte> drawn = draw(type, range, seed);
  for (size_t offset = 0; offset < buffer.bytes(); offset += drawn.size())
    buffer.upload(drawn.data(), std::min(drawn.size(), buffer.bytes() - offset), offset);
  return buffer;
}

void TimedFunction::add_kernel(const ir::Op& kernel,
                               const std::function<uint64_t(ir::Value)>& address) {
  const runtime::CudaBackend backend(context_);
  const auto start = std::chrono::steady_clock::now();
  const runtime::KernelImage image =
      backend.compile(kernel, fmt::format("measured{}", kernels_.size()));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (kernels_.empty()) compile_milliseconds_ = took.count();
  auto launches = std::make_unique<Launches>();
  launches->kernel =
      std::static_pointer_cast<runtime::LoadedCudaKernel>(backend.load(image, kernel));
  std::vector<uint64_t>& values = launches->values;
  for (const ir::Value operand : kernel.operands()) values.push_back(address(operand));
  for (const ir::Value result : kernel.results()) values.push_back(address(result));
  const size_t words = ir::kernel_words(kernel).size() + (image.checks_index ? 1 : 0);
  for (size_t i = 0; i < words; ++i) {
    buffers_.push_back(context_->allocate(sizeof(uint32_t), "a flag word"));
    context_->fill(buffers_.back().address(), 0, buffers_.back().bytes());
    values.push_back(buffers_.back().address());
  }
  for (const ir::Op* slot : ir::kernel_slots(kernel))
    values.push_back(static_cast<uint64_t>(ir::slot_bits(*slot)));
  if (image.workspace_bytes > 0) {
    buffers_.push_back(context_->allocate(static_cast<size_t>(image.workspace_bytes), "workspace"));
    values.push_back(buffers_.back().address());
  }
  launches->arguments = values;
  if (image.indirect) {
    launches->table = context_->allocate(values.size() * sizeof(uint64_t), "parameters");
    launches->table.upload(values.data(), launches->table.bytes());
    launches->arguments = {launches->table.address()};
  }
  for (const uint64_t& value : launches->arguments) launches->pointers.push_back(&value);
  kernels_.push_back(std::move(launches));
}

void TimedFunction::launch() const {
  for (const auto& each : kernels_)
    for (const runtime::LoadedCudaKernel::Launch& launch : each->kernel->launches)
      launch.kernel.launch(launch.blocks, launch.threads, launch.shared_bytes, each->pointers);
}

double TimedFunction::median_seconds(double seconds) const {
  return gpu::median_seconds(context_, seconds, [this] { launch(); });
}

}  // namespace mezzo::gpu
