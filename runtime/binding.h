// SPDX-License-Identifier: Apache-2.0
// The arrays that a program works on, by the parameters and results of its function.
#pragma once

#include <mezzo/ir/graph.h>
#include <mezzo/runtime/host_array.h>

#include <span>
#include <vector>

namespace mezzo::runtime {

/// An array that a program reads, or one that it may update.
class Binding {
 public:
  Binding(const HostArray& array) : array_(&array) {}
  Binding(HostArray& array) : array_(&array), updated_(&array) {}

  const HostArray& array() const { return *array_; }
  /// Null where the program may only read.
  HostArray* updated() const { return updated_; }

 private:
  const HostArray* array_;
  HostArray* updated_ = nullptr;
};

/// By parameter: a result updates it.
std::vector<bool> updated_parameters(const ir::Function& function);

/// Where the host has the bytes of all arrays.
struct HostPointers {
  std::vector<void*> parameters, results;
};

/// Throws InternalError unless there is one array of the right type for each parameter, one that
/// may be changed where a result updates it, and one for each other result.
void check_bindings(const ir::Function& function, std::span<const Binding> parameters,
                    std::span<HostArray* const> results);
/// Checks, and fetches what is newer on a device. Only what is updated may be written.
HostPointers host_pointers(const ir::Function& function, std::span<const Binding> parameters,
                           std::span<HostArray* const> results);

/// As check_bindings, of bare pointers: none is null where there are elements.
void check_pointers(const ir::Function& function, std::span<void* const> parameters,
                    std::span<void* const> results);

}  // namespace mezzo::runtime
