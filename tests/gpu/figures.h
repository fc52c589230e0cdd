// SPDX-License-Identifier: Apache-2.0
// What is known of some cards, to put beside what is measured.
#pragma once

#include <string_view>

namespace mezzo::gpu {

struct CardFigures {
  std::string_view name;  // a part of the device's name
  /// Dense f16 or bf16 products summed in f32, by the data sheet, in TFLOP/s.
  double peak_tflops = 0;
  /// Bytes read and written by a copy on the device a second, measured, in GB/s; 0: by the data
  /// sheet.
  double copy_gbytes = 0, sheet_gbytes = 0;
  /// cuBLAS on random f16 numbers in TFLOP/s, for squares of 512, 1024, 2048, 4096, 8192; 0: not
  /// known.
  double cublas[5] = {};
};

/// Nothing is known where the name is empty.
const CardFigures& figures_of(std::string_view device_name);

/// The edge of a square product's figures.
inline constexpr int kProductSizes[] = {512, 1024, 2048, 4096, 8192};

}  // namespace mezzo::gpu
