// SPDX-License-Identifier: Apache-2.0
// `mezzo build`: sources, PTX, cubins and manifests. Nothing is executed, so no GPU is needed;
// where there is no NVRTC the cases that compile are skipped.
#include <mezzo/codegen/cuda/nvrtc.h>
#include <support/nvrtc.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <tool/command.h>

namespace mezzo::test {
namespace {

constexpr const char* kSoftmax = R"(module @m {
  func @f(%x: tensor<64x300xf32>, %y: tensor<64x300xf32>) -> (tensor<64x300xf32>, tensor<64x300xf32>) {
    %0 = add %x, %y : tensor<64x300xf32>
    %1 = exp %0 : tensor<64x300xf32>
    %2 = softmax %y {axis = 1} : tensor<64x300xf32>
    return %1, %2 : (tensor<64x300xf32>, tensor<64x300xf32>)
  }
}
)";

constexpr const char* kProduct = R"(module @m {
  func @f(%x: tensor<64x32xf32>, %y: tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<64x32xf32>) {
    %0 = matmul %x, %y : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %1 = exp %x : tensor<64x32xf32>
    return %0, %1 : (tensor<64x16xf32>, tensor<64x32xf32>)
  }
}
)";

/// A cubin is an ELF file for NVIDIA's machine, number 190.
bool is_cubin(const std::string& bytes) {
  return bytes.starts_with(
             "\x7f"
             "ELF") &&
         bytes.size() > 64 && static_cast<unsigned char>(bytes[18]) == 190;
}

TEST_CASE("build writes source, PTX and cubin of every kernel, and a manifest of them") {
  if (lacks_nvrtc()) return;
  Tool mezzo;
  mezzo.write("m.mz", kSoftmax);
  Finished run = mezzo("build m.mz --target=sm_90 -o out");
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  CHECK(run.err == "");
  CHECK(run.out == "2 kernels for sm_90 in out\n");
  for (const std::string kernel : {"k0", "k1"}) {
    CAPTURE(kernel);
    const std::string base = "out/f." + kernel;
    const std::string source = file_text(mezzo.path(base + ".cu"));
    CHECK(contains(source, "__global__"));
    CHECK(contains(source, "f_" + kernel + "("));
    CHECK_FALSE(contains(source, "#include"));
    CHECK(contains(file_text(mezzo.path(base + ".ptx")), ".target sm_90"));
    CHECK(is_cubin(file_text(mezzo.path(base + ".cubin"))));
  }
  const std::string manifest = file_text(mezzo.path("out/manifest.json"));
  for (const char* part : {"\"target\": \"sm_90\"", "\"nvrtc\": \"", "\"family\": \"elementwise\"",
                           "\"family\": \"rows\"", "\"registers\": "})
    CHECK(contains(manifest, part));
}

TEST_CASE("build for several targets gives each a folder, and a policy changes the kernels") {
  if (lacks_nvrtc()) return;
  Tool mezzo;
  mezzo.write("m.mz", kSoftmax);
  Finished run = mezzo("build m.mz --target=sm_80,sm_90 -o out --policy=mixed_float16");
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
  for (const char* target : {"sm_80", "sm_90"}) {
    const std::string folder = std::string("out/") + target;
    CHECK(contains(file_text(mezzo.path(folder + "/f.k0.ptx")), std::string(".target ") + target));
    CHECK(contains(file_text(mezzo.path(folder + "/manifest.json")), target));
  }
}

TEST_CASE("a product and its neighbour are built, each under its number") {
  if (lacks_nvrtc()) return;
  Tool mezzo;
  mezzo.write("m.mz", kProduct);
  Finished run = mezzo("build m.mz --target=sm_90 -o out");
  CHECK(run.status == 0);
  CHECK(run.err == "");
  CHECK(run.out == "2 kernels for sm_90 in out\n");
  CHECK(contains(file_text(mezzo.path("out/manifest.json")), "\"family\": \"matmul\""));
  CHECK(contains(file_text(mezzo.path("out/f.k0.ptx")), "fma.rn.f32"));
  CHECK(std::filesystem::exists(mezzo.path("out/f.k1.cubin")));
}

