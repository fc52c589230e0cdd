// SPDX-License-Identifier: Apache-2.0
// The format: two zero bytes, a code of the element type, the number of axes, their lengths as
// big-endian 32-bit numbers, and the elements, big endian and row-major.
#include <mezzo/runtime/idx.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/files.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <limits>
#include <string>
#include <zlib.h>

namespace mezzo::runtime {
namespace {

using ir::DType;

static_assert(std::endian::native == std::endian::little);

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw UserError({}, path.string() + ": " + what);
}

bool is_gzip(const std::vector<std::byte>& bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

// Owns zlib's state.
struct Inflater {
  z_stream stream{};
  Inflater() {
    // 16 asks for gzip's header and checksum.
    const int code = inflateInit2(&stream, 15 + 16);
    MEZZO_CHECK(code == Z_OK, "zlib's inflateInit2 returned " + std::to_string(code));
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

// All members of a gzip file, one after the other.
std::vector<std::byte> decompressed(const std::filesystem::path& path,
                                    const std::vector<std::byte>& from) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::vector<std::byte> to(4 * from.size() + 4096);
  size_t read = 0, written = 0;
  while (true) {
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    if (written == to.size()) to.resize(2 * to.size());
    const size_t in = std::min(from.size() - read, kMost);
    const size_t out = std::min(to.size() - written, kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data())) + read;
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(to.data()) + written;
    stream.avail_out = static_cast<uInt>(out);
    const int code = inflate(&stream, Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (read == from.size()) break;
      inflateReset(&stream);
    } else if (code == Z_BUF_ERROR ||
               (code == Z_OK && read == from.size() && stream.avail_out > 0)) {
      fail(path, "truncated gzip data: the file ends after " + ir::counted(from.size(), "byte") +
                     ", which give " + ir::counted(written, "byte") + " and no end mark");
    } else if (code != Z_OK) {
      fail(path, "damaged gzip data after " + ir::counted(written, "decompressed byte") + ": " +
                     (stream.msg != nullptr ? stream.msg : "zlib code " + std::to_string(code)));
    }
  }
  to.resize(written);
  return to;
}

struct Code {
  int code;
  int size;
  DType dtype;
};

constexpr Code kCodes[] = {{0x08, 1, DType::U8},  {0x09, 1, DType::I32}, {0x0b, 2, DType::I32},
                           {0x0c, 4, DType::I32}, {0x0d, 4, DType::F32}, {0x0e, 8, DType::F64}};

// Elements in the machine's byte order, the small signed ones widened.
std::vector<std::byte> native_elements(std::span<const std::byte> from, const Code& code) {
  if (code.size == 1 && code.dtype == DType::U8) return {from.begin(), from.end()};
  const auto source = static_cast<size_t>(code.size);
  const auto target = static_cast<size_t>(ir::byte_size(code.dtype));
  std::vector<std::byte> to(from.size() / source * target);
  for (size_t i = 0; i < from.size() / source; ++i) {
    std::byte* element = to.data() + i * target;
    for (size_t byte = 0; byte < source; ++byte)
      element[byte] = from[i * source + source - 1 - byte];
    const bool negative = (from[i * source] & std::byte{0x80}) != std::byte{0};
    std::fill(element + source, element + target, negative ? std::byte{0xff} : std::byte{0});
  }
  return to;
}

}  // namespace

HostArray read_idx(const std::filesystem::path& path) {
  std::vector<std::byte> bytes = read_file(path);
  if (is_gzip(bytes)) bytes = decompressed(path, bytes);
  const auto at = [&bytes](size_t i) { return std::to_integer<int>(bytes[i]); };

  if (bytes.size() < 4)
    fail(path, "truncated idx file: its header has at least 4 bytes, found " +
                   std::to_string(bytes.size()));
  const auto code = std::find_if(std::begin(kCodes), std::end(kCodes),
                                 [&](const Code& known) { return known.code == at(2); });
  if (at(0) != 0 || at(1) != 0 || code == std::end(kCodes)) {
    std::array<char, 16> magic{};
    std::snprintf(magic.data(), magic.size(), "%02x %02x %02x %02x", at(0), at(1), at(2), at(3));
    fail(path, "not an idx file: it starts with " + std::string(magic.data()) +
                   ", expected 00 00, an element type of 08, 09, 0b, 0c, 0d or 0e, and the axes");
  }
  const auto rank = static_cast<size_t>(at(3));
  const size_t start = 4 + 4 * rank;
  if (rank > static_cast<size_t>(ir::kMaxRank))
    fail(path, "idx file with " + ir::counted(rank, "axis", "axes") + ", the most is " +
                   std::to_string(ir::kMaxRank));
  if (bytes.size() < start)
    fail(path, "truncated idx file: its header has " + ir::counted(start, "byte") + ", found " +
                   std::to_string(bytes.size()));
  std::vector<int64_t> dims(rank);
  for (size_t axis = 0; axis < rank; ++axis)
    for (size_t byte = 0; byte < 4; ++byte) dims[axis] = dims[axis] << 8 | at(4 + 4 * axis + byte);

  ir::Shape shape;
  try {
    shape = ir::Shape(std::span<const int64_t>(dims));
  } catch (const UserError& error) {
    fail(path, error.message());
  }
  // Divided rather than multiplied: a false header may ask for more bytes than a number can hold.
  const size_t found = bytes.size() - start;
  const auto size = static_cast<uint64_t>(code->size);
  const auto elements = static_cast<uint64_t>(shape.elements());
  if (found % size != 0 || found / size != elements) {
    const bool truncated = found / size < elements;
    fail(path, std::string(truncated ? "truncated idx file" : "too long an idx file") +
                   ": header says " + (rank == 0 ? "a scalar" : ir::to_string(shape)) + " = " +
                   ir::counted(elements * size, "byte") + ", found " + std::to_string(found));
  }
  HostArray array;
  array.type = {code->dtype, shape};
  array.bytes() = native_elements(std::span<const std::byte>(bytes).subspan(start), *code);
  return array;
}

}  // namespace mezzo::runtime
