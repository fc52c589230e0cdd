// SPDX-License-Identifier: Apache-2.0
// One op a program, f32, at the sizes of a layer: `mezzo-bench ops`. tests/peer/peer_op_speed.py
// sets the same rows of PyTorch beside them, by name.
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <bench/harness.h>

namespace mezzo::bench {

namespace {

struct OpRow {
  const char* name;
  /// `op {attributes} : operand types -> result types`, the types of f32 by their shapes alone.
  const char* op;
  const char* attributes;
  std::vector<const char*> operands;
  std::vector<const char*> results;
  /// Integers of inputs lie in [0, range).
  int64_t range = 1;
};

const std::vector<OpRow>& op_table() {
  static const std::vector<OpRow> table = {
      {"exp 1 Mi", "exp", "", {"1048576"}, {"1048576"}},
      {"log1p 1 Mi", "log1p", "", {"1048576"}, {"1048576"}},
      {"tanh 1 Mi", "tanh", "", {"1048576"}, {"1048576"}},
      {"erf 1 Mi", "erf", "", {"1048576"}, {"1048576"}},
      {"sin 1 Mi", "sin", "", {"1048576"}, {"1048576"}},
      {"gelu 1 Mi", "gelu", "", {"1048576"}, {"1048576"}},
      {"silu 1 Mi", "silu", "", {"1048576"}, {"1048576"}},
      {"pow 1 Mi", "pow", "", {"1048576", "1048576"}, {"1048576"}},
      {"atan2 1 Mi", "atan2", "", {"1048576", "1048576"}, {"1048576"}},
      {"add row 2048 x 1024", "add", "", {"2048x1024", "1024"}, {"2048x1024"}},
      {"sum rows 4096 x 1024", "sum", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"sum columns 4096 x 1024", "sum", "axes = [0]", {"4096x1024"}, {"1024"}},
      {"max rows 4096 x 1024", "max", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"argmax rows 4096 x 1024", "argmax", "axis = 1", {"4096x1024"}, {"4096xi32"}},
      {"prod rows 4096 x 1024", "prod", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"var rows 4096 x 1024", "var", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"norm rows 4096 x 1024", "norm", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"logsumexp rows 4096 x 1024", "logsumexp", "axes = [1]", {"4096x1024"}, {"4096"}},
      {"cumsum rows 4096 x 1024", "cumsum", "axis = 1", {"4096x1024"}, {"4096x1024"}},
      {"cumsum columns 4096 x 1024", "cumsum", "axis = 0", {"4096x1024"}, {"4096x1024"}},
      {"sort rows 1024 x 1024", "sort", "axis = 1", {"1024x1024"}, {"1024x1024"}},
      {"topk 10 of rows 1024 x 1024",
       "topk",
       "axis = 1, k = 10",
       {"1024x1024"},
       {"1024x10", "1024x10xi32"}},
      {"softmax 4096 x 1024", "softmax", "axis = 1", {"4096x1024"}, {"4096x1024"}},
      {"softmax backward 4096 x 1024",
       "softmax_grad",
       "axis = 1",
       {"4096x1024", "4096x1024"},
       {"4096x1024"}},
      {"layer norm 4096 x 1024",
       "layer_norm",
       "axis = 1",
       {"4096x1024", "1024", "1024"},
       {"4096x1024"}},
      {"layer norm backward 4096 x 1024",
       "layer_norm_grad",
       "axis = 1",
       {"4096x1024", "4096x1024", "1024"},
       {"4096x1024", "1024", "1024"}},
      {"rms norm 4096 x 1024", "rms_norm", "axis = 1", {"4096x1024", "1024"}, {"4096x1024"}},
      {"batch norm 32 x 28 x 28 x 64",
       "batch_norm",
       "",
       {"32x28x28x64", "64", "64"},
       {"32x28x28x64", "64", "64", "64"}},
      {"cross entropy 4096 x 1024", "cross_entropy", "", {"4096x1024", "4096xi32"}, {""}, 1024},
      {"cross entropy backward 4096 x 1024",
       "cross_entropy_grad",
       "",
       {"4096x1024", "4096xi32", ""},
       {"4096x1024"},
       1024},
      {"bce with logits 1 Mi", "bce_with_logits", "", {"1048576", "1048576"}, {"1048576"}},
      {"embedding 8192 of 30000 x 256",
       "gather",
       "axis = 0",
       {"30000x256", "8192xi32"},
       {"8192x256"},
       30000},
      {"embedding backward 8192 of 30000 x 256",
       "scatter_add",
       "axis = 0",
       {"30000x256", "8192xi32", "8192x256"},
       {"30000x256"},
       30000},
      {"concat 1024 x 1024 twice", "concat", "axis = 1", {"1024x1024", "1024x1024"}, {"1024x2048"}},
      {"transpose 2048 x 2048", "transpose", "perm = [1, 0]", {"2048x2048"}, {"2048x2048"}},
      {"flip 2048 x 1024", "flip", "axes = [1]", {"2048x1024"}, {"2048x1024"}},
      {"pad 32 x 56 x 56 x 64",
       "pad",
       "low = [0, 1, 1, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0]",
       {"32x56x56x64"},
       {"32x58x58x64"}},
      {"matmul 64 of 128 x 128 x 128", "matmul", "", {"64x128x128", "64x128x128"}, {"64x128x128"}},
      {"conv 3 x 3, 32 x 28 x 28 x 64",
       "conv",
       "strides = [1, 1], low = [1, 1], high = [1, 1], dilations = [1, 1]",
       {"32x28x28x64", "64x3x3x64"},
       {"32x28x28x64"}},
      {"conv 1 x 1, 32 x 28 x 28 x 256",
       "conv",
       "strides = [1, 1], low = [0, 0], high = [0, 0], dilations = [1, 1]",
       {"32x28x28x256", "64x1x1x256"},
       {"32x28x28x64"}},
      {"conv depthwise 3 x 3, 32 x 28 x 28 x 64",
       "conv",
       "strides = [1, 1], low = [1, 1], high = [1, 1], dilations = [1, 1], groups = 64",
       {"32x28x28x64", "64x3x3x1"},
       {"32x28x28x64"}},
      {"conv input gradient 3 x 3, 32 x 28 x 28 x 64",
       "conv_grad_input",
       "strides = [1, 1], low = [1, 1], high = [1, 1], dilations = [1, 1], shape = [32, 28, 28, "
       "64]",
       {"32x28x28x64", "64x3x3x64"},
       {"32x28x28x64"}},
      {"conv weight gradient 3 x 3, 32 x 28 x 28 x 64",
       "conv_grad_weight",
       "strides = [1, 1], low = [1, 1], high = [1, 1], dilations = [1, 1], shape = [64, 3, 3, 64]",
       {"32x28x28x64", "32x28x28x64"},
       {"64x3x3x64"}},
      {"max pool 2 x 2, 32 x 56 x 56 x 64",
       "max_pool",
       "window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0], dilations = [1, 1]",
       {"32x56x56x64"},
       {"32x28x28x64"}},
      {"average pool 2 x 2, 32 x 56 x 56 x 64",
       "avg_pool",
       "window = [2, 2], strides = [2, 2], low = [0, 0], high = [0, 0]",
       {"32x56x56x64"},
       {"32x28x28x64"}},
      {"upsample nearest to 32 x 56 x 56 x 64",
       "upsample_nearest",
       "size = [56, 56]",
       {"32x28x28x64"},
       {"32x56x56x64"}},
      {"attention 8 x 8 x 256 x 64",
       "attention",
       "scale = 0.125",
       {"8x8x256x64", "8x8x256x64", "8x8x256x64"},
       {"8x8x256x64", "8x8x256"}},
      {"rnn 32 steps of 32 x 256",
       "rnn",
       "",
       {"32x32x256", "32x256", "256x256", "256x256", "256"},
       {"32x32x256", "32x32x256"}},
      {"lstm 32 steps of 32 x 256",
       "lstm",
       "",
       {"32x32x256", "32x256", "32x256", "256x1024", "256x1024", "1024"},
       {"32x32x256", "32x32x256", "32x32x1024"}},
      {"gru 32 steps of 32 x 256",
       "gru",
       "",
       {"32x32x256", "32x256", "256x768", "256x768", "768", "768"},
       {"32x32x256", "32x32x256", "32x32x1024"}},
  };
  return table;
}

/// `2x3` is tensor<2x3xf32>, `` a scalar, `2xi32` as it says.
std::string type_text(std::string_view shape) {
  if (shape.empty()) return "tensor<f32>";
  const char last = shape.back();
  const bool typed = shape.find("xi") != std::string_view::npos && last == '2';
  return fmt::format("tensor<{}{}>", shape, typed ? "" : "xf32");
}

std::string program_text(const OpRow& row) {
  std::string parameters, operands, types, results, names;
  auto append = [](std::string& list, const std::string& word) {
    list += (list.empty() ? "" : ", ") + word;
  };
  for (size_t i = 0; i < row.operands.size(); ++i) {
    const std::string type = type_text(row.operands[i]), name = fmt::format("%p{}", i);
    append(parameters, name + ": " + type);
    append(operands, name);
    append(types, type);
  }
  for (size_t i = 0; i < row.results.size(); ++i) {
    append(results, type_text(row.results[i]));
    append(names, fmt::format("%r{}", i));
  }
  if (row.operands.size() > 1) types = "(" + types + ")";
  if (row.results.size() > 1) results = "(" + results + ")";
  const std::string attributes =
      *row.attributes ? fmt::format(" {{{}}}", row.attributes) : std::string();
  const std::string signature = types == results ? types : types + " -> " + results;
  return fmt::format(
      "module @op {{\n  func @main({}) -> {} {{\n    {} = {} {}{} : {}\n    return {} : {}\n  "
      "}}\n}}\n",
      parameters, results, names, row.op, operands, attributes, signature, names, results);
}

}  // namespace

void op_rows(const Options& options) {
  const int threads = options.threads > 0 ? options.threads : runtime::default_threads();
  std::vector<Row> rows;
  for (const OpRow& row : op_table()) {
    if (std::string_view(row.name).find(options.only) == std::string_view::npos) continue;
    auto compiled = std::make_shared<Compiled>(program_text(row), threads, row.range);
    rows.push_back({row.name, [compiled] { compiled->run(); }});
  }
  measure(rows, options, threads);
  fmt::print("\nops on {} thread{}, ms\n{:50}{:>10}{:>10}\n", threads, threads == 1 ? "" : "s", "",
             "minimum", "median");
  for (const Row& row : rows)
    fmt::print("{:50}{:10.4f}{:10.4f}\n", row.name, 1e3 * row.minimum(), 1e3 * row.median());
}

}  // namespace mezzo::bench
