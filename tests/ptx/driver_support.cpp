// SPDX-License-Identifier: Apache-2.0
#include <ptx/driver_support.h>

#include <mezzo/runtime/cuda_image.h>
#include <support/temp_dir.h>

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace mezzo::test {

using namespace runtime::cuda;

namespace {

constexpr const char* kOwnProcess = "MEZZO_TEST_OWN_PROCESS";
constexpr const char* kRan = "the case runs in its own process\n";

/// The environment of this process without what would change the fake driver, and `changes`.
std::vector<std::string> environment_with(std::initializer_list<std::string> changes) {
  std::map<std::string, std::string> entries;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("MEZZO_FAKE_")) entries[text.substr(0, text.find('='))] = text;
  }
  entries["MEZZO_CUDA_LIBRARY"] = "MEZZO_CUDA_LIBRARY=" + fake_library();
  entries[kOwnProcess] = std::string(kOwnProcess) + "=1";
  for (const std::string& change : changes) {
    const std::string name = change.substr(0, change.find('='));
    entries.erase(name);
    if (name.size() < change.size()) entries[name] = change;
  }
  std::vector<std::string> result;
  for (auto& [name, entry] : entries) result.push_back(std::move(entry));
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Exit code of this program with other arguments; what it prints goes to `file`.
int run_self(std::vector<std::string> arguments, std::vector<std::string> environment,
             const std::string& file) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, file.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error(std::string("posix_spawn: ") + std::strerror(error));
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void require(Result code, const char* call) {
  if (code != Success)
    throw std::runtime_error(std::string(call) + " gave " + std::to_string(code));
}

}  // namespace

std::string fake_library() { return MEZZO_FAKECUDA; }
std::string stub_nvrtc() { return MEZZO_STUB_NVRTC; }

bool in_own_process(const char* name, std::initializer_list<std::string> environment) {
  if (std::getenv(kOwnProcess)) {
    std::cout << kRan << std::flush;
    return true;
  }
  std::string filter;
  for (const char* at = name; *at; ++at) filter += *at == ',' ? "\\," : std::string(1, *at);
  const TempDir folder;
  const std::string file = (folder / "output").string();
  const int status =
      run_self({"test", "--test-case=" + filter}, environment_with(environment), file);
  std::ifstream in(file);
  const std::string output{std::istreambuf_iterator<char>(in), {}};
  if (const size_t skipped = output.find("skipped: "); skipped != std::string::npos)
    std::cout << output.substr(skipped, output.find('\n', skipped) + 1 - skipped) << std::flush;
  CHECK_MESSAGE(status == 0, output);
  // A filter that matches nothing would pass everything.
  CHECK_MESSAGE(output.find(kRan) != std::string::npos, output);
  return false;
}

const Fake& fake() {
  static const Fake* result = [] {
    void* handle = dlopen(fake_library().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) throw std::runtime_error(dlerror());
    auto* fake = new Fake;
    const auto bind = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      if (!function) throw std::runtime_error(std::string("the fake driver lacks ") + name);
    };
#define X(name, suffix, parameters) bind(fake->name##suffix, #name #suffix);
    MEZZO_CUDA_FUNCTIONS(X)
    MEZZO_FAKE_FUNCTIONS(X)
#undef X
    bind(fake->last_fault, "mezzo_fake_last_fault");
    bind(fake->count, "mezzo_fake_count");
    bind(fake->reset_counts, "mezzo_fake_reset_counts");
    return fake;
  }();
  return *result;
}

FakeContext::FakeContext(int device) : device_(device) {
  require(fake().cuInit(0), "cuInit");
  require(fake().cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  require(fake().cuCtxPushCurrent_v2(context_), "cuCtxPushCurrent");
}

FakeContext::~FakeContext() {
  Context popped = nullptr;
  fake().cuCtxPopCurrent_v2(&popped);
  fake().cuDevicePrimaryCtxRelease_v2(device_);
}

DevicePointer FakeContext::allocate(size_t bytes) const {
  DevicePointer address = 0;
  require(fake().cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
  return address;
}

DevicePointer FakeContext::upload(const std::vector<float>& values) const {
  const size_t bytes = values.size() * sizeof(float);
  const DevicePointer address = allocate(bytes);
  require(fake().cuMemcpyHtoD_v2(address, values.data(), bytes), "cuMemcpyHtoD");
  return address;
}

std::vector<float> FakeContext::download(DevicePointer from, size_t count) const {
  std::vector<float> values(count);
  require(fake().cuMemcpyDtoH_v2(values.data(), from, count * sizeof(float)), "cuMemcpyDtoH");
  return values;
}

Stream FakeContext::stream(unsigned flags) const {
  Stream stream = nullptr;
  require(fake().cuStreamCreate(&stream, flags), "cuStreamCreate");
  return stream;
}

Event FakeContext::event() const {
  Event event = nullptr;
  require(fake().cuEventCreate(&event, EventDefault), "cuEventCreate");
  return event;
}

Function FakeContext::kernel(const char* ptx, const char* name) const {
  Module module = nullptr;
  Function function = nullptr;
  require(fake().cuModuleLoadData(&module, ptx), "cuModuleLoadData");
  require(fake().cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  return function;
}

Result launch_add(Function add, DevicePointer a, DevicePointer b, DevicePointer out, uint32_t count,
                  Stream stream) {
  constexpr unsigned kThreads = 128;
  void* parameters[] = {&a, &b, &out, &count};
  return fake().cuLaunchKernel(add, (count + kThreads - 1) / kThreads, 1, 1, kThreads, 1, 1, 0,
                               stream, parameters, nullptr);
}

Result launch_poke(Function poke, DevicePointer address, Stream stream) {
  void* parameters[] = {&address};
  return fake().cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

const char* const kKernels = R"(.version 7.0
.target sm_75
.address_size 64

.visible .entry add(
  .param .u64 add_a,
  .param .u64 add_b,
  .param .u64 add_out,
  .param .u32 add_n
)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;

  ld.param.u64 %rd1, [add_a];
  ld.param.u64 %rd2, [add_b];
  ld.param.u64 %rd3, [add_out];
  ld.param.u32 %r1, [add_n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}

.visible .entry poke(
  .param .u64 poke_at
)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;

  ld.param.u64 %rd1, [poke_at];
  mov.u32 %r1, 7;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

std::string cubin_with(int architecture, int abi, const std::string& ptx) {
  // A header, a section without bytes and one with the names of the sections.
  constexpr char kNames[] = "\0.shstrtab";
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_ABIVERSION] = static_cast<unsigned char>(abi);
  header.e_flags = static_cast<uint32_t>(architecture) << (abi >= 8 ? 8 : 0);
  header.e_ehsize = header.e_phentsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header;
  Elf64_Shdr sections[2] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = sizeof kNames;
  codegen::CudaBinary binary;
  binary.cubin.append(reinterpret_cast<const char*>(&header), sizeof header);
  binary.cubin.append(reinterpret_cast<const char*>(sections), sizeof sections);
  binary.cubin.append(kNames, sizeof kNames);
  binary.ptx = ptx;
  return runtime::cuda_image(binary);
}

void check_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, part, text);
}

}  // namespace mezzo::test
