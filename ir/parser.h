// SPDX-License-Identifier: Apache-2.0
// The IR's text read back into a module. Every op is made through the builder, so that the text
// cannot say what the shape rules forbid. Functions may stand in any order.
#pragma once

#include <mezzo/ir/graph.h>

#include <functional>
#include <memory>
#include <string_view>

namespace mezzo::ir {

struct ParseOptions {
  /// Supplies the data of `resource("name")` of the given type; its UserError becomes a ParseError
  /// at the constant. Where it is empty, resources stay without data.
  std::function<std::shared_ptr<const ResourceData>(std::string_view name, const Type& type)>
      resource;
};

/// Throws ParseError with the line and a caret. Ops get their `loc(...)` as location; in a text
/// without any, op and line of `name` are the location.
std::unique_ptr<Module> parse(std::string_view text, std::string_view name = "<text>",
                              const ParseOptions& options = {});

}  // namespace mezzo::ir
