// SPDX-License-Identifier: Apache-2.0
// `mezzo run`: inputs, results, devices, refusals.
#include <mezzo/runtime/npy.h>

#include <doctest/doctest.h>

#include <tool/command.h>

namespace mezzo::test {
namespace {

using runtime::HostArray;

constexpr const char* kScale = R"(module @m {
  func @f(%x: tensor<2x2xf32>, %n: tensor<2xi32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<2x2xbf16>) {
    %y = add %x, %x : tensor<2x2xf32>
    %m = add %n, %n : tensor<2xi32>
    %b = cast %y : tensor<2x2xf32> -> tensor<2x2xbf16>
    return %y, %m, %b : (tensor<2x2xf32>, tensor<2xi32>, tensor<2x2xbf16>)
  }
}
)";

constexpr const char* kTwo = R"(module @m {
  func @loss(%x: tensor<3x2xf32>, %label: tensor<3xi32>) -> tensor<f32> {
    %l = cross_entropy %x, %label : (tensor<3x2xf32>, tensor<3xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
)";

HostArray array(const ir::Type& type, std::initializer_list<double> values) {
  std::vector<double> all(values);
  return HostArray(type, all);
}

TEST_CASE("run reads arrays, writes every result and sums it up in a line") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  runtime::write_npy(mezzo.path("x.npy"), array({ir::DType::F64, {2, 2}}, {1, -2, 0, 0.5}));
  runtime::write_npy(mezzo.path("n.npy"), array({ir::DType::I32, {2}}, {3, 4}));
  for (const char* device : {"cpu", "interp"}) {
    CAPTURE(device);
    Finished run =
        mezzo(std::string("run m.mz --in x=x.npy --in n=n.npy --out out --device=") + device);
    CHECK(run.err == "");
    REQUIRE(run.status == 0);
    CHECK(contains(run.out, "0 %y: tensor<2x2xf32> min -4 max 2 mean -0.25 nan 0 inf 0 zero 1\n"));
    CHECK(contains(run.out, "1 %m: tensor<2xi32> min 6 max 8 mean 7 nan 0 inf 0 zero 0\n"));
    CHECK(runtime::read_npy(mezzo.path("out/0.npy")).to_doubles() ==
          std::vector<double>{2, -4, 0, 1});
    HostArray bf16 = runtime::read_npy(mezzo.path("out/2.npy"));
    CHECK(bf16.type.dtype == ir::DType::F32);
    CHECK(bf16.to_doubles() == std::vector<double>{2, -4, 0, 1});
  }
}

TEST_CASE("random inputs are the same on both devices and differ by seed") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  Finished cpu = mezzo("run m.mz --random-inputs=1");
  Finished interpreter = mezzo("run m.mz --random-inputs=1 --device=interp");
  REQUIRE(cpu.status == 0);
  CHECK(cpu.out == interpreter.out);
  CHECK(mezzo("run m.mz --random-inputs=2").out != cpu.out);
}

TEST_CASE(
    "inputs that are missing, unknown, doubled or of another type are refused with status 2") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  runtime::write_npy(mezzo.path("x.npy"), array({ir::DType::F32, {2, 2}}, {1, 2, 3, 4}));
  runtime::write_npy(mezzo.path("row.npy"), array({ir::DType::F32, {4}}, {1, 2, 3, 4}));
  runtime::write_npy(mezzo.path("wide.npy"), array({ir::DType::I64, {2}}, {1, 2}));
  auto refused = [&](const std::string& arguments, std::string_view text) {
    Finished run = mezzo("run m.mz " + arguments);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(contains(run.err, text));
  };
  refused("--in x=x.npy", "@f: no input for n (tensor<2xi32>)");
  refused("--in x=x.npy", "--random-inputs=SEED");
  refused("--in y=x.npy", "@f has no parameter 'y'\nnote: its parameters are x, n");
  refused("--in x=x.npy --in x=x.npy", "--in gives 'x' twice");
  refused("--in x", "--in takes NAME=FILE.npy, not 'x'");
  refused("--in x=row.npy --in n=wide.npy",
          "row.npy: holds tensor<4xf32>, but parameter x (tensor<2x2xf32>)");
  refused("--in x=x.npy --in n=wide.npy", "wide.npy: holds tensor<2xi64>, but parameter n");
  refused("--in x=absent.npy --random-inputs=1", "absent.npy: cannot read");
}

