// SPDX-License-Identifier: Apache-2.0
// Flag words of single values on the PTX interpreter: the numbers at both sides of overflow,
// infinities, NaNs of every kind, subnormals, zeros, each alone among zeros and together, in every
// form that a kernel keeps flags in. Words are those of the interpreter of the IR.
#include <mezzo/ir/flags.h>
#include <mezzo/ir/plan.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <codegen/cuda_cases.h>
#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <cstring>
#include <limits>
#include <map>
#include <set>

namespace mezzo::test {
namespace {

using ir::DType;
using ir::OpKind;
using ir::Type;

constexpr int64_t kElements = 1000;
/// Of a block, so that the elements fill several.
constexpr int64_t kThreads = 32;
/// Flagged ops of a kernel: one, as many as are folded, more than are.
constexpr int kFlagged[] = {1, 8, 9};

/// A type of floats: its infinity as bits, the least number that rounds to it.
struct FloatFormat {
  uint64_t infinity;
  double overflows;
};
FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {0x7C00, 65520};
    case DType::BF16:
      return {0x7F80, 0x1.FFp127};
    case DType::F32:
      return {0x7F800000, 0x1.FFFFFFp127};
    default:
      return {uint64_t{0x7FF} << 52, std::numeric_limits<double>::infinity()};
  }
}

size_t size_of(DType dtype) { return static_cast<size_t>(ir::byte_size(dtype)); }
uint64_t sign_of(DType dtype) { return uint64_t{1} << (8 * size_of(dtype) - 1); }

/// An element of the storage format; `other` is that of the second operand where there is one.
struct Element {
  uint64_t bits, other = 0;
};
struct Place {
  size_t index;
  Element element;
};
/// What is not zero in an operand.
using Content = std::vector<Place>;

uint64_t bits_of(DType dtype, double value) {
  uint64_t bits = 0;
  ir::to_bytes(ir::full_tensor(Type(dtype, {1}), value),
               std::as_writable_bytes(std::span(&bits, 1)).first(size_of(dtype)));
  return bits;
}

/// What one op is tried with. An infinity (of integers: any) and what overflows, if anything does,
/// come first.
std::vector<Element> elements_of(DType from, DType to) {
  std::vector<Element> out;
  if (from == DType::I64) {
    for (int64_t value : {std::numeric_limits<int64_t>::max(), int64_t{65520}, int64_t{65519},
                          int64_t{1}, std::numeric_limits<int64_t>::max() - 1})
      for (int64_t sign : {1, -1}) out.push_back({static_cast<uint64_t>(sign * value)});
    out.push_back({static_cast<uint64_t>(std::numeric_limits<int64_t>::min())});
    return out;
  }
  const FloatFormat format = format_of(from);
  const uint64_t infinity = format.infinity, largest = infinity - 1;
  const uint64_t normal = infinity & (~infinity + 1);  // the least
  auto add = [&](uint64_t bits, uint64_t other = 0) {
    const uint64_t sign = sign_of(from);
    out.push_back({bits, other});
    out.push_back({bits | sign, other == 0 ? 0 : other ^ sign});
  };
  add(infinity);
  if (from == to) {  // a sum: half a step above the largest number, and less than that
    const int steps = from == DType::F16    ? 4
                      : from == DType::BF16 ? 119
                      : from == DType::F32  ? 103
                                            : 970;
    const uint64_t half = bits_of(from, std::ldexp(1.0, steps));
    add(largest, half);
    add(largest, half - 1);
    add(largest, largest);
    add(infinity, infinity | sign_of(from));
  } else if (const double limit = format_of(to).overflows;
             limit < 0x1p1000 && size_of(from) > size_of(to)) {
    add(bits_of(from, limit));
    add(bits_of(from, limit) - 1);
  }
  add(largest);
  add(infinity | 1);  // the least payload, the quiet bit alone, all bits
  add(infinity | normal >> 1);
  add(sign_of(from) - 1);
  add(0);
  add(1);
  add(normal - 1);
  add(normal);
  add(bits_of(from, 0x1p-20));  // a subnormal of f16
  add(bits_of(from, 1));
  return out;
}

std::vector<Content> contents_of(DType from, DType to) {
  const std::vector<Element> elements = elements_of(from, to);
  std::vector<Content> out;
  Content all;
  for (const Element& element : elements) {
    all.push_back({(all.size() * 97 + 5) % kElements, element});
    out.push_back({all.back()});
  }
  const Element infinity = elements[0], overflow = elements[2];
  out.push_back(all);
  out.push_back({{8, infinity}, {9, overflow}});  // of one thread
  out.push_back({{8, overflow}, {9, infinity}});
  out.push_back({{0, infinity}, {kElements - 1, overflow}});  // of different blocks
  out.push_back({{0, overflow}, {kElements - 1, infinity}});
  return out;
}

