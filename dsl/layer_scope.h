// SPDX-License-Identifier: Apache-2.0
// What the calls of layers share. Inside the library only.
#pragma once

#include <mezzo/dsl/trace.h>

#include <memory>

namespace mezzo::detail {

/// While it lives, ops and parameters belong to the layer.
class LayerScope {
 public:
  LayerScope(Trace& trace, const std::shared_ptr<LayerState>& layer, ir::Location location)
      : trace_(trace) {
    trace_.enter_layer(layer, location);
  }
  ~LayerScope() { trace_.leave_layer(); }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

 private:
  Trace& trace_;
};

/// The state of a new layer of that kind; `name` is empty where the user gave none.
inline std::shared_ptr<LayerState> make_layer_state(std::string kind, const std::string& name) {
  auto state = std::make_shared<LayerState>();
  state->kind = std::move(kind);
  state->name = name;
  state->given = !name.empty();
  return state;
}

}  // namespace mezzo::detail
