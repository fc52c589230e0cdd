// SPDX-License-Identifier: Apache-2.0
// Programs with a seeded fault, and what the interpreter must say about it.
#pragma once

#include <optional>
#include <ptx/micro.h>

namespace mezzo::ptx::test {

/// Line of the text, from 1, that holds `// HERE`; 0 where none does.
int marked_line(const std::string& text);

/// A kernel over a buffer of 4096 words of 32 bits, numbered 0, 1, ...: `p0` is its address, which
/// is in %buf; %t is the thread in the block, %r0 ... %r9, %rd0 ... %rd9, %p0 ... %p3 are free.
struct FaultRun {
  Dim3 grid{1, 1, 1}, block{32, 1, 1};
  uint32_t dynamic_shared = 0;
  Options options;
  std::string declarations;

  std::string text(const std::string& body) const;
  /// Nothing where the kernel ran through. Checks that the fault names the marked line and quotes
  /// it.
  std::optional<Fault> run(const std::string& body) const;
  /// The fault must be of `kind` and its text must hold all of `parts`.
  void expect(const std::string& body, FaultKind kind,
              std::initializer_list<const char*> parts) const;
  void expect_none(const std::string& body) const;
};

}  // namespace mezzo::ptx::test