TEST_CASE("build takes one function alone, or all, whose kernels keep apart") {
  Tool mezzo;
  std::string text = kDouble;
  text.replace(text.rfind("}\n"), 2, R"(  func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = exp %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
)");
  mezzo.write("m.mz", text);
  Finished unknown = mezzo("build m.mz --target=sm_90 -o out --func=h");
  CHECK(unknown.status == 2);
  CHECK(unknown.err == "error: there is no function @h\n");
  if (lacks_nvrtc()) return;
  REQUIRE(mezzo("build m.mz --target=sm_90 -o one --func=g").status == 0);
  CHECK(std::filesystem::exists(mezzo.path("one/g.k0.ptx")));
  CHECK_FALSE(std::filesystem::exists(mezzo.path("one/f.k0.ptx")));
  REQUIRE(mezzo("build m.mz --target=sm_90 -o all").out == "2 kernels for sm_90 in all\n");
  CHECK(contains(file_text(mezzo.path("all/f.k0.cu")), "f_k0("));
  CHECK(contains(file_text(mezzo.path("all/g.k0.cu")), "g_k0("));
}

TEST_CASE("functions of any name give kernels of names in C, each its own") {
  if (lacks_nvrtc()) return;
  Tool mezzo;
  std::string text = "module @m {\n";
  for (const char* name : {"0", "a.b", "a_b"})
    text += std::string("  func @") + name +
            "(%x: tensor<4xf32>) -> tensor<4xf32> {\n    %y = exp %x : tensor<4xf32>\n"
            "    return %y : tensor<4xf32>\n  }\n";
  mezzo.write("m.mz", text + "}\n");
  REQUIRE(mezzo("build m.mz --target=sm_90 -o out").out == "3 kernels for sm_90 in out\n");
  CHECK(contains(file_text(mezzo.path("out/0.k0.cu")), "k0_k0("));
  CHECK(contains(file_text(mezzo.path("out/a.b.k0.cu")), " a_b_k0("));
  CHECK(contains(file_text(mezzo.path("out/a_b.k0.cu")), " a_b_k0_2("));
}

TEST_CASE("dump=cuda and dump=ptx show the code of build") {
  if (lacks_nvrtc()) return;
  Tool mezzo;
  mezzo.write("m.mz", kSoftmax);
  mezzo.environment = "MEZZO_DEBUG=dump=cuda,dump=ptx";
  Finished run = mezzo("build m.mz --target=sm_90 -o out");
  REQUIRE(run.status == 0);
  CHECK(contains(run.err, "__global__"));
  CHECK(contains(run.err, ".target sm_90"));
  mezzo.environment = "MEZZO_DEBUG=dump=cuda,dump=ptx,to=dumps,launch";
  run = mezzo("build m.mz --target=sm_90 -o out");
  CHECK(run.err == "warning: MEZZO_DEBUG: 'launch' shows nothing in `mezzo build`\n");
  CHECK(file_text(mezzo.path("dumps/sm_90-f.k1.cu")) == file_text(mezzo.path("out/f.k1.cu")));
  CHECK(file_text(mezzo.path("dumps/sm_90-f.k1.ptx")) == file_text(mezzo.path("out/f.k1.ptx")));
}

TEST_CASE("build refuses processors, unknown targets and folders that cannot be made") {
  Tool mezzo;
  mezzo.write("m.mz", kSoftmax);
  auto refused = [&](const std::string& arguments, std::string_view text) {
    Finished run = mezzo("build m.mz " + arguments);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(run.out == "");
    CHECK(contains(run.err, text));
  };
  refused("--target=native -o out",
          "error: not supported yet: build for the target native, a processor\nnote: CUDA "
          "architectures such as sm_80 and sm_90 are supported");
  refused("--target=sm_90,x86-64-v4 -o out", "build for the target x86-64-v4, a processor");
  refused("--target=sm_91 -o out", "error: unknown target 'sm_91'; did you mean 'sm_90'?");
  refused("--target=sm_90", "error: -o is required");
  refused("-o out", "error: --target is required");
  REQUIRE(mezzo("opt m.mz --pipeline=infer --target=sm_90 -o planned.mz").status == 0);
  CHECK(mezzo("build planned.mz --target=sm_90 -o out").err ==
        "error: the module is planned already, for sm_90\nnote: build plans the kernels itself: "
        "give it the module before plan-kernels\n");
  CHECK_FALSE(std::filesystem::exists(mezzo.path("out")));
  if (codegen::nvrtc_available())
    refused("--target=sm_90 -o m.mz", "m.mz: cannot make the folder: ");
}

}  // namespace
}  // namespace mezzo::test
