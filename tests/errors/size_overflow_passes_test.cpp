// SPDX-License-Identifier: Apache-2.0
// Programs of tensors that are legal, and of which no machine can hold what the compiler makes: the
// pass that finds it tells the op, the sizes and the line, and never breaks a rule of its own.
#include <mezzo/ir/parser.h>
#include <mezzo/passes/pass_manager.h>
#include <support/error_of.h>

#include <doctest/doctest.h>

#include <string>

namespace mezzo::test {

namespace {

/// What the pipeline `infer` says of a module.
std::string told(const std::string& text, const std::string& target) {
  std::unique_ptr<ir::Module> module = ir::parse(text, "m.mz", ir::ParseOptions{});
  passes::Pipeline pipeline = passes::pipeline_by_name("infer");
  passes::set_target(pipeline, target);
  passes::ManagerOptions options;
  options.verify = true;
  passes::PassContext context;
  return error_of([&] { passes::run_pipeline(*module, pipeline, options, context); });
}

/// `@f` of these parameters, whose line 3 is the op.
std::string function(const std::string& parameters, const std::string& op,
                     const std::string& result) {
  return "module @m {\nfunc @f(" + parameters + ") -> " + result + " {\n" + op +
         "\nreturn %0 : " + result + "\n} }\n";
}

const std::string kShorter = "\nnote: make an axis shorter, or work on the tensor in parts",
                  kParts = "\nnote: make an axis shorter, or work on the tensors in parts";

}  // namespace

TEST_CASE("values that together take more than 2^59 bytes") {
  const std::string type = "tensor<36028797018963968xf64>";  // 2^58 bytes
  std::string text = "module @m {\nfunc @f(%x: " + type + ") -> " + type + " {\n";
  for (const char* op : {"%0 = cumsum %x {axis = 0}", "%1 = cumprod %0 {axis = 0}",
                         "%2 = cummax %1 {axis = 0}", "%3 = add %0, %1", "%4 = add %3, %2"})
    text += std::string(op) + " : " + type + "\n";
  text += "return %4 : " + type + "\n} }\n";
  const std::string remedy =
      "\nnote: no machine has so much memory; make tensors smaller, or work in parts";
  for (const char* target : {"x86-64-v3", "sm_90"})
    CHECK(told(text, target) ==
          "m.mz:6: error: add: the 288230376151711744 bytes of a tensor<36028797018963968xf64> and "
          "the 576460752303423488 of other values of @f are more than 2^59" +
              remedy);
  const std::string whole = "tensor<268435456x1073741824xf32>";
  CHECK(told(function(
                 "%x: " + whole,
                 "%1 = sort %x {axis = 1} : " + whole + "\n%0 = flip %1 {axes = [0, 1]} : " + whole,
                 whole),
             "x86-64-v3") ==
        "m.mz:3: error: sort: the 1152921504606846976 bytes of a tensor<268435456x1073741824xf32> "
        "and the 0 of other values of @f are more than 2^59" +
            remedy);
}

TEST_CASE("what a decomposition makes of an op is told as one of that op") {
  const std::string x = "tensor<1x1x1073741824x8xf32>", sums = "tensor<1x1x1073741824xf32>";
  CHECK(told(function("%x: " + x,
                      "%0, %1 = attention %x, %x, %x {scale = 1.0} : (" + x + ", " + x + ", " + x +
                          ") -> (" + x + ", " + sums + ")",
                      x),
             "x86-64-v3") ==
        "m.mz:3: error: attention: shape 1x1x1073741824x1073741824 has more than 2^59 elements (" +
            x + ", " + x + ", " + x + ")" + kShorter);
  const std::string image = "tensor<1048576x32768x32768x64xf32>", weight = "tensor<64x3x3x64xf32>";
  CHECK(told(function("%x: " + image + ", %w: " + weight,
                      "%0 = conv %x, %w {strides = [1, 1], low = [1, 1], high = [1, 1], dilations "
                      "= [1, 1]} : (" +
                          image + ", " + weight + ") -> " + image,
                      image),
             "x86-64-v3") ==
        "m.mz:3: error: conv: shape 1048576x32768x32768x3x3x64 has more than 2^59 elements (" +
            image + ", " + weight + ")" + kShorter);
}

TEST_CASE("products beyond what a launch or a workspace counts") {
  const std::string a = "tensor<268435456x1048576xf32>", b = "tensor<1048576x268435456xf32>",
                    y = "tensor<268435456x268435456xf32>";
  const std::string product =
      function("%a: " + a + ", %b: " + b,
               "%1 = matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\n%0 = relu %1 : " + y, y);
  const std::string types = " bytes, the most is 2^59 (" + a + ", " + b + ")" + kParts;
  CHECK(told(product, "x86-64-v3") ==
        "m.mz:3: error: matmul: needs a workspace of 577586720929742848" + types);
  CHECK(told(product, "sm_90") ==
        "m.mz:3: error: matmul: needs a workspace of 4611686018427387904" + types);
  const std::string row = "tensor<268435456x64xf32>", column = "tensor<64x268435456xf32>";
  CHECK(told(function("%a: " + row + ", %b: " + column,
                      "%0 = matmul %a, %b : (" + row + ", " + column + ") -> " + y, y),
             "sm_90") ==
        "m.mz:3: error: matmul: has 4398046511104 blocks on sm_90, a launch has 2^31 - "
        "1 at most (" +
            row + ", " + column + ")" + kParts);
  // Tensors that a machine could hold, of which a matrix is read again for each of 2^28.
  const std::string many = "tensor<268435456x1x1x268435456xf32>",
                    two = "tensor<2x268435456x268435456xf32>",
                    all = "tensor<268435456x2x1x268435456xf32>";
  CHECK(told(function("%a: " + many + ", %b: " + two,
                      "%0 = matmul %a, %b : (" + many + ", " + two + ") -> " + all, all),
             "x86-64-v3")
            .starts_with("m.mz:3: error: matmul: needs a workspace of "));
}

TEST_CASE("slices of slices, whose steps multiply") {
  const std::string x = "tensor<576460752303423488xf64>", some = "tensor<536870912xf64>";
  CHECK(told(function("%x: " + x,
                      "%1 = slice %x {starts = [1], ends = [576460752303423488], steps = "
                      "[1073741824]} : " +
                          x + " -> " + some +
                          "\n%0 = slice %1 {starts = [1], ends = [536870912], steps = "
                          "[1073741824]} : " +
                          some + " -> tensor<1xf64>",
                      "tensor<1xf64>"),
             "x86-64-v3") == "no error");
}

}  // namespace mezzo::test
