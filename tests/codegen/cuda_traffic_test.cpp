// SPDX-License-Identifier: Apache-2.0
// How kernels touch memory, counted by the PTX interpreter: 32-byte sectors of global accesses
// against the fewest that could hold the bytes, wavefronts of shared ones against the fewest, and
// the bytes that the kernel has to move.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/parser.h>
#include <support/nvrtc.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>

namespace mezzo::test {
namespace {

struct Traffic {
  uint64_t sectors = 0, ideal = 0, wavefronts = 0, ideal_wavefronts = 0;
  int64_t moved = 0;     // sectors times their size
  int64_t boundary = 0;  // bytes of operands and results
};

/// Of the only kernel of `@main`, for sm_90.
Traffic traffic_of(const std::string& name, const std::string& text) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  plan_for(*module, "sm_90");
  REQUIRE(kernels_of(*module).size() == 1);
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(alone(*kernels_of(*module)[0]));
  const DeviceProgram program(std::move(modules), "sm_90");
  const ir::Function& function = *program.module(0).functions()[0];
  std::vector<ir::InterpreterTensor> inputs;
  Traffic traffic;
  for (int i = 0; i < function.num_parameters(); ++i) {
    inputs.push_back(random_array('a', function.parameter(i).type(), static_cast<uint64_t>(i)));
    traffic.boundary += function.parameter(i).type().bytes();
  }
  for (ir::Value value : function.results()) traffic.boundary += value.type().bytes();
  ptx::Options options;
  options.count = true;
  std::vector<ptx::Counters> counters;
  program.run(0, inputs, options, &counters);
  for (const ptx::Counters& launch : counters)
    for (const ptx::LineCounters& line : launch.lines) {
      traffic.sectors += line.sectors;
      traffic.ideal += line.ideal_sectors;
      traffic.wavefronts += line.wavefronts;
      traffic.ideal_wavefronts += line.ideal_wavefronts;
    }
  traffic.moved = static_cast<int64_t>(traffic.sectors) * 32;
  fmt::print(
      "{:28} {} launches, sectors {} of {} ideal, wavefronts {} of {} ideal, {:.3f} times the "
      "bytes "
      "of operands and results\n",
      name, counters.size(), traffic.sectors, traffic.ideal, traffic.wavefronts,
      traffic.ideal_wavefronts,
      static_cast<double>(traffic.moved) / static_cast<double>(traffic.boundary));
  return traffic;
}

std::string softmax(int64_t rows, int64_t columns, const std::string& type) {
  const std::string full = fmt::format("tensor<{}x{}x", rows, columns);
  const std::string row = fmt::format("tensor<{}x1xf32>", rows);
  return fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: {0}{2}>) -> {0}{2}> {{
    %0 = cast %x : {0}{2}> -> {0}f32>
    %1 = max %0 {{axes = [1], keepdims = true}} : {0}f32> -> {1}
    %2 = sub %0, %1 : ({0}f32>, {1}) -> {0}f32>
    %3 = exp %2 : {0}f32>
    %4 = sum %3 {{axes = [1], keepdims = true}} : {0}f32> -> {1}
    %5 = div %3, %4 : ({0}f32>, {1}) -> {0}f32>
    %6 = cast %5 : {0}f32> -> {0}{2}>
    return %6 : {0}{2}>
  }}
}}
)",
                     full, row, type);
}

TEST_CASE("rows that fit registers are read once and written once, in whole sectors") {
  if (lacks_nvrtc()) return;
  struct Case {
    int64_t rows, columns;
    double most;  // times the bytes of operands and results
  };
  // Rows that registers hold not are read three times, by slices too, which also leave totals.
  for (const Case& each : {Case{64, 1024, 1}, Case{200, 256, 1}, Case{4, 8192, 1},
                           Case{140, 32768, 2}, Case{2, 262144, 2.1}}) {
    const Traffic traffic = traffic_of(fmt::format("softmax f16 {}x{}", each.rows, each.columns),
                                       softmax(each.rows, each.columns, "f16"));
    CHECK(traffic.sectors <= traffic.ideal * 101 / 100);
    CHECK(traffic.wavefronts == traffic.ideal_wavefronts);
    CHECK(static_cast<double>(traffic.moved) <= each.most * static_cast<double>(traffic.boundary));
  }
}

TEST_CASE("columns are read once, in whole sectors") {
  if (lacks_nvrtc()) return;
  const Traffic traffic =
      traffic_of("sum of 20000x256 f16", R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<20000x256xf16>) -> tensor<256xf16> {
    %0 = sum %x {axes = [0]} : tensor<20000x256xf16> -> tensor<256xf16>
    return %0 : tensor<256xf16>
  }
}
)");
  // A partial total of 8 columns is 32 bytes, which two accesses of 16 bytes read.
  CHECK(traffic.sectors <= traffic.ideal * 104 / 100);
  CHECK(static_cast<double>(traffic.moved) <= 1.1 * static_cast<double>(traffic.boundary));
}

TEST_CASE("rows whose columns are added too are read once, in whole sectors") {
  if (lacks_nvrtc()) return;
  const Traffic traffic =
      traffic_of("rows, columns 20000x256 f16", R"(module @m attributes {stage = "primitive"} {
  func @main(%x: tensor<20000x256xf16>) -> (tensor<20000x256xf16>, tensor<256xf32>) {
    %0 = cast %x : tensor<20000x256xf16> -> tensor<20000x256xf32>
    %1 = max %0 {axes = [1], keepdims = true} : tensor<20000x256xf32> -> tensor<20000x1xf32>
    %2 = sub %0, %1 : (tensor<20000x256xf32>, tensor<20000x1xf32>) -> tensor<20000x256xf32>
    %3 = sum %2 {axes = [0]} : tensor<20000x256xf32> -> tensor<256xf32>
    %4 = cast %2 : tensor<20000x256xf32> -> tensor<20000x256xf16>
    return %4, %3 : (tensor<20000x256xf16>, tensor<256xf32>)
  }
}
)");
  // The totals of parts are left, and read again; 8 columns of them are 32 bytes, which two
  // accesses of 16 bytes write.
  CHECK(traffic.sectors <= traffic.ideal * 103 / 100);
  CHECK(static_cast<double>(traffic.moved) <= 1.1 * static_cast<double>(traffic.boundary));
}

TEST_CASE("elementwise kernels and transposes touch whole sectors once") {
  if (lacks_nvrtc()) return;
  for (const char* type : {"u8", "f16", "f32", "f64"}) {
    const Traffic transposed =
        traffic_of(fmt::format("transpose {}", type),
                   fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<256x192x{0}>) -> tensor<192x256x{0}> {{
    %0 = transpose %x {{perm = [1, 0]}} : tensor<256x192x{0}> -> tensor<192x256x{0}>
    return %0 : tensor<192x256x{0}>
  }}
}}
)",
                               type));
    CHECK(transposed.moved == transposed.boundary);
    CHECK(transposed.wavefronts == transposed.ideal_wavefronts);
    const Traffic sum = traffic_of(fmt::format("maximum {}", type),
                                   fmt::format(R"(module @m attributes {{stage = "primitive"}} {{
  func @main(%x: tensor<256x192x{0}>, %y: tensor<256x192x{0}>) -> tensor<256x192x{0}> {{
    %0 = maximum %x, %y : tensor<256x192x{0}>
    return %0 : tensor<256x192x{0}>
  }}
}}
)",
                                               type));
    CHECK(sum.moved == sum.boundary);
  }
}

}  // namespace
}  // namespace mezzo::test
