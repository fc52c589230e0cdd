// SPDX-License-Identifier: Apache-2.0
// Memory and parameters of kernels that the PTX interpreter runs.
#pragma once

#include <mezzo/ir/interpreter_tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ptx/interpreter.h>
#include <span>
#include <stdexcept>
#include <vector>

namespace mezzo::test {

/// Allocations in device memory, freed together. Throws std::runtime_error where there is none
/// left.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(ptx::DeviceMemory& memory) : memory_(memory) {}
  ~DeviceBuffers() {
    for (ptx::Address address : addresses_) memory_.free(address);
  }
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  /// Of any content.
  ptx::Address add(int64_t bytes) {
    const auto address = memory_.allocate(static_cast<uint64_t>(std::max<int64_t>(bytes, 1)));
    if (!address) throw std::runtime_error("no device memory for a test");
    addresses_.push_back(*address);
    return *address;
  }
  ptx::Address add(const ir::InterpreterTensor& tensor) {
    const ptx::Address address = add(tensor.type.bytes());
    ir::to_bytes(tensor, bytes(address, tensor.type.bytes()));
    return address;
  }
  template <class T>
  ptx::Address add(std::span<const T> values) {
    const ptx::Address address = add(static_cast<int64_t>(values.size_bytes()));
    if (!values.empty()) std::memcpy(memory_.host(address), values.data(), values.size_bytes());
    return address;
  }
  /// Where the host finds them.
  std::span<std::byte> bytes(ptx::Address address, int64_t size) const {
    return {memory_.host(address), static_cast<size_t>(size)};
  }
  template <class T>
  T read(ptx::Address address) const {
    T value;
    std::memcpy(&value, memory_.host(address), sizeof value);
    return value;
  }
  template <class T>
  void write(ptx::Address address, const T& value) {
    std::memcpy(memory_.host(address), &value, sizeof value);
  }

 private:
  ptx::DeviceMemory& memory_;
  std::vector<ptx::Address> addresses_;
};

/// The parameter space of an entry that takes `values`, each of which fills at most 8 bytes.
inline std::vector<std::byte> parameter_bytes(const ptx::Kernel& kernel,
                                              std::span<const uint64_t> values) {
  if (kernel.parameters().size() != values.size())
    throw std::runtime_error(kernel.name() + " has other parameters than its source says");
  std::vector<std::byte> bytes(kernel.parameter_bytes());
  for (size_t i = 0; i < values.size(); ++i) {
    const ptx::KernelParameter& parameter = kernel.parameters()[i];
    std::memcpy(bytes.data() + parameter.offset, &values[i], parameter.bytes);
  }
  return bytes;
}

}  // namespace mezzo::test
