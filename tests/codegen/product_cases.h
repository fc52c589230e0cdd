// SPDX-License-Identifier: Apache-2.0
// Matrix products as modules of one function: sizes, layouts, element types, what stands before
// and behind the product. Shared by the tests of the CUDA back end.
#pragma once

#include <mezzo/ir/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

/// What makes the operands of the parameters of the function.
enum class Before : uint8_t {
  Nothing,
  Cast,      // both are f32 parameters, cast to the type
  Relu,      // A is relu(%a), B as it is
  Mask,      // A is where(%a > 0, %a, 0), B broadcast from one row of it
  Transpose  // A is a transposed view of a parameter that lies the other way
};

/// What is made of the product, which is f32 unless it is Nothing.
enum class Behind : uint8_t {
  Nothing,      // stored in the type of the operands
  Accumulator,  // stored as summed, f32 (f64 for f64)
  Bias,         // relu(y + %bias), in the type of the operands
  Outputs,      // y + %bias as summed, its relu in the type, and whether it is positive
  Residual,     // %residual + %scale · y, one scale a row
};

struct ProductCase {
  int64_t m = 1, n = 1, k = 1;
  /// Sizes of the batch axis; 0: operands of rank 2. Of B 1: shared by the whole batch.
  int64_t batch_a = 0, batch_b = 0;
  bool trans_a = false, trans_b = false;
  ir::DType type = ir::DType::F16;
  Before before = Before::Nothing;
  Behind behind = Behind::Nothing;
  /// Flag words: 0 of the product, 1 of what is stored.
  bool flagged = false;

  /// `f16 NT 64x32x128 batch 3x1 cast bias`.
  std::string name() const;
  std::unique_ptr<ir::Module> module() const;
};

constexpr size_t kPlanned = ~size_t{0};

/// A product and what is put in the place of its plan.
struct PlannedProduct {
  ProductCase product;
  /// Number of a tile, of those that the arithmetic has; slices and stages in place of the plan's
  /// where they are not 0.
  size_t tile = kPlanned;
  int64_t slices = 0, stages = 0;
};

/// Every layout, element type, way of an operand into shared memory, tail and epilogue once.
std::vector<PlannedProduct> fixed_products();

}  // namespace mezzo::test
