// SPDX-License-Identifier: Apache-2.0
#include <support/random_graph_indexing.h>

#include <algorithm>

namespace mezzo::test {

using ir::Attr;
using ir::Attrs;
using ir::DType;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

class Indexing {
 public:
  Indexing(ir::Builder& builder, const std::vector<Value>& made,
           ir::FunctionRef<int64_t(int64_t)> below, const IndexingOptions& options)
      : builder_(builder), made_(made), below_(below), options_(options) {}

  std::vector<Value> make() {
    const Value x = made_[static_cast<size_t>(below_(std::ssize(made_)))];
    const int rank = x.shape().rank();
    if (rank == 0) return {};
    const int axis = static_cast<int>(below_(rank));
    switch (below_(options_.exact ? 5 : 7)) {
      case 0:
        flip(x);
        break;
      case 1:
        concat(x, axis);
        break;
      case 2:
        pad(x);
        break;
      case 3:
      case 4:
        read(x, axis);
        break;
      default:
        add(x, axis);
    }
    return std::move(out_);
  }

 private:
  Value keep(Value value) {
    out_.push_back(value);
    return value;
  }
  bool chance(int percent) { return below_(100) < percent; }
  bool fits(const Shape& shape) const { return shape.elements() <= options_.most_elements; }

  void flip(Value x) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < x.shape().rank(); ++axis)
      if (chance(50)) axes.push_back(axis);
    keep(builder_.make(OpKind::Flip, {x}, {{"axes", Attr(axes)}}));
  }

  /// With another value that fits beside it, or a part of itself.
  void concat(Value x, int axis) {
    std::vector<Value> parts = {x};
    for (Value other : made_)
      if (parts.size() < 4 && other.dtype() == x.dtype() &&
          other.shape().rank() == x.shape().rank() &&
          other.shape().with(axis, x.shape()[axis]) == x.shape() && chance(50))
        parts.push_back(other);
    if (parts.size() == 1) {
      std::vector<int64_t> starts(static_cast<size_t>(x.shape().rank()), 0),
          ends(x.shape().begin(), x.shape().end()), steps(starts.size(), 1);
      starts[static_cast<size_t>(axis)] = below_(x.shape()[axis] + 1);
      parts.push_back(keep(
          builder_.make(OpKind::Slice, {x},
                        {{"starts", Attr(starts)}, {"ends", Attr(ends)}, {"steps", Attr(steps)}})));
    }
    int64_t length = 0;
    for (Value part : parts) length += part.shape()[axis];
    if (fits(x.shape().with(axis, length)))
      keep(builder_.create(OpKind::Concat, parts, {{"axis", int64_t{axis}}})->result());
  }

  void pad(Value x) {
    if (x.type().elements() > 5000) return;
    const size_t rank = static_cast<size_t>(x.shape().rank());
    std::vector<int64_t> low(rank), high(rank), interior(rank);
    for (size_t i = 0; i < rank; ++i) {
      low[i] = below_(3);
      high[i] = below_(3);
      interior[i] = chance(85) ? 0 : 1;
    }
    const Value value =
        keep(builder_.constant(Type(x.dtype(), {}), static_cast<double>(below_(3))));
    keep(builder_.make(OpKind::Pad, {x, value},
                       {{"low", Attr(low)}, {"high", Attr(high)}, {"interior", Attr(interior)}}));
  }

  /// An integer value brought into [0, size) by a comparison; now and then left as it is.
  Value indices(Value from, int64_t size) {
    Value value = from;
    if (value.dtype() != DType::I32 && value.dtype() != DType::I64)
      value = keep(builder_.cast(value, DType::I32));
    if (chance(10)) return value;
    const Type scalar(value.dtype(), {});
    value = keep(builder_.make(OpKind::Maximum, {value, builder_.constant(scalar, 0)}));
    return keep(builder_.make(
        OpKind::Minimum,
        {value, builder_.constant(scalar, static_cast<double>(std::max<int64_t>(size - 1, 0)))}));
  }

  /// A value whose elements may serve as indices, of few axes.
  Value source(int most_rank) {
    for (int tries = 0; tries < 8; ++tries) {
      const Value value = made_[static_cast<size_t>(below_(std::ssize(made_)))];
      if (value.shape().rank() <= most_rank && value.type().elements() <= 3000) return value;
    }
    return {};
  }

  void read(Value x, int axis) {
    const Attrs attrs{{"axis", int64_t{axis}}};
    const int64_t size = x.shape()[axis];
    if (chance(40) && x.type().elements() <= 3000) {
      keep(builder_.make(OpKind::TakeAlongAxis, {x, indices(x, size)}, attrs));
      return;
    }
    const Value from = source(2);
    if (!from || x.shape().rank() + from.shape().rank() > 6 || size == 0 ||
        x.type().elements() / size * from.type().elements() > options_.most_elements)
      return;
    keep(builder_.make(OpKind::Gather, {x, indices(from, size)}, attrs));
  }

  void add(Value x, int axis) {
    if (x.dtype() == DType::Bool || x.type().elements() > 3000) return;
    const Attrs attrs{{"axis", int64_t{axis}}};
    if (chance(40)) {
      keep(builder_.make(OpKind::AddAlongAxis, {x, indices(x, x.shape()[axis]), x}, attrs));
      return;
    }
    // As many updates as x has rows: x again.
    const Value number =
        keep(builder_.make(OpKind::Iota, {}, {{"axis", 0}}, {Type(DType::I32, {x.shape()[axis]})}));
    const Value half = keep(builder_.make(
        OpKind::Minimum,
        {number, builder_.constant(Type(DType::I32, {}), static_cast<double>(below_(9)))}));
    keep(builder_.make(OpKind::ScatterAdd, {x, indices(half, x.shape()[axis]), x}, attrs));
  }

  ir::Builder& builder_;
  const std::vector<Value>& made_;
  ir::FunctionRef<int64_t(int64_t)> below_;
  const IndexingOptions& options_;
  std::vector<Value> out_;
};

}  // namespace

std::vector<Value> make_indexing(ir::Builder& builder, const std::vector<Value>& made,
                                 ir::FunctionRef<int64_t(int64_t)> below,
                                 const IndexingOptions& options) {
  return Indexing(builder, made, below, options).make();
}

}  // namespace mezzo::test
