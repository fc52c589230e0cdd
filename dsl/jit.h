// SPDX-License-Identifier: Apache-2.0
// `jit`: a C++ function of tensors as a function of arrays. It is traced and compiled once for
// every combination of argument types. Threads may call one function and its copies, which share
// the programs: the calls take turns. A model's parameters are not guarded against a Trainer that
// changes them at the same time.
#pragma once

#include <mezzo/dsl/callable.h>
#include <mezzo/dsl/device.h>
#include <mezzo/dsl/precision.h>
#include <mezzo/runtime/array.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mezzo {

struct JitOptions {
  Device device = Device::cpu();
  /// None: element types as written.
  std::optional<Policy> policy = std::nullopt;
  /// `excess` or `as-written`.
  std::string rounding = "excess";
  /// Layers do what they do while a model is trained: nn::Dropout drops.
  bool training = false;
  /// Of random operations and of parameters without values.
  uint64_t seed = 0;
  /// 0: the default of the machine.
  int threads = 0;
};

namespace detail {

/// The programs of one jitted function, shared by its copies.
class JitPrograms {
 public:
  /// `location`: of the call of `jit`, for errors that have no line of their own.
  JitPrograms(TensorFunction function, JitOptions options, ir::Location location);
  ~JitPrograms();
  /// `location`: of the call. Throws UserError inside of the function itself, while it is traced.
  std::vector<Array> call(std::span<const Array> arguments, ir::Location location);
  /// The traced module as IR text.
  std::string ir(std::span<const Array> arguments, ir::Location location);

 private:
  struct Entry;
  Entry& entry(std::span<const Array> arguments, ir::Location location);
  std::vector<Tensor> traced(std::span<const Tensor> inputs);
  TensorFunction function_;
  JitOptions options_;
  ir::Location location_;
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws UserError for null: a function that was moved from.
JitPrograms& live_programs(JitPrograms* programs, ir::Location location);

/// An argument of a jitted function, one for each place.
template <size_t>
using JitArgument = const Array&;

}  // namespace detail

/// A function of N arrays. Where it was moved from, a call throws UserError.
template <size_t N, bool kOneResult, typename Places = std::make_index_sequence<N>>
class Jitted;

template <size_t N, bool kOneResult, size_t... I>
class Jitted<N, kOneResult, std::index_sequence<I...>> {
 public:
  explicit Jitted(std::shared_ptr<detail::JitPrograms> programs) : programs_(std::move(programs)) {}

  /// Runs on arrays (numbers are f32 scalars); one Array, or a vector of them where the function
  /// gives several tensors.
  auto operator()(detail::JitArgument<I>... arguments,
                  ir::Location location = ir::Location::here()) const {
    std::vector<Array> results = live(location).call(std::vector<Array>{arguments...}, location);
    if constexpr (kOneResult)
      return std::move(results[0]);
    else
      return results;
  }
  /// The traced program for such arguments as IR text.
  std::string ir(detail::JitArgument<I>... arguments,
                 ir::Location location = ir::Location::here()) const {
    return live(location).ir(std::vector<Array>{arguments...}, location);
  }

 private:
  detail::JitPrograms& live(ir::Location location) const {
    return detail::live_programs(programs_.get(), location);
  }
  std::shared_ptr<detail::JitPrograms> programs_;
};

namespace detail {

/// The number of tensors that `F` takes, at most 8.
template <typename F, typename... Tensors>
constexpr size_t arity_of() {
  if constexpr (std::is_invocable_v<F&, Tensors...>) {
    return sizeof...(Tensors);
  } else if constexpr (sizeof...(Tensors) < 8) {
    return arity_of<F, Tensors..., Tensor>();
  } else {
    static_assert(sizeof...(Tensors) > 8,
                  "the function must take Tensors alone, 8 at most, and its body must compile");
    return 0;
  }
}

template <typename F, size_t... I>
auto result_of(std::index_sequence<I...>)
    -> std::invoke_result_t<F&, std::enable_if_t<(I < 9), Tensor>...>;

}  // namespace detail

/// `f` takes tensors and gives a Tensor, a pair, a tuple or a vector of them, or a ValueAndGrad,
/// whose arrays are the value and then the gradients.
template <typename F>
auto jit(F f, JitOptions options = {}, ir::Location location = ir::Location::here()) {
  detail::require_function(f, "jit: the function", location);
  constexpr size_t kCount = detail::arity_of<F>();
  using Result = decltype(detail::result_of<F>(std::make_index_sequence<kCount>()));
  return Jitted<kCount, std::is_same_v<Result, Tensor>>(std::make_shared<detail::JitPrograms>(
      detail::erase<kCount>(f), std::move(options), location));
}

}  // namespace mezzo
