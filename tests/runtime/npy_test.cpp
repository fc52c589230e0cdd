// SPDX-License-Identifier: Apache-2.0
// .npy files: bytes as NumPy writes them, round trips, order and byte order, and every error with
// its text.
#include <mezzo/runtime/npy.h>

#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <runtime/temporary_folder.h>
#include <string>
#include <sys/stat.h>
#include <vector>

using mezzo::ir::DType;
using mezzo::runtime::HostArray;
using mezzo::runtime::read_npy;
using mezzo::runtime::write_npy;
using mezzo::test::TemporaryFolder;
using mezzo::test::write_text;

namespace {

// A file with the given header and elements, unpadded, as the format allows.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return out + header + data;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

HostArray read(const std::string& content) {
  TemporaryFolder folder;
  write_text(folder / "x.npy", content);
  return read_npy(folder / "x.npy");
}

// The error's sentence after `FOLDER/x.npy: `.
std::string error_of(const std::string& content) {
  TemporaryFolder folder;
  write_text(folder / "x.npy", content);
  try {
    read_npy(folder / "x.npy");
  } catch (const mezzo::UserError& error) {
    const std::string file = (folder / "x.npy").string() + ": ";
    REQUIRE(error.message().starts_with(file));
    return error.message().substr(file.size());
  }
  return "no error";
}

}  // namespace

TEST_CASE("arrays of every type and rank survive the way through a file") {
  TemporaryFolder folder;
  for (DType dtype : mezzo::ir::kAllDTypes) {
    for (const mezzo::ir::Shape& shape :
         {mezzo::ir::Shape{}, {3}, {2, 3}, {2, 0, 3}, {1, 2, 1, 3}}) {
      HostArray array({dtype, shape});
      for (int64_t i = 0; i < shape.elements(); ++i) array.set(i, static_cast<double>(i % 2));
      write_npy(folder / "a.npy", array);
      const HostArray back = read_npy(folder / "a.npy");
      CAPTURE(to_string(array.type));
      CHECK(back.type == array.type.with(dtype == DType::BF16 ? DType::F32 : dtype));
      CHECK(back.to_doubles() == array.to_doubles());
    }
  }
}

TEST_CASE("a written file is what NumPy writes, byte for byte") {
  TemporaryFolder folder;
  write_npy(folder / "a.npy", HostArray({DType::F32, {2}}, std::vector<double>{1, -2}));
  const std::string text = mezzo::test::read_text(folder / "a.npy");
  CHECK(text.size() == 128 + 8);
  std::string expected("\x93NUMPY\x01\x00v\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  expected.append(127 - expected.size(), ' ');
  expected += '\n';
  expected += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  CHECK(text == expected);
}

TEST_CASE("keys in any order, double quotes and versions 2 and 3 are read") {
  const std::string other = "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"|u1\"}";
  for (int version : {1, 2, 3}) {
    const HostArray array = read(npy(other, "\x07\x09", version));
    CHECK(array.type == mezzo::ir::Type(DType::U8, {2}));
    CHECK(array.to_doubles() == std::vector<double>{7, 9});
  }
}

TEST_CASE("Fortran order becomes row-major") {
  const HostArray array = read(npy(header("'|u1'", "(2, 3)", true), "\x01\x04\x02\x05\x03\x06"));
  CHECK(array.to_doubles() == std::vector<double>{1, 2, 3, 4, 5, 6});
  std::string counting;
  for (char i = 0; i < 24; ++i) counting += i;
  const HostArray deep = read(npy(header("'|u1'", "(2, 3, 4)", true), counting));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k)
        CHECK(deep.as_integer((i * 3 + j) * 4 + k) == i + 2 * j + 6 * k);
}

TEST_CASE("big endian elements are swapped and bools become 0 or 1") {
  CHECK(read(npy(header("'>f4'", "(1,)"), std::string("\x3f\xc0\x00\x00", 4))).as_double(0) == 1.5);
  CHECK(read(npy(header("'>i8'", "()"), std::string("\0\0\0\0\0\0\x01\x02", 8))).as_integer(0) ==
        258);
  const HostArray flags = read(npy(header("'|b1'", "(3,)"), std::string("\x00\x01\x05", 3)));
  CHECK(flags.bytes() == std::vector<std::byte>{std::byte{0}, std::byte{1}, std::byte{1}});
}

