// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_listing.h>

#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/kernel_rules.h>
#include <mezzo/ir/plan.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>

namespace mezzo::test {

using codegen::CudaBinary;

namespace {

template <class T>
T read(const std::string& bytes, size_t at) {
  T value{};
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

/// Size of a section of an ELF file of 64 bits; 0 when it has none of that name.
int64_t section_bytes(const std::string& elf, const std::string& name) {
  const auto table = read<uint64_t>(elf, 0x28);
  const auto entry = read<uint16_t>(elf, 0x3A), count = read<uint16_t>(elf, 0x3C),
             names = read<uint16_t>(elf, 0x3E);
  const auto strings = read<uint64_t>(elf, table + size_t{names} * entry + 0x18);
  for (size_t i = 0; i < count; ++i) {
    const size_t header = table + i * entry;
    const size_t at = strings + read<uint32_t>(elf, header);
    if (elf.compare(at, name.size() + 1, name.c_str(), name.size() + 1) == 0)
      return static_cast<int64_t>(read<uint64_t>(elf, header + 0x20));
  }
  return 0;
}

/// From the kernel's name to the next kernel.
std::string_view ptx_of(const std::string& ptx, const std::string& entry) {
  const size_t begin = ptx.find(".entry " + entry + "(");
  REQUIRE(begin != std::string::npos);
  const size_t end = ptx.find(".entry ", begin + 1);
  return std::string_view(ptx).substr(begin, end == std::string::npos ? end : end - begin);
}

/// `ld.global.nc.v4.u32` is 16.
int access_bytes(std::string_view opcode) {
  const int lanes = opcode.find(".v4") != std::string_view::npos   ? 4
                    : opcode.find(".v2") != std::string_view::npos ? 2
                                                                   : 1;
  const size_t digits = opcode.find_last_not_of("0123456789") + 1;
  int bits = 0;
  std::from_chars(opcode.data() + digits, opcode.data() + opcode.size(), bits);
  return lanes * bits / 8;
}

void count_accesses(std::string_view ptx, KernelListing& listing) {
  for (std::string_view kind : {"ld.global", "st.global"}) {
    int* counts = kind.starts_with("ld") ? listing.loads : listing.stores;
    for (size_t at = ptx.find(kind); at != std::string_view::npos; at = ptx.find(kind, at + 1)) {
      const std::string_view opcode = ptx.substr(at, ptx.find_first_of(" \t", at) - at);
      const int bytes = access_bytes(opcode);
      REQUIRE(std::has_single_bit(static_cast<unsigned>(bytes)));
      REQUIRE(bytes <= 16);
      ++counts[std::countr_zero(static_cast<unsigned>(bytes))];
    }
  }
  listing.local_memory = ptx.find("ld.local") != std::string_view::npos ||
                         ptx.find("st.local") != std::string_view::npos;
}

/// Numbers of the kernel's parameters that some instruction reads: `[k0_param_2]`.
std::set<int> parameters_read(std::string_view ptx, const std::string& entry) {
  std::set<int> numbers;
  const std::string prefix = "[" + entry + "_param_";
  for (size_t at = ptx.find(prefix); at != std::string_view::npos; at = ptx.find(prefix, at + 1)) {
    int number = -1;
    std::from_chars(ptx.data() + at + prefix.size(), ptx.data() + ptx.size(), number);
    REQUIRE(number >= 0);
    numbers.insert(number);
  }
  return numbers;
}

int64_t product(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

/// Whether vectors of the plan fill the kernel's threads: always for elementwise kernels with a
/// whole vector, for columns whose plan has vectors that divide them, for rows where vectors divide
/// the row and every thread gets one.
bool fits_vectors(const ir::Op& kernel, const ir::Plan& plan) {
  const ir::KernelSpace space = ir::kernel_space(kernel);
  if (ir::family_of(kernel) == ir::Family::Columns) return space.space.elements() > 0;
  const bool both = ir::family_of(kernel) == ir::Family::RowsColumns;
  if (ir::family_of(kernel) != ir::Family::Rows && !both)
    return space.space.elements() >= plan.vector;
  const int64_t columns = product(space.space.dims().subspan(static_cast<size_t>(space.kept())));
  const int64_t threads = (both ? plan.slices : plan.grain) > 1 ? 32 : plan.threads;
  return space.space.elements() > 0 && columns % plan.vector == 0 &&
         columns >= plan.vector * threads;
}

}  // namespace

CudaKernel emit_for_test(const ir::Op& kernel, const std::string& arch, const std::string& name,
                         const std::string& entry) {
  CudaKernel out{name, codegen::emit_cuda_kernel(kernel, ir::target_by_name(arch), entry)};
  // The totals of columns follow what is stored row by row.
  if (ir::family_of(kernel) != ir::Family::RowsColumns)
    out.storing_launch = out.source.launches.size() - 1;
  if (ir::family_of(kernel) == ir::Family::Optimizer) {
    // Some segment has vectors, whose pointers come from the table.
    const std::vector<ir::Value> results = kernel.results();
    if (std::any_of(results.begin(), results.end(),
                    [](ir::Value value) { return value.type().elements() > 1; })) {
      out.vector_operands = {0};
      out.vector_stores = true;
    }
    return out;
  }
  if (!fits_vectors(kernel, ir::Plan::from(kernel.plan()))) return out;
  const ir::Shape space = ir::kernel_space(kernel).space;
  const int64_t lanes = ir::Plan::from(kernel.plan()).vector;
  auto vectors = [&](ir::Value value) {
    return value.shape() == space && space.elements() > 1 &&
           lanes * ir::byte_size(value.dtype()) >= 16;
  };
  for (ir::Value result : kernel.results()) out.vector_stores |= vectors(result);
  // Tiles are stored by element, which fills sectors too.
  const bool reduces = ir::family_of(kernel) == ir::Family::Rows ||
                       ir::family_of(kernel) == ir::Family::Columns ||
                       ir::family_of(kernel) == ir::Family::RowsColumns;
  if (!reduces) out.vector_stores &= out.source.text.find("__shared__") == std::string::npos;
  bool views = false;
  for (const ir::Op& op : *kernel.body()) views |= ir::is_movement(op.kind());
  if (views) return out;
  for (const ir::Op& op : *kernel.body())
    for (ir::Value operand : op.operands()) {
      if (!operand.is_parameter() || !vectors(operand)) continue;
      const std::vector<ir::Value> parameters = kernel.body()->parameters();
      const auto found = std::find(parameters.begin(), parameters.end(), operand);
      out.vector_operands.push_back(static_cast<int>(found - parameters.begin()));
    }
  return out;
}

std::vector<KernelListing> list_kernels(const CudaBinary& binary,
                                        const std::vector<std::string>& entries) {
  std::vector<KernelListing> listings;
  for (const std::string& entry : entries) {
    KernelListing listing;
    const auto found = std::find_if(binary.kernels.begin(), binary.kernels.end(),
                                    [&](const auto& each) { return each.entry == entry; });
    REQUIRE(found != binary.kernels.end());
    listing.resources = *found;
    listing.instructions = section_bytes(binary.cubin, ".text." + entry) / 16;
    const std::string_view ptx = ptx_of(binary.ptx, entry);
    count_accesses(ptx, listing);
    listing.parameters = parameters_read(ptx, entry);
    listings.push_back(listing);
  }
  return listings;
}

namespace {

void print_listing(const std::string& name, const std::string& arch, const KernelListing& listing) {
  auto widths = [](const int(&counts)[5]) {
    std::string text;
    for (int power = 4; power >= 0; --power)
      if (counts[power] > 0)
        text += fmt::format("{}{}x{}", text.empty() ? "" : " ", counts[power], 1 << power);
    return text.empty() ? "-" : text;
  };
  const codegen::KernelResources& resources = listing.resources;
  fmt::print("{:6} {:24} {:9} {:6} {:5} {:12}  {:24} {}\n", arch, name, resources.registers,
             resources.spill_store_bytes + resources.spill_load_bytes, resources.stack_bytes,
             listing.instructions, widths(listing.loads), widths(listing.stores));
}

/// All entries of a kernel: operands are loaded by the first, results stored by the last.
void check_kernel(const CudaKernel& kernel, const CudaBinary& binary, const std::string& arch,
                  ListingSummary& summary, bool print) {
  std::vector<std::string> entries;
  for (const codegen::CudaLaunch& launch : kernel.source.launches) entries.push_back(launch.entry);
  const std::vector<KernelListing> listings = list_kernels(binary, entries);
  INFO(arch << ", " << kernel.name << "\n" << kernel.source.text);
  for (size_t i = 0; i < listings.size(); ++i) {
    const KernelListing& listing = listings[i];
    const codegen::KernelResources& resources = listing.resources;
    CHECK(resources.registers > 0);
    // A block must find its registers: 65,536 on every architecture.
    CHECK(resources.registers * kernel.source.launches[i].threads <= 65536);
    CHECK(resources.spill_store_bytes == 0);
    CHECK(resources.spill_load_bytes == 0);
    CHECK(resources.stack_bytes == 0);
    CHECK(resources.shared_bytes <= 48 << 10);
    CHECK_FALSE(listing.local_memory);
    CHECK(listing.instructions > 0);
    summary.spilled +=
        resources.spill_store_bytes + resources.spill_load_bytes + resources.stack_bytes;
    summary.registers.push_back(resources.registers);
    summary.instructions.push_back(listing.instructions);
    ++(listing.loads[4] > 0 || listing.stores[4] > 0 ? summary.wide : summary.narrow);
    if (print) print_listing(kernel.name, arch, listing);
  }
  // `x > x` needs no operand: the compiler drops its loads, and the pointer with them.
  const bool reads_vectors =
      std::any_of(kernel.vector_operands.begin(), kernel.vector_operands.end(),
                  [&](int number) { return listings.front().parameters.contains(number); });
  if (reads_vectors) CHECK(listings.front().loads[4] > 0);
  summary.vector_readers += reads_vectors;
  if (kernel.vector_stores) {
    CHECK(listings[kernel.storing_launch].stores[4] > 0);
    CHECK_FALSE(listings[kernel.storing_launch].parameters.empty());
  }
}

}  // namespace

void check_compiled(const std::vector<CudaKernel>& kernels, const std::string& arch,
                    ListingSummary& summary, bool print) {
  for (size_t first = 0; first < kernels.size(); first += codegen::kMaxKernelsPerProgram) {
    const size_t size = std::min(codegen::kMaxKernelsPerProgram, kernels.size() - first);
    std::vector<codegen::CudaSource> sources;
    for (size_t i = first; i < first + size; ++i) sources.push_back(kernels[i].source);
    const CudaBinary binary = codegen::compile_cuda(codegen::cuda_program(sources), arch);
    summary.milliseconds += binary.milliseconds;
    CHECK_MESSAGE(binary.log.find("warning") == std::string::npos, binary.log);
    for (size_t i = first; i < first + size; ++i)
      check_kernel(kernels[i], binary, arch, summary, print);
  }
}

void print_summary(const char* name, const std::string& arch, ListingSummary& summary) {
  if (summary.registers.empty()) return;
  std::sort(summary.registers.begin(), summary.registers.end());
  std::sort(summary.instructions.begin(), summary.instructions.end());
  const size_t middle = summary.registers.size() / 2;
  fmt::print(
      "{}, {}: {} kernels, registers {} / {} / {}, instructions {} / {} / {} (least, median, "
      "most), {} bytes of spills and stack; {} with accesses of 16 bytes, {} without, {} must load "
      "such; {:.0f} ms each\n",
      name, arch, summary.registers.size(), summary.registers.front(), summary.registers[middle],
      summary.registers.back(), summary.instructions.front(), summary.instructions[middle],
      summary.instructions.back(), summary.spilled, summary.wide, summary.narrow,
      summary.vector_readers, summary.milliseconds / static_cast<double>(summary.registers.size()));
}

double median(std::vector<double> values) {
  REQUIRE_FALSE(values.empty());
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace mezzo::test
