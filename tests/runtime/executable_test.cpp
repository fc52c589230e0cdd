// SPDX-License-Identifier: Apache-2.0
// Executables against the interpreter on the module that they were made from.
#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/verdict.h>
#include <mezzo/passes/pass_manager.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <runtime/compiled.h>

namespace mezzo::test {
namespace {

const std::vector<std::pair<std::string, double>> kScalars = {{"lr", 0.125}, {"scale", 1024}};

void check_close(const Outcome& got, const Outcome& expected) {
  REQUIRE(got.results.size() == expected.results.size());
  for (size_t i = 0; i < got.results.size(); ++i) {
    CAPTURE(i);
    CHECK(describe_distance(got.results[i], expected.results[i]) == "");
  }
  for (size_t i = 0; i < got.parameters.size(); ++i) {
    CAPTURE(i);
    CHECK(describe_distance(got.parameters[i], expected.parameters[i]) == "");
  }
}

void check_same_bits(const Tensors& got, const Tensors& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(ir::describe_difference(got[i], expected[i]) == "");
  }
}

int index_of(const ir::Function& function, const std::string& parameter) {
  for (int i = 0; i < function.num_parameters(); ++i)
    if (function.parameter(i).name() == parameter) return i;
  return -1;
}

/// The verdict is the only i32 result that updates nothing.
int32_t verdict_of(const ir::Function& function, const Outcome& outcome) {
  for (int i = 0; i < function.num_results(); ++i)
    if (!function.updated_parameter(i) &&
        outcome.results[static_cast<size_t>(i)].type == ir::Type(ir::DType::I32, {}))
      return static_cast<int32_t>(outcome.results[static_cast<size_t>(i)].integers[0]);
  return -1;
}

TEST_CASE("a training step computes what the interpreter computes, under every policy") {
  for (const char* policy : {"", "float32", "mixed_float16", "mixed_bfloat16"})
    for (const char* rounding : {"as-written", "excess"}) {
      CAPTURE(policy);
      CAPTURE(rounding);
      auto executable = compile_text(mlp_step_text(5, 7, 6), "step",
                                     in_memory({.policy = policy, .rounding = rounding}));
      Tensors inputs = inputs_for(executable->function(), 1, kScalars);
      Outcome got = run_compiled(*executable, inputs);
      Outcome expected = run_interpreted(*executable, inputs);
      check_close(got, expected);
      CHECK(got.words == expected.words);
      CHECK(verdict_of(executable->function(), got) == 0);
      int w1 = index_of(executable->function(), "w1");
      CHECK_FALSE(
          ir::same_bits(got.parameters[static_cast<size_t>(w1)], inputs[static_cast<size_t>(w1)]));
    }
}

TEST_CASE("unfused, every operation is a kernel and the results are those of the interpreter") {
  runtime::CompileReport fused, unfused;
  compile_text(mlp_step_text(5, 7, 6), "step", in_memory({.policy = "mixed_float16"}), &fused);
  auto executable = compile_text(mlp_step_text(5, 7, 6), "step",
                                 in_memory({.policy = "mixed_float16", .fuse = false}), &unfused);
  CHECK(unfused.kernels > 2 * fused.kernels);
  Tensors inputs = inputs_for(executable->function(), 2, kScalars);
  check_close(run_compiled(*executable, inputs), run_interpreted(*executable, inputs));
}

TEST_CASE("one and two threads give the same bits, those of the interpreter up to rounding") {
  std::string text = mlp_step_text(96, 200, 130);
  Outcome outcomes[2];
  for (int threads : {1, 2}) {
    auto executable =
        compile_text(text, "step", in_memory({.policy = "mixed_float16", .threads = threads}));
    Tensors inputs = inputs_for(executable->function(), 3, kScalars);
    outcomes[threads - 1] = run_compiled(*executable, inputs);
    if (threads == 2) check_close(outcomes[1], run_interpreted(*executable, inputs));
  }
  check_same_bits(outcomes[0].results, outcomes[1].results);
}

TEST_CASE("a run repeats itself to the bit, with other memory and without memory for updates") {
  auto executable =
      compile_text(mlp_step_text(5, 7, 6), "step", in_memory({.policy = "mixed_float16"}));
  Tensors inputs = inputs_for(executable->function(), 4, kScalars);
  Outcome first = run_compiled(*executable, inputs);
  for (bool bare : {false, true, false}) {
    Outcome again = run_compiled(*executable, inputs, bare);
    check_same_bits(again.results, first.results);
    check_same_bits(again.parameters, first.parameters);
  }
}

TEST_CASE("updates are written in place where the plan says so") {
  auto executable = compile_text(mlp_step_text(5, 7, 6), "step", in_memory());
  int in_place = 0;
  for (const ir::Op& op : executable->function().body())
    if (const ir::Attr* places = op.attrs().find("places"))
      for (const ir::Attr& place : places->as<ir::AttrList>()) in_place += place.is<ir::ValueRef>();
  CHECK(in_place >= 3);
}

TEST_CASE("a step that is not taken keeps every bit of the parameters and says why") {
  auto executable =
      compile_text(mlp_step_text(5, 7, 6), "step", in_memory({.policy = "mixed_float16"}));
  const ir::Function& function = executable->function();
  int w1 = index_of(function, "w1"), scale = index_of(function, "scale");
  REQUIRE(scale >= 0);
  Tensors clean = inputs_for(function, 5, kScalars);

  auto run_both = [&](const Tensors& inputs) {
    Outcome got = run_compiled(*executable, inputs);
    Outcome expected = run_interpreted(*executable, inputs);
    CHECK(verdict_of(function, got) == verdict_of(function, expected));
    for (const char* name : {"w1", "b1", "w2"}) {
      size_t place = static_cast<size_t>(index_of(function, name));
      CHECK(ir::describe_difference(got.parameters[place], inputs[place]) == "");
    }
    size_t at = static_cast<size_t>(scale);
    CHECK(ir::describe_difference(got.parameters[at], expected.parameters[at]) == "");
    return got;
  };

  SUBCASE("a NaN in the input") {
    clean[0].floats[3] = std::numeric_limits<double>::quiet_NaN();
    Outcome got = run_both(clean);
    CHECK(ir::verdict_code(verdict_of(function, got)) == ir::VerdictCode::BadInput);
    CHECK(got.parameters[static_cast<size_t>(scale)].floats[0] == 1024);
  }
  SUBCASE("an infinite parameter") {
    clean[static_cast<size_t>(w1)].floats[0] = std::numeric_limits<double>::infinity();
    Outcome got = run_both(clean);
    CHECK(ir::verdict_code(verdict_of(function, got)) == ir::VerdictCode::NonfiniteParameter);
  }
  SUBCASE("a loss scale that overflows f16 is halved") {
    clean[static_cast<size_t>(scale)] = ir::full_tensor({ir::DType::F32, {}}, 16777216);
    Outcome got = run_both(clean);
    CHECK(ir::verdict_code(verdict_of(function, got)) == ir::VerdictCode::ScaleOverflow);
    CHECK(got.parameters[static_cast<size_t>(scale)].floats[0] == 8388608);
  }
  SUBCASE("a label out of range") {
    clean[1].integers[2] = 3;
    Outcome got = run_both(clean);
    CHECK(ir::verdict_code(verdict_of(function, got)) == ir::VerdictCode::BadIndex);
    CHECK_FALSE(got.index_out_of_range);  // the verdict has said it
  }
  SUBCASE("the next step starts with clear flags") {
    Tensors broken = clean;
    broken[0].floats[3] = std::numeric_limits<double>::infinity();
    run_both(broken);
    CHECK(verdict_of(function, run_compiled(*executable, clean)) == 0);
  }
}

TEST_CASE("outside of a step a label out of range is reported by the run") {
  auto executable = compile_text(mlp_step_text(5, 7, 6), "loss", in_memory());
  Tensors inputs = inputs_for(executable->function(), 6, {});
  CHECK_FALSE(run_compiled(*executable, inputs).index_out_of_range);
  inputs[1].integers[0] = -1;
  CHECK(run_compiled(*executable, inputs).index_out_of_range);
  inputs[1].integers[0] = 0;
  CHECK_FALSE(run_compiled(*executable, inputs).index_out_of_range);
}

TEST_CASE("sizes and ignored labels that the type of the labels cannot hold are those numbers") {
  for (const char* dtype : {"u8", "i32", "i64"})
    for (const char* attributes :
         {"size = 2147483648", "size = 4294967297", "size = 1, ignore_index = 4294967297",
          "size = 1, ignore_index = -4294967295", "size = 2", "size = 1, ignore_index = 1"}) {
      CAPTURE(dtype);
      CAPTURE(attributes);
      auto executable = compile_text(
          fmt::format("module @m {{\nfunc @f(%x: tensor<5x{0}>) -> tensor<5x{0}> {{\n"
                      "  %y = check_index %x {{{1}}} : tensor<5x{0}>\n  return %y : tensor<5x{0}>\n"
                      "}}\n}}\n",
                      dtype, attributes),
          "f", in_memory());
      Tensors inputs = {ir::full_tensor(executable->function().parameter(0).type(), 1)};
      CHECK(run_compiled(*executable, inputs).index_out_of_range ==
            run_interpreted(*executable, inputs).index_out_of_range);
      inputs[0].integers[3] = dtype == std::string("u8") ? 200 : 0;
      CHECK(run_compiled(*executable, inputs).index_out_of_range ==
            run_interpreted(*executable, inputs).index_out_of_range);
    }
}

constexpr const char* kAwkward = R"(module @awkward {
  func @f(%x: tensor<2x3xf32>, %s: tensor<6xf32> {state}, %t: tensor<6xf32> {state}) -> (tensor<2x3xf32>, tensor<6xf32>, tensor<2x2xf32>, tensor<6xf32>, tensor<6xf32> {updates = %t}, tensor<6xf32> {updates = %s}) {
    %c = constant {value = [1.0, 2.0, -3.0, 0.5]} : tensor<2x2xf32>
    %y = neg %x : tensor<2x3xf32>
    %z = reshape %y {shape = [6]} : tensor<2x3xf32> -> tensor<6xf32>
    %n = add %s, %z : tensor<6xf32>
    return %y, %z, %c, %s, %s, %n : (tensor<2x3xf32>, tensor<6xf32>, tensor<2x2xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  }
}
)";

