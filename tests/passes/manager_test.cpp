// SPDX-License-Identifier: Apache-2.0
// The pass manager: dumps, skipping, stopping, times, and what happens when a pass is at fault.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <support/temp_dir.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <passes/pass_cases.h>
#include <utility>
#include <vector>

namespace mezzo::test {

namespace {

constexpr const char* kText = R"(module @m attributes {stage = "traced"} {
  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = neg %x : tensor<4xf32>
    %1 = neg %0 : tensor<4xf32>
    %2 = mean %1 {axes = [0], keepdims = true} : tensor<4xf32> -> tensor<1xf32>
    %3 = sub %x, %2 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
}
)";

using Dumps = std::vector<std::pair<std::string, std::string>>;

Dumps dumps_of(const std::string& pipeline, ir::DebugOptions debug) {
  Dumps dumps;
  std::unique_ptr<ir::Module> module = ir::parse(kText);
  passes::ManagerOptions options;
  options.debug = std::move(debug);
  options.sink = [&](std::string_view file, std::string_view text) {
    dumps.emplace_back(file, text);
  };
  passes::PassContext context;
  passes::run_pipeline(*module, passes::parse_pipeline(pipeline), options, context);
  return dumps;
}

/// Faulty passes.
bool lies(ir::Module& module, passes::PassContext&) {
  module.attrs().set("policy", "float32");
  return false;
}
bool breaks(ir::Module& module, passes::PassContext&) {
  // The reader of a value comes to stand before its maker.
  ir::Region& body = module.functions()[0]->body();
  body.terminator()->previous()->move_before(body.front());
  return true;
}
bool throws(ir::Module&, passes::PassContext&) { throw InternalError("no such thing"); }
bool refuses(ir::Module&, passes::PassContext&) { throw UserError({}, "this cannot be"); }

std::string error_with(passes::PassFunction function, const TempDir& folder, bool verify = true) {
  passes::PassInfo info{"faulty", "a pass that is at fault", function, ir::Stage::Planned, {}};
  passes::Pipeline pipeline = passes::parse_pipeline("canonicalize, decompose");
  pipeline.push_back({&info, {}});
  std::unique_ptr<ir::Module> module = ir::parse(kText);
  passes::ManagerOptions options;
  options.verify = verify;
  options.debug.to = folder.path().string();
  passes::PassContext context;
  try {
    passes::run_pipeline(*module, pipeline, options, context);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a dump has a banner without times and reads back as a module") {
  Dumps dumps = dumps_of("canonicalize, cse, decompose", {.dump = {"all"}});
  REQUIRE(dumps.size() == 3);
  CHECK(dumps[0].first == "01-canonicalize.mz");
  CHECK(
      dumps[0].second.starts_with("// -----// IR after canonicalize (1/3), changed //----- //\n"));
  CHECK(dumps[1].second.starts_with("// -----// IR after cse (2/3), unchanged //----- //\n"));
  CHECK(dumps[2].first == "03-decompose.mz");
  for (const auto& [file, text] : dumps) {
    std::string module = text.substr(text.find('\n') + 1);
    CHECK(ir::print(*ir::parse(text)) == module);
  }
  CHECK(dumps_of("canonicalize, cse, decompose", {.dump = {"changed"}}).size() == 2);
  CHECK(dumps_of("canonicalize, cse, decompose", {.dump = {"cse"}}).size() == 1);
  CHECK(dumps_of("canonicalize, cse", {}).empty());
  CHECK(dumps_of("canonicalize, cse", {.dump = {"all"}}) ==
        dumps_of("canonicalize, cse", {.dump = {"all"}}));
}

TEST_CASE("dumps go to files of the folder that is named") {
  TempDir folder;
  std::unique_ptr<ir::Module> module = ir::parse(kText);
  passes::ManagerOptions options;
  options.debug.dump = {"cse"};
  options.debug.to = (folder / "dumps").string();
  passes::PassContext context;
  passes::run_pipeline(*module, passes::parse_pipeline("canonicalize, cse"), options, context);
  CHECK(std::filesystem::exists(folder / "dumps" / "02-cse.mz"));
  CHECK_FALSE(std::filesystem::exists(folder / "dumps" / "01-canonicalize.mz"));
}

TEST_CASE("a pass is left out by name, and a pipeline ends after as many passes as asked") {
  std::unique_ptr<ir::Module> module = ir::parse(kText);
  passes::ManagerOptions options;
  options.debug.skip = {"canonicalize"};
  options.debug.stop_after = 2;
  passes::PassContext context;
  passes::PipelineReport report = passes::run_pipeline(
      *module, passes::parse_pipeline("canonicalize, cse, decompose"), options, context);
  REQUIRE(report.steps.size() == 2);
  CHECK(report.steps[0].skipped);
  CHECK_FALSE(report.steps[1].skipped);
  CHECK_FALSE(report.steps[1].changed);
  CHECK(ir::print(*module) == kText);
}

TEST_CASE("times list every pass, what it did, and the sum") {
  Dumps dumps = dumps_of("canonicalize, cse", {.time = true});
  REQUIRE(dumps.size() == 1);
  CHECK(dumps[0].second.find(" ms  canonicalize, changed\n") != std::string::npos);
  CHECK(dumps[0].second.find(" ms  cse, unchanged\n") != std::string::npos);
  CHECK(dumps[0].second.ends_with(" ms  2 passes\n"));
}

TEST_CASE("a module past a pass's stage is refused before anything runs") {
  std::unique_ptr<ir::Module> module = ir::parse(kText);
  passes::PassContext context;
  CHECK_THROWS_AS(
      passes::run_pipeline(*module, passes::parse_pipeline("decompose, autodiff"), {}, context),
      UserError);
  CHECK(ir::print(*module) == kText);
}

TEST_CASE("a fault of a pass is an internal error with a reproducer that repeats it") {
  TempDir folder;
  std::string error = error_with(throws, folder);
  CHECK(error.starts_with("internal error in pass 'faulty': no such thing ("));
  size_t start = error.find('`' + std::string("mezzo opt ")), end = error.rfind('`');
  REQUIRE(start != std::string::npos);
  std::string path = error.substr(start + 11, end - start - 11);
  CHECK(path.find("mezzo-repro-") != std::string::npos);
  std::unique_ptr<ir::Module> repro = ir::parse(read_file(path), path);
  CHECK(repro->stage() == ir::Stage::Primitive);
  CHECK(repro->attrs().get_string("pipeline") == "faulty");
  repro->attrs().erase("pipeline");
  CHECK(ir::print(*repro) == after(kText, "canonicalize, decompose"));
}

TEST_CASE("a pass that lies about having changed nothing is found") {
  TempDir folder;
  CHECK(error_with(lies, folder)
            .starts_with("internal error after pass 'faulty': the pass says that it changed "
                         "nothing, but the module differs\nnote: `mezzo opt "));
}

TEST_CASE("a pass that breaks the module is named, with verification after each pass or without") {
  TempDir folder;
  CHECK(error_with(breaks, folder).starts_with("internal error after pass 'faulty': "));
  CHECK(error_with(breaks, folder, false).starts_with("internal error after pass 'faulty': "));
}

TEST_CASE("an error of the user passes through as it is") {
  TempDir folder;
  CHECK(error_with(refuses, folder) == "error: this cannot be");
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace mezzo::test
