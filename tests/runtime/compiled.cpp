// SPDX-License-Identifier: Apache-2.0
#include <runtime/compiled.h>

#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/ir/plan.h>
#include <mezzo/runtime/launch_text.h>
#include <support/random_array.h>
#include <support/run_op.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace mezzo::test {

std::string mlp_step_text(int rows, int in, int hidden) {
  std::string x = fmt::format("tensor<{}x{}xf32>", rows, in);
  std::string y = fmt::format("tensor<{}xi32>", rows);
  std::string w1 = fmt::format("tensor<{}x{}xf32>", in, hidden);
  std::string b1 = fmt::format("tensor<{}xf32>", hidden);
  std::string w2 = fmt::format("tensor<{}x3xf32>", hidden);
  std::string h = fmt::format("tensor<{}x{}xf32>", rows, hidden);
  std::string z = fmt::format("tensor<{}x3xf32>", rows);
  std::string parameters =
      fmt::format("%x: {}, %label: {}, %w1: {} {{param}}, %b1: {} {{param}}, %w2: {} {{param}}", x,
                  y, w1, b1, w2);
  std::string text = "module @mlp {\n";
  text += fmt::format("  func @loss({}) -> tensor<f32> {{\n", parameters);
  text += fmt::format("    %0 = matmul %x, %w1 : ({}, {}) -> {}\n", x, w1, h);
  text += fmt::format("    %1 = add %0, %b1 : ({}, {}) -> {}\n", h, b1, h);
  text += fmt::format("    %h = relu %1 : {}\n", h);
  text += fmt::format("    %z = matmul %h, %w2 : ({}, {}) -> {}\n", h, w2, z);
  text += fmt::format("    %l = cross_entropy %z, %label : ({}, {}) -> tensor<f32>\n", z, y);
  text += "    return %l : tensor<f32>\n  }\n";
  text += fmt::format(
      "  func @step({}, %lr: tensor<f32> {{state}}) -> (tensor<f32>, {} {{updates = %w1}}, {} "
      "{{updates = %b1}}, {} {{updates = %w2}}) {{\n",
      parameters, w1, b1, w2);
  text += fmt::format(
      "    %l, %dw1, %db1, %dw2 = gradient %x, %label, %w1, %b1, %w2 {{func = @loss, wrt = [2, 3, "
      "4]}} : ({}, {}, {}, {}, {}) -> (tensor<f32>, {}, {}, {})\n",
      x, y, w1, b1, w2, w1, b1, w2);
  for (auto [name, type] : {std::pair("w1", w1), std::pair("b1", b1), std::pair("w2", w2)})
    text += fmt::format("    %{0}n = sgd %{0}, %d{0}, %lr : ({1}, {1}, tensor<f32>) -> {1}\n", name,
                        type);
  text += fmt::format("    return %l, %w1n, %b1n, %w2n : (tensor<f32>, {}, {}, {})\n  }}\n}}\n", w1,
                      b1, w2);
  return text;
}

runtime::DeviceId test_device() {
  const char* name = std::getenv("MEZZO_TEST_DEVICE");
  const runtime::DeviceId device = runtime::device_by_name(name && *name ? name : "cpu");
  std::string reason;
  if (device.kind == runtime::DeviceId::Kind::Cuda && !codegen::nvrtc_available(&reason)) {
    fmt::print("skipped: {}: {}\n", runtime::to_string(device), reason);
    std::fflush(stdout);
    std::_Exit(77);  // the whole test: ctest knows this code
  }
  return device;
}

runtime::CompileOptions in_memory(runtime::CompileOptions options) {
  options.disk_cache = false;
  options.device = test_device();
  return options;
}

std::unique_ptr<runtime::Executable> compile_text(const std::string& text,
                                                  const std::string& function,
                                                  const runtime::CompileOptions& options,
                                                  runtime::CompileReport* report) {
  return runtime::compile(ir::parse(text), function, options, report);
}

