// SPDX-License-Identifier: Apache-2.0
// The finite check and the verdict on the device, their PTX run by the interpreter of tests/ptx,
// against ir::judge: random programs, words, parameters and losses.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <mezzo/codegen/cuda/step_kernels.h>
#include <mezzo/ir/builder.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <codegen/cuda_device.h>
#include <codegen/cuda_kernels.h>
#include <codegen/device_buffers.h>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>

namespace mezzo::test {
namespace {

using codegen::StepTensor;
using ir::DType;
using ir::InterpreterTensor;
using ir::Shape;
using ir::Type;

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32};

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  /// 0 to n - 1.
  int64_t roll(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return roll(n) == 0; }
  template <class T, size_t N>
  T one_of(const T (&list)[N]) {
    return list[roll(static_cast<int64_t>(N))];
  }

 private:
  std::mt19937_64 engine_;
};

/// Finite, but for one element where `bad`; in front, behind or anywhere.
InterpreterTensor draw_tensor(Dice& dice, const Type& type, bool bad) {
  InterpreterTensor tensor(type);
  for (double& value : tensor.floats) value = static_cast<double>(dice.roll(60000)) - 30000;
  // The largest finite number is no infinity.
  for (int64_t i = 0; i < type.elements() && tensor.holds_floats(); i += 7)
    tensor.set_number(i, ir::largest_finite(type.dtype));
  if (!bad || tensor.floats.empty()) return tensor;
  const auto size = static_cast<int64_t>(tensor.floats.size());
  const int64_t places[] = {0, size - 1, dice.roll(size)};
  const double inf = std::numeric_limits<double>::infinity();
  const double values[] = {inf, -inf, std::numeric_limits<double>::quiet_NaN()};
  tensor.floats[static_cast<size_t>(dice.one_of(places))] = dice.one_of(values);
  return tensor;
}

Type draw_type(Dice& dice) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 100, 1000, 2053, 5000};
  return {dice.one_of(kTypes), Shape{dice.one_of(kSizes)}};
}

/// The kernels of one architecture.
class Steps {
 public:
  explicit Steps(const std::string& arch) : memory_(uint64_t{1} << 28) {
    const codegen::CudaSource source = codegen::cuda_step_kernels();
    source_ = source;
    const std::string ptx =
        codegen::compile_cuda(codegen::cuda_program(std::span(&source, 1)), arch).ptx;
    module_ = std::make_unique<ptx::Module>(ptx, memory_);
  }

  ptx::DeviceMemory& memory() { return memory_; }
  /// `blocks` 0: as many as the source says.
  void launch(size_t number, ptx::Address table, int64_t blocks, const ptx::Options& options) {
    const codegen::CudaLaunch& launch = source_.launches[number];
    const ptx::Kernel kernel = module_->kernel(launch.entry);
    const uint64_t values[] = {table};
    kernel.launch(memory_, {static_cast<uint32_t>(blocks ? blocks : launch.blocks)},
                  {static_cast<uint32_t>(launch.threads)}, 0, parameter_bytes(kernel, values),
                  options);
  }

 private:
  ptx::DeviceMemory memory_;
  codegen::CudaSource source_;
  std::unique_ptr<ptx::Module> module_;
};

ptx::Options draw_options(Dice& dice) {
  constexpr ptx::BlockOrder kOrders[] = {ptx::BlockOrder::Forward, ptx::BlockOrder::Reversed,
                                         ptx::BlockOrder::Random, ptx::BlockOrder::RoundRobin};
  ptx::Options options;
  options.order = dice.one_of(kOrders);
  options.seed = static_cast<uint64_t>(dice.roll(1000));
  options.hostile_divergence = dice.one_in(2);
  return options;
}

/// The table is as the host wrote it, ready for the next launch.
void check_table(const DeviceBuffers& buffers, ptx::Address address,
                 const std::vector<uint64_t>& table) {
  const auto bytes = buffers.bytes(address, static_cast<int64_t>(table.size() * sizeof(uint64_t)));
  CHECK(std::memcmp(bytes.data(), table.data(), bytes.size()) == 0);
}

int cases_wanted() {
  const char* text = std::getenv("MEZZO_FUZZ_GRAPHS");
  return text ? 20 * std::atoi(text) : 400;
}

/// Tensors with their flag words, of one check.
struct FiniteCase {
  std::vector<StepTensor> tensors;
  std::vector<uint64_t> words;
  bool finite = true;
};

