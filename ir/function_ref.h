// SPDX-License-Identifier: Apache-2.0
// A borrowed callable: two pointers, no allocation. For parameters only; it must not outlive what
// it was made from.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace mezzo::ir {

template <typename Signature>
class FunctionRef;

/// Calls a function object that the caller keeps alive.
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Callable>
    requires(!std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
             std::is_invocable_r_v<Result, Callable&, Args...>)
  FunctionRef(Callable&& callable)  // NOLINT: implicit, so that lambdas pass as arguments
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          using Pointer = std::add_pointer_t<std::remove_reference_t<Callable>>;
          return (*static_cast<Pointer>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace mezzo::ir
