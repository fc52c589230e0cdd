// SPDX-License-Identifier: Apache-2.0
// Gradients of functions of tensors, and regions that fix precision or recomputation. Gradients are
// f32 (f64 for f64) and may be differentiated again.
#pragma once

#include <mezzo/dsl/callable.h>
#include <mezzo/dsl/operand.h>

#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace mezzo {

struct ValueAndGrad {
  Tensor value;
  std::vector<Tensor> grads;
};

namespace detail {

using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

inline std::vector<Tensor> to_tensors(Tensor tensor) { return {tensor}; }
inline std::vector<Tensor> to_tensors(std::vector<Tensor> tensors) { return tensors; }
template <typename... Ts>
std::vector<Tensor> to_tensors(const std::tuple<Ts...>& tensors) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, tensors);
}
inline std::vector<Tensor> to_tensors(const std::pair<Tensor, Tensor>& tensors) {
  return {tensors.first, tensors.second};
}
inline std::vector<Tensor> to_tensors(ValueAndGrad both) {
  both.grads.insert(both.grads.begin(), both.value);
  return std::move(both.grads);
}

/// A Tensor for each argument, whatever it is.
template <typename>
using TensorFor = Tensor;

/// A function of `N` tensors as a function of a list.
template <size_t N, typename F>
TensorFunction erase(F function) {
  return [function](std::span<const Tensor> inputs) mutable {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return to_tensors(function(inputs[I]...));
    }(std::make_index_sequence<N>());
  };
}

/// The results of `function` and then its gradients by the arguments `wrt`.
std::vector<Tensor> trace_gradient(const TensorFunction& function, std::vector<Operand> arguments,
                                   std::vector<int64_t> wrt, ir::Location location);

}  // namespace detail

/// A function that gives the value of the scalar function `f` and its gradients by the arguments
/// `wrt` (all when empty). What `f` captures is constant for the gradient.
template <typename F>
auto value_and_grad(F f, std::vector<int64_t> wrt = {},
                    ir::Location location = ir::Location::here()) {
  detail::require_function(f, "value_and_grad: the function", location);
  // Callable with as many arguments as `f` has, which `jit` finds out.
  return [f, wrt, location](const auto&... arguments)
    requires std::is_invocable_v<F&, detail::TensorFor<decltype(arguments)>...>
  {
    std::vector<int64_t> by = wrt;
    if (by.empty())
      for (size_t i = 0; i < sizeof...(arguments); ++i) by.push_back(static_cast<int64_t>(i));
    size_t count = by.size();
    std::vector<Tensor> all =
        detail::trace_gradient(detail::erase<sizeof...(arguments)>(f),
                               {Operand(arguments).at(location)...}, std::move(by), location);
    auto first = all.end() - static_cast<ptrdiff_t>(count);
    return ValueAndGrad{all[0], std::vector<Tensor>(first, all.end())};
  };
}

/// A function that gives the gradient of the scalar function `f` by its argument `wrt`. Calling it
/// throws UserError where `f` gives no scalar float, or there is no float argument of that number.
template <typename F>
auto grad(F f, int64_t wrt = 0, ir::Location location = ir::Location::here()) {
  detail::require_function(f, "grad: the function", location);
  return [both = value_and_grad(f, {wrt}, location)](const auto&... arguments)
    requires std::is_invocable_v<F&, detail::TensorFor<decltype(arguments)>...>
  { return both(arguments...).grads[0]; };
}

namespace detail {

/// While it lives, ops carry `policy = NAME`, or a checkpoint number of their own.
class RegionScope {
 public:
  explicit RegionScope(const char* policy, ir::Location location);
  explicit RegionScope(ir::Location location);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  Trace* trace_;
  bool policy_;
};

}  // namespace detail

/// Runs `f`, whose operations are kept in f32: 16-bit operands are cast up, whatever the policy.
template <typename F>
auto keep_f32(F&& f, ir::Location location = ir::Location::here()) {
  detail::require_function(f, "keep_f32: the function", location);
  detail::RegionScope scope("float32", location);
  return f();
}

