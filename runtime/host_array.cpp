// SPDX-License-Identifier: Apache-2.0
// Element access goes through memcpy of the table's storage types; every rounding is one of
// ir/dtype.h.
#include <mezzo/runtime/host_array.h>

#include <mezzo/ir/error.h>
#include <mezzo/runtime/memory.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

namespace mezzo::runtime {
namespace {

using ir::DType;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

double load_double(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::F64:
      return load<double>(from);
    case DType::F32:
      return static_cast<double>(load<float>(from));
    case DType::F16:
      return static_cast<double>(ir::f16_to_f32(load<uint16_t>(from)));
    case DType::BF16:
      return static_cast<double>(ir::bf16_to_f32(load<uint16_t>(from)));
    case DType::I64:
      return static_cast<double>(load<int64_t>(from));
    case DType::I32:
      return load<int32_t>(from);
    case DType::U8:
    case DType::Bool:
      return load<uint8_t>(from);
  }
  throw InternalError("unknown element type");
}

int64_t load_integer(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::I64:
      return load<int64_t>(from);
    case DType::I32:
      return load<int32_t>(from);
    case DType::U8:
    case DType::Bool:
      return load<uint8_t>(from);
    default:
      return ir::float_to_integer(DType::I64, load_double(dtype, from));
  }
}

void store_integer(DType dtype, std::byte* to, int64_t value);

void store_double(DType dtype, std::byte* to, double value) {
  switch (dtype) {
    case DType::F64:
      return store(to, value);
    case DType::F32:
      return store(to, static_cast<float>(value));
    case DType::F16:
      return store(to, ir::f64_to_f16(value));
    case DType::BF16:
      return store(to, ir::f64_to_bf16(value));
    default:
      return store_integer(dtype, to, ir::float_to_integer(dtype, value));
  }
}

void store_integer(DType dtype, std::byte* to, int64_t value) {
  switch (dtype) {
    case DType::I64:
      return store(to, value);
    case DType::I32:
      return store(to, static_cast<int32_t>(ir::wrap_integer(dtype, value)));
    case DType::U8:
    case DType::Bool:
      return store(to, static_cast<uint8_t>(ir::wrap_integer(dtype, value)));
    case DType::F64:
      return store(to, static_cast<double>(value));
    default:
      break;
  }
  // To a narrower float with one rounding: what an f64 cannot hold is folded into a sticky lowest
  // bit first, which leaves the second rounding the same decision as the whole number would.
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value > kExact || value < -kExact) {
    const bool inexact = (value & 1023) != 0;
    value = (value >> 10 | (inexact ? 1 : 0)) * 1024;
  }
  store_double(dtype, to, static_cast<double>(value));
}

}  // namespace

/// Several threads may look at an array that is newer on the device: the first of them fetches it.
struct HostArray::Mirror {
  std::mutex mutex;
  std::shared_ptr<DeviceCopy> copy;
  enum class Newer : uint8_t { Neither, Host, Device } newer = Newer::Neither;
};

HostArray::HostArray(const HostArray& other) : type(other.type), bytes_(other.bytes()) {}

HostArray& HostArray::operator=(const HostArray& other) {
  if (this != &other) *this = HostArray(other);
  return *this;
}

void HostArray::set_device_copy(std::shared_ptr<DeviceCopy> copy, bool newer) {
  if (!mirror_) mirror_ = std::make_shared<Mirror>();
  std::lock_guard lock(mirror_->mutex);
  mirror_->copy = std::move(copy);
  mirror_->newer = newer ? Mirror::Newer::Device : Mirror::Newer::Neither;
}

HostArray::OnDevice HostArray::device_copy() const {
  if (!mirror_) return {};
  std::lock_guard lock(mirror_->mutex);
  return {mirror_->copy, mirror_->newer != Mirror::Newer::Host};
}

void HostArray::fetch() const {
  std::lock_guard lock(mirror_->mutex);
  if (mirror_->newer != Mirror::Newer::Device) return;
  bytes_.resize(static_cast<size_t>(type.bytes()));
  mirror_->copy->download(bytes_);
  mirror_->newer = Mirror::Newer::Neither;
}

