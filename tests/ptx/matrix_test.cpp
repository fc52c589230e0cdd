// SPDX-License-Identifier: Apache-2.0
// mma.sync, ldmatrix, stmatrix, movmatrix. The fragment layouts below are written down from the
// manual's figures, element by element, and share nothing with the interpreter's.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <ptx/micro.h>
#include <random>

namespace mezzo::ptx::test {
namespace {

struct Place {
  int row, column;
};

// "Matrix fragments for mma.m16n8k16", 16-bit types: element i of the fragment of a lane.
Place a_of_k16(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  const int row = (i == 0 || i == 1 || i == 4 || i == 5) ? group : group + 8;
  const int column = i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8;
  return {row, column};
}
Place b_of_k16(int lane, int i) {
  const int group = lane >> 2, thread = lane % 4;
  return {i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8, group};
}
// "Matrix fragments for mma.m16n8k8", 16-bit types.
Place a_of_k8(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, (lane % 4) * 2 + (i & 1)};
}
Place b_of_k8(int lane, int i) { return {(lane % 4) * 2 + i, lane >> 2}; }
// The same shape for tf32.
Place a_of_k8_tf32(int lane, int i) {
  const int row = (i == 0 || i == 2) ? lane >> 2 : (lane >> 2) + 8;
  return {row, i < 2 ? lane % 4 : lane % 4 + 4};
}
Place b_of_k8_tf32(int lane, int i) { return {i == 0 ? lane % 4 : lane % 4 + 4, lane >> 2}; }
// m16n8k4 for tf32.
Place a_of_k4_tf32(int lane, int i) { return {i == 0 ? lane >> 2 : (lane >> 2) + 8, lane % 4}; }
Place b_of_k4_tf32(int lane, int) { return {lane % 4, lane >> 2}; }
// C and D of all of them.
Place c_of(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, (lane % 4) * 2 + (i & 1)};
}

enum class Element : uint8_t { F16, Bf16, Tf32 };

struct Shape {
  const char* name;
  Element element;
  bool half_sums;
  int depth, a_elements, b_elements;
  Place (*a)(int, int);
  Place (*b)(int, int);
};
const Shape kShapes[] = {
    {"m16n8k16.row.col.f32.f16.f16.f32", Element::F16, false, 16, 8, 4, a_of_k16, b_of_k16},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", Element::Bf16, false, 16, 8, 4, a_of_k16, b_of_k16},
    {"m16n8k8.row.col.f32.f16.f16.f32", Element::F16, false, 8, 4, 2, a_of_k8, b_of_k8},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", Element::Bf16, false, 8, 4, 2, a_of_k8, b_of_k8},
    {"m16n8k16.row.col.f16.f16.f16.f16", Element::F16, true, 16, 8, 4, a_of_k16, b_of_k16},
    {"m16n8k8.row.col.f16.f16.f16.f16", Element::F16, true, 8, 4, 2, a_of_k8, b_of_k8},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", Element::Tf32, false, 8, 4, 2, a_of_k8_tf32,
     b_of_k8_tf32},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", Element::Tf32, false, 4, 2, 1, a_of_k4_tf32,
     b_of_k4_tf32},
};

int size_of(Element element) { return element == Element::Tf32 ? 4 : 2; }

uint64_t encode(double value, Element element) {
  switch (element) {
    case Element::F16:
      return narrow(value, Half::F16);
    case Element::Bf16:
      return narrow(value, Half::Bf16);
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value)) & 0xFFFFE000;
  }
}
double decode(uint64_t bits, Element element) {
  switch (element) {
    case Element::F16:
      return widen(bits, Half::F16);
    case Element::Bf16:
      return widen(bits, Half::Bf16);
    default:
      return f32(bits);
  }
}

std::string register_list(const char* prefix, int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += fmt::format("{}{}{}", i ? ", " : "", prefix, i);
  return "{" + list + "}";
}

/// D of one mma whose fragments are laid out in memory by lanes: A, B, C.
struct Product {
  double a[16][16] = {}, b[16][8] = {}, c[16][8] = {}, d[16][8] = {};
};

/// How far apart two ways of adding may be: each of the roundings, or cuts of a tensor core, costs
/// at most a unit of the magnitudes' sum. Sums of whole numbers that fit are exact in all of them.
std::vector<double> slack_of(const Shape& shape, const Product& product) {
  const int digits = shape.half_sums ? 10 : 23;
  std::vector<double> slack;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Place at = c_of(lane, i);
      double sizes = std::fabs(product.c[at.row][at.column]);
      bool whole = sizes == std::floor(sizes);
      for (int k = 0; k < shape.depth; ++k) {
        const double term = product.a[at.row][k] * product.b[k][at.column];
        whole &= term == std::floor(term);
        sizes += std::fabs(term);
      }
      const bool exact = whole && sizes <= std::ldexp(1.0, digits + 1);
      slack.push_back(exact ? 0 : (shape.depth + 1) * std::ldexp(sizes, -digits));
    }
  }
  return slack;
}

