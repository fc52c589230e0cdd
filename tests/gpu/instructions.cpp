// SPDX-License-Identifier: Apache-2.0
// The micro-tests of tests/ptx, run as they are: each launch of theirs goes to the device too, and
// what comes back is held against the interpreter.
#define DOCTEST_CONFIG_IMPLEMENT
#include <mezzo/ir/error.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gpu/micro_device.h>
#include <gpu/promises.h>
#include <gpu/report.h>
#include <map>
#include <sstream>

namespace mezzo::gpu {

using ptx::test::MicroLaunch;
using ptx::test::MicroResult;
using Buffers = std::vector<std::vector<std::byte>>;

namespace {

/// All launches about one instruction.
struct OpRecord {
  std::string test;  // the first case of tests/ptx that it is in
  int64_t launches = 0, elements = 0, open = 0, differing = 0, broken = 0;
  bool exact = true;     // the same bits are promised
  double ulps = 0;       // the largest distance
  double share = 0;      // and as a share of the promise
  std::string not_here;  // why the device does not have it
  std::string example;   // of what is broken
};

std::string running_case() {
  const doctest::TestCaseData* test = doctest::getContextOptions()->currentTest;
  return test ? test->m_name : "";
}

uint64_t element_of(const Buffers& buffers, const MicroResult& result, size_t element) {
  uint64_t value = 0;
  std::memcpy(&value, buffers[result.buffer].data() + result.offset + element * result.stride,
              result.width);
  return value;
}

std::string operands_text(const std::vector<uint64_t>& operands) {
  std::string text;
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format("{} {:#x}, ", "abce"[i], operands[i]);
  return text;
}

class InstructionCheck {
 public:
  InstructionCheck(int ordinal, Report& report) : device_(ordinal), report_(report) {}

  void watch(const MicroLaunch& launch, const Buffers& interpreted) {
    const std::string opcode = opcode_of(launch.op);
    // Which way of adding a tensor core is nearer to shows in how many elements differ.
    const bool exact_sums = launch.options.mma == ptx::MmaMode::Exact;
    OpRecord& record = records_[opcode + (exact_sums ? ", summed exactly" : "")];
    if (record.launches++ == 0) record.test = running_case();
    try {
      const Buffers got = device_.run(launch);
      for (const MicroResult& result : launch.results)
        compare(opcode, launch, result, got, interpreted, record);
    } catch (const NotOnThisDevice& error) {
      record.not_here = error.what();
    } catch (const DeviceError& error) {
      broken(opcode, record, error.what());
    }
  }

  void finish() {
    Json ops = Json::array();
    int64_t launches = 0, elements = 0;
    int passed = 0, failed = 0, absent = 0, approximate = 0;
    report_.line("  {:68} {:>9} {:>10} {:>10} {:>10}", "approximations", "elements", "differ",
                 "most ulps", "of promise");
    for (const auto& [opcode, record] : records_) {
      launches += record.launches;
      elements += record.elements;
      Json row{{"op", opcode}, {"test", record.test}, {"launches", record.launches}};
      if (!record.not_here.empty()) {
        ++absent;
        row["verdict"] = "not on this device";
        row["reason"] = record.not_here;
        ops.push_back(row);
        continue;
      }
      row["elements"] = record.elements;
      row["undefined"] = record.open;
      row["differing"] = record.differing;
      row["max_ulps"] = number(record.ulps);
      if (!record.exact) row["max_share_of_promise"] = number(record.share);
      row["verdict"] = record.broken ? "fail" : "pass";
      if (record.broken) row["example"] = record.example;
      ++(record.broken ? failed : passed);
      ops.push_back(row);
      if (record.exact) continue;
      ++approximate;
      report_.line("  {:68} {:9} {:10} {:10.2f} {:10.3f}", opcode, record.elements,
                   record.differing, record.ulps, record.share);
    }
    report_.line(
        "{} instructions in {} launches, {} elements: {} pass ({} of them approximations), {} "
        "fail, {} not on this device",
        records_.size(), launches, elements, passed, approximate, failed, absent);
    report_.json()["instructions"] = {
        {"passed", passed},     {"failed", failed},     {"not_on_this_device", absent},
        {"launches", launches}, {"elements", elements}, {"ops", ops}};
  }

 private:
  static Json number(double value) { return std::isfinite(value) ? Json(value) : Json("infinite"); }

  void broken(const std::string& opcode, OpRecord& record, const std::string& example) {
    if (record.broken++ > 0) return;
    record.example = example;
    report_.fail(fmt::format("{} ({}): {}", opcode, record.test, example));
  }

  void compare(const std::string& opcode, const MicroLaunch& launch, const MicroResult& result,
               const Buffers& got, const Buffers& interpreted, OpRecord& record) {
    for (size_t e = 0; e < result.count; ++e) {
      std::vector<uint64_t> operands;
      for (const ptx::test::Column& column : launch.operands) operands.push_back(column[e]);
      if (std::ranges::find(result.open, e) != result.open.end() || leaves_open(opcode, operands)) {
        ++record.open;
        continue;
      }
      ++record.elements;
      const uint64_t value = element_of(got, result, e),
                     wanted = element_of(interpreted, result, e);
      const Promise promise = promise_of(opcode, operands);
      const double slack = result.slack.empty() ? -1 : result.slack[e];
      record.exact &= promise.exact() && slack <= 0;
      const Distance apart = distance(value, wanted, promise, slack);
      record.differing += !apart.same;
      if (slack < 0) record.ulps = std::max(record.ulps, apart.ulps);
      record.share = std::max(record.share, apart.error);
      if (apart.error > 1)
        broken(opcode, record,
               fmt::format("`{}`, element {}: {}device {:#x}, interpreter {:#x}", launch.op, e,
                           operands_text(operands), value, wanted));
    }
  }

  MicroDevice device_;
  Report& report_;
  std::map<std::string, OpRecord> records_;
};

}  // namespace

void check_instructions(const Options& options, Report& report) {
  report.line("\nPTX instructions: the device against the interpreter");
  InstructionCheck check(options.ordinal, report);
  ptx::test::watch_micro([&](const MicroLaunch& launch, const Buffers& interpreted) {
    check.watch(launch, interpreted);
  });
  // The tests' own assertions hold the interpreter against plain C++ meanwhile.
  std::ostringstream text;
  doctest::Context context;
  context.setOption("no-intro", true);
  context.setCout(&text);
  if (context.run() != 0) report.fail("the interpreter fails its own tests:\n" + text.str());
  ptx::test::watch_micro(nullptr);
  check.finish();
}

}  // namespace mezzo::gpu