TEST_CASE("a function must be named where there are several") {
  Tool mezzo;
  mezzo.write("m.mz", kTwo);
  Finished run = mezzo("run m.mz --random-inputs=1");
  CHECK(run.status == 2);
  CHECK(contains(run.err, "the module has 2 functions: loss, double"));
  CHECK(mezzo("run m.mz --func=double --random-inputs=1").status == 0);
  CHECK(contains(mezzo("run m.mz --func=doble --random-inputs=1").err,
                 "there is no function @doble; did you mean 'double'?"));
}

TEST_CASE("a label out of range is an error of the run on either device") {
  Tool mezzo;
  mezzo.write("m.mz", kTwo);
  runtime::write_npy(mezzo.path("label.npy"), array({ir::DType::I32, {3}}, {0, 1, 2}));
  for (const char* device : {"cpu", "interp"}) {
    CAPTURE(device);
    Finished run = mezzo(std::string("run m.mz --func=loss --in label=label.npy ") +
                         "--random-inputs=1 --device=" + device);
    CHECK(run.status == 1);
    CHECK(contains(run.err,
                   "m.mz:3: error: cross_entropy: label 2 is out of range for 2 classes; the "
                   "results are not valid"));
  }
}

TEST_CASE("devices that are unknown or not there are named") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  Finished unknown = mezzo("run m.mz --random-inputs=1 --device=cpuu");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "unknown device 'cpuu'; did you mean 'cpu'?"));
  Finished unnumbered = mezzo("run m.mz --random-inputs=1 --device=cuda:one");
  CHECK(unnumbered.status == 2);
  CHECK(contains(unnumbered.err, "device 'cuda:one' has no number from 0 on"));
  mezzo.environment = "MEZZO_CUDA_LIBRARY=/nowhere/libcuda.so.1";
  Finished absent = mezzo("run m.mz --random-inputs=1 --device=cuda:1");
  CHECK(absent.status == 2);
  CHECK(contains(absent.err, "the CUDA driver that MEZZO_CUDA_LIBRARY names cannot be opened"));
  // Only `auto` may take another device, and says so.
  Finished automatic = mezzo("run m.mz --random-inputs=1 --device=auto");
  CHECK(automatic.status == 0);
  CHECK(contains(automatic.err, "device auto: the processor, since the CUDA driver that"));
}

TEST_CASE("policy, rounding, threads and passes reach the compiler") {
  Tool mezzo;
  mezzo.write("m.mz", kTwo);
  CHECK(mezzo("run m.mz --func=loss --random-inputs=1 --policy=mixed_float16 "
              "--rounding=as-written --threads=1")
            .status == 0);
  CHECK(mezzo("run m.mz --func=loss --random-inputs=1 --passes='canonicalize, cse'").status == 0);
  Finished policy = mezzo("run m.mz --func=loss --random-inputs=1 --policy=mixed_flaot16");
  CHECK(policy.status == 2);
  CHECK(contains(policy.err, "mixed_float16"));
  Finished pass = mezzo("run m.mz --func=loss --random-inputs=1 --passes=canonicalise");
  CHECK(pass.status == 2);
  CHECK(contains(pass.err, "unknown pass 'canonicalise'"));
  CHECK(mezzo("run m.mz --func=loss --random-inputs=1 --threads=0").status == 2);
  CHECK(mezzo("run").status == 2);
  CHECK(mezzo("run --help").status == 0);
}

/// A loss and a step that asks for its gradient, with one parameter that nothing depends on.
constexpr const char* kStep = R"(module @m {
  func @loss(%x: tensor<4x4xf32>, %w: tensor<4x4xf32> {param = true}, %u: tensor<2xf32> {param = true}) -> tensor<f32> {
    %y = matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = mean %y {axes = [0, 1]} : tensor<4x4xf32> -> tensor<f32>
    return %l : tensor<f32>
  }
  func @step(%x: tensor<4x4xf32>, %w: tensor<4x4xf32> {param = true}, %u: tensor<2xf32> {param = true}, %lr: tensor<f32> {state = true}) -> (tensor<f32>, tensor<4x4xf32> {updates = %w}) {
    %l, %d = gradient %x, %w, %u {func = @loss, wrt = [1]} : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<4x4xf32>)
    %n = sgd %w, %d, %lr : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    return %l, %n : (tensor<f32>, tensor<4x4xf32>)
  }
}
)";

/// `0 %l: tensor<f32>` of every line.
std::string signature(const std::string& out) {
  std::string text;
  for (size_t at = 0; at < out.size(); at = out.find('\n', at) + 1)
    text += out.substr(at, out.find(" min", at) - at) + "\n";
  return text;
}

