// SPDX-License-Identifier: Apache-2.0
// Scan kernels: a running value along one axis. A block takes some lines side by side; its other
// threads divide the axis, tile after tile. A thread scans the elements that it has, threads are
// scanned by halves in shared memory, tiles in ascending order: in one order for one plan. Where
// lines are few and long the axis is cut into slices: a launch leaves the value of each in the
// workspace, and every block of the next starts from those before its own.
#include <mezzo/codegen/cuda/axis_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/codegen/cuda/reduction_text.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace mezzo::codegen {

using ir::DType;
using ir::OpKind;

namespace {

/// What runs along the axis.
struct Running {
  std::string fold;   // `Add`, `Chain` ...
  std::string type;   // of the value
  std::string none;   // changes nothing
  std::string start;  // stands before the first element
  int64_t bytes = 8;  // of the value

  Running(const ir::Op& op, bool exclusive) {
    const DType dtype = op.operand(0).dtype();
    const bool floats = ir::is_float(dtype);
    switch (op.kind()) {
      case OpKind::Cumsum:
        // A sum of nothing, which an exclusive scan stores, is +0.
        fold = "Add", type = floats ? "double" : "i64";
        none = floats ? literal(DType::F64, -0.0) : "0";
        start = floats && exclusive ? literal(DType::F64, 0) : none;
        return;
      case OpKind::Cumprod:
        fold = "Multiply", type = floats ? "double" : "i64";
        none = start = floats ? literal(DType::F64, 1) : "1";
        return;
      case OpKind::LinearScan:
        fold = "Chain", type = "Linear", none = start = "{1.0, 0.0}", bytes = 16;
        return;
      default:
        break;
    }
    const Reduction extremum = extremum_of(op.kind() == OpKind::Cummax, dtype);
    fold = extremum.fold, type = extremum.type, none = start = extremum.initial;
    bytes = accumulator_bytes(type);
  }
};

class ScanEmitter {
 public:
  ScanEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : kernel_(kernel),
        op_(ir::axis_op(kernel)),
        space_(op_.result().shape(), op_.int_attr("axis")),
        threads_(plan.threads),
        width_(plan.grain),
        lanes_(plan.vector),
        slices_(std::max<int64_t>(plan.slices, 1)),
        reverse_(op_.bool_attr("reverse")),
        exclusive_(op_.info().attribute("exclusive") && op_.bool_attr("exclusive")),
        running_(op_, exclusive_),
        region_(kernel, static_cast<int>(plan.vector)) {
    MEZZO_CHECK(width_ > 0 && threads_ % width_ == 0 && space_.length % lanes_ == 0 &&
                    (lanes_ == 1 || space_.inner == 1),
                fmt::format("kernel @{}: {} lines a block of {} threads, vectors of {}",
                            kernel.kernel_name(), width_, threads_, lanes_));
    tiles_ = ir::ceil_div(space_.length, height() * lanes_);
    line_blocks_ = ir::ceil_div(space_.inner, width_);
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.axis = true;
    const int64_t blocks = space_.shape.elements() == 0 ? 0 : space_.outer * line_blocks_ * slices_;
    std::vector<RegionText::Entry> entries;
    const auto add_entry = [&](const std::string& entry, bool last) {
      write_entry(last);
      source.launches.push_back({entry, static_cast<int>(threads_), blocks});
      entries.push_back({entry, threads_, region_.take_body()});
    };
    if (slices_ > 1) {
      source.workspace_bytes = std::max<int64_t>(
          ir::ceil_div(running_.bytes * slices_ * space_.lines(), 256) * 256, 256);
      add_entry(name + "_slices", false);
    }
    add_entry(name, true);
    source.text = region_.finish(entries, slices_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  int64_t height() const { return threads_ / width_; }
  std::string number(int64_t value) const { return region_.index_literal(value); }
  SourceWriter& thread() { return region_.writer(Level::Thread); }
  std::string lane() const { return lanes_ > 1 ? "j" : "0"; }

  std::string slice_values() const {
    return fmt::format("reinterpret_cast<{}*>(workspace)", running_.type);
  }

  /// The thread's line and its part of the axis.
  void place_thread() {
    const auto type = region_.index_type();
    SourceWriter& out = thread();
    out.line(fmt::format("const u32 x = threadIdx.x % {0}, y = threadIdx.x / {0};", width_));
    out.line(slices_ > 1 ? fmt::format("const u32 slice = blockIdx.x % {};", slices_)
                         : std::string("const u32 slice = 0;"));
    out.line(fmt::format("const {} block = blockIdx.x / {};", type, slices_));
    out.line(
        fmt::format("const {} outer = block / {};", type, region_.divisor_literal(line_blocks_)));
    out.line(fmt::format("const {} place = block % {} * {} + x;", type,
                         region_.divisor_literal(line_blocks_), width_));
    // Beside the last line its elements are read once more and not stored.
    out.line(
        fmt::format("const {0} i = place < {1} ? place : {1} - 1;", type, number(space_.inner)));
    out.line(fmt::format("__shared__ {} parts[{}];", running_.type, threads_));
  }

  void write_entry(bool last) {
    region_.enter(2);
    place_thread();
    region_.eval_scalars();
    at_ = space_.coordinates(
        region_, "", Level::Thread,
        {.base = "c", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration});
    SourceWriter& out = thread();
    const auto type = region_.index_type();
    const std::string line = fmt::format("outer * {} + i", number(space_.inner));
    out.line(fmt::format("const {} none = {};", running_.type, running_.none));
    out.line(fmt::format("{} carry = {};", running_.type, last ? running_.start : "none"));
    if (last && slices_ > 1)
      out.line(
          fmt::format("for (u32 s = 0; s < slice; ++s) carry = {}::of(carry, {}[s * {} + {}]);",
                      running_.fold, slice_values(), number(space_.lines()), line));
    const int64_t of_slice = ir::ceil_div(tiles_, slices_);
    out.line(fmt::format("const {} end = (slice + 1) * {} < {} ? (slice + 1) * {} : {};", type,
                         number(of_slice), number(tiles_), number(of_slice), number(tiles_)));
    out.open(fmt::format("for ({} tile = slice * {}; tile < end; ++tile)", type, number(of_slice)));
    write_tile(last);
    out.close();
    if (!last)
      out.line(fmt::format("if (y == 0 && place < {}) {}[slice * {} + {}] = carry;",
                           number(space_.inner), slice_values(), number(space_.lines()), line));
  }

  /// `p`: the thread's first place in the order of the scan; `c`: its first element in memory.
  void write_tile(bool last) {
    SourceWriter& out = thread();
    const auto type = region_.index_type();
    out.line(fmt::format("const {} p = (tile * {} + y) * {};", type, height(), lanes_));
    out.line(fmt::format(
        "const {} c = {};", type,
        reverse_ ? fmt::format("{} - p", number(space_.length - lanes_)) : std::string("p")));
    out.line(fmt::format("{} v[{}];", running_.type, lanes_));
    out.line("#pragma unroll");
    out.line(fmt::format("for (u32 j = 0; j < {}; ++j) v[j] = none;", lanes_));
    const std::string inside = fmt::format("p < {}", number(space_.length));
    write_elements(fmt::format("if ({})", inside), [&] {
      region_.writer(Level::Lane).line(fmt::format("v[{}] = {};", lane(), element()));
      return std::vector<std::string>();
    });
    if (lanes_ > 1) {
      out.line("#pragma unroll");
      out.line(reverse_
                   ? fmt::format("for (u32 j = {} - 1; j-- > 0;) v[j] = {}::of(v[j + 1], v[j]);",
                                 lanes_, running_.fold)
                   : fmt::format("for (u32 j = 1; j < {}; ++j) v[j] = {}::of(v[j - 1], v[j]);",
                                 lanes_, running_.fold));
    }
    out.line(fmt::format("{} all;", running_.type));
    out.line(fmt::format(
        "const {0} before = {1}::of(carry, scan_threads<{1}, {2}, {3}>(v[{4}], none, parts, all));",
        running_.type, running_.fold, width_, height(), reverse_ ? 0 : lanes_ - 1));
    out.line(fmt::format("carry = {}::of(carry, all);", running_.fold));
    if (!last) return;
    write_elements(fmt::format("if ({} && place < {})", inside, number(space_.inner)),
                   [&] { return write_results(); });
  }

  /// `body` in the code of each of the thread's elements, where `condition` holds; it gives the
  /// lines that follow.
  void write_elements(const std::string& condition,
                      const std::function<std::vector<std::string>()>& body) {
    region_.enter(6);
    region_.enter_lanes(6);
    region_.lazy(
        Level::Iteration, "e",
        fmt::format("(outer * {} + c) * {} + i", number(space_.length), number(space_.inner)));
    const TextIndex element{
        .base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
    region_.add_identity(space_.shape, at_, element);
    const std::vector<std::string> after = body();
    region_.drop_identities(0);
    region_.leave_lanes();
    for (const std::string& line : after) region_.writer(Level::Iteration).line(line);
    const std::string text = region_.leave();
    thread().open(condition);
    thread().append(text);
    thread().close();
  }

  std::string element() {
    std::vector<std::string> values;
    for (ir::Value operand : op_.operands()) values.push_back(region_.eval(operand, at_).text);
    if (op_.kind() == OpKind::LinearScan)
      return fmt::format("Linear{{(double){}, (double){}}}", values[0], values[1]);
    return fmt::format("({}){}", running_.type, values[0]);
  }

  /// The value at an element: what is before the thread's elements joined with theirs up to here.
  std::string value() const {
    const std::string joined = fmt::format("{}::of(before, v[{}])", running_.fold, lane());
    if (!exclusive_) return joined;
    if (lanes_ == 1) return "before";
    return reverse_ ? fmt::format("j == {} - 1 ? before : {}::of(before, v[j + 1])", lanes_,
                                  running_.fold)
                    : fmt::format("j == 0 ? before : {}::of(before, v[j - 1])", running_.fold);
  }

  std::vector<std::string> write_results() {
    const DType dtype = op_.result().dtype();
    std::string text = fmt::format("({})", value());
    if (op_.kind() == OpKind::LinearScan) text += ".b";
    if (op_.kind() == OpKind::Cumprod && ir::is_float(dtype)) text = fmt::format("settled{}", text);
    if (compute_type_name(dtype) != running_.type)
      text = fmt::format("({}){}", compute_type_name(dtype), text);
    region_.preset(op_.result(),
                   region_.define(Level::Lane, compute_type_name(dtype), text, op_.result()));
    std::vector<std::string> stores;
    const ir::Op* yield = kernel_.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r) {
      const std::string result = region_.eval_to_store(yield->operand(r), at_).text;
      const std::string place = region_.index_text({.base = "e", .level = Level::Iteration});
      stores.push_back(region_.store_result(r, result, place));
    }
    return stores;
  }

  const ir::Op& kernel_;
  const ir::Op& op_;
  AxisSpace space_;
  int64_t threads_, width_, lanes_, slices_;
  bool reverse_, exclusive_;
  Running running_;
  RegionText region_;
  TextCoordinates at_;  // of an element
  int64_t tiles_ = 0, line_blocks_ = 0;
};

}  // namespace

CudaSource emit_cuda_scan(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return ScanEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
