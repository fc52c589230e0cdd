// SPDX-License-Identifier: Apache-2.0
// Scatter kernels: updates added to rows of x. One block sorts the numbers of the updates by the
// rows that their indices name; what names no row gets the number behind the last one. Then each
// thread takes one element of the result, finds the updates of its row, adds them in their order
// and runs the epilogue. A thread adds at most kSumBlock terms before they go to a total in double.
//
// Workspace: keys and numbers before and after a pass of the sort, each a u32 for every update.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace mezzo::codegen {

using ir::DType;

namespace {

constexpr int kSortThreads = 1024;  // of prelude_scatter.cuh
constexpr int kDigitBits = 8;

class ScatterEmitter {
 public:
  ScatterEmitter(const ir::Op& kernel, const ir::Op& scatter, const ir::Plan& plan)
      : kernel_(kernel),
        scatter_(scatter),
        threads_(plan.threads),
        axis_(static_cast<int>(scatter.int_attr("axis"))),
        space_(scatter.result().shape()),
        indices_(scatter.operand(1).shape()),
        rows_(space_[axis_]),
        updates_(indices_.elements()),
        region_(kernel, 1) {}

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.scatter = true;
    source.workspace_bytes = std::max<int64_t>(16 * updates_, 16);
    std::vector<RegionText::Entry> entries;
    write_sort();
    entries.push_back({name + "_sort", kSortThreads, region_.take_body()});
    source.launches.push_back({entries.back().name, kSortThreads, updates_ > 0 ? 1 : 0});
    write_rows();
    entries.push_back({name, threads_, region_.take_body()});
    source.launches.push_back(
        {name, static_cast<int>(threads_), ir::ceil_div(space_.elements(), threads_)});
    source.text = region_.finish(entries, true);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }
  /// A part of the workspace.
  std::string words(int64_t part) const {
    return fmt::format("(u32*)workspace + {}ull", part * updates_);
  }

  /// Coordinates of the update with the number `base`.
  TextCoordinates update(const std::string& base) {
    return region_.decompose(indices_.dims(), "q",
                             {.base = base, .multiple = 1, .level = Level::Iteration}, base);
  }

  void write_sort() {
    region_.enter(2);
    region_.eval_scalars();
    region_.enter(4);
    region_.enter_lanes(4);
    const RegionText::Text index = region_.eval(scatter_.operand(1), update("t"));
    const RegionText::Text valid = region_.inside(index, rows_);
    SourceWriter& lane = region_.writer(Level::Lane);
    lane.line(fmt::format("keys[t] = {} ? (u32){} : {}u;", valid.text, index.text, rows_));
    lane.line("numbers[t] = (u32)t;");
    region_.leave_lanes();
    const std::string iteration = region_.leave();
    SourceWriter& out = region_.writer(Level::Thread);
    out.line(fmt::format("u32* const keys = {};", words(0)));
    out.line(fmt::format("u32* const numbers = {};", words(1)));
    out.open(fmt::format("for ({} t = threadIdx.x; t < {}; t += {})", region_.index_type(),
                         number(updates_), kSortThreads));
    out.append(iteration);
    out.close();
    out.line("__syncthreads();");
    out.line("Pairs from = {keys, numbers};");
    out.line(fmt::format("Pairs to = {{{}, {}}};", words(2), words(3)));
    for (int pass = 0; pass < passes(); ++pass) {
      out.line(fmt::format("sort_digit({}, {}, {}u, {});", pass % 2 ? "to" : "from",
                           pass % 2 ? "from" : "to", updates_, kDigitBits * pass));
    }
  }

  /// Of the sort: the largest key is the number of rows.
  int passes() const {
    return (std::bit_width(static_cast<uint64_t>(rows_)) + kDigitBits - 1) / kDigitBits;
  }