FiniteCase draw_finite(Dice& dice, DeviceBuffers& buffers, int64_t count) {
  FiniteCase out;
  const int64_t rarity = 1 + dice.roll(2 * count + 1);
  for (int64_t i = 0; i < count; ++i) {
    const Type type = draw_type(dice);
    const bool watched = !dice.one_in(4), flagged = watched && dice.one_in(3);
    const InterpreterTensor tensor = draw_tensor(dice, type, dice.one_in(rarity));
    out.tensors.push_back({type, buffers.add(tensor)});
    // Other bits than NonFinite say nothing.
    const uint32_t word = static_cast<uint32_t>(dice.roll(4)) << 1 | (flagged ? 1u : 0u);
    out.words.push_back(watched ? buffers.add(std::span(&word, 1)) : 0);
    // A clear word is believed, whatever the memory holds.
    if (!watched || flagged) out.finite &= tensor.all_finite();
  }
  return out;
}

void check_finite_kernel(const std::string& arch, int cases) {
  Steps steps(arch);
  int finite = 0;
  for (int number = 0; number < cases; ++number) {
    CAPTURE(number);
    Dice dice(static_cast<uint64_t>(number));
    DeviceBuffers buffers(steps.memory());
    const FiniteCase drawn = draw_finite(dice, buffers, number % 50 == 0 ? 300 : dice.roll(6));
    const uint32_t index_flag = dice.one_in(8) ? 1 : 0;
    codegen::FiniteAddresses addresses;
    addresses.index_flag = buffers.add(std::span(&index_flag, 1));
    addresses.result = buffers.add(1);
    const std::vector<uint64_t> table =
        codegen::all_finite_table(drawn.tensors, drawn.words, addresses);
    const ptx::Address at = buffers.add(std::span<const uint64_t>(table));
    const bool expected = drawn.finite && index_flag == 0;
    finite += expected;
    for (int64_t blocks : {number % 100 == 0 ? int64_t{0} : 1 + dice.roll(4), int64_t{1}}) {
      buffers.write(addresses.result, uint8_t{0xCD});
      steps.launch(codegen::kAllFiniteLaunch, at, blocks, draw_options(dice));
      CHECK(buffers.read<uint8_t>(addresses.result) == (expected ? 1 : 0));
      check_table(buffers, at, table);
    }
  }
  fmt::print("finite check, {}: {} cases, {} finite\n", arch, cases, finite);
  CHECK(finite > cases / 10);
  CHECK(finite < cases * 9 / 10);
}

/// A program as the verdict sees it.
ir::VerdictTable draw_program(Dice& dice, int64_t entries, int64_t parameters) {
  ir::VerdictTable table;
  for (int64_t i = 0; i < parameters; ++i) table.is_param.push_back(dice.one_in(6));
  if (parameters > 0 && dice.one_in(2)) {
    table.scale_parameter = static_cast<int>(dice.roll(parameters));
    table.is_param[static_cast<size_t>(table.scale_parameter)] = false;
  }
  constexpr ir::Role kRoles[] = {ir::Role::Forward,  ir::Role::Forward, ir::Role::Backward,
                                 ir::Role::Backward, ir::Role::Update,  ir::Role::Scale};
  std::vector<int64_t> words;
  for (int64_t i = 0; i < entries + 3; ++i) words.push_back(i);
  for (int64_t i = entries + 2; i > 0; --i)
    std::swap(words[static_cast<size_t>(i)], words[static_cast<size_t>(dice.roll(i + 1))]);
  for (int64_t i = 0; i < entries; ++i) {
    ir::VerdictEntry entry;
    entry.word = words[static_cast<size_t>(i)];
    entry.role = dice.one_of(kRoles);
    entry.has_domain = dice.one_in(4);
    for (int64_t p = 0; p < entries; ++p)
      if (p != i && dice.one_in(entries / 2 + 1)) entry.producers.push_back(static_cast<int>(p));
    for (int64_t p = 0; p < parameters; ++p)
      if (dice.one_in(4)) entry.parameters.push_back(static_cast<int>(p));
    entry.casts_parameter = !entry.parameters.empty() && dice.one_in(8);
    table.entries.push_back(std::move(entry));
  }
  return table;
}

struct VerdictCase {
  ir::VerdictTable program;
  std::vector<uint32_t> words;
  std::vector<InterpreterTensor> parameters;
  InterpreterTensor loss;
  bool ok = true, index_range = false;

