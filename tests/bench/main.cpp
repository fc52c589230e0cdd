// SPDX-License-Identifier: Apache-2.0
// `mezzo-bench` measures kernels, the network of the demo, memory, compilation and single ops;
// kUsage says how it is called. Times on one thread are processor time, on several those of the
// clock on the wall.
#include <mezzo/dsl/device.h>
#include <mezzo/ir/error.h>
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <bench/harness.h>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

using namespace mezzo;

namespace {

constexpr const char* kUsage =
    R"(usage: mezzo-bench [matmul|demo|memory|compile|ops]... [--threads=N] [--seconds=S] [--only=TEXT]
Without a word everything is measured.
  --threads=N   threads of the kernels, 1 to 1024
  --seconds=S   time spent on each row
  --only=TEXT   products and ops whose row's name holds TEXT
)";

constexpr std::pair<std::string_view, void (*)(const bench::Options&)> kTables[] = {
    {"matmul", bench::matmul_rows},   {"demo", bench::demo_rows}, {"memory", bench::memory_rows},
    {"compile", bench::compile_rows}, {"ops", bench::op_rows},
};

double number_in(std::string_view name, const std::string& text, double least, double most) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value >= least && value <= most))
    throw UserError(
        {}, fmt::format("{} must be a number from {} to {}, not '{}'", name, least, most, text));
  return value;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Options options;
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    size_t equals = argument.find('=');
    std::string_view name = argument.substr(0, equals);
    std::string value(equals == std::string_view::npos ? "" : argument.substr(equals + 1));
    bool known = false;
    for (const auto& [table, run] : kTables) known |= table == argument;
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (known)
      wanted.push_back(argument);
    else if (name == "--threads")
      options.threads =
          static_cast<int>(number_in(name, value, 1, runtime::ThreadPool::kMaxThreads));
    else if (name == "--seconds")
      options.seconds = number_in(name, value, 0, 3600);
    else if (name == "--only")
      options.only = value;
    else
      throw UserError({}, fmt::format("unknown argument '{}'", argument),
                      "`mezzo-bench --help` lists what it takes");
  }
  fmt::print("{}\n", describe_machine());
  for (const auto& [table, run] : kTables) {
    bool named = wanted.empty();
    for (std::string_view word : wanted) named |= word == table;
    if (named) run(options);
    std::fflush(stdout);
  }
  return 0;
} catch (const std::bad_alloc&) {
  std::fprintf(stderr, "error: out of memory\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
