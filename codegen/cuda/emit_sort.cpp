// SPDX-License-Identifier: Apache-2.0
// Sort kernels: an element becomes an item of a key, which orders as the elements do, and its
// index. A block sorts items in shared memory: whole lines, some at once where they are short, or a
// part of a line. Parts go to the workspace, where each further launch merges them two by two; an
// item finds its place by its rank in the other part. Where only the first k are wanted a part
// keeps k. Results are read at the indices, so that they are the elements themselves.
#include <mezzo/codegen/cuda/axis_text.h>
#include <mezzo/codegen/cuda/emit_families.h>
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

class SortEmitter {
 public:
  SortEmitter(const ir::Op& kernel, const ir::Plan& plan)
      : kernel_(kernel),
        op_(ir::axis_op(kernel)),
        keys_(op_.operand(op_.kind() == OpKind::SortBy ? 1 : 0)),
        space_(op_.operand(0).shape(), op_.int_attr("axis")),
        results_(space_.shape, op_.int_attr("axis")),
        threads_(plan.threads),
        items_(plan.grain),
        descending_(op_.bool_attr(op_.kind() == OpKind::Topk ? "largest" : "descending")),
        key_type_(ir::byte_size(keys_.dtype()) == 8 ? "u64" : "u32"),
        region_(kernel, 1) {
    if (op_.kind() == OpKind::Topk) results_.length = op_.int_attr("k");
    while (segment_ < space_.length && segment_ < items_) segment_ *= 2;
    MEZZO_CHECK(items_ > 0 && items_ % segment_ == 0 && (items_ & (items_ - 1)) == 0,
                fmt::format("kernel @{}: {} items a block", kernel.kernel_name(), items_));
    parts_ = std::max<int64_t>(ir::ceil_div(space_.length, segment_), 1);
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.axis = true;
    std::vector<RegionText::Entry> entries;
    const bool nothing = space_.shape.elements() == 0;
    const auto add_entry = [&](const std::string& entry, int64_t blocks) {
      source.launches.push_back({entry, static_cast<int>(threads_), nothing ? 0 : blocks});
      entries.push_back({entry, threads_, region_.take_body()});
    };
    const int64_t lines = space_.lines();
    write_sort();
    if (parts_ == 1) {
      add_entry(name, ir::ceil_div(lines, items_ / segment_));
    } else {
      source.workspace_bytes = 2 * buffer_bytes();
      add_entry(name + "_parts", lines * parts_);
      int from = 0;
      for (int64_t width = segment_; width < space_.length; width *= 2, from = 1 - from) {
        write_merge(width, from);
        add_entry(fmt::format("{}_{}", name, width), blocks_of(lines * space_.length));
      }
      write_last(from);
      add_entry(name, blocks_of(lines * results_.length));
    }
    source.text = region_.finish(entries, parts_ > 1);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  int64_t blocks_of(int64_t elements) const { return ir::ceil_div(elements, threads_); }
  std::string number(int64_t value) const { return region_.index_literal(value); }
  SourceWriter& thread() { return region_.writer(Level::Thread); }
  std::string item() const { return fmt::format("Item<{}>", key_type_); }

  int64_t buffer_bytes() const {
    const int64_t bytes = key_type_ == "u64" ? 16 : 8;
    return std::max<int64_t>(ir::ceil_div(bytes * space_.shape.elements(), 256), 1) * 256;
  }
  std::string buffer(int which) const {
    return fmt::format("reinterpret_cast<{}*>(workspace + {}ull)", item(), which * buffer_bytes());
  }

  /// Opens the code of element `e` of all, one a thread.
  void open_elements(int64_t elements) {
    const auto type = region_.index_type();
    thread().line(
        fmt::format("const {0} e = ({0})blockIdx.x * {1} + threadIdx.x;", type, threads_));
    thread().open(fmt::format("if (e < {})", number(elements)));
  }

  /// The code of an iteration that `body` writes, `indent` deep, behind the coordinates of its
  /// `line`. It is made before the loop around it is opened, since what all iterations share is
  /// written where the thread's code then stands.
  std::string iteration(int indent, const std::function<void(SourceWriter&)>& body) {
    region_.enter(indent);
    const auto type = region_.index_type();
    SourceWriter& out = region_.writer(Level::Iteration);
    out.line(
        fmt::format("const {} outer = line / {};", type, region_.divisor_literal(space_.inner)));
    out.line(fmt::format("const {} i = line % {};", type, region_.divisor_literal(space_.inner)));
    body(out);
    return region_.leave();
  }

  /// The loop over a block's places `s`: the line of each, and the place in it, named `what`, where
  /// it is below `length`.
  void for_each_place(int64_t length, const std::string& what,
                      const std::function<void(SourceWriter&)>& body) {
    const std::string text = iteration(6, body);
    const auto type = region_.index_type();
    SourceWriter& out = thread();
    out.open(fmt::format("for (u32 s = threadIdx.x; s < {}; s += {})", items_, threads_));
    out.line(fmt::format("const {} segment = ({})blockIdx.x * {} + s / {};", type, type,
                         items_ / segment_, segment_));
    out.line(fmt::format("const {} line = segment / {};", type, number(parts_)));
    out.line(fmt::format("const {} {} = segment % {} * {} + s % {};", type, what, number(parts_),
                         segment_, segment_));
    out.open(
        fmt::format("if (line < {} && {} < {})", number(space_.lines()), what, number(length)));
    out.append(text);
    out.close();
    out.close();
  }

  void write_sort() {
    region_.enter(2);
    SourceWriter& out = thread();
    region_.eval_scalars();
    out.line(fmt::format("__shared__ {} items[{}];", item(), items_));
    out.line(fmt::format("for (u32 s = threadIdx.x; s < {}; s += {}) items[s] = last_item<{}>();",
                         items_, threads_, key_type_));
    for_each_place(space_.length, "c", [&](SourceWriter& place) {
      const TextIndex along{.base = "c", .multiple = 1, .level = Level::Iteration};
      const TextCoordinates at = space_.coordinates(region_, "a", Level::Iteration, along);
      const std::string key = region_.eval(keys_, at).text;
      place.line(
          fmt::format("items[s] = {{{}order_key({}), (u32)c}};", descending_ ? "~" : "", key));
    });
    out.line(fmt::format("sort_segments<{}, {}, {}>(items);", segment_, items_, threads_));
    if (parts_ > 1) {
      for_each_place(space_.length, "c", [&](SourceWriter& place) {
        place.line(fmt::format("{}[line * {} + c] = items[s];", buffer(0), number(space_.length)));
      });
      return;
    }
    for_each_place(results_.length, "place", [&](SourceWriter& place) {
      place.line(fmt::format("const {} at = items[s].at;", region_.index_type()));
      write_results(place);
    });
  }

  void write_merge(int64_t width, int from) {
    region_.enter(2);
    open_elements(space_.shape.elements());
    SourceWriter& out = thread();
    out.line(fmt::format("const {} line = e / {};", region_.index_type(), number(space_.length)));
    out.line(
        fmt::format("const {} first = line * {};", region_.index_type(), number(space_.length)));
    out.line(fmt::format("merge_item({} + first, {} + first, (u32)(e - first), {}u, {}u, {}u);",
                         buffer(from), buffer(1 - from), space_.length, width, results_.length));
    out.close();
  }

  void write_last(int from) {
    region_.enter(2);
    region_.eval_scalars();
    const std::string text = iteration(4, [&](SourceWriter& place) { write_results(place); });
    open_elements(space_.lines() * results_.length);
    SourceWriter& out = thread();
    const auto type = region_.index_type();
    const int64_t length = std::max<int64_t>(results_.length, 1);
    out.line(fmt::format("const {} line = e / {};", type, number(length)));
    out.line(fmt::format("const {} place = e % {};", type, number(length)));
    out.line(fmt::format("const {} at = {}[line * {} + place].at;", type, buffer(from),
                         number(space_.length)));
    out.append(text);
    out.close();
  }

  /// The element at index `at` of the line becomes element `place` of the results.
  void write_results(SourceWriter& out) {
    const TextIndex index{.base = "at", .multiple = 1, .level = Level::Iteration};
    const TextCoordinates from = space_.coordinates(region_, "a", Level::Iteration, index);
    out.line(fmt::format("const {} to = (outer * {} + place) * {} + i;", region_.index_type(),
                         number(results_.length), number(space_.inner)));
    const ir::Op* yield = kernel_.body()->terminator();
    for (int r = 0; r < yield->num_operands(); ++r) {
      const ir::Value result = yield->operand(r);
      std::string value = "(i32)at";
      if (op_.kind() != OpKind::Argsort && result.index() == 0) {
        region_.preset(result, region_.eval(op_.operand(0), from));
        value = region_.eval_to_store(result, from).text;
      }
      out.line(fmt::format("narrow(r{}[to], {});", r, value));
    }
  }

  const ir::Op& kernel_;
  const ir::Op& op_;
  ir::Value keys_;
  AxisSpace space_, results_;
  int64_t threads_, items_;
  bool descending_;
  std::string key_type_;
  RegionText region_;
  int64_t segment_ = 1;  // places of a block that are sorted among themselves
  int64_t parts_ = 1;    // segments of a line
};

}  // namespace

CudaSource emit_cuda_sort(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  return SortEmitter(kernel, plan).emit(name);
}

}  // namespace mezzo::codegen
