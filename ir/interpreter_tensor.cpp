// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/interpreter_tensor.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/words.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <sstream>

namespace mezzo::ir {

namespace {

template <class Storage>
Storage read(std::span<const std::byte> bytes, int64_t index) {
  Storage value;
  std::memcpy(&value, bytes.data() + static_cast<size_t>(index) * sizeof(Storage), sizeof(Storage));
  return value;
}

template <class Storage>
void write(std::span<std::byte> bytes, int64_t index, Storage value) {
  std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof(Storage), &value, sizeof(Storage));
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
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    size_t at = static_cast<size_t>(i);
    switch (type.dtype) {
      case DType::F64:
        tensor.floats[at] = read<double>(bytes, i);
        break;
      case DType::F32:
        tensor.floats[at] = static_cast<double>(read<float>(bytes, i));
        break;
      case DType::F16:
        tensor.floats[at] = static_cast<double>(f16_to_f32(read<uint16_t>(bytes, i)));
        break;
      case DType::BF16:
        tensor.floats[at] = static_cast<double>(bf16_to_f32(read<uint16_t>(bytes, i)));
        break;
      case DType::I64:
        tensor.integers[at] = read<int64_t>(bytes, i);
        break;
      case DType::I32:
        tensor.integers[at] = read<int32_t>(bytes, i);
        break;
      case DType::U8:
        tensor.integers[at] = read<uint8_t>(bytes, i);
        break;
      case DType::Bool:
        tensor.integers[at] = read<uint8_t>(bytes, i) != 0;
        break;
    }
  }
  return tensor;
}

void to_bytes(const InterpreterTensor& tensor, std::span<std::byte> bytes) {
  check_size(tensor.type, bytes.size());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    size_t at = static_cast<size_t>(i);
    switch (tensor.type.dtype) {
      case DType::F64:
        write(bytes, i, tensor.floats[at]);
        break;
      case DType::F32:
        write(bytes, i, static_cast<float>(tensor.floats[at]));
        break;
      case DType::F16:
        write(bytes, i, f64_to_f16(tensor.floats[at]));
        break;
      case DType::BF16:
        write(bytes, i, f64_to_bf16(tensor.floats[at]));
        break;
      case DType::I64:
        write(bytes, i, tensor.integers[at]);
        break;
      case DType::I32:
        write(bytes, i, static_cast<int32_t>(tensor.integers[at]));
        break;
      case DType::U8:
      case DType::Bool:
        write(bytes, i, static_cast<uint8_t>(tensor.integers[at]));
        break;
    }
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
