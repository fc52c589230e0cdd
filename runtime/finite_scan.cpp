// SPDX-License-Identifier: Apache-2.0
// An element is not finite exactly when all bits of its exponent are set, which an integer
// comparison sees in every format; the loops have no branch, so that the compiler vectorises them.
#include <mezzo/runtime/finite_scan.h>

#include <algorithm>
#include <cstdint>

namespace mezzo::runtime {

namespace {

template <class Bits>
bool none_has(const void* data, int64_t count, Bits exponent) {
  constexpr int64_t kBlock = 4096;  // between looks at the answer so far
  const Bits* bits = static_cast<const Bits*>(data);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i)
      found |= static_cast<Bits>((bits[i] & exponent) == exponent);
    if (found) return false;
  }
  return true;
}

}  // namespace

bool all_finite(const ir::Type& type, const void* data) {
  int64_t count = type.elements();
  switch (type.dtype) {
    case ir::DType::F64:
      return none_has<uint64_t>(data, count, 0x7ff0000000000000);
    case ir::DType::F32:
      return none_has<uint32_t>(data, count, 0x7f800000);
    case ir::DType::F16:
      return none_has<uint16_t>(data, count, 0x7c00);
    case ir::DType::BF16:
      return none_has<uint16_t>(data, count, 0x7f80);
    default:
      return true;
  }
}

}  // namespace mezzo::runtime
