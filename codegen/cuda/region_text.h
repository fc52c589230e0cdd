// SPDX-License-Identifier: Apache-2.0
// Evaluates values of a kernel's region as CUDA C++ text. Evaluation is on demand, from a result
// down to the loads: each value is asked for at coordinates, and views are nothing but arithmetic
// on coordinates. The emitters of the families add the loops.
#pragma once

#include <mezzo/codegen/cuda/device_functions.h>
#include <mezzo/codegen/cuda/text_index.h>
#include <mezzo/codegen/source_writer.h>
#include <mezzo/ir/graph.h>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace mezzo::codegen {

/// The C++ type that elements of `dtype` are computed in (f16 and bf16 in float), and as stored.
std::string_view compute_type_name(ir::DType dtype);
std::string_view storage_type_name(ir::DType dtype);
/// An exact literal of the compute type.
std::string literal(ir::DType dtype, double value);
std::string integer_literal(ir::DType dtype, int64_t value);
/// Threads that a multiprocessor is to hold, so that a thread may have 128 registers: without a
/// wish the compiler spills some to save others.
inline constexpr int64_t kThreadsAtOnce = 512;
/// `extern "C" __global__ ... name`.
std::string entry_head(const std::string& name, int64_t threads,
                       int64_t threads_at_once = kThreadsAtOnce);

class RegionText {
 public:
  /// An expression without side effects that is safe as an operand, and where it is known.
  struct Text {
    std::string text;
    Level level = Level::Thread;
  };

  /// What a variable of the kernel keeps of the values that a flag word watches: bits of the word;
  /// the largest magnitude of f32 and f64; how near numbers come to overflow when they are rounded
  /// to 16 bits.
  enum class Watch : uint8_t { Bits, F32, F64, ToF16, ToBF16 };

  /// `lanes`: elements that a thread handles at once; inside a lane's code their number is `j`.
  /// What computes the value `%h` of the kernel's function is named `v_h`, what holds it rounded to
  /// 16 bits `v_h_r`, the pointer to the parameter `%x` `p_x`.
  RegionText(const ir::Op& kernel, int lanes);

  int lanes() const { return lanes_; }
  /// Between two passes that handle different numbers of elements at once.
  void set_lanes(int lanes) { lanes_ = lanes; }
  bool wide() const { return wide_; }
  /// `u32`, or `u64` where some tensor has too many elements for it.
  std::string_view index_type() const { return wide_ ? "u64" : "u32"; }
  std::string index_literal(int64_t value) const;
  /// A size to divide by. Where it is 0 no block runs, and the compiler warns of nothing.
  std::string divisor_literal(int64_t size) const { return index_literal(size > 0 ? size : 1); }

  /// Levels are entered and left in order; leaving forgets what was computed there and gives its
  /// text.
  void enter(int indent);
  std::string leave();
  /// The level of a lane within that of an iteration, which stands `indent` deep. Leaving it writes
  /// its text into the iteration, once for each element of a vector.
  void enter_lanes(int indent) { enter(lanes_ > 1 ? indent + 2 : indent); }
  void leave_lanes();
  SourceWriter& writer(Level level) { return writers_[static_cast<size_t>(level)]; }

  /// A name for an expression that is written down only if it is used.
  void lazy(Level level, const std::string& name, const std::string& expression);
  /// Coordinates along `dims` of the row-major index `linear`. Lanes share all but the last of them
  /// where no vector crosses its end; else each lane has its own, of the element that
  /// `lane_element` names.
  TextCoordinates decompose(std::span<const int64_t> dims, const std::string& prefix,
                            const TextIndex& linear, const std::string& lane_element);

  /// The row-major index `linear` stands for `coordinates` in `shape`.
  void add_identity(const ir::Shape& shape, const TextCoordinates& coordinates,
                    const TextIndex& linear);
  void drop_identities(size_t keep) { identities_.resize(keep); }
  size_t identities() const { return identities_.size(); }

