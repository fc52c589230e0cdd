// SPDX-License-Identifier: Apache-2.0
// What tables and random graphs have found, shrunk: each case was a wrong value or a crash. The
// label `unit` takes them under the sanitizers too, where a store past the end is seen.
#include <mezzo/ir/parser.h>
#include <support/random_graph.h>

#include <doctest/doctest.h>

#include <fuzz/checks.h>
#include <limits>

namespace mezzo::test {

namespace {

enum class Judged : uint8_t {
  Exact,      // bit for bit against the interpreter, as written and in excess precision
  OpByOp,     // every op a result, on the operands that it had
  AsResults,  // fused against unfused: what lies between is no result
};

/// The function with drawn inputs of several seeds.
void check_text(const std::string& text, Judged judged) {
  std::unique_ptr<ir::Module> module = ir::parse(text);
  INFO(text);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Tensors inputs = random_inputs(*module->functions()[0], seed);
    std::string found = guarded([&] {
      if (judged == Judged::AsResults) return check_fusion(*module, inputs);
      bool exact = judged == Judged::Exact;
      std::string first = exact ? check_exact(*module, inputs) : check_ops(*module, inputs, true);
      if (!first.empty()) return first;
      return exact ? check_excess(*module, inputs) : check_ops(*module, inputs, false);
    });
    CHECK(found == "");
  }
}

/// Updates written where they belong, by one and two threads, against the interpreter; several
/// runs, since what races need not lose. Gives how many results overwrite their parameter.
int check_updates(const std::string& text, int runs = 1) {
  INFO(text);
  int in_place = 0;
  for (int threads : {1, 2}) {
    runtime::CompileOptions options = in_memory();
    options.rounding = "as-written";
    options.threads = threads;
    auto executable = compile_text(text, "f", options);
    Tensors inputs = random_inputs(executable->function(), 1);
    Outcome wanted = run_interpreted(*executable, inputs);
    for (int i = 0; i < runs; ++i) {
      Outcome got = run_compiled(*executable, inputs, /*bare=*/true);
      for (size_t result = 0; result < wanted.results.size(); ++result)
        CHECK(describe_difference(got.results[result], wanted.results[result]) == "");
    }
    in_place = 0;
    for (const ir::Op& op : executable->function().body())
      if (const ir::Attr* places = op.attrs().find("places"))
        for (const ir::Attr& place : places->as<ir::AttrList>())
          in_place += place.is<ir::ValueRef>();
  }
  return in_place;
}

}  // namespace

TEST_CASE("a segment of an optimizer kernel leaves alone what another segment reads") {
  // The last value of %w is read by the update of %e, a task of its own.
  CHECK(check_updates(R"(module @m {
  func @f(%w: tensor<100000xf32> {state = true}, %e: tensor<100000xf32> {state = true}, %g: tensor<100000xf32>) -> (tensor<100000xf32> {updates = %w}, tensor<100000xf32> {updates = %e}) {
    %w1 = sub %w, %g {role = "update"} : tensor<100000xf32>
    %e1 = add %e, %w {role = "update"} : tensor<100000xf32>
    return %w1, %e1 : (tensor<100000xf32>, tensor<100000xf32>)
  }
}
)",
                      20) == 1);
  // The two read each other's old values.
  CHECK(check_updates(R"(module @m {
  func @f(%v: tensor<100000xf32> {state = true}, %w: tensor<100000xf32> {state = true}) -> (tensor<100000xf32> {updates = %v}, tensor<100000xf32> {updates = %w}) {
    %v1 = sub %v, %w {role = "update"} : tensor<100000xf32>
    %w1 = add %w, %v {role = "update"} : tensor<100000xf32>
    return %v1, %w1 : (tensor<100000xf32>, tensor<100000xf32>)
  }
}
)",
                      20) == 0);
}

