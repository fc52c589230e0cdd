// SPDX-License-Identifier: Apache-2.0
// Pipelines as text: what reads back, what is refused and in which words.
#include <mezzo/passes/pipeline.h>

#include <mezzo/ir/error.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <passes/pass_cases.h>
#include <string>

namespace mezzo::test {

namespace {

std::string parse_error(const std::string& text) {
  return error_of<Error>([&] { passes::parse_pipeline(text); });
}

}  // namespace

TEST_CASE("a printed pipeline reads back to itself, options included") {
  std::string text = "canonicalize, loss-scale {growth = 4.0, interval = 100}, autodiff, cse, dce";
  passes::Pipeline pipeline = passes::parse_pipeline(text);
  REQUIRE(pipeline.size() == 5);
  CHECK(pipeline[1].options.get_int("interval") == 100);
  CHECK(passes::print_pipeline(pipeline) == text);
  CHECK(passes::print_pipeline(passes::parse_pipeline(" canonicalize,dce ")) ==
        "canonicalize, dce");
  CHECK(passes::parse_pipeline("").empty());
}

TEST_CASE("the pipelines of training and inference are these and fit together") {
  passes::Pipeline train = passes::pipeline_by_name("train");
  passes::Pipeline infer = passes::pipeline_by_name("infer");
  CHECK(
      passes::print_pipeline(train) ==
      "canonicalize, finite-check, loss-scale, autodiff, autocast, cast-cleanup, lint, decompose, "
      "canonicalize, constant-fold, cse, dce, recompute, fuse, round-mode, plan-kernels, "
      "plan-memory");
  CHECK(passes::print_pipeline(infer) ==
        "canonicalize, autocast, cast-cleanup, lint, decompose, canonicalize, constant-fold, cse, "
        "dce, fuse, round-mode, plan-kernels, plan-memory");
  CHECK_NOTHROW(passes::check_stages(train, ir::Stage::Traced));
  CHECK_NOTHROW(passes::check_stages(infer, ir::Stage::Traced));
  passes::set_policy(infer, "mixed_float16");
  passes::set_rounding(infer, "excess");
  passes::set_target(infer, "x86-64-v4");
  std::string text = passes::print_pipeline(infer);
  CHECK(text.find("autocast {policy = \"mixed_float16\"}") != std::string::npos);
  CHECK(text.find("round-mode {mode = \"excess\"}") != std::string::npos);
  CHECK(text.find("plan-kernels {target = \"x86-64-v4\"}") != std::string::npos);
}

TEST_CASE("an unknown pass is an error that names it and what was meant") {
  CHECK(parse_error("canonicalize, clip") ==
        "pipeline:1:15: error: unknown pass 'clip'\n"
        "canonicalize, clip\n"
        "              ^");
  CHECK(parse_error("constant-fodl") ==
        "pipeline:1:1: error: unknown pass 'constant-fodl'; did you mean 'constant-fold'?\n"
        "constant-fodl\n"
        "^");
}

TEST_CASE("an option that a pass does not take is an error that lists those it takes") {
  CHECK(parse_error("loss-scale {interva = 3}") ==
        "pipeline:1:1: error: 'loss-scale' has no option 'interva'; did you mean 'interval'?\n"
        "loss-scale {interva = 3}\n"
        "^\n"
        "note: it takes backoff, ceiling, floor, growth, interval");
  CHECK(parse_error("dce {fast}") ==
        "pipeline:1:1: error: 'dce' has no option 'fast'\n"
        "dce {fast}\n"
        "^\n"
        "note: it takes no options");
}

TEST_CASE("a pipeline with a comma too much or too few is refused at its place") {
  CHECK(parse_error("cse dce").starts_with("pipeline:1:5: error: expected ',' between passes"));
  CHECK(parse_error("cse,").starts_with("pipeline:1:5: error: expected the name of a pass"));
  CHECK(parse_error("cse, , dce").starts_with("pipeline:1:6: error: expected the name of a pass"));
}

TEST_CASE("a pipeline that does not fit together is refused with the pass and both stages") {
  passes::Pipeline pipeline = passes::parse_pipeline("canonicalize, decompose, autodiff");
  CHECK(
      error_of<Error>([&] { passes::check_stages(pipeline, ir::Stage::Traced); }) ==
      "error: the pipeline does not fit together: 'autodiff' accepts a module up to stage traced, "
      "but 'decompose' gives stage primitive\n"
      "note: move 'autodiff' before 'decompose'");
  CHECK(
      error_of<Error>(
          [&] { passes::check_stages(passes::parse_pipeline("autodiff"), ir::Stage::Typed); }) ==
      "error: the pipeline does not fit together: 'autodiff' accepts a module up to stage traced, "
      "but it has stage typed\n"
      "note: the module is past 'autodiff'; leave it out");
  CHECK_NOTHROW(
      passes::check_stages(passes::parse_pipeline("autodiff, decompose, cse"), ir::Stage::Traced));
  for (const char* text :
       {"decompose, fuse, fuse", "canonicalize, decompose, fuse, canonicalize"}) {
    const passes::Pipeline twice = passes::parse_pipeline(text);
    const std::string name = twice.back().pass->name;
    CHECK(error_of<Error>([&] { passes::check_stages(twice, ir::Stage::Traced); }) ==
          "error: the pipeline does not fit together: '" + name +
              "' accepts a module up to stage primitive, but 'fuse' gives stage fused\n"
              "note: '" +
              name + "' is listed twice; leave the second one out");
  }
}

TEST_CASE("an option without its pass is refused, one with it is filled in") {
  passes::Pipeline pipeline = passes::parse_pipeline("cse, loss-scale");
  passes::set_option(pipeline, "loss-scale", "interval", ir::Attr(7));
  CHECK(passes::print_pipeline(pipeline) == "cse, loss-scale {interval = 7}");
  CHECK(error_of<Error>([&] { passes::set_policy(pipeline, "float32"); }) ==
        "error: option 'policy' has no pass to go to: 'autocast' is not in the pipeline\n"
        "note: the pipeline is 'cse, loss-scale {interval = 7}'");
}

TEST_CASE("the loss is scaled by default exactly when the policy computes in f16") {
  const auto scales = [](passes::Pipeline pipeline, const std::string& policy) {
    passes::set_policy(pipeline, policy);
    return passes::print_pipeline(pipeline).find("loss-scale") != std::string::npos;
  };
  const passes::Pipeline train = passes::pipeline_by_name("train");
  CHECK(scales(train, "mixed_float16"));
  CHECK(scales(train, "float16"));
  for (const char* policy : {"float32", "mixed_bfloat16", "bfloat16"}) {
    CAPTURE(policy);
    CHECK_FALSE(scales(train, policy));
    // Who asks for it gets it: by an option, or by name in a text.
    passes::Pipeline asked = train;
    passes::set_option(asked, "loss-scale", "interval", int64_t{100});
    CHECK(scales(asked, policy));
    CHECK(scales(passes::parse_pipeline(passes::print_pipeline(train)), policy));
  }
}

TEST_CASE("an unknown pipeline is an error that names the known ones") {
  CHECK(error_of<Error>([] { passes::pipeline_by_name("trian"); }) ==
        "error: unknown pipeline 'trian'; did you mean 'train'?\n"
        "note: pipelines are train and infer; --passes takes a list of passes");
}

TEST_CASE("every pass has a summary, and its options are known by name") {
  for (const passes::PassInfo& pass : passes::all_passes()) {
    CHECK(passes::find_pass(pass.name) == &pass);
    CHECK(std::string(pass.summary).size() > 10);
  }
  CHECK(passes::pass_options(*passes::find_pass("loss-scale")).size() == 5);
  CHECK(passes::find_pass("clip") == nullptr);
}

TEST_CASE("an option of the wrong kind is answered with both kinds") {
  for (const auto& [pipeline, text] :
       {std::pair("round-mode {mode = 5}", "option 'mode' of 'round-mode' must be a string, not a"),
        std::pair("autocast {policy = 5}", "option 'policy' of 'autocast' must be a string, not a"),
        std::pair("fuse {unfused = 1}", "option 'unfused' of 'fuse' must be true or false, not a"),
        std::pair("plan-kernels {target = 5}",
                  "option 'target' of 'plan-kernels' must be a string, not a number"),
        std::pair("loss-scale {growth = true}",
                  "option 'growth' of 'loss-scale' must be a number, not true or false")})
    CHECK_THROWS_WITH_AS(passes::parse_pipeline(pipeline), doctest::Contains(text), ParseError);
}

TEST_CASE("round-mode refuses what is not fused and a second mode") {
  const std::string text =
      "module @m { func @f(%x: tensor<4xf16>) -> tensor<4xf16> { %y = relu %x : tensor<4xf16> "
      "return %y : tensor<4xf16> } }";
  CHECK_THROWS_WITH_AS(after(text, "decompose, round-mode, fuse"),
                       doctest::Contains("nothing is fused yet"), UserError);
  CHECK_THROWS_WITH_AS(
      after(text, "decompose, fuse, round-mode, round-mode {mode = \"as-written\"}"),
      doctest::Contains("the module is rounded \"excess\", not \"as-written\""), UserError);
}

}  // namespace mezzo::test
