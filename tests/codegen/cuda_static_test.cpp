// SPDX-License-Identifier: Apache-2.0
// The machine code of a fixed list of kernels on every architecture: registers, spills, local
// memory, instructions of tensor cores and of memory, the hot loop. All numbers stand in
// cuda_static_table.txt, by version of NVRTC; any other number fails and is named. With
// MEZZO_UPDATE=1 in the environment the part of this version is written anew.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/cuda_matmul_plan.h>
#include <support/skip.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <codegen/cuda_kernels.h>
#include <codegen/cuda_static_list.h>
#include <codegen/machine_code.h>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

namespace mezzo::test {
namespace {

constexpr const char* kArchitectures[] = {"sm_75", "sm_80",  "sm_86", "sm_89",
                                          "sm_90", "sm_100", "sm_120"};
constexpr const char* kTable = "tests/codegen/cuda_static_table.txt";
/// Registers of a multiprocessor.
constexpr int64_t kRegisters = 65536;

/// What is measured of an entry, in the order of the table; numbers that are 0 are left out.
using Row = std::vector<std::pair<std::string, int64_t>>;
/// Rows by `sm_80 | kernel`, in the order of the list.
using Table = std::vector<std::pair<std::string, Row>>;

void add_widths(Row& row, const std::string& name, const int64_t (&counts)[5]) {
  for (int power = 4; power >= 0; --power)
    row.emplace_back(fmt::format("{}.{}", name, 8 << power), counts[power]);
}

Row measure(const codegen::KernelResources& resources, const codegen::CudaLaunch& launch,
            const MachineCode& code) {
  Row row{{"registers", resources.registers},
          {"shared", resources.shared_bytes + launch.shared_bytes},
          {"instructions", code.all.instructions}};
  for (MachineOp op :
       {MachineOp::Mma, MachineOp::Fma, MachineOp::Fma64, MachineOp::LoadMatrix,
        MachineOp::LoadShared, MachineOp::StoreShared, MachineOp::Barrier, MachineOp::Shuffle})
    row.emplace_back(to_string(op), code.all[op]);
  add_widths(row, to_string(MachineOp::CopyAsync), code.all.copies);
  add_widths(row, to_string(MachineOp::LoadGlobal), code.all.loads);
  add_widths(row, to_string(MachineOp::StoreGlobal), code.all.stores);
  // A loop that holds no product is no hot loop of this table.
  if (code.hot[code.product] > 0) {
    row.emplace_back("loop", code.hot.instructions);
    for (MachineOp op :
         {code.product, MachineOp::LoadMatrix, MachineOp::CopyAsync, MachineOp::LoadShared,
          MachineOp::StoreShared, MachineOp::LoadGlobal, MachineOp::Barrier})
      row.emplace_back(fmt::format("loop.{}", to_string(op)), code.hot[op]);
  }
  std::erase_if(row, [](const auto& number) { return number.second == 0; });
  return row;
}

std::string text_of(const Row& row) {
  std::string text;
  for (const auto& [name, value] : row)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  return text;
}

/// `registers 226 -> 240, LDL 0 -> 3`.
std::string difference(const Row& old, const Row& now) {
  std::map<std::string, std::pair<int64_t, int64_t>> numbers;
  for (const auto& [name, value] : old) numbers[name].first = value;
  for (const auto& [name, value] : now) numbers[name].second = value;
  std::string text;
  for (const auto& [name, pair] : numbers)
    if (pair.first != pair.second)
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name, pair.first, pair.second);
  return text;
}

/// The table's parts by `NVRTC 13.0`.
std::map<std::string, Table> read_table() {
  std::map<std::string, Table> parts;
  std::ifstream in(kTable);
  Table* part = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with("NVRTC ")) {
      part = &parts[line];
      continue;
    }
    REQUIRE_MESSAGE(part != nullptr, kTable << ": a row before the version: " << line);
    const size_t end = line.rfind(" | ");
    REQUIRE_MESSAGE(end != std::string::npos, kTable << ": " << line);
    Row row;
    std::istringstream numbers(line.substr(end + 3));
    std::string name;
    for (int64_t value = 0; numbers >> name >> value; numbers.ignore(1))
      row.emplace_back(name, value);
    part->emplace_back(line.substr(0, end), row);
  }
  return parts;
}

void write_table(const std::map<std::string, Table>& parts) {
  std::ofstream out(kTable, std::ios::binary);
  out << "# Machine code of the kernels of cuda_static_list.cpp: registers and instructions, "
         "widths "
         "of global\n# accesses in bits, the loop with the largest share of products. Written by "
         "test_cuda_static with\n# MEZZO_UPDATE=1.\n";
  for (const auto& [version, table] : parts) {
    out << "\n" << version << "\n";
    for (const auto& [key, row] : table) out << key << " | " << text_of(row) << "\n";
  }
}

void check_row(const std::string& key, const StaticKernel& kernel,
               const codegen::KernelResources& resources, const codegen::CudaLaunch& launch,
               const MachineCode& code) {
  INFO(key);
  CHECK(resources.registers > 0);
  CHECK(resources.registers * launch.threads <= kRegisters);
  CHECK(resources.spill_store_bytes == 0);
  CHECK(resources.spill_load_bytes == 0);
  CHECK(resources.stack_bytes == 0);
  CHECK(code.all[MachineOp::LoadLocal] == 0);
  CHECK(code.all[MachineOp::StoreLocal] == 0);
  if (kernel.most_overhead > 0 && code.product == MachineOp::Mma) {
    CHECK(code.hot[MachineOp::Mma] > 0);
    CHECK(code.overhead() <= kernel.most_overhead);
  }
}

