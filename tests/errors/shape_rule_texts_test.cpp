// SPDX-License-Identifier: Apache-2.0
// What the shape rule of every op says of an op that cannot be, whole: the op, both values, the
// operands and, where the sentence alone does not say what to do, a remedy.
#include <mezzo/ir/attr_parser.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/shape_rules.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <errors/shape_rule_rows.h>
#include <set>
#include <string>
#include <vector>

namespace mezzo::test {

namespace {

using ir::OpKind;
using ir::Type;

std::vector<Type> types_of(const std::string& text) {
  std::vector<Type> types;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(", ", at), text.size());
    const std::string type = "tensor<" + text.substr(at, end - at) + ">";
    ir::TokenStream stream(type, "type");
    types.push_back(ir::parse_type(stream));
    at = end + 2;
  }
  return types;
}

/// What ops that name a function find.
constexpr const char* kFunctions = R"(module @m {
func @row(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }
func @back(%x: tensor<3xf32>, %y: tensor<3xf32>, %d: tensor<f32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
func @loss(%x: tensor<f32>, %i: tensor<i32>) -> tensor<f32> { return %x : tensor<f32> }
})";

std::string told(const Row& row) {
  const std::unique_ptr<ir::Module> module = ir::parse(kFunctions, "m.mz", ir::ParseOptions{});
  const std::vector<Type> operands = types_of(row.operands), declared = types_of(row.declared);
  const ir::Attrs attrs = ir::parse_attrs_text(row.attrs, "attrs");
  const std::string text =
      error_of([&] { ir::infer_types({row.kind, operands, attrs, declared, module.get(), {}}); });
  return text.starts_with("error: ") ? text.substr(7) : text;
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.operands);
    CAPTURE(row.attrs);
    CHECK(told(row) == row.text);
  }
}

}  // namespace

TEST_CASE("movement and indexing") { check(movement()); }
TEST_CASE("reductions, scans, orders and products") { check(reductions()); }
TEST_CASE("losses, attention and recurrent sequences") { check(sequences_and_losses()); }
TEST_CASE("normalisations and windows") { check(layers()); }
TEST_CASE("random numbers, gradients and the training step") { check(random_and_training()); }

TEST_CASE("every op with a shape rule of its own has a row") {
  std::set<OpKind> told_of;
  for (const auto* rows :
       {&movement(), &reductions(), &sequences_and_losses(), &layers(), &random_and_training()})
    for (const Row& row : *rows) told_of.insert(row.kind);
  for (const ir::OpInfo& info : ir::all_ops()) {
    // Their results are what is stated, whatever they read.
    const bool takes_all = info.kind == OpKind::Kernel || info.has(ir::Trait::Terminator);
    if (info.op_class == ir::OpClass::Elementwise || takes_all) continue;
    CAPTURE(info.name);
    CHECK(told_of.contains(info.kind));
  }
}

TEST_CASE("elementwise ops name what they take, and shapes that do not broadcast") {
  auto told_without_types = [](const ir::OpInfo& info, const std::string& operands) {
    const char* attrs = info.kind == OpKind::CheckIndex ? "{size = 3}" : "{}";
    const std::string all = told({info.kind, operands.c_str(), attrs, "", "4xf32"});
    const size_t note = all.find("\nnote: ");
    return all.substr(0, all.find(" (")) + (note == std::string::npos ? "" : all.substr(note));
  };
  for (const ir::OpInfo& info : ir::all_ops()) {
    if (info.op_class != ir::OpClass::Elementwise) continue;
    CAPTURE(info.name);
    const std::string name = info.name;
    const bool selects = info.types == ir::TypeRule::Select;
    auto operands = [&](const std::string& first, const std::string& rest) {
      std::string all = first;
      for (int i = 1; i < std::max(info.min_operands, 1); ++i) all += ", " + rest;
      return all;
    };
    if (info.min_operands > 1)
      CHECK(told_without_types(info, operands(selects ? "4xbool" : "4xf32", "3xf32")) ==
            name +
                ": shapes do not broadcast, tensor<4xf32> and tensor<3xf32>\nnote: axes are "
                "matched from the last one; each pair must be equal or one of them 1");
    const char* wrong = nullptr;
    std::string text;
    switch (info.types) {
      case ir::TypeRule::SameFloat:
      case ir::TypeRule::PredicateFloat:
        wrong = "4xi32";
        text = "takes a float type, not i32\nnote: ";
        text += info.kind == OpKind::Div ? "floor_div divides integers; cast one operand to a "
                                           "float type for a quotient"
                                         : "cast it first";
        break;
      case ir::TypeRule::SameNumber:
      case ir::TypeRule::PredicateNumber:
        wrong = "4xbool";
        text = "takes a float or integer type, not bool\nnote: cast it first";
        break;
      case ir::TypeRule::SameInteger:
        wrong = "4xf32";
        text = "takes an integer type, not f32\nnote: cast it first";
        break;
      case ir::TypeRule::Logical:
        wrong = "4xf32";
        text = "takes bool, not f32\nnote: cast it first";
        break;
      case ir::TypeRule::Select:
        wrong = "4xf32";
        text = "condition must be bool, not f32\nnote: a comparison gives bool";
        break;
      default:
        continue;  // takes any type
    }
    CHECK(told_without_types(info, operands(wrong, wrong)) == name + ": " + text);
  }
}

}  // namespace mezzo::test
