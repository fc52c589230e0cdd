// SPDX-License-Identifier: Apache-2.0
#include <ptx/micro.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace mezzo::ptx::test {

std::string program(const std::string& body, int parameters, const std::string& declarations,
                    const std::string& header) {
  std::string list;
  for (int i = 0; i < parameters; ++i) list += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
  return fmt::format("{}.address_size 64\n{}\n.visible .entry k({})\n{{\n{}\nret;\n}}\n", header,
                     declarations, list, body);
}

std::vector<std::byte> parameter_bytes(std::initializer_list<uint64_t> values) {
  std::vector<std::byte> result(values.size() * 8);
  std::memcpy(result.data(), values.begin(), result.size());
  return result;
}

namespace {

MicroWatcher& micro_watcher() {
  static MicroWatcher watcher;
  return watcher;
}

}  // namespace

void watch_micro(MicroWatcher watcher) { micro_watcher() = std::move(watcher); }

std::vector<std::vector<std::byte>> run_micro(const MicroLaunch& launch) {
  DeviceMemory memory(64 << 20);
  std::vector<Address> addresses;
  for (const std::vector<std::byte>& buffer : launch.buffers) {
    addresses.push_back(memory.allocate(std::max<size_t>(buffer.size(), 1)).value());
    if (!buffer.empty()) std::memcpy(memory.host(addresses.back()), buffer.data(), buffer.size());
  }
  std::vector<std::byte> parameters(8 * addresses.size());
  std::memcpy(parameters.data(), addresses.data(), parameters.size());
  const Module module(program(launch.body, static_cast<int>(addresses.size()), launch.declarations),
                      memory);
  module.kernel("k").launch(memory, launch.grid, launch.block, launch.dynamic_shared, parameters,
                            launch.options);
  std::vector<std::vector<std::byte>> after;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::byte* first = memory.host(addresses[i]);
    after.emplace_back(first, first + launch.buffers[i].size());
  }
  const bool plain =
      launch.options.order == BlockOrder::Forward && !launch.options.hostile_divergence;
  if (micro_watcher() && plain && !launch.results.empty()) micro_watcher()(launch, after);
  return after;
}

