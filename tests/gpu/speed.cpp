// SPDX-License-Identifier: Apache-2.0
// Kernels by the events of the device: a copy first, whose rate kernels that only move memory are a
// share of, then products, rows, columns, elementwise and the update of Adam.
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>

#include <codegen/cuda_cases.h>
#include <gpu/speed_rows.h>
#include <gpu/timed_function.h>

namespace mezzo::gpu {

namespace {

/// `4 Ki`, `512 Mi`
std::string amount(int64_t number) {
  const bool mega = number >= int64_t{1} << 20;
  return fmt::format("{} {}", number >> (mega ? 20 : 10), mega ? "Mi" : "Ki");
}

constexpr const char* kOfCopy = "the copy here";
constexpr const char* kMemoryGoal = ">= 90 % of the copy's rate";

void copy_row(SpeedRun& run) {
  const size_t bytes = run.options.quick ? size_t{1} << 16 : size_t{1} << 29;
  const runtime::DeviceBuffer from = run.context->allocate(bytes, "a copy"),
                              to = run.context->allocate(bytes, "a copy");
  run.context->fill(from.address(), 0x5A, bytes);
  const double seconds = median_seconds(run.context, run.seconds, [&] {
    run.context->copy_on_device(to.address(), from.address(), bytes);
  });
  run.copy_gbytes = 2e-9 * static_cast<double>(bytes) / seconds;
  const bool measured = run.card.copy_gbytes > 0;
  add_row(run, {fmt::format("copy of {}B", amount(static_cast<int64_t>(bytes))), seconds,
                run.copy_gbytes, "GB/s", measured ? run.card.copy_gbytes : run.card.sheet_gbytes,
                measured ? "copies on such cards" : "the data sheet"});
}

/// A row of a function of text, by the bytes of its parameters and results.
void memory_row(SpeedRun& run, const std::string& name, std::unique_ptr<ir::Module> module,
                int64_t range = 1) {
  try {
    const TimedFunction timed(run.context, std::move(module), range);
    const double seconds = timed.median_seconds(run.seconds);
    add_row(run, {name, seconds, 1e-9 * static_cast<double>(timed.bytes()) / seconds, "GB/s",
                  run.copy_gbytes, kOfCopy, kMemoryGoal});
  } catch (const Error& error) {
    run.report.fail(fmt::format("speed of {}: {}", name, error.what()));
  }
}

std::unique_ptr<ir::Module> one_op_text(const std::string& op, const std::string& from,
                                        const std::string& to) {
  return ir::parse(
      fmt::format("module @row {{\n  func @f(%x: {0}) -> {1} {{\n"
                  "    %0 = {2} : {0} -> {1}\n    return %0 : {1}\n  }}\n}}\n",
                  from, to, op));
}

void product_rows(SpeedRun& run) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    for (size_t i = 0; i < std::size(kProductSizes); ++i) {
      const int64_t n = run.options.quick ? 64 : kProductSizes[i];
      if (run.options.quick && i > 0) break;
      const std::string name = fmt::format("matmul {} {}^3", type, n);
      try {
        const std::string square = fmt::format("tensor<{0}x{0}x{1}>", n, type);
        const TimedFunction timed(
            run.context,
            ir::parse(fmt::format("module @product {{\n  func @f(%a: {0}, %b: {0}) -> {0} {{\n"
                                  "    %0 = matmul %a, %b : ({0}, {0}) -> {0}\n"
                                  "    return %0 : {0}\n  }}\n}}\n",
                                  square)));
        const double seconds = timed.median_seconds(run.seconds);
        const double cube =
            static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
        SpeedRow row{name, seconds, 2e-12 * cube / seconds, "TFLOP/s"};
        const bool half = std::string_view(type) != "f32";
        if (half && run.card.cublas[i] > 0) {
          row.reference = run.card.cublas[i];
          row.of = "cuBLAS f16 on such cards";
          row.goal = ">= 95 % of cuBLAS";
        } else if (half && run.card.peak_tflops > 0) {
          row.reference = run.card.peak_tflops;
          row.of = "the peak";
          row.goal = ">= 95 % of cuBLAS";
        }
        add_row(run, row);
      } catch (const Error& error) {
        run.report.fail(fmt::format("speed of {}: {}", name, error.what()));
      }
    }
  }
  const int capability = run.context->facts().compute_capability;
  if (capability >= 90 && capability < 120)
    run.report.line("  (kernels of mma.sync reach 62 to 65 % of the peak of this generation)");
}

