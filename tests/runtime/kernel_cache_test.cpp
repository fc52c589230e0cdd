// SPDX-License-Identifier: Apache-2.0
// The kernel cache on disk: hits, damage, folders that cannot be used, the limit, and eight
// processes at once.
#include <mezzo/runtime/kernel_cache.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/hash128.h>
#include <mezzo/runtime/log.h>
#include <support/skip.h>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <runtime/temporary_folder.h>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;
using mezzo::runtime::DiskCache;
using mezzo::test::TemporaryFolder;

namespace {

using Bytes = std::vector<std::byte>;

std::string key_of(int number) { return mezzo::ir::Hash128().update(number).hex(); }

Bytes binary_of(int number, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + static_cast<size_t>(number)) & 255);
  return bytes;
}

// The warnings of this process while it lives.
class Warnings {
 public:
  Warnings()
      : before_(mezzo::runtime::set_log_sink(
            [this](mezzo::runtime::Level, std::string_view text) { lines.emplace_back(text); })) {}
  ~Warnings() { mezzo::runtime::set_log_sink(before_); }

  std::vector<std::string> lines;

 private:
  mezzo::runtime::LogSink before_;
};

}  // namespace

TEST_CASE("a stored binary is found again, also by another cache on the same folder") {
  TemporaryFolder folder;
  Warnings warnings;
  DiskCache cache(folder / "deep/er");
  std::string reason;
  CHECK_FALSE(cache.find(key_of(1), &reason).has_value());
  CHECK(reason == "not in the disk cache");
  cache.store(key_of(1), binary_of(1, 1000), "kernel k1\n");
  cache.store(key_of(2), {}, "nothing\n");
  CHECK(cache.find(key_of(1)) == binary_of(1, 1000));
  CHECK(DiskCache(folder / "deep/er").find(key_of(1)) == binary_of(1, 1000));
  CHECK(cache.find(key_of(2)) == Bytes{});
  cache.store(key_of(1), binary_of(7, 10), "another\n");
  CHECK(cache.find(key_of(1)) == binary_of(7, 10));
  CHECK(mezzo::test::read_text(folder / ("deep/er/" + key_of(1) + ".txt")) == "another\n");
  CHECK(warnings.lines.empty());
}