namespace {

constexpr uint64_t kUntouched = 0x5A5A5A5A5A5A5A5A;

int width_of(char c) { return c == 'p' ? 0 : c - '0'; }
int bits_of(char c) { return 8 * width_of(c); }
int stored_bytes(char c) { return c == 'p' ? 4 : width_of(c); }

std::string load(char width, const std::string& name, size_t offset) {
  if (width == 'p')
    return fmt::format("ld.global.b32 %load, [%in+{}];\nsetp.ne.b32 {}, %load, 0;\n", offset, name);
  return fmt::format("ld.global.b{} {}, [%in+{}];\n", bits_of(width), name, offset);
}

std::string store(char width, const std::string& name, size_t offset) {
  if (width == 'p')
    return fmt::format("selp.b32 %load, 1, 0, {};\nst.global.b32 [%out+{}], %load;\n", name,
                       offset);
  return fmt::format("st.global.b{} [%out+{}], {};\n", bits_of(width), offset, name);
}

std::string declare(char width, const std::string& name) {
  return width == 'p' ? fmt::format(".reg .pred {};\n", name)
                      : fmt::format(".reg .b{} {};\n", bits_of(width), name);
}

uint64_t mask_of(char width) {
  if (width == 'p') return 1;
  return width == '8' ? ~uint64_t{0} : (uint64_t{1} << bits_of(width)) - 1;
}

constexpr const char* kResults[] = {"%d", "%q"};
constexpr const char* kInputs[] = {"%a", "%b", "%c", "%e"};

std::vector<Column> evaluate_guarded(const std::string& text, std::string_view signature,
                                     const std::vector<Column>& inputs, bool guarded) {
  const size_t colon = signature.find(':');
  const std::string_view results = signature.substr(0, colon), from = signature.substr(colon + 1);
  REQUIRE(from.size() == inputs.size());
  const size_t count = inputs.empty() ? 256 : inputs[0].size();
  std::string body =
      ".reg .b32 %load, %i, %n;\n.reg .b64 %in, %out, %far;\n.reg .pred %outside, %guard;\n";
  for (size_t r = 0; r < results.size(); ++r) body += declare(results[r], kResults[r]);
  for (size_t i = 0; i < from.size(); ++i) body += declare(from[i], kInputs[i]);
  body += fmt::format(
      "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\n"
      "mov.u32 %i, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %load, %tid.x;\n"
      "mad.lo.u32 %i, %i, %n, %load;\nsetp.ge.u32 %outside, %i, {};\n@%outside ret;\n"
      "mad.wide.u32 %in, %i, {}, %in;\nmad.wide.u32 %out, %i, {}, %out;\n"
      "rem.u32 %load, %i, 3;\nsetp.ne.u32 %guard, %load, 0;\n",
      count, 8 * from.size(), 8 * results.size());
  for (size_t i = 0; i < from.size(); ++i) body += load(from[i], kInputs[i], 8 * i);
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r] == 'p')
      body += fmt::format("setp.ne.b32 {}, 0, 0;\n", kResults[r]);
    else
      body += fmt::format("mov.b{} {}, {};\n", bits_of(results[r]), kResults[r],
                          static_cast<int64_t>(kUntouched & (mask_of(results[r]) >> 1)));
  }
  if (guarded) body += "@%guard ";
  body += text + "\n";
  for (size_t r = 0; r < results.size(); ++r) body += store(results[r], kResults[r], 8 * r);

  std::vector<uint64_t> in(count * from.size());
  for (size_t i = 0; i < from.size(); ++i)
    for (size_t e = 0; e < count; ++e) in[e * from.size() + i] = inputs[i][e];
  MicroLaunch launch{.op = guarded ? "@%guard " + text : text, .body = std::move(body)};
  launch.grid = {static_cast<uint32_t>((count + 255) / 256), 1, 1};
  launch.block = {256, 1, 1};
  launch.buffers = {bytes_of(in), bytes_of(Column(count * results.size(), kUntouched))};
  launch.operands = inputs;
  for (size_t r = 0; r < results.size(); ++r)
    launch.results.push_back({.offset = 8 * r,
                              .stride = 8 * results.size(),
                              .count = count,
                              .width = static_cast<size_t>(stored_bytes(results[r]))});
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  const std::span<const uint64_t> out = elements_of<uint64_t>(after[1]);
  std::vector<Column> columns(results.size(), Column(count));
  for (size_t r = 0; r < results.size(); ++r)
    for (size_t e = 0; e < count; ++e)
      columns[r][e] = out[e * results.size() + r] & mask_of(results[r]);
  return columns;
}

// ---- values ----

