// SPDX-License-Identifier: Apache-2.0
// One table of words is what the parser reads and what its errors list.
#include <mezzo/ir/debug_options.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace mezzo::ir {
namespace {

// Who answers a dump that is no name of a pass.
struct DumpWord {
  const char* name;
  DebugArea area;
};

constexpr DumpWord kDumpWords[] = {
    {"all", DebugArea::Passes},    {"changed", DebugArea::Passes}, {"pipeline", DebugArea::Passes},
    {"cuda", DebugArea::CudaCode}, {"ptx", DebugArea::CudaCode},   {"llvm", DebugArea::CpuCode},
    {"asm", DebugArea::CpuCode},   {"plan", DebugArea::Executable}};

// `value` says what stands after `=`; null when the word stands alone.
struct Word {
  const char* name;
  const char* value;
  bool DebugOptions::* flag;
};

constexpr Word kWords[] = {
    {"dump", "NAME", nullptr},
    {"launch", nullptr, &DebugOptions::launch},
    {"time", nullptr, &DebugOptions::time},
    {"cache", nullptr, &DebugOptions::cache},
    {"numerics", nullptr, &DebugOptions::numerics},
    {"verify", "roundtrip", nullptr},
    {"skip", "PASS", nullptr},
    {"stop-after", "N", nullptr},
    {"to", "FOLDER", nullptr},
    {"locs", nullptr, &DebugOptions::locs},
};

const DumpWord* find_dump(std::string_view name) {
  return std::find_if(std::begin(kDumpWords), std::end(kDumpWords),
                      [&](const DumpWord& known) { return known.name == name; });
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

[[noreturn]] void fail(const std::string& what, const std::string& hint = "") {
  throw UserError({}, "MEZZO_DEBUG: " + what, hint);
}

const Word& find_word(std::string_view name) {
  std::vector<std::string> names, forms;
  for (const Word& word : kWords) {
    if (name == word.name) return word;
    names.emplace_back(word.name);
    forms.push_back(word.name + (word.value != nullptr ? "=" + std::string(word.value) : ""));
  }
  fail("unknown word '" + std::string(name) + "'" + did_you_mean(name, names),
       "known words: " + joined(forms));
}

// A disassembler is NVIDIA's alone, and NVRTC has none.
[[noreturn]] void fail_sass() {
  fail(
      "not supported yet: 'dump=sass'",
      "`nvdisasm` of the CUDA toolkit prints a .cubin of `mezzo build`; known dumps of code: cuda, "
      "ptx, llvm, asm");
}

std::string checked_name(std::string_view value, const char* what,
                         const std::vector<std::string>& known) {
  if (!contains(known, value))
    fail("unknown " + std::string(what) + " '" + std::string(value) + "'" +
             did_you_mean(value, known),
         "known names: " + joined(known));
  return std::string(value);
}

int checked_count(std::string_view value) {
  int count = 0;
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, count);
  if (error != std::errc() || rest != end || count < 0)
    fail("'stop-after=" + std::string(value) + "' needs a number of passes, 0 or more");
  return count;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

bool DebugOptions::dumps(std::string_view word) const { return contains(dump, word); }

bool DebugOptions::dumps_after(std::string_view pass, bool changed) const {
  return dumps("all") || (changed && dumps("changed")) || dumps(pass);
}

std::vector<std::string> DebugOptions::unserved() const {
  std::vector<std::string> texts;
  if (!to.empty() && dump.empty() && !time)
    texts.push_back("'to=" + to + "' has nothing to write: dump=NAME and time are written there");
  const bool prints_modules = std::any_of(dump.begin(), dump.end(), [](const std::string& name) {
    return find_dump(name) == std::end(kDumpWords) || name == "all" || name == "changed";
  });
  if (locs && !prints_modules)
    texts.push_back(
        "'locs' has no module to be printed in: add dump=all, dump=changed or dump= with the name "
        "of a pass; `mezzo opt --locs` prints them in its result");
  return texts;
}

bool DebugOptions::skips(std::string_view pass) const { return contains(skip, pass); }

std::vector<std::string> DebugOptions::words_outside(std::span<const DebugArea> areas) const {
  std::vector<std::string> words;
  const auto add = [&](DebugArea area, const std::string& word) {
    if (std::find(areas.begin(), areas.end(), area) == areas.end()) words.push_back(word);
  };
  for (const std::string& name : dump) {
    const DumpWord* word = find_dump(name);
    add(word == std::end(kDumpWords) ? DebugArea::Passes : word->area, "dump=" + name);
  }
  if (launch) add(DebugArea::Executable, "launch");
  if (time) add(DebugArea::Passes, "time");
  if (cache) add(DebugArea::Executable, "cache");
  if (numerics) add(DebugArea::Runs, "numerics");
  if (verify_roundtrip) add(DebugArea::Passes, "verify=roundtrip");
  for (const std::string& pass : skip) add(DebugArea::Passes, "skip=" + pass);
  if (stop_after) add(DebugArea::Passes, "stop-after=" + std::to_string(*stop_after));
  if (locs) add(DebugArea::Passes, "locs");
  return words;
}

DebugOptions parse_debug_options(std::string_view text,
                                 const std::vector<std::string>& pass_names) {
  DebugOptions options;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    if (item.empty()) continue;

    const size_t equals = item.find('=');
    const Word& word = find_word(item.substr(0, equals));
    const std::string_view name = word.name;
    if (word.value == nullptr) {
      if (equals != std::string_view::npos)
        fail("'" + std::string(item) + "' has a value, '" + word.name + "' stands alone");
      options.*word.flag = true;
      continue;
    }
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    if (value.empty())
      fail("'" + std::string(word.name) + "' needs a value, as in '" + word.name + "=" +
           word.value + "'");
    if (name == "dump") {
      if (value == "sass") fail_sass();
      std::vector<std::string> known;
      for (const DumpWord& dump : kDumpWords) known.emplace_back(dump.name);
      known.insert(known.end(), pass_names.begin(), pass_names.end());
      options.dump.push_back(checked_name(value, "dump", known));
    } else if (name == "skip") {
      options.skip.push_back(checked_name(value, "pass to skip", pass_names));
    } else if (name == "verify") {
      checked_name(value, "verification", {"roundtrip"});
      options.verify_roundtrip = true;
    } else if (name == "stop-after") {
      options.stop_after = checked_count(value);
    } else {
      options.to = value;
    }
  }
  return options;
}

const DebugOptions& debug_options_from_environment(const std::vector<std::string>& pass_names) {
  static const DebugOptions options = [&pass_names] {
    const char* text = std::getenv("MEZZO_DEBUG");
    return text != nullptr ? parse_debug_options(text, pass_names) : DebugOptions{};
  }();
  return options;
}

}  // namespace mezzo::ir
