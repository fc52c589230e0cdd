// SPDX-License-Identifier: Apache-2.0
// Opens libnvrtc by dlopen and calls its C interface, of which the few functions needed are
// declared here: the build needs no CUDA toolkit.
#include <mezzo/codegen/cuda/nvrtc.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

namespace mezzo::codegen {

namespace {

constexpr const char* kVariable = "MEZZO_NVRTC_LIBRARY";
constexpr const char* kNames[] = {"libnvrtc.so.13",
                                  "libnvrtc.so.12",
                                  "libnvrtc.so",
                                  "/usr/local/cuda/lib64/libnvrtc.so.13",
                                  "/usr/local/cuda/lib64/libnvrtc.so.12",
                                  "/usr/local/cuda/lib64/libnvrtc.so"};

using Program = void*;
constexpr int kSuccess = 0;

struct Library {
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int number = 0;
};

struct Opened {
  std::optional<Library> library;
  std::string reason;
};

template <class Function>
void bind(void* handle, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) missing += std::string(missing.empty() ? "" : ", ") + name;
}

Library bind_all(void* handle, std::string& missing) {
  Library library;
  bind(handle, "nvrtcVersion", library.version, missing);
  bind(handle, "nvrtcGetErrorString", library.error_string, missing);
  bind(handle, "nvrtcCreateProgram", library.create, missing);
  bind(handle, "nvrtcDestroyProgram", library.destroy, missing);
  bind(handle, "nvrtcCompileProgram", library.compile, missing);
  bind(handle, "nvrtcGetPTXSize", library.ptx_size, missing);
  bind(handle, "nvrtcGetPTX", library.ptx, missing);
  bind(handle, "nvrtcGetCUBINSize", library.cubin_size, missing);
  bind(handle, "nvrtcGetCUBIN", library.cubin, missing);
  bind(handle, "nvrtcGetProgramLogSize", library.log_size, missing);
  bind(handle, "nvrtcGetProgramLog", library.log, missing);
  return library;
}

std::string version_text(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// NVRTC opens its builtins by name, where the system's loader looks; those that lie beside it are
/// found by that name once they are open. Where there are none NVRTC says so itself.
void open_builtins(const Library& library) {
  Dl_info found;
  if (dladdr(reinterpret_cast<void*>(library.version), &found) == 0 || !found.dli_fname) return;
  const std::filesystem::path folder = std::filesystem::path(found.dli_fname).parent_path();
  if (folder.empty()) return;
  const std::string name = "libnvrtc-builtins.so." + version_text(library.number);
  dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// The first name that opens and is not above `limit`, if that is not 0; a name given by the
/// variable is the only one tried.
Opened open_library(int limit) {
  std::vector<const char*> names;
  const char* given = std::getenv(kVariable);
  const bool is_given = given && *given;
  if (is_given)
    names.push_back(given);
  else
    names.assign(std::begin(kNames), std::end(kNames));
  std::string tried, newer;
  for (const char* name : names) {
    tried += std::string(tried.empty() ? "" : ", ") + name;
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      if (is_given) tried += fmt::format(" ({})", dlerror());
      continue;
    }
    std::string missing;
    Library library = bind_all(handle, missing);
    int major = 0, minor = 0;
    if (missing.empty() && library.version(&major, &minor) == kSuccess) {
      library.number = major * 1000 + minor * 10;
      if (limit == 0 || major <= limit) {
        open_builtins(library);
        return {library, ""};
      }
      if (newer.empty()) newer = fmt::format("{} is {}", name, version_text(library.number));
    } else {
      tried += missing.empty() ? " (gives no version)" : " (lacks " + missing + ")";
    }
    dlclose(handle);
  }
  const std::string looked_for = is_given ? std::string(kVariable) + " = " + tried : tried;
  if (!newer.empty())
    return {std::nullopt,
            fmt::format("the CUDA compiler NVRTC is newer than the driver: {}, and a driver of "
                        "CUDA {} loads what NVRTC {} or older makes (looked for {})\n"
                        "note: update the NVIDIA driver, or install NVRTC {} (package cuda-nvrtc "
                        "of the CUDA toolkit {}) or set {} to the path of its libnvrtc.so",
                        newer, limit, limit, looked_for, limit, limit, kVariable)};
  return {std::nullopt,
          fmt::format("the CUDA compiler NVRTC was not found: looked for {}\n"
                      "note: install it (package cuda-nvrtc of the CUDA toolkit, 12.0 or newer) or "
                      "set {} to the path of libnvrtc.so",
                      looked_for, kVariable)};
}

std::atomic<int>& major_limit() {
  static std::atomic<int> limit = 0;
  return limit;
}

/// Opened once for each limit; a library that is not there now is not looked for again.
const Opened& opened() {
  // Never freed: the destructor of a static of the program may compile.
  static auto* mutex = new std::mutex;
  static auto* results = new std::map<int, Opened>;
  const int limit = major_limit();
  const std::lock_guard lock(*mutex);
  const auto found = results->find(limit);
  return found != results->end() ? found->second
                                 : results->emplace(limit, open_library(limit)).first->second;
}

const Library& library() {
  if (!opened().library) throw DeviceError(opened().reason);
  return *opened().library;
}

/// What to do where a compiler refuses because a part of it is missing; "" where nothing is.
std::string installation_advice(std::string_view log, int number) {
  constexpr std::string_view kPart = "libnvrtc-builtins";
  if (log.find("failed to open " + std::string(kPart)) == std::string_view::npos) return "";
  return fmt::format(
      "\nnote: {}.so.{} is a part of NVRTC and must lie where libnvrtc.so does: "
      "install the whole package (cuda-nvrtc {})",
      kPart, version_text(number), version_text(number));
}

class ProgramHandle {
 public:
  ProgramHandle(const Library& library, const std::string& source, const std::string& name)
      : library_(library) {
    check(library.create(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  ~ProgramHandle() {
    if (program_) library_.destroy(&program_);
  }
  ProgramHandle(const ProgramHandle&) = delete;
  ProgramHandle& operator=(const ProgramHandle&) = delete;

  Program get() const { return program_; }

  std::string text(int (*size)(Program, size_t*), int (*read)(Program, char*), const char* what) {
    size_t bytes = 0;
    check(size(program_, &bytes), what);
    std::string out(bytes, '\0');
    if (bytes > 0) check(read(program_, out.data()), what);
    return out;
  }

 private:
  void check(int code, const char* what) const {
    if (code != kSuccess)
      throw DeviceError(
          fmt::format("{} failed: {} (code {})", what, library_.error_string(code), code));
  }

  const Library& library_;
  Program program_ = nullptr;
};

/// Without the zero at its end.
std::string as_text(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

/// The number before `unit` in a line such as `32 bytes stack frame, 0 bytes spill stores`; 0 if
/// none.
int64_t number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

}  // namespace

void limit_nvrtc_major(int major) { major_limit() = major; }

int nvrtc_version() { return library().number; }

bool nvrtc_available(std::string* reason) {
  if (reason) *reason = opened().reason;
  return opened().library.has_value();
}

std::vector<KernelResources> parse_resources(std::string_view log) {
  constexpr std::string_view kEntry = "Compiling entry function '";
  std::vector<KernelResources> kernels;
  bool in_entry = false;
  while (!log.empty()) {
    const size_t end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
    if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kEntry.size());
      kernels.push_back({.entry = std::string(rest.substr(0, rest.find('\'')))});
      in_entry = true;
      continue;
    }
    // Numbers of functions that are not kernels follow another heading.
    if (line.find("Function properties for") != std::string_view::npos)
      in_entry = !kernels.empty() && line.ends_with(kernels.back().entry);
    if (kernels.empty()) continue;
    KernelResources& kernel = kernels.back();
    if (in_entry && line.find("bytes stack frame") != std::string_view::npos) {
      kernel.stack_bytes = number_before(line, " bytes stack frame");
      kernel.spill_store_bytes = number_before(line, " bytes spill stores");
      kernel.spill_load_bytes = number_before(line, " bytes spill loads");
    }
    if (line.find("Used ") != std::string_view::npos) {
      kernel.registers = static_cast<int>(number_before(line, " registers"));
      kernel.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return kernels;
}

CudaBinary compile_cuda(const std::string& source, const std::string& arch,
                        const std::string& name) {
  const Library& nvrtc = library();
  const auto start = std::chrono::steady_clock::now();
  ProgramHandle program(nvrtc, source, name + ".cu");
  // 177: a device function of the prelude that this program does not call; 186: an empty loop.
  const std::string architecture = "-arch=" + arch;
  const char* options[] = {architecture.c_str(), "-fmad=false", "-diag-suppress=177",
                           "-diag-suppress=186", "--ptxas-options=-v"};
  const int code = nvrtc.compile(program.get(), static_cast<int>(std::size(options)), options);
  CudaBinary binary;
  binary.log = as_text(program.text(nvrtc.log_size, nvrtc.log, "nvrtcGetProgramLog"));
  if (code != kSuccess)
    throw DeviceError(fmt::format("{} cannot be compiled for {}: {} (NVRTC {})\n{}{}", name, arch,
                                  nvrtc.error_string(code), version_text(nvrtc.number), binary.log,
                                  installation_advice(binary.log, nvrtc.number)));
  binary.ptx = as_text(program.text(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX"));
  binary.cubin = program.text(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN");
  binary.kernels = parse_resources(binary.log);
  binary.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return binary;
}

}  // namespace mezzo::codegen
