// SPDX-License-Identifier: Apache-2.0
// Products as a share of the multiply-adds that the machine shows in the same rounds.
#include <mezzo/runtime/thread_pool.h>

#include <fmt/format.h>

#include <bench/harness.h>

namespace mezzo::bench {

namespace {

struct Product {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  const char* type = "f32";
};

std::string name_of(const Product& p) {
  return fmt::format("{:4} x {:4} x {:4} {}{} {}", p.m, p.n, p.k, p.trans_a ? 'T' : 'N',
                     p.trans_b ? 'T' : 'N', p.type);
}

std::string text_of(const Product& p) {
  auto matrix = [&](int64_t rows, int64_t columns) {
    return fmt::format("tensor<{}x{}x{}>", rows, columns, p.type);
  };
  std::string a = p.trans_a ? matrix(p.k, p.m) : matrix(p.m, p.k);
  std::string b = p.trans_b ? matrix(p.n, p.k) : matrix(p.k, p.n);
  std::string c = matrix(p.m, p.n);
  std::string attrs;
  if (p.trans_a) attrs += "transpose_a = true";
  if (p.trans_b) attrs += std::string(attrs.empty() ? "" : ", ") + "transpose_b = true";
  if (!attrs.empty()) attrs = " {" + attrs + "}";
  return fmt::format(
      "module @product {{\n  func @main(%a: {0}, %b: {1}) -> {2} {{\n"
      "    %c = matmul %a, %b{3} : ({0}, {1}) -> {2}\n    return %c : {2}\n  }}\n}}\n",
      a, b, c, attrs);
}

void table(const Options& options, int threads) {
  std::vector<Product> products = {
      {512, 512, 512},
      {1024, 1024, 1024},
      {2048, 2048, 2048},
      {512, 512, 512, false, true},
      {512, 512, 512, true, false},
      {128, 256, 784},
      {784, 256, 128, true, false},
      {128, 784, 256, false, true},
      {256, 10, 4096, true, false},
      {512, 512, 512, false, false, "f16"},
      {1024, 1024, 1024, false, false, "bf16"},
      {128, 256, 784, false, false, "f16"},
      {784, 256, 128, true, false, "f16"},
  };
  std::erase_if(products, [&](const Product& product) {
    return name_of(product).find(options.only) == std::string::npos;
  });
  std::vector<Row> rows{peak_row(threads)};
  for (const Product& product : products) {
    auto compiled = std::make_shared<Compiled>(text_of(product), threads);
    rows.push_back({name_of(product), [compiled] { compiled->run(); }});
  }
  measure(rows, options, threads);
  double peak = 1e-9 * peak_flops(threads);
  fmt::print("\nproducts on {} thread{}: multiply-adds reach {:.1f} GFLOP/s (median {:.1f})\n",
             threads, threads == 1 ? "" : "s", peak / rows[0].minimum(), peak / rows[0].median());
  fmt::print("{:34}{:>10}{:>8}{:>10}{:>8}\n", "", "median", "share", "best", "share");
  for (size_t i = 0; i < products.size(); ++i) {
    const Product& p = products[i];
    const Row& row = rows[i + 1];
    double work = 2e-9 * static_cast<double>(p.m * p.n * p.k);
    fmt::print("{:34}{:10.1f}{:6.1f} %{:10.1f}{:6.1f} %\n", row.name, work / row.median(),
               100 * work / row.median() / (peak / rows[0].median()), work / row.minimum(),
               100 * work / row.minimum() / (peak / rows[0].minimum()));
  }
}

}  // namespace

void matmul_rows(const Options& options) {
  int most = options.threads > 0 ? options.threads : runtime::default_threads();
  if (options.threads == 0 && most > 1) table(options, 1);
  table(options, most);
}

}  // namespace mezzo::bench
