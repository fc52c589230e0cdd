// SPDX-License-Identifier: Apache-2.0
// Peaks of A100, H100, RTX 4090 and 3090 as llm.c's llmc/mfu.h has them; cuBLAS on the H100 as
// measured for blackwell-tensorcore-kernels; L20 from xlite-dev/HGEMM; copies of H100 and H200 as
// read on such cards.
#include <gpu/figures.h>

namespace mezzo::gpu {

namespace {

// More special names first.
constexpr CardFigures kCards[] = {
    {"H200", 989, 4300, 4800, {0, 0, 0, 0, 769}},
    {"H100 PCIe", 756, 0, 2000, {}},
    {"H100", 989, 3000, 3350, {31, 178, 555, 733, 762}},
    {"A100-SXM4-80GB", 312, 0, 2040, {}},
    {"A100", 312, 0, 1555, {}},
    {"RTX 4090", 165, 0, 1008, {}},
    {"RTX 3090", 71, 0, 936, {}},
    {"L20", 119.5, 0, 864, {}},
    {"RTX PRO 6000", 440, 0, 1800, {}},
};
constexpr CardFigures kUnknown;

}  // namespace

const CardFigures& figures_of(std::string_view device_name) {
  for (const CardFigures& card : kCards)
    if (device_name.find(card.name) != std::string_view::npos) return card;
  return kUnknown;
}

}  // namespace mezzo::gpu
