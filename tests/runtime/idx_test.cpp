// SPDX-License-Identifier: Apache-2.0
// idx files, plain and compressed, and every error with its text.
#include <mezzo/runtime/idx.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <runtime/temporary_folder.h>
#include <string>
#include <vector>
#include <zlib.h>

using mezzo::ir::DType;
using mezzo::runtime::HostArray;
using mezzo::runtime::read_idx;
using mezzo::test::TemporaryFolder;
using mezzo::test::write_text;

namespace {

std::string idx(int code, const std::vector<uint32_t>& dims, const std::string& data) {
  std::string out(2, '\0');
  out += static_cast<char>(code);
  out += static_cast<char>(dims.size());
  for (uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0}) out += static_cast<char>(dim >> shift & 255);
  return out + data;
}

std::string compressed(const std::string& text) {
  TemporaryFolder folder;
  gzFile file = gzopen((folder / "x").c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
          static_cast<int>(text.size()));
  REQUIRE(gzclose(file) == Z_OK);
  return mezzo::test::read_text(folder / "x");
}

HostArray read(const std::string& content) {
  TemporaryFolder folder;
  write_text(folder / "x", content);
  return read_idx(folder / "x");
}

std::string error_of(const std::string& content) {
  TemporaryFolder folder;
  write_text(folder / "x", content);
  try {
    read_idx(folder / "x");
  } catch (const mezzo::UserError& error) {
    const std::string file = (folder / "x").string() + ": ";
    REQUIRE(error.message().starts_with(file));
    return error.message().substr(file.size());
  }
  return "no error";
}

}  // namespace

TEST_CASE("bytes are read plain and compressed, also in several gzip members") {
  const std::string plain = idx(8, {2, 3}, std::string("\x00\x01\x02\xff\x04\x05", 6));
  for (const std::string& content :
       {plain, compressed(plain), compressed(plain.substr(0, 9)) + compressed(plain.substr(9))}) {
    const HostArray array = read(content);
    CHECK(array.type == mezzo::ir::Type(DType::U8, {2, 3}));
    CHECK(array.to_doubles() == std::vector<double>{0, 1, 2, 255, 4, 5});
  }
}

TEST_CASE("a compressed file that expands a thousandfold is read whole") {
  const std::string plain = idx(8, {3000000}, std::string(3000000, '\x07'));
  const HostArray array = read(compressed(plain));
  CHECK(array.bytes() == std::vector<std::byte>(3000000, std::byte{7}));
}

TEST_CASE("wider elements are big endian and small signed ones become i32") {
  CHECK(read(idx(0x09, {2}, "\xff\x02")).to_doubles() == std::vector<double>{-1, 2});
  CHECK(read(idx(0x0b, {2}, std::string("\xff\xfe\x01\x00", 4))).to_doubles() ==
        std::vector<double>{-2, 256});
  CHECK(read(idx(0x0c, {1}, std::string("\x00\x00\x01\x02", 4))).as_integer(0) == 258);
  CHECK(read(idx(0x0d, {1}, std::string("\x3f\xc0\x00\x00", 4))).as_double(0) == 1.5);
  const HostArray wide = read(idx(0x0e, {1}, std::string("\xbf\xf8\0\0\0\0\0\0", 8)));
  CHECK(wide.type == mezzo::ir::Type(DType::F64, {1}));
  CHECK(wide.as_double(0) == -1.5);
}

TEST_CASE("a truncated idx file says what its header promises and what was found") {
  CHECK(error_of(idx(8, {60000, 28, 28}, "abc")) ==
        "truncated idx file: header says 60000x28x28 = 47040000 bytes, found 3");
  CHECK(error_of(compressed(idx(8, {60000, 28, 28}, "abc"))) ==
        "truncated idx file: header says 60000x28x28 = 47040000 bytes, found 3");
  CHECK(error_of(idx(0x0c, {2}, "1234567")) ==
        "truncated idx file: header says 2 = 8 bytes, found 7");
  CHECK(error_of(idx(8, {2}, "abc")) == "too long an idx file: header says 2 = 2 bytes, found 3");
  CHECK(error_of("") == "truncated idx file: its header has at least 4 bytes, found 0");
  CHECK(error_of(idx(8, {2, 3}, "").substr(0, 10)) ==
        "truncated idx file: its header has 12 bytes, found 10");
}

TEST_CASE("truncated and damaged gzip data are told apart") {
  std::string content = compressed(idx(8, {1000}, std::string(1000, 'x')));
  const std::string cut = content.substr(0, content.size() - 4);
  CHECK(error_of(cut) == "truncated gzip data: the file ends after " + std::to_string(cut.size()) +
                             " bytes, which give 1008 bytes and no end mark");
  CHECK(error_of("\x1f\x8b").starts_with("truncated gzip data: the file ends after 2 bytes"));
  content[content.size() - 5] = static_cast<char>(content[content.size() - 5] ^ 1);
  CHECK(error_of(content) ==
        "damaged gzip data after 1008 decompressed bytes: incorrect data check");
}

TEST_CASE("other files are refused by their first bytes") {
  CHECK(error_of("\x89PNG") ==
        "not an idx file: it starts with 89 50 4e 47, expected 00 00, an element type of 08, 09, "
        "0b, 0c, 0d or 0e, and the axes");
  CHECK(error_of(std::string("\0\0\x07\x01", 4)).starts_with("not an idx file: it starts with 00"));
  CHECK(error_of(idx(8, std::vector<uint32_t>(9, 1), "x")) ==
        "idx file with 9 axes, the most is 8");
  CHECK(error_of(idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, "x")) ==
        "shape 4294967295x4294967295x4294967295 has more than 2^59 elements");
}

TEST_CASE("a missing idx file is named") {
  CHECK_THROWS_WITH_AS(read_idx("/nonexistent/train-images"),
                       "error: /nonexistent/train-images: cannot read: No such file or directory",
                       mezzo::UserError);
}
