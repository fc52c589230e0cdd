// SPDX-License-Identifier: Apache-2.0
// Functions of one op, and what the interpreter makes of them.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>

#include <memory>
#include <span>
#include <vector>

namespace mezzo::test {

/// A module with `@f` that applies one op to its parameters and returns all results.
std::unique_ptr<ir::Module> one_op_module(ir::OpKind kind, std::span<const ir::Type> operands,
                                          ir::Attrs attrs = {},
                                          std::span<const ir::Type> declared = {});

/// Runs one op; it carries `word = 0`, so that its flags are the first word of the result.
ir::RunResult run_op(ir::OpKind kind, const std::vector<ir::InterpreterTensor>& inputs,
                     ir::Attrs attrs = {}, const std::vector<ir::Type>& declared = {});

/// The first result of `run_op`.
ir::InterpreterTensor eval_op(ir::OpKind kind, const std::vector<ir::InterpreterTensor>& inputs,
                              ir::Attrs attrs = {}, const std::vector<ir::Type>& declared = {});

/// A tensor of one axis.
ir::InterpreterTensor vector_of(ir::DType dtype, const std::vector<double>& values);

}  // namespace mezzo::test
