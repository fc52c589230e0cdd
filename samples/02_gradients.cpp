// SPDX-License-Identifier: Apache-2.0
// Gradients of functions: `grad` and `value_and_grad` are functions too, so they can be
// differentiated again. Here Newton's method finds the minimum of a function from its first and
// second derivative.
//
//   02_gradients [--device=cpu|interp|cuda[:N]|auto]
#include <mezzo/mezzo.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <string_view>

using namespace mezzo;

namespace {

/// Smallest where 1 / x = 1 / 3: x - 3 log x.
Tensor objective(Tensor x) { return sum(x - 3 * log(x)); }

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

  // Value, first and second derivative in one graph.
  auto derivatives = jit(
      [](Tensor x) {
        ValueAndGrad first = value_and_grad(objective)(x);
        Tensor second = grad([](Tensor y) { return sum(grad(objective)(y)); })(x);
        return std::vector<Tensor>{first.value, first.grads[0], second};
      },
      options);

  double x = 0.5;
  std::printf("%4s %12s %12s %12s %12s\n", "step", "x", "f(x)", "f'(x)", "f''(x)");
  for (int step = 0; step < 8; ++step) {
    std::vector<Array> at = derivatives(x);
    std::printf("%4d %12.8f %12.8f %12.8f %12.8f\n", step, x, at[0].item(), at[1].item(),
                at[2].item());
    x -= at[1].item() / at[2].item();
  }
  std::printf("minimum at %.6f, expected 3\n", x);
  return std::abs(x - 3) < 1e-4 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
