// SPDX-License-Identifier: Apache-2.0
// Plain-typed access to what LLVM knows, so that no other folder sees an LLVM header: facts of the
// host machine and the version of the code generator.
#pragma once

#include <mezzo/ir/target.h>

#include <string>

namespace mezzo::codegen {

/// The machine that this process runs on, under the name `host`; asked once, equal on every call.
ir::Target native_target();

/// `target_by_name`, except that `native` gives `native_target()`; throws UserError naming the
/// known ones.
ir::Target resolve_target(const std::string& name);

/// Version of the linked LLVM, `19.1.7`.
std::string llvm_version();

}  // namespace mezzo::codegen
