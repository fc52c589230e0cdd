// SPDX-License-Identifier: Apache-2.0
// What a gradient rule sees. A rule `grad_<gradient>` stands for one name in the gradient column of
// the op table: given the cotangent of the result, it makes the cotangents of the operands. Rules
// live in grad_*.cpp, sorted by family; the table declares them, so a missing one does not link.
#pragma once

#include <mezzo/ir/builder.h>

#include <optional>
#include <vector>

namespace mezzo::passes {

class ReverseSweep;

/// One forward op while its backward ops are made.
class GradContext {
 public:
  GradContext(ReverseSweep& sweep, const ir::Op& source, ir::Builder& builder)
      : builder(builder), sweep_(sweep), source_(source) {}

  /// Makes backward ops; they name the forward op as their origin and carry its scope and policy.
  ir::Builder& builder;

  /// The forward op, for its kind and attributes. Its values are those of the differentiated
  /// function: use `operand` and `result` to get the ones that backward ops may read.
  const ir::Op& op() const { return source_; }
  ir::Value operand(int index) const;
  ir::Value result(int index = 0) const;
  /// The cotangent of a result, of its type; zeros when the loss does not depend on that result.
  ir::Value cotangent(int index = 0);
  /// The loss may depend on `wrt` through this operand; other operands need no backward ops.
  bool wants(int index) const;
  /// Adds to the cotangent of an operand; does nothing when it is not wanted. Axes along which the
  /// operand was broadcast are summed; the element type must be that of the operand.
  void accumulate(int index, ir::Value cotangent);

  /// The op before which backward ops are put.
  ir::Op* place() const;

  /// Attributes of the forward op of these names, where it has them.
  ir::Attrs attributes(std::initializer_list<const char*> names) const;
  /// A scalar constant of element type `dtype`, which broadcasts.
  ir::Value scalar(ir::DType dtype, double value) { return builder.constant({dtype, {}}, value); }
  /// An op without attributes and with a single result.
  ir::Value make(ir::OpKind kind, std::initializer_list<ir::Value> operands) {
    return builder.make(kind, operands);
  }
  /// Adds `cotangent * derivative`, exactly 0 where the cotangent is 0.
  void accumulate_product(int index, ir::Value derivative) {
    accumulate(index, make(ir::OpKind::Mul0, {cotangent(), derivative}));
  }

 private:
  ReverseSweep& sweep_;
  const ir::Op& source_;
};

using GradRule = void (*)(GradContext&);

/// The rule of the op table's gradient column.
GradRule gradient_rule(ir::OpKind kind);

/// The sum of `value` over the axes along which an operand of shape `shape` was broadcast.
ir::Value sum_to_shape(ir::Builder& builder, ir::Value value, const ir::Shape& shape);

// Several rows share a rule (`none`), so that a name may be declared more than once.
#define ELEMENTWISE(Kind, name, operands, types, gradient, ...) void grad_##gradient(GradContext&);
#define STRUCTURAL(Kind, name, operands, results, shape, gradient, ...) \
  void grad_##gradient(GradContext&);
#define COMPOSITE(Kind, name, operands, results, shape, gradient, ...) \
  void grad_##gradient(GradContext&);
#include <mezzo/ir/ops.def>

}  // namespace mezzo::passes