  void write_rows() {
    region_.enter(2);
    region_.eval_scalars();
    SourceWriter& out = region_.writer(Level::Thread);
    const auto type = region_.index_type();
    const std::string count = number(space_.elements());
    out.line(fmt::format("const {0} place = ({0})blockIdx.x * {1} + threadIdx.x;", type, threads_));
    // A thread without an element of its own reads what the last one does.
    out.line(fmt::format("const {0} i = place < {1} ? place : {1} - 1;", type, count));
    const TextIndex element{.base = "i", .multiple = 1, .level = Level::Thread};
    const TextCoordinates at = region_.decompose(space_.dims(), "c", element, "i");
    region_.add_identity(space_, at, element);
    const std::string row = region_.index_text(at[static_cast<size_t>(axis_)]);
    const int64_t part = passes() % 2 ? 2 : 0;
    out.line(fmt::format("const u32* const keys = {};", words(part)));
    out.line(fmt::format("const u32* const numbers = {};", words(part + 1)));
    out.line(fmt::format("const u32 first = lower_bound(keys, {}u, (u32){});", updates_, row));
    out.line(
        fmt::format("const u32 last = first + lower_bound(keys + first, {}u - first, (u32){} + "
                    "1);",
                    updates_, row));
    add_updates(at);
    const ir::Op* yield = kernel_.body()->terminator();
    std::vector<std::string> stores;
    for (int r = 0; r < yield->num_operands(); ++r) {
      const std::string result = region_.eval_to_store(yield->operand(r), at).text;
      stores.push_back(region_.store_result(r, result, "i"));
    }
    out.open(fmt::format("if (place < {})", count));
    for (const std::string& store : stores) out.line(store);
    out.close();
  }

  /// The value of the scatter at an element.
  void add_updates(const TextCoordinates& at) {
    const DType dtype = scatter_.result().dtype();
    const bool floats = ir::is_float(dtype), blocked = floats && dtype != DType::F64;
    const DType sum = !floats ? DType::I64 : blocked ? DType::F32 : DType::F64;
    const std::string_view type = compute_type_name(sum);
    const RegionText::Text x = region_.eval(scatter_.operand(0), at);
    region_.enter(4);
    region_.lazy(Level::Iteration, "k", "numbers[t]");
    region_.enter_lanes(4);
    TextCoordinates from(at.begin(), at.begin() + axis_);
    const TextCoordinates index = update("k");
    from.insert(from.end(), index.begin(), index.end());
    from.insert(from.end(), at.begin() + axis_ + 1, at.end());
    const RegionText::Text term = region_.eval(scatter_.operand(2), from);
    SourceWriter& lane = region_.writer(Level::Lane);
    if (floats)
      lane.line(fmt::format("sum = sum + {};", term.text));
    else
      lane.line(fmt::format("sum = wrap_add(sum, (i64){});", term.text));
    if (blocked) {
      lane.open(fmt::format("if ((t - first) % {0} == {0} - 1)", ir::kSumBlock));
      lane.line("total = total + (double)sum;");
      lane.line("sum = -0.0f;");
      lane.close();
    }
    region_.leave_lanes();
    const std::string iteration = region_.leave();
    SourceWriter& out = region_.writer(Level::Thread);
    out.line(fmt::format("{} sum = {};", type, floats ? "-0.0" : "0"));
    if (blocked) out.line("double total = -0.0;");
    out.open("for (u32 t = first; t < last; ++t)");
    out.append(iteration);
    out.close();
    const std::string added =
        !floats   ? fmt::format("wrap_add({}, ({})sum)", x.text, compute_type_name(dtype))
        : blocked ? x.text + " + (float)(total + (double)sum)"
                  : x.text + " + sum";
    // What nothing is added to keeps its bits, -0 too.
    region_.preset(
        scatter_.result(),
        region_.define(Level::Thread, compute_type_name(dtype),
                       fmt::format("first == last ? {} : {}", x.text, added), scatter_.result()));
  }

  const ir::Op& kernel_;
  const ir::Op& scatter_;
  int64_t threads_;
  int axis_;
  ir::Shape space_, indices_;
  int64_t rows_, updates_;
  RegionText region_;
};

}  // namespace

CudaSource emit_cuda_scatter(const ir::Op& kernel, const ir::Plan& plan, const std::string& name) {
  const ir::Op* scatter = nullptr;
  for (const ir::Op& op : *kernel.body())
    if (op.kind() == ir::OpKind::ScatterAdd) scatter = &op;
  MEZZO_CHECK(scatter, "kernel @" + kernel.kernel_name() + " has no scatter_add");
  return ScatterEmitter(kernel, *scatter, plan).emit(name);
}

}  // namespace mezzo::codegen
