// SPDX-License-Identifier: Apache-2.0
// The format: the length of the header (8 bytes, little endian), the header in JSON,
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, and the data. Offsets
// count from the end of the header; the ranges lie one after the other and cover all data, so that
// no byte is read twice or left out.
#include <mezzo/runtime/safetensors.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/files.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

namespace mezzo::runtime {
namespace {

using ir::DType;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little);

// A longer header is no header: the format's own readers stop here too.
constexpr uint64_t kMaxHeader = 100'000'000;

struct Code {
  const char* text;
  DType dtype;
};

constexpr Code kCodes[] = {{"F64", DType::F64},   {"F32", DType::F32},  {"F16", DType::F16},
                           {"BF16", DType::BF16}, {"I64", DType::I64},  {"I32", DType::I32},
                           {"U8", DType::U8},     {"BOOL", DType::Bool}};

const char* code_of(DType dtype) {
  for (const Code& code : kCodes)
    if (code.dtype == dtype) return code.text;
  throw InternalError("an element type without a code of safetensors");
}

struct Entry {
  std::string name;
  ir::Type type;
  uint64_t begin = 0, end = 0;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : file_(path.string()), bytes_(read_file(path)) {}

  NamedArrays read() {
    const json header = parse_header();
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") entries.push_back(entry(name, value));
    check_ranges(entries);
    NamedArrays arrays;
    for (const Entry& each : entries) arrays.emplace(each.name, array(each));
    return arrays;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw UserError({}, file_ + ": " + what, hint);
  }

  uint64_t data_bytes() const { return bytes_.size() - data_; }

  json parse_header() {
    uint64_t length = 0;
    if (bytes_.size() < sizeof length)
      fail(
          fmt::format("truncated safetensors file: the length of its header has {} bytes, found {}",
                      sizeof length, bytes_.size()));
    std::memcpy(&length, bytes_.data(), sizeof length);
    const uint64_t rest = bytes_.size() - sizeof length;
    if (length > kMaxHeader)
      fail(fmt::format(
          "not a safetensors file: it starts with a header length of {}, the most is {}", length,
          kMaxHeader));
    if (length > rest)
      fail(fmt::format("truncated safetensors file: its header has {}, found {}",
                       ir::counted(length, "byte"), rest));
    data_ = sizeof length + length;
    const char* text = reinterpret_cast<const char*>(bytes_.data()) + sizeof length;
    std::set<std::string> names;
    std::string twice;
    // The parser keeps the last of equal keys; which one was meant nobody knows.
    const auto see = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::key && depth == 1 &&
          !names.insert(parsed.get<std::string>()).second)
        twice = parsed.get<std::string>();
      return true;
    };
    json header;
    try {
      header = json::parse(text, text + length, see);
    } catch (const json::exception& error) {
      fail(fmt::format("the header is no JSON: {}", reason(error.what())));
    }
    if (!header.is_object()) fail("the header is no JSON object");
    if (!twice.empty()) fail("the header has '" + twice + "' twice");
    return header;
  }

  // Without the parser's own number of the error.
  static std::string reason(const std::string& what) {
    const size_t end = what.find("] ");
    return end == std::string::npos ? what : what.substr(end + 2);
  }

  // A list of numbers from 0, or nothing.
  static std::optional<std::vector<int64_t>> numbers(const json& value) {
    if (!value.is_array()) return std::nullopt;
    std::vector<int64_t> out;
    for (const json& item : value) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX) return std::nullopt;
      out.push_back(item.get<int64_t>());
    }
    return out;
  }

  Entry entry(const std::string& name, const json& value) const {
    const auto field = [&](const char* key) {
      const auto it = value.find(key);
      if (it == value.end()) fail(fmt::format("'{}' has no '{}'", name, key));
      return *it;
    };
    if (!value.is_object()) fail("'" + name + "' is no JSON object");
    const json code = field("dtype");
    const auto* known = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& each) {
      return code.is_string() && code.get_ref<const std::string&>() == each.text;
    });
    if (known == std::end(kCodes))
      fail(fmt::format("'{}' has the element type {}, which cannot be read", name, code.dump()),
           "known element types: F64, F32, F16, BF16, I64, I32, U8, BOOL");
    const json shape = field("shape"), offsets = field("data_offsets");
    const auto dims = numbers(shape), range = numbers(offsets);
    if (!dims)
      fail(fmt::format("'{}' has the shape {}, expected a list of lengths", name, shape.dump()));
    if (!range || range->size() != 2 || (*range)[0] > (*range)[1])
      fail(
          fmt::format("'{}' has the data_offsets {}, expected [begin, end]", name, offsets.dump()));
    Entry out{name, {}, static_cast<uint64_t>((*range)[0]), static_cast<uint64_t>((*range)[1])};
    try {
      out.type = {known->dtype, ir::Shape(std::span<const int64_t>(*dims))};
    } catch (const UserError& error) {
      fail("'" + name + "': " + error.message());
    }
    if (out.end - out.begin != static_cast<uint64_t>(out.type.bytes()))
      fail(fmt::format("'{}' is {} = {}, but its data_offsets {} hold {}", name,
                       to_string(out.type), ir::counted(out.type.bytes(), "byte"), offsets.dump(),
                       out.end - out.begin));
    return out;
  }

  void check_ranges(std::vector<Entry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    uint64_t end = 0;
    for (const Entry& each : entries) {
      if (each.begin != end)
        fail(fmt::format("'{}' starts at byte {} of the data, but the one before ends at byte {}",
                         each.name, each.begin, end),
             "the arrays of a file neither overlap nor leave a gap");
      end = each.end;
    }
    if (end != data_bytes())
      fail(fmt::format("{} safetensors file: the header says {} of data, found {}",
                       end > data_bytes() ? "truncated" : "too long a", ir::counted(end, "byte"),
                       data_bytes()));
  }

  HostArray array(const Entry& entry) const {
    HostArray out;
    out.type = entry.type;
    const auto data = std::span<const std::byte>(bytes_).subspan(data_);
    const auto part = data.subspan(entry.begin, entry.end - entry.begin);
    out.bytes().assign(part.begin(), part.end());
    if (entry.type.dtype == DType::Bool)
      for (std::byte& each : out.bytes()) each = std::byte{each != std::byte{0}};
    return out;
  }

  std::string file_;
  std::vector<std::byte> bytes_;
  size_t data_ = 0;
};

}  // namespace

NamedArrays read_safetensors(const std::filesystem::path& path) { return Reader(path).read(); }

void write_safetensors(const std::filesystem::path& path, const NamedArrays& arrays) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::vector<std::byte> data;
  for (const auto& [name, array] : arrays) {
    std::vector<int64_t> dims(array.type.shape.begin(), array.type.shape.end());
    header[name] = {{"dtype", code_of(array.type.dtype)},
                    {"shape", dims},
                    {"data_offsets", {data.size(), data.size() + array.bytes().size()}}};
    data.insert(data.end(), array.bytes().begin(), array.bytes().end());
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw UserError({}, path.string() + ": cannot write: a name is not valid UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  write_file(path, {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text)), data});
}

}  // namespace mezzo::runtime
