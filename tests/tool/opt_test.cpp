// SPDX-License-Identifier: Apache-2.0
// `mezzo opt`: passes, targets, explanations, resources, and what the help says of every command.
#include <mezzo/runtime/npy.h>
#include <mezzo/runtime/safetensors.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <tool/command.h>

namespace mezzo::test {
namespace {

constexpr const char* kNet = R"(module @net {
  func @loss(%x: tensor<8x5xf32>, %label: tensor<8xi32>, %w: tensor<5x6xf32> {param}, %b: tensor<6xf32> {param}, %v: tensor<6x3xf32> {param}) -> tensor<f32> {
    %h = matmul %x, %w : (tensor<8x5xf32>, tensor<5x6xf32>) -> tensor<8x6xf32>
    %s = add %h, %b : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %a = relu %s : tensor<8x6xf32>
    %z = matmul %a, %v : (tensor<8x6xf32>, tensor<6x3xf32>) -> tensor<8x3xf32>
    %l = cross_entropy %z, %label : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
)";

constexpr const char* kResource = R"(module @m {
  func @f(%x: tensor<20xf32>) -> tensor<20xf32> {
    %c = constant {value = resource("w")} : tensor<20xf32>
    %y = add %x, %c : tensor<20xf32>
    return %y : tensor<20xf32>
  }
}
)";

/// A file with an array of that name, 0 to 19 of this type.
void write_data(const Tool& mezzo, const std::string& file, const std::string& name,
                const ir::Type& type = {ir::DType::F32, {20}}) {
  runtime::HostArray array(type);
  for (int64_t i = 0; i < type.elements(); ++i) array.set(i, static_cast<double>(i));
  runtime::write_safetensors(mezzo.path(file), {{name, array}});
}

TEST_CASE("opt without passes parses, verifies and prints what reads back to itself") {
  Tool mezzo;
  mezzo.write("net.mz", kNet);
  Finished first = mezzo("opt net.mz");
  REQUIRE(first.status == 0);
  CHECK(first.err == "");
  mezzo.write("again.mz", first.out);
  CHECK(mezzo("opt again.mz").out == first.out);
  CHECK(mezzo("opt - < net.mz").out == first.out);
  REQUIRE(mezzo("opt net.mz -o out.mz").status == 0);
  CHECK(file_text(mezzo.path("out.mz")) == first.out);
}

TEST_CASE("a native target is this machine, and the text then reads back to itself") {
  Tool mezzo;
  mezzo.write("net.mz", kNet);
  for (const char* how : {"--pipeline=infer --target=native",
                          "--passes='decompose, fuse, round-mode, plan-kernels {target = "
                          "\"native\"}, plan-memory'"}) {
    CAPTURE(how);
    Finished native = mezzo(std::string("opt net.mz ") + how);
    CAPTURE(native.err);
    REQUIRE(native.status == 0);
    CHECK(contains(native.out, "target = \"host\""));
    mezzo.write("planned.mz", native.out);
    CHECK(mezzo("opt planned.mz").out == native.out);
    CHECK(mezzo("run planned.mz --random-inputs=1").status == 0);
  }
}

TEST_CASE("options that have no pass to go to, and names that are unknown, are refused") {
  Tool mezzo;
  mezzo.write("net.mz", kNet);
  auto refused = [&](const std::string& arguments, std::string_view text) {
    Finished run = mezzo("opt net.mz " + arguments);
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(run.out == "");
    CHECK(contains(run.err, text));
  };
  refused("--target=native",
          "error: option 'target' has no pass to go to: there are no passes\nnote: "
          "`--pipeline=train` and `--pipeline=infer` have 'plan-kernels', --passes takes a list\n");
  refused("--policy=mixed_float16",
          "error: option 'policy' has no pass to go to: there are no passes\nnote: "
          "`--pipeline=train` and `--pipeline=infer` have 'autocast', --passes takes a list\n");
  refused("--passes=cse --policy=mixed_float16",
          "'autocast' is not in the pipeline\nnote: the pipeline is 'cse'\n");
  refused("--pipeline=infer --target=sm_91",
          "error: unknown target 'sm_91'; did you mean 'sm_90'?\nnote: known targets: native, "
          "x86-64-v2");
  refused("--pipeline=infer --policy=mixed_flaot16",
          "unknown policy 'mixed_flaot16'; did you mean 'mixed_float16'?");
  refused("--pipeline=infer --rounding=up",
          "error: unknown rounding 'up'\nnote: the rounding modes are excess and as-written\n");
  refused("--pipeline=tain", "unknown pipeline 'tain'; did you mean 'train'?");
  refused("--passes=canonicalise", "--passes:1:1: error: unknown pass 'canonicalise'");
  refused("--passes=cse --pipeline=infer", "--passes excludes --pipeline");
  refused("--print-after=changed",
          "error: --print-after: 'changed' prints nothing, there are no passes\nnote: --passes or "
          "--pipeline names them\n");
  refused("--passes= --print-after=cse",
          "error: --print-after: 'cse' prints nothing, there are no passes");
  refused("--pipeline=infer --print-after=autocats", "--print-after: unknown pass 'autocats'");
  refused("--pipeline=infer --print-after=autodiff",
          "--print-after: 'autodiff' is not in the pipeline");
  refused("--explain=w", "error: --explain: there is no value 'w'; did you mean '%w'?\nnote: ");
  refused("--explain=%hh", "--explain: there is no value '%hh'; did you mean '%h'?");
}