TEST_CASE("entries are listed with their words and clear removes nothing else") {
  TemporaryFolder folder;
  DiskCache cache(folder.path());
  cache.store(key_of(1), binary_of(1, 100), "one");
  cache.store(key_of(2), binary_of(2, 100), "two");
  mezzo::test::write_text(folder / "notes.txt", "mine");
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(folder / (key_of(2) + ".bin"), past);
  const std::vector<DiskCache::Entry> entries = cache.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key == key_of(1));
  CHECK(entries[0].manifest == "one");
  CHECK(entries[0].bytes == 100 + 32 + 3);
  CHECK(entries[1].key == key_of(2));
  CHECK(cache.clear() == 2);
  CHECK(cache.entries().empty());
  CHECK(fs::exists(folder / "notes.txt"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("files that the cache did not write are neither counted, listed, pruned nor cleared") {
  TemporaryFolder folder;
  DiskCache cache(folder.path(), 2000);
  const std::string foreign[] = {key_of(1) + ".jpg",
                                 key_of(2) + ".bin",
                                 key_of(2) + ".txt",
                                 key_of(3) + ".bin.bak",
                                 key_of(3) + ".bin.tmp-x-1",
                                 key_of(3) + ".jpg.tmp-1-1",
                                 key_of(3) + ".bin.tmp-1-1x",
                                 key_of(3),
                                 "notes.tmp-1-1"};
  const auto past = fs::file_time_type::clock::now() - std::chrono::hours(2);
  for (const std::string& name : foreign) {
    mezzo::test::write_text(folder / name, std::string(5000, 'x'));
    fs::last_write_time(folder / name, past);
  }
  // Beyond the limit by the foreign files alone: nothing is to be pruned.
  cache.store(key_of(10), binary_of(10, 100), "ten");
  cache.store(key_of(11), binary_of(11, 200), "eleven");
  REQUIRE(cache.entries().size() == 2);
  // And here by entries: the older ones go.
  fs::last_write_time(folder / (key_of(10) + ".bin"), past);
  cache.store(key_of(12), binary_of(12, 1690), "twelve");
  CHECK_FALSE(cache.find(key_of(10)).has_value());
  mezzo::test::write_text(folder / (key_of(13) + ".txt"), "words of a store that ended early");
  mezzo::test::write_text(folder / (key_of(14) + ".txt.tmp-12-3"), "half");
  CHECK(cache.clear() == 1);
  CHECK(cache.entries().empty());
  for (const std::string& name : foreign) {
    CAPTURE(name);
    CHECK(mezzo::test::read_text(folder / name) == std::string(5000, 'x'));
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) ==
        static_cast<std::ptrdiff_t>(std::size(foreign)));
}

TEST_CASE("an entry cut at any length or with any byte flipped is a miss with one warning") {
  TemporaryFolder folder;
  DiskCache cache(folder.path());
  const std::string key = key_of(3);
  const Bytes binary = binary_of(3, 40);
  cache.store(key, binary, "three");
  const std::string whole = mezzo::test::read_text(folder / (key + ".bin"));
  REQUIRE(whole.size() == 72);
  for (size_t i = 0; i < 2 * whole.size(); ++i) {
    CAPTURE(i);
    std::string damaged = whole.substr(0, i / 2);
    if (i % 2 == 1) {
      damaged = whole;
      damaged[i / 2] = static_cast<char>(damaged[i / 2] ^ 0x10);
    }
    mezzo::test::write_text(folder / (key + ".bin"), damaged);
    Warnings warnings;
    std::string reason;
    REQUIRE_FALSE(cache.find(key, &reason).has_value());
    REQUIRE(reason.starts_with("the entry was damaged: "));
    REQUIRE(warnings.lines.size() == 1);
    REQUIRE(warnings.lines[0].find(key) != std::string::npos);
    REQUIRE_FALSE(cache.find(key, &reason).has_value());
    REQUIRE(reason == "not in the disk cache");
    if (i % 16 != 0) continue;  // each store waits for the disk
    cache.store(key, binary, "three");
    REQUIRE(cache.find(key) == binary);
    REQUIRE(warnings.lines.size() == 1);
  }
}

TEST_CASE("an entry under another key's name is damaged") {
  TemporaryFolder folder;
  Warnings warnings;
  DiskCache cache(folder.path());
  cache.store(key_of(1), binary_of(1, 50), "one");
  fs::copy_file(folder / (key_of(1) + ".bin"), folder / (key_of(2) + ".bin"));
  CHECK_FALSE(cache.find(key_of(2)).has_value());
  REQUIRE(warnings.lines.size() == 1);
  CHECK(warnings.lines[0] == "the cache entry " + (folder / (key_of(2) + ".bin")).string() +
                                 " is damaged (its checksum is wrong); it is compiled again");
}

TEST_CASE("a cache path that is a file is one warning and no cache") {
  TemporaryFolder folder;
  Warnings warnings;
  mezzo::test::write_text(folder / "file", "x");
  for (const char* path : {"file", "file/below"}) {
    warnings.lines.clear();
    DiskCache cache(folder / path);
    CHECK_FALSE(cache.find(key_of(1)).has_value());
    cache.store(key_of(1), binary_of(1, 10), "one");
    cache.store(key_of(2), binary_of(2, 10), "two");
    CHECK_FALSE(cache.find(key_of(1)).has_value());
    CHECK(cache.entries().empty());
    REQUIRE(warnings.lines.size() == 1);
    CHECK(warnings.lines[0] == "kernels are not kept on disk: " + (folder / path).string() +
                                   ": Not a directory; set MEZZO_CACHE_DIR to a folder that can "
                                   "be written");
  }
  CHECK(mezzo::test::read_text(folder / "file") == "x");
}

TEST_CASE("a pipe in the place of an entry is one warning and no wait") {
  TemporaryFolder folder;
  Warnings warnings;
  const fs::path entry = folder / (key_of(1) + ".bin");
  REQUIRE(::mkfifo(entry.c_str(), 0600) == 0);
  DiskCache cache(folder.path());
  std::string reason;
  CHECK_FALSE(cache.find(key_of(1), &reason).has_value());
  CHECK(reason == entry.string() + ": cannot read: it is a pipe, not a file");
  CHECK(warnings.lines == std::vector<std::string>{"kernels are not kept on disk: " + reason +
                                                   "; set MEZZO_CACHE_DIR to a folder that can be "
                                                   "written"});
  mezzo::test::write_text(folder / (key_of(1) + ".txt"), "words");
  CHECK(cache.entries().empty());
  CHECK(cache.clear() == 0);
  CHECK(fs::exists(entry));
}

TEST_CASE("an empty folder name means no cache and no warning") {
  Warnings warnings;
  DiskCache cache("");
  std::string reason;
  cache.store(key_of(1), binary_of(1, 10), "one");
  CHECK_FALSE(cache.find(key_of(1), &reason).has_value());
  CHECK(reason == "there is no cache folder");
  CHECK(warnings.lines.empty());
}

TEST_CASE("the least recently used entries go when the folder is beyond its limit") {
  TemporaryFolder folder;
  DiskCache cache(folder.path(), 10000);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 9; ++i) {
    cache.store(key_of(i), binary_of(i, 1000), "x");
    fs::last_write_time(folder / (key_of(i) + ".bin"), now - std::chrono::minutes(60 - i));
  }
  CHECK(cache.entries().size() == 9);
  CHECK(cache.find(key_of(0)).has_value());  // used now, so that the next oldest goes
  mezzo::test::write_text(folder / (key_of(50) + ".bin.tmp-1-1"), "left by a crash");
  fs::last_write_time(folder / (key_of(50) + ".bin.tmp-1-1"), now - std::chrono::hours(2));
  cache.store(key_of(9), binary_of(9, 1000), "x");
  CHECK(cache.find(key_of(0)).has_value());
  CHECK(cache.find(key_of(9)).has_value());
  CHECK_FALSE(cache.find(key_of(1)).has_value());
  CHECK_FALSE(fs::exists(folder / (key_of(1) + ".txt")));
  CHECK_FALSE(fs::exists(folder / (key_of(50) + ".bin.tmp-1-1")));
  uint64_t total = 0;
  for (const DiskCache::Entry& entry : cache.entries()) total += entry.bytes;
  CHECK(total <= 10000);
  CHECK(total >= 7000);
}