std::vector<uint64_t> specials(char kind, char width) {
  switch (kind) {
    case 'f':
      return {0,          0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x40490FDB, 0xC2C80000,
              0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
              0x7FC00000, 0xFFA00001, 0x477FE000, 0x477FF000, 0x33800000, 0x4F000000, 0xCF000001,
              0x3F800001, 0x38FFF000, 0x4B7FFFFF, 0x3FC00000, 0xC0200000};
    case 'd':
      return {0,
              uint64_t{1} << 63,
              bits(1.0),
              bits(-1.5),
              bits(2.5),
              1,
              0x800FFFFFFFFFFFFF,
              0x0010000000000000,
              0x7FEFFFFFFFFFFFFF,
              0xFFF0000000000000,
              0x7FF0000000000000,
              0x7FF8000000000000,
              bits(1e-40),
              bits(0x1.000001p0),
              bits(-0x1.ffffffp127),
              bits(9.3e18),
              bits(4294967295.5)};
    case 'h':
      return {0,      0x8000, 0x3C00, 0xBC00, 0x3800, 0x4248, 1,      0x83FF, 0x0400,
              0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFD01, 0x3C01, 0x5640, 0x2E66};
    case 'b':
      return {0,      0x8000, 0x3F80, 0xBF80, 0x3F00, 0x4049, 1,      0x807F, 0x0080,
              0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFA1, 0x3F81, 0x42C8, 0x3DCD};
    case 'n':
      return {0, 1, 2, 7, 15, 16, 31, 32, 33, 63, 64, 100, 255, 256, 0xFFFFFFFF};
    case 'p':
      return {0, 1};
    default: {
      const uint64_t top = uint64_t{1} << (8 * width_of(width) - 1);
      return {0,
              1,
              2,
              3,
              7,
              0x7F,
              0x80,
              0xFF,
              0x5555555555555555,
              top - 1,
              top - 2,
              top,
              top + 1,
              ~uint64_t{0},
              ~uint64_t{1},
              0x123456789ABCDEF0};
    }
  }
}

uint64_t random_value(char kind, std::mt19937_64& engine) {
  std::uniform_real_distribution<double> small(-4, 4);
  const bool any = engine() % 3 == 0;
  switch (kind) {
    case 'f':
      return any ? engine() : std::bit_cast<uint32_t>(static_cast<float>(small(engine)));
    case 'd':
      return any ? engine() : std::bit_cast<uint64_t>(small(engine));
    case 'h':
      return any ? engine() : narrow(small(engine), Half::F16);
    case 'b':
      return any ? engine() : narrow(small(engine), Half::Bf16);
    case 'n':
      return engine() % 70;
    case 'p':
      return engine() & 1;
    default:
      return engine() >> (engine() % 64);
  }
}

/// A pair of values of the kind in lower case, both from one draw.
uint64_t pair_of(uint64_t low, uint64_t high, char kind) {
  return kind == 'w' ? (low & 0xFFFFFFFF) | high << 32 : (low & 0xFFFF) | (high & 0xFFFF) << 16;
}

}  // namespace

std::vector<Column> evaluate(const std::string& text, std::string_view signature,
                             const std::vector<Column>& inputs) {
  return evaluate_guarded(text, signature, inputs, false);
}

std::vector<Column> operands(std::string_view kinds, std::string_view widths) {
  std::mt19937_64 engine(kinds.size() * 31 + kinds[0]);
  std::vector<std::vector<uint64_t>> lists;
  size_t combinations = 1;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const char kind = kinds[i];
    const char single = kind == 'H' ? 'h' : kind == 'B' ? 'b' : kind == 'w' ? 'f' : kind;
    std::vector<uint64_t> list = specials(single, widths[i]);
    if (kind != single) {
      const std::vector<uint64_t> halves = list;
      for (size_t j = 0; j < list.size(); ++j)
        list[j] = pair_of(halves[j], halves[(j * 7 + 3) % halves.size()], kind);
    }
    combinations *= list.size();
    lists.push_back(std::move(list));
  }
  // All combinations where they are few, else every so-many-th; 333 random ones, so that the last
  // warp is not full.
  const size_t step = combinations / 1200 + 1;
  std::vector<Column> columns(kinds.size());
  for (size_t c = 0; c < combinations; c += step) {
    size_t rest = c;
    for (size_t i = 0; i < kinds.size(); ++i) {
      columns[i].push_back(lists[i][rest % lists[i].size()]);
      rest /= lists[i].size();
    }
  }
  for (int r = 0; r < 333; ++r) {
    for (size_t i = 0; i < kinds.size(); ++i) {
      const char kind = kinds[i];
      const char single = kind == 'H' ? 'h' : kind == 'B' ? 'b' : kind == 'w' ? 'f' : kind;
      const uint64_t low = random_value(single, engine);
      columns[i].push_back(kind == single ? low : pair_of(low, random_value(single, engine), kind));
    }
  }
  for (size_t i = 0; i < kinds.size(); ++i)
    for (uint64_t& value : columns[i]) value &= mask_of(widths[i]);
  return columns;
}