void run_mma(const Shape& shape, Product& product, MmaMode mode) {
  const int size = size_of(shape.element), sum_size = shape.half_sums ? 2 : 4;
  const int a_words = shape.a_elements * size / 4, b_words = shape.b_elements * size / 4,
            c_words = sum_size;
  const auto words = [](int count) {
    return std::vector<std::byte>(128u * static_cast<size_t>(count));
  };
  MicroLaunch launch;
  launch.op = fmt::format("mma.sync.aligned.{}", shape.name);
  launch.buffers = {words(a_words), words(b_words), words(c_words), words(c_words)};
  launch.options.mma = mode;
  const auto put = [&](size_t buffer, size_t index, uint64_t bits, int bytes) {
    std::memcpy(launch.buffers[buffer].data() + index * static_cast<size_t>(bytes), &bits,
                static_cast<size_t>(bytes));
  };
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < shape.a_elements; ++i) {
      const Place at = shape.a(lane, i);
      put(0, static_cast<size_t>(lane * shape.a_elements + i),
          encode(product.a[at.row][at.column], shape.element), size);
    }
    for (int i = 0; i < shape.b_elements; ++i) {
      const Place at = shape.b(lane, i);
      put(1, static_cast<size_t>(lane * shape.b_elements + i),
          encode(product.b[at.row][at.column], shape.element), size);
    }
    for (int i = 0; i < 4; ++i) {
      const Place at = c_of(lane, i);
      const double value = product.c[at.row][at.column];
      put(2, static_cast<size_t>(lane * 4 + i),
          shape.half_sums ? narrow(value, Half::F16) : bits(static_cast<float>(value)), sum_size);
    }
  }
  std::string body = fmt::format(
      ".reg .b32 %t, %a<4>, %b<2>, %c<4>, %d<4>;\n.reg .b64 %pa, %pb, %pc, %pd;\n"
      "ld.param.u64 %pa, [p0];\nld.param.u64 %pb, [p1];\nld.param.u64 %pc, [p2];\nld.param.u64 "
      "%pd, [p3];\n"
      "mov.u32 %t, %laneid;\nmad.wide.u32 %pa, %t, {}, %pa;\nmad.wide.u32 %pb, %t, {}, %pb;\n"
      "mad.wide.u32 %pc, %t, {}, %pc;\nmad.wide.u32 %pd, %t, {}, %pd;\n",
      4 * a_words, 4 * b_words, 4 * c_words, 4 * c_words);
  const auto move = [&](const char* text, const char* prefix, const char* pointer, int words) {
    for (int i = 0; i < words; ++i)
      body += fmt::format(fmt::runtime(text), prefix, i, pointer, 4 * i);
  };
  move("ld.global.u32 %{}{}, [{}+{}];\n", "a", "%pa", a_words);
  move("ld.global.u32 %{}{}, [{}+{}];\n", "b", "%pb", b_words);
  move("ld.global.u32 %{}{}, [{}+{}];\n", "c", "%pc", c_words);
  body += fmt::format("mma.sync.aligned.{} {}, {}, {}, {};\n", shape.name,
                      register_list("%d", c_words), register_list("%a", a_words),
                      register_list("%b", b_words), register_list("%c", c_words));
  for (int i = 0; i < c_words; ++i)
    body += fmt::format("st.global.u32 [%pd+{}], %d{};\n", 4 * i, i);
  launch.body = std::move(body);
  launch.results = {{.buffer = 3,
                     .stride = static_cast<size_t>(sum_size),
                     .count = 128,
                     .width = static_cast<size_t>(sum_size),
                     .slack = slack_of(shape, product)}};
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, after[3].data() + (lane * 4 + i) * sum_size,
                  static_cast<size_t>(sum_size));
      const Place at = c_of(lane, i);
      product.d[at.row][at.column] = shape.half_sums ? widen(value, Half::F16) : f32(value);
    }
  }
}

