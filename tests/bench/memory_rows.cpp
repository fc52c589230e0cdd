// SPDX-License-Identifier: Apache-2.0
// Programs that read each input of 64 MiB or more once: bytes of inputs and results a second as a
// share of what a copy moves in the same rounds.
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <bench/harness.h>

namespace mezzo::bench {

namespace {

std::string chain_text(const char* type, int64_t elements) {
  return fmt::format(
      "module @chain {{\n  func @main(%x: {0}, %y: {0}, %z: {0}) -> {0} {{\n"
      "    %0 = mul %x, %y : ({0}, {0}) -> {0}\n    %1 = add %0, %z : ({0}, {0}) -> {0}\n"
      "    %2 = relu %1 : {0}\n    return %2 : {0}\n  }}\n}}\n",
      fmt::format("tensor<{}x{}>", elements, type));
}

std::string softmax_text(const char* type, int64_t rows, int64_t columns) {
  return fmt::format(
      "module @softmax {{\n  func @main(%x: {0}) -> {0} {{\n"
      "    %0 = softmax %x {{axis = 1}} : {0}\n    return %0 : {0}\n  }}\n}}\n",
      fmt::format("tensor<{}x{}x{}>", rows, columns, type));
}

std::string cross_entropy_text(int64_t rows, int64_t columns) {
  return fmt::format(
      "module @loss {{\n  func @main(%x: {0}, %y: {1}) -> tensor<f32> {{\n"
      "    %0 = cross_entropy %x, %y : ({0}, {1}) -> tensor<f32>\n"
      "    return %0 : tensor<f32>\n  }}\n}}\n",
      fmt::format("tensor<{}x{}xf32>", rows, columns), fmt::format("tensor<{}xi32>", rows));
}

}  // namespace

void memory_rows(const Options& options) {
  int threads = options.threads > 0 ? options.threads : runtime::default_threads();
  std::vector<Row> rows{copy_row(threads)};
  std::vector<int64_t> bytes{0};
  auto row = [&](const std::string& name, const std::string& text, int64_t range = 1) {
    auto compiled = std::make_shared<Compiled>(text, threads, range);
    bytes.push_back(compiled->bytes());
    rows.push_back({name, [compiled] { compiled->run(); }});
  };
  row("relu(x·y + z) f32, 16 Mi", chain_text("f32", 1 << 24));
  row("relu(x·y + z) f16, 32 Mi", chain_text("f16", 1 << 25));
  row("relu(x·y + z) bf16, 32 Mi", chain_text("bf16", 1 << 25));
  row("softmax f32, 16384 x 1024", softmax_text("f32", 16384, 1024));
  row("softmax f16, 32768 x 1024", softmax_text("f16", 32768, 1024));
  row("cross_entropy f32, 16384 x 1024", cross_entropy_text(16384, 1024), 1024);
  row("cross_entropy f32, 1 Mi x 16", cross_entropy_text(1 << 20, 16), 16);
  measure(rows, options);
  double copied = 1e-9 * copy_bytes();
  fmt::print(
      "\nmemory on {} thread{}: a copy moves {:.1f} GB/s (median {:.1f}), read and written\n",
      threads, threads == 1 ? "" : "s", copied / rows[0].minimum(), copied / rows[0].median());
  fmt::print("{:34}{:>10}{:>8}{:>10}{:>8}\n", "", "median", "share", "best", "share");
  for (size_t i = 1; i < rows.size(); ++i) {
    double moved = 1e-9 * static_cast<double>(bytes[i]);
    fmt::print("{:34}{:10.1f}{:6.1f} %{:10.1f}{:6.1f} %\n", rows[i].name, moved / rows[i].median(),
               100 * moved / rows[i].median() / (copied / rows[0].median()),
               moved / rows[i].minimum(),
               100 * moved / rows[i].minimum() / (copied / rows[0].minimum()));
  }
}

}  // namespace mezzo::bench
