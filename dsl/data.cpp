// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/data.h>

#include <mezzo/dsl/located.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/philox.h>
#include <mezzo/runtime/idx.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <system_error>
#include <utility>

namespace mezzo {

void Dataset::check(ir::Location location) const {
  detail::located(location, "dataset: inputs", [&] { inputs.check_size(); });
  detail::located(location, "dataset: targets", [&] { targets.check_size(); });
  int64_t labels = targets.type.rank() ? targets.type.shape[0] : 0;
  if (size() != labels || inputs.type.rank() == 0)
    throw UserError(
        location,
        fmt::format("dataset: {} ({}) and {} ({})", ir::counted(size(), "input"),
                    to_string(inputs.type), ir::counted(labels, "target"), to_string(targets.type)),
        "the first axis of both is the axis of samples");
}

Dataset Dataset::first(int64_t count, ir::Location location) const {
  check(location);
  if (count < 0)
    throw UserError(location,
                    fmt::format("dataset: first({}): the count must be at least 0", count),
                    fmt::format("{}; a larger count gives all of them",
                                ir::counted(size(), "sample is there", "samples are there")));
  count = std::min(count, size());
  auto head = [&](const Array& array) {
    Array out{array.type.with(array.type.shape.with(0, count))};
    std::copy_n(array.bytes().begin(), out.bytes().size(), out.bytes().begin());
    return out;
  };
  return {head(inputs), head(targets)};
}

namespace {

constexpr const char* kPackageFolder = "/usr/share/datasets/fashion-mnist";

/// A folder and how the program came to it.
struct Source {
  enum class By { Argument, Variable, Default };
  By by = By::Default;
  std::string folder;

  /// What to do when it does not hold the files.
  std::string remedy() const {
    std::error_code error;
    const std::string package = kPackageFolder;
    const bool installed = std::filesystem::exists(package + "/train-images-idx3-ubyte.gz", error);
    const std::string install =
        "; `apt-get install dataset-fashion-mnist` puts them into " + package;
    if (by == By::Argument)
      return "the folder given to fashion_mnist must hold the four .gz files" +
             (installed ? "; left out, those in " + package + " are read" : install);
    if (by == By::Variable)
      return "MEZZO_DATA is '" + folder + "', which must hold the four .gz files" +
             (installed ? "; unset it to read those in " + package : install);
    return "install it with `apt-get install dataset-fashion-mnist`, or let MEZZO_DATA name the "
           "folder of the four .gz files";
  }
};

Dataset read_part(const Source& source, const std::string& prefix, ir::Location location) {
  auto read = [&](const std::string& name, int rank) {
    std::filesystem::path path = std::filesystem::path(source.folder) / name;
    std::error_code error;
    const bool there = std::filesystem::exists(path, error);
    if (error)
      throw UserError(location,
                      "fashion_mnist: " + path.string() + ": cannot read: " + error.message(),
                      source.remedy());
    if (!there)
      throw UserError(location, "fashion_mnist: " + path.string() + " is not there",
                      source.remedy());
    runtime::HostArray array =
        detail::located(location, "", [&] { return runtime::read_idx(path); });
    if (array.type.rank() != rank || array.type.dtype != u8)
      throw UserError(location, fmt::format("fashion_mnist: {} holds {}, expected u8 with {} axes",
                                            path.string(), to_string(array.type), rank));
    return array;
  };
  runtime::HostArray images = read(prefix + "-images-idx3-ubyte.gz", 3);
  runtime::HostArray labels = read(prefix + "-labels-idx1-ubyte.gz", 1);
  int64_t count = images.type.shape[0];
  images.type.shape = Shape{count, images.type.elements() / std::max<int64_t>(1, count)};
  Dataset part{Array(std::move(images)), Array(labels.converted_to(i32))};
  part.check(location);
  return part;
}

}  // namespace

data::Split data::fashion_mnist(std::string folder, ir::Location location) {
  Source source{Source::By::Argument, std::move(folder)};
  const char* variable = std::getenv("MEZZO_DATA");
  if (source.folder.empty())
    source = variable && *variable ? Source{Source::By::Variable, variable}
                                   : Source{Source::By::Default, kPackageFolder};
  return {read_part(source, "train", location), read_part(source, "t10k", location)};
}

namespace detail {

ir::Type batch_type(const Array& array, int64_t count) {
  return {array.dtype(), array.shape().with(0, count)};
}

ir::Type input_type(const Array& inputs, int64_t count) {
  ir::Type type = batch_type(inputs, count);
  return type.dtype == u8 ? type.with(f32) : type;
}

void scale_pixels(std::span<const uint8_t> pixels, std::span<float> numbers) {
  static const std::array<float, 256> kPixels = [] {
    std::array<float, 256> values{};
    for (size_t i = 0; i < 256; ++i) values[i] = static_cast<float>(static_cast<double>(i) / 255);
    return values;
  }();
  for (size_t i = 0; i < pixels.size(); ++i) numbers[i] = kPixels[pixels[i]];
}

void gather_rows(const Array& array, std::span<const int64_t> rows, Array& batch) {
  bool scaled = array.dtype() == u8 && batch.dtype() == f32;
  MEZZO_CHECK(scaled || array.dtype() == batch.dtype(), "samples of another type than the batch");
  size_t bytes = array.bytes().size() / static_cast<size_t>(std::max<int64_t>(1, array.shape()[0]));
  std::byte* out = batch.bytes().data();
  for (int64_t row : rows) {
    const std::byte* in = array.bytes().data() + static_cast<size_t>(row) * bytes;
    if (scaled) {
      scale_pixels({reinterpret_cast<const uint8_t*>(in), bytes},
                   {reinterpret_cast<float*>(out), bytes});
      out += bytes * sizeof(float);
    } else {
      std::memcpy(out, in, bytes);
      out += bytes;
    }
  }
}

std::vector<int64_t> shuffled(int64_t count, uint64_t seed, uint64_t epoch) {
  constexpr uint32_t kOrderStream = 0x7FFFFFFF;  // random ops count from 0, initial values above
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  // Fisher and Yates; a 64-bit draw modulo i + 1 is even enough for any count below 2^40.
  for (int64_t i = count - 1; i > 0; --i) {
    auto words = ir::random_block(seed, epoch, kOrderStream, static_cast<uint64_t>(i));
    uint64_t draw = uint64_t{words[0]} << 32 | words[1];
    std::swap(order[static_cast<size_t>(i)],
              order[static_cast<size_t>(draw % static_cast<uint64_t>(i + 1))]);
  }
  return order;
}

}  // namespace detail
}  // namespace mezzo
