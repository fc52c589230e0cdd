// SPDX-License-Identifier: Apache-2.0
// Every row of the op table through the compiler: fused with neighbours, unfused, on one and two
// threads, against the interpreter. Exact rows bit for bit, the others within their bound.
// MEZZO_KERNEL_CASES=types takes every element type, `all` 65,539 rows too; without it one type a
// row, and few cases of it. MEZZO_KERNEL_OP takes one row only, MEZZO_KERNEL_SHARE=1/4 every fourth
// from the first on, so that long runs share their rows out.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/interpreter.h>
#include <support/random_array.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fuzz/judge.h>
#include <limits>
#include <ops/kernel_cases.h>
#include <runtime/compiled.h>

namespace mezzo::test {

namespace {

using ir::DType;
using ir::InterpreterTensor;
using ir::Op;
using ir::OpInfo;
using ir::OpKind;
using ir::Value;

/// Cases of a row when not all are taken; those of a GPU are executed instruction by instruction.
size_t quick_cases() { return std::getenv("MEZZO_TEST_DEVICE") ? 2 : 6; }

bool everything() {
  const char* text = std::getenv("MEZZO_KERNEL_CASES");
  return text && std::strcmp(text, "all") == 0;
}
bool every_type() {
  const char* text = std::getenv("MEZZO_KERNEL_CASES");
  return everything() || (text && std::strcmp(text, "types") == 0);
}

/// The rows that this run takes: the `first`th of `step`, counted from 0.
struct Share {
  size_t first = 0;
  size_t step = 1;
  bool takes(size_t row) const { return row % step == first; }
};

Share share_of_rows() {
  const char* text = std::getenv("MEZZO_KERNEL_SHARE");
  if (!text) return {};
  unsigned number = 0, of = 0;
  int read = 0;
  const bool ok = std::sscanf(text, "%4u/%4u%n", &number, &of, &read) == 2 && !text[read] &&
                  number >= 1 && number <= of && of <= 1000;
  REQUIRE_MESSAGE(ok, fmt::format("MEZZO_KERNEL_SHARE is '{}'; give one share of how many, such as "
                                  "1/4",
                                  text));
  return {number - 1, of};
}

/// -x (wrapped), or not x: its own inverse.
OpKind mirror_of(DType dtype) { return dtype == DType::Bool ? OpKind::LogicalNot : OpKind::Neg; }

InterpreterTensor mirrored(InterpreterTensor tensor) {
  DType dtype = tensor.type.dtype;
  for (double& value : tensor.floats) value = -value;
  for (int64_t& value : tensor.integers)
    value = dtype == DType::Bool
                ? !value
                : ir::wrap_integer(dtype, static_cast<int64_t>(-static_cast<uint64_t>(value)));
  return tensor;
}

/// The cases in one function: each op between a mirror of every operand, which is no result, and
/// one of every result. Results are, case by case, those of the op and then their mirrors.
struct Probe {
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>("table");
  std::vector<const Op*> ops;

  explicit Probe(const std::vector<KernelCase>& cases) {
    ir::Function* function = module->add_function("f");
    ir::Builder builder(function->body());
    std::vector<Value> results;
    auto mirror = [&](Value value) { return builder.make(mirror_of(value.dtype()), {value}); };
    for (const KernelCase& each : cases) {
      std::vector<Value> operands;
      for (const ir::Type& type : each.operands) {
        std::string name = fmt::format("p{}", function->num_parameters());
        operands.push_back(mirror(function->add_parameter(type, name)));
      }
      Op* op = builder.create(each.kind, operands, each.attrs, each.declared);
      ops.push_back(op);
      for (Value value : op->results()) results.push_back(value);
      for (Value value : op->results()) results.push_back(mirror(value));
    }
    function->set_results(results, std::vector<ir::Attrs>(results.size()));
  }
};

/// What the ops of the cases are given, a share `special` of it edge values.
std::vector<Tensors> operands_of(const std::vector<KernelCase>& cases, double special) {
  std::vector<Tensors> all;
  uint64_t seed = static_cast<uint64_t>(cases[0].kind) * 1000;
  for (const KernelCase& each : cases) {
    Tensors operands;
    bool update = ir::op_info(each.kind).has(ir::Trait::Optimizer);
    for (size_t i = 0; i < each.operands.size(); ++i) {
      // Rates and counts of a step are what they are.
      double share = update && each.operands[i].rank() == 0 ? 0 : special;
      operands.push_back(
          random_array(each.domains[i], each.operands[i], ++seed, share, each.index_limit));
    }
    all.push_back(std::move(operands));
  }
  return all;
}

struct Tally {
  int cases = 0, compared = 0, failures = 0;
  double worst = 0, worst_ulp = 0;
  int64_t elements = 0, not_correct = 0, threaded = 0;
};

std::unique_ptr<runtime::Executable> compiled(const ir::Module& module, bool fuse, int threads) {
  runtime::CompileOptions options = in_memory();
  options.rounding = "as-written";
  options.fuse = fuse;
  options.threads = threads;
  return runtime::compile(module.clone(), "f", options);
}

/// Edge values take an update's squares out of range, where the whole update would still have a
/// value; then kernels are held to the update as decomposed. True where that has one right result:
/// all ops are exact, or are scalars in f64 that are rounded to fewer bits before they are used.
bool decomposed_exactly(const runtime::Executable& executable, DType dtype) {
  for (const Op& kernel : executable.function().body()) {
    if (kernel.kind() != OpKind::Kernel) continue;
    for (const Op& op : *kernel.body()) {
      if (op.num_results() != 1 || op.info().has(ir::Trait::Exact)) continue;
      if (op.result().dtype() != DType::F64 || dtype == DType::F64) return false;
    }
  }
  return true;
}

class Row {
 public:
  Row(const std::vector<KernelCase>& cases, Tally& tally)
      : cases_(cases),
        tally_(tally),
        probe_(cases),
        fused_(compiled(*probe_.module, true, 1)),
        threaded_(compiled(*probe_.module, true, 2)),
        unfused_(compiled(*probe_.module, false, 2)) {
    tally_.cases += static_cast<int>(cases.size());
    tally_.threaded += kernels_for_two_threads(*threaded_) + kernels_for_two_threads(*unfused_);
  }

