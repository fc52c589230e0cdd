// SPDX-License-Identifier: Apache-2.0
#include <codegen/cuda_static_list.h>

#include <mezzo/ir/parser.h>

#include <fmt/format.h>

#include <codegen/cuda_cases.h>
#include <codegen/product_cases.h>

namespace mezzo::test {

namespace {

using ir::DType;

/// A function of the parameters and the body, which return their last value in the type `result`.
std::unique_ptr<ir::Module> function_of(const std::string& parameters, const std::string& body,
                                        const std::string& result) {
  return ir::parse(
      fmt::format("module @m attributes {{stage = \"primitive\"}} {{\n  func @f({}) -> {} {{\n{}"
                  "    return %y : {}\n  }}\n}}\n",
                  parameters, result, body, result));
}

/// cast(gelu(cast(x) + cast(b))) over rows of 1024.
std::unique_ptr<ir::Module> bias_gelu(const std::string& type) {
  const std::string x = "tensor<4096x1024x" + type + ">", b = "tensor<1024x" + type + ">",
                    wide = "tensor<4096x1024xf32>";
  return function_of("%x: " + x + ", %b: " + b,
                     "    %0 = cast %x : " + x + " -> " + wide + "\n    %1 = cast %b : " + b +
                         " -> tensor<1024xf32>\n    %2 = add %0, %1 : (" + wide +
                         ", tensor<1024xf32>) -> " + wide + "\n    %3 = gelu %2 : " + wide +
                         "\n    %y = cast %3 {word = 0} : " + wide + " -> " + x + "\n",
                     x);
}

/// x * y + z of tensors of one shape.
std::unique_ptr<ir::Module> multiply_add(const std::string& type, const std::string& shape) {
  const std::string x = "tensor<" + shape + "x" + type + ">";
  return function_of("%x: " + x + ", %z: " + x + ", %w: " + x,
                     "    %0 = mul %x, %z : " + x + "\n    %y = add %0, %w : " + x + "\n", x);
}

/// softmax in f32 of rows stored in `type`.
std::unique_ptr<ir::Module> softmax(const std::string& type, int64_t rows, int64_t columns) {
  const std::string x = fmt::format("tensor<{}x{}x{}>", rows, columns, type),
                    wide = fmt::format("tensor<{}x{}xf32>", rows, columns),
                    one = fmt::format("tensor<{}x1xf32>", rows);
  std::string body;
  if (type != "f32") body += "    %w = cast %x : " + x + " -> " + wide + "\n";
  const std::string w = type == "f32" ? "%x" : "%w", out = type == "f32" ? "%y" : "%4";
  body += "    %0 = max " + w + " {axes = [1], keepdims = true} : " + wide + " -> " + one +
          "\n    %1 = sub " + w + ", %0 : (" + wide + ", " + one + ") -> " + wide +
          "\n    %2 = exp %1 : " + wide +
          "\n    %3 = sum %2 {axes = [1], keepdims = true} : " + wide + " -> " + one + "\n    " +
          out + " = div %2, %3 : (" + wide + ", " + one + ") -> " + wide + "\n";
  if (type != "f32") body += "    %y = cast %4 : " + wide + " -> " + x + "\n";
  return function_of("%x: " + x, body, x);
}

/// (x - mean) * rsqrt(mean of squares + 1e-5) in f32 of rows stored in `type`, along `axis`.
std::unique_ptr<ir::Module> normalize(const std::string& type, int64_t rows, int64_t columns,
                                      int axis = 1) {
  const std::string x = fmt::format("tensor<{}x{}x{}>", rows, columns, type),
                    wide = fmt::format("tensor<{}x{}xf32>", rows, columns),
                    one = axis == 1 ? fmt::format("tensor<{}x1xf32>", rows)
                                    : fmt::format("tensor<1x{}xf32>", columns);
  const std::string sum = fmt::format(" {{axes = [{}], keepdims = true}} : {} -> {}\n", axis, wide,
                                      one),
                    both = " : (" + wide + ", " + one + ") -> " + wide + "\n",
                    scalar = " : (" + one + ", tensor<f32>) -> " + one + "\n";
  return function_of("%x: " + x,
                     "    %w = cast %x : " + x + " -> " + wide +
                         fmt::format("\n    %n = constant {{value = {}.0}} : tensor<f32>\n",
                                     axis == 1 ? columns : rows) +
                         "    %e = constant {value = 1e-05} : tensor<f32>\n    %0 = sum %w" + sum +
                         "    %1 = div %0, %n" + scalar + "    %2 = sub %w, %1" + both +
                         "    %3 = square %2 : " + wide + "\n    %4 = sum %3" + sum +
                         "    %5 = div %4, %n" + scalar + "    %6 = add %5, %e" + scalar +
                         "    %7 = rsqrt %6 : " + one + "\n    %8 = mul %2, %7" + both +
                         "    %y = cast %8 : " + wide + " -> " + x + "\n",
                     x);
}

/// The gradients of x, scale and shift of a layer normalisation, in f32 of rows stored in `type`,
/// with the mean and the root of each row given.
std::unique_ptr<ir::Module> normalize_backward(const std::string& type, int64_t rows,
                                               int64_t columns) {
  const std::string x = fmt::format("tensor<{}x{}x{}>", rows, columns, type),
                    wide = fmt::format("tensor<{}x{}xf32>", rows, columns),
                    one = fmt::format("tensor<{}x1xf32>", rows),
                    column = fmt::format("tensor<{}xf32>", columns);
  const std::string sum = " {axes = [1], keepdims = true} : " + wide + " -> " + one + "\n",
                    sums = " {axes = [0]} : " + wide + " -> " + column + "\n",
                    both = " : (" + wide + ", " + one + ") -> " + wide + "\n",
                    same = " : " + wide + "\n",
                    scalar = " : (" + one + ", tensor<f32>) -> " + one + "\n";
  const bool narrow = type != "f32";
  std::string body;
  if (narrow)
    body = "    %w = cast %x : " + x + " -> " + wide + "\n    %d = cast %dy : " + x + " -> " +
           wide + "\n";
  const std::string w = narrow ? "%w" : "%x", d = narrow ? "%d" : "%dy";
  body += fmt::format("    %n = constant {{value = {}.0}} : tensor<f32>\n", columns) +
          "    %0 = sub " + w + ", %mean" + both + "    %1 = mul %0, %root" + both +
          "    %2 = mul " + d + ", %scale : (" + wide + ", " + column + ") -> " + wide +
          "\n    %3 = sum %2" + sum + "    %4 = div %3, %n" + scalar + "    %5 = mul %2, %1" +
          same + "    %6 = sum %5" + sum + "    %7 = div %6, %n" + scalar + "    %8 = mul %1, %7" +
          both + "    %9 = sub %2, %4" + both + "    %10 = sub %9, %8" + same +
          "    %11 = mul %10, %root" + both + "    %12 = mul " + d + ", %1" + same +
          "    %13 = sum %12" + sums + "    %14 = sum " + d + sums;
  if (narrow) body += "    %15 = cast %11 : " + wide + " -> " + x + "\n";
  const std::string types = "(" + x + ", " + column + ", " + column + ")";
  return ir::parse(fmt::format(
      "module @m attributes {{stage = \"primitive\"}} {{\n  func @f(%x: {}, %dy: {}, %mean: {}, "
      "%root: {}, %scale: {}) -> {} {{\n{}    return {}, %13, %14 : {}\n  }}\n}}\n",
      x, x, one, one, column, types, body, narrow ? "%15" : "%11", types));
}

/// Sums over the rows, in f32 of rows stored in `type`: the gradient of a bias.
std::unique_ptr<ir::Module> column_sums(const std::string& type, int64_t rows, int64_t columns) {
  const std::string x = fmt::format("tensor<{}x{}x{}>", rows, columns, type),
                    wide = fmt::format("tensor<{}x{}xf32>", rows, columns),
                    sums = fmt::format("tensor<{}xf32>", columns);
  return function_of("%x: " + x,
                     "    %w = cast %x : " + x + " -> " + wide +
                         "\n    %y = sum %w {axes = [0]} : " + wide + " -> " + sums + "\n",
                     sums);
}

}  // namespace

std::vector<StaticKernel> static_kernels() {
  std::vector<StaticKernel> kernels;
  auto product = [&](const ProductCase& each, double most_overhead = 0) {
    kernels.push_back({each.name(), each.module(), most_overhead});
  };
  auto other = [&](std::string name, std::unique_ptr<ir::Module> module) {
    kernels.push_back({std::move(name), std::move(module)});
  };
  // Large products: tiles of 64x64 a warp.
  product({.m = 4096, .n = 4096, .k = 4096}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .trans_b = true}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .trans_a = true}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .trans_a = true, .trans_b = true}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .type = DType::BF16}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .behind = Behind::Bias, .flagged = true}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .behind = Behind::Outputs}, 2);
  product({.m = 4096, .n = 4096, .k = 4096, .before = Before::Cast}, 7);
  product({.m = 4096, .n = 4096, .k = 4096, .before = Before::Relu}, 4);
  product({.m = 1000, .n = 1000, .k = 1000}, 4);
  product({.m = 1001, .n = 1001, .k = 1001});
  product({.m = 256, .n = 256, .k = 8192, .trans_a = true, .behind = Behind::Accumulator}, 6);
  product({.m = 256, .n = 256, .k = 64, .batch_a = 96, .batch_b = 96, .trans_b = true}, 6);
  product({.m = 4096, .n = 4096, .k = 4096, .type = DType::F32});
  product({.m = 4096, .n = 4096, .k = 4096, .trans_b = true, .type = DType::F32});
  product({.m = 4096, .n = 4096, .k = 4096, .trans_a = true, .type = DType::F32});
  product({.m = 1024, .n = 1024, .k = 1024, .type = DType::F64});
  // The demo's training step: batch 128, layers of 784, 256, 128, 100 and 10.
  product({.m = 128, .n = 256, .k = 784, .behind = Behind::Bias, .flagged = true});
  product({.m = 128, .n = 100, .k = 128, .behind = Behind::Bias, .flagged = true});
  product({.m = 128, .n = 10, .k = 100, .behind = Behind::Bias});
  product({.m = 128, .n = 256, .k = 128, .trans_b = true, .flagged = true});
  product({.m = 784, .n = 256, .k = 128, .trans_a = true, .behind = Behind::Accumulator});
  product({.m = 100, .n = 10, .k = 128, .trans_a = true, .behind = Behind::Accumulator});
  product({.m = 128, .n = 256, .k = 784, .type = DType::F32, .behind = Behind::Bias});
  product({.m = 784, .n = 256, .k = 128, .trans_a = true, .type = DType::F32});

  other("bias, gelu f16", bias_gelu("f16"));
  other("bias, gelu bf16", bias_gelu("bf16"));
  other("multiply, add f32", multiply_add("f32", "4096x4096"));
  other("multiply, add f16", multiply_add("f16", "4096x4096"));
  other("multiply, add f16 tail", multiply_add("f16", "1001x1001"));
  other("softmax f16 1000", softmax("f16", 4096, 1000));
  other("softmax f16 16384", softmax("f16", 4096, 16384));
  other("softmax f32 131072", softmax("f32", 256, 131072));
  other("normalize f16 1024", normalize("f16", 4096, 1024));
  other("normalize bf16 8192", normalize("bf16", 4096, 8192));
  other("column sums f16 128x256", column_sums("f16", 128, 256));
  other("column sums bf16 65536x4096", column_sums("bf16", 65536, 4096));
  other("normalize columns f16 64x65536", normalize("f16", 64, 65536, 0));
  other("normalize columns bf16 65536x256", normalize("bf16", 65536, 256, 0));
  other("normalize backward f16 65536x256", normalize_backward("f16", 65536, 256));
  other("normalize backward f16 8192x1024", normalize_backward("f16", 8192, 1024));
  other("normalize backward f32 8192x4096", normalize_backward("f32", 8192, 4096));
  for (CudaCase& each : optimizer_cases())
    if (each.name == "adamw f32 of 6 or none" || each.name == "nesterov f16 of 6")
      other(each.name, std::move(each.module));
  return kernels;
}

}  // namespace mezzo::test
