// SPDX-License-Identifier: Apache-2.0
// Shapes are checked once, where they are made; what is derived from them cannot overflow after
// that.
#include <mezzo/ir/shape.h>

#include <mezzo/ir/error.h>

#include <algorithm>

namespace mezzo::ir {
namespace {

// So that bytes can be counted too, at most 8 an element.
constexpr int64_t kMaxElements = int64_t{1} << 59;

std::string joined(std::span<const int64_t> dims) {
  std::string out;
  for (int64_t dim : dims) {
    if (!out.empty()) out += 'x';
    out += std::to_string(dim);
  }
  return out;
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank)
    throw UserError({},
                    "shape " + joined(dims) + " has " + std::to_string(dims.size()) +
                        " axes, the most is " + std::to_string(kMaxRank),
                    "reshape makes one axis of several");
  // An empty axis counts as one here, so that strides of an empty tensor cannot overflow either.
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (dim < 0)
      throw UserError({},
                      "shape " + joined(dims) + " has the negative length " + std::to_string(dim),
                      "lengths of axes are 0 or more");
    if (dim > 0 && elements > kMaxElements / dim)
      throw UserError({}, "shape " + joined(dims) + " has more than 2^59 elements",
                      "make an axis shorter, or work on the tensor in parts");
    elements *= std::max<int64_t>(dim, 1);
  }
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims()) count *= dim;
  return count;
}

Shape Shape::with(int axis, int64_t length) const {
  MEZZO_CHECK(axis >= 0 && axis < rank_, "axis " + std::to_string(axis) + " of a shape with " +
                                             std::to_string(rank_) + " axes");
  std::array<int64_t, kMaxRank> dims = dims_;
  dims[static_cast<size_t>(axis)] = length;
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_)));
}

Shape Shape::without(int axis) const {
  MEZZO_CHECK(axis >= 0 && axis < rank_, "axis " + std::to_string(axis) + " of a shape with " +
                                             std::to_string(rank_) + " axes");
  std::array<int64_t, kMaxRank> dims = dims_;
  std::copy(begin() + axis + 1, end(), dims.begin() + axis);
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_ - 1)));
}

Shape Shape::inserted(int axis, int64_t length) const {
  MEZZO_CHECK(axis >= 0 && axis <= rank_, "new axis " + std::to_string(axis) + " of a shape with " +
                                              std::to_string(rank_) + " axes");
  std::array<int64_t, kMaxRank + 1> dims{};
  std::copy(begin(), begin() + axis, dims.begin());
  dims[static_cast<size_t>(axis)] = length;
  std::copy(begin() + axis, end(), dims.begin() + axis + 1);
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank_ + 1)));
}

std::array<int64_t, kMaxRank> Shape::strides() const {
  std::array<int64_t, kMaxRank> out{};
  int64_t step = 1;
  for (int axis = rank_ - 1; axis >= 0; --axis) {
    out[static_cast<size_t>(axis)] = step;
    step *= (*this)[axis];
  }
  return out;
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) { return joined(shape.dims()); }

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, kMaxRank> dims{};
  for (int axis = 1; axis <= rank; ++axis) {  // counted from the innermost
    const int64_t left = axis <= a.rank() ? a[a.rank() - axis] : 1;
    const int64_t right = axis <= b.rank() ? b[b.rank() - axis] : 1;
    if (left != right && left != 1 && right != 1) return std::nullopt;
    dims[static_cast<size_t>(rank - axis)] = left == 1 ? right : left;
  }
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank)));
}

std::string to_string(const Type& type) {
  std::string dims = to_string(type.shape);
  return "tensor<" + dims + (dims.empty() ? "" : "x") + to_string(type.dtype) + ">";
}

}  // namespace mezzo::ir
