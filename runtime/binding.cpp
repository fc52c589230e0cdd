// SPDX-License-Identifier: Apache-2.0
#include <mezzo/runtime/binding.h>

#include <mezzo/ir/error.h>

#include <fmt/format.h>

namespace mezzo::runtime {

namespace {

void check_counts(const ir::Function& function, size_t parameters, size_t results) {
  MEZZO_CHECK(static_cast<int>(parameters) == function.num_parameters(),
              fmt::format("@{} takes {}, not {}", function.name(),
                          ir::counted(function.num_parameters(), "parameter"), parameters));
  MEZZO_CHECK(static_cast<int>(results) == function.num_results(),
              fmt::format("@{} gives {}, not {}", function.name(),
                          ir::counted(function.num_results(), "result"), results));
}

}  // namespace

std::vector<bool> updated_parameters(const ir::Function& function) {
  std::vector<bool> updated(static_cast<size_t>(function.num_parameters()));
  for (int i = 0; i < function.num_results(); ++i)
    if (const ir::Value parameter = function.updated_parameter(i))
      updated[static_cast<size_t>(parameter.index())] = true;
  return updated;
}

void check_bindings(const ir::Function& function, std::span<const Binding> parameters,
                    std::span<HostArray* const> results) {
  check_counts(function, parameters.size(), results.size());
  const std::vector<bool> updated = updated_parameters(function);
  auto check_array = [&](const char* what, size_t i, const ir::Type& wanted,
                         const HostArray& array) {
    MEZZO_CHECK(array.type == wanted,
                fmt::format("{} {} of @{} is {}, not {}", what, i, function.name(),
                            to_string(wanted), to_string(array.type)));
    array.check_size();
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::Value parameter = function.parameter(static_cast<int>(i));
    check_array("parameter", i, parameter.type(), parameters[i].array());
    MEZZO_CHECK(!updated[i] || parameters[i].updated(),
                fmt::format("parameter {} (%{}) of @{} is updated, but its array is constant", i,
                            parameter.name(), function.name()));
  }
  const std::vector<ir::Value> values = function.results();
  for (size_t i = 0; i < results.size(); ++i) {
    MEZZO_CHECK(results[i] || function.updated_parameter(static_cast<int>(i)),
                fmt::format("result {} of @{} has no array", i, function.name()));
    if (results[i]) check_array("result", i, values[i].type(), *results[i]);
  }
}

HostPointers host_pointers(const ir::Function& function, std::span<const Binding> parameters,
                           std::span<HostArray* const> results) {
  check_bindings(function, parameters, results);
  const std::vector<bool> updated = updated_parameters(function);
  HostPointers out;
  for (size_t i = 0; i < parameters.size(); ++i)
    out.parameters.push_back(updated[i]
                                 ? parameters[i].updated()->bytes().data()
                                 : const_cast<std::byte*>(parameters[i].array().bytes().data()));
  for (HostArray* result : results)
    out.results.push_back(result ? result->bytes().data() : nullptr);
  return out;
}

void check_pointers(const ir::Function& function, std::span<void* const> parameters,
                    std::span<void* const> results) {
  check_counts(function, parameters.size(), results.size());
  for (int i = 0; i < function.num_parameters(); ++i)
    MEZZO_CHECK(parameters[static_cast<size_t>(i)] || function.parameter(i).type().bytes() == 0,
                fmt::format("parameter {} (%{}) of @{} has no memory", i,
                            function.parameter(i).name(), function.name()));
  const std::vector<ir::Value> values = function.results();
  for (int i = 0; i < function.num_results(); ++i) {
    const auto place = static_cast<size_t>(i);
    MEZZO_CHECK(
        results[place] || function.updated_parameter(i) || values[place].type().bytes() == 0,
        fmt::format("result {} of @{} has no memory", i, function.name()));
  }
}

}  // namespace mezzo::runtime