/// Runs `f`, whose operations keep no results for the backward pass: they are computed again.
template <typename F>
auto checkpoint(F&& f, ir::Location location = ir::Location::here()) {
  detail::require_function(f, "checkpoint: the function", location);
  detail::RegionScope scope(location);
  return f();
}

namespace detail {

/// Inputs, outputs and the cotangents of the outputs to a cotangent for each float input.
using BackwardFunction = std::function<std::vector<Tensor>(
    std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>)>;

/// The results of `forward`, with `backward` as their gradient.
std::vector<Tensor> trace_custom_gradient(const TensorFunction& forward,
                                          const BackwardFunction& backward,
                                          std::vector<Operand> arguments, ir::Location location);

template <typename T>
struct TensorCount;
template <>
struct TensorCount<Tensor> : std::integral_constant<size_t, 1> {};
template <>
struct TensorCount<std::pair<Tensor, Tensor>> : std::integral_constant<size_t, 2> {};
template <typename... Ts>
struct TensorCount<std::tuple<Ts...>> : std::integral_constant<size_t, sizeof...(Ts)> {};

/// A backward function that takes lists, or `N` inputs, then `M` outputs and `M` cotangents.
template <size_t N, size_t M, typename B>
BackwardFunction erase_backward(B backward) {
  using List = std::span<const Tensor>;
  if constexpr (std::is_invocable_v<B&, List, List, List>) {
    return [backward](List inputs, List outputs, List cotangents) mutable {
      return to_tensors(backward(inputs, outputs, cotangents));
    };
  } else {
    return [backward](List inputs, List outputs, List cotangents) mutable {
      return [&]<size_t... I, size_t... O>(std::index_sequence<I...>, std::index_sequence<O...>) {
        return to_tensors(backward(inputs[I]..., outputs[O]..., cotangents[O]...));
      }(std::make_index_sequence<N>(), std::make_index_sequence<M>());
    };
  }
}

}  // namespace detail

/// A function that computes `forward(x ...)` and whose gradient is what `backward` gives.
///
/// `forward` gives a float Tensor, or a pair or tuple of them. `backward(x ..., y ..., dy ...)`
/// takes the inputs, the outputs and their cotangents, all as Tensors, or three spans of Tensors,
/// and gives a cotangent for each float input, of its shape. What either captures is a constant for
/// the gradient: parameters that are to learn are inputs. A second derivative differentiates
/// `backward` as it is written; where that reads an output y, the output has the custom gradient
/// again, and where it reads an input x it has the ordinary one.
///
///   auto clipped = custom_gradient(
///       [](Tensor x) { return x; },
///       [](Tensor x, Tensor y, Tensor dy) { return minimum(maximum(dy, -1.0), 1.0); });
template <typename F, typename B>
auto custom_gradient(F forward, B backward, ir::Location location = ir::Location::here()) {
  detail::require_function(forward, "custom_gradient: the forward function", location);
  detail::require_function(backward, "custom_gradient: the backward function", location);
  return [forward, backward, location](const auto&... arguments)
    requires std::is_invocable_v<F&, detail::TensorFor<decltype(arguments)>...>
  {
    constexpr size_t kInputs = sizeof...(arguments);
    using Result =
        std::decay_t<std::invoke_result_t<const F&, detail::TensorFor<decltype(arguments)>...>>;
    constexpr size_t kOutputs = detail::TensorCount<Result>::value;
    std::vector<Tensor> all = detail::trace_custom_gradient(
        detail::erase<kInputs>(forward), detail::erase_backward<kInputs, kOutputs>(backward),
        {Operand(arguments).at(location)...}, location);
    return [&]<size_t... O>(std::index_sequence<O...>) {
      return Result{all[O]...};
    }(std::make_index_sequence<kOutputs>());
  };
}

}  // namespace mezzo