  int32_t expected() const {
    ir::StepFacts facts;
    facts.words = words;
    facts.index_range = index_range;
    facts.all_finite = ok;
    facts.loss_finite = loss.all_finite();
    if (program.scale_parameter >= 0)
      facts.scaled = parameters[static_cast<size_t>(program.scale_parameter)].floats[0] > 1;
    facts.parameter_has_nonfinite = [&](int parameter) {
      return !parameters[static_cast<size_t>(parameter)].all_finite();
    };
    return ir::judge(program, facts);
  }
};

VerdictCase draw_verdict(Dice& dice, int64_t entries) {
  VerdictCase out;
  const int64_t parameters = dice.roll(7);
  out.program = draw_program(dice, entries, parameters);
  int64_t words = 0;
  for (const ir::VerdictEntry& entry : out.program.entries) words = std::max(words, entry.word + 1);
  const int64_t rarity = 1 + dice.roll(entries + 1), bad = 2 + dice.roll(6);
  for (int64_t i = 0; i < words; ++i)
    out.words.push_back(static_cast<uint32_t>(dice.roll(4)) << 1 | (dice.one_in(rarity) ? 1u : 0u));
  for (int64_t i = 0; i < parameters; ++i) {
    const bool scale = i == out.program.scale_parameter;
    const Type type = scale ? Type(DType::F32, {}) : draw_type(dice);
    out.parameters.push_back(draw_tensor(dice, type, dice.one_in(bad)));
    const double scales[] = {0.5, 1, 2, 0x1p15};
    if (scale && !dice.one_in(4)) out.parameters.back().floats[0] = dice.one_of(scales);
  }
  const Type loss(dice.one_of(kTypes), dice.one_in(4) ? Shape{dice.roll(20)} : Shape{});
  out.loss = draw_tensor(dice, loss, dice.one_in(4));
  out.ok = dice.one_in(3);
  out.index_range = dice.one_in(10);
  return out;
}

/// What the kernel says of the case with that many blocks, and with one.
int32_t verdict_on_device(Steps& steps, Dice& dice, const VerdictCase& drawn, int64_t blocks) {
  DeviceBuffers buffers(steps.memory());
  std::vector<StepTensor> parameters;
  for (const InterpreterTensor& each : drawn.parameters)
    parameters.push_back({each.type, buffers.add(each)});
  const uint8_t ok = drawn.ok ? 1 : 0;
  const uint32_t index_flag = drawn.index_range ? 1 : 0;
  codegen::VerdictAddresses addresses;
  addresses.ok = buffers.add(std::span(&ok, 1));
  addresses.index_flag = buffers.add(std::span(&index_flag, 1));
  addresses.words = buffers.add(std::span<const uint32_t>(drawn.words));
  addresses.result = buffers.add(4);
  const std::vector<uint64_t> table = codegen::verdict_table(
      drawn.program, parameters, {drawn.loss.type, buffers.add(drawn.loss)}, addresses);
  const ptx::Address at = buffers.add(std::span<const uint64_t>(table));
  int32_t first = -1;
  for (int64_t each : {blocks, int64_t{1}}) {
    buffers.write(addresses.result, int32_t{-1});
    steps.launch(codegen::kVerdictLaunch, at, each, draw_options(dice));
    const auto verdict = buffers.read<int32_t>(addresses.result);
    if (first >= 0) CHECK(verdict == first);
    first = verdict;
    check_table(buffers, at, table);
  }
  return first;
}

void check_verdict_kernel(const std::string& arch, int cases) {
  Steps steps(arch);
  std::map<ir::VerdictCode, int> seen;
  for (int number = 0; number < cases; ++number) {
    CAPTURE(number);
    Dice dice(static_cast<uint64_t>(number) + 1000000);
    const VerdictCase drawn = draw_verdict(dice, number % 40 == 0 ? 600 : dice.roll(12));
    const int32_t expected = drawn.expected();
    ++seen[ir::verdict_code(expected)];
    const int64_t blocks = number % 100 == 0 ? 0 : 1 + dice.roll(4);
    CHECK(verdict_on_device(steps, dice, drawn, blocks) == expected);
  }
  std::string counts;
  for (const auto& [code, count] : seen) counts += fmt::format(", {} {}", to_string(code), count);
  fmt::print("verdict, {}: {} cases{}\n", arch, cases, counts);
  CHECK(static_cast<int>(seen.size()) >= std::min(10, cases / 20));
}