/// A kernel of `flagged` ops, each with operands of its own: casts, or sums of two where the types
/// are the same.
std::unique_ptr<ir::Module> flagged_kernel(DType from, DType to, int flagged) {
  const int operands = from == to ? 2 : 1;
  const std::vector<Type> parameters(static_cast<size_t>(operands * flagged),
                                     Type(from, {kElements}));
  const Type result(to, {kElements});
  std::unique_ptr<ir::Module> module =
      module_of(parameters, [&](ir::Builder& builder, std::span<const ir::Value> x) {
        std::vector<ir::Value> values;
        for (int i = 0; i < flagged; ++i) {
          const auto own =
              x.subspan(static_cast<size_t>(operands * i), static_cast<size_t>(operands));
          ir::Attrs attrs;
          attrs.set("word", int64_t{2 * i});
          const OpKind kind = from == to ? OpKind::Add : OpKind::Cast;
          values.push_back(builder.create(kind, own, attrs, std::span(&result, 1))->result());
        }
        if (flagged == 1) return values;
        return builder.create(OpKind::AddN, values)->results();
      });
  plan_for(*module, "sm_90");
  REQUIRE(kernels_of(*module).size() == 1);
  for (ir::Op& op : module->functions()[0]->body()) {
    if (op.kind() != OpKind::Kernel) continue;
    ir::Plan plan = ir::Plan::from(op.plan());
    REQUIRE(plan.vector > 1);
    plan.threads = kThreads;
    plan.grain = plan.threads * plan.vector;
    plan.tasks = (kElements + plan.grain - 1) / plan.grain;
    REQUIRE(plan.tasks > 1);
    op.set_plan(plan.to_attrs());
  }
  return alone(*kernels_of(*module)[0]);
}

/// Values are folded before they are compared where few ops have flags, those of 16 bits only where
/// they are rounded from f32.
bool folds(DType from, DType to, int flagged) {
  const bool is_16bit = ir::is_16bit(to);
  return flagged <= 8 && !(is_16bit && (from == DType::F64 || from == DType::I64));
}

/// Runs one kernel until each content was in some operand; counts words by their bits.
void check_words(const DeviceProgram& program, size_t number, DType from, DType to, int flagged,
                 std::map<uint32_t, int>& seen) {
  const std::string& text = program.source(number).text;
  INFO(ir::to_string(from) << " to " << ir::to_string(to) << ", " << flagged << " ops\n" << text);
  const bool folded =
      text.find("excess(") != std::string::npos || text.find("magnitude(") != std::string::npos;
  CHECK(folded == folds(from, to, flagged));
  const std::vector<Content> contents = contents_of(from, to);
  const Type type(from, {kElements});
  const size_t operands = from == to ? 2 : 1, size = size_of(from);
  for (size_t first = 0; first < contents.size(); first += static_cast<size_t>(flagged)) {
    std::vector<std::vector<std::byte>> inputs(
        static_cast<size_t>(flagged) * operands,
        std::vector<std::byte>(static_cast<size_t>(type.bytes())));
    for (size_t i = 0; i < static_cast<size_t>(flagged) && first + i < contents.size(); ++i)
      for (const Place& place : contents[first + i]) {
        std::memcpy(&inputs[i * operands][place.index * size], &place.element.bits, size);
        if (operands == 2)
          std::memcpy(&inputs[i * 2 + 1][place.index * size], &place.element.other, size);
      }
    std::vector<ir::InterpreterTensor> tensors;
    for (const auto& input : inputs) tensors.push_back(ir::from_bytes(type, input));
    const ir::Module& module = program.module(number);
    const ir::RunResult wanted = ir::run(module, *module.functions()[0], tensors);
    const ir::RunResult got = program.run_bytes(number, inputs);
    REQUIRE(wanted.words.size() == static_cast<size_t>(2 * flagged - 1));
    REQUIRE(got.words.size() == wanted.words.size());
    for (size_t w = 0; w < wanted.words.size(); w += 2) {
      const size_t content = first + w / 2;
      if (content >= contents.size()) {
        CHECK(got.words[w] == 0);
        continue;
      }
      const Place& place = contents[content][0];
      CHECK_MESSAGE(got.words[w] == wanted.words[w],
                    fmt::format("content {}: {:#x} and {:#x} at {}", content, place.element.bits,
                                place.element.other, place.index));
      ++seen[wanted.words[w]];
    }
  }
}

TEST_CASE("flag words are those of the interpreter at the edges of every type") {
  if (lacks_nvrtc()) return;
  constexpr auto kNonFinite = static_cast<uint32_t>(ir::FlagBit::NonFinite);
  constexpr auto kBoth = kNonFinite | static_cast<uint32_t>(ir::FlagBit::Overflow);
  const auto start = std::chrono::steady_clock::now();
  for (DType to : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    struct Case {
      DType from;
      int flagged;
    };
    std::vector<Case> cases;
    std::vector<std::unique_ptr<ir::Module>> modules;
    const std::set<DType> sources{DType::F32, DType::F64, DType::I64, to};
    for (DType from : sources)
      for (int flagged : kFlagged) {
        cases.push_back({from, flagged});
        modules.push_back(flagged_kernel(from, to, flagged));
      }
    const DeviceProgram program(std::move(modules), "sm_90");
    std::map<uint32_t, int> seen;
    for (size_t i = 0; i < cases.size(); ++i)
      check_words(program, i, cases[i].from, to, cases[i].flagged, seen);
    CHECK(seen[0] > 0);
    CHECK(seen[kNonFinite] > 0);
    CHECK((seen[kBoth] > 0) == ir::is_16bit(to));
    fmt::print("flags of {}: {} words 0, {} not finite, {} overflows\n", ir::to_string(to), seen[0],
               seen[kNonFinite], seen[kBoth]);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("flags: {:.1f} s\n", took.count());
}

}  // namespace
}  // namespace mezzo::test
