// SPDX-License-Identifier: Apache-2.0
// The dumps of the demo's training step: each reads back to its own text, and `mezzo opt` on the
// traced module repeats them byte for byte.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/mezzo.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/runtime/compiler.h>

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <tool/command.h>
#include <train/demo_network.h>

using namespace mezzo;
using namespace mezzo::test;

namespace {

/// A trainer compiled for the demo's batch with all its dumps, by file name.
struct Dumped {
  explicit Dumped(const Policy& policy)
      : trainer(DemoNetwork(), losses::cross_entropy, optim::Adam{.learning_rate = 1e-3},
                {.policy = policy,
                 .batch = kDemoBatch,
                 .debug = {.dump = {"all", "pipeline"}, .to = folder.path().string()}}) {
    trainer.compile(demo_batch());
    files = read(folder.path());
  }

  static std::map<std::string, std::string> read(const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.is_regular_file())
        files[entry.path().filename().string()] = file_text(entry.path());
    return files;
  }

  TempDir folder;
  Trainer trainer;
  std::map<std::string, std::string> files;
};

/// Without the first line, a dump's banner.
std::string body(const std::string& dump) {
  REQUIRE(dump.starts_with("// -----// IR after "));
  return dump.substr(dump.find('\n') + 1);
}

const Policy kPolicies[] = {Policy::float32(), Policy::mixed_float16(), Policy::mixed_bfloat16()};

}  // namespace

TEST_CASE("every dump of the demo's step at every stage reads back to its own text") {
  for (const Policy& policy : kPolicies) {
    CAPTURE(policy.name());
    Dumped dumped(policy);
    std::string traced = dumped.trainer.ir();
    CHECK(ir::print(*ir::parse(traced)) == traced);
    std::set<std::string> stages;
    // Nor has a stage a part that its text does not show: the hashes are the same too.
    passes::ManagerOptions options;
    options.debug.verify_roundtrip = true;
    passes::PassContext context;
    context.target = codegen::native_target();
    auto again = ir::parse(traced);
    const std::string pipeline = dumped.trainer.compile_report().pipeline;
    CHECK_NOTHROW(passes::run_pipeline(*again, passes::parse_pipeline(pipeline), options, context));
    for (const auto& [name, text] : dumped.files) {
      if (!name.ends_with(".mz")) continue;
      CAPTURE(name);
      auto module = ir::parse(text, name);
      // The banner is a comment, so a dump is an input as it stands.
      CHECK(ir::print(*module) == body(text));
      stages.insert(ir::to_string(module->stage()));
    }
    CHECK(stages == std::set<std::string>{"traced", "differentiated", "typed", "primitive", "fused",
                                          "planned"});
    // Without a loss scale one pass less.
    size_t passes = policy.needs_loss_scale() ? 17 : 16;
    CHECK(dumped.files.size() == passes + 1);
  }
}

TEST_CASE("`mezzo opt` on the traced module repeats the trainer's dumps byte for byte") {
  for (const Policy& policy : kPolicies) {
    CAPTURE(policy.name());
    Dumped dumped(policy);
    std::string pipeline = dumped.trainer.compile_report().pipeline;
    CHECK(dumped.files["pipeline.txt"] == "// pipeline: " + pipeline + "\n");

    Tool tool;
    tool.write("traced.mz", dumped.trainer.ir());
    tool.environment = "MEZZO_DEBUG=dump=all,dump=pipeline,to=dumps";
    Finished run = tool("opt traced.mz --passes='" + pipeline + "'");
    REQUIRE_MESSAGE(run.status == 0, run.err);
    auto again = Dumped::read(tool.path("dumps"));
    CHECK(again.size() == dumped.files.size());
    for (const auto& [name, text] : dumped.files) CHECK_MESSAGE(again[name] == text, name);
    std::string last = policy.needs_loss_scale() ? "17-plan-memory.mz" : "16-plan-memory.mz";
    CHECK(run.out == body(dumped.files[last]));

    // A pipeline that stops early prints the dump at which it stops.
    tool.environment = "MEZZO_DEBUG=stop-after=4,dump=all,to=four";
    run = tool("opt traced.mz --passes='" + pipeline + "'");
    REQUIRE_MESSAGE(run.status == 0, run.err);
    CHECK(Dumped::read(tool.path("four")).size() == 4);
    CHECK(run.out == body(std::next(dumped.files.begin(), 3)->second));
  }
}

TEST_CASE("a second compilation writes its dumps beside the first, not over it") {
  Dumped dumped(Policy::mixed_float16());
  dumped.trainer.evaluate(demo_batch());
  auto files = Dumped::read(dumped.folder / "2");
  CHECK(files.count("13-plan-memory.mz") == 1);
  CHECK(files["02-autocast.mz"].find("@step") == std::string::npos);
  CHECK(file_text(dumped.folder / "01-canonicalize.mz") == dumped.files["01-canonicalize.mz"]);
}
