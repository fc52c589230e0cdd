// SPDX-License-Identifier: Apache-2.0
// Pipelines as text: `canonicalize, loss-scale {interval = 2000}, autodiff`. Options stand in
// attribute notation and belong to the text, so that a printed pipeline says all that was done.
#pragma once

#include <mezzo/passes/pass.h>

#include <string>
#include <string_view>
#include <vector>

namespace mezzo::passes {

struct PipelineStep {
  const PassInfo* pass = nullptr;
  ir::Attrs options;
  /// Nobody asked for it by name or option: a policy that does not scale the loss leaves it out.
  bool if_policy_scales = false;
  bool operator==(const PipelineStep& other) const {
    return pass == other.pass && options == other.options;
  }
};

using Pipeline = std::vector<PipelineStep>;

/// Throws ParseError naming the unknown pass or option; `name` is shown as the place of the text.
/// An empty text is an empty pipeline.
Pipeline parse_pipeline(std::string_view text, std::string_view name = "pipeline");
/// The text that reads back to the same pipeline.
std::string print_pipeline(const Pipeline& pipeline);

/// `train` and `infer`; throws UserError for any other name.
Pipeline pipeline_by_name(std::string_view name);

/// Sets option `key` in every run of the pass `pass`; throws UserError when the pipeline has none.
void set_option(Pipeline& pipeline, std::string_view pass, std::string_view key,
                const ir::Attr& value);
/// What `--policy`, `--rounding` and `--target` fill in: `autocast {policy = ...}`,
/// `round-mode {mode = ...}`, `plan-kernels {target = ...}`. A policy that does not scale the loss
/// takes `loss-scale` out of `train`, unless it has options.
void set_policy(Pipeline& pipeline, const std::string& policy);
void set_rounding(Pipeline& pipeline, const std::string& rounding);
void set_target(Pipeline& pipeline, const std::string& target);

/// Throws UserError naming the pass and both stages when a pass stands where its stage is over.
/// `start` is the stage of the module before the first step.
void check_stages(const Pipeline& pipeline, ir::Stage start);

}  // namespace mezzo::passes
