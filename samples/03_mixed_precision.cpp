// SPDX-License-Identifier: Apache-2.0
// Precision is visible: a small network as traced, and the same network after the pass `autocast`
// under the policy mixed_float16. Every cast is a line; sums, exponentials and the loss stay f32.
//
//   03_mixed_precision [--policy=mixed_float16]
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/mezzo.h>
#include <mezzo/passes/pass_manager.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

using namespace mezzo;

namespace {

Tensor network(Tensor x, Tensor w1, Tensor w2) {
  Tensor h = relu(matmul(x, w1)).named("h");
  Tensor logits = matmul(h, w2).named("logits");
  // A region that a policy does not touch.
  Tensor energy = keep_f32([&] { return mean(square(logits)); });
  return mean(softmax(logits)) + 0.01f * energy;
}

int count(const std::string& text, std::string_view word) {
  int found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

int main(int argc, char** argv) try {
  Policy policy = Policy::mixed_float16();
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with("--policy=")) {
      std::fprintf(stderr, "usage: %s [--policy=NAME]\n", argv[0]);
      return 2;
    }
    policy = Policy::by_name(std::string(argument.substr(9)));
  }

  auto f = jit(network, {.device = Device::interpreter()});
  std::string traced = f.ir(Array(ir::Type(f32, {4, 8})), Array(ir::Type(f32, {8, 16})),
                            Array(ir::Type(f32, {16, 3})));
  std::printf("As traced:\n\n%s\n", traced.c_str());

  // A module is a text, and a text a module: read it back and run two passes on it.
  std::unique_ptr<ir::Module> module = ir::parse(traced, "traced");
  passes::Pipeline pipeline = passes::parse_pipeline("autodiff, autocast, cast-cleanup");
  passes::set_policy(pipeline, policy.name());
  passes::PassContext context;
  passes::run_pipeline(*module, pipeline, {}, context);
  std::string typed = ir::print(*module);
  std::printf("After %s:\n\n%s\n", passes::print_pipeline(pipeline).c_str(), typed.c_str());
  std::printf("%s: %d casts, %d products\n", policy.name(), count(typed, " = cast "),
              count(typed, " = matmul "));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
