// SPDX-License-Identifier: Apache-2.0
// A first graph: a C++ function of tensors, the graph that Mezzo traces from it, and its result.
//
//   01_first_graph [--device=cpu|interp|cuda[:N]|auto]
#include <mezzo/mezzo.h>

#include <cstdio>
#include <exception>
#include <string_view>

using namespace mezzo;

namespace {

/// An affine map with an activation, written as mathematics.
Tensor layer(Tensor x, Tensor w, Tensor b) { return relu(matmul(x, w) + b).named("h"); }

void print(const char* name, const Array& array) {
  std::printf("%s: %s =", name, to_string(array.type).c_str());
  for (double value : array.to_doubles()) std::printf(" %g", value);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) try {
  JitOptions options;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with("--device=")) {
      std::fprintf(stderr, "usage: %s [--device=cpu|interp|cuda[:N]|auto]\n", argv[0]);
      return 2;
    }
    options.device = Device::by_name(std::string(argument.substr(9)));
  }

  // `jit` traces the function when it is called, once for each combination of types.
  auto f = jit(layer, options);
  Array x({2, 3}, {1, 2, 3, -1, -2, -3});
  Array w({3, 2}, {0.5, -1, 0.25, 1, 1, 0});
  Array b({2}, {0.5, -0.5});
  std::printf("The graph, as traced:\n\n%s\n", f.ir(x, w, b).c_str());
  print("result", f(x, w, b));

  // A mistake is reported where it was made, with both types.
  try {
    f(x, x, b);
  } catch (const UserError& error) {
    std::printf("\nA product of shapes that do not fit:\n%s\n", error.what());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
