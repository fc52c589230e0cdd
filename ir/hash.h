// SPDX-License-Identifier: Apache-2.0
// Structural hashes of the IR. Names of values, locations and origins never count; the names of
// {param} and {state} parameters do, since they are a function's interface.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/ir/hash128.h>

namespace mezzo::ir {

/// All values, types, attributes, plans, functions and the stage: equal digests, equal modules.
Digest structural_hash(const Module& module);
Digest structural_hash(const Function& function);

/// What the code of a kernel depends on: ops, types, attributes except arguments and notes (`word`,
/// `stream`, `places`, `scope`, `role` ..., values of constants), family and plan. The
/// kernel's name, the bound values and `reason` do not count.
Digest kernel_hash(const Op& kernel);

}  // namespace mezzo::ir
