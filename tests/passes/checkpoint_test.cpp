// SPDX-License-Identifier: Apache-2.0
// What a checkpoint region saves: the arena of a planned step with and without regions.
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/pass_manager.h>
#include <mezzo/passes/pipeline.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

namespace mezzo::passes {
namespace {

/// The gradient of a chain of blocks: three times tanh of a product, then the input of the block
/// added.
std::string chain(int blocks, bool checkpoints) {
  const std::string type = "tensor<512x16xf32>", weight = "tensor<16x16xf32>";
  std::string loss = fmt::format("func @loss(%x0: {}, %w: {}) -> tensor<f32> {{\n", type, weight);
  for (int block = 0; block < blocks; ++block) {
    const std::string mark = checkpoints ? fmt::format("{{checkpoint = {}}} ", block + 1) : "";
    std::string from = fmt::format("%x{}", block);
    for (int i = 0; i < 3; ++i) {
      loss += fmt::format("%m{0}_{1} = matmul {2}, %w {3}: ({4}, {5}) -> {4}\n", block, i, from,
                          mark, type, weight);
      loss += fmt::format("%t{0}_{1} = tanh %m{0}_{1} {2}: {3}\n", block, i, mark, type);
      from = fmt::format("%t{}_{}", block, i);
    }
    loss += fmt::format("%x{} = add {}, %x{} {}: {}\n", block + 1, from, block, mark, type);
  }
  loss += fmt::format(
      "%s = square %x{0} : {1}\n%l = sum %s {{axes = [0, 1]}} : {1} -> tensor<f32>\n"
      "return %l : tensor<f32>\n}}\n",
      blocks, type);
  return fmt::format(
      "module @m {{\n{0}func @both(%x: {1}, %w: {2}) -> (tensor<f32>, {2}) {{\n"
      "%l, %dw = gradient %x, %w {{func = @loss, wrt = [1]}} : ({1}, {2}) -> (tensor<f32>, {2})\n"
      "return %l, %dw : (tensor<f32>, {2})\n}}\n}}\n",
      loss, type, weight);
}

std::unique_ptr<ir::Module> planned(int blocks, bool checkpoints) {
  std::unique_ptr<ir::Module> module = ir::parse(chain(blocks, checkpoints));
  PassContext context;
  run_pipeline(*module, pipeline_by_name("train"), {}, context);
  return module;
}

int64_t arena(const ir::Module& module) {
  return module.function("both")->attrs().get_int("arena");
}

int products(const ir::Module& module) {
  int count = 0;
  for (const ir::Op& kernel : module.function("both")->body())
    if (kernel.body())
      for (const ir::Op& op : *kernel.body()) count += op.kind() == ir::OpKind::Matmul;
  return count;
}

TEST_CASE("checkpoint regions keep what goes between them and compute the rest again") {
  const int64_t tensor = 512 * 16 * 4;
  auto plain = planned(8, false), again = planned(8, true);
  // Without them three activations a block stay, with them one; a region at work has its own.
  CHECK(arena(*plain) > 24 * tensor);
  CHECK(arena(*again) < 18 * tensor);
  CHECK(arena(*again) < arena(*plain) * 2 / 3);
  // The products of each block run once more, the last one of a block only where it is read.
  CHECK(products(*again) > products(*plain));
  CHECK(products(*again) <= products(*plain) + 24);
}

TEST_CASE("the infer pipeline and a module without gradients know nothing of checkpoint regions") {
  for (const char* name : {"train", "infer"}) {
    std::string text = chain(2, true);
    text = text.substr(0, text.find("func @both")) + "}\n";
    std::unique_ptr<ir::Module> module = ir::parse(text);
    PassContext context;
    run_pipeline(*module, pipeline_by_name(name), {}, context);
    int count = 0;
    for (const ir::Op& kernel : module->function("loss")->body())
      if (kernel.body())
        for (const ir::Op& op : *kernel.body()) {
          count += op.kind() == ir::OpKind::Matmul;
          CHECK_FALSE(op.attrs().has("replica"));
        }
    CHECK(count == 6);
  }
}

}  // namespace
}  // namespace mezzo::passes
