// SPDX-License-Identifier: Apache-2.0
// The IR as text: one notation at every stage, which ir/parser.h reads back. Equal modules give
// equal texts; nothing depends on the locale.
#pragma once

#include <mezzo/ir/graph.h>

#include <string>
#include <unordered_map>

namespace mezzo::ir {

struct PrintOptions {
  /// Adds `loc("net.cpp":12 from relu)` to ops whose place is known.
  bool locations = false;
};

std::string print(const Module& module, PrintOptions options = {});
std::string print(const Function& function, PrintOptions options = {});
/// One op (a kernel with its body) as it stands in its function, without a line break at the end.
std::string print(const Op& op, PrintOptions options = {});
class ValueNames;
/// The same by the names of its function, for who prints many ops of a large one.
std::string print(const Op& op, const ValueNames& names, PrintOptions options = {});
/// `{axis = 1, keepdims = true}`, as options of passes are written; empty for no attributes.
std::string print(const Attrs& attrs);

/// The names that the values of a function have in the text, with `%`. A user's name is kept where
/// it is the first of that spelling in its region, and gets a suffix elsewhere; values without one
/// are numbered through the function.
class ValueNames {
 public:
  explicit ValueNames(const Function& function);
  /// `%h`; `%<gone>` for a value that is not in the function any more.
  const std::string& operator()(const ValueDef* value) const;
  const std::string& operator()(Value value) const { return (*this)(value.def()); }
  /// The value of that name (with `%`) outside kernel bodies, or an empty one.
  Value find(std::string_view name) const;

 private:
  std::unordered_map<const ValueDef*, std::string> names_;
  std::unordered_map<std::string, Value> outer_;
};

}  // namespace mezzo::ir
