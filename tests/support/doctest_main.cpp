// SPDX-License-Identifier: Apache-2.0
// doctest's own main, compiled once. A listener keeps the name of the running case for `skip_case`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <support/skip.h>

#include <doctest/doctest.h>

#include <iostream>
#include <string>

namespace mezzo::test {

namespace {

std::string& current_case() {
  static std::string name;
  return name;
}

/// Remembers which case runs; writes nothing.
class CaseListener : public doctest::IReporter {
 public:
  explicit CaseListener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override { current_case() = data.m_name; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

void skip_case(const std::string& reason) {
  std::cout << "skipped: " << current_case() << ": " << reason << std::endl;
}

}  // namespace mezzo::test

REGISTER_LISTENER("mezzo_case", 1, mezzo::test::CaseListener);