TEST_CASE("an average of old weights beside the step that replaces them takes the old weights") {
  CHECK(check_updates(R"(module @m {
  func @loss(%x: tensor<70000xf32>, %w: tensor<70000xf32>) -> tensor<f32> {
    %p = mul %x, %w : tensor<70000xf32>
    %l = max %p {axes = [0]} : tensor<70000xf32> -> tensor<f32>
    return %l : tensor<f32>
  }
  func @f(%x: tensor<70000xf32>, %w: tensor<70000xf32> {param = true}, %prev: tensor<70000xf32> {state = true}, %lr: tensor<f32> {state = true}) -> (tensor<f32>, tensor<70000xf32> {updates = %w}, tensor<70000xf32> {updates = %prev}) {
    %l, %dw = gradient %x, %w {func = @loss, wrt = [1]} : (tensor<70000xf32>, tensor<70000xf32>) -> (tensor<f32>, tensor<70000xf32>)
    %w1 = sgd %w, %dw, %lr : (tensor<70000xf32>, tensor<70000xf32>, tensor<f32>) -> tensor<70000xf32>
    %d = sub %w, %prev : tensor<70000xf32>
    %h = constant {value = 0.5} : tensor<f32>
    %e = mul %d, %h : (tensor<70000xf32>, tensor<f32>) -> tensor<70000xf32>
    %p1 = add %prev, %e : tensor<70000xf32>
    return %l, %w1, %p1 : (tensor<f32>, tensor<70000xf32>, tensor<70000xf32>)
  }
}
)",
                      20) >= 1);
}

TEST_CASE("an update that reads other elements behind a cast is no update in place") {
  CHECK(check_updates(R"(module @m {
  func @f(%w: tensor<64x64xf16> {state = true}) -> tensor<64x64xf16> {updates = %w} {
    %c = cast %w : tensor<64x64xf16> -> tensor<64x64xf32>
    %t = transpose %c {perm = [1, 0]} : tensor<64x64xf32>
    %two = constant {value = 2.0} : tensor<f32>
    %m = mul %t, %two : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
    %y = cast %m {user = true} : tensor<64x64xf32> -> tensor<64x64xf16>
    return %y : tensor<64x64xf16>
  }
}
)",
                      4) == 0);
  // A cast alone keeps the elements at their places.
  CHECK(check_updates(R"(module @m {
  func @f(%w: tensor<64x64xf16> {state = true}, %g: tensor<64x64xf32>) -> tensor<64x64xf16> {updates = %w} {
    %c = cast %w : tensor<64x64xf16> -> tensor<64x64xf32>
    %m = sub %c, %g : tensor<64x64xf32>
    %y = cast %m {user = true} : tensor<64x64xf32> -> tensor<64x64xf16>
    return %y : tensor<64x64xf16>
  }
}
)",
                      4) == 1);
}

