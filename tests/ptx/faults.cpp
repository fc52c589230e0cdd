// SPDX-License-Identifier: Apache-2.0
#include <ptx/faults.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

namespace mezzo::ptx::test {

int marked_line(const std::string& text) {
  const size_t at = text.find("// HERE");
  if (at == std::string::npos) return 0;
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

std::string FaultRun::text(const std::string& body) const {
  return program(
      ".reg .b32 %t, %r<10>;\n.reg .b64 %buf, %rd<10>;\n.reg .pred %p<4>;\n"
      "ld.param.u64 %buf, [p0];\nmov.u32 %t, %tid.x;\n" +
          body,
      1, declarations);
}

std::optional<Fault> FaultRun::run(const std::string& body) const {
  const std::string source = text(body);
  DeviceMemory memory(1 << 20);
  Buffer<uint32_t> buffer(memory, 4096);
  for (uint32_t i = 0; i < 4096; ++i) buffer[i] = i;
  const Module module(source, memory);
  try {
    module.kernel("k").launch(memory, grid, block, dynamic_shared,
                              parameter_bytes({buffer.address}), options);
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

void FaultRun::expect(const std::string& body, FaultKind kind,
                      std::initializer_list<const char*> parts) const {
  INFO(body);
  const std::optional<Fault> fault = run(body);
  REQUIRE(fault);
  INFO(std::string(fault->what()));
  CHECK(fault->kind == kind);
  const int line = marked_line(text(body));
  CHECK(fault->line == line);
  const std::string what = fault->what();
  CHECK(what.find("kernel 'k'") != std::string::npos);
  if (line) CHECK(what.find(fmt::format("ptx line {} ", line)) != std::string::npos);
  for (const char* part : parts) {
    const bool found = what.find(part) != std::string::npos;
    CHECK_MESSAGE(found, "'" << std::string(part) << "' is missing");
  }
}

void FaultRun::expect_none(const std::string& body) const {
  INFO(body);
  const std::optional<Fault> fault = run(body);
  if (fault) FAIL_CHECK(std::string(fault->what()));
}

}  // namespace mezzo::ptx::test
