// SPDX-License-Identifier: Apache-2.0
#include <support/random_array.h>

#include <mezzo/ir/error.h>

#include <cmath>
#include <limits>

namespace mezzo::test {

namespace {

using ir::DType;

/// SplitMix64: short, seedable anywhere, and no library's distribution decides what a test sees.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(limit));
  }
  double sign() { return bits() & 1 ? 1.0 : -1.0; }

 private:
  uint64_t state_;
};

double draw_float(char domain, Generator& random) {
  switch (domain) {
    case 'p':
      return std::exp2(random.between(-6, 6));
    case 'u':
      return random.between(0.01, 0.99);
    case 's':
      return random.between(-2, 2);
    case 'n':
      return random.sign() * std::exp2(random.between(-3, 3));
    case 'c':
      return random.between(-1, 1);
    case 'g':
      return 1 + std::exp2(random.between(-8, 6));
    default:
      // Half of them spread over magnitudes, half of them uniform.
      return random.bits() & 1 ? random.sign() * std::exp2(random.between(-8, 5))
                               : random.between(-4, 4);
  }
}

double special_float(DType type, Generator& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double largest = ir::largest_finite(type);
  double smallest = type == DType::F16    ? 0x1p-24
                    : type == DType::BF16 ? 0x1p-133
                    : type == DType::F32  ? 0x1p-149
                                          : 0x1p-1074;
  double normal = type == DType::F16 ? 0x1p-14 : type == DType::F64 ? 0x1p-1022 : 0x1p-126;
  const double values[] = {std::numeric_limits<double>::quiet_NaN(),
                           kInfinity,
                           -kInfinity,
                           0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           smallest,
                           -smallest,
                           3 * smallest,
                           normal,
                           -normal,
                           largest,
                           -largest};
  return values[random.below(std::size(values))];
}

int64_t draw_integer(char domain, DType type, Generator& random) {
  switch (domain) {
    case 'p':
      return 1 + random.below(100);
    case 'n':
      return (1 + random.below(100)) * (type != DType::U8 && random.bits() & 1 ? -1 : 1);
    case 'u':
    case 's':
      return random.below(3);
    default:
      return type == DType::U8 ? random.below(256) : random.below(201) - 100;
  }
}

int64_t special_integer(DType type, Generator& random) {
  int64_t lowest = type == DType::I64   ? std::numeric_limits<int64_t>::min()
                   : type == DType::I32 ? std::numeric_limits<int32_t>::min()
                                        : 0;
  int64_t highest = type == DType::I64   ? std::numeric_limits<int64_t>::max()
                    : type == DType::I32 ? std::numeric_limits<int32_t>::max()
                                         : 255;
  const int64_t values[] = {lowest, highest, 0, 1, ir::wrap_integer(type, -1)};
  return values[random.below(std::size(values))];
}

}  // namespace

ir::InterpreterTensor random_array(char domain, const ir::Type& type, uint64_t seed, double special,
                                   int64_t index_limit) {
  MEZZO_CHECK(std::string_view("apusncgib").find(domain) != std::string_view::npos,
              std::string("unknown test domain '") + domain + "'");
  Generator random(seed);
  ir::InterpreterTensor tensor(type);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    bool edge = random.unit() < special;
    if (tensor.holds_floats())
      tensor.set_number(i, edge ? special_float(type.dtype, random) : draw_float(domain, random));
    else if (domain == 'i')
      tensor.integers[static_cast<size_t>(i)] = random.below(index_limit);
    else if (domain == 'b' || type.dtype == DType::Bool)
      tensor.integers[static_cast<size_t>(i)] = random.below(2);
    else
      tensor.integers[static_cast<size_t>(i)] =
          edge ? special_integer(type.dtype, random) : draw_integer(domain, type.dtype, random);
  }
  return tensor;
}

}  // namespace mezzo::test
