// SPDX-License-Identifier: Apache-2.0
#include <ptx/fake_profile.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <ptx/fake_api.h>
#include <stdexcept>
#include <string_view>

namespace mezzo::fakecuda {

namespace {

constexpr std::string_view kPrefix = "MEZZO_FAKE_";

constexpr Architecture kArchitectures[] = {
    {75, 64, 64, 1024},    {80, 163, 164, 2048}, {86, 99, 100, 1536},   {87, 163, 164, 1536},
    {89, 99, 100, 1536},   {90, 227, 228, 2048}, {100, 227, 228, 2048}, {103, 227, 228, 2048},
    {110, 227, 228, 2048}, {120, 99, 100, 1536}, {121, 99, 100, 1536},
};

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw std::invalid_argument(fmt::format("{} = '{}': expected {}", name, value, expected));
}

uint64_t number(std::string_view name, std::string_view value, uint64_t least, uint64_t most) {
  uint64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc() || end != value.data() + value.size() || result < least || result > most)
    refuse(name, value, fmt::format("a number from {} to {}", least, most));
  return result;
}

template <class T>
T word(std::string_view name, std::string_view value,
       std::initializer_list<std::pair<std::string_view, T>> known) {
  std::string list;
  for (const auto& [spelling, meaning] : known) {
    if (value == spelling) return meaning;
    list += (list.empty() ? "" : ", ") + std::string(spelling);
  }
  refuse(name, value, "one of " + list);
}

Architecture architecture(std::string_view name, std::string_view value) {
  std::string list;
  for (const Architecture& known : kArchitectures) {
    const std::string number = std::to_string(known.compute_capability);
    if (value == number) return known;
    list += (list.empty() ? "" : ", ") + number;
  }
  refuse(name, value, "one of " + list);
}

/// Whether there is an entry point of that name, without version.
bool is_entry_point(std::string_view name) {
#define X(function, suffix, parameters) \
  if (name == #function) return true;
  MEZZO_CUDA_FUNCTIONS(X)
  MEZZO_FAKE_FUNCTIONS(X)
#undef X
  return false;
}

/// `cuLaunchKernel=701,cuEventQuery=1`
std::map<std::string, int> failing(std::string_view name, std::string_view value) {
  std::map<std::string, int> result;
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    const std::string function(item.substr(0, equals));
    if (equals == std::string_view::npos || !is_entry_point(function))
      refuse(name, value, "ENTRY_POINT=CODE, comma-separated, names without version");
    result[function] = static_cast<int>(number(name, item.substr(equals + 1), 1, 999));
  }
  return result;
}

}  // namespace

Profile read_profile(const char* const* environment) {
  using Value = std::string_view;
  constexpr uint64_t kMost = uint64_t{1} << 62;
  Profile profile;
  profile.architecture = kArchitectures[1];
  const auto small = [](Value name, Value value, uint64_t least, uint64_t most) {
    return static_cast<int>(number(name, value, least, most));
  };
  const std::map<Value, std::function<void(Value, Value)>> readers = {
      {"CC", [&](Value n, Value v) { profile.architecture = architecture(n, v); }},
      {"DRIVER", [&](Value n, Value v) { profile.driver = small(n, v, 1000, 99990); }},
      {"DEVICES", [&](Value n, Value v) { profile.devices = small(n, v, 0, 16); }},
      {"MEMORY", [&](Value n, Value v) { profile.memory = number(n, v, 1 << 16, kMost >> 20); }},
      {"OOM", [&](Value n, Value v) { profile.oom = number(n, v, 0, kMost); }},
      {"INIT", [&](Value n, Value v) { profile.init = small(n, v, 0, 999); }},
      {"POOLS", [&](Value n, Value v) { profile.pools = number(n, v, 0, 1) != 0; }},
      {"FAIL", [&](Value n, Value v) { profile.failing = failing(n, v); }},
      {"ORDER",
       [&](Value n, Value v) {
         profile.options.order =
             word<ptx::BlockOrder>(n, v,
                                   {{"forward", ptx::BlockOrder::Forward},
                                    {"reversed", ptx::BlockOrder::Reversed},
                                    {"random", ptx::BlockOrder::Random},
                                    {"round-robin", ptx::BlockOrder::RoundRobin}});
       }},
      {"SEED", [&](Value n, Value v) { profile.options.seed = number(n, v, 0, kMost); }},
      {"DIVERGENCE",
       [&](Value n, Value v) {
         profile.options.hostile_divergence =
             word<bool>(n, v, {{"kind", false}, {"hostile", true}});
       }},
      {"MMA",
       [&](Value n, Value v) {
         profile.options.mma = word<ptx::MmaMode>(
             n, v, {{"sequential", ptx::MmaMode::Sequential}, {"exact", ptx::MmaMode::Exact}});
       }},
      {"THREADS", [&](Value n, Value v) { profile.options.threads = small(n, v, 1, 256); }},
      {"BUDGET", [&](Value n, Value v) { profile.options.budget = number(n, v, 0, kMost); }},
  };
  for (; *environment; ++environment) {
    const Value entry = *environment;
    if (!entry.starts_with(kPrefix)) continue;
    const Value name = entry.substr(0, entry.find('='));
    const Value value = entry.substr(std::min(entry.size(), name.size() + 1));
    const auto reader = readers.find(name.substr(kPrefix.size()));
    if (reader == readers.end()) {
      std::string list;
      for (const auto& [known, unused] : readers)
        list += (list.empty() ? "" : ", ") + std::string(kPrefix) + std::string(known);
      throw std::invalid_argument(
          fmt::format("unknown variable {}; known ones are {}", name, list));
    }
    reader->second(name, value);
  }
  return profile;
}

int newest_ptx(int driver) {
  const int major = driver / 1000, minor = driver % 1000 / 10;
  // CUDA 12.5 and 12.6 have one version, and from 12.7 on PTX is one behind.
  if (major == 12) return 80 + (minor >= 6 ? minor - 1 : minor);
  return (major - 4) * 10 + minor;
}

}  // namespace mezzo::fakecuda