TEST_CASE("eight processes share a folder without a false binary or a warning") {
  TemporaryFolder folder;
  constexpr int kProcesses = 8, kKeys = 12, kRounds = 8;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    // The child judges by its exit code alone and leaves no trace of doctest's.
    int wrong = 0;
    {
      Warnings warnings;
      // A limit below the whole, so that processes also prune what others read.
      DiskCache cache(folder.path(), 30000);
      for (int round = 0; round < kRounds; ++round)
        for (int i = 0; i < kKeys; ++i) {
          const int number = (i + process) % kKeys;
          const Bytes expected = binary_of(number, 3000 + static_cast<size_t>(number));
          const std::optional<Bytes> found = cache.find(key_of(number));
          if (found && *found != expected) ++wrong;
          if (!found || round % 5 == 0) cache.store(key_of(number), expected, "words");
        }
      wrong += static_cast<int>(warnings.lines.size());
    }
    ::_exit(std::min(wrong, 100));
  }
  for (pid_t child : children) {
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const auto& file : fs::directory_iterator(folder.path()))
    CHECK(file.path().string().find(".tmp-") == std::string::npos);
}

TEST_CASE("a full file system is one warning and the entry is not half there") {
  TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    return mezzo::test::skip_case("cannot mount a small tmpfs");
  {
    Warnings warnings;
    DiskCache cache(folder.path());
    cache.store(key_of(1), binary_of(1, 20000), "fits");
    cache.store(key_of(2), binary_of(2, 200000), "does not fit");
    cache.store(key_of(3), binary_of(3, 200000), "is not tried");
    CHECK(cache.find(key_of(1)) == binary_of(1, 20000));
    CHECK_FALSE(cache.find(key_of(2)).has_value());
    REQUIRE(warnings.lines.size() == 1);
    CHECK(warnings.lines[0].find((folder / (key_of(2) + ".bin")).string() +
                                 ": cannot write: No space left on device") != std::string::npos);
    for (const auto& file : fs::directory_iterator(folder.path()))
      CHECK(file.path().string().find(".tmp-") == std::string::npos);
  }
  CHECK(::umount(folder.path().c_str()) == 0);
}

TEST_CASE("a key must be 32 hexadecimal digits") {
  TemporaryFolder folder;
  DiskCache cache(folder.path());
  CHECK_THROWS_AS(cache.find("../../etc/passwd"), mezzo::InternalError);
  CHECK_THROWS_AS(cache.store(std::string(32, 'G'), {}, ""), mezzo::InternalError);
}

TEST_CASE("the default folder follows the environment") {
  std::map<std::string, std::optional<std::string>> saved;
  for (const char* name : {"MEZZO_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
    const char* value = std::getenv(name);
    saved[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  }
  setenv("MEZZO_CACHE_DIR", "/a", 1);
  setenv("XDG_CACHE_HOME", "/b", 1);
  setenv("HOME", "/c", 1);
  CHECK(mezzo::runtime::default_cache_folder() == "/a");
  unsetenv("MEZZO_CACHE_DIR");
  CHECK(mezzo::runtime::default_cache_folder() == "/b/mezzo");
  setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(mezzo::runtime::default_cache_folder() == "/c/.cache/mezzo");
  unsetenv("HOME");
  CHECK(mezzo::runtime::default_cache_folder().empty());
  for (const auto& [name, value] : saved) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }
}