TEST_CASE("a file that is not an array says what was found and what was expected") {
  CHECK(error_of("PK\x03\x04") == "not a .npy file: it does not start with \\x93NUMPY (4 bytes)");
  CHECK(error_of("") == "not a .npy file: it does not start with \\x93NUMPY (0 bytes)");
  CHECK(error_of("\x93NUMPY\x01") == "truncated .npy file: expected at least 10 bytes, found 7");
  CHECK(error_of(npy("{}", "", 4)) == ".npy version 4, expected 1, 2 or 3");
  const std::string whole = npy(header("'<f4'", "(2, 3)"), std::string(24, '\0'));
  CHECK(error_of(whole.substr(0, 20)) == "truncated .npy file: its header has 60 bytes, found 10");
  CHECK(error_of(whole.substr(0, whole.size() - 1)) ==
        "truncated .npy file: the header says tensor<2x3xf32> = 24 bytes, found 23");
  CHECK(error_of(whole + "x") ==
        "too long a .npy file: the header says tensor<2x3xf32> = 24 bytes, found 25");
}

TEST_CASE("an element type that cannot be read is named") {
  CHECK(error_of(npy(header("'|O'", "(1,)"), "x")) ==
        "element type '|O' holds Python objects, expected numbers");
  CHECK(error_of(npy(header("'<c8'", "(1,)"), "x")) == "unsupported element type '<c8'");
  CHECK(error_of(npy(header("'|V2'", "(1,)"), "x")) == "unsupported element type '|V2'");
  CHECK(error_of(npy(header("[('a', '<f4')]", "(1,)"), "x")) ==
        "structured element type, expected a plain one");
}

TEST_CASE("a malformed header is an error that names its byte") {
  CHECK(error_of(npy("[1]", "")) == "malformed header: expected '{' at its byte 0, found '['");
  CHECK(error_of(npy("{'shape': (2, ", "")) ==
        "malformed header: a length in 'shape' is not a number");
  CHECK(error_of(npy("{'descr': '<f4", "")) == "malformed header: a string does not end");
  CHECK(error_of(npy("{'shape': ()}", "")) == "the header has no 'descr'");
  CHECK(error_of(npy("{'descr': '<f4'}", "")) == "the header has no 'shape'");
  CHECK(error_of(npy("{'colour': 1}", "")) == "unknown key 'colour' in the header");
  CHECK(error_of(npy(header("'<f4'", "(-2,)"), "")) == "shape -2 has the negative length -2");
  CHECK(error_of(npy(header("'<f4'", "(4611686018427387904, 4)"), "")) ==
        "shape 4611686018427387904x4 has more than 2^59 elements");
  CHECK(error_of(npy(header("'<f8'", "(99999999999999999999,)"), "")) ==
        "malformed header: a length in 'shape' is not a number");
  std::string longer = header("'<f4'", "(1,)");
  CHECK(error_of(npy(longer + "  \n", "abcd")) == "no error");
  longer.back() = 'x';
  CHECK(error_of(npy(longer, "abcd")) ==
        "malformed header: text behind the '}', at its byte " + std::to_string(longer.size() - 1));
}

TEST_CASE("a missing file, a folder, a pipe and a device say so") {
  TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      read_npy(folder / "no.npy"),
      ("error: " + (folder / "no.npy").string() + ": cannot read: No such file or directory")
          .c_str(),
      mezzo::UserError);
  CHECK_THROWS_WITH_AS(
      read_npy(folder.path()),
      ("error: " + folder.path().string() + ": cannot read: Is a directory").c_str(),
      mezzo::UserError);
  // Nobody writes into it: to open it for reading would wait forever.
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(
      read_npy(folder / "pipe"),
      ("error: " + (folder / "pipe").string() + ": cannot read: it is a pipe, not a file").c_str(),
      mezzo::UserError);
  CHECK_THROWS_WITH_AS(read_npy("/dev/zero"),
                       "error: /dev/zero: cannot read: it is a device, not a file",
                       mezzo::UserError);
  CHECK_THROWS_WITH_AS(
      write_npy(folder / "no/a.npy", HostArray()),
      ("error: " + (folder / "no/a.npy").string() + ": cannot write: No such file or directory")
          .c_str(),
      mezzo::UserError);
}
