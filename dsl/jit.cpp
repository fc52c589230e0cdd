// SPDX-License-Identifier: Apache-2.0
#include <mezzo/dsl/jit.h>

#include <mezzo/dsl/engine.h>
#include <mezzo/dsl/located.h>
#include <mezzo/dsl/trace.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/policy.h>
#include <mezzo/runtime/log.h>

#include <map>
#include <mutex>

namespace mezzo::detail {

/// A function that was traced and compiled for one combination of argument types.
struct JitPrograms::Entry {
  std::string traced;
  std::unique_ptr<Program> program;
  std::map<std::string, size_t, std::less<>> inputs, weights;  // by parameter name
  std::vector<ProgramParameter> parameters;
  bool has_run = false;
  std::string rng_name;
};

struct JitPrograms::State {
  /// Calls take turns: a program has one arena, and a call may compile.
  std::recursive_mutex turn;
  std::map<std::string, Entry> entries;
  bool tracing = false;
  Array rng{ir::Type(i64, {2})};
};

JitPrograms::JitPrograms(TensorFunction function, JitOptions options, ir::Location location)
    : function_(std::move(function)),
      options_(std::move(options)),
      location_(location),
      state_(std::make_unique<State>()) {
  passes::check_rounding(options_.rounding, location_);
  state_->rng.set_integer(0, static_cast<int64_t>(options_.seed));
}

JitPrograms::~JitPrograms() = default;

JitPrograms& live_programs(JitPrograms* programs, ir::Location location) {
  if (!programs)
    throw UserError(location, "jit: the function was moved from",
                    "use the one that it was moved to");
  return *programs;
}

JitPrograms::Entry& JitPrograms::entry(std::span<const Array> arguments, ir::Location location) {
  if (state_->tracing)
    throw UserError(location, "jit: the function calls itself while it is traced",
                    "a traced function works on tensors: call the C++ function that was given to "
                    "jit, on tensors and with an end");
  std::string signature;
  for (const Array& argument : arguments) signature += to_string(argument.type) + ";";
  auto found = state_->entries.find(signature);
  if (found != state_->entries.end()) return found->second;

  Entry entry;
  Trace trace("jit", options_.policy ? options_.policy->storage() : f32);
  trace.training = options_.training;
  ir::Function* main = trace.begin_function("main");
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < arguments.size(); ++i)
    inputs.push_back(trace.input(arguments[i].type, "x" + std::to_string(i)));
  std::vector<ir::Value> results;
  for (const Tensor& result : traced(inputs))
    results.push_back(trace.value(result, "jit", location_));
  std::vector<ir::Attrs> attrs(results.size());
  if (trace.uses_rng()) {
    ir::Value rng = trace.rng({});
    results.push_back(trace.make(ir::OpKind::RngAdvance, {rng}, {}, {}));
    attrs.push_back({{"updates", ir::ValueRef{rng.def()}}});
  }
  trace.end_function(results, std::move(attrs));
  // Names at the end of the trace: the function may have named its arguments.
  for (size_t i = 0; i < arguments.size(); ++i)
    entry.inputs.emplace(main->parameter(static_cast<int>(i)).name(), i);
  entry.parameters = trace.parameters();
  for (size_t i = 0; i < entry.parameters.size(); ++i)
    entry.weights.emplace(entry.parameters[i].name, i);
  entry.rng_name = trace.rng_name();
  entry.traced = ir::print(trace.module());
  ProgramOptions options;
  options.device = options_.device;
  options.policy = options_.policy ? options_.policy->name() : "";
  options.loss_scale = "off";
  options.rounding = options_.rounding;
  options.threads = options_.threads;
  entry.program =
      located(location_, "", [&] { return build_program(trace.take_module(), "main", options); });
  for (const passes::Finding& finding : trace.findings)
    runtime::log_warning(passes::log_text(finding));
  for (const passes::Finding& finding : entry.program->report.findings)
    runtime::log_warning(passes::log_text(finding));
  return state_->entries.emplace(signature, std::move(entry)).first->second;
}

std::vector<Tensor> JitPrograms::traced(std::span<const Tensor> inputs) {
  const FlagScope tracing(state_->tracing);
  return function_(inputs);
}

std::string JitPrograms::ir(std::span<const Array> arguments, ir::Location location) {
  std::lock_guard turn(state_->turn);
  return entry(arguments, location).traced;
}

std::vector<Array> JitPrograms::call(std::span<const Array> arguments, ir::Location location) {
  for (size_t i = 0; i < arguments.size(); ++i)
    located(location, "jit: argument " + std::to_string(i), [&] { arguments[i].check_size(); });
  std::lock_guard turn(state_->turn);
  Entry& entry = this->entry(arguments, location);
  if (!entry.has_run) {
    choose_streams(entry.parameters, options_.seed);
    for (const passes::Finding& finding : find_twins(entry.parameters, location_))
      runtime::log_warning(passes::log_text(finding));
    entry.has_run = true;
  }
  const ir::Function& function = entry.program->function();
  std::vector<Array> weights(static_cast<size_t>(function.num_parameters()));
  std::vector<runtime::Binding> parameters;
  for (int i = 0; i < function.num_parameters(); ++i) {
    ir::Value parameter = function.parameter(i);
    auto input = entry.inputs.find(parameter.name());
    auto weight = entry.weights.find(parameter.name());
    if (input != entry.inputs.end()) {
      parameters.emplace_back(arguments[input->second]);
    } else if (weight != entry.weights.end()) {
      const ProgramParameter& bound = entry.parameters[weight->second];
      parameters.emplace_back(bound.state->read(parameter.dtype(), options_.seed, bound.stream,
                                                weights[static_cast<size_t>(i)]));
    } else {
      MEZZO_CHECK(
          parameter.name() == entry.rng_name,
          "the program has a parameter '" + std::string(parameter.name()) + "' that nothing binds");
      parameters.emplace_back(state_->rng);
    }
  }
  std::vector<Array> out;
  std::vector<ir::Value> values = function.results();
  for (int i = 0; i < function.num_results(); ++i)
    if (!function.updated_parameter(i)) out.emplace_back(values[static_cast<size_t>(i)].type());
  std::vector<runtime::HostArray*> results;
  size_t next = 0;
  for (int i = 0; i < function.num_results(); ++i)
    results.push_back(function.updated_parameter(i) ? nullptr : &out[next++]);
  if (entry.program->run(parameters, results).raised()) {
    const auto argument = [&](int parameter) -> const Array* {
      auto input = entry.inputs.find(function.parameter(parameter).name());
      return input == entry.inputs.end() ? nullptr : &arguments[input->second];
    };
    if (const auto fault = runtime::find_index_fault(*entry.program, argument))
      throw UserError(
          fault->location(location), fault->text(),
          fault->remedy() + (location.known() ? "; the call is at " + to_string(location) : ""));
    const bool divides = ir::divides_integers(function.body());
    throw UserError(location,
                    std::string("jit: an index is out of range") +
                        (divides ? ", or an integer is divided by 0" : ""),
                    std::string("indices and labels must lie in [0, size); nothing wraps around") +
                        (divides ? "; divisors of floor_div and remainder must not be 0" : ""));
  }
  return out;
}

}  // namespace mezzo::detail
