// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_host.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <support/temp_dir.h>

#include <fmt/format.h>

#include <algorithm>
#include <codegen/cuda_kernels.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace mezzo::test {

namespace {

/// The text between the parenthesis at `open` and the one that closes it.
std::string inside(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    depth += text[at] == '(';
    depth -= text[at] == ')';
    if (depth == 0) return text.substr(open + 1, at - open - 1);
  }
  throw std::runtime_error("an open parenthesis in CUDA text");
}

/// Memory of a tensor, aligned to 16 bytes, that ends at a page without access.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t room = (bytes + 15) / 16 * 16;
    mapped_ = (room + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("no memory for a tensor");
    mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - room;
    std::memset(data_, 0xCD, room);
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }
  /// Bytes up to the page, which nothing may have written.
  bool intact() const {
    return std::all_of(data_ + bytes_, data_ + (bytes_ + 15) / 16 * 16,
                       [](std::byte byte) { return byte == std::byte{0xCD}; });
  }

 private:
  size_t bytes_, mapped_ = 0;
  std::byte *base_ = nullptr, *data_ = nullptr;
};

const ir::Op& kernel_of(const ir::Module& module) { return *kernels_of(module).at(0); }

}  // namespace

std::string without_asm(const std::string& text) {
  constexpr std::string_view kAsm = "asm(\"";
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(kAsm); at != std::string::npos; at = text.find(kAsm, done)) {
    out += text.substr(done, at - done);
    const std::string statement = inside(text, at + 3);
    const size_t name = kAsm.size() - 4;
    std::string opcode = statement.substr(name, statement.find(' ', name) - name);
    std::replace(opcode.begin(), opcode.end(), '.', '_');
    // Operands are the parentheses after constraints, the result first.
    std::vector<std::string> operands;
    for (size_t quote = statement.find("\"(", statement.find(':')); quote != std::string::npos;) {
      operands.push_back(inside(statement, quote + 1));
      quote = statement.find("\"(", quote + 2 + operands.back().size());
    }
    if (operands.size() < 2) throw std::runtime_error("PTX without operands: " + statement);
    const std::span arguments = std::span(operands).subspan(1);
    out += fmt::format("{} = ptx_{}({})", operands[0], opcode, fmt::join(arguments, ", "));
    done = at + 3 + statement.size() + 2;
  }
  return out + text.substr(done);
}

HostProgram::HostProgram(std::vector<std::unique_ptr<ir::Module>> modules)
    : modules_(std::move(modules)) {
  std::string text, launchers;
  for (size_t i = 0; i < modules_.size(); ++i) {
    const ir::Op& kernel = kernel_of(*modules_[i]);
    sources_.push_back(
        codegen::emit_cuda_kernel(kernel, ir::target_by_name("sm_90"), "k" + std::to_string(i)));
    const codegen::CudaSource& source = sources_.back();
    const size_t pointers = static_cast<size_t>(kernel.num_operands() + kernel.num_results()) +
                            ir::kernel_words(kernel).size() + (source.checks_index ? 1 : 0);
    const size_t slots = ir::kernel_slots(kernel).size();
    std::vector<std::string> arguments;
    for (size_t p = 0; p < pointers; ++p)
      arguments.push_back(fmt::format("on_host::Argument{{table[{}]}}", p));
    for (size_t s = 0; s < slots; ++s)
      arguments.push_back(fmt::format("on_host::Slot{{table[{}]}}", pointers + s));
    if (source.workspace_bytes > 0)
      arguments.push_back(fmt::format("on_host::Argument{{table[{}]}}", pointers + slots));
    if (source.indirect) arguments = {"table"};
    launchers += fmt::format("extern \"C\" void launch_{}(const u64* table) {{\n", source.name);
    for (const codegen::CudaLaunch& launch : source.launches)
      launchers +=
          fmt::format("  on_host::launch({}, {}, [&] {{ in_{}::{}({}); }});\n", launch.blocks,
                      launch.threads, source.name, launch.entry, fmt::join(arguments, ", "));
    launchers += "}\n";
  }
  // The prelude once, then all kernels, however many.
  text = codegen::cuda_program(std::span<const codegen::CudaSource>());
  for (const codegen::CudaSource& source : sources_)
    text += fmt::format("\nnamespace in_{} {{\n\n{}\n}}\n", source.name, source.text);
  const TempDir folder;
  const std::string base = (folder.path() / "kernels").string();
  std::ofstream(base + ".cpp") << "#include \"tests/codegen/cuda_host_prelude.h\"\n"
                               << without_asm(text) << launchers;
  const std::string command = fmt::format(
      "{} -std=c++17 -O1 -w -ffp-contract=off -fno-strict-aliasing -fPIC -shared -I. -o {}.so "
      "{}.cpp 2> {}.log",
      MEZZO_CXX, base, base, base);
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(base + ".log");
    throw std::runtime_error("CUDA text does not compile as C++:\n" +
                             std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 4000));
  }
  library_ = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(dlerror());
}

HostProgram::~HostProgram() {
  if (library_) dlclose(library_);
}

ir::RunResult HostProgram::run(size_t number, std::span<const ir::InterpreterTensor> inputs,
                               std::span<const size_t> in_place) const {
  const ir::Op& kernel = kernel_of(*modules_[number]);
  std::vector<std::unique_ptr<Guarded>> memory;
  for (const ir::InterpreterTensor& input : inputs) {
    memory.push_back(std::make_unique<Guarded>(static_cast<size_t>(input.type.bytes())));
    ir::to_bytes(input, memory.back()->bytes());
  }
  std::vector<size_t> places(in_place.begin(), in_place.end());
  if (places.empty())
    for (ir::Value result : kernel.results()) {
      places.push_back(memory.size());
      memory.push_back(std::make_unique<Guarded>(static_cast<size_t>(result.type().bytes())));
    }
  // All parameters in the order of CudaSource.
  std::vector<unsigned long long> table;
  auto add = [&](void* address) { table.push_back(reinterpret_cast<uintptr_t>(address)); };
  for (size_t i = 0; i < inputs.size(); ++i) add(memory[i]->bytes().data());
  for (size_t place : places) add(memory[place]->bytes().data());
  const std::vector<int64_t> numbers = ir::kernel_words(kernel);
  std::vector<uint32_t> words(numbers.size() + 1);
  for (size_t i = 0; i < numbers.size() + (sources_[number].checks_index ? 1 : 0); ++i)
    add(&words[i]);
  for (const ir::Op* op : ir::kernel_slots(kernel))
    table.push_back(static_cast<unsigned long long>(ir::slot_bits(*op)));
  memory.push_back(
      std::make_unique<Guarded>(static_cast<size_t>(sources_[number].workspace_bytes)));
  add(memory.back()->bytes().data());

  using Launch = void (*)(const unsigned long long*);
  const std::string name = "launch_" + sources_[number].name;
  auto* launch = reinterpret_cast<Launch>(dlsym(library_, name.c_str()));
  if (!launch) throw std::runtime_error("no launcher " + name);
  launch(table.data());

  ir::RunResult out;
  for (const auto& each : memory)
    if (!each->intact()) throw std::runtime_error("bytes behind a tensor were written");
  for (size_t i = 0; i < places.size(); ++i)
    out.results.push_back(
        ir::from_bytes(kernel.result(static_cast<int>(i)).type(), memory[places[i]]->bytes()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto word = static_cast<size_t>(numbers[i]);
    if (out.words.size() <= word) out.words.resize(word + 1);
    out.words[word] = words[i];
  }
  out.index_range = words.back() != 0;
  return out;
}

}  // namespace mezzo::test