TEST_CASE("explain names the rule, the path of lines, and the passes that changed the value") {
  Tool mezzo;
  mezzo.write("net.mz", kNet);
  auto comments = [&](const std::string& arguments) {
    Finished run = mezzo("opt net.mz " + arguments);
    CAPTURE(run.err);
    REQUIRE(run.status == 0);
    return run.out.substr(0, run.out.find("module @net"));
  };
  const std::string typed = "--passes='autocast {policy = \"mixed_float16\"}' ";
  CHECK(comments(typed + "--explain=%a") ==
        "// %a in @loss\n"
        "//   %a: f16, relu at net.mz:5: relu follows its widest operand that is neither a "
        "parameter nor a constant, %s\n"
        "//   %s: f16, add at net.mz:4: add follows its widest operand that is neither a parameter "
        "nor a constant, %h\n"
        "//   %h: f16, matmul at net.mz:3: matmul is narrow under mixed_float16: operands f16, "
        "accumulated in f32; the result is f16 too, since not every reader is wide or a result\n"
        "// as read\n"
        "//   %a: tensor<8x6xf32> = relu\n"
        "// after autocast\n"
        "//   %a: tensor<8x6xf16> = relu\n");
  CHECK(contains(comments(typed + "--explain=%z"),
                 "//   %z: f32, matmul at net.mz:6: matmul is narrow under mixed_float16: operands "
                 "f16, accumulated in f32; the result comes straight from the accumulator, since "
                 "every reader is wide or a result\n"));
  CHECK(contains(comments(typed + "--explain=%l"),
                 "%l: f32, cross_entropy at net.mz:7: cross_entropy is wide: f32 under every "
                 "policy\n"));
  CHECK(contains(comments(typed + "--explain=%1"),
                 "//   %1: f16, matmul at net.mz:3: cast, since matmul is narrow under "
                 "mixed_float16\n//   %w: f32, parameter: as declared\n"));
  CHECK(contains(comments("--explain=%a"), "as written: no policy was applied"));
  // Through fusion: the name is that of a kernel's result.
  const std::string planned =
      comments("--pipeline=infer --policy=mixed_float16 --target=native --explain=%z");
  CHECK(contains(planned, "//   %z: f32, matmul at net.mz:6: matmul is narrow"));
  CHECK(contains(planned, "// after fuse\n"));
  CHECK(contains(planned, "%z: tensor<8x3xf32> = matmul in kernel @k1\n"));
  // The comments are part of a text that is read again.
  mezzo.write("again.mz", mezzo("opt net.mz --explain=%a").out);
  CHECK(mezzo("opt again.mz").status == 0);
}

