// SPDX-License-Identifier: Apache-2.0
// One small module for every row of the op table that the families elementwise, rows, columns,
// optimizer, scan, sort and movement serve, with every element type and the shapes that give other
// code: what tests of the CUDA back end share.
#pragma once

#include <mezzo/ir/builder.h>
#include <mezzo/ir/graph.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mezzo::test {

struct CudaCase {
  std::string name;  // `add f16 tail`
  std::unique_ptr<ir::Module> module;
  /// Small enough to be run by an interpreter.
  bool small = true;
};

/// A module whose function `@f` returns what `build` makes of its parameters.
std::unique_ptr<ir::Module> module_of(
    const std::vector<ir::Type>& parameters,
    const std::function<std::vector<ir::Value>(ir::Builder&, std::span<const ir::Value>)>& build);
std::unique_ptr<ir::Module> one_op(ir::OpKind kind, const std::vector<ir::Type>& parameters,
                                   ir::Attrs attrs, const std::vector<ir::Type>& declared = {});

/// Every elementwise row × element type, each in a shape that vectors divide, in one that they do
/// not and broadcast; of one element and of none once a row.
std::vector<CudaCase> elementwise_cases();
/// Views, pad, constants, iota, random numbers, index checks.
std::vector<CudaCase> movement_cases();
/// Reversal, concatenation, padding with a value, reading by index: rows, vectors and single
/// elements, through views, between ops.
std::vector<CudaCase> indexing_cases();
/// Adding by index: rows and elements, nothing, more than a digit of the sort holds, between ops.
std::vector<CudaCase> scatter_cases();
/// Every row of trait Reduction × element type × rows of a warp, of a block, over several axes.
std::vector<CudaCase> reduction_cases();
/// The same over leading axes: one launch, slabs, vectors that divide the columns and others;
/// several reductions with ops before and behind.
std::vector<CudaCase> column_cases();
/// Reductions over leading axes that are made of others: in every type of floats, of integers, with
/// results of the full shape and without; one row, none, one column, several axes, one slab and
/// several.
std::vector<CudaCase> column_chain_cases();
/// Every scan, and every order, × element type: along memory and across it, in one block and
/// several.
std::vector<CudaCase> scan_cases();
std::vector<CudaCase> order_cases();
/// Reductions over rows and over columns in one kernel: the gradients of a normalisation in every
/// type of floats, the same over several axes, columns of losses, reductions of integers; one row,
/// none, one column, parts of rows, rows of a warp and of a block, columns in registers and not.
std::vector<CudaCase> rows_columns_cases();
/// Updates of several parameters in one kernel: every optimizer × type of the parameters, sizes
/// that vectors divide and others, scalars from memory, flags, random rounding, shapes that matter.
std::vector<CudaCase> optimizer_cases();
/// AdamW of that many parameters of four sizes.
CudaCase many_updates(int count);
/// Tensors of more than 2^31 elements.
std::vector<CudaCase> wide_cases();

/// Rows of the op table that no kernel of these families holds, with the reason in words.
const std::vector<std::pair<ir::OpKind, const char*>>& rows_elsewhere();

}  // namespace mezzo::test
