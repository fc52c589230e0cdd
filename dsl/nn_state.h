// SPDX-License-Identifier: Apache-2.0
// What the handles of layers and parameters share: names and the numbers. A trace gives names that
// are unique in it; the first one's are those that the handles show. Inside the library only.
#pragma once

#include <mezzo/dsl/initializers.h>
#include <mezzo/ir/location.h>
#include <mezzo/passes/pass.h>
#include <mezzo/runtime/array.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mezzo::detail {

struct ParameterState {
  std::string local_name;  // `weight`
  std::string name;        // `hidden1.weight`, as in the first trace
  Shape shape;
  Initializer initializer;
  /// Not trained but updated by steps, and f32 whatever the policy stores: running statistics.
  bool is_state = false;
  /// Empty until the first program that uses it binds it.
  std::optional<Array> value;
  /// Seed and stream of `value` when the initializer drew it.
  std::optional<std::pair<uint64_t, uint32_t>> drawn;

  /// A Trainer has chosen the element type of `value`: it holds what was trained and is never
  /// narrowed.
  bool trained = false;

  /// The numbers for a program that only reads them: `value` itself, or `copy` after a conversion
  /// to `dtype`. Made by the initializer the first time, from that stream of the seed.
  Array& read(DType dtype, uint64_t seed, uint32_t stream, Array& copy);
  /// The numbers for a step that updates them. Throws UserError when they were trained in a wider
  /// type than `dtype`.
  Array& bind(DType dtype, uint64_t seed, uint32_t stream, ir::Location location);

 private:
  void make(DType dtype, uint64_t seed, uint32_t stream);
};

/// A parameter in a program.
struct ProgramParameter {
  std::shared_ptr<ParameterState> state;
  std::string name;  // in the program
  /// Of the program's seed, for initial values; by choose_streams.
  uint32_t stream = 0;
};

/// Before a program with this seed draws the values that its parameters, in the order of their
/// first uses, have not got yet: the stream of each is its place, or, where one of the others was
/// drawn from that stream before, the first behind all places that none of them holds.
void choose_streams(std::vector<ProgramParameter>& parameters, uint64_t seed);

/// Parameters that programs before this one drew from one stream: they start alike, and layers that
/// start alike may learn alike.
std::vector<passes::Finding> find_twins(const std::vector<ProgramParameter>& parameters,
                                        ir::Location location);

struct LayerState {
  std::string kind;  // `dense`: the default name
  std::string name;  // given by the user, or by the first trace
  bool given = false;
};

}  // namespace mezzo::detail
