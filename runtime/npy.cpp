// SPDX-License-Identifier: Apache-2.0
// The format: "\x93NUMPY", two bytes of version, the header's length (2 bytes in version 1, 4 after
// it), a Python dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, and the
// elements.
#include <mezzo/runtime/npy.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/files.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace mezzo::runtime {
namespace {

using ir::DType;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr const char* kKnownTypes =
    "known element types: f8, f4, f2, i8, i4, u1, b1; bfloat16 is saved as f4";

struct Code {
  std::string_view text;
  DType dtype;
};

constexpr Code kCodes[] = {{"f8", DType::F64}, {"f4", DType::F32}, {"f2", DType::F16},
                           {"i8", DType::I64}, {"i4", DType::I32}, {"u1", DType::U8},
                           {"b1", DType::Bool}};

// A reader of the few Python literals that the header may hold.
class Header {
 public:
  Header(std::string_view text, const std::string& file) : text_(text), file_(file) {
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr")
        descr();
      else if (key == "fortran_order")
        fortran_order_ = boolean();
      else if (key == "shape")
        shape();
      else
        fail("unknown key '" + key + "' in the header");
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    peek();
    if (at_ < text_.size())
      fail("malformed header: text behind the '}', at its byte " + std::to_string(at_));
    if (!dtype_) fail("the header has no 'descr'");
    if (!shape_) fail("the header has no 'shape'");
    if (!fortran_order_) fail("the header has no 'fortran_order'");
  }

  ir::Type type() const { return {*dtype_, *shape_}; }
  bool fortran_order() const { return *fortran_order_; }
  bool big_endian() const { return big_endian_; }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw UserError({}, file_ + ": " + what, hint);
  }

  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    const char found = peek();
    if (!take(wanted))
      fail("malformed header: expected '" + std::string(1, wanted) + "' at its byte " +
           std::to_string(at_) + ", found " +
           (found == '\0' ? "its end" : "'" + std::string(1, found) + "'"));
  }

  std::string string() {
    const char quote = peek() == '"' ? '"' : '\'';
    expect(quote);
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail("malformed header: a string does not end");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return std::string(found);
  }

  bool boolean() {
    peek();
    for (std::string_view word : {"False", "True"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("malformed header: 'fortran_order' is neither True nor False");
  }

  void descr() {
    if (peek() == '[') fail("structured element type, expected a plain one", kKnownTypes);
    const std::string found = string();
    const bool has_order =
        !found.empty() && std::string_view("<>=|").find(found[0]) != std::string_view::npos;
    const std::string_view code = std::string_view(found).substr(has_order ? 1 : 0);
    big_endian_ = has_order && found[0] == '>';
    for (const Code& known : kCodes)
      if (code == known.text) dtype_ = known.dtype;
    if (dtype_) return;
    if (code.starts_with("O"))
      fail("element type '" + found + "' holds Python objects, expected numbers", kKnownTypes);
    fail("unsupported element type '" + found + "'", kKnownTypes);
  }

  void shape() {
    std::vector<int64_t> dims;
    expect('(');
    while (!take(')')) {
      peek();
      int64_t dim = 0;
      const auto [rest, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc()) fail("malformed header: a length in 'shape' is not a number");
      at_ = static_cast<size_t>(rest - text_.data());
      take('L');  // Python 2 wrote its long integers so
      dims.push_back(dim);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    try {
      shape_ = ir::Shape(std::span<const int64_t>(dims));
    } catch (const UserError& error) {
      fail(error.message());
    }
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  std::optional<DType> dtype_;
  std::optional<ir::Shape> shape_;
  std::optional<bool> fortran_order_;
  bool big_endian_ = false;
};

void swap_elements(std::vector<std::byte>& bytes, size_t size) {
  for (size_t i = 0; i + size <= bytes.size(); i += size)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + size));
}

// Column-major elements in row-major order, walking the source in its own order.
std::vector<std::byte> transposed(const std::vector<std::byte>& from, const ir::Type& type) {
  std::vector<std::byte> to(from.size());
  const auto size = static_cast<size_t>(ir::byte_size(type.dtype));
  const auto strides = type.shape.strides();
  std::array<int64_t, ir::kMaxRank> index{};
  int64_t target = 0;
  for (size_t source = 0; source < from.size(); source += size) {
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), size,
                to.begin() + target * static_cast<ptrdiff_t>(size));
    for (int axis = 0; axis < type.rank(); ++axis) {
      const auto a = static_cast<size_t>(axis);
      target += strides[a];
      if (++index[a] < type.shape[axis]) break;
      target -= strides[a] * type.shape[axis];
      index[a] = 0;
    }
  }
  return to;
}

}  // namespace

