// SPDX-License-Identifier: Apache-2.0
// The graph: uses, erasing, moving, copies, and depth that must not matter.
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/hash.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>

#include <doctest/doctest.h>

using namespace mezzo;
using namespace mezzo::ir;

namespace {

const char* const kText = R"(module @m attributes {stage = "traced"} {
  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    %a = relu %x : tensor<4xf32>
    %b = neg %a : tensor<4xf32>
    %c = add %a, %b {grad_of = %a} : tensor<4xf32>
    return %c : tensor<4xf32>
  }
}
)";

Op* op_at(Module& module, int index) {
  Op* op = module.functions()[0]->body().front();
  while (index--) op = op->next();
  return op;
}

}  // namespace

TEST_CASE("uses follow operands") {
  auto module = parse(kText);
  Op *a = op_at(*module, 0), *b = op_at(*module, 1), *c = op_at(*module, 2);
  CHECK(a->result().users().size() == 2);
  CHECK(b->result().has_one_use());
  b->result().replace_all_uses_with(a->result());
  CHECK(b->result().unused());
  CHECK(c->operand(1) == a->result());
  CHECK(a->result().users().size() == 3);
  c->set_operands(std::vector<Value>{c->operand(1), module->functions()[0]->parameter(0)});
  CHECK(c->operand(0) == a->result());
  CHECK(c->operand(1).is_parameter());
}

TEST_CASE("an op whose result is read cannot be erased") {
  auto module = parse(kText);
  CHECK_THROWS_AS(op_at(*module, 1)->erase(), InternalError);
  op_at(*module, 2)->set_operand(1, module->functions()[0]->parameter(0));
  op_at(*module, 1)->erase();
  CHECK(module->op_count() == 3);
  CHECK(op_at(*module, 1)->kind() == OpKind::Add);
}

TEST_CASE("an op may be erased or moved while its region is walked") {
  auto module = parse(kText);
  Function& function = *module->functions()[0];
  Op* last = function.body().back();
  last->set_operand(0, function.parameter(0));
  op_at(*module, 2)->attrs().erase("grad_of");
  op_at(*module, 2)->move_before(function.body().front());  // a bad order, but only for a moment
  int seen = 0;
  for (Op& op : function.body()) {
    ++seen;
    if (op.kind() == OpKind::Add) op.erase();
  }
  CHECK(seen == 4);
  CHECK(module->op_count() == 3);
}

TEST_CASE("a parameter that nobody reads can be erased, later ones move down") {
  auto module = parse(
      "module @m { func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {"
      " return %y : tensor<3xf32> } }");
  Region& body = module->functions()[0]->body();
  CHECK_THROWS_AS(body.erase_parameter(1), InternalError);
  body.erase_parameter(0);
  CHECK(body.num_parameters() == 1);
  CHECK(body.terminator()->operand(0) == body.parameter(0));
  CHECK(body.parameter(0).name() == "y");
  CHECK(body.parameter(0).type() == Type(DType::F32, {3}));
}

TEST_CASE("a copy prints alike and shares nothing") {
  auto module = parse(kText, "net.mz");
  auto copy = module->clone();
  CHECK(print(*copy, {.locations = true}) == print(*module, {.locations = true}));
  CHECK(structural_hash(*copy) == structural_hash(*module));
  std::string before = print(*module);
  op_at(*copy, 2)->attrs().set("scope", "s");
  op_at(*copy, 0)->result().set_name("renamed");
  CHECK(print(*module) == before);
  module.reset();
  CHECK(print(*copy).find("grad_of = %renamed") != std::string::npos);
}

TEST_CASE("copies refer to their own values inside lists too") {
  auto module = parse(kText);
  Op* c = op_at(*module, 2);
  Value x = module->functions()[0]->parameter(0);
  c->attrs().set("places", Attr(AttrList{Attr(ValueRef{x.def()})}));
  auto copy = module->clone();
  const Attr& places = *op_at(*copy, 2)->attrs().find("places");
  CHECK(places.as<AttrList>()[0].as<ValueRef>().value == copy->functions()[0]->parameter(0).def());
}

TEST_CASE("a graph of a million ops in one chain is made and freed") {
  Module module("m");
  Function* function = module.add_function("f");
  Value value = function->add_parameter(Type(DType::F32, {}), "x");
  constexpr size_t kOps = 1000000;
  for (size_t i = 0; i < kOps; ++i) {
    Op* op = module.make_op(OpKind::Neg, std::vector<Value>{value}, std::vector<Type>{value.type()},
                            {}, {});
    Module::append(function->body(), op);
    value = op->result();
  }
  CHECK(module.op_count() == kOps);
  module.erase_function(function);
  CHECK(module.op_count() == 0);
}
