// SPDX-License-Identifier: Apache-2.0
// A function of a file, ready to run on one of the devices.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/program.h>
#include <mezzo/runtime/tool/commands.h>

#include <memory>

namespace mezzo::tool {

/// Reads the file and compiles or prepares the function; throws UserError for an unknown device,
/// DeviceError for one that is not there.
std::unique_ptr<runtime::Program> load_program(const RunArguments& arguments);

/// The function of that name, or the only one when `name` is empty; throws UserError.
ir::Function& chosen_function(ir::Module& module, const std::string& name);

}  // namespace mezzo::tool
