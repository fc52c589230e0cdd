// SPDX-License-Identifier: Apache-2.0
// Data sets in host memory.
#pragma once

#include <mezzo/dsl/tensor.h>
#include <mezzo/runtime/array.h>

#include <cstdint>
#include <span>
#include <string>

namespace mezzo {

/// Samples along the first axis of both arrays.
struct Dataset {
  /// Floats, or u8 pixels that a batch turns into f32 in [0, 1].
  Array inputs;
  /// As the loss takes them: nothing is scaled.
  Array targets;

  int64_t size() const { return inputs.type.rank() ? inputs.type.shape[0] : 0; }
  /// The first `count` samples, all where there are fewer; throws UserError for a count below 0.
  Dataset first(int64_t count, ir::Location location = ir::Location::here()) const;
  /// Throws UserError when the arrays do not hold the same number of samples, or other bytes than
  /// their types say.
  void check(ir::Location location = ir::Location::here()) const;
};

namespace data {

struct Split {
  Dataset train, test;
};

/// Fashion-MNIST, 60,000 and 10,000 images of 28 x 28 as rows of 784, ten classes. `folder` holds
/// the four .gz files; left out, it is $MEZZO_DATA, else the folder of the Debian package
/// dataset-fashion-mnist. Throws UserError that names what is missing or cannot be read, and says
/// what to do.
Split fashion_mnist(std::string folder = "", ir::Location location = ir::Location::here());

}  // namespace data

namespace detail {

/// The type of a batch of `count` samples of `array`.
ir::Type batch_type(const Array& array, int64_t count);
/// The same for inputs: pixels are f32 for the program.
ir::Type input_type(const Array& inputs, int64_t count);
/// Pixels as numbers in [0, 1].
void scale_pixels(std::span<const uint8_t> pixels, std::span<float> numbers);
/// Copies the samples `rows` of `array` into `batch`; u8 into f32 scaled, else as they are.
void gather_rows(const Array& array, std::span<const int64_t> rows, Array& batch);
/// A permutation of [0, count) from the seed and the number of the epoch.
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, uint64_t epoch);

}  // namespace detail
}  // namespace mezzo
