// SPDX-License-Identifier: Apache-2.0
// Texts from and to files and the standard streams.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/files.h>
#include <mezzo/runtime/tool/commands.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace mezzo::tool {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw UserError({}, path + ": cannot " + what + ": " + std::strerror(error));
}

}  // namespace

std::string read_text(const std::string& path) {
  if (path != "-") {
    try {
      const std::vector<std::byte> bytes = runtime::read_file(path);
      return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    } catch (const UserError& error) {
      std::error_code ignored;
      if (!fs::is_fifo(fs::status(path, ignored))) throw;
      throw UserError({}, error.message(), "`-` reads the standard input");
    }
  }
  std::string text;
  char buffer[1 << 16];
  while (size_t size = std::fread(buffer, 1, sizeof buffer, stdin)) text.append(buffer, size);
  if (std::ferror(stdin)) fail(path, "read", errno);
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  const bool to_stdout = path.empty() || path == "-";
  if (!to_stdout) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    const bool replaced = fs::is_regular_file(status);
    // What a link leads to is replaced, not the link; and what is protected is not.
    const fs::path target =
        replaced && fs::is_symlink(path, error) ? fs::canonical(path, error) : fs::path(path);
    if (replaced && error) fail(path, "write", error.value());
    if (replaced && ::access(path.c_str(), W_OK) != 0) fail(path, "write", errno);
    std::error_code ignored;
    if (replaced || fs::symlink_status(path, ignored).type() == fs::file_type::not_found) {
      runtime::write_file(target, {std::as_bytes(std::span(text.data(), text.size()))});
      return;
    }
  }
  // Devices, pipes and links that lead to nothing yet: there is nothing to lose.
  std::FILE* file = to_stdout ? stdout : std::fopen(path.c_str(), "wb");
  const std::string shown = to_stdout ? "standard output" : path;
  if (!file) fail(shown, "write", errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = (to_stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (!written || !closed) fail(shown, "write", errno);
}

}  // namespace mezzo::tool
