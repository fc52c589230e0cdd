// SPDX-License-Identifier: Apache-2.0
#include <ops/gradient_support.h>

#include <mezzo/passes/grad_function.h>

#include <cmath>

namespace mezzo::test {

using ir::Builder;
using ir::DType;
using ir::Function;
using ir::InterpreterTensor;
using ir::Module;
using ir::OpKind;
using ir::Type;
using ir::Value;

namespace {

Value sum_all(Builder& builder, Value value) {
  std::vector<int64_t> axes;
  for (int i = 0; i < value.shape().rank(); ++i) axes.push_back(i);
  return axes.empty() ? value : builder.sum(value, axes);
}

std::string input_name(size_t index) { return "x" + std::to_string(index); }

std::vector<std::string> wrt_names(const std::vector<Input>& inputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].differentiated) names.push_back(input_name(i));
  return names;
}

double draw(char domain, std::mt19937& random) {
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  double sign = uniform(0, 1) < 0.5 ? -1 : 1;
  switch (domain) {
    case 'p':
      return uniform(0.4, 2.5);
    case 'u':
      return uniform(0.1, 0.9);
    case 's':
      return uniform(-1, 1);
    case 'n':
      return sign * uniform(0.5, 2);
    case 'c':
      return uniform(-0.9, 0.9);
    case 'g':
      return uniform(1.2, 3);
    case 'i':
      return std::floor(uniform(0, 3));
    case 'b':
      return uniform(0, 1) < 0.5 ? 0 : 1;
    default:
      return sign * uniform(0.1, 2);
  }
}

double run_scalar(const Module& module, const char* function,
                  const std::vector<InterpreterTensor>& tensors) {
  return ir::run(module, *module.function(function), tensors).results[0].number(0);
}

/// Compares `gradients` of `function` with central differences of its first result.
void compare(const Module& module, const char* function, const std::vector<Input>& inputs,
             const std::vector<InterpreterTensor>& tensors,
             const std::vector<InterpreterTensor>& gradients, std::mt19937& random) {
  // Truncation is of order h^2, rounding of order 2^-53 / h; both stay far below the bound.
  constexpr double kStep = 1e-5, kBound = 2e-7;
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].differentiated) continue;
    const InterpreterTensor& gradient = gradients[next++];
    REQUIRE(gradient.type == tensors[i].type);
    int64_t elements = gradient.elements();
    int64_t probes = elements <= 64 ? elements : 8;
    for (int64_t probe = 0; probe < probes; ++probe) {
      std::vector<double> direction(static_cast<size_t>(elements), 0.0);
      if (elements <= 64)
        direction[static_cast<size_t>(probe)] = 1;
      else
        for (double& entry : direction) entry = draw('s', random);
      std::vector<InterpreterTensor> up = tensors, down = tensors;
      double expected = 0, magnitude = 0;
      for (int64_t e = 0; e < elements; ++e) {
        double part = direction[static_cast<size_t>(e)];
        up[i].set_number(e, tensors[i].number(e) + kStep * part);
        down[i].set_number(e, tensors[i].number(e) - kStep * part);
        expected += part * gradient.number(e);
        magnitude += std::abs(part * gradient.number(e));
      }
      double high = run_scalar(module, function, up), low = run_scalar(module, function, down);
      double difference = (high - low) / (2 * kStep);
      double bound = kBound * (1 + magnitude + std::abs(high));
      INFO("@" << std::string(function) << " by " << input_name(i) << ", probe " << probe
               << ": gradient " << expected << ", difference " << difference);
      CHECK(std::abs(expected - difference) <= bound);
    }
  }
}

/// @second: sum over the differentiated inputs of sum(gradient * direction); the directions are
/// further parameters.
void add_second(Module& module, const std::vector<Input>& inputs) {
  Function& loss = *module.function("loss");
  Function* second = module.add_function("second");
  std::vector<Value> operands, terms;
  std::vector<int64_t> wrt;
  for (Value parameter : loss.parameters())
    operands.push_back(second->add_parameter(parameter.type(), parameter.name()));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].differentiated) wrt.push_back(static_cast<int64_t>(i));
  Builder builder(second->body());
  ir::Op* gradient = builder.create(OpKind::Gradient, operands,
                                    {{"func", ir::Symbol{"loss"}}, {"wrt", ir::Attr(wrt)}});
  for (size_t i = 0; i < wrt.size(); ++i) {
    Value by = gradient->result(static_cast<int>(i) + 1);
    Value direction = second->add_parameter(by.type(), "r" + std::to_string(i));
    terms.push_back(sum_all(builder, builder.make(OpKind::Mul, {by, direction})));
  }
  Value total = builder.create(OpKind::AddN, terms)->result();
  second->set_results(std::vector<Value>{total}, {ir::Attrs()});
}

}  // namespace

