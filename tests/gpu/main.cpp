// SPDX-License-Identifier: Apache-2.0
// `mezzo-gpu-conformance` holds a GPU against the interpreter and the CPU back end and measures it;
// README.md says what is in the result file. kUsage says how it is called.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/cuda_driver.h>

#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <filesystem>
#include <fstream>
#include <gpu/report.h>
#include <string_view>
#include <vector>

using namespace mezzo;

namespace {

constexpr int kSkipped = 77;  // ctest knows this code

constexpr const char* kUsage =
    R"(usage: mezzo-gpu-conformance [instructions|kernels|training|speed]... [--device=N] [--output=DIR]
                             [--quick] [--fake]
Without a word everything is run. The results are written to DIR/gpu-results-DEVICE.json.
Exit codes: 0 all right, 1 something is not, 2 an error, 77 no GPU.
  --device=N    number of the device; 0 if not given
  --output=DIR  folder of the result file; the current one if not given
  --quick       small sizes and a share of the cases: what a run on the fake driver takes
  --fake        run on the fake driver too (tests/ptx/README.md), else it counts as no GPU
)";

constexpr std::pair<std::string_view, void (*)(const gpu::Options&, gpu::Report&)> kParts[] = {
    {"instructions", gpu::check_instructions},
    {"kernels", gpu::check_kernels},
    {"training", gpu::check_training},
    {"speed", gpu::measure_speed},
};

/// Whether the library that the product opens is that of tests/ptx.
bool is_fake_driver() {
  const char* named = std::getenv("MEZZO_CUDA_LIBRARY");
  void* library = dlopen(named && *named ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  const bool fake = dlsym(library, "mezzo_fake_count") != nullptr;
  dlclose(library);
  return fake;
}

/// "" where there is a GPU that can be tried.
std::string missing(bool fake_counts) {
  std::string reason;
  if (!runtime::cuda_available(&reason) || !codegen::nvrtc_available(&reason)) return reason;
  if (!fake_counts && is_fake_driver()) return "the driver is the fake one of tests/ptx";
  return "";
}

/// `NVIDIA-H100-80GB-HBM3`
std::string file_name(std::string device) {
  for (char& c : device)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
  return "gpu-results-" + device + ".json";
}

gpu::Json describe(const runtime::CudaDeviceFacts& facts, const gpu::Options& options) {
  return {{"device", facts.name},
          {"compute_capability",
           fmt::format("{}.{}", facts.compute_capability / 10, facts.compute_capability % 10)},
          {"multiprocessors", facts.multiprocessors},
          {"memory_bytes", facts.memory_bytes},
          {"driver", runtime::cuda_version_text(facts.driver_version)},
          {"nvrtc", runtime::cuda_version_text(codegen::nvrtc_version())},
          {"quick", options.quick}};
}

[[noreturn]] void refuse(const std::string& what) {
  throw UserError({}, what, "`mezzo-gpu-conformance --help` lists what it takes");
}

}  // namespace

int main(int argc, char** argv) try {
  gpu::Options options;
  bool fake = false;
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? "" : argument.substr(equals + 1));
    bool known = false;
    for (const auto& [part, run] : kParts) known |= part == argument;
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (known) {
      wanted.push_back(argument);
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--fake") {
      fake = true;
    } else if (name == "--output" && !value.empty()) {
      options.output = value;
    } else if (name == "--device") {
      if (value.empty() || value.size() > 3 || value.find_first_not_of("0123456789") != value.npos)
        refuse(fmt::format("--device must be the number of a device, not '{}'", value));
      options.ordinal = std::atoi(value.c_str());
    } else {
      refuse(fmt::format("unknown argument '{}'", argument));
    }
  }
  if (const std::string reason = missing(fake); !reason.empty()) {
    fmt::print("skipped: {}\n", reason);
    return kSkipped;
  }
  const runtime::CudaDeviceFacts facts = runtime::cuda_device_facts(options.ordinal);
  gpu::Report report;
  report.json() = describe(facts, options);
  report.line(
      "{}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB; driver of CUDA {}, NVRTC {}",
      facts.name, facts.compute_capability / 10, facts.compute_capability % 10,
      facts.multiprocessors, static_cast<double>(facts.memory_bytes) / 0x1p30,
      runtime::cuda_version_text(facts.driver_version),
      runtime::cuda_version_text(codegen::nvrtc_version()));
  for (const auto& [part, run] : kParts) {
    bool named = wanted.empty();
    for (const std::string_view word : wanted) named |= word == part;
    if (named) run(options, report);
  }
  report.json()["failures"] = report.failures();
  const std::filesystem::path path = std::filesystem::path(options.output) / file_name(facts.name);
  std::filesystem::create_directories(options.output);
  std::ofstream file(path);
  file << report.json().dump(2) << '\n';
  if (!file.flush()) throw UserError({}, fmt::format("cannot write {}", path.string()));
  report.line("\n{} failures; results in {}", report.failures(), path.string());
  return report.failures() ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
