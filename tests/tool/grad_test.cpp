// SPDX-License-Identifier: Apache-2.0
// `mezzo grad`.
#include <mezzo/runtime/npy.h>

#include <doctest/doctest.h>

#include <tool/command.h>

namespace mezzo::test {
namespace {

constexpr const char* kSquares = R"(module @m {
  func @f(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<f32> {
    %0 = square %x : tensor<3xf32>
    %1 = mul %0, %y : tensor<3xf32>
    %l = sum %1 {axes = [0]} : tensor<3xf32> -> tensor<f32>
    return %l : tensor<f32>
  }
}
)";

TEST_CASE("grad appends a function whose gradients run on both devices") {
  Tool mezzo;
  mezzo.write("m.mz", kSquares);
  REQUIRE(mezzo("grad m.mz --func=f --wrt=x,y -o g.mz").status == 0);
  std::vector<double> x{1, -2, 3}, y{0.5, 4, -1};
  runtime::write_npy(mezzo.path("x.npy"), runtime::HostArray({ir::DType::F32, {3}}, x));
  runtime::write_npy(mezzo.path("y.npy"), runtime::HostArray({ir::DType::F32, {3}}, y));
  for (const char* device : {"cpu", "interp"}) {
    CAPTURE(device);
    Finished run = mezzo(std::string("run g.mz --func=f_grad --in x=x.npy --in y=y.npy ") +
                         "--out out --device=" + device);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    CHECK(runtime::read_npy(mezzo.path("out/0.npy")).to_doubles() == std::vector<double>{7.5});
    CHECK(runtime::read_npy(mezzo.path("out/1.npy")).to_doubles() ==
          std::vector<double>{1, -16, -6});
    CHECK(runtime::read_npy(mezzo.path("out/2.npy")).to_doubles() == std::vector<double>{1, 4, 9});
  }
}

TEST_CASE("a loss scale of a power of two changes no gradient") {
  Tool mezzo;
  mezzo.write("m.mz", kSquares);
  REQUIRE(mezzo("grad m.mz --wrt=x -o g.mz").status == 0);
  REQUIRE(mezzo("grad m.mz --wrt=x --loss-scale=1024 -o s.mz").status == 0);
  CHECK(contains(file_text(mezzo.path("s.mz")), "1024.0"));
  std::string rest = " --func=f_grad --random-inputs=3";
  CHECK(mezzo("run g.mz" + rest).out == mezzo("run s.mz" + rest).out);
}

TEST_CASE("grad refuses what it cannot differentiate") {
  Tool mezzo;
  mezzo.write("m.mz", kSquares);
  auto refused = [&](const std::string& arguments, std::string_view text) {
    Finished run = mezzo("grad m.mz " + arguments);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(contains(run.err, text));
  };
  refused("--wrt=z", "has no parameter 'z'");
  refused("--func=g --wrt=x", "there is no function @g");
  const std::string power =
      "error: grad: the loss scale must be a power of two in [2^-126, 2^127], ";
  const std::string exact = "\nnote: with powers of two, scaling and unscaling are exact";
  refused("--wrt=x --loss-scale=0", power + "not 0" + exact + "\n");
  refused("--wrt=x --loss-scale=inf", power + "not inf" + exact + "\n");
  // The smallest number of f32 is a power of two, but what it multiplies loses bits.
  refused("--wrt=x --loss-scale=1.401298464324817e-45",
          power + "not 1.401298464324817e-45" + exact + "\n");
  refused("--wrt=x --loss-scale=3", power + "not 3" + exact + "; 2 is the next below\n");
  refused("", "--wrt");
  mezzo.write("m.mz", R"(module @m {
  func @f(%x: tensor<3xf32>, %n: tensor<3xi32>) -> tensor<f32> {
    %l = sum %x {axes = [0]} : tensor<3xf32> -> tensor<f32>
    return %l : tensor<f32>
  }
}
)");
  refused("--wrt=x,n",
          "error: grad: parameter 'n' of @f is tensor<3xi32>, gradients are taken for floats "
          "only\n");
  mezzo.write("m.mz", "module @m {");
  refused("--wrt=x", "m.mz:1:");
}

}  // namespace
}  // namespace mezzo::test