/// What a kernel's launch is called in the table.
std::string part_of(std::span<const codegen::CudaLaunch> launches,
                    const codegen::CudaLaunch& launch) {
  const auto number = &launch - launches.data();
  if (launches.size() > 2) return fmt::format(", launch {} of {}", number + 1, launches.size());
  return number == 1 ? ", slices added" : "";
}

/// Every launch of every kernel on one architecture.
void measure_all(const std::string& arch, Table& table) {
  const ir::Target target = ir::target_by_name(arch);
  const std::vector<StaticKernel> kernels = static_kernels();
  for (size_t first = 0; first < kernels.size(); first += codegen::kMaxKernelsPerProgram) {
    const size_t size = std::min(codegen::kMaxKernelsPerProgram, kernels.size() - first);
    std::vector<codegen::CudaSource> sources;
    for (size_t i = first; i < first + size; ++i) {
      INFO(arch << ", " << kernels[i].name);
      const std::unique_ptr<ir::Module> module = kernels[i].module->clone();
      plan_for(*module, arch);
      std::vector<const ir::Op*> found = kernels_of(*module);
      // An update has kernels of its scalars beside it.
      if (found.size() > 1)
        std::erase_if(found,
                      [](const ir::Op* op) { return ir::family_of(*op) != ir::Family::Optimizer; });
      REQUIRE(found.size() == 1);
      sources.push_back(codegen::emit_cuda_kernel(*found[0], target, "k" + std::to_string(i)));
    }
    const codegen::CudaBinary binary = codegen::compile_cuda(codegen::cuda_program(sources), arch);
    CHECK_MESSAGE(binary.log.find("warning") == std::string::npos, binary.log);
    for (size_t i = 0; i < size; ++i)
      for (const codegen::CudaLaunch& launch : sources[i].launches) {
        const StaticKernel& kernel = kernels[first + i];
        const auto resources =
            std::ranges::find(binary.kernels, launch.entry, &codegen::KernelResources::entry);
        REQUIRE(resources != binary.kernels.end());
        const MachineCode code =
            read_machine_code(binary.cubin, launch.entry, target.compute_capability);
        const std::string key =
            fmt::format("{:6} | {}{}", arch, kernel.name, part_of(sources[i].launches, launch));
        check_row(key, kernel, *resources, launch, code);
        table.emplace_back(key, measure(*resources, launch, code));
      }
  }
}

TEST_CASE("the machine code of the watched kernels has the numbers of the table") {
  std::string reason;
  if (!codegen::nvrtc_available(&reason)) {
    skip_case(reason);
    return;
  }
  Table now;
  for (const char* arch : kArchitectures) measure_all(arch, now);
  std::map<std::string, Table> parts = read_table();
  const std::string version = fmt::format("NVRTC {}.{}", codegen::nvrtc_version() / 1000,
                                          codegen::nvrtc_version() % 1000 / 10);
  if (const char* update = std::getenv("MEZZO_UPDATE"); update && std::string(update) == "1") {
    parts[version] = now;
    write_table(parts);
  }
  if (!parts.contains(version)) {
    skip_case(std::string(kTable) + " has no numbers of " + version + "; MEZZO_UPDATE=1 adds them");
    return;
  }
  std::map<std::string, Row> old(parts[version].begin(), parts[version].end());
  for (const auto& [key, row] : now) {
    const std::string what = difference(old[key], row);
    CHECK_MESSAGE(what.empty(), key << ": " << what << " (MEZZO_UPDATE=1 writes the table anew)");
    old.erase(key);
  }
  for (const auto& [key, row] : old) FAIL_CHECK(key << ": in the table, but no kernel of the list");
  fmt::print("{}: {} entries of {} kernels on {} architectures\n", version, now.size(),
             static_kernels().size(), std::size(kArchitectures));
}

/// Milliseconds of the processor that a compilation takes: those of the clock on the wall grow with
/// the load of the machine, and more for long ones.
double processor_time(const std::string& source, const std::string& arch) {
  const std::clock_t before = std::clock();
  codegen::compile_cuda(source, arch);
  return 1000.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

/// The least of several compilations, each after one of the trivial kernel.
void print_times_trivial(const std::string& source, const std::string& arch) {
  double least = 0, trivial = 0;
  for (int i = 0; i < 5; ++i) {
    const double before = processor_time("extern \"C\" __global__ void k() {}", arch);
    const double after = processor_time(source, arch);
    trivial = i == 0 ? before : std::min(trivial, before);
    least = i == 0 ? after : std::min(least, after);
  }
  fmt::print("{:.0f} ms, {:.1f} times a trivial kernel\n", least, least / trivial);
}

// A measurement, not a test: `test_cuda_static --no-skip -tc="compile times*"` prints it. Goals are
// 12 for products, 5 for rows and 2 for elementwise kernels.
TEST_CASE("compile times of watched kernels beside a trivial one" * doctest::skip()) {
  const std::set<std::string> watched = {"f16 NN 4096x4096x4096",
                                         "f16 NN 4096x4096x4096 bias flagged",
                                         "f16 NN 128x256x784 bias flagged",
                                         "f32 NN 4096x4096x4096",
                                         "softmax f16 1000",
                                         "multiply, add f16"};
  for (const char* arch : {"sm_80", "sm_90", "sm_120"})
    for (const StaticKernel& kernel : static_kernels()) {
      if (!watched.contains(kernel.name)) continue;
      const std::unique_ptr<ir::Module> module = kernel.module->clone();
      plan_for(*module, arch);
      const std::vector<codegen::CudaSource> sources{
          codegen::emit_cuda_kernel(*kernels_of(*module).at(0), ir::target_by_name(arch), "k0")};
      fmt::print("{:6}, {}: ", arch, kernel.name);
      print_times_trivial(codegen::cuda_program(sources), arch);
    }
}

}  // namespace
}  // namespace mezzo::test
