// SPDX-License-Identifier: Apache-2.0
// Random functions whose ops fuse into kernels of one family: what fuzzing and the tests of back
// ends share. The same seed gives the same function on every machine.
#pragma once

#include <mezzo/ir/graph.h>

#include <cstdint>
#include <memory>

namespace mezzo::test {

enum class RegionFamily { Elementwise, Rows, Columns, RowsColumns, Scan, Sort };

/// A module with one function `@main` of primitive ops over random shapes and element types; stage
/// primitive. Values stay valid for any input of ordinary size: roots and logarithms are taken of
/// positive values.
std::unique_ptr<ir::Module> random_region(RegionFamily family, uint64_t seed);

}  // namespace mezzo::test