void row_kernels(SpeedRun& run) {
  const int64_t elements = run.options.quick ? 1 << 12 : int64_t{1} << 27;
  for (const char* type : {"f32", "f16"}) {
    for (const int64_t width :
         {int64_t{128}, int64_t{1024}, int64_t{4096}, int64_t{16384}, int64_t{131072}}) {
      if (run.options.quick && width > 1024) break;
      const std::string matrix = fmt::format("tensor<{}x{}x{}>", elements / width, width, type);
      memory_row(run, fmt::format("softmax {} rows of {}", type, width),
                 one_op_text("softmax %x {axis = 1}", matrix, matrix));
    }
  }
}

void column_kernels(SpeedRun& run) {
  const int64_t rows = run.options.quick ? 64 : int64_t{1} << 17;
  for (const char* type : {"f32", "f16"})
    memory_row(run, fmt::format("sums of columns {} of {} x 1024", type, rows),
               one_op_text("sum %x {axes = [0]}", fmt::format("tensor<{}x1024x{}>", rows, type),
                           fmt::format("tensor<1024x{}>", type)));
}

void elementwise_kernels(SpeedRun& run) {
  const int64_t elements = run.options.quick ? 1 << 12 : int64_t{1} << 27;
  for (const char* type : {"f32", "f16", "bf16"})
    memory_row(
        run, fmt::format("relu(x·y + z) {}", type),
        ir::parse(fmt::format("module @chain {{\n  func @f(%x: {0}, %y: {0}, %z: {0}) -> {0} {{\n"
                              "    %0 = mul %x, %y : ({0}, {0}) -> {0}\n"
                              "    %1 = add %0, %z : ({0}, {0}) -> {0}\n"
                              "    %2 = relu %1 : {0}\n    return %2 : {0}\n  }}\n}}\n",
                              fmt::format("tensor<{}x{}>", elements, type))));
}

/// A parameter, its gradient and two moments read, three written: 28 bytes a parameter.
void optimizer_kernel(SpeedRun& run) {
  const int64_t count = run.options.quick ? 1 << 12 : int64_t{1} << 26;
  const ir::Type tensor(ir::DType::F32, ir::Shape{count});
  std::unique_ptr<ir::Module> module = test::module_of(
      {tensor, tensor, tensor, tensor, ir::Type(ir::DType::I32, {}), ir::Type(ir::DType::F32, {})},
      [](ir::Builder& builder, std::span<const ir::Value> x) {
        builder.set_role("update");
        return builder.create(ir::OpKind::Adam, x, {})->results();
      });
  module->set_stage(ir::Stage::Traced);
  memory_row(run, fmt::format("Adam of {} parameters f32", amount(count)), std::move(module));
}

/// What a new elementwise kernel takes: code, NVRTC and the assembler.
void compile_row(SpeedRun& run) {
  const std::string vector = "tensor<1000xf16>";
  std::vector<double> times;
  for (int i = 0; i < 5; ++i)
    times.push_back(
        TimedFunction(run.context, one_op_text("tanh %x", vector, vector)).compile_milliseconds());
  std::ranges::sort(times);
  add_row(run, {"NVRTC, an elementwise kernel", 1e-3 * times[times.size() / 2],
                times[times.size() / 2], "ms", 0, "", "<= 35 ms"});
}

}  // namespace

void add_row(SpeedRun& run, const SpeedRow& row) {
  std::string beside;
  Json entry{{"row", row.name}, {"median_us", 1e6 * row.seconds}, {row.unit, row.value}};
  if (row.reference > 0) {
    beside = fmt::format("{:6.1f} % of {}", 100 * row.value / row.reference, row.of);
    entry["reference"] = row.reference;
    entry["reference_is"] = row.of;
  }
  if (!row.goal.empty()) {
    beside += fmt::format("{}goal {}", beside.empty() ? "" : "; ", row.goal);
    entry["goal"] = row.goal;
  }
  run.report.line("  {:36}{:12.1f} us {:10.1f} {:8} {}", row.name, 1e6 * row.seconds, row.value,
                  row.unit, beside);
  run.report.json()["speed"].push_back(entry);
}

void measure_speed(const Options& options, Report& report) {
  const std::shared_ptr<runtime::CudaContext> context = runtime::cuda_context(options.ordinal);
  SpeedRun run{options, report, context, figures_of(context->facts().name)};
  run.seconds = seconds_a_row(options.quick);
  report.line("\nspeed: medians");
  copy_row(run);
  elementwise_kernels(run);
  row_kernels(run);
  column_kernels(run);
  optimizer_kernel(run);
  product_rows(run);
  compile_row(run);
  measure_training(run);
}

}  // namespace mezzo::gpu
