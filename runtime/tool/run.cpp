// SPDX-License-Identifier: Apache-2.0
// `mezzo run`: compiles or interprets a function on arrays from files or from a seed, writes every
// result as a file and says in a line what it holds.
#include <mezzo/ir/error.h>
#include <mezzo/runtime/memory.h>
#include <mezzo/runtime/npy.h>
#include <mezzo/runtime/numerics_text.h>
#include <mezzo/runtime/tool/commands.h>
#include <mezzo/runtime/tool/program.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

namespace mezzo::tool {

namespace {

using runtime::HostArray;

std::string parameter_text(const ir::Function& function, int index) {
  return fmt::format("{} ({})", function.parameter(index).name(),
                     to_string(function.parameter(index).type()));
}

/// `NAME=FILE` by name; every name is a parameter.
std::map<std::string, std::string> input_files(const RunArguments& arguments,
                                               const ir::Function& function) {
  std::vector<std::string> known;
  for (ir::Value parameter : function.parameters()) known.emplace_back(parameter.name());
  std::map<std::string, std::string> files;
  for (const std::string& input : arguments.inputs) {
    size_t equals = input.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError({}, fmt::format("--in takes NAME=FILE.npy, not '{}'", input));
    std::string name = input.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UserError({},
                      fmt::format("@{} has no parameter '{}'{}", function.name(), name,
                                  ir::did_you_mean(name, known)),
                      fmt::format("its parameters are {}", fmt::join(known, ", ")));
    if (!files.emplace(name, input.substr(equals + 1)).second)
      throw UserError({}, fmt::format("--in gives '{}' twice", name));
  }
  return files;
}

HostArray read_input(const std::string& file, const ir::Function& function, int index) {
  const ir::Type& type = function.parameter(index).type();
  HostArray array = runtime::read_npy(file);
  bool floats = is_float(type.dtype) && is_float(array.type.dtype);
  if (!(array.type.shape == type.shape) || (!floats && array.type.dtype != type.dtype))
    throw UserError({},
                    fmt::format("{}: holds {}, but parameter {}", file, to_string(array.type),
                                parameter_text(function, index)),
                    "shapes must agree; floats are converted, integers and bools are not");
  return array.type.dtype == type.dtype ? array : array.converted_to(type.dtype);
}

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The state of the random numbers: seed and step.
bool is_rng(const ir::Function& function, int index) {
  ir::Value parameter = function.parameter(index);
  return parameter.type() == ir::Type(ir::DType::I64, {2}) && parameter.name() == "rng";
}

/// Floats in [-1, 1), integers 0 or 1, scalar f32 states 1, `%rng` the seed at step 0. A number
/// depends on the seed, the place of the parameter and the place of the element alone.
HostArray random_input(const ir::Function& function, int index, uint64_t seed) {
  const ir::Type& type = function.parameter(index).type();
  HostArray array(type);
  if (is_rng(function, index)) {
    array.set_integer(0, static_cast<int64_t>(seed));
    return array;
  }
  bool ones = type == ir::Type(ir::DType::F32, {}) && function.is_state(index);
  uint64_t stream = mixed(mixed(seed) ^ static_cast<uint64_t>(index));
  for (int64_t i = 0; i < type.elements(); ++i) {
    uint64_t bits = mixed(stream + static_cast<uint64_t>(i));
    if (ones)
      array.set(i, 1);
    else if (is_float(type.dtype))  // 8 bits: exact in every float type, and never 1
      array.set(i, static_cast<double>(bits >> 56) / 128 - 1);
    else
      array.set_integer(i, static_cast<int64_t>(bits >> 63));
  }
  return array;
}

std::vector<HostArray> gather_inputs(const RunArguments& arguments, const ir::Function& function) {
  std::map<std::string, std::string> files = input_files(arguments, function);
  std::vector<HostArray> inputs;
  std::string missing;
  for (int i = 0; i < function.num_parameters(); ++i) {
    auto file = files.find(std::string(function.parameter(i).name()));
    if (file != files.end())
      inputs.push_back(read_input(file->second, function, i));
    else if (arguments.random_inputs)
      inputs.push_back(random_input(function, i, *arguments.random_inputs));
    else
      missing += (missing.empty() ? "" : ", ") + parameter_text(function, i);
  }
  if (!missing.empty())
    throw UserError({}, fmt::format("@{}: no input for {}", function.name(), missing),
                    "give --in NAME=FILE.npy, or --random-inputs=SEED for all that are missing");
  return inputs;
}

void write_result(const std::string& folder, int index, const HostArray& array) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw UserError({}, fmt::format("{}: cannot make the folder: {}", folder, error.message()));
  runtime::write_npy(std::filesystem::path(folder) / fmt::format("{}.npy", index), array);
}

/// Before anything is filled: the system grants more than there is and then ends the process.
void check_memory(const ir::Function& function) {
  double bytes = 0;
  for (ir::Value value : function.parameters()) bytes += static_cast<double>(value.type().bytes());
  for (ir::Value value : function.results()) bytes += static_cast<double>(value.type().bytes());
  if (bytes > static_cast<double>(runtime::physical_memory()))
    runtime::fail_out_of_memory("the parameters and results of @" + function.name(), bytes);
}

}  // namespace

int run(const RunArguments& arguments) {
  std::unique_ptr<runtime::Program> program = load_program(arguments);
  const ir::Function& function = program->function();
  check_memory(function);
  std::vector<HostArray> inputs = gather_inputs(arguments, function);
  std::vector<HostArray> results;
  for (ir::Value value : function.results()) results.emplace_back(value.type());
  std::vector<HostArray*> out;
  for (HostArray& array : results) out.push_back(&array);
  const std::vector<runtime::Binding> in(inputs.begin(), inputs.end());
  const runtime::IndexFlag flag = program->run(in, out);
  for (size_t i = 0; i < results.size(); ++i) {
    write_result(arguments.output, static_cast<int>(i), results[i]);
    std::printf("%s\n", runtime::result_line(function, static_cast<int>(i), results[i]).c_str());
  }
  if (!flag.raised()) return 0;
  const std::vector<bool> updated = runtime::updated_parameters(function);
  const auto read = [&](int i) {
    const auto place = static_cast<size_t>(i);
    return updated[place] ? nullptr : &inputs[place];
  };
  const auto fault = runtime::find_index_fault(*program, read);
  const std::string text = fault ? fault->text() : "an index or a label is out of range";
  const std::string place =
      fault && fault->location().known() ? to_string(fault->location()) + ": " : "";
  std::fprintf(stderr, "%serror: %s; the results are not valid\n", place.c_str(), text.c_str());
  return 1;
}

}  // namespace mezzo::tool