TEST_CASE("updates of several shapes that read one cast value each make their own") {
  CHECK(check_updates(R"(module @m attributes {stage = "primitive"} {
  func @f(%w: tensor<4x8xf32> {state = true}, %b: tensor<8xf32> {state = true}, %p: tensor<8xf16>) -> (tensor<4x8xf32> {updates = %w}, tensor<8xf32> {updates = %b}) {
    %c = cast %p : tensor<8xf16> -> tensor<8xf32>
    %w1 = sub %w, %c {role = "update"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %b1 = sub %b, %c {role = "update"} : tensor<8xf32>
    return %w1, %b1 : (tensor<4x8xf32>, tensor<8xf32>)
  }
}
)") == 2);
  CHECK(check_updates(R"(module @m attributes {stage = "primitive"} {
  func @f(%w: tensor<8x8xf32> {state = true}, %b: tensor<1x8xf32> {state = true}, %p: tensor<8xf16>) -> (tensor<1x8xf32> {updates = %b}, tensor<8x8xf32> {updates = %w}) {
    %c = cast %p : tensor<8xf16> -> tensor<8xf32>
    %b1 = sub %b, %c {role = "update"} : (tensor<1x8xf32>, tensor<8xf32>) -> tensor<1x8xf32>
    %w1 = sub %w, %c {role = "update"} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    return %b1, %w1 : (tensor<1x8xf32>, tensor<8x8xf32>)
  }
}
)") == 2);
}

TEST_CASE("what reads an updated parameter runs before its writer, so that nothing is copied") {
  CHECK(check_updates(R"(module @m {
  func @f(%w: tensor<4x4xf32> {state = true}, %g: tensor<4x4xf32>) -> (tensor<4x4xf32> {updates = %w}, tensor<4xf32>) {
    %w1 = sub %w, %g : tensor<4x4xf32>
    %n = max %w {axes = [1]} : tensor<4x4xf32> -> tensor<4xf32>
    return %w1, %n : (tensor<4x4xf32>, tensor<4xf32>)
  }
}
)") == 1);
}

TEST_CASE("a pad of what is computed stays outside of the epilogue that adds it to a product") {
  check_text(R"(module @m {
  func @f(%x: tensor<3x2xf32>, %a: tensor<4x1xf32>, %b: tensor<1x3xf32>) -> tensor<4x3xf32> {
    %s = square %x : tensor<3x2xf32>
    %p = pad %s {high = [0, 1], interior = [0, 0], low = [1, 0]} : tensor<3x2xf32> -> tensor<4x3xf32>
    %m = matmul %a, %b : (tensor<4x1xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
    %y = add %p, %m : tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
}
)",
             Judged::AsResults);
}

TEST_CASE("what follows a reduction over rows of no columns is computed for no element") {
  check_text(R"(module @m {
  func @f(%y: tensor<3x0xf32>, %dy: tensor<3x0xf32>) -> tensor<3x0xf32> {
    %0 = softmax_grad %y, %dy {axis = 1} : tensor<3x0xf32>
    return %0 : tensor<3x0xf32>
  }
}
)",
             Judged::OpByOp);
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
    check_text(text, Judged::Exact);
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
             Judged::Exact);
}

TEST_CASE("a buffered value of a row is read from its own copy of the loop") {
  check_text(R"(module @m {
  func @f(%x: tensor<3x13xbf16>, %label: tensor<3xi32>) -> (tensor<3x13xbf16>, tensor<3xbf16>) {
    %0 = softmax %x {axis = 1} : tensor<3x13xbf16>
    %1 = log_softmax_grad %0, %x {axis = 1} : tensor<3x13xbf16>
    %2 = cross_entropy %0, %label {label_smoothing = 0.125, reduce = "none"} : (tensor<3x13xbf16>, tensor<3xi32>) -> tensor<3xbf16>
    return %1, %2 : (tensor<3x13xbf16>, tensor<3xbf16>)
  }
}
)",
             Judged::AsResults);
}

TEST_CASE("a reduction over the middle axis of a square is read along the axes that it kept") {
  check_text(R"(module @m {
  func @f(%x: tensor<5x7x7xf16>) -> (tensor<5x7x7xf16>, tensor<5x7x7xf16>) {
    %0 = softmax %x {axis = 1} : tensor<5x7x7xf16>
    %1 = max %x {axes = [1], keepdims = true} : tensor<5x7x7xf16> -> tensor<5x1x7xf16>
    %2 = sub %x, %1 : (tensor<5x7x7xf16>, tensor<5x1x7xf16>) -> tensor<5x7x7xf16>
    return %0, %2 : (tensor<5x7x7xf16>, tensor<5x7x7xf16>)
  }
}
)",
             Judged::OpByOp);
  check_text(R"(module @m {
  func @f(%x: tensor<5x7x7xf32>) -> tensor<5x7x7xf32> {
    %0 = max %x {axes = [1], keepdims = true} : tensor<5x7x7xf32> -> tensor<5x1x7xf32>
    %1 = sub %x, %0 : (tensor<5x7x7xf32>, tensor<5x1x7xf32>) -> tensor<5x7x7xf32>
    return %1 : tensor<5x7x7xf32>
  }
}
)",
             Judged::Exact);
}