TEST_CASE("results may be constants, parameters, reshapes and each other") {
  auto executable = compile_text(kAwkward, "f", in_memory());
  Tensors inputs = inputs_for(executable->function(), 7, {});
  for (bool bare : {false, true}) {
    Outcome got = run_compiled(*executable, inputs, bare);
    Outcome expected = run_interpreted(*executable, inputs);
    check_same_bits(got.results, expected.results);
    check_same_bits(got.parameters, expected.parameters);
  }
}

TEST_CASE("a wrong number of arguments and missing memory are faults that name the place") {
  auto executable = compile_text(kAwkward, "f", in_memory());
  auto message = [&](std::vector<void*> parameters, std::vector<void*> results) -> std::string {
    try {
      executable->run(parameters, results);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  float memory[6] = {};
  void* some = memory;
  CHECK(message({some}, {}).find("@f takes 3 parameters, not 1") != std::string::npos);
  CHECK(message({some, some, some}, {some}).find("@f gives 6 results, not 1") != std::string::npos);
  CHECK(message({some, nullptr, some}, {some, some, some, some, some, some})
            .find("parameter 1 (%s) of @f has no memory") != std::string::npos);
  CHECK(message({some, some, some}, {some, some, nullptr, some, nullptr, nullptr})
            .find("result 2 of @f has no memory") != std::string::npos);
}

constexpr const char* kPlanned =
    R"(module @m attributes {{rounding = "excess", stage = "planned"}} {{
  func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {{arena = 64}} {{
    %y = kernel @k0 (%x = %x) {{family = "elementwise"{}}} plan {{{}}} : tensor<4xf32> {{
      %y = exp %x {{word = 1}} : tensor<4xf32>
      yield %y : tensor<4xf32>
    }}
    return %y : tensor<4xf32>
  }}
}}
)";