  /// The last vector of a tensor may have fewer elements: the name of their number, and that of the
  /// lane's element. Lanes are contiguous only where the index of a load is an identity.
  void set_tail(std::string count, std::string lane_element) {
    tail_ = std::move(count);
    lane_element_ = std::move(lane_element);
  }
  /// Vectors at the identity `linear` that several passes over a row read are kept in registers,
  /// `iterations` a thread, at most `budget` elements in all. `loop` opens the loop over `it`, in
  /// which `place` is the first element of a vector.
  void keep_row(const TextIndex& linear, std::string place, int64_t iterations, int64_t budget,
                std::vector<std::string> loop);

  Text eval(ir::Value value, const TextCoordinates& at);
  /// What `eval` gives, before it is rounded to 16 bits where it is: for stores, which round too.
  Text eval_to_store(ir::Value value, const TextCoordinates& at);
  /// The value of an op wherever it is asked for, rounded to its element type and flagged.
  void preset(ir::Value value, const Text& computed);
  /// The value wherever it is asked for.
  void stand_in(ir::Value value, const Text& text) { presets_[value.def()] = text; }
  /// The row-major index of coordinates as text; the pointer to a parameter of the region.
  std::string place(const ir::Shape& shape, const TextCoordinates& at) {
    return index_text(linear(shape, at));
  }
  std::string pointer(ir::Value parameter) const { return named_after("p_", parameter); }
  /// Whether an index is one of [0, size); where it is none the range flag is set.
  Text inside(const Text& index, int64_t size);
  /// Every one-element value of the region, once a thread.
  void eval_scalars();
  /// All coordinates 0.
  static TextCoordinates origin(const ir::Shape& shape) {
    return TextCoordinates(static_cast<size_t>(shape.rank()));
  }

  /// A new name: `prefix` and a number.
  std::string name(std::string_view prefix);
  /// A constant, named after `of` or else after the value that is being evaluated.
  Text define(Level level, std::string_view type, const std::string& expression, ir::Value of = {});
  std::string index_text(const TextIndex& index);

  /// The statement that stores element `place` and those behind it of result `number`, of which a
  /// lane has computed `lane`; it belongs behind the lanes, where all results are evaluated. The
  /// last vector has `count` elements if that is not empty.
  std::string store_result(int number, const std::string& lane, const std::string& place,
                           const std::string& count = "");

  /// A pointer to an element of a parameter.
  std::string address(ir::Value parameter, const TextCoordinates& at);

  /// Some result may stand in the place of an operand.
  bool may_write_in_place() const;

  /// Some index is checked, as far as has been evaluated.
  bool checks_index() const { return range_used_; }
  /// Another entry of the kernel, of another RegionText, checks an index: these have the parameter
  /// too.
  void declare_range() { range_used_ = true; }
  /// Ends an entry: flag variables, what was written, flag stores. Everything is forgotten, so that
  /// the next entry of the kernel is written with the same RegionText.
  std::string take_body();
  /// Parameters of all entries so far, in the order of CudaSource.
  struct Parameter {
    std::string type, name;
  };
  std::vector<Parameter> parameters() const;
  /// Definitions of the device functions that were called.
  const std::string& functions() const { return functions_.text(); }
  struct Entry {
    std::string name;
    int64_t threads = 0;
    std::string body;
    int64_t threads_at_once = kThreadsAtOnce;
  };
  /// The finished kernel: device functions and the entries. `workspace`: they take one.
  std::string finish(std::span<const Entry> entries, bool workspace = false);
  /// The same where one entry is being written.
  std::string finish(const std::string& entry, int64_t threads, bool workspace = false,
                     int64_t threads_at_once = kThreadsAtOnce);

 private:
  using Key = std::pair<const ir::ValueDef*, TextCoordinates>;
  struct Lazy {
    Level level;
    std::string expression;
  };
  struct Identity {
    std::vector<std::pair<int64_t, TextIndex>> axes;  // those longer than 1
    TextIndex linear;
  };

