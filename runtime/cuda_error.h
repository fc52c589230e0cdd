// SPDX-License-Identifier: Apache-2.0
// What the codes of the CUDA driver mean and what to do about them, in one table.
#pragma once

#include <mezzo/runtime/cuda_api.h>

#include <string>
#include <string_view>

namespace mezzo::runtime {

/// `CUDA_ERROR_NO_DEVICE (100)`.
std::string cuda_code_text(cuda::Result code);

/// `CALL failed: NAME (CODE): what it means` and a line `note: what to do` where there is advice.
/// `details`, if given, replaces the table's meaning.
std::string cuda_error_text(std::string_view call, cuda::Result code,
                            std::string_view details = "");

/// The advice of the table without `note: `, or "".
std::string_view cuda_advice(cuda::Result code);

/// Whether the fault of a kernel makes every later call on its context fail.
bool is_sticky(cuda::Result code);

/// Throws DeviceError with cuda_error_text unless `code` is Success.
void check_cuda(cuda::Result code, std::string_view call, std::string_view details = "");

}  // namespace mezzo::runtime