std::vector<double> numbers(const InterpreterTensor& tensor) {
  std::vector<double> out;
  for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(tensor.number(i));
  return out;
}

std::unique_ptr<Module> make_loss(const std::vector<Input>& inputs, const BuildBody& body) {
  auto module = std::make_unique<Module>("test");
  Function* loss = module->add_function("loss");
  std::vector<Value> parameters;
  for (size_t i = 0; i < inputs.size(); ++i)
    parameters.push_back(loss->add_parameter(inputs[i].type, input_name(i)));
  Builder builder(loss->body());
  Value result = body(builder, parameters);
  Value weights = loss->add_parameter(result.type(), "weights");
  Value total = sum_all(builder, builder.make(OpKind::Mul, {result, weights}));
  loss->set_results(std::vector<Value>{total}, {ir::Attrs()});
  return module;
}

std::vector<InterpreterTensor> random_inputs(const Module& module, const std::vector<Input>& inputs,
                                             unsigned seed) {
  std::mt19937 random(seed);
  std::vector<InterpreterTensor> tensors;
  for (size_t i = 0; i <= inputs.size(); ++i) {
    char domain = i < inputs.size() ? inputs[i].domain : 's';
    InterpreterTensor& tensor =
        tensors.emplace_back(module.function("loss")->parameter(static_cast<int>(i)).type());
    for (int64_t e = 0; e < tensor.elements(); ++e) tensor.set_number(e, draw(domain, random));
  }
  return tensors;
}

Gradients gradients_of(const Module& module, const std::vector<Input>& inputs,
                       const std::vector<InterpreterTensor>& tensors) {
  std::unique_ptr<Module> copy = module.clone();
  passes::PassContext context;
  Function* gradient =
      passes::append_gradient_function(*copy, "loss", wrt_names(inputs), std::nullopt, context);
  std::vector<InterpreterTensor> results = ir::run(*copy, *gradient, tensors).results;
  double loss = results[0].number(0);
  results.erase(results.begin());
  return {loss, std::move(results)};
}

void check_gradients(const std::vector<Input>& inputs, const BuildBody& body, bool second,
                     unsigned seed) {
  std::unique_ptr<Module> module = make_loss(inputs, body);
  std::vector<InterpreterTensor> tensors = random_inputs(*module, inputs, seed);
  std::mt19937 random(seed + 1);
  Gradients first = gradients_of(*module, inputs, tensors);
  compare(*module, "loss", inputs, tensors, first.by_input, random);
  if (!second) return;

  add_second(*module, inputs);
  for (int i = static_cast<int>(tensors.size()); i < module->function("second")->num_parameters();
       ++i) {
    InterpreterTensor& direction =
        tensors.emplace_back(module->function("second")->parameter(i).type());
    for (int64_t e = 0; e < direction.elements(); ++e) direction.set_number(e, draw('s', random));
  }
  passes::PassContext context;
  Function* gradient =
      passes::append_gradient_function(*module, "second", wrt_names(inputs), std::nullopt, context);
  std::vector<InterpreterTensor> results = ir::run(*module, *gradient, tensors).results;
  results.erase(results.begin());
  compare(*module, "second", inputs, tensors, results, random);
}

Gradients gradients_at(const std::vector<InterpreterTensor>& points, const BuildBody& body) {
  std::vector<Input> inputs;
  for (const InterpreterTensor& point : points)
    inputs.push_back({point.type, 'a', point.holds_floats()});
  std::unique_ptr<Module> module = make_loss(inputs, body);
  std::vector<InterpreterTensor> tensors = points;
  tensors.push_back(ir::full_tensor(
      module->function("loss")->parameter(static_cast<int>(points.size())).type(), 1));
  return gradients_of(*module, inputs, tensors);
}

}  // namespace mezzo::test
