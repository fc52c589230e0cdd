// SPDX-License-Identifier: Apache-2.0
// A function of a file, ready to run on one of the devices.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/host_array.h>
#include <mezzo/runtime/tool/commands.h>

#include <memory>
#include <vector>

namespace mezzo::tool {

class Program {
 public:
  virtual ~Program() = default;
  /// As it runs: passes may have added parameters and results.
  virtual const ir::Function& function() const = 0;
  /// Fills `results`, which have the types of the function's; inputs that are updated change. True
  /// when an index or label was out of range.
  virtual bool run(std::vector<runtime::HostArray>& inputs,
                   std::vector<runtime::HostArray>& results) = 0;
};

/// Reads the file and compiles or prepares the function; throws UserError for an unknown device,
/// DeviceError for one that is not there.
std::unique_ptr<Program> load_program(const RunArguments& arguments);

/// The function of that name, or the only one when `name` is empty; throws UserError.
ir::Function& chosen_function(ir::Module& module, const std::string& name);

}  // namespace mezzo::tool