TEST_CASE("a planned text whose plans or places do not hold is refused before it is bound") {
  auto error = [](const std::string& places, const std::string& plan) -> std::string {
    try {
      compile_text(fmt::format(kPlanned, places, plan), "f", in_memory());
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  };
  const std::string plan = "grain = 4, vector = 4";
  const std::string head = "error: the module is not valid\n<text>:3: @f: %y = kernel @k0: ";
  CHECK(error(", places = [0]", plan) == "");
  CHECK(error(", places = [@result0]", plan) == "");
  CHECK(error("", plan) == head + "has no places for its results");
  CHECK(error(", places = []", plan) == head + "has 0 places for 1 result");
  CHECK(error(", places = [1048576000]", plan) ==
        head + "place 1048576000 of 16 bytes lies outside the arena of 64");
  CHECK(error(", places = [@result7]", plan) ==
        head + "there is no place @result7; @f has 1 result");
  CHECK(error(", places = [0]", "grain = 4, vector = 3") ==
        head + "plan: 'vector' must be a power of two up to 1024, not 3");
}

TEST_CASE("an effect judges what stands before it and nothing else, however kernels are fused") {
  // Rows and columns read the same values, the check between them: first the rows hold the index
  // that it is about and the columns stand behind it, then the other way round.
  const std::string head = R"(module @m attributes {stage = "primitive", words = 1} {
  func @f(%x: tensor<8x4xf32>, %l: tensor<8x1xi32>, %w: tensor<8x8xf32>, %h: tensor<8x1xf32>, %g: tensor<4xf32>) -> (tensor<8x1xf32>, tensor<bool>, tensor<4xf32>) {
)";
  const std::string rows = R"(    %li = check_index %l {size = 4} : tensor<8x1xi32>
    %n = iota {axis = 1} : tensor<8x4xi32>
    %hit = eq %n, %li : (tensor<8x4xi32>, tensor<8x1xi32>) -> tensor<8x4xbool>
    %z = constant {value = 0.0} : tensor<f32>
    %pick = where %hit, %x, %z : (tensor<8x4xbool>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %a = sum %pick {axes = [1], keepdims = true} : tensor<8x4xf32> -> tensor<8x1xf32>
)";
  const std::string check = "    %ok = all_finite %g : tensor<4xf32> -> tensor<bool>\n";
  const std::string columns =
      R"(    %p = matmul %w, %h : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    %q = mul %x, %p : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
    %b = sum %q {axes = [0]} : tensor<8x4xf32> -> tensor<4xf32>
)";
  const std::string tail =
      "    return %a, %ok, %b : (tensor<8x1xf32>, tensor<bool>, tensor<4xf32>)\n  }\n}\n";
  auto ok = [&](const std::string& text) {
    const auto source = ir::parse(text, "effects.mz");
    const auto executable = compile_text(text, "f", in_memory());
    Tensors inputs = inputs_for(executable->function(), 3, {});
    inputs[1].integers[5] = 7;
    const int64_t result = run_compiled(*executable, inputs).results[1].integers[0];
    CHECK(result == ir::run(*source, *source->functions()[0], inputs).results[1].integers[0]);
    return result;
  };
  CHECK(ok(head + rows + check + columns + tail) == 0);
  CHECK(ok(head + columns + check + rows + tail) == 1);
}