/// `scale_update` over the parameters scale, clean and verdict.
std::unique_ptr<ir::Module> scale_rule(double growth, double backoff, int64_t interval) {
  auto module = std::make_unique<ir::Module>("rule");
  ir::Function* function = module->add_function("f");
  const ir::Value operands[] = {function->add_parameter(Type(DType::F32, {}), "scale"),
                                function->add_parameter(Type(DType::I32, {}), "clean"),
                                function->add_parameter(Type(DType::I32, {}), "verdict")};
  ir::Builder builder(function->body());
  const ir::Op* update = builder.create(ir::OpKind::ScaleUpdate, operands,
                                        {{"backoff", backoff},
                                         {"ceiling", 0x1p17},
                                         {"floor", 0x1p-3},
                                         {"growth", growth},
                                         {"interval", interval}});
  function->set_results(update->results(), std::vector<ir::Attrs>(2));
  return module;
}

/// A training run of random steps: verdict and scale rule on the device, step after step, against
/// ir::judge and the interpreter.
void check_scale_history(double growth, double backoff, int64_t interval) {
  Steps steps("sm_80");
  const std::unique_ptr<ir::Module> rule = scale_rule(growth, backoff, interval);
  std::unique_ptr<ir::Module> planned = rule->clone();
  passes::PassContext context;
  passes::decompose(*planned, context);
  planned->set_stage(ir::Stage::Primitive);
  plan_for(*planned, "sm_80");
  REQUIRE(kernels_of(*planned).size() == 1);
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(alone(*kernels_of(*planned)[0]));
  const std::vector<ir::Value> operands = kernels_of(*planned)[0]->operands();
  const DeviceProgram program(std::move(modules), "sm_80");

  Dice dice(7);
  std::vector<InterpreterTensor> state = {ir::full_tensor(Type(DType::F32, {}), 0x1p15),
                                          InterpreterTensor(Type(DType::I32, {})),
                                          InterpreterTensor(Type(DType::I32, {}))};
  VerdictCase step;
  step.program.is_param = {false};
  step.program.scale_parameter = 0;
  for (int64_t word = 0; word < 4; ++word) {
    ir::VerdictEntry entry;
    entry.word = word;
    entry.role = word < 2 ? ir::Role::Forward : ir::Role::Backward;
    if (word > 0) entry.producers = {static_cast<int>(word) - 1};
    step.program.entries.push_back(entry);
  }
  step.loss = InterpreterTensor(Type(DType::F32, {}));
  int taken = 0, lowered = 0;
  std::set<double> scales;
  for (int number = 0; number < 200; ++number) {
    CAPTURE(number);
    step.words.assign(4, 0);
    step.ok = !dice.one_in(5);
    for (uint32_t& word : step.words)
      if (!step.ok && dice.one_in(3)) word = 1u | static_cast<uint32_t>(dice.roll(4)) << 1;
    step.parameters = {state[0]};
    const int32_t verdict = verdict_on_device(steps, dice, step, 1 + dice.roll(3));
    CHECK(verdict == step.expected());
    taken += ir::is_taken(verdict);
    lowered += ir::lowers_scale(verdict);
    state[2].integers[0] = verdict;
    const ir::RunResult wanted = ir::run(*rule, *rule->functions()[0], state);
    std::vector<InterpreterTensor> inputs;
    for (ir::Value operand : operands)
      inputs.push_back(state[static_cast<size_t>(operand.index())]);
    const ir::RunResult got = program.run(0, inputs, draw_options(dice));
    REQUIRE(got.results.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(ir::describe_difference(got.results[i], wanted.results[i]) == "");
      state[i] = got.results[i];
    }
    scales.insert(state[0].floats[0]);
  }
  fmt::print(
      "scale with growth {}, backoff {}, every {}: {} of 200 steps taken, {} overflows, {} "
      "scales\n",
      growth, backoff, interval, taken, lowered, scales.size());
  CHECK(lowered > 5);
  CHECK((scales.size() > 2) == (growth > 1));
}

TEST_CASE("the scale of a run on the device is the interpreter's, dynamic and static") {
  if (lacks_nvrtc()) return;
  check_scale_history(2, 0.5, 3);
  check_scale_history(4, 0.25, 1);
  check_scale_history(1, 1, 5);
}

TEST_CASE("the finite check reads what is doubtful, in every type and size") {
  if (lacks_nvrtc()) return;
  check_finite_kernel("sm_75", cases_wanted() / 4);
  check_finite_kernel("sm_90", cases_wanted());
}

TEST_CASE("the verdict of the device is that of ir::judge") {
  if (lacks_nvrtc()) return;
  check_verdict_kernel("sm_80", cases_wanted() / 4);
  check_verdict_kernel("sm_100", cases_wanted());
}

}  // namespace
}  // namespace mezzo::test
