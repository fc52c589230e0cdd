// SPDX-License-Identifier: Apache-2.0
// Modules from text compiled and run, and the interpreter on the very same planned module.
#pragma once

#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/parser.h>
#include <mezzo/runtime/compiler.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::test {

using Tensors = std::vector<ir::InterpreterTensor>;

/// A step of a network with two dense layers: parameters x, label, w1, b1, w2, lr; `rows` examples
/// of `in` features, `hidden` units, 3 classes.
std::string mlp_step_text(int rows, int in, int hidden);

/// Where kernels run: MEZZO_TEST_DEVICE, else the processor.
runtime::DeviceId test_device();

/// Without the disk cache, for the test device.
runtime::CompileOptions in_memory(runtime::CompileOptions options = {});

std::unique_ptr<runtime::Executable> compile_text(const std::string& text,
                                                  const std::string& function,
                                                  const runtime::CompileOptions& options,
                                                  runtime::CompileReport* report = nullptr);

struct Outcome {
  Tensors results;
  /// After the run: updated ones have changed.
  Tensors parameters;
  std::vector<uint32_t> words;
  bool index_out_of_range = false;
};

/// One run; results that update a parameter get no memory of their own when `bare` is true, and are
/// read from the parameter.
Outcome run_compiled(runtime::Executable& executable, const Tensors& inputs, bool bare = false);

/// Kernels of several tasks that move enough bytes for a second thread to be woken.
int64_t kernels_for_two_threads(const runtime::Executable& executable);

/// The interpreter on the planned module of `executable`.
Outcome run_interpreted(const runtime::Executable& executable, const Tensors& inputs);

/// All results of an op by the interpreter, by its kernels, and by kernels of one op each.
std::vector<Tensors> run_everywhere(ir::OpKind kind, const Tensors& inputs, const ir::Attrs& attrs);

/// Inputs for the parameters of a function: small floats from `seed`, labels 0 to 2, scalar states
/// given by name in `scalars`, else 0.
Tensors inputs_for(const ir::Function& function, uint64_t seed,
                   const std::vector<std::pair<std::string, double>>& scalars);

/// "" when all elements agree within what f32 sums of a few thousand terms may differ, one 16-bit
/// rounding for 16-bit types; non-finite elements must be the same.
std::string describe_distance(const ir::InterpreterTensor& got,
                              const ir::InterpreterTensor& expected);

}  // namespace mezzo::test
