// SPDX-License-Identifier: Apache-2.0
// safetensors files: the way through a file, one from the format's own writer byte for byte, and
// every way in which a file can be wrong.
#include <mezzo/runtime/safetensors.h>

#include <mezzo/ir/error.h>
#include <support/temp_dir.h>

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

using namespace mezzo::runtime;
using mezzo::UserError;
using mezzo::ir::DType;

namespace {

const mezzo::test::TempDir& folder() {
  static const mezzo::test::TempDir instance;
  return instance;
}

std::filesystem::path write_raw(const std::string& content) {
  const std::filesystem::path path = folder() / "w.safetensors";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// A file of this header and data.
std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

/// The message after the path, with its hint; "read" where there is none.
std::string error_of(const std::string& content) {
  const std::filesystem::path path = write_raw(content);
  try {
    read_safetensors(path);
  } catch (const UserError& error) {
    const std::string front = path.string() + ": ";
    REQUIRE(error.message().starts_with(front));
    return error.message().substr(front.size()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
  return "read";
}

std::string one(const std::string& fields, const std::string& data = std::string(8, 'x')) {
  return file_of("{\"w\":{" + fields + "}}", data);
}

}  // namespace

TEST_CASE("arrays of every element type survive the way through a file") {
  NamedArrays arrays;
  for (DType dtype : mezzo::ir::kAllDTypes) {
    HostArray array({dtype, {3, 5}});
    for (int64_t i = 0; i < 15; ++i) array.set_integer(i, dtype == DType::Bool ? i % 2 : i);
    arrays.emplace(std::string("of ") + mezzo::ir::to_string(dtype), array);
  }
  arrays.emplace("scalar", HostArray({DType::F32, {}}, std::vector<double>{2.5}));
  arrays.emplace("empty", HostArray({DType::F16, {0, 4}}));
  const std::filesystem::path path = folder() / "all.safetensors";
  write_safetensors(path, arrays);
  const NamedArrays read = read_safetensors(path);
  REQUIRE(read.size() == arrays.size());
  for (const auto& [name, array] : arrays) {
    CAPTURE(name);
    REQUIRE(read.count(name) == 1);
    CHECK(read.at(name).type == array.type);
    CHECK(read.at(name).bytes() == array.bytes());
  }
}

TEST_CASE("a written file is laid out as the format says") {
  const std::filesystem::path path = folder() / "layout.safetensors";
  write_safetensors(path, {{"b", HostArray({DType::U8, {2}}, std::vector<double>{1, 2})},
                           {"a", HostArray({DType::F32, {1}}, std::vector<double>{1})}});
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  CHECK(bytes == file_of(header, std::string("\0\0\x80\x3f\x01\x02", 6)));
}

TEST_CASE("metadata, spaces and any order of entries are read, and any nonzero bool is true") {
  const NamedArrays arrays = read_safetensors(write_raw(file_of(
      "{\"__metadata__\":{\"format\":\"pt\"}, \"y\":{\"data_offsets\":[2,4],\"shape\":[2],"
      "\"dtype\":\"BOOL\"}, \"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  ",
      std::string("\x07\x08\x00\x02", 4))));
  CHECK(arrays.size() == 2);
  CHECK(arrays.at("x").to_doubles() == std::vector<double>{7, 8});
  CHECK(arrays.at("y").to_doubles() == std::vector<double>{0, 1});
}

TEST_CASE("truncated and foreign files say what was found and what was expected") {
  CHECK(error_of("") ==
        "truncated safetensors file: the length of its header has 8 bytes, found 0");
  CHECK(error_of("module @m {}") ==
        "not a safetensors file: it starts with a header length of 4620804734182518637, the most "
        "is 100000000");
  CHECK(error_of(std::string("\x10\0\0\0\0\0\0\0{}", 10)) ==
        "truncated safetensors file: its header has 16 bytes, found 2");
  CHECK(error_of(file_of("[1]")) == "the header is no JSON object");
  CHECK(error_of(file_of("{\"w\":")).starts_with("the header is no JSON: parse error at line 1"));
  CHECK(error_of(file_of("")).starts_with("the header is no JSON: "));
  CHECK(error_of(file_of(std::string(100000, '['))).starts_with("the header is no JSON: "));
  const std::string fields = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  CHECK(error_of(one(fields)) == "read");
  CHECK(error_of(one(fields, "1234567")) ==
        "truncated safetensors file: the header says 8 bytes of data, found 7");
  CHECK(error_of(one(fields, "123456789")) ==
        "too long a safetensors file: the header says 8 bytes of data, found 9");
}

TEST_CASE("an entry that is wrong is named with both values") {
  CHECK(error_of(file_of("{\"w\":3}")) == "'w' is no JSON object");
  CHECK(error_of(one(R"("shape":[2],"data_offsets":[0,8])")) == "'w' has no 'dtype'");
  CHECK(error_of(one(R"("dtype":"F32","data_offsets":[0,8])")) == "'w' has no 'shape'");
  CHECK(error_of(one(R"("dtype":"F32","shape":[2])")) == "'w' has no 'data_offsets'");
  CHECK(error_of(one(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])")) ==
        "'w' has the element type \"F8_E4M3\", which cannot be read\nknown element types: F64, "
        "F32, F16, BF16, I64, I32, U8, BOOL");
  CHECK(error_of(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])")) ==
        "'w' has the shape [-2], expected a list of lengths");
  CHECK(error_of(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])")) ==
        "'w' has the shape [2.0], expected a list of lengths");
  CHECK(error_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])")) ==
        "'w' has the data_offsets [8,0], expected [begin, end]");
  CHECK(error_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])")) ==
        "'w' has the data_offsets [0,18446744073709551615], expected [begin, end]");
  CHECK(error_of(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")) ==
        "'w' is tensor<3xf32> = 12 bytes, but its data_offsets [0,8] hold 8");
  CHECK(error_of(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])")) ==
        "'w': shape 4294967296x4294967296 has more than 2^59 elements");
  CHECK(error_of(one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])")) ==
        "'w': shape 1x1x1x1x1x1x1x1x2 has 9 axes, the most is 8");
}