TEST_CASE("in excess precision a non-finite operand is no fault of the op that reads it") {
  check_text(R"(module @m {
  func @f(%x: tensor<0xf16>, %s: tensor<f16>) -> tensor<0xbool> {
    %0 = add_n %x, %x, %s : (tensor<0xf16>, tensor<0xf16>, tensor<f16>) -> tensor<0xf16>
    %1 = ne %0, %s : (tensor<0xf16>, tensor<f16>) -> tensor<0xbool>
    return %1 : tensor<0xbool>
  }
}
)",
             Judged::Exact);
  auto module = ir::parse(R"(module @m {
  func @f(%g: tensor<5xf16>, %d: tensor<5xf16>) -> tensor<5xbool> {
    %0 = mul0 %g, %d : (tensor<5xf16>, tensor<5xf16>) -> tensor<5xf16>
    %1 = ne %0, %g : (tensor<5xf16>, tensor<5xf16>) -> tensor<5xbool>
    return %1 : tensor<5xbool>
  }
}
)");
  auto executable = runtime::compile(std::move(module), "f", in_memory());
  ir::Type type(ir::DType::F16, {5});
  Outcome masked = run_compiled(
      *executable,
      {ir::full_tensor(type, 0), ir::full_tensor(type, std::numeric_limits<double>::infinity())});
  for (uint32_t word : masked.words) CHECK(word == 0);
}

TEST_CASE("smoothing of 1 leaves the label no share, also where its logit is -inf") {
  auto module = ir::parse(R"(module @m {
  func @f(%x: tensor<1x3xf32>, %label: tensor<1xi32>) -> tensor<f32> {
    %l = cross_entropy %x, %label {label_smoothing = 1.0} : (tensor<1x3xf32>, tensor<1xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
)");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto executable = runtime::compile(std::move(module), "f", in_memory());
  ir::InterpreterTensor logits = ir::full_tensor(ir::Type(ir::DType::F32, {1, 3}), 1);
  logits.floats[0] = -kInfinity;
  Outcome got =
      run_compiled(*executable, {logits, ir::full_tensor(ir::Type(ir::DType::I32, {1}), 0)});
  CHECK(got.results[0].floats[0] == kInfinity);
  CHECK(run_interpreted(*executable, {logits, ir::full_tensor(ir::Type(ir::DType::I32, {1}), 0)})
            .results[0]
            .floats[0] == kInfinity);
}

TEST_CASE("kernels that hold what is far apart are joined in no circle") {
  check_text(R"(module @m {
  func @f(%s0: tensor<1x1x1x7xbf16>, %s1: tensor<1x1x1x7xf16>, %rng: tensor<2xi64>, %p3: tensor<i64>) -> (tensor<1x2x2x8xbf16>, tensor<0x0x1xf32>) {
    %0, %1 = attention %s1, %s1, %s1 {acc = f32, scale = 0.25} : (tensor<1x1x1x7xf16>, tensor<1x1x1x7xf16>, tensor<1x1x1x7xf16>) -> (tensor<1x1x1x7xf16>, tensor<1x1x1xf32>)
    %2, %3 = attention %s0, %s0, %s0, %1, %rng, %p3 {acc = f32, masked = true, rate = 0.25, scale = 0.25, stream = 486} : (tensor<1x1x1x7xbf16>, tensor<1x1x1x7xbf16>, tensor<1x1x1x7xbf16>, tensor<1x1x1xf32>, tensor<2xi64>, tensor<i64>) -> (tensor<1x1x1x7xbf16>, tensor<1x1x1xf32>)
    %4 = neg %s0 : tensor<1x1x1x7xbf16>
    %5, %6 = attention %s0, %4, %s0 {acc = f32, causal = true, scale = 0.25} : (tensor<1x1x1x7xbf16>, tensor<1x1x1x7xbf16>, tensor<1x1x1x7xbf16>) -> (tensor<1x1x1x7xbf16>, tensor<1x1x1xf32>)
    %7 = softmax_grad %6, %1 {axis = 0} : tensor<1x1x1xf32>
    %8 = kl_div %2, %4 : tensor<1x1x1x7xbf16>
    %9 = pad %8 {high = [0, 0, 0, 1], interior = [1, 1, 0, 0], low = [0, 1, 1, 0]} : tensor<1x1x1x7xbf16> -> tensor<1x2x2x8xbf16>
    %10 = slice %7 {ends = [0, 0, 1], starts = [0, 0, 0], steps = [1, 1, 1]} : tensor<1x1x1xf32> -> tensor<0x0x1xf32>
    return %9, %10 : (tensor<1x2x2x8xbf16>, tensor<0x0x1xf32>)
  }
}
)",
             Judged::OpByOp);
}