constexpr const char* kPlannedProduct =
    R"(module @m attributes {{rounding = "excess", stage = "planned"{0}}} {{
  func @f(%x: tensor<4x{2}xf32>, %w: tensor<{2}x8xf32>) -> tensor<4x8xf32> {{
    %y = kernel @k0 (%x = %x, %w = %w) {{family = "matmul", places = [@result0]}} plan {{{1}}} : (tensor<4x{2}xf32>, tensor<{2}x8xf32>) -> tensor<4x8xf32> {{
      %y = matmul %x, %w {{acc = f32, word = 1}} : (tensor<4x{2}xf32>, tensor<{2}x8xf32>) -> tensor<4x8xf32>
      yield %y : tensor<4x8xf32>
    }}
    return %y : tensor<4x8xf32>
  }}
}}
)";

TEST_CASE("a plan that was read fits shapes and target, or is refused with the reason") {
  auto error = [](const std::string& target, const std::string& plan, int k = 6) -> std::string {
    const std::string attribute = target.empty() ? "" : ", target = \"" + target + "\"";
    try {
      auto executable =
          compile_text(fmt::format(kPlannedProduct, attribute, plan, k), "f", in_memory());
      Tensors inputs = inputs_for(executable->function(), 8, {});
      check_close(run_compiled(*executable, inputs), run_interpreted(*executable, inputs));
    } catch (const UserError& refused) {
      return refused.message();
    } catch (const DeviceError& refused) {
      return refused.what();
    }
    return "";
  };
  auto plan = [](int mr, int nr, int mc, int nc, int kc, int slices) {
    return fmt::format("kc = {}, mc = {}, mr = {}, nc = {}, nr = {}, slice_blocks = 1, slices = {}",
                       kc, mc, mr, nc, nr, slices);
  };
  CHECK(error("", plan(4, 4, 4, 8, 8, 1)) == "");
  CHECK(error("x86-64-v2", plan(2, 8, 4, 8, 8, 1)) == "");
  const std::string head = "kernel @k0 of @f: plan: ";
  const std::string tail = "; the target is 'x86-64-v2' with vectors of 16 bytes";
  CHECK(error("", plan(4, 6, 4, 8, 8, 1)) ==
        head + "'nr' must be a multiple of the 4 lanes of a vector, not 6" + tail);
  CHECK(error("", plan(0, 4, 4, 8, 8, 1)) == head + "'mr' must lie in [1, 256], not 0" + tail);
  CHECK(error("", plan(4, 4, 4, 8, 8, 1), 0) == "");
  CHECK(error("", plan(0, 4, 4, 8, 8, 1), 0) == head + "'mr' must lie in [1, 256], not 0" + tail);
  CHECK(error("", plan(4, 4, 6, 8, 8, 1)) ==
        head + "a block of 6x8 does not divide into tiles of 4x4" + tail);
  CHECK(error("", plan(4, 4, 4, 8, 4, 2)) == head + "'kc' must be a multiple of 8, not 4" + tail);
  CHECK(error("", plan(4, 4, 4, 8, 8, 17)) == head + "'slices' must lie in [1, 16], not 17" + tail);
}

