// SPDX-License-Identifier: Apache-2.0
// Gradients of functions of tensors, and regions that fix precision or recomputation. Gradients are
// f32 (f64 for f64) and may be differentiated again.
#pragma once

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

/// A function that gives the gradient of the scalar function `f` by its argument `wrt`.
template <typename F>
auto grad(F f, int64_t wrt = 0, ir::Location location = ir::Location::here()) {
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
  detail::RegionScope scope("float32", location);
  return f();
}

/// Runs `f`, whose operations keep no results for the backward pass: they are computed again.
template <typename F>
auto checkpoint(F&& f, ir::Location location = ir::Location::here()) {
  detail::RegionScope scope(location);
  return f();
}

}  // namespace mezzo
