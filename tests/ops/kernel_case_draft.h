// SPDX-License-Identifier: Apache-2.0
// What the generators of kernel cases share, and those that stand in files of their own by family.
#pragma once

#include <mezzo/ir/builder.h>

#include <ops/kernel_cases.h>

namespace mezzo::test {

using Ints = std::vector<int64_t>;

inline constexpr int64_t kRows = 65539;  // beyond 16 bits, prime
inline constexpr int64_t kColumns = 9;

struct Draft {
  ir::OpKind kind;
  ir::DType dtype;
  Extent extent;
  std::vector<KernelCase>& cases;

  const ir::OpInfo& info() const { return ir::op_info(kind); }
  bool small() const { return extent == Extent::Small; }

  /// Shapes of the main operand.
  std::vector<ir::Shape> shapes() const {
    if (!small()) return {ir::Shape{kRows, kColumns}};
    return {ir::Shape{},        ir::Shape{1},    ir::Shape{7, 13}, ir::Shape{3, 1, 5},
            ir::Shape{4, 5, 5}, ir::Shape{3, 0}, ir::Shape{0, 4},  ir::Shape{4097}};
  }

  /// One case for each variant of the attributes that the row leaves open.
  void add(std::vector<ir::Type> operands, const ir::Attrs& attrs,
           std::vector<ir::Type> declared = {}, std::string domains = "",
           int64_t index_limit = 4) const;
};

using Generator = void (*)(const Draft&);

// kernel_cases_norms.cpp
void row_norms(const Draft& draft);
void group_norms(const Draft& draft);
void batch_norms(const Draft& draft);

// kernel_cases_windows.cpp
void remaps(const Draft& draft);
void convolutions(const Draft& draft);
void pools(const Draft& draft);
void upsamplings(const Draft& draft);

}  // namespace mezzo::test