Outcome run_compiled(runtime::Executable& executable, const Tensors& inputs, bool bare) {
  const ir::Function& function = executable.function();
  std::vector<std::vector<std::byte>> in, out;
  for (const ir::InterpreterTensor& tensor : inputs) {
    in.emplace_back(static_cast<size_t>(tensor.type.bytes()));
    to_bytes(tensor, in.back());
  }
  for (ir::Value value : function.results())
    out.emplace_back(static_cast<size_t>(value.type().bytes()));
  std::vector<void*> parameters, results;
  for (auto& bytes : in) parameters.push_back(bytes.data());
  for (size_t i = 0; i < out.size(); ++i)
    results.push_back(bare && function.updated_parameter(static_cast<int>(i)) ? nullptr
                                                                              : out[i].data());
  runtime::RunStatus status = executable.run(parameters, results);
  Outcome outcome;
  for (size_t i = 0; i < in.size(); ++i)
    outcome.parameters.push_back(ir::from_bytes(inputs[i].type, in[i]));
  for (size_t i = 0; i < out.size(); ++i) {
    ir::Value updated = function.updated_parameter(static_cast<int>(i));
    outcome.results.push_back(bare && updated
                                  ? outcome.parameters[static_cast<size_t>(updated.index())]
                                  : ir::from_bytes(function.results()[i].type(), out[i]));
  }
  outcome.words.assign(status.words.begin(), status.words.end());
  outcome.index_out_of_range = status.index_out_of_range;
  return outcome;
}

int64_t kernels_for_two_threads(const runtime::Executable& executable) {
  int64_t count = 0;
  for (const ir::Op& op : executable.function().body())
    count += op.kind() == ir::OpKind::Kernel && ir::Plan::from(op.plan()).tasks > 1 &&
             runtime::traffic_bytes(op) >= int64_t{1} << 20;
  return count;
}

Outcome run_interpreted(const runtime::Executable& executable, const Tensors& inputs) {
  const ir::Function& function = executable.function();
  ir::RunOptions options;
  options.resource = [&](const std::string& name, const ir::Type& type) {
    return ir::from_bytes(type, executable.module().resource(name)->bytes);
  };
  ir::RunResult run = ir::run(executable.module(), function, inputs, options);
  Outcome outcome{std::move(run.results), inputs, std::move(run.words), run.index_range};
  for (int i = 0; i < function.num_results(); ++i)
    if (ir::Value updated = function.updated_parameter(i))
      outcome.parameters[static_cast<size_t>(updated.index())] =
          outcome.results[static_cast<size_t>(i)];
  return outcome;
}

std::vector<Tensors> run_everywhere(ir::OpKind kind, const Tensors& inputs,
                                    const ir::Attrs& attrs) {
  std::vector<Tensors> out{run_op(kind, inputs, attrs).results};
  std::vector<ir::Type> types;
  for (const ir::InterpreterTensor& input : inputs) types.push_back(input.type);
  const std::unique_ptr<ir::Module> module = one_op_module(kind, types, attrs);
  for (bool fuse : {true, false}) {
    runtime::CompileOptions options = in_memory();
    options.fuse = fuse;
    const std::unique_ptr<runtime::Executable> executable =
        runtime::compile(module->clone(), module->functions()[0]->name(), options);
    out.push_back(run_compiled(*executable, inputs).results);
  }
  return out;
}

Tensors inputs_for(const ir::Function& function, uint64_t seed,
                   const std::vector<std::pair<std::string, double>>& scalars) {
  Tensors inputs;
  for (int i = 0; i < function.num_parameters(); ++i) {
    const ir::Type& type = function.parameter(i).type();
    char domain = ir::is_float(type.dtype) ? 's' : 'i';
    ir::InterpreterTensor tensor = type.elements() > 1
                                       ? random_array(domain, type, seed + static_cast<uint64_t>(i),
                                                      0, type.dtype == ir::DType::Bool ? 2 : 3)
                                       : ir::InterpreterTensor(type);
    for (const auto& [name, value] : scalars)
      if (function.parameter(i).name() == name) tensor = ir::full_tensor(type, value);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::string describe_distance(const ir::InterpreterTensor& got,
                              const ir::InterpreterTensor& expected) {
  if (!(got.type == expected.type))
    return to_string(got.type) + " instead of " + to_string(expected.type);
  double bound = 2e-5;
  if (got.type.dtype == ir::DType::F16) bound = 2e-3;
  if (got.type.dtype == ir::DType::BF16) bound = 2e-2;
  double largest = 0;
  for (int64_t i = 0; i < expected.elements(); ++i)
    if (std::isfinite(expected.number(i)))
      largest = std::max(largest, std::abs(expected.number(i)));
  for (int64_t i = 0; i < expected.elements(); ++i) {
    double a = got.number(i), b = expected.number(i);
    if (ir::same_bits(a, b)) continue;
    if (expected.holds_floats() && std::abs(a - b) <= bound * std::max(largest, std::abs(b)))
      continue;
    return fmt::format("element {} is {}, not {} (largest {})", i, a, b, largest);
  }
  return "";
}

}  // namespace mezzo::test