TEST_CASE("arrays that overlap, leave a gap or have one name are refused") {
  const auto two = [](const char* name, const char* offsets, size_t bytes) {
    return file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"" +
                       std::string(name) +
                       "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + offsets + "}}",
                   std::string(bytes, 'x'));
  };
  const std::string hint = "\nthe arrays of a file neither overlap nor leave a gap";
  CHECK(error_of(two("b", "[4,8]", 8)) == "read");
  CHECK(error_of(two("b", "[2,6]", 6)) ==
        "'b' starts at byte 2 of the data, but the one before ends at byte 4" + hint);
  CHECK(error_of(two("b", "[8,12]", 12)) ==
        "'b' starts at byte 8 of the data, but the one before ends at byte 4" + hint);
  CHECK(error_of(two("a", "[4,8]", 8)) == "the header has 'a' twice");
}

TEST_CASE("a damaged safetensors file is read or answered with an error, never more") {
  const std::string good = file_of(R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}})",
                                   std::string(12, '\1'));
  for (size_t length = 0; length < good.size(); ++length)
    CHECK(error_of(good.substr(0, length)) != "read");
  std::mt19937 random(7);
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (size_t edits = 1 + random() % 3; edits; --edits)
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    read += error_of(bad) == "read";
  }
  CHECK(read > 10);
  CHECK(read < 2000);
}

TEST_CASE("a missing safetensors file is named") {
  CHECK_THROWS_WITH_AS(read_safetensors("/nonexistent/w.safetensors"),
                       "error: /nonexistent/w.safetensors: cannot read: No such file or directory",
                       UserError);
}
