// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/interpreter_tensor.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

namespace mezzo::ir {

namespace {

/// The loops over elements know the storage type, so that large tensors move at the speed of
/// memory.
template <class Storage>
void read_all(std::span<const std::byte> bytes, auto& to, auto convert) {
  for (size_t i = 0; i < to.size(); ++i) {
    Storage value;
    std::memcpy(&value, bytes.data() + i * sizeof(Storage), sizeof(Storage));
    to[i] = convert(value);
  }
}

template <class Storage>
void write_all(const auto& from, std::span<std::byte> bytes, auto convert) {
  for (size_t i = 0; i < from.size(); ++i) {
    const Storage value = convert(from[i]);
    std::memcpy(bytes.data() + i * sizeof(Storage), &value, sizeof(Storage));
  }
}

void check_size(const Type& type, size_t size) {
  if (static_cast<int64_t>(size) != type.bytes())
    throw UserError({}, to_string(type) + " has " + counted(type.bytes(), "byte") + ", not " +
                            std::to_string(size));
}

}  // namespace

InterpreterTensor::InterpreterTensor(const Type& type) : type(type) {
  size_t count = static_cast<size_t>(type.elements());
  if (is_float(type.dtype))
    floats.resize(count);
  else
    integers.resize(count);
}

void InterpreterTensor::set_number(int64_t index, double value) {
  if (holds_floats())
    floats[static_cast<size_t>(index)] = round_to(type.dtype, value);
  else
    integers[static_cast<size_t>(index)] = float_to_integer(type.dtype, value);
}

bool InterpreterTensor::all_finite() const {
  return std::all_of(floats.begin(), floats.end(), [](double x) { return std::isfinite(x); });
}

InterpreterTensor make_tensor(const Type& type, std::span<const double> values) {
  if (static_cast<int64_t>(values.size()) != type.elements())
    throw UserError({}, to_string(type) + " has " + counted(type.elements(), "element") + ", not " +
                            std::to_string(values.size()));
  InterpreterTensor tensor(type);
  for (size_t i = 0; i < values.size(); ++i) tensor.set_number(static_cast<int64_t>(i), values[i]);
  return tensor;
}

InterpreterTensor make_tensor(const Type& type, std::initializer_list<double> values) {
  return make_tensor(type, std::span(values.begin(), values.size()));
}

InterpreterTensor full_tensor(const Type& type, double value) {
  InterpreterTensor tensor(type);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set_number(i, value);
  return tensor;
}

InterpreterTensor from_bytes(const Type& type, std::span<const std::byte> bytes) {
  check_size(type, bytes.size());
  InterpreterTensor tensor(type);
  const auto wide = [](auto value) { return static_cast<double>(value); };
  const auto whole = [](auto value) { return static_cast<int64_t>(value); };
  switch (type.dtype) {
    case DType::F64:
      read_all<double>(bytes, tensor.floats, wide);
      break;
    case DType::F32:
      read_all<float>(bytes, tensor.floats, wide);
      break;
    case DType::F16:
      read_all<uint16_t>(bytes, tensor.floats,
                         [&](uint16_t bits) { return wide(f16_to_f32(bits)); });
      break;
    case DType::BF16:
      read_all<uint16_t>(bytes, tensor.floats,
                         [&](uint16_t bits) { return wide(bf16_to_f32(bits)); });
      break;
    case DType::I64:
      read_all<int64_t>(bytes, tensor.integers, whole);
      break;
    case DType::I32:
      read_all<int32_t>(bytes, tensor.integers, whole);
      break;
    case DType::U8:
      read_all<uint8_t>(bytes, tensor.integers, whole);
      break;
    case DType::Bool:
      read_all<uint8_t>(bytes, tensor.integers, [](uint8_t value) { return int64_t{value != 0}; });
      break;
  }
  return tensor;
}

void to_bytes(const InterpreterTensor& tensor, std::span<std::byte> bytes) {
  check_size(tensor.type, bytes.size());
  switch (tensor.type.dtype) {
    case DType::F64:
      write_all<double>(tensor.floats, bytes, [](double value) { return value; });
      break;
    case DType::F32:
      write_all<float>(tensor.floats, bytes,
                       [](double value) { return static_cast<float>(value); });
      break;
    case DType::F16:
      write_all<uint16_t>(tensor.floats, bytes, f64_to_f16);
      break;
    case DType::BF16:
      write_all<uint16_t>(tensor.floats, bytes, f64_to_bf16);
      break;
    case DType::I64:
      write_all<int64_t>(tensor.integers, bytes, [](int64_t value) { return value; });
      break;
    case DType::I32:
      write_all<int32_t>(tensor.integers, bytes,
                         [](int64_t value) { return static_cast<int32_t>(value); });
      break;
    case DType::U8:
    case DType::Bool:
      write_all<uint8_t>(tensor.integers, bytes,
                         [](int64_t value) { return static_cast<uint8_t>(value); });
      break;
  }
}

bool same_bits(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool same_bits(const InterpreterTensor& a, const InterpreterTensor& b) {
  return a.type == b.type && a.integers == b.integers &&
         std::equal(a.floats.begin(), a.floats.end(), b.floats.begin(), b.floats.end(),
                    [](double x, double y) { return same_bits(x, y); });
}

std::string describe_difference(const InterpreterTensor& a, const InterpreterTensor& b) {
  if (!(a.type == b.type)) return "types " + to_string(a.type) + " and " + to_string(b.type);
  std::ostringstream first;
  first.imbue(std::locale::classic());
  first.precision(17);
  int64_t count = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    size_t at = static_cast<size_t>(i);
    bool same =
        a.holds_floats() ? same_bits(a.floats[at], b.floats[at]) : a.integers[at] == b.integers[at];
    if (same) continue;
    if (count++ > 0) continue;
    first << "element " << i << ": ";
    if (a.holds_floats())
      first << a.floats[at] << " and " << b.floats[at];
    else
      first << a.integers[at] << " and " << b.integers[at];
  }
  return count == 0 ? "" : first.str() + " (" + std::to_string(count) + " differ)";
}

}  // namespace mezzo::ir
