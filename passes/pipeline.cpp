// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/pipeline.h>

#include <mezzo/ir/attr_parser.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/policy.h>

#include <algorithm>

namespace mezzo::passes {

namespace {

using ir::Token;
using ir::TokenKind;

constexpr std::string_view kTrain =
    "canonicalize, finite-check, loss-scale, autodiff, autocast, cast-cleanup, lint, decompose, "
    "canonicalize, constant-fold, cse, dce, recompute, fuse, round-mode, plan-kernels, plan-memory";
constexpr std::string_view kInfer =
    "canonicalize, autocast, cast-cleanup, lint, decompose, canonicalize, constant-fold, cse, dce, "
    "fuse, round-mode, plan-kernels, plan-memory";

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// Words joined by minus signs without space between: the lexer's words hold none.
Token take_pass_name(ir::TokenStream& stream) {
  Token name = stream.expect(TokenKind::Word, "the name of a pass");
  auto end = [&] { return name.text.data() + name.text.size(); };
  while (stream.at(TokenKind::Minus) && stream.peek().text.data() == end()) {
    Token minus = stream.take();
    if (!stream.at(TokenKind::Word) || stream.peek().text.data() != minus.text.data() + 1)
      stream.fail(minus, "expected the rest of a pass name after '-'");
    Token rest = stream.take();
    name.text = {name.text.data(), name.text.size() + 1 + rest.text.size()};
  }
  return name;
}

const char* kind_text(OptionKind kind) {
  switch (kind) {
    case OptionKind::String:
      return "a string";
    case OptionKind::Number:
      return "a number";
    case OptionKind::Bool:
      return "true or false";
  }
  return "";
}

const char* kind_text(const ir::Attr& value) {
  if (value.is<std::string>()) return "a string";
  if (value.is<int64_t>() || value.is<double>() || value.is<ir::Bits>()) return "a number";
  if (value.is<bool>()) return "true or false";
  if (value.is<ir::AttrList>()) return "a list";
  if (value.is<ir::DType>()) return "an element type";
  return "a reference";
}

void check_options(const ir::TokenStream& stream, const Token& place, const PipelineStep& step) {
  std::vector<std::string> known = pass_options(*step.pass);
  for (const auto& [key, value] : step.options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) {
      const char* wanted = kind_text(option_kind(*step.pass, key));
      const char* got = kind_text(value);
      if (std::string_view(wanted) != got)
        stream.fail(place, std::string("option '") + key + "' of '" + step.pass->name +
                               "' must be " + wanted + ", not " + got + ": " +
                               ir::print(ir::Attrs{{key, value}}));
      continue;
    }
    stream.fail(place,
                std::string("'") + step.pass->name + "' has no option '" + key + "'" +
                    ir::did_you_mean(key, known),
                known.empty() ? "it takes no options" : "it takes " + joined(known));
  }
}

}  // namespace

Pipeline parse_pipeline(std::string_view text, std::string_view name) {
  Pipeline pipeline;
  ir::TokenStream stream(text, name);
  while (!stream.at(TokenKind::End)) {
    Token word = take_pass_name(stream);
    PipelineStep step;
    step.pass = find_pass(word.text);
    if (!step.pass)
      stream.fail(word, "unknown pass '" + std::string(word.text) + "'" +
                            ir::did_you_mean(word.text, pass_names()));
    if (stream.at(TokenKind::LeftBrace)) step.options = ir::parse_attrs(stream, {});
    check_options(stream, word, step);
    pipeline.push_back(std::move(step));
    if (stream.accept(TokenKind::Comma)) {
      if (stream.at(TokenKind::End)) stream.fail_expected("the name of a pass");
    } else if (!stream.at(TokenKind::End)) {
      stream.fail_expected("',' between passes");
    }
  }
  return pipeline;
}

std::string print_pipeline(const Pipeline& pipeline) {
  std::string out;
  for (const PipelineStep& step : pipeline) {
    if (!out.empty()) out += ", ";
    out += step.pass->name;
    if (!step.options.empty()) out += " " + ir::print(step.options);
  }
  return out;
}

Pipeline pipeline_by_name(std::string_view name) {
  if (name == "train") {
    Pipeline pipeline = parse_pipeline(kTrain);
    for (PipelineStep& step : pipeline)
      step.if_policy_scales = step.pass->name == std::string_view("loss-scale");
    return pipeline;
  }
  if (name == "infer") return parse_pipeline(kInfer);
  throw UserError(
      {},
      "unknown pipeline '" + std::string(name) + "'" + ir::did_you_mean(name, {"train", "infer"}),
      "pipelines are train and infer; --passes takes a list of passes");
}

void set_option(Pipeline& pipeline, std::string_view pass, std::string_view key,
                const ir::Attr& value) {
  bool found = false;
  for (PipelineStep& step : pipeline) {
    if (pass != step.pass->name) continue;
    step.options.set(key, value);
    step.if_policy_scales = false;
    found = true;
  }
  if (!found && pipeline.empty())
    throw UserError({},
                    "option '" + std::string(key) + "' has no pass to go to: there are no passes",
                    "`--pipeline=train` and `--pipeline=infer` have '" + std::string(pass) +
                        "', --passes takes a list");
  if (!found)
    throw UserError({},
                    "option '" + std::string(key) + "' has no pass to go to: '" +
                        std::string(pass) + "' is not in the pipeline",
                    "the pipeline is '" + print_pipeline(pipeline) + "'");
}

void set_policy(Pipeline& pipeline, const std::string& policy) {
  set_option(pipeline, "autocast", "policy", policy);
  if (!policy_by_name(policy).scales_loss())
    std::erase_if(pipeline, [](const PipelineStep& step) { return step.if_policy_scales; });
}
void set_rounding(Pipeline& pipeline, const std::string& rounding) {
  check_rounding(rounding);
  set_option(pipeline, "round-mode", "mode", rounding);
}
void set_target(Pipeline& pipeline, const std::string& target) {
  set_option(pipeline, "plan-kernels", "target", target);
}

void check_stages(const Pipeline& pipeline, ir::Stage start) {
  ir::Stage stage = start;
  const PassInfo* giver = nullptr;
  for (const PipelineStep& step : pipeline) {
    const PassInfo& pass = *step.pass;
    if (stage > pass.latest) {
      const bool twice = std::any_of(pipeline.data(), &step,
                                     [&](const PipelineStep& each) { return each.pass == &pass; });
      std::string from =
          giver ? std::string("'") + giver->name + "' gives stage " : "it has stage ";
      std::string hint = std::string("the module is past '") + pass.name + "'; leave it out";
      if (giver) hint = std::string("move '") + pass.name + "' before '" + giver->name + "'";
      if (twice)
        hint = std::string("'") + pass.name + "' is listed twice; leave the second one out";
      throw UserError({},
                      std::string("the pipeline does not fit together: '") + pass.name +
                          "' accepts a module up to stage " + to_string(pass.latest) + ", but " +
                          from + to_string(stage),
                      hint);
    }
    if (pass.gives && *pass.gives > stage) {
      stage = *pass.gives;
      giver = &pass;
    }
  }
}

}  // namespace mezzo::passes