TEST_CASE("a cast from bf16 to f16 marks the elements that overflow") {
  auto executable = runtime::compile(ir::parse(R"(module @m {
  func @f(%x: tensor<4xbf16>) -> tensor<4xf16> {
    %y = cast %x : tensor<4xbf16> -> tensor<4xf16>
    return %y : tensor<4xf16>
  }
}
)"),
                                     "f", in_memory());
  ir::Type type(ir::DType::BF16, {4});
  for (double value : {1.0, 0x1p100}) {
    Outcome got = run_compiled(*executable, {ir::full_tensor(type, value)});
    Outcome wanted = run_interpreted(*executable, {ir::full_tensor(type, value)});
    REQUIRE(got.words.size() == 2);
    CHECK((got.words[1] != 0) == (value != 1));
    CHECK(got.words == wanted.words);
  }
}

TEST_CASE("a task writes nothing of a piece that belongs to another task") {
  // Pieces of odd lengths along the only axis, cut into tasks anywhere.
  for (std::string text : {R"(module @m {
  func @f(%a: tensor<52433xf64>, %b: tensor<52433xf64>) -> tensor<209732xf64> {
    %c = concat %a, %b, %a, %a {axis = 0} : (tensor<52433xf64>, tensor<52433xf64>, tensor<52433xf64>, tensor<52433xf64>) -> tensor<209732xf64>
    return %c : tensor<209732xf64>
  }
}
)",
                           R"(module @m {
  func @f(%a: tensor<200003xf32>) -> tensor<300007xf32> {
    %p = pad %a {low = [50001], high = [50003], interior = [0]} : tensor<200003xf32> -> tensor<300007xf32>
    return %p : tensor<300007xf32>
  }
}
)"}) {
    INFO(text);
    std::unique_ptr<ir::Module> module = ir::parse(text);
    int64_t threaded = 0;
    CHECK(check_threads(*module, random_inputs(*module->functions()[0], 1), threaded) == "");
    CHECK(threaded > 0);
  }
}

TEST_CASE("flags of what is cut to nothing are those of the elements that were there") {
  check_text(R"(module @m {
  func @f(%p: tensor<8xf32>, %q: tensor<0xbf16>) -> (tensor<0xbf16>, tensor<4xbf16>) {
    %c = cast %p : tensor<8xf32> -> tensor<8xbf16>
    %s = slice %c {ends = [5], starts = [5], steps = [1]} : tensor<8xbf16> -> tensor<0xbf16>
    %a = add %s, %q : tensor<0xbf16>
    %w = pad %s {low = [4], high = [0], interior = [0]} : tensor<0xbf16> -> tensor<4xbf16>
    %n = neg %w : tensor<4xbf16>
    return %a, %n : (tensor<0xbf16>, tensor<4xbf16>)
  }
}
)",
             Judged::Exact);
}

TEST_CASE("an index by which nothing is read is out of no range") {
  check_text(R"(module @m {
  func @f(%x: tensor<4x0xf32>, %i: tensor<3xi32>, %y: tensor<4x2xf32>) -> (tensor<3x0xf32>, tensor<3x2xf32>) {
    %g = gather %x, %i {axis = 0} : (tensor<4x0xf32>, tensor<3xi32>) -> tensor<3x0xf32>
    %c = constant {value = 1} : tensor<3xi32>
    %h = gather %y, %c {axis = 0} : (tensor<4x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
    return %g, %h : (tensor<3x0xf32>, tensor<3x2xf32>)
  }
}
)",
             Judged::Exact);
}

}  // namespace mezzo::test
