// SPDX-License-Identifier: Apache-2.0
// The tables of step_kernels.cuh, in the layout of its structures: 8-byte words, numbers of 4 bytes
// in pairs, the lower address in the lower half.
#include <mezzo/codegen/cuda/step_kernels.h>

#include <mezzo/ir/error.h>

#include <algorithm>
#include <string_view>

namespace mezzo::codegen {

extern const std::string_view kStepKernels;

using ir::DType;

namespace {

/// Enough to read memory at full speed; each looks at the flag words once.
constexpr int64_t kBlocks = 256;

uint64_t kind_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 1;
    case DType::BF16:
      return 2;
    case DType::F32:
      return 3;
    case DType::F64:
      return 4;
    default:
      return 0;
  }
}

uint64_t pair(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

void add_tensor(std::vector<uint64_t>& out, const StepTensor& tensor, bool looked_at = true) {
  out.push_back(tensor.address);
  out.push_back(static_cast<uint64_t>(tensor.type.elements()));
  out.push_back(looked_at ? kind_of(tensor.type.dtype) : 0);
}

/// Appends numbers of 4 bytes; gives the place of the first in bytes.
uint64_t add_numbers(std::vector<uint64_t>& out, std::span<const uint32_t> numbers) {
  const uint64_t place = out.size() * sizeof(uint64_t);
  for (size_t i = 0; i < numbers.size(); i += 2)
    out.push_back(pair(numbers[i], i + 1 < numbers.size() ? numbers[i + 1] : 0));
  return place;
}

}  // namespace

CudaSource cuda_step_kernels() {
  CudaSource source;
  source.name = "step";
  source.text = kStepKernels;
  source.launches = {{"mezzo_all_finite", 256, kBlocks}, {"mezzo_verdict", 256, kBlocks}};
  source.indirect = true;
  return source;
}

std::vector<uint64_t> all_finite_table(std::span<const StepTensor> tensors,
                                       std::span<const uint64_t> words,
                                       const FiniteAddresses& addresses) {
  MEZZO_CHECK(tensors.size() == words.size(), "one flag word a tensor");
  std::vector<uint64_t> out = {addresses.result, addresses.index_flag, tensors.size(), 0};
  for (size_t i = 0; i < tensors.size(); ++i) {
    add_tensor(out, tensors[i]);
    out.push_back(words[i]);
  }
  return out;
}

std::vector<uint64_t> verdict_table(const ir::VerdictTable& table,
                                    std::span<const StepTensor> parameters, const StepTensor& loss,
                                    const VerdictAddresses& addresses) {
  MEZZO_CHECK(parameters.size() == table.is_param.size(), "the parameters are not those judged");
  const auto trained = [&](int parameter) {
    return table.is_param[static_cast<size_t>(parameter)];
  };
  // Who reads a trained parameter first, and which parameters any op reads.
  std::vector<uint32_t> reader(parameters.size());
  std::vector<bool> read(parameters.size()), asked(table.is_param);
  std::vector<uint32_t> entries, list;
  for (const ir::VerdictEntry& entry : table.entries) {
    const auto producers = static_cast<uint32_t>(list.size());
    for (int producer : entry.producers) list.push_back(static_cast<uint32_t>(producer));
    const auto first_parameter = static_cast<uint32_t>(list.size());
    bool casts = false;
    for (int parameter : entry.parameters) {
      const auto index = static_cast<size_t>(parameter);
      if (!read[index]) reader[index] = static_cast<uint32_t>(entry.word);
      read[index] = true;
      casts |= entry.casts_parameter && trained(parameter);
      if (parameter == table.scale_parameter) continue;
      asked[index] = true;
      list.push_back(static_cast<uint32_t>(parameter));
    }
    entries.insert(entries.end(),
                   {static_cast<uint32_t>(entry.word), static_cast<uint32_t>(entry.role),
                    (entry.has_domain ? 1u : 0u) | (casts ? 2u : 0u), producers, first_parameter,
                    static_cast<uint32_t>(list.size())});
  }

  const uint64_t scale = table.scale_parameter < 0
                             ? 0
                             : parameters[static_cast<size_t>(table.scale_parameter)].address;
  std::vector<uint64_t> out = {addresses.result, addresses.ok, addresses.index_flag,
                               addresses.words, scale};
  add_tensor(out, loss);
  out.push_back(table.entries.size());
  out.push_back(parameters.size());
  const size_t places = out.size();
  out.insert(out.end(), {0, 0, 0, 0});  // entry, list, bad; arrived
  for (size_t i = 0; i < parameters.size(); ++i) {
    add_tensor(out, parameters[i], asked[i]);
    out.push_back(pair(table.is_param[i] ? 1 : 0, reader[i]));
  }
  out[places] = add_numbers(out, entries);
  out[places + 1] = add_numbers(out, list);
  out[places + 2] = add_numbers(out, std::vector<uint32_t>(parameters.size()));
  return out;
}

}  // namespace mezzo::codegen
