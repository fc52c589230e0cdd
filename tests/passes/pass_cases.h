// SPDX-License-Identifier: Apache-2.0
// Running passes over texts, for the tests of this folder.
#pragma once

#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass_manager.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace mezzo::test {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs a pipeline, verified and read back after every pass.
inline passes::PipelineReport run_passes(ir::Module& module, const std::string& pipeline) {
  passes::ManagerOptions options;
  options.verify = true;
  options.debug.verify_roundtrip = true;
  passes::PassContext context;
  return passes::run_pipeline(module, passes::parse_pipeline(pipeline), options, context);
}

/// The module that a text becomes.
inline std::string after(const std::string& text, const std::string& pipeline) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  run_passes(*module, pipeline);
  return ir::print(*module);
}

}  // namespace mezzo::test
