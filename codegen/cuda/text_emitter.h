// SPDX-License-Identifier: Apache-2.0
// The emitter of device functions that writes CUDA C++: each operation is one `const` temporary.
// The text must be compiled with -fmad=false and without -use_fast_math; it needs no include.
#pragma once

#include <mezzo/codegen/scalar_emitter.h>

#include <array>
#include <string>
#include <string_view>

namespace mezzo::codegen {

class TextEmitter {
 public:
  /// Expressions: a name or a literal, safe as an operand and free to repeat.
  using F = std::string;
  using I = std::string;
  using B = std::string;

  /// Appends statements to `out`, each on a line of its own after `indent` blanks; temporaries are
  /// named `prefix` and a number.
  TextEmitter(std::string& out, int width, std::string_view prefix = "t", int indent = 2);

  int width() const { return width_; }
  /// `float` or `double`.
  std::string_view float_type() const { return width_ == 32 ? "float" : "double"; }
  /// `unsigned int` or `unsigned long long`.
  std::string_view int_type() const { return width_ == 32 ? "unsigned int" : "unsigned long long"; }

  /// An exact literal; NaN and infinities by their bits.
  F constant(double value);
  I iconstant(int64_t value);

  F add(const F& x, const F& y) { return define_float(x + " + " + y); }
  F sub(const F& x, const F& y) { return define_float(x + " - " + y); }
  F mul(const F& x, const F& y) { return define_float(x + " * " + y); }
  F div(const F& x, const F& y) { return call("__fdiv_rn", "__ddiv_rn", x + ", " + y); }
  F fma(const F& x, const F& y, const F& z) {
    return call("__fmaf_rn", "__fma_rn", x + ", " + y + ", " + z);
  }
  F neg(const F& x) { return define_float("-" + x); }
  F abs(const F& x) { return call("fabsf", "fabs", x); }
  F sqrt(const F& x) { return call("__fsqrt_rn", "__dsqrt_rn", x); }
  F floor(const F& x) { return call("floorf", "floor", x); }
  F ceil(const F& x) { return call("ceilf", "ceil", x); }
  F trunc(const F& x) { return call("truncf", "trunc", x); }
  F round_even(const F& x) { return call("rintf", "rint", x); }

  B lt(const F& x, const F& y) { return define("bool", x + " < " + y); }
  B le(const F& x, const F& y) { return define("bool", x + " <= " + y); }
  B gt(const F& x, const F& y) { return define("bool", x + " > " + y); }
  B ge(const F& x, const F& y) { return define("bool", x + " >= " + y); }
  B eq(const F& x, const F& y) { return define("bool", x + " == " + y); }
  B ne(const F& x, const F& y) { return define("bool", x + " != " + y); }
  B band(const B& x, const B& y) { return define("bool", x + " & " + y); }
  B bor(const B& x, const B& y) { return define("bool", x + " | " + y); }
  B bnot(const B& x) { return define("bool", "!" + x); }
  F select(const B& b, const F& x, const F& y) { return define_float(b + " ? " + x + " : " + y); }

  I to_bits(const F& x) {
    return define(int_type(),
                  (width_ == 32 ? "__float_as_uint(" : "__double_as_longlong(") + x + ")");
  }
  F from_bits(const I& i) { return call("__uint_as_float", "__longlong_as_double", i); }
  I iadd(const I& i, const I& j) { return define(int_type(), i + " + " + j); }
  I isub(const I& i, const I& j) { return define(int_type(), i + " - " + j); }
  I iand(const I& i, const I& j) { return define(int_type(), i + " & " + j); }
  I ior(const I& i, const I& j) { return define(int_type(), i + " | " + j); }
  I ixor(const I& i, const I& j) { return define(int_type(), i + " ^ " + j); }
  I ishl(const I& i, int bits) { return define(int_type(), i + " << " + std::to_string(bits)); }
  I ilshr(const I& i, int bits) { return define(int_type(), i + " >> " + std::to_string(bits)); }
  I umul32_low(const I& i, const I& j);
  I umul32_high(const I& i, const I& j);

  template <size_t N, class Make>
  std::array<F, N> rare(const B& b, const std::array<F, N>& values, Make make) {
    std::array<F, N> results;
    for (size_t i = 0; i < N; ++i) results[i] = variable(values[i]);
    open(b);
    const std::array<F, N> made = make();
    for (size_t i = 0; i < N; ++i) assign(results[i], made[i]);
    close();
    return results;
  }

 private:
  F define_float(const std::string& expression) { return define(float_type(), expression); }
  F call(std::string_view f32, std::string_view f64, const std::string& arguments);
  std::string define(std::string_view type, const std::string& expression);
  /// A float that `assign` may change.
  F variable(const F& value);
  void assign(const F& variable, const F& value);
  /// What follows until `close` runs where `condition` holds.
  void open(const B& condition);
  void close();

  std::string& out_;
  int width_;
  std::string prefix_;
  int indent_;
  int count_ = 0;
};

static_assert(ScalarEmitter<TextEmitter>);

}  // namespace mezzo::codegen
