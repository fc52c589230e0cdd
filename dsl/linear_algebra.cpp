// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/linear_algebra.h>

#include <mezzo/dsl/located.h>
#include <mezzo/dsl/movement.h>
#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo {

using ir::Location;

Tensor detail::vector_product(const Operand& a, const Operand& b, MatmulOptions options) {
  const Location location = a.location();
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if ((row && options.transpose_a) || (column && options.transpose_b))
    throw UserError(location,
                    fmt::format("matmul: a vector has no axes to transpose (a {}, b {})",
                                to_string(a.type()), to_string(b.type())),
                    "leave the option out: a vector on the left is a row, on the right a column");
  const Tensor left = row ? unsqueeze(a, 0) : a.tensor();
  const Tensor right = column ? unsqueeze(b, 1) : b.tensor();
  Tensor product = matmul({left, location}, {right, b.location()}, options);
  if (column) product = squeeze({product, location}, -1);
  if (row) product = squeeze({product, location}, column ? -1 : -2);
  return product;
}

Tensor dot(Operand a, Operand b) {
  if (!a.is_tensor() || !b.is_tensor() || a.rank() == 0 || b.rank() == 0) return mul(a, b);
  const Location location = a.location();
  if (b.rank() == 1 || (a.rank() <= 2 && b.rank() == 2)) return matmul(a, b);
  // All rows of a by all columns of b, in one product.
  const int64_t inner = a.shape()[a.rank() - 1], other = b.shape()[b.rank() - 2];
  if (inner != other)
    throw UserError(location, fmt::format("dot: inner sizes differ, {} and {} (a {}, b {})", inner,
                                          other, to_string(a.type()), to_string(b.type())));
  Axes perm{b.rank() - 2};
  Dims dims(a.shape().without(a.rank() - 1));
  for (int i = 0; i < b.rank(); ++i)
    if (i != b.rank() - 2) {
      perm.push_back(i);
      dims.push_back(b.shape()[i]);
    }
  int64_t rows = 1, columns = 1;
  for (int i = 0; i + 1 < a.rank(); ++i) rows *= a.shape()[i];
  for (size_t i = static_cast<size_t>(a.rank()) - 1; i < dims.size(); ++i) columns *= dims[i];
  const Tensor left = reshape(a, {rows, inner});
  const Tensor right = reshape({transpose(b, perm), location}, {inner, columns});
  return reshape({matmul({left, location}, {right, b.location()}), location}, dims);
}

Tensor outer(Operand a, Operand b) {
  const Location location = a.location();
  const int64_t rows = a.type().elements(), columns = b.type().elements();
  detail::located_shape(location, "outer", Dims{rows, columns});
  const Tensor left = reshape(a, {rows, 1});
  const Tensor right = reshape(b, {1, columns});
  return mul({left, location}, {right, b.location()});
}

}  // namespace mezzo
