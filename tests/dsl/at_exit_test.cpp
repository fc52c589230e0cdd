// SPDX-License-Identifier: Apache-2.0
// A static that is older than anything of the library outlives it: its destructor compiles, trains
// and runs when the program ends. What goes wrong there is the exit status of this program.
#include <mezzo/mezzo.h>

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

using namespace mezzo;

namespace {

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "at exit: %s\n", what);
  std::_Exit(1);
}

/// Made and called before the program ends: its kernels are in memory then.
using Called = decltype(jit([](Tensor x) { return x; }));
Called* called = nullptr;

void train(Device device) {
  nn::Dense layer{2, 2};
  Trainer trainer(layer, losses::cross_entropy, optim::Adam{},
                  {.batch = 2, .device = device, .threads = 2});
  Dataset data{Array({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), Array({4}, {0, 1, 0, 1}, i32)};
  demand(trainer.fit(data, {.progress = false})[0].steps == 2, "a wrong number of steps");
}

/// Runs, or says that the code generator is gone where the disk has no kernels.
template <typename F>
void run_or_refuse(F function) {
  try {
    function();
  } catch (const UserError& error) {
    demand(std::string(error.what()).find("the program is ending") != std::string::npos,
           error.what());
  }
}

struct AtExit {
  ~AtExit() {
    try {
      train(Device::interpreter());
      demand((*called)(Array({2}, {0, 0})).to_doubles() == std::vector<double>{4, 4},
             "a wrong number");
      run_or_refuse([] { train(Device::cpu()); });
      run_or_refuse([] {
        auto f = jit([](Tensor x) { return exp(x) * 2.0 + sum(x); }, JitOptions{.threads = 2});
        demand(f(Array({2}, {0, 0})).to_doubles() == std::vector<double>{2, 2}, "a wrong number");
      });
      try {
        jit([](Tensor x) { return reshape(x, {7}); })(Array(1.0));
        demand(false, "no error");
      } catch (const UserError&) {
      }
    } catch (const std::exception& error) {
      demand(false, error.what());
    }
  }
};
const AtExit at_exit;

}  // namespace

TEST_CASE("the library is used first when a static that uses it at exit is there already") {
  called = new Called(jit([](Tensor x) { return exp(x) * 4.0; }));
  CHECK((*called)(Array({2}, {0, 0})).to_doubles() == std::vector<double>{4, 4});
}