HostArray read_npy(const std::filesystem::path& path) {
  const std::string file = path.string();
  std::vector<std::byte> bytes = read_file(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto fail = [&file](const std::string& what) { throw UserError({}, file + ": " + what); };

  if (!text.starts_with(kMagic))
    fail("not a .npy file: it does not start with \\x93NUMPY (" +
         ir::counted(bytes.size(), "byte") + ")");
  const size_t length_size = text.size() > 6 && text[6] == 1 ? 2 : 4;
  const size_t start = kMagic.size() + 2 + length_size;
  if (bytes.size() < start)
    fail("truncated .npy file: expected at least " + ir::counted(start, "byte") + ", found " +
         std::to_string(bytes.size()));
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3)
    fail(".npy version " + std::to_string(version) + ", expected 1, 2 or 3");
  size_t length = 0;
  for (size_t i = length_size; i-- > 0;)
    length = length << 8 | std::to_integer<size_t>(bytes[8 + i]);
  if (bytes.size() - start < length)
    fail("truncated .npy file: its header has " + ir::counted(length, "byte") + ", found " +
         std::to_string(bytes.size() - start));

  const Header header(text.substr(start, length), file);
  const ir::Type type = header.type();
  const auto found = static_cast<int64_t>(bytes.size() - start - length);
  if (found != type.bytes())
    fail((found < type.bytes() ? "truncated .npy file: " : "too long a .npy file: ") +
         std::string("the header says ") + ir::to_string(type) + " = " +
         ir::counted(type.bytes(), "byte") + ", found " + std::to_string(found));

  bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(start + length));
  if (header.big_endian()) swap_elements(bytes, static_cast<size_t>(ir::byte_size(type.dtype)));
  if (header.fortran_order() && type.rank() > 1) bytes = transposed(bytes, type);
  if (type.dtype == DType::Bool)
    for (std::byte& value : bytes) value = value != std::byte{0} ? std::byte{1} : std::byte{0};
  HostArray array;
  array.type = type;
  array.bytes() = std::move(bytes);
  return array;
}

void write_npy(const std::filesystem::path& path, const HostArray& array) {
  if (array.type.dtype == DType::BF16) return write_npy(path, array.converted_to(DType::F32));
  std::string descr;
  for (const Code& code : kCodes)
    if (code.dtype == array.type.dtype) descr = code.text;
  descr = (ir::byte_size(array.type.dtype) == 1 ? "|" : "<") + descr;
  std::string shape;
  for (int64_t dim : array.type.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  if (array.type.rank() == 1) shape += ",";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // Spaces and a newline up to a multiple of 64 bytes, so that the elements are aligned in the
  // file.
  const size_t start = kMagic.size() + 4;
  header.append(63 - (start + header.size()) % 64, ' ');
  header += '\n';
  std::string front(kMagic);
  front += '\1';
  front += '\0';
  front += static_cast<char>(header.size() & 255);
  front += static_cast<char>(header.size() >> 8);
  front += header;
  write_file(path, {std::as_bytes(std::span<const char>(front)), array.bytes()});
}

}  // namespace mezzo::runtime
