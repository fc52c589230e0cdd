// SPDX-License-Identifier: Apache-2.0
// Attributes: small immutable facts on operations, parameters, results, functions and modules.
#pragma once

#include <mezzo/ir/dtype.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mezzo::ir {

struct ValueDef;

/// NaN or an infinity, kept as the bits of its type (4, 8 or 16 hex digits in the text).
struct Bits {
  uint64_t bits = 0;
  int digits = 8;
  bool operator==(const Bits&) const = default;
};
/// `@name`.
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};
/// `resource("name")`: data that stands in a file beside the text; shared, never copied with the
/// graph.
struct Resource {
  std::string name;
  bool operator==(const Resource&) const = default;
};
/// `%w`: a value of the same function (`{updates = %w}`).
struct ValueRef {
  ValueDef* value = nullptr;
  bool operator==(const ValueRef&) const = default;
};

class Attr;
using AttrList = std::vector<Attr>;

class Attr {
 public:
  using Data = std::variant<int64_t, double, bool, std::string, DType, Bits, ValueRef, Symbol,
                            Resource, AttrList>;

  Attr(int value) : data_(static_cast<int64_t>(value)) {}
  Attr(int64_t value) : data_(value) {}
  Attr(double value) : data_(value) {}
  Attr(bool value) : data_(value) {}
  Attr(const char* value) : data_(std::string(value)) {}
  Attr(std::string value) : data_(std::move(value)) {}
  Attr(DType value) : data_(value) {}
  Attr(Bits value) : data_(value) {}
  Attr(ValueRef value) : data_(value) {}
  Attr(Symbol value) : data_(std::move(value)) {}
  Attr(Resource value) : data_(std::move(value)) {}
  Attr(AttrList value) : data_(std::move(value)) {}
  /// A list of integers.
  explicit Attr(const std::vector<int64_t>& values);

  const Data& data() const { return data_; }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(data_);
  }
  /// The list as integers; the attribute must be a list of integers.
  std::vector<int64_t> ints() const;
  /// Equality of contents; floats by their bits, so that a NaN equals itself and -0 differs from 0.
  bool operator==(const Attr& other) const;

 private:
  Data data_;
};

/// Attributes by name, sorted by name.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string_view, Attr>> entries);

  const Attr* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string_view name, Attr value);
  void erase(std::string_view name);
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }

  /// The attribute, or `fallback` when it is not there. A wrong kind is an InternalError (the
  /// verifier has seen to it).
  int64_t get_int(std::string_view name, int64_t fallback = 0) const;
  double get_float(std::string_view name, double fallback = 0) const;
  bool get_bool(std::string_view name, bool fallback = false) const;
  std::string get_string(std::string_view name, std::string_view fallback = "") const;
  std::vector<int64_t> get_ints(std::string_view name) const;
  bool operator==(const Attrs&) const = default;

 private:
  /// Names are interned (location.h), so an entry is a pointer and a value.
  std::vector<std::pair<const char*, Attr>> entries_;
};

}  // namespace mezzo::ir