TEST_CASE("a module that was planned for a GPU is refused on the processor") {
  std::string message;
  try {
    compile_text(R"(module @m attributes {stage = "planned", target = "sm_90"} {
  func @f(%x: tensor<1000xf32>) -> tensor<1000xf32> {
    %y = kernel @k0 (%x = %x) {family = "elementwise", places = [@result0]} plan {threads = 256, vector = 4} : tensor<1000xf32> {
      %z = add %x, %x : tensor<1000xf32>
      yield %z : tensor<1000xf32>
    }
    return %y : tensor<1000xf32>
  }
}
)",
                 "f", in_memory());
  } catch (const DeviceError& refused) {
    message = refused.what();
  }
  CHECK(message.starts_with("target 'sm_90' is not a processor that this build can run"));
}

TEST_CASE("a vector of a plan that was read lies in the range that the target can follow") {
  auto error = [](int vector) -> std::string {
    try {
      compile_text(
          fmt::format(R"(module @m attributes {{stage = "planned", target = "x86-64-v2"}} {{
  func @f(%x: tensor<1000xf32>) -> tensor<1000xf32> {{
    %y = kernel @k0 (%x = %x) {{family = "elementwise", places = [@result0]}} plan {{grain = 512, vector = {}}} : tensor<1000xf32> {{
      %z = add %x, %x : tensor<1000xf32>
      yield %z : tensor<1000xf32>
    }}
    return %y : tensor<1000xf32>
  }}
}}
)",
                      vector),
          "f", in_memory());
    } catch (const UserError& refused) {
      return refused.message();
    }
    return "";
  };
  const std::string head = "kernel @k0 of @f: plan: 'vector' must lie in [2, 16], not ",
                    tail = "; the target is 'x86-64-v2' with vectors of 16 bytes";
  CHECK(error(1) == head + "1" + tail);
  CHECK(error(2) == "");
  CHECK(error(16) == "");
  CHECK(error(32) == head + "32" + tail);
}

