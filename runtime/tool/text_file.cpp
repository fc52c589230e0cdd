// SPDX-License-Identifier: Apache-2.0
// Texts from and to files and the standard streams.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/tool/commands.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace mezzo::tool {

namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw UserError({}, path + ": cannot " + what + ": " + std::strerror(errno));
}

}  // namespace

std::string read_text(const std::string& path) {
  std::unique_ptr<std::FILE, Close> opened;
  std::FILE* file = stdin;
  if (path != "-") {
    opened.reset(std::fopen(path.c_str(), "rb"));
    file = opened.get();
    if (!file) fail(path, "read");
  }
  std::string text;
  char buffer[1 << 16];
  while (size_t size = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, size);
  if (std::ferror(file)) fail(path, "read");
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  bool to_stdout = path.empty() || path == "-";
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "wb");
  const std::string shown = to_stdout ? "standard output" : path;
  if (!file) fail(shown, "write");
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  bool closed = (to_stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (!written || !closed) fail(shown, "write");
}

}  // namespace mezzo::tool