  void check(double special) {
    std::vector<Tensors> operands = operands_of(cases_, special);
    Tensors inputs;
    for (const Tensors& each : operands)
      for (const InterpreterTensor& tensor : each) inputs.push_back(mirrored(tensor));
    Outcome fused = run_compiled(*fused_, inputs), threaded = run_compiled(*threaded_, inputs),
            unfused = run_compiled(*unfused_, inputs);
    Outcome planned = run_interpreted(*fused_, inputs);
    CHECK(fused.words == threaded.words);
    CHECK(fused.index_out_of_range == planned.index_out_of_range);
    CHECK(unfused.index_out_of_range == planned.index_out_of_range);
    if (is_exact(*probe_.ops[0])) CHECK(fused.words == planned.words);
    if (ir::is_elementwise(cases_[0].kind)) CHECK(fused.words == unfused.words);
    bool update = ir::op_info(cases_[0].kind).has(ir::Trait::Optimizer);
    if (update && special > 0) {
      DType dtype = cases_[0].operands[0].dtype;
      if (!decomposed_exactly(*fused_, dtype)) return;
      for (size_t i = 0; i < planned.results.size(); ++i) {
        size_t at = i * cases_.size() / planned.results.size();
        compare(at, "fused and decomposed", fused.results[i], planned.results[i]);
        compare(at, "unfused and decomposed", unfused.results[i], planned.results[i]);
        compare(at, "one and two threads", threaded.results[i], fused.results[i]);
      }
      return;
    }
    size_t at = 0;
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Op& op = *probe_.ops[i];
      for (int result = 0; result < op.num_results(); ++result, ++at) {
        size_t mirror = at + static_cast<size_t>(op.num_results());
        compare(i, "one and two threads", threaded.results[at], fused.results[at]);
        compare(i, "the value next to it", fused.results[mirror], mirrored(fused.results[at]));
        compare(i, "one and two threads", threaded.results[mirror], fused.results[mirror]);
        if (ir::is_elementwise(op.kind()))
          compare(i, "fused and unfused", fused.results[at], unfused.results[at]);
        else
          judged(i, "unfused", judge(op, operands[i], unfused.results[at], result));
        Judgement verdict = judge(op, operands[i], fused.results[at], result);
        tally_.not_correct += verdict.not_correct;
        tally_.elements += fused.results[at].elements();
        judged(i, "fused", verdict);
      }
      at += static_cast<size_t>(op.num_results());
    }
  }

 private:
  void fail(size_t at, const char* what, const std::string& difference) {
    if (difference.empty() || tally_.failures++ >= 5) return;
    FAIL_CHECK(fmt::format("{}, {}: {}", cases_[at].text(), what, difference));
  }
  void compare(size_t at, const char* what, const InterpreterTensor& a,
               const InterpreterTensor& b) {
    ++tally_.compared;
    fail(at, what, ir::describe_difference(a, b));
  }
  void judged(size_t at, const char* what, const Judgement& verdict) {
    ++tally_.compared;
    tally_.worst = std::max(tally_.worst, verdict.worst);
    tally_.worst_ulp = std::max(tally_.worst_ulp, verdict.worst_ulp);
    fail(at, what, verdict.difference);
  }

