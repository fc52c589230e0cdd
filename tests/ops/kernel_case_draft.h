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

// kernel_cases_losses.cpp
void class_losses(const Draft& draft);
void element_losses(const Draft& draft);

// kernel_cases_attention.cpp
void attentions(const Draft& draft);

// kernel_cases_random.cpp
void randoms(const Draft& draft);
void bernoullis(const Draft& draft);
void dropouts(const Draft& draft);
void categoricals(const Draft& draft);
void generators_of_random(const Draft& draft);

}  // namespace mezzo::test
