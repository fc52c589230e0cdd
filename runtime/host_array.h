// SPDX-License-Identifier: Apache-2.0
// A dense row-major array: what files hold, what goes into a program and what comes out. Its bytes
// are in host memory; a program on another device may keep a copy there, and fetches it when
// somebody looks.
#pragma once

#include <mezzo/ir/location.h>
#include <mezzo/ir/shape.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace mezzo::runtime {

/// The bytes of an array on a device.
class DeviceCopy {
 public:
  virtual ~DeviceCopy() = default;
  /// Waits for what computes them; throws DeviceError.
  virtual void download(std::span<std::byte> to) = 0;
};

struct HostArray {
  ir::Type type;

  HostArray() : HostArray(ir::Type()) {}
  /// Zeros.
  explicit HostArray(const ir::Type& type);
  /// `values` rounded once, to nearest even; to an integer type toward zero and saturated. One
  /// value for each element, else UserError.
  HostArray(const ir::Type& type, std::span<const double> values);

  /// Of the same bytes, in host memory alone.
  HostArray(const HostArray& other);
  HostArray& operator=(const HostArray& other);
  HostArray(HostArray&&) noexcept = default;
  HostArray& operator=(HostArray&&) noexcept = default;
  ~HostArray() = default;

  /// type.bytes() bytes in the machine's byte order; f16 and bf16 are their 16-bit patterns, bools
  /// are 0 or 1. Fetched from the device when they are newer there.
  const std::vector<std::byte>& bytes() const {
    if (mirror_) fetch();
    return bytes_;
  }
  /// To be changed: a copy on a device is no longer right.
  std::vector<std::byte>& bytes() {
    if (mirror_) reclaim();
    return bytes_;
  }

  /// Writes other bytes, type.bytes() of them, in place of all, which are not fetched from a device
  /// first.
  void set_bytes(std::span<const std::byte> bytes);

  /// The copy that a program keeps; `newer`: the host's bytes are no longer right.
  void set_device_copy(std::shared_ptr<DeviceCopy> copy, bool newer);
  struct OnDevice {
    std::shared_ptr<DeviceCopy> copy;  // null where there is none
    bool current = false;              // else the host has changed the bytes since
  };
  OnDevice device_copy() const;

  /// Throws UserError when `bytes`, which anyone may resize, is not of the size that `type` says.
  void check_size() const;
  /// Element `index` in row-major order, UserError where there is none; an i64 beyond 2^53 is
  /// rounded.
  double as_double(int64_t index) const;
  /// Element `index`; a float toward zero, saturated, NaN as 0.
  int64_t as_integer(int64_t index) const;
  void set(int64_t index, double value);
  void set_integer(int64_t index, int64_t value);

  std::vector<double> to_doubles() const;
  /// The same values in another element type, each rounded once to nearest even; floats to integers
  /// toward zero and saturated, integers to narrower integers wrapped, anything to bool as `!= 0`.
  HostArray converted_to(ir::DType dtype) const;

  /// The elements as `T`, whose size must be that of the element type (uint16_t for f16 and bf16),
  /// else UserError.
  template <typename T>
  std::span<T> view(ir::Location location = ir::Location::here()) {
    check_element(name_of<T>(), sizeof(T), location);
    return {reinterpret_cast<T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> view(ir::Location location = ir::Location::here()) const {
    check_element(name_of<T>(), sizeof(T), location);
    return {reinterpret_cast<const T*>(bytes().data()), bytes().size() / sizeof(T)};
  }

 private:
  struct Mirror;

  void fetch() const;
  void reclaim();
  /// In bytes; throws UserError where there is no such element.
  size_t offset_of(int64_t index) const;
  template <typename T>
  static constexpr const char* name_of() {
    if constexpr (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? "a float" : sizeof(T) == 8 ? "a double" : "a long double";
    else
      return std::is_integral_v<T> ? "an integer" : "an element";
  }
  void check_element(const char* name, size_t size, ir::Location location) const;

  mutable std::vector<std::byte> bytes_;
  std::shared_ptr<Mirror> mirror_;  // null while nothing but the host has the numbers
};

}  // namespace mezzo::runtime