TEST_CASE("a part of the rows of a plan that was read is a block of a sum at most") {
  auto error = [](int grain) -> std::string {
    try {
      compile_text(
          fmt::format(R"(module @m attributes {{stage = "planned", target = "x86-64-v2"}} {{
  func @f(%x: tensor<600x9xf32>) -> (tensor<600xf32>, tensor<9xf32>) {{
    %y, %z = kernel @k0 (%x = %x) {{family = "rows_columns", places = [@result0, @result1]}} plan {{grain = {}, vector = 4}} : tensor<600x9xf32> -> (tensor<600xf32>, tensor<9xf32>) {{
      %r = max %x {{axes = [1]}} : tensor<600x9xf32> -> tensor<600xf32>
      %c = sum %x {{axes = [0]}} : tensor<600x9xf32> -> tensor<9xf32>
      yield %r, %c : (tensor<600xf32>, tensor<9xf32>)
    }}
    return %y, %z : (tensor<600xf32>, tensor<9xf32>)
  }}
}}
)",
                      grain),
          "f", in_memory());
    } catch (const UserError& refused) {
      return refused.message();
    }
    return "";
  };
  CHECK(error(1) == "");
  CHECK(error(256) == "");
  CHECK(error(257) ==
        "kernel @k0 of @f: plan: 'grain' must lie in [1, 256], not 257; the target is "
        "'x86-64-v2' with vectors of 16 bytes");
}

TEST_CASE("a module planned for a level of x86-64 runs on each machine that has it") {
  const ir::Target native = codegen::native_target();
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CAPTURE(name);
    auto module = ir::parse(mlp_step_text(5, 7, 6));
    passes::Pipeline pipeline = passes::pipeline_by_name("train");
    passes::set_target(pipeline, name);
    passes::PassContext context;
    passes::run_pipeline(*module, pipeline, {}, context);
    const bool runs = native.vector_bytes >= ir::target_by_name(name).vector_bytes;
    try {
      auto executable = runtime::compile(std::move(module), "step", in_memory());
      Tensors inputs = inputs_for(executable->function(), 9, kScalars);
      check_close(run_compiled(*executable, inputs), run_interpreted(*executable, inputs));
      CHECK(runs);
    } catch (const DeviceError& refused) {
      CHECK_FALSE(runs);
      CHECK(std::string(refused.what()).find("needs avx") != std::string::npos);
    }
  }
}

TEST_CASE("a module is verified before anything in it is followed") {
  // Made without the parser, which refuses it: the gradient names nothing.
  auto module = ir::parse(R"(module @m {
  func @loss(%x: tensor<f32>) -> tensor<f32> {
    %y = square %x : tensor<f32>
    return %y : tensor<f32>
  }
  func @step(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %l, %d = gradient %x {func = @loss, wrt = [0]} : tensor<f32> -> (tensor<f32>, tensor<f32>)
    return %l, %d : (tensor<f32>, tensor<f32>)
  }
}
)");
  module->function("step")->body().begin()->attrs().erase("func");
  std::string error;
  try {
    runtime::compile(std::move(module), "step", in_memory());
  } catch (const UserError& refused) {
    error = refused.what();
  }
  CHECK(error.find("the module is not valid\n") != std::string::npos);
  CHECK(error.find("gradient: attribute 'func' is missing") != std::string::npos);
}

TEST_CASE("launches are described by name, family, operations, types and tasks") {
  auto executable = compile_text(mlp_step_text(5, 7, 6), "loss", in_memory());
  std::vector<std::string> lines = executable->launch_lines();
  REQUIRE(static_cast<int64_t>(lines.size()) == executable->kernels());
  CHECK(lines[0].find(
            "@k0 matmul (matmul add relu) 5x7xf32, 7x6xf32, 6xf32 -> 5x6xf32, 452 bytes") == 0);
}

}  // namespace
}  // namespace mezzo::test
