// SPDX-License-Identifier: Apache-2.0
// What a generator of kernel cases works on, and the generators that stand in files of their own.
#pragma once

#include <mezzo/ir/builder.h>

#include <ops/kernel_cases.h>

namespace mezzo::test {

using Ints = std::vector<int64_t>;

inline constexpr int64_t kRows = 65539;  // beyond 16 bits, prime
inline constexpr int64_t kColumns = 9;

/// A row of the op table, the element type of its main operand, and the cases made so far.
struct Draft {
  ir::OpKind kind;
  ir::DType dtype;
  Extent extent;
  std::vector<KernelCase>& cases;

  const ir::OpInfo& info() const { return ir::op_info(kind); }
  bool small() const { return extent == Extent::Small; }

  /// Shapes of the main operand.
  std::vector<ir::Shape> shapes() const;

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

// kernel_cases_recurrent.cpp
void recurrents(const Draft& draft);

// kernel_cases_random.cpp
void randoms(const Draft& draft);
void bernoullis(const Draft& draft);
void dropouts(const Draft& draft);
void categoricals(const Draft& draft);
void generators_of_random(const Draft& draft);

// kernel_cases_norms.cpp
void row_norms(const Draft& draft);
void group_norms(const Draft& draft);
void batch_norms(const Draft& draft);

// kernel_cases_windows.cpp
void remaps(const Draft& draft);
void convolutions(const Draft& draft);
void pools(const Draft& draft);
void upsamplings(const Draft& draft);

// kernel_cases_indexing.cpp
void flip_cases(const Draft& draft);
void concat_cases(const Draft& draft);
void gather_cases(const Draft& draft);
void take_along_axis_cases(const Draft& draft);
void scatter_add_cases(const Draft& draft);
void add_along_axis_cases(const Draft& draft);

}  // namespace mezzo::test
