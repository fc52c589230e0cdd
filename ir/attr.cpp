// SPDX-License-Identifier: Apache-2.0
#include <mezzo/ir/attr.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/location.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mezzo::ir {

Attr::Attr(const std::vector<int64_t>& values) : data_(AttrList(values.begin(), values.end())) {}

std::vector<int64_t> Attr::ints() const {
  MEZZO_CHECK(is<AttrList>(), "attribute is not a list");
  std::vector<int64_t> out;
  for (const Attr& item : as<AttrList>()) {
    MEZZO_CHECK(item.is<int64_t>(), "attribute list holds something else than integers");
    out.push_back(item.as<int64_t>());
  }
  return out;
}

bool Attr::operator==(const Attr& other) const {
  if (is<double>() && other.is<double>())
    return std::bit_cast<uint64_t>(as<double>()) == std::bit_cast<uint64_t>(other.as<double>());
  return data_ == other.data_;
}

namespace {

auto lower_bound(auto& entries, std::string_view name) {
  return std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const auto& entry, std::string_view key) { return std::string_view(entry.first) < key; });
}

template <class T>
const T* typed(const Attrs& attrs, std::string_view name) {
  const Attr* attr = attrs.find(name);
  if (!attr) return nullptr;
  MEZZO_CHECK(attr->is<T>(), "attribute '" + std::string(name) + "' has the wrong kind");
  return &attr->as<T>();
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string_view, Attr>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

const Attr* Attrs::find(std::string_view name) const {
  auto it = lower_bound(entries_, name);
  return it != entries_.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string_view name, Attr value) {
  auto it = lower_bound(entries_, name);
  if (it != entries_.end() && it->first == name)
    it->second = std::move(value);
  else
    entries_.insert(it, {intern(name), std::move(value)});
}

void Attrs::erase(std::string_view name) {
  auto it = lower_bound(entries_, name);
  if (it != entries_.end() && it->first == name) entries_.erase(it);
}

int64_t Attrs::get_int(std::string_view name, int64_t fallback) const {
  const int64_t* value = typed<int64_t>(*this, name);
  return value ? *value : fallback;
}

double Attrs::get_float(std::string_view name, double fallback) const {
  const double* value = typed<double>(*this, name);
  return value ? *value : fallback;
}

bool Attrs::get_bool(std::string_view name, bool fallback) const {
  const bool* value = typed<bool>(*this, name);
  return value ? *value : fallback;
}

std::string Attrs::get_string(std::string_view name, std::string_view fallback) const {
  const std::string* value = typed<std::string>(*this, name);
  return value ? *value : std::string(fallback);
}

std::vector<int64_t> Attrs::get_ints(std::string_view name) const {
  const Attr* attr = find(name);
  return attr ? attr->ints() : std::vector<int64_t>{};
}

}  // namespace mezzo::ir
