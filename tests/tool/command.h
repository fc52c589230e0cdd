// SPDX-License-Identifier: Apache-2.0
// The `mezzo` program as a user calls it.
#pragma once

#include <support/temp_dir.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>

namespace mezzo::test {

/// `@f` doubles four numbers.
inline constexpr const char* kDouble = R"(module @m {
  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
)";

struct Finished {
  int status = -1;
  std::string out, err;
};

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs `mezzo ARGUMENTS` (words of a shell) in a folder of its own, with a kernel cache there.
class Tool {
 public:
  Finished operator()(const std::string& arguments) const {
    const char* bin = std::getenv("MEZZO_BIN");
    if (!bin) throw std::runtime_error("MEZZO_BIN is not set; run the tests through ctest");
    std::string command = "cd '" + folder_.path().string() + "' && env -u MEZZO_DEBUG " +
                          environment + " MEZZO_CACHE_DIR='" + (folder_ / "cache").string() +
                          "' '" + bin + "/mezzo' " + arguments + " >out.txt 2>err.txt";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(folder_ / "out.txt"),
            file_text(folder_ / "err.txt")};
  }

  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  /// `NAME=VALUE` words for the next calls.
  std::string environment;

 private:
  TempDir folder_;
};

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mezzo::test