namespace {

bool agree(uint64_t got, uint64_t wanted, Compare compare, double ulps) {
  if (got == wanted) return true;
  if (compare == Compare::Bits) return false;
  const double a = compare == Compare::F32 ? f32(got) : f64(got);
  const double b = compare == Compare::F32 ? f32(wanted) : f64(wanted);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  const double unit =
      compare == Compare::F32
          ? std::max(std::ldexp(1.0, std::ilogb(b == 0 ? 1e-300 : b) - 23), 0x1p-149)
          : std::ldexp(1.0, std::ilogb(b == 0 ? 1e-300 : b) - 52);
  return std::fabs(a - b) <= ulps * unit;
}

}  // namespace

void check_op(const std::string& text, std::string_view signature, std::string_view kinds,
              const Reference& reference, Compare compare, double ulps) {
  INFO(text);
  const size_t colon = signature.find(':');
  const std::vector<Column> inputs = operands(kinds, signature.substr(colon + 1));
  const char result = signature[0];
  for (const bool guarded : {false, true}) {
    const Column got = evaluate_guarded(text, signature, inputs, guarded).at(0);
    std::string first;
    int wrong = 0;
    for (size_t e = 0; e < got.size(); ++e) {
      const auto value = [&](size_t i) { return i < inputs.size() ? inputs[i][e] : 0; };
      uint64_t wanted = reference(value(0), value(1), value(2)) & mask_of(result);
      const bool skipped = guarded && e % 3 == 0;
      if (skipped) wanted = result == 'p' ? 0 : kUntouched & (mask_of(result) >> 1);
      if (agree(got[e], wanted, skipped ? Compare::Bits : compare, ulps)) continue;
      if (wrong++ == 0)
        first = fmt::format("element {}: a {:#x} b {:#x} c {:#x} gives {:#x}, wanted {:#x}{}", e,
                            value(0), value(1), value(2), got[e], wanted,
                            skipped ? " (left out by its guard)" : "");
    }
    CHECK_MESSAGE(wrong == 0, wrong << " of " << got.size() << " differ; " << first);
  }
}

// ---- f16 and bf16 ----

double widen(uint64_t bits, Half kind) {
  const int mantissa_bits = kind == Half::F16 ? 10 : 7, bias = kind == Half::F16 ? 15 : 127;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & (2 * bias + 1);
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 2 * bias + 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

uint64_t narrow(long double exact, Half kind, Toward toward) {
  if (std::isnan(exact)) return 0x7FFF;
  const uint64_t sign = std::signbit(exact) ? 0x8000 : 0,
                 infinity = kind == Half::F16 ? 0x7C00 : 0x7F80;
  const long double size = std::fabs(exact);
  if (std::isinf(size)) return sign | infinity;
  // The last value that is not larger, by halving.
  uint64_t low = 0, high = infinity;
  while (high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    (widen(middle, kind) <= size ? low : high) = middle;
  }
  const long double below = widen(low, kind);
  // Infinity stands where the next value would be.
  const long double above = high == infinity ? 2 * widen(low, kind) - widen(low - 1, kind)
                                             : static_cast<long double>(widen(high, kind));
  if (below == size) return sign | low;
  bool up = false;
  switch (toward) {
    case Toward::Nearest: {
      const long double left = size - below, right = above - size;
      up = left > right || (left == right && (low & 1));
      break;
    }
    case Toward::Zero:
      break;
    case Toward::Down:
      up = sign != 0;
      break;
    case Toward::Up:
      up = sign == 0;
      break;
  }
  return sign | (up ? high : low);
}

}  // namespace mezzo::ptx::test
