// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/policy.h>

#include <mezzo/ir/error.h>

namespace mezzo::passes {

using ir::DType;

namespace {

const std::vector<PrecisionPolicy>& policies() {
  static const std::vector<PrecisionPolicy> known{{"float32", DType::F32, DType::F32},
                                                  {"mixed_float16", DType::F16, DType::F32},
                                                  {"mixed_bfloat16", DType::BF16, DType::F32},
                                                  {"float16", DType::F16, DType::F16},
                                                  {"bfloat16", DType::BF16, DType::BF16}};
  return known;
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const PrecisionPolicy& policy : policies()) out.push_back(policy.name);
    return out;
  }();
  return names;
}

PrecisionPolicy policy_by_name(std::string_view name) {
  for (const PrecisionPolicy& policy : policies())
    if (policy.name == name) return policy;
  std::string known;
  for (const std::string& each : policy_names()) known += (known.empty() ? "" : ", ") + each;
  throw UserError(
      {}, "unknown policy '" + std::string(name) + "'" + ir::did_you_mean(name, policy_names()),
      "known policies: " + known);
}

}  // namespace mezzo::passes
