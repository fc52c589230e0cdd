// SPDX-License-Identifier: Apache-2.0

#include <bench/harness.h>

#include <mezzo/ir/dtype.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/parser.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>

namespace mezzo::bench {

namespace {

constexpr size_t kFewestRepetitions = 5;

double median_of(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void fill(const ir::Type& type, std::byte* to, int64_t range, std::mt19937& engine) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  auto put = [&](auto value, int64_t i) {
    std::memcpy(to + i * static_cast<int64_t>(sizeof value), &value, sizeof value);
  };
  for (int64_t i = 0; i < type.elements(); ++i) switch (type.dtype) {
      case ir::DType::F32:
        put(uniform(engine), i);
        break;
      case ir::DType::F16:
        put(ir::f32_to_f16(uniform(engine)), i);
        break;
      case ir::DType::BF16:
        put(ir::f32_to_bf16(uniform(engine)), i);
        break;
      case ir::DType::I32:
        put(static_cast<int32_t>(engine() % static_cast<uint64_t>(range)), i);
        break;
      default:
        MEZZO_CHECK(false, "no benchmark has inputs of " + std::string(to_string(type.dtype)));
    }
}

}  // namespace

double Row::median() const { return median_of(seconds); }
double Row::minimum() const { return *std::min_element(seconds.begin(), seconds.end()); }
double Row::processor_median() const { return median_of(processor); }

void measure(std::vector<Row>& rows, const Options& options) {
  for (Row& row : rows) row.work();
  std::vector<double> spent(rows.size(), 0);
  for (bool busy = true; busy;) {
    busy = false;
    for (size_t i = 0; i < rows.size(); ++i) {
      Row& row = rows[i];
      if (spent[i] >= options.seconds && row.seconds.size() >= kFewestRepetitions) continue;
      busy = true;
      double processor = processor_seconds();
      auto start = std::chrono::steady_clock::now();
      row.work();
      std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      row.processor.push_back(processor_seconds() - processor);
      row.seconds.push_back(took.count());
      spent[i] += took.count();
    }
  }
}

Compiled::Compiled(const std::string& text, int threads, int64_t range) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  std::string name(module->functions().front()->name());
  runtime::CompileOptions options;
  options.threads = threads;
  options.disk_cache = false;
  executable_ = runtime::compile(std::move(module), name, options);
  std::mt19937 engine(1);
  const ir::Function& function = executable_->function();
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Type& type = function.parameter(i).type();
    parameters_.push_back(memory_.emplace_back(type.bytes()).data());
    fill(type, memory_.back().data(), range, engine);
  }
  for (ir::Value result : function.results())
    results_.push_back(memory_.emplace_back(result.type().bytes()).data());
}

void Compiled::run() { executable_->run(parameters_, results_); }

int64_t Compiled::bytes() const {
  const ir::Function& function = executable_->function();
  int64_t bytes = 0;
  for (int i = 0; i < function.num_parameters(); ++i) bytes += function.parameter(i).type().bytes();
  for (ir::Value result : function.results()) bytes += result.type().bytes();
  return bytes;
}

}  // namespace mezzo::bench