TEST_CASE("a resource is read from the safetensors file beside the module, on every device") {
  Tool mezzo;
  mezzo.write("m.mz", kResource);
  write_data(mezzo, "m.safetensors", "w");
  runtime::write_npy(mezzo.path("x.npy"), runtime::HostArray({ir::DType::F32, {20}}));
  for (const char* device : {"cpu", "interp"}) {
    Finished run = mezzo(std::string("run m.mz --in x=x.npy --device=") + device);
    CAPTURE(run.err);
    CHECK(run.out == "0 %y: tensor<20xf32> min 0 max 19 mean 9.5 nan 0 inf 0 zero 1\n");
  }
  // A module that is written elsewhere takes its data along.
  REQUIRE(mezzo("opt m.mz --pipeline=infer --target=native -o sub.planned.mz").status == 0);
  CHECK(runtime::read_safetensors(mezzo.path("sub.planned.safetensors")).at("w").as_double(19) ==
        19);
  CHECK(contains(mezzo("run sub.planned.mz --in x=x.npy").out, "max 19 mean 9.5"));
}

TEST_CASE("a file that is in the place of a module's data and holds other arrays is not replaced") {
  Tool mezzo;
  mezzo.write("m.mz", kResource);
  write_data(mezzo, "m.safetensors", "w");
  const std::string command = "opt m.mz -o out.mz";
  auto refused = [&](const std::string& text) {
    const std::string before = file_text(mezzo.path("out.safetensors"));
    Finished run = mezzo(command);
    CHECK(run.status == 2);
    CHECK(run.err == "error: out.safetensors is not replaced by the data of out.mz" + text +
                         "\nnote: remove it, or give -o another name\n");
    CHECK(file_text(mezzo.path("out.safetensors")) == before);
    CHECK_FALSE(std::filesystem::exists(mezzo.path("out.mz")));
  };
  write_data(mezzo, "out.safetensors", "v", {ir::DType::F16, {3}});
  refused(": it holds v (tensor<3xf16>), the data is w (tensor<20xf32>)");
  write_data(mezzo, "out.safetensors", "w", {ir::DType::F16, {20}});
  refused(": it holds w (tensor<20xf16>), the data is w (tensor<20xf32>)");
  runtime::write_safetensors(mezzo.path("out.safetensors"),
                             {{"w", runtime::HostArray({ir::DType::F32, {20}})}});
  refused(": it holds other values of w (tensor<20xf32>), the data is w (tensor<20xf32>)");
  mezzo.write("out.safetensors", "{}");
  refused(
      ", w (tensor<20xf32>): out.safetensors: truncated safetensors file: the length of its header "
      "has 8 bytes, found 2");
  // The same arrays are no loss: a command can be repeated.
  std::filesystem::remove(mezzo.path("out.safetensors"));
  CHECK(mezzo(command).status == 0);
  CHECK(mezzo(command).status == 0);
  CHECK(mezzo("opt m.mz -o m.mz").status == 0);
  for (const char* help : {"opt --help", "grad --help"})
    CHECK(contains(mezzo(help).out, "OUT.safetensors"));
}

TEST_CASE("a resource that is not there or of another type is an error at its constant") {
  Tool mezzo;
  mezzo.write("m.mz", kResource);
  auto error = [&](const std::string& arguments) {
    Finished run = mezzo(arguments);
    CHECK(run.status == 2);
    return run.err;
  };
  const std::string line =
      "    %c = constant {value = resource(\"w\")} : tensor<20xf32>\n"
      "                  ^";
  CHECK(error("run m.mz --random-inputs=1") ==
        "m.mz:3:19: error: m.safetensors: cannot read: No such file or directory\n" + line + "\n");
  CHECK(mezzo("opt m.mz --passes=canonicalize").status == 0);  // the text alone
  CHECK(error("run - --random-inputs=1 < m.mz") ==
        "-:3:19: error: resource(\"w\") has no data\n" + line +
            "\nnote: a module on standard input has no file beside it\n");
  write_data(mezzo, "m.safetensors", "v");
  CHECK(error("opt m.mz") ==
        "m.mz:3:19: error: m.safetensors has no array 'w'\n" + line + "\nnote: it has v\n");
  write_data(mezzo, "m.safetensors", "w", {ir::DType::F16, {20}});
  CHECK(error("opt m.mz") ==
        "m.mz:3:19: error: resource \"w\" is tensor<20xf16>, not tensor<20xf32>\n" + line + "\n");
  mezzo.write("m.safetensors", "{}");
  CHECK(contains(error("opt m.mz"), "m.mz:3:19: error: m.safetensors: truncated safetensors file"));
}