void HostArray::reclaim() {
  fetch();
  std::lock_guard lock(mirror_->mutex);
  mirror_->newer = Mirror::Newer::Host;
}

void HostArray::set_bytes(std::span<const std::byte> bytes) {
  MEZZO_CHECK(static_cast<int64_t>(bytes.size()) == type.bytes(),
              "an array " + ir::to_string(type) + " is given " +
                  ir::counted(static_cast<int64_t>(bytes.size()), "byte"));
  std::unique_lock<std::mutex> lock;
  if (mirror_) lock = std::unique_lock(mirror_->mutex);
  bytes_.assign(bytes.begin(), bytes.end());
  if (mirror_) mirror_->newer = Mirror::Newer::Host;
}

HostArray::HostArray(const ir::Type& type) : type(type) {
  try {
    bytes_.resize(static_cast<size_t>(type.bytes()));
  } catch (const std::bad_alloc&) {
    fail_out_of_memory("an array " + ir::to_string(type), static_cast<double>(type.bytes()));
  }
}

HostArray::HostArray(const ir::Type& type, std::span<const double> values) : HostArray(type) {
  if (static_cast<int64_t>(values.size()) != type.elements())
    throw UserError({}, "an array " + ir::to_string(type) + " has " +
                            ir::counted(type.elements(), "element") + ", not " +
                            std::to_string(values.size()));
  for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), values[i]);
}

void HostArray::check_size() const {
  if (static_cast<int64_t>(bytes_.size()) != type.bytes())
    throw UserError({}, "array: " + to_string(type) + " takes " +
                            ir::counted(type.bytes(), "byte") + ", but there are " +
                            std::to_string(bytes_.size()));
}

size_t HostArray::offset_of(int64_t index) const {
  const auto size = static_cast<size_t>(ir::byte_size(type.dtype));
  // A negative index is a huge one here.
  if (static_cast<size_t>(index) >= bytes().size() / size)
    throw UserError({}, "array: there is no element " + std::to_string(index) + " in " +
                            to_string(type) + " with " + ir::counted(bytes().size(), "byte"));
  return static_cast<size_t>(index) * size;
}

double HostArray::as_double(int64_t index) const {
  return load_double(type.dtype, bytes().data() + offset_of(index));
}

int64_t HostArray::as_integer(int64_t index) const {
  return load_integer(type.dtype, bytes().data() + offset_of(index));
}

void HostArray::set(int64_t index, double value) {
  store_double(type.dtype, bytes().data() + offset_of(index), value);
}

void HostArray::set_integer(int64_t index, int64_t value) {
  store_integer(type.dtype, bytes().data() + offset_of(index), value);
}

std::vector<double> HostArray::to_doubles() const {
  std::vector<double> values(static_cast<size_t>(type.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = as_double(static_cast<int64_t>(i));
  return values;
}

HostArray HostArray::converted_to(DType dtype) const {
  if (dtype == type.dtype) return *this;
  HostArray out(type.with(dtype));
  const bool from_float = ir::is_float(type.dtype);
  for (int64_t i = 0; i < type.elements(); ++i) {
    if (from_float)
      out.set(i, as_double(i));
    else
      out.set_integer(i, as_integer(i));
  }
  return out;
}

void HostArray::check_element(const char* name, size_t size, ir::Location location) const {
  const int64_t own = ir::byte_size(type.dtype);
  if (static_cast<int64_t>(size) == own) return;
  throw UserError(location,
                  std::string("array: ") + name + " of " + ir::counted(size, "byte") +
                      " is no view of " + ir::to_string(type.dtype) + ", which has " +
                      std::to_string(own) + ", in " + ir::to_string(type),
                  "converted_to gives the numbers in another element type, to_doubles as doubles; "
                  "f16 and bf16 are viewed as uint16_t");
}

}  // namespace mezzo::runtime