  Text eval_op(const ir::Op& op, const TextCoordinates& at);
  Text load(ir::Value parameter, const TextCoordinates& at);
  Text load_vector(ir::Value parameter, const TextIndex& index);
  /// The elements of a vector at `address`.
  Text load_lanes(const std::string& address, ir::DType dtype, Level level);
  Text load_kept(ir::Value parameter);
  Text pad(const ir::Op& op, const TextCoordinates& at);
  Text concat(const ir::Op& op, const TextCoordinates& at);
  Text gather(const ir::Op& op, const TextCoordinates& at);
  /// Pointer and row-major index of what only views stand before.
  std::optional<std::pair<std::string, TextIndex>> stored_at(ir::Value value, TextCoordinates at);
  Text remap(const ir::Op& op, const TextCoordinates& at);
  Text random(const ir::Op& op, const TextCoordinates& at);
  Text random_groups(const ir::Op& op, Level level, const std::string& element,
                     const std::string& state, bool tail);
  Text check_index(const ir::Op& op, const Text& value);
  /// Sets the index-range flag where the condition holds.
  void raise_range(Level level, const std::string& bad);
  Text compute(const ir::Op& op, const std::vector<Text>& operands, Level level);
  Text compute_integer(const ir::Op& op, const std::vector<Text>& operands, Level level);
  Text convert(ir::DType from, ir::DType to, const Text& value);
  Text round(ir::DType dtype, const Text& value);
  void flag(const ir::Op& op, const std::vector<Text>& operands, const Text& unrounded,
            const Text& rounded);
  /// So few ops have flags that their values are folded before they are compared.
  static bool few_flags(const ir::Op& kernel);
  std::string watched_by(const ir::Op& op, Watch watch);
  void watch(const ir::Op& op, Watch watch, const Text& value);
  void add_flag(const ir::Op& op, uint32_t bit, Level level, const std::string& condition);
  /// The variables of `watches_` at the start of an entry; at its end the words that they give.
  void declare_flags(SourceWriter& out) const;
  void store_flags(SourceWriter& out) const;
  TextCoordinates operand_coordinates(const ir::Op& op, int operand, const TextCoordinates& at);
  /// The row-major index of coordinates, its base named where it is a sum.
  TextIndex linear(const ir::Shape& shape, const TextCoordinates& at);
  TextIndex named(Level level, const std::string& expression, int64_t multiple);
  void use(const std::string& name);
  /// `prefix` and the name of the value in the IR.
  std::string named_after(std::string_view prefix, ir::Value value) const {
    return std::string(prefix) + ids_.at(value.def());
  }
  /// `wanted` where it is free, else with a number.
  std::string unique(const std::string& wanted);

  const ir::Op& kernel_;
  int lanes_;
  bool wide_, folds_flags_;
  std::unordered_map<const ir::ValueDef*, std::string> ids_;
  std::set<std::string> taken_;
  std::string current_ = "v";  // the name of the value that is being evaluated
  DeviceFunctions functions_;
  std::vector<SourceWriter> writers_;
  std::vector<std::map<Key, Text>> known_;
  std::vector<std::map<std::string, std::string>> named_;  // expression -> name
  std::map<std::string, Lazy> lazy_;
  std::vector<Identity> identities_;
  std::unordered_map<const ir::ValueDef*, Text> presets_;
  // What each name of a rounded value was rounded from, and the type that it was rounded to: a cast
  // to a wider type keeps the name.
  std::unordered_map<std::string, std::pair<ir::DType, std::string>> unrounded_;
  std::string tail_, lane_element_;
  struct {
    TextIndex linear;
    std::string place;
    int64_t iterations = 0, budget = 0;
    std::vector<std::string> loop;
    std::map<const ir::ValueDef*, std::string> arrays;
  } kept_;
  std::vector<int64_t> words_;
  // Of the entry that is being written; the index flag of any entry.
  std::set<std::pair<size_t, Watch>> watches_;  // by place of the word
  bool range_here_ = false;
  bool range_used_ = false;
  std::unordered_map<const ir::Op*, int> slots_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace mezzo::codegen