TEST_CASE("both devices run one function of several, whatever the others hold") {
  Tool mezzo;
  mezzo.write("m.mz", kStep);
  for (const char* policy : {"", " --policy=mixed_float16", " --policy=float32"})
    for (const char* function : {"loss", "step"}) {
      CAPTURE(policy);
      CAPTURE(function);
      const std::string command =
          std::string("run m.mz --random-inputs=1 --func=") + function + policy;
      Finished cpu = mezzo(command), interpreter = mezzo(command + " --device=interp");
      CAPTURE(interpreter.err);
      REQUIRE(cpu.status == 0);
      REQUIRE(interpreter.status == 0);
      CHECK(signature(cpu.out) == signature(interpreter.out));
      CHECK(cpu.err == interpreter.err);
    }
  // A pipeline that leaves the gradient behind is refused, on both.
  for (const char* device : {"cpu", "interp"})
    CHECK(
        mezzo("run m.mz --random-inputs=1 --func=step --passes=autocast --device=" +
              std::string(device))
            .err ==
        "error: passes 'autocast' lead to stage typed, but @step still holds a gradient\nnote: put "
        "'autodiff' before them, as the pipeline 'train' has it\n");
  CHECK(signature(mezzo("run m.mz --random-inputs=1 --func=step --device=interp").out) ==
        "0 %l: tensor<f32>\n1 %v: tensor<i32>\n2 %w': tensor<4x4xf32>\n3 %scale': tensor<f32>\n"
        "4 %clean': tensor<i32>\n");
}

TEST_CASE("a policy, a rounding or threads that can have no effect are refused") {
  Tool mezzo;
  mezzo.write("m.mz", kStep);
  REQUIRE(mezzo("opt m.mz --pipeline=train --policy=mixed_float16 -o p.mz").status == 0);
  auto refused = [&](const std::string& arguments, const std::string& text) {
    for (const char* device : {"cpu", "interp"}) {
      Finished run =
          mezzo("run p.mz --func=step --random-inputs=1 " + arguments + " --device=" + device);
      CHECK(run.status == 2);
      CHECK(run.out == "");
      CHECK(run.err == text);
    }
  };
  refused("--policy=float32",
          "error: policy 'float32' comes too late: the module has stage planned, its types are "
          "those of 'mixed_float16'\n"
          "note: a policy decides the types of a module up to stage differentiated\n");
  refused("--rounding=as-written",
          "error: rounding 'as-written' comes too late: the module has stage planned and is "
          "rounded 'excess'\nnote: a rounding is chosen where kernels are fused\n");
  refused("--rounding=exces",
          "error: unknown rounding 'exces'; did you mean 'excess'?\n"
          "note: the rounding modes are excess and as-written\n");
  Finished same = mezzo(
      "run p.mz --func=step --random-inputs=1 --policy=mixed_float16 "
      "--rounding=excess --threads=2");
  CHECK(same.err == "");
  CHECK(same.status == 0);

  const std::string interpreted = "run m.mz --func=step --random-inputs=1 --device=interp ";
  CHECK(mezzo(interpreted + "--rounding=excess").err ==
        "error: rounding 'excess' is a matter of kernels, and the interpreter runs the module "
        "without them\n"
        "note: run it compiled, or give passes that fuse and round: ... fuse, round-mode\n");
  CHECK(mezzo(interpreted + "--rounding=as-written --threads=1").status == 0);
  CHECK(mezzo(interpreted + "--threads=2").err ==
        "error: --threads=2: the interpreter runs on one thread\n"
        "note: leave it out, or run with --device=cpu\n");
  // Passes of one's own come first; the policy still has its say.
  Finished after = mezzo(interpreted + "--passes=canonicalize --policy=mixed_float16");
  CHECK(after.status == 0);
  CHECK(after.out == mezzo(interpreted + "--policy=mixed_float16").out);
}

TEST_CASE("a pipeline that MEZZO_DEBUG stops early is told as what it is") {
  Tool mezzo;
  mezzo.write("m.mz", kStep);
  mezzo.environment = "MEZZO_DEBUG=stop-after=2";
  const std::string run = "run m.mz --func=step --random-inputs=1 --device=";
  const std::string head = "error: MEZZO_DEBUG: with 'stop-after=2' ";
  const std::string note = "\nnote: `mezzo opt` prints a module that does not run\n";
  CHECK(mezzo(run + "cpu").err ==
        head + "the module stays at stage traced, which does not run" + note);
  CHECK(mezzo(run + "interp").err == head + "@step keeps a gradient, which does not run" + note);
}