TEST_CASE("a product with one element of A and one of B lands in one place") {
  for (const Shape& shape : kShapes) {
    INFO(shape.name);
    // Small integers: sums are exact in f16 too. Every place of A and B gets its own number.
    Product product;
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < shape.depth; ++k) product.a[m][k] = (m * 5 + k * 3) % 7 - 3;
    for (int k = 0; k < shape.depth; ++k)
      for (int n = 0; n < 8; ++n) product.b[k][n] = (k * 2 + n * 5) % 9 - 4;
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) product.c[m][n] = m * 8 + n;
    for (const MmaMode mode : {MmaMode::Sequential, MmaMode::Exact}) {
      run_mma(shape, product, mode);
      for (int m = 0; m < 16; ++m) {
        for (int n = 0; n < 8; ++n) {
          double wanted = product.c[m][n];
          for (int k = 0; k < shape.depth; ++k) wanted += product.a[m][k] * product.b[k][n];
          REQUIRE(product.d[m][n] == wanted);
        }
      }
    }
  }
  // One place at a time.
  for (const Shape& shape : kShapes) {
    for (int step = 0; step < 32; ++step) {
      Product product;
      const int m = step * 7 % 16, k = step * 5 % shape.depth, n = step * 3 % 8;
      product.a[m][k] = 2;
      product.b[k][n] = 3;
      run_mma(shape, product, MmaMode::Sequential);
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) REQUIRE(product.d[i][j] == (i == m && j == n ? 6 : 0));
    }
  }
}

TEST_CASE("both modes of mma agree within rounding, and differ where order or cut show") {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  for (const Shape& shape : kShapes) {
    INFO(shape.name);
    Product sequential;
    for (auto& row : sequential.a)
      for (double& x : row) x = decode(encode(normal(engine), shape.element), shape.element);
    for (auto& row : sequential.b)
      for (double& x : row) x = decode(encode(normal(engine), shape.element), shape.element);
    for (auto& row : sequential.c)
      for (double& x : row)
        x = shape.half_sums ? widen(narrow(normal(engine), Half::F16), Half::F16)
                            : static_cast<float>(normal(engine));
    Product exact = sequential;
    run_mma(shape, sequential, MmaMode::Sequential);
    run_mma(shape, exact, MmaMode::Exact);
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        float in_turn = static_cast<float>(sequential.c[m][n]);
        long double sum = sequential.c[m][n];
        double sizes = std::fabs(sequential.c[m][n]);
        for (int k = 0; k < shape.depth; ++k) {
          const double term = sequential.a[m][k] * sequential.b[k][n];
          in_turn += static_cast<float>(term);
          sum += term;
          sizes += std::fabs(term);
        }
        const double unit = shape.half_sums ? 0x1p-10 : 0x1p-23;
        if (!shape.half_sums) REQUIRE(sequential.d[m][n] == in_turn);
        REQUIRE(std::fabs(exact.d[m][n] - static_cast<double>(sum)) <=
                unit * std::fabs(static_cast<double>(sum)) + 1e-30);
        // Cut toward zero, never away.
        if (!shape.half_sums)
          REQUIRE(std::fabs(static_cast<long double>(exact.d[m][n])) <= std::fabs(sum));
        REQUIRE(std::fabs(sequential.d[m][n] - static_cast<double>(sum)) <=
                shape.depth * unit * sizes);
      }
    }
  }
  // 2^24 + 1 - 2^24: in turn the 1 is lost; exactly it stays.
  Product cancel;
  cancel.c[3][2] = 0x1p24;
  cancel.a[3][0] = 1;
  cancel.b[0][2] = 1;
  cancel.a[3][1] = -0x1p12;
  cancel.b[1][2] = 0x1p12;
  run_mma(kShapes[0], cancel, MmaMode::Sequential);
  CHECK(cancel.d[3][2] == 0);
  run_mma(kShapes[0], cancel, MmaMode::Exact);
  CHECK(cancel.d[3][2] == 1);
  // Infinities and NaNs.
  Product wild;
  wild.a[0][0] = INFINITY;
  wild.b[0][0] = 1;
  wild.b[0][1] = 0;
  wild.c[1][1] = -INFINITY;
  for (const MmaMode mode : {MmaMode::Sequential, MmaMode::Exact}) {
    run_mma(kShapes[0], wild, mode);
    CHECK(wild.d[0][0] == INFINITY);
    CHECK(std::isnan(wild.d[0][1]));
    CHECK(wild.d[1][1] == -INFINITY);
  }
}

// ---- 8x8 matrices in shared memory ----

/// Element of matrix `m` at (row, column) in the test's memory.
uint16_t element(int m, int row, int column) {
  return static_cast<uint16_t>(m * 1000 + row * 10 + column);
}

std::string fill_shared() {
  // 32 rows of 16 bytes, with a gap of 16 behind each; row r of matrix m is row 8 m + r.
  return ".shared .align 16 .b8 rows[1024];\n.reg .b32 %t, %at, %x, %r<4>;\n.reg .b64 %in, %out;\n"
         "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %laneid;\n"
         "mov.u32 %at, rows;\nmad.lo.u32 %at, %t, 32, %at;\nmad.wide.u32 %in, %t, 16, %in;\n"
         "mad.wide.u32 %out, %t, 16, %out;\n";
}

