// SPDX-License-Identifier: Apache-2.0
// Data sets that are missing or broken: the file, what to do, and the line of the call.
#include <mezzo/mezzo.h>
#include <support/error_of.h>
#include <support/temp_dir.h>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

using namespace mezzo;

namespace {

/// The error of `f` behind its place, which must be in this file.
std::string text_of(const std::function<void()>& f) {
  const std::string text = mezzo::test::error_of(f), start = ": error: ";
  CHECK(text.find("data_errors_test.cpp:") != std::string::npos);
  return text.substr(text.find(start) + start.size());
}

}  // namespace

TEST_CASE("a data set that is not there or cannot be read says why and what to do") {
  const std::string package = "/usr/share/datasets/fashion-mnist";
  const bool installed = std::filesystem::exists(package + "/train-images-idx3-ubyte.gz");
  const std::string install = "; `apt-get install dataset-fashion-mnist` puts them into " + package;
  const mezzo::test::TempDir folder;
  const std::string empty = folder.path().string(), loop = empty + "/loop";
  const std::string file = "/train-images-idx3-ubyte.gz";
  CHECK(text_of([&] { data::fashion_mnist(empty); }) ==
        "fashion_mnist: " + empty + file +
            " is not there\nnote: the folder given to fashion_mnist must hold the four .gz files" +
            (installed ? "; left out, those in " + package + " are read" : install));

  const char* before = std::getenv("MEZZO_DATA");
  const std::string kept = before ? before : "";
  std::filesystem::create_symlink(loop, loop);
  const std::string longer = empty + "/" + std::string(300, 'x');
  for (const auto& [place, what] : {std::pair{empty, std::string(" is not there")},
                                    {loop, ": cannot read: Too many levels of symbolic links"},
                                    {longer, ": cannot read: File name too long"}}) {
    setenv("MEZZO_DATA", place.c_str(), 1);
    CHECK(text_of([] { data::fashion_mnist(); }) ==
          "fashion_mnist: " + place + file + what + "\nnote: MEZZO_DATA is '" + place +
              "', which must hold the four .gz files" +
              (installed ? "; unset it to read those in " + package : install));
  }
  unsetenv("MEZZO_DATA");
  if (!installed)
    CHECK(text_of([] { data::fashion_mnist(); }) ==
          "fashion_mnist: " + package + file +
              " is not there\nnote: install it with `apt-get install dataset-fashion-mnist`, or "
              "let MEZZO_DATA name the folder of the four .gz files");
  if (before) setenv("MEZZO_DATA", kept.c_str(), 1);
}

TEST_CASE("files of a data set that are truncated or hold something else are named") {
  const mezzo::test::TempDir folder;
  const auto write = [&](const std::string& content) {
    std::ofstream(folder / "train-images-idx3-ubyte.gz", std::ios::binary) << content;
    return text_of([&] { data::fashion_mnist(folder.path().string()); });
  };
  const std::string file = (folder / "train-images-idx3-ubyte.gz").string();
  CHECK(write(std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\2ab", 18)) ==
        file + ": truncated idx file: header says 2x2x2 = 8 bytes, found 2");
  CHECK(write(std::string("\0\0\x08\0a", 5)) ==
        "fashion_mnist: " + file + " holds tensor<u8>, expected u8 with 3 axes");
  CHECK(write(std::string("\0\0\x09\x01\0\0\0\1a", 9)) ==
        "fashion_mnist: " + file + " holds tensor<1xi32>, expected u8 with 3 axes");
}