  const std::vector<KernelCase>& cases_;
  Tally& tally_;
  Probe probe_;
  std::unique_ptr<runtime::Executable> fused_, threaded_, unfused_;
};

/// The first element type that the row takes, f32 before others: for one large case a row.
DType usual_dtype(OpKind kind) {
  if (!kernel_cases(kind, DType::F32, Extent::Small).empty()) return DType::F32;
  for (DType dtype : ir::kAllDTypes)
    if (!kernel_cases(kind, dtype, Extent::Small).empty()) return dtype;
  return DType::F32;
}

/// One case of each n, at most `most` of them; not always the same one of n, because lists go
/// through their attributes in an order of their own.
std::vector<KernelCase> thinned(std::vector<KernelCase> cases, size_t most) {
  size_t step = (cases.size() + most - 1) / most;
  std::vector<KernelCase> kept;
  for (size_t first = 0; first < cases.size(); first += step) {
    const size_t at = first + (7 * (first / step) + 3) % step;
    kept.push_back(std::move(cases[std::min(at, cases.size() - 1)]));
  }
  return kept;
}

void check_row(OpKind kind, Tally& tally) {
  for (DType dtype : ir::kAllDTypes) {
    if (!every_type() && dtype != usual_dtype(kind)) continue;
    INFO(std::string(ir::to_string(kind)) << " of " << std::string(ir::to_string(dtype)));
    std::vector<KernelCase> cases = kernel_cases(kind, dtype, Extent::Small);
    if (cases.empty()) continue;
    if (!every_type()) cases = thinned(std::move(cases), quick_cases());
    Row row(cases, tally);
    row.check(0);
    row.check(0.3);
  }
  if (!everything()) return;
  std::vector<KernelCase> cases = kernel_cases(kind, usual_dtype(kind), Extent::Rows);
  for (const KernelCase& each : cases) {
    INFO(each.text());
    std::vector<KernelCase> one = {each};
    Row(one, tally).check(0.1);
  }
}

}  // namespace

TEST_CASE("kernels of every row of the op table are right for every type and shape class") {
  fmt::print("{:18} cases comparisons 2-thread kernels  error/bound  worst ulp  misrounded\n",
             "op");
  Tally all;
  Share share = share_of_rows();
  size_t number = 0;
  for (const OpInfo& info : ir::all_ops()) {
    if (!share.takes(number++)) continue;
    if (std::string reason = no_kernel(info.kind); !reason.empty()) {
      fmt::print("{:18} no kernel: {}\n", info.name, reason);
      continue;
    }
    if (const char* only = std::getenv("MEZZO_KERNEL_OP"); only && info.name != std::string(only))
      continue;
    Tally tally;
    check_row(info.kind, tally);
    CHECK_MESSAGE(tally.cases > 0, "no case for '" << info.name << "'");
    fmt::print("{:18} {:5} {:11} {:16}  {:11.3f}  {:9.3f}  {} of {}\n", info.name, tally.cases,
               tally.compared, tally.threaded, tally.worst, tally.worst_ulp, tally.not_correct,
               tally.elements);
    std::fflush(stdout);
    all.cases += tally.cases;
    all.compared += tally.compared;
    all.threaded += tally.threaded;
  }
  CHECK_MESSAGE(all.cases > 0, "nothing was taken");
  fmt::print("{:18} {:5} {:11} {:16}\n", "all", all.cases, all.compared, all.threaded);
  if (everything() && !std::getenv("MEZZO_KERNEL_OP") && share.step == 1) CHECK(all.threaded > 100);
}

TEST_CASE("the element types of the table are those that the shape rules take") {
  for (const OpInfo& info : ir::all_ops()) {
    if (!no_kernel(info.kind).empty()) continue;
    for (DType dtype : ir::kAllDTypes) {
      CAPTURE(std::string(info.name));
      CAPTURE(std::string(ir::to_string(dtype)));
      CHECK(ir::contains(info.takes, dtype) ==
            !kernel_cases(info.kind, dtype, Extent::Small).empty());
    }
  }
}

TEST_CASE("cross entropy's gradient of a row of -inf is 0 whatever its cotangent, in kernels too") {
  const std::string text = R"(module @m {
  func @f(%x: tensor<3x2xf32>, %y: tensor<3xi32>, %g: tensor<3xf32>) -> tensor<3x2xf32> {
    %dx = cross_entropy_grad %x, %y, %g {reduce = "none"} : (tensor<3x2xf32>, tensor<3xi32>, tensor<3xf32>) -> tensor<3x2xf32>
    return %dx : tensor<3x2xf32>
  }
}
)";
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::unique_ptr<ir::Module> module = ir::parse(text);
  for (double cotangent : {kInf, -kInf, kNan}) {
    Tensors inputs = {ir::make_tensor(ir::Type(DType::F32, {3, 2}), {-kInf, -kInf, 0, -kInf, 1, 1}),
                      ir::make_tensor(ir::Type(DType::I32, {3}), {1, 0, 1}),
                      ir::full_tensor(ir::Type(DType::F32, {3}), cotangent)};
    InterpreterTensor wanted = ir::run(*module, *module->functions()[0], inputs).results[0];
    CHECK(wanted.floats[0] == 0);
    CHECK(wanted.floats[1] == 0);
    CHECK_FALSE(std::isfinite(wanted.floats[4]));
    for (bool fuse : {true, false}) {
      InterpreterTensor got = run_compiled(*compiled(*module, fuse, 1), inputs).results[0];
      CHECK(ir::describe_difference(wanted, got) == "");
    }
  }
}

}  // namespace mezzo::test