/// `body` over a buffer of 256 numbers; what it leaves in another one.
std::vector<uint16_t> run_matrices(const std::string& op, const std::string& body,
                                   const std::vector<uint16_t>& in) {
  MicroLaunch launch{.op = op, .body = body};
  launch.buffers = {bytes_of(in), bytes_of(std::vector<uint16_t>(256))};
  launch.results = {{.stride = 2, .count = 256, .width = 2}};
  const std::vector<std::byte> out = run_micro(launch)[1];
  const std::span<const uint16_t> elements = elements_of<uint16_t>(out);
  return {elements.begin(), elements.end()};
}

TEST_CASE("ldmatrix gives each lane two elements of its row, or of its column") {
  for (const int count : {1, 2, 4}) {
    for (const bool transpose : {false, true}) {
      INFO(count << (transpose ? " transposed" : ""));
      std::vector<uint16_t> in(256);
      for (int m = 0; m < 4; ++m)
        for (int r = 0; r < 8; ++r)
          for (int c = 0; c < 8; ++c)
            in[static_cast<size_t>((8 * m + r) * 8 + c)] = element(m, r, c);
      std::string body =
          fill_shared() +
          "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%in];\nst.shared.v4.u32 [%at], {%r0,%r1,%r2,%r3};\n"
          "bar.warp.sync -1;\nmov.b32 %r0, 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;\n";
      const std::string op =
          fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {}, [%at];\n", count,
                      transpose ? ".trans" : "", register_list("%r", count));
      body += op;
      body += "st.global.v4.u32 [%out], {%r0,%r1,%r2,%r3};\n";
      const std::vector<uint16_t> out = run_matrices(op, body, in);
      for (int lane = 0; lane < 32; ++lane) {
        for (int m = 0; m < 4; ++m) {
          for (int i = 0; i < 2; ++i) {
            const int row = lane / 4, column = lane % 4 * 2 + i;
            const uint16_t wanted = m >= count  ? 0
                                    : transpose ? element(m, column, row)
                                                : element(m, row, column);
            REQUIRE(out[static_cast<size_t>(lane * 8 + m * 2 + i)] == wanted);
          }
        }
      }
    }
  }
}

TEST_CASE("stmatrix is the way back") {
  for (const int count : {1, 2, 4}) {
    for (const bool transpose : {false, true}) {
      INFO(count << (transpose ? " transposed" : ""));
      std::vector<uint16_t> in(256);
      for (int lane = 0; lane < 32; ++lane)
        for (int m = 0; m < 4; ++m)
          for (int i = 0; i < 2; ++i)
            in[static_cast<size_t>(lane * 8 + m * 2 + i)] = element(m, lane / 4, lane % 4 * 2 + i);
      std::string body =
          fill_shared() +
          "mov.b32 %x, 0;\nst.shared.v4.u32 [%at], {%x,%x,%x,%x};\nbar.warp.sync -1;\n"
          "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%in];\n";
      const std::string op =
          fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%at], {};\n", count,
                      transpose ? ".trans" : "", register_list("%r", count));
      body += op;
      body +=
          "bar.warp.sync -1;\nld.shared.v4.u32 {%r0,%r1,%r2,%r3}, [%at];\nst.global.v4.u32 [%out], "
          "{%r0,%r1,%r2,%r3};\n";
      const std::vector<uint16_t> out = run_matrices(op, body, in);
      for (int m = 0; m < 4; ++m)
        for (int r = 0; r < 8; ++r)
          for (int c = 0; c < 8; ++c) {
            const uint16_t wanted = m >= count  ? 0
                                    : transpose ? element(m, c, r)
                                                : element(m, r, c);
            REQUIRE(out[static_cast<size_t>((8 * m + r) * 8 + c)] == wanted);
          }
    }
  }
}

TEST_CASE("movmatrix transposes between lanes") {
  MicroLaunch launch{.op = "movmatrix.sync.aligned.m8n8.trans.b16"};
  launch.buffers = {bytes_of(std::vector<uint32_t>(32))};
  launch.results = {{.buffer = 0, .count = 32}};
  launch.body =
      ".reg .b32 %t, %x, %y, %r;\n.reg .b64 %out;\nld.param.u64 %out, [p0];\nmov.u32 %t, %laneid;\n"
      "mad.wide.u32 %out, %t, 4, %out;\nshl.b32 %x, %t, 1;\nmad.lo.u32 %y, %x, 65536, %x;\nadd.u32 "
      "%y, %y, 65536;\n"
      "movmatrix.sync.aligned.m8n8.trans.b16 %r, %y;\nst.global.u32 [%out], %r;\n";
  const std::vector<std::vector<std::byte>> after = run_micro(launch);
  const std::span<const uint32_t> out = elements_of<uint32_t>(after[0]);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t row = lane / 4, column = lane % 4 * 2;
    CHECK(out[lane] == (((column + 1) * 8 + row) << 16 | (column * 8 + row)));
  }
}

}  // namespace
}  // namespace mezzo::ptx::test