TEST_CASE("every command has a help that names its options, and a wrong one is refused") {
  Tool mezzo;
  const std::pair<const char*, std::vector<const char*>> commands[] = {
      {"opt",
       {"FILE", "--passes", "--pipeline", "--policy", "--rounding", "--target", "--print-after",
        "--explain", "--locs", "-o"}},
      {"run",
       {"FILE", "--func", "--in", "--out", "--device", "--policy", "--rounding", "--threads",
        "--passes", "--random-inputs"}},
      {"grad", {"FILE", "--func", "--wrt", "--loss-scale", "-o"}},
      {"build", {"FILE", "--func", "--target", "--policy", "-o"}},
      {"ops", {"--policy"}},
      {"devices", {}},
      {"cache", {"list", "clear"}}};
  Finished all = mezzo("--help");
  CHECK(all.status == 0);
  CHECK(mezzo("--version").out.starts_with("mezzo 0.1.0, LLVM 19."));
  CHECK(contains(mezzo("build --help").out, "Exit status: 0 every kernel is built, 1 some cannot"));
  CHECK(contains(all.out, "Exit status: 0 good, 1 the answer is no, 2 bad usage or input"));
  for (const auto& [command, words] : commands) {
    CAPTURE(command);
    CHECK(contains(all.out, std::string("  ") + command + " "));
    Finished help = mezzo(std::string(command) + " --help");
    CHECK(help.status == 0);
    CHECK(help.err == "");
    for (const char* word : words) CHECK(contains(help.out, word));
    Finished wrong = mezzo(std::string(command) + " --frob");
    CHECK(wrong.status == 2);
    CHECK(wrong.out == "");
    CHECK(wrong.err.starts_with("error: "));
    CHECK(contains(wrong.err, std::string("note: `mezzo ") + command + " --help` lists"));
  }
  CHECK(mezzo("").err ==
        "error: a command is missing\nnote: commands are opt, run, grad, build, ops, devices, "
        "cache; `mezzo --help` says more\n");
  // The next word is never taken for a value that is missing after '='.
  mezzo.write("net.mz", kNet);
  for (const char* command : {"build net.mz --target= -o out", "run net.mz --device= --threads=1",
                              "opt --policy= net.mz"}) {
    CAPTURE(command);
    Finished empty = mezzo(command);
    CHECK(empty.status == 2);
    CHECK(empty.out == "");
    const std::string words = command,
                      option = words.substr(words.find("--"), words.find("= ") - words.find("--"));
    CHECK(empty.err == "error: there is no value after '" + option + "='\nnote: leave " + option +
                           " out, or say which\n");
  }
  CHECK(mezzo("opt --passes= net.mz").out == mezzo("opt net.mz").out);
  Finished unknown = mezzo("rum m.mz");
  CHECK(unknown.status == 2);
  CHECK(unknown.err.starts_with("error: unknown command 'rum'; did you mean 'run'?\n"));
}

TEST_CASE("ops prints the table, and with a policy the types that each op gets") {
  Tool mezzo;
  Finished table = mezzo("ops");
  CHECK(table.status == 0);
  CHECK(contains(table.out, "\nmatmul "));
  CHECK(contains(table.out, "transpose_a?"));
  // The longest name does not run into the next column.
  CHECK(contains(table.out, "\nsoft_cross_entropy_grad  composite"));
  auto types = [&](const std::string& policy, const std::string& op) {
    Finished run = mezzo("ops --policy=" + policy);
    REQUIRE(run.status == 0);
    const size_t line = run.out.find("\n" + op + " ");
    REQUIRE(line != std::string::npos);
    std::string text = run.out.substr(line + 1, run.out.find('\n', line + 1) - line - 1);
    return text.substr(run.out.find("types under"));
  };
  CHECK(types("mixed_float16", "matmul") == "f16 -> f16, or f32 for wide readers");
  CHECK(types("mixed_bfloat16", "matmul") == "bf16 -> bf16, or f32 for wide readers");
  CHECK(types("float32", "matmul") == "f32 -> f32");
  CHECK(types("mixed_float16", "exp") == "f32 -> f32");
  CHECK(types("mixed_float16", "add") == "widest operand");
  CHECK(types("mixed_float16", "lt") == "widest operand -> bool");
  CHECK(types("mixed_float16", "transpose") == "first operand");
  Finished unknown = mezzo("ops --policy=float61");
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "unknown policy 'float61'"));
}

}  // namespace
}  // namespace mezzo::test
