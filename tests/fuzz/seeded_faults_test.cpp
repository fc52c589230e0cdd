// SPDX-License-Identifier: Apache-2.0
// The fuzzer finds what it is for: three miscompiles, seeded into what is compiled but not into
// what the interpreter runs, are each caught within 500 graphs, and the same graphs pass without
// them.
#include <mezzo/ir/builder.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fuzz/checks.h>

namespace mezzo::test {

namespace {

using ir::DType;
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Value;

/// Changes the first op of the function that it can, and says whether there was one.
using Fault = bool (*)(ir::Function&);

/// f32 -> 16 bits -> anything: the rounding in between is lost.
bool drop_cast(ir::Function& function) {
  for (Op& op : function.body()) {
    if (op.kind() != OpKind::Cast || !ir::is_16bit(op.operand(0).dtype())) continue;
    Value narrow = op.operand(0);
    if (narrow.is_parameter() || !narrow.is(OpKind::Cast)) continue;
    Value wide = narrow.op()->operand(0);
    if (wide.dtype() != DType::F32 || op.result().dtype() != DType::F32) continue;
    op.result().replace_all_uses_with(wide);
    op.erase();
    return true;
  }
  return false;
}

/// A row that broadcasts along the first axis of a square is read along the last one.
bool swap_broadcast_stride(ir::Function& function) {
  for (Op& op : function.body()) {
    bool broadcasts = ir::is_elementwise(op.kind()) || op.kind() == OpKind::BroadcastTo;
    if (!broadcasts || op.result().type().rank() < 2) continue;
    const Shape& shape = op.result().shape();
    int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
    for (int i = 0; i < op.num_operands(); ++i) {
      Value row = op.operand(i);
      if (row.type().elements() != columns || columns < 2 || row.type().rank() == 0 ||
          row.shape()[row.type().rank() - 1] != columns)
        continue;
      if (rows == 1) continue;
      // Place (i, j) of the result reads element (i + rows j) mod columns instead of j.
      ir::Builder builder(&op);
      Value repeated = builder.broadcast_to(builder.reshape(row, {1, columns}), {rows, columns});
      Value moved = builder.transpose(builder.reshape(repeated, {columns, rows}), {1, 0});
      op.set_operand(i, moved);
      return true;
    }
  }
  return false;
}

/// mul and add of f32 become one rounding, as a contraction to fma makes them.
bool contract(ir::Function& function) {
  for (Op& op : function.body()) {
    if (op.kind() != OpKind::Add || op.result().dtype() != DType::F32) continue;
    for (int i = 0; i < 2; ++i) {
      Value product = op.operand(i);
      if (product.is_parameter() || !product.is(OpKind::Mul)) continue;
      ir::Builder builder(&op);
      auto wide = [&](Value value) { return builder.cast(value, DType::F64); };
      Value mul = builder.make(OpKind::Mul,
                               {wide(product.op()->operand(0)), wide(product.op()->operand(1))});
      Value sum = builder.make(OpKind::Add, {mul, wide(op.operand(1 - i))});
      op.result().replace_all_uses_with(builder.cast(sum, DType::F32));
      op.erase();
      return true;
    }
  }
  return false;
}

/// Kernels of `compiled` against the interpreter on `module`.
std::string difference(const ir::Module& module, std::unique_ptr<ir::Module> compiled,
                       const Tensors& inputs) {
  runtime::CompileOptions options = in_memory();
  options.rounding = "as-written";
  options.threads = 1;
  auto executable = runtime::compile(std::move(compiled), "f", options);
  Tensors got = run_compiled(*executable, inputs).results;
  Tensors wanted = ir::run(module, *module.functions()[0], inputs).results;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (std::string found = describe_difference(got[i], wanted[i]); !found.empty()) return found;
  return "";
}

/// The number of the first graph that shows the fault, or 0.
int first_catch(const char* name, Fault fault) {
  int seeded = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    std::unique_ptr<ir::Module> module = random_graph(seed, {.ops = GraphOps::Exact});
    std::unique_ptr<ir::Module> faulty = module->clone();
    if (!fault(*faulty->functions()[0])) continue;
    ++seeded;
    Tensors inputs = random_inputs(*module->functions()[0], seed);
    std::string found = difference(*module, std::move(faulty), inputs);
    if (found.empty()) continue;
    CHECK(difference(*module, module->clone(), inputs) == "");
    fmt::print("{}: caught by graph {}, after {} that held it: {}\n", name, seed, seeded, found);
    return static_cast<int>(seed);
  }
  fmt::print("{}: {} of 500 graphs held it, none showed it\n", name, seeded);
  return 0;
}

}  // namespace

TEST_CASE("a dropped cast is caught within 500 graphs") {
  CHECK(first_catch("dropped cast", drop_cast) > 0);
}

TEST_CASE("a broadcast along the wrong axis is caught within 500 graphs") {
  CHECK(first_catch("wrong broadcast stride", swap_broadcast_stride) > 0);
}

TEST_CASE("a contraction of mul and add is caught within 500 graphs") {
  CHECK(first_catch("contraction", contract) > 0);
}

}  // namespace mezzo::test
