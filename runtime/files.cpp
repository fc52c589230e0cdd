// SPDX-License-Identifier: Apache-2.0
// POSIX calls rather than streams, because only they say why something failed and only they can
// sync.
#include <mezzo/runtime/files.h>

#include <mezzo/ir/error.h>

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace mezzo::runtime {
namespace {

// Closes its descriptor and removes its temporary file unless told that all went well.
struct Descriptor {
  int fd = -1;
  std::string temporary;

  ~Descriptor() {
    if (fd >= 0) ::close(fd);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }
};

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw UserError(
      {}, path.string() + ": cannot " + what + ": " + std::generic_category().message(error));
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path) {
  Descriptor file;
  // A pipe would be waited for until somebody writes into it.
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) fail(path, "read", errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail(path, "read", errno);
  if (S_ISDIR(status.st_mode)) fail(path, "read", EISDIR);
  if (!S_ISREG(status.st_mode))
    throw UserError({}, path.string() + ": cannot read: it is a " +
                            (S_ISFIFO(status.st_mode) ? "pipe" : "device") + ", not a file");
  // One byte more than the size, so that the end of the file shows without growing.
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size) + 1);
  size_t used = 0;
  while (true) {
    const ssize_t count = ::read(file.fd, bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read", errno);
    if (count == 0) break;
    used += static_cast<size_t>(count);
    if (used == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
  }
  bytes.resize(used);
  return bytes;
}

void write_file(const std::filesystem::path& path,
                std::initializer_list<std::span<const std::byte>> parts, Sync sync) {
  // Not mkstemp, whose files only their owner can read.
  static std::atomic<unsigned> counter{0};
  Descriptor file;
  std::string name;
  do {
    name = path.string() + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    file.fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file.fd < 0 && errno == EEXIST);
  if (file.fd < 0) fail(path, "write", errno);
  file.temporary = name;
  // A file that is replaced keeps its permissions.
  struct stat old;
  if (::stat(path.c_str(), &old) == 0 && ::fchmod(file.fd, old.st_mode & 07777) != 0)
    fail(path, "write", errno);
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t count = ::write(file.fd, part.data(), part.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(path, "write", errno);
      part = part.subspan(static_cast<size_t>(count));
    }
  }
  if (sync == Sync::Yes && ::fsync(file.fd) != 0) fail(path, "write", errno);
  const int closed = ::close(file.fd);
  file.fd = -1;
  if (closed != 0) fail(path, "write", errno);
  if (::rename(name.c_str(), path.c_str()) != 0) fail(path, "write", errno);
  file.temporary.clear();
}

std::string dump_folder(const std::string& folder) {
  if (folder.empty()) return "";
  // Never freed: the destructor of a static of the program may compile.
  static auto* mutex = new std::mutex;
  static auto* runs = new std::map<std::string, int>;
  std::lock_guard lock(*mutex);
  int run = ++(*runs)[folder];
  return run == 1 ? folder : (std::filesystem::path(folder) / std::to_string(run)).string();
}

}  // namespace mezzo::runtime
