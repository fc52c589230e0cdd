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
    CHECK(contains(run.err, "error: an index or a label is out of range"));
  }
}

TEST_CASE("devices that are unknown or not there are named") {
  Tool mezzo;
  mezzo.write("m.mz", kScale);
  Finished unknown = mezzo("run m.mz --random-inputs=1 --device=cpuu");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "unknown device 'cpuu'; did you mean 'cpu'?"));
  Finished cuda = mezzo("run m.mz --random-inputs=1 --device=cuda:1");
  CHECK(cuda.status == 2);
  CHECK(contains(cuda.err, "device 'cuda:1' is not supported yet"));
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