TEST_CASE(
    "a value that is several results, and one of many blocks, are read whole on both devices") {
  Tool mezzo;
  mezzo.write("m.mz", R"(module @m {
  func @f(%x: tensor<2xf32>) -> (tensor<9000xi32>, tensor<9000xi32>, tensor<2xf32>) {
    %y = iota {axis = 0} : tensor<9000xi32>
    return %y, %y, %x : (tensor<9000xi32>, tensor<9000xi32>, tensor<2xf32>)
  }
}
)");
  for (const char* device : {"cpu", "interp"}) {
    Finished run = mezzo(std::string("run m.mz --random-inputs=1 --device=") + device);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    const std::string line =
        " %y: tensor<9000xi32> min 0 max 8999 mean 4499.5 nan 0 inf 0 zero 1\n";
    CHECK(run.out.starts_with("0" + line + "1" + line + "2 %x: tensor<2xf32> min "));
  }
}

TEST_CASE("MEZZO_DEBUG cannot stop a pipeline after more passes than it has") {
  Tool mezzo;
  mezzo.write("m.mz", kDouble);
  mezzo.environment = "MEZZO_DEBUG=stop-after=99";
  const std::string head = "error: MEZZO_DEBUG: 'stop-after=99' is past the end: the pipeline has ";
  CHECK(mezzo("opt m.mz --passes=cse").err == head + "1 pass\nnote: it is 'cse'\n");
  CHECK(mezzo("opt m.mz").err == head + "0 passes\n");
  CHECK(mezzo("run m.mz --random-inputs=1")
            .err.starts_with(head + "13 passes\nnote: it is 'canonicalize, "));
  mezzo.environment = "MEZZO_DEBUG=stop-after=1";
  CHECK(mezzo("opt m.mz --passes=cse").status == 0);
}

TEST_CASE("a parameter that nothing depends on is told once, on both devices") {
  Tool mezzo;
  std::string text = kStep;
  auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("{updates = %w}) {", "{updates = %w}, tensor<2xf32> {updates = %u}) {");
  replace("%l, %d = gradient", "%l, %d, %e = gradient");
  replace("wrt = [1]", "wrt = [1, 2]");
  replace("-> (tensor<f32>, tensor<4x4xf32>)\n",
          "-> (tensor<f32>, tensor<4x4xf32>, tensor<2xf32>)\n");
  replace(
      "    return %l, %n : (tensor<f32>, tensor<4x4xf32>)",
      "    %v = sgd %u, %e, %lr : (tensor<2xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2xf32>\n"
      "    return %l, %n, %v : (tensor<f32>, tensor<4x4xf32>, tensor<2xf32>)");
  mezzo.write("m.mz", text);
  for (const char* device : {"cpu", "interp"}) {
    Finished run = mezzo(std::string("run m.mz --func=step --random-inputs=1 --device=") + device);
    REQUIRE(run.status == 0);
    CHECK(run.err ==
          "m.mz:8: warning: 'u' has no path to the loss: its gradient is 0 and optimizers leave it "
          "as it is [no-gradient]\n"
          "note: use it in the loss, or leave it out of what is differentiated\n");
  }
}

TEST_CASE("a module planned without a target runs") {
  Tool mezzo;
  mezzo.write("m.mz", kStep);
  REQUIRE(mezzo("opt m.mz --pipeline=train -o none.mz").status == 0);
  REQUIRE(mezzo("opt m.mz --pipeline=train --target=native -o native.mz").status == 0);
  Finished none = mezzo("run none.mz --func=step --random-inputs=1");
  CHECK(none.err == "");
  CHECK(signature(none.out) == signature(mezzo("run native.mz --func=step --random-inputs=1").out));
}

TEST_CASE("MEZZO_DEBUG shows launches, cache, times and code") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  mezzo.environment = "MEZZO_DEBUG=launch,cache,time,dump=llvm,dump=asm,dump=plan";
  Finished run = mezzo("run m.mz --random-inputs=1");
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  for (const char* part : {"launch @k0 elementwise (add", " us on 1 thread", "compiled, since ",
                           "compilation of @f", "define ", "ret", "// plan of @f, arena "})
    CHECK(contains(run.err, part));
  mezzo.environment = "MEZZO_DEBUG=cache";
  CHECK(contains(mezzo("run m.mz --random-inputs=1").err, "from disk"));
  mezzo.environment = "MEZZO_DEBUG=lunch";
  Finished unknown = mezzo("run m.mz --random-inputs=1");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "launch"));
}

}  // namespace
}  // namespace mezzo::test
