// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/cuda_module.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_error.h>
#include <mezzo/runtime/cuda_image.h>

#include <fmt/format.h>

#include <array>

namespace mezzo::runtime {

namespace detail {

struct CudaModuleData {
  CudaModuleData(std::shared_ptr<CudaContext> context, std::string name)
      : context(std::move(context)), name(std::move(name)) {}
  ~CudaModuleData() {
    if (!module) return;
    context->destroy([this] {
      // Its kernels may be under way. A graph that is recorded keeps those that it has.
      if (!context->recording()) context->driver().cuStreamSynchronize(context->stream());
      context->driver().cuModuleUnload(module);
    });
  }
  CudaModuleData(const CudaModuleData&) = delete;
  CudaModuleData& operator=(const CudaModuleData&) = delete;

  std::shared_ptr<CudaContext> context;
  std::string name;
  cuda::Module module = nullptr;
};

struct CudaKernelData {
  std::shared_ptr<CudaModuleData> module;
  cuda::Function function = nullptr;
  std::string name;
  CudaWorkName work;  // name and description
  int registers = 0, max_threads = 0;
  int64_t static_shared = 0, local = 0, max_dynamic_shared = 0;
};

}  // namespace detail

namespace {

constexpr size_t kLogBytes = 16 << 10;
// Registers are given to warps in units of this many.
constexpr int kRegisterUnit = 256;
constexpr int kWarp = 32;

/// `9.0` of the line `.version 9.0`, or "".
std::string ptx_version(std::string_view ptx) {
  constexpr std::string_view kWord = ".version ";
  const size_t at = ptx.find(kWord);
  if (at == std::string_view::npos) return "";
  ptx.remove_prefix(at + kWord.size());
  return std::string(ptx.substr(0, ptx.find_first_of(" \t\r\n")));
}

/// What the driver thinks of an image, in this program's words.
std::string load_details(cuda::Result code, const std::string& image, const std::string& name,
                         const CudaContext& context) {
  const int architecture = architecture_of_image(image);
  const CudaDeviceFacts& facts = context.facts();
  switch (code) {
    case cuda::NoBinaryForGpu:
    case cuda::InvalidImage:
      if (architecture == 0 || architecture == facts.compute_capability)
        return fmt::format("the image of {} cannot be read", name);
      return fmt::format("{} was compiled for sm_{}, and {} is of architecture sm_{}", name,
                         architecture, context.device_text(), facts.compute_capability);
    case cuda::UnsupportedPtxVersion:
      return fmt::format(
          "{} is PTX of version {}, which is newer than what the driver of CUDA {} "
          "can read",
          name, ptx_version(architecture ? ptx_of_image(image) : image),
          cuda_version_text(facts.driver_version));
    case cuda::InvalidPtx:
      return fmt::format("the driver's compiler refuses the PTX of {}", name);
    default:
      return "";
  }
}

std::string with_log(std::string text, std::string log) {
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log.empty() ? text : text + "\n" + log;
}

}  // namespace

CudaModule::CudaModule(std::shared_ptr<CudaContext> context, const std::string& image,
                       std::string name)
    : data_(std::make_shared<detail::CudaModuleData>(std::move(context), std::move(name))) {
  CudaContext& device = *data_->context;
  const CudaContext::Use use(device);
  std::string log(kLogBytes, '\0');
  std::array options{cuda::JitErrorLogBuffer, cuda::JitErrorLogBufferBytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  const cuda::Result code = device.driver().cuModuleLoadDataEx(
      &data_->module, image.data(), static_cast<unsigned>(options.size()), options.data(),
      values.data());
  if (code == cuda::Success) return;
  data_->module = nullptr;
  if (is_sticky(code)) device.check(code, "cuModuleLoadDataEx");
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  throw DeviceError(with_log(
      cuda_error_text("cuModuleLoadDataEx", code, load_details(code, image, data_->name, device)),
      log));
}

CudaKernel CudaModule::function(const std::string& entry, std::string description,
                                int64_t dynamic_shared_bytes) const {
  CudaContext& device = *data_->context;
  const CudaContext::Use use(device);
  const cuda::Driver& driver = device.driver();
  auto kernel = std::make_shared<detail::CudaKernelData>();
  kernel->module = data_;
  kernel->name = entry;
  kernel->work = std::make_shared<const std::string>(
      description.empty() ? fmt::format("kernel '{}'", entry)
                          : fmt::format("kernel '{}' ({})", entry, description));
  const cuda::Result code =
      driver.cuModuleGetFunction(&kernel->function, data_->module, entry.c_str());
  device.check(code, "cuModuleGetFunction",
               code == cuda::NotFound ? fmt::format("{} has no kernel '{}'", data_->name, entry)
                                      : std::string());
  const auto ask = [&](cuda::FunctionAttribute which) {
    int value = 0;
    device.check(driver.cuFuncGetAttribute(&value, which, kernel->function), "cuFuncGetAttribute");
    return value;
  };
  kernel->registers = ask(cuda::FunctionRegisters);
  kernel->max_threads = ask(cuda::FunctionMaxThreadsPerBlock);
  kernel->static_shared = ask(cuda::FunctionSharedBytes);
  kernel->local = ask(cuda::FunctionLocalBytes);
  const CudaDeviceFacts& facts = device.facts();
  const int64_t shared = kernel->static_shared + dynamic_shared_bytes;
  if (shared > facts.shared_bytes_per_block)
    throw DeviceError(fmt::format("{} needs {} bytes of shared memory a block, and {} has {}",
                                  *kernel->work, shared, device.device_text(),
                                  facts.shared_bytes_per_block));
  kernel->max_dynamic_shared = dynamic_shared_bytes;
  if (shared > facts.shared_bytes_without_asking)
    device.check(driver.cuFuncSetAttribute(kernel->function, cuda::FunctionMaxDynamicSharedBytes,
                                           static_cast<int>(dynamic_shared_bytes)),
                 "cuFuncSetAttribute");
  CudaKernel result;
  result.data_ = std::move(kernel);
  return result;
}

const std::string& CudaKernel::name() const { return data_->name; }
int CudaKernel::registers() const { return data_->registers; }
int64_t CudaKernel::static_shared_bytes() const { return data_->static_shared; }
int64_t CudaKernel::local_bytes() const { return data_->local; }
int CudaKernel::max_threads() const { return data_->max_threads; }

void CudaKernel::check_limits(CudaGrid blocks, int threads, int64_t dynamic_shared_bytes) const {
  const CudaContext& device = *data_->module->context;
  const CudaDeviceFacts& facts = device.facts();
  const auto refuse = [&](const std::string& what) {
    throw DeviceError(
        fmt::format("{} cannot be launched on {}: {}", *data_->work, device.device_text(), what));
  };
  if (threads < 1 || threads > facts.max_threads_per_block)
    refuse(fmt::format("{} a block, and the device allows 1 to {}", ir::counted(threads, "thread"),
                       facts.max_threads_per_block));
  const int warps = (threads + kWarp - 1) / kWarp;
  const int a_warp = (data_->registers * kWarp + kRegisterUnit - 1) / kRegisterUnit * kRegisterUnit;
  if (warps * a_warp > facts.registers_per_block)
    refuse(fmt::format("{} with {} a thread need {} of them, and a block has {}",
                       ir::counted(threads, "thread"), ir::counted(data_->registers, "register"),
                       warps * a_warp, facts.registers_per_block));
  if (threads > data_->max_threads)
    refuse(fmt::format("{} a block, and it was compiled for at most {}",
                       ir::counted(threads, "thread"), data_->max_threads));
  if (dynamic_shared_bytes > data_->max_dynamic_shared)
    refuse(fmt::format("{} of shared memory at launch, and it was loaded for at most {}",
                       ir::counted(dynamic_shared_bytes, "byte"), data_->max_dynamic_shared));
  if (blocks.x > facts.max_grid_x || blocks.y > facts.max_grid_y)
    refuse(fmt::format("{} x {} blocks, and the device allows {} x {}", blocks.x, blocks.y,
                       facts.max_grid_x, facts.max_grid_y));
}

void CudaKernel::launch(CudaGrid blocks, int threads, int64_t dynamic_shared_bytes,
                        std::span<const void* const> parameters) const {
  MEZZO_CHECK(blocks.x >= 0 && blocks.y >= 0 && dynamic_shared_bytes >= 0,
              fmt::format("{} is launched with {} x {} blocks and {} bytes of shared memory",
                          *data_->work, blocks.x, blocks.y, dynamic_shared_bytes));
  check_limits(blocks, threads, dynamic_shared_bytes);
  if (blocks.x == 0 || blocks.y == 0) return;
  CudaContext& device = *data_->module->context;
  const CudaContext::Use use(device);
  // The driver's signature has no const; it only reads.
  auto** values = const_cast<void**>(parameters.data());
  const cuda::Result code = device.driver().cuLaunchKernel(
      data_->function, static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y), 1,
      static_cast<unsigned>(threads), 1, 1, static_cast<unsigned>(dynamic_shared_bytes),
      device.stream(), values, nullptr);
  if (code != cuda::Success)
    device.check(
        code, "cuLaunchKernel",
        fmt::format("{} was refused on {}: {} x {} blocks of {}, {} a thread, {} of "
                    "shared memory a block",
                    *data_->work, device.device_text(), blocks.x, blocks.y,
                    ir::counted(threads, "thread"), ir::counted(data_->registers, "register"),
                    ir::counted(data_->static_shared + dynamic_shared_bytes, "byte")));
  device.launched(data_->work, data_);
}

}  // namespace mezzo::runtime
