// SPDX-License-Identifier: Apache-2.0
// `mezzo opt --explain=%v`: why a value has its element type, and which passes changed it.
#pragma once

#include <mezzo/ir/graph.h>

#include <memory>
#include <string>
#include <vector>

namespace mezzo::tool {

/// A module as it stood before and after each pass.
class History {
 public:
  /// `pass` is "" for the module as read.
  void add(const std::string& pass, const ir::Module& module);

  /// Comment lines on the value `name` (`%v`) of every function that has it. The name is looked up
  /// in the last module, then in the one as read. The lines are: the rule of the op table that
  /// gives the type under the policy, for the value and for each value that it depends on, with
  /// source lines; then each pass after which the values of that source line stood differently.
  /// Throws UserError where no value has that name.
  std::string explain(const std::string& name) const;

 private:
  struct Entry {
    std::string pass;
    std::unique_ptr<ir::Module> module;
  };
  std::vector<Entry> entries_;
};

}  // namespace mezzo::tool
