// SPDX-License-Identifier: Apache-2.0
#include <gpu/micro_device.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_error.h>
#include <mezzo/runtime/cuda_memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mezzo::gpu {

namespace cuda = runtime::cuda;
using ptx::test::MicroLaunch;

namespace {

/// Version of PTX that a driver of CUDA 12.x reads: 8.0 of 12.0 and so on, but no new one in 12.6.
int ptx_version(int driver_version) {
  if (driver_version >= 13000) return 88;
  const int minor = driver_version % 1000 / 10;
  return 80 + std::min(minor >= 6 ? minor - 1 : minor, 8);
}

struct LoadedModule {
  LoadedModule(runtime::CudaContext& context, const std::string& text) : context(context) {
    std::string log(8 << 10, '\0');
    std::array options{cuda::JitErrorLogBuffer, cuda::JitErrorLogBufferBytes};
    std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
    const cuda::Result code = context.driver().cuModuleLoadDataEx(
        &module, text.c_str(), static_cast<unsigned>(options.size()), options.data(),
        values.data());
    if (code == cuda::Success) return;
    module = nullptr;
    log.resize(std::min(log.find('\0'), log.size()));
    if (means_not_here(log)) throw NotOnThisDevice(log.substr(0, log.find('\n')));
    context.check(code, "cuModuleLoadDataEx", log);
  }
  ~LoadedModule() {
    if (module) context.destroy([this] { context.driver().cuModuleUnload(module); });
  }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  runtime::CudaContext& context;
  cuda::Module module = nullptr;
};

}  // namespace

std::string ptx_header(int driver_version, int compute_capability) {
  const int version = ptx_version(driver_version);
  return fmt::format(".version {}.{}\n.target sm_{}{}\n", version / 10, version % 10,
                     compute_capability, compute_capability >= 90 ? "a" : "");
}

bool means_not_here(std::string_view log) {
  for (const char* words : {"requires .target", "requires PTX ISA", "not supported on .target",
                            "not supported for target", "requires sm_"})
    if (log.find(words) != std::string_view::npos) return true;
  return false;
}

void renew_after_fault(int ordinal) {
  if (!runtime::cuda_context(ordinal)->fault().empty()) runtime::release_cuda_context(ordinal);
}

std::vector<std::vector<std::byte>> MicroDevice::run(const MicroLaunch& launch) {
  try {
    return run_on(runtime::cuda_context(ordinal_), launch);
  } catch (const DeviceError&) {
    renew_after_fault(ordinal_);
    throw;
  }
}

std::vector<std::vector<std::byte>> MicroDevice::run_on(
    const std::shared_ptr<runtime::CudaContext>& context, const MicroLaunch& launch) {
  std::vector<runtime::DeviceBuffer> buffers;
  std::vector<cuda::DevicePointer> addresses;
  for (const std::vector<std::byte>& bytes : launch.buffers) {
    buffers.push_back(context->allocate(std::max<size_t>(bytes.size(), 1), "a micro-test"));
    if (!bytes.empty()) buffers.back().upload(bytes.data(), bytes.size());
    addresses.push_back(buffers.back().address());
  }
  std::vector<void*> parameters;
  for (cuda::DevicePointer& address : addresses) parameters.push_back(&address);
  const runtime::CudaDeviceFacts& facts = context->facts();
  const std::string text =
      ptx::test::program(launch.body, static_cast<int>(addresses.size()), launch.declarations,
                         ptx_header(facts.driver_version, facts.compute_capability));
  std::vector<std::vector<std::byte>> after;
  {
    const runtime::CudaContext::Use use(*context);
    const LoadedModule loaded(*context, text);
    cuda::Function function = nullptr;
    context->check(context->driver().cuModuleGetFunction(&function, loaded.module, "k"),
                   "cuModuleGetFunction");
    context->check(context->driver().cuLaunchKernel(function, launch.grid.x, launch.grid.y,
                                                    launch.grid.z, launch.block.x, launch.block.y,
                                                    launch.block.z, launch.dynamic_shared,
                                                    context->stream(), parameters.data(), nullptr),
                   "cuLaunchKernel");
    context->launched(std::make_shared<const std::string>("micro-test of " + launch.op));
    for (size_t i = 0; i < buffers.size(); ++i) {
      after.emplace_back(launch.buffers[i].size());
      if (!after.back().empty()) buffers[i].download(after.back().data(), after.back().size());
    }
  }
  return after;
}

}  // namespace mezzo::gpu
