// SPDX-License-Identifier: Apache-2.0
// Device functions of one CUDA source: each float op that takes more than an instruction or two
// becomes one function of the text, written from the functions in codegen/scalar_functions.h.
#pragma once

#include <mezzo/codegen/source_writer.h>
#include <mezzo/ir/graph.h>

#include <set>
#include <string>
#include <vector>

namespace mezzo::codegen {

class DeviceFunctions {
 public:
  /// The result of an elementwise op on floats of `width` bits; `prefix` names temporaries that are
  /// written to `writer`.
  std::string call(ir::OpKind kind, int width, const std::vector<std::string>& operands,
                   SourceWriter& writer, const std::string& prefix);
  /// A call for a random op; operands are u64 element, u64 seed, u64 step, u64 stream.
  std::string call_random(const ir::Op& op, const std::string& operands);
  /// Numbers that one counter gives: 4, of f64 2.
  static int random_group(ir::DType dtype) { return dtype == ir::DType::F64 ? 2 : 4; }
  /// A call that writes a group to an array; operands are the array, u32 its first number, u64
  /// element (a multiple of the group), u64 seed, u64 step, u64 stream.
  std::string call_random_group(const ir::Op& op, const std::string& operands);

  /// Definitions of all functions that were called.
  const std::string& text() const { return text_; }

 private:
  std::set<std::string> defined_;
  std::string text_;
};

}  // namespace mezzo::codegen
