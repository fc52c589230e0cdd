// SPDX-License-Identifier: Apache-2.0
// Runs tests/passes/*.mz: a line `// PASSES: a, b` says what to run, modules are separated by lines
// `// -----`, CHECK lines in each of them are matched against the findings, as a user sees them,
// and what that module became. The example at the top of a pass's own file is run too and must give
// exactly the text that stands there.
#include <support/check_text.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <passes/pass_cases.h>
#include <sstream>
#include <vector>

namespace mezzo::test {

namespace {

struct CaseFile {
  std::string passes;
  std::vector<std::string> modules;
};

CaseFile read_cases(const std::string& path) {
  CaseFile file;
  file.modules.emplace_back();
  std::istringstream lines(read_file(path));
  constexpr std::string_view kPasses = "// PASSES: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kPasses))
      file.passes = line.substr(kPasses.size());
    else if (line == "// -----")
      file.modules.emplace_back();
    else
      file.modules.back() += line + "\n";
  }
  return file;
}

/// What the passes found, a warning and its note a finding, and then the module.
std::string told_and_made(const std::string& text, const std::string& pipeline) {
  std::unique_ptr<ir::Module> module = ir::parse(text, "case.mz");
  std::string out;
  for (const passes::Finding& finding : run_passes(*module, pipeline).findings)
    out += to_string(finding) + "\n";
  return out + ir::print(*module);
}

/// The lines of the comment block that follows `// TITLE` up to one that is not indented by two
/// spaces.
std::string example(const std::string& source, const std::string& title) {
  std::istringstream lines(source);
  std::string line, out;
  while (std::getline(lines, line) && line != "// " + title) {
  }
  while (std::getline(lines, line) && line.starts_with("//   ")) out += line.substr(3) + "\n";
  return out;
}

}  // namespace

TEST_CASE("every pass does to the modules of its file what their CHECK lines say") {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/passes"))
    if (entry.path().extension() == ".mz") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  REQUIRE(paths.size() >= 5);
  for (const std::string& path : paths) {
    CaseFile file = read_cases(path);
    REQUIRE_MESSAGE(!file.passes.empty(), path << " has no line '// PASSES:'");
    for (size_t i = 0; i < file.modules.size(); ++i) {
      INFO(path << ", module " << i + 1);
      std::string out;
      REQUIRE_NOTHROW(out = told_and_made(file.modules[i], file.passes));
      std::string failure = check_text(out, file.modules[i]);
      CHECK_MESSAGE(failure.empty(), failure);
    }
  }
}

TEST_CASE("the example at the top of a pass is what the pass does") {
  for (const char* name : {"canonicalize", "constant-fold", "cse", "dce", "decompose"}) {
    std::string file = name;
    std::replace(file.begin(), file.end(), '-', '_');
    std::string source = read_file("passes/" + file + ".cpp");
    INFO(file);
    std::string before = example(source, "before:"), wanted = example(source, "after:");
    REQUIRE(!before.empty());
    REQUIRE(!wanted.empty());
    std::string stage = std::string(name) == "decompose" ? " attributes {stage = \"primitive\"}"
                                                         : " attributes {stage = \"traced\"}";
    CHECK(after("module @m {\n" + before + "}\n", name) ==
          "module @m" + stage + " {\n" + wanted + "}\n");
  }
}

TEST_CASE("a second canonicalize, constant-fold, cse or dce finds nothing more to do") {
  for (const char* name : {"canonicalize", "constant-fold", "cse", "dce"}) {
    std::string file = name;
    std::replace(file.begin(), file.end(), '-', '_');
    for (const std::string& text : read_cases("tests/passes/" + file + ".mz").modules) {
      std::unique_ptr<ir::Module> module = ir::parse(text);
      run_passes(*module, name);
      CHECK_FALSE(run_passes(*module, name).steps[0].changed);
    }
  }
}

}  // namespace mezzo::test
