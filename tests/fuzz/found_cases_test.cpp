// SPDX-License-Identifier: Apache-2.0
// What tables and random graphs have found, shrunk: each case was a wrong value or a crash. The
// label `unit` takes them under the sanitizers too, where a store past the end is seen.
#include <mezzo/ir/parser.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>

#include <fuzz/checks.h>

namespace mezzo::test {

namespace {

/// The function with drawn inputs of several seeds: exact against the interpreter, or op by op.
void check_text(const char* text, bool exact) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  INFO(text);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Tensors inputs = random_inputs(*module->functions()[0], seed);
    std::string found = guarded([&] {
      if (exact) return check_exact(*module, inputs);
      std::string fused = check_ops(*module, inputs, true);
      return fused.empty() ? check_ops(*module, inputs, false) : fused;
    });
    CHECK(found == "");
  }
}

}  // namespace

TEST_CASE("what follows a reduction over rows of no columns is computed for no element") {
  check_text(R"(module @m {
  func @f(%y: tensor<3x0xf32>, %dy: tensor<3x0xf32>) -> tensor<3x0xf32> {
    %0 = softmax_grad %y, %dy {axis = 1} : tensor<3x0xf32>
    return %0 : tensor<3x0xf32>
  }
}
)",
             false);
}

TEST_CASE("an integer sum over an axis of length 0 stores elements of its own size") {
  for (const char* type : {"i32", "u8"}) {
    std::string text = R"(module @m {
  func @f(%x: tensor<0x4xT>) -> (tensor<4xT>, tensor<T>) {
    %0 = sum %x {axes = [0]} : tensor<0x4xT> -> tensor<4xT>
    %1 = sum %x {axes = [0, 1]} : tensor<0x4xT> -> tensor<T>
    return %0, %1 : (tensor<4xT>, tensor<T>)
  }
}
)";
    for (size_t at = 0; (at = text.find('T', at)) != std::string::npos;) text.replace(at, 1, type);
    check_text(text.c_str(), true);
  }
}

TEST_CASE("the magnitude of a negated u8 is that of the wrapped value") {
  check_text(R"(module @m {
  func @f(%x: tensor<7xu8>) -> (tensor<7xu8>, tensor<7xu8>) {
    %0 = neg %x : tensor<7xu8>
    %1 = abs %0 : tensor<7xu8>
    %2 = square %0 : tensor<7xu8>
    return %1, %2 : (tensor<7xu8>, tensor<7xu8>)
  }
}
)",
             true);
}

}  // namespace mezzo::test
