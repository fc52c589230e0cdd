// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: several layers on top of each other, in one or both directions.
#pragma once

#include <mezzo/dsl/nn.h>
#include <mezzo/dsl/recurrent.h>

#include <vector>

namespace mezzo::nn {

struct RecurrentLayerOptions {
  std::string name = "";
  int64_t layers = 1;  // or more
  /// A second network reads each layer's sequence from its end; outputs stand side by side.
  bool bidirectional = false;
  /// Sequences are [batch, steps, features], else [steps, batch, features].
  bool batch_first = true;
  bool bias = true;
};

struct RnnLayerOptions : RecurrentLayerOptions {
  std::string_view activation = "tanh";
};

/// Initial states; zeros where empty. [layers * directions, batch, units], the directions of a
/// layer behind each other.
struct RecurrentState {
  Tensor h = {};
  Tensor c = {};  // of an Lstm alone
};

struct RecurrentOutput {
  Tensor y;  // of the last layer, the sequence's shape with directions * units features
  Tensor h;  // last states, [layers * directions, batch, units]
  Tensor c;  // last cell states of an Lstm, else empty
};

/// What the three have in common; weights are drawn uniformly from ±1/√units as in PyTorch.
/// Parameters of layer 0 forwards are `l0.w`, `l0.u`, `l0.b` (and `l0.v`), backwards `l0_reverse.w`
/// ...
class Recurrent {
 public:
  RecurrentOutput operator()(Operand x, RecurrentState initial = {}) const;

 protected:
  enum class Kind : uint8_t { Rnn, Lstm, Gru };
  Recurrent(Kind kind, int64_t in, int64_t units, const RecurrentLayerOptions& options,
            std::string_view activation, ir::Location location);

 private:
  struct Weights {
    Parameter w, u, b, v;
  };
  Tensor run(const Weights& weights, const Tensor& x, Tensor h, Tensor c, bool reverse,
             Tensor& cells, ir::Location location) const;

  Kind kind_;
  int64_t in_, units_;
  RecurrentLayerOptions options_;
  std::string activation_;
  std::shared_ptr<detail::LayerState> state_;
  std::vector<Weights> weights_;
};

/// Throws UserError, as the others, for negative sizes and fewer than one layer.
class Rnn : public Recurrent {
 public:
  Rnn(int64_t in, int64_t units, RnnLayerOptions options = {},
      ir::Location location = ir::Location::here())
      : Recurrent(Kind::Rnn, in, units, options, options.activation, location) {}
};

class Lstm : public Recurrent {
 public:
  Lstm(int64_t in, int64_t units, RecurrentLayerOptions options = {},
       ir::Location location = ir::Location::here())
      : Recurrent(Kind::Lstm, in, units, options, "", location) {}
};

class Gru : public Recurrent {
 public:
  Gru(int64_t in, int64_t units, RecurrentLayerOptions options = {},
      ir::Location location = ir::Location::here())
      : Recurrent(Kind::Gru, in, units, options, "", location) {}
};

}  // namespace mezzo::nn
