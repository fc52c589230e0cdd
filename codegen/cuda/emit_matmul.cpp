// SPDX-License-Identifier: Apache-2.0
// Matrix products: one tile of the result a block. When the sums are complete each warp turns them
// in shared memory from the order of its fragments into rows, so that the epilogue is evaluated on
// vectors along a row, as in an elementwise kernel, and stored 16 bytes at a time. Where k is cut
// into slices the sums of a slice go to the workspace, and a second launch adds the slices in
// ascending order and evaluates the epilogue.
#include <mezzo/codegen/cuda/emit_matmul.h>

#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>

namespace mezzo::codegen {

namespace {

/// Tiles of the result that are near each other run together, so that they share rows of A and
/// columns of B in the L2 cache: so many tiles along m, then the next along n.
constexpr int64_t kGroup = 8;
/// Threads of a block that adds slices.
constexpr int64_t kFinishThreads = 256;

const ir::Op& product_of(const ir::Op& kernel) {
  for (const ir::Op& op : *kernel.body())
    if (op.kind() == ir::OpKind::Matmul) return op;
  throw InternalError("kernel @" + kernel.kernel_name() + " has no matmul");
}

class MatmulEmitter {
 public:
  MatmulEmitter(const ir::Op& kernel, const ir::CudaMatmul& plan, const ir::Target& target)
      : kernel_(kernel),
        product_(product_of(kernel)),
        plan_(plan),
        spec_(plan.spec),
        target_(target),
        shape_(product_.result().shape()),
        lanes_(plan.vector) {
    for (const ir::Op& op : *kernel.body()) checks_index_ |= ir::may_set_range_flag(op);
  }

  CudaSource emit(const std::string& name) {
    CudaSource source;
    source.name = name;
    source.matrix = true;
    source.checks_index = checks_index_;
    source.workspace_bytes = plan_.workspace_bytes();
    const int64_t blocks = plan_.empty() ? 0 : plan_.blocks();
    source.launches.push_back(
        {name, static_cast<int>(plan_.threads), blocks, plan_.shared_bytes()});
    source.text = emit_product(name);
    if (!sliced()) return source;
    // Each launch has its device functions in a namespace of its own.
    const std::string finish = name + "_finish";
    const int64_t vectors = shape_.elements() / lanes_;
    source.text = fmt::format("namespace product {{\n\n{}\n}}\nnamespace finish {{\n\n{}\n}}\n",
                              source.text, emit_finish(finish));
    source.launches.push_back({finish, static_cast<int>(kFinishThreads),
                               blocks ? (vectors + kFinishThreads - 1) / kFinishThreads : 0});
    return source;
  }

 private:
  bool sliced() const { return spec_.slices > 1; }
  std::string_view accumulator() const {
    return plan_.spec.acc == ir::DType::F64 ? "double" : "float";
  }

  std::string emit_product(const std::string& name) {
    RegionText region(kernel_, 1);
    if (checks_index_) region.declare_range();
    region.enter(2);
    region.eval_scalars();
    MatmulText text{kernel_, product_, plan_, target_, region, {}};
    if (!plan_.empty()) {
      place_block(text);
      MatmulOperand a(text, 0), b(text, 1);
      if (plan_.mma())
        emit_mma_loop(text, a, b);
      else
        emit_fma_loop(text, a, b);
      turn_sums(text);
    }
    // Sums and fragments of a large tile fill all registers that a thread can have. Smaller ones
    // leave room to unroll the loop, which takes the compiler long.
    const int64_t sums = spec_.mr * spec_.nr / 32 * plan_.accumulator_bytes() / 4;
    const bool large = sums > 32 || spec_.acc == ir::DType::F64;
    return region.finish(name, plan_.threads, sliced(), large ? plan_.threads : kThreadsAtOnce);
  }

  /// Which tile of which matrix the block computes, and which part of it the warp.
  void place_block(MatmulText& text) {
    SourceWriter& out = text.out();
    RegionText& region = text.region;
    const std::string_view index = region.index_type();
    const int64_t m_tiles = spec_.m_tiles(), n_tiles = spec_.n_tiles();
    const int64_t warps_along_n = spec_.nc / spec_.nr;
    out.line("const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    out.line(fmt::format("const u32 warp_row = warp / {0} * {1}, warp_column = warp % {0} * {2};",
                         warps_along_n, spec_.mr, spec_.nr));
    out.line(fmt::format("const u32 tile = blockIdx.x % {};", m_tiles * n_tiles));
    if (m_tiles <= kGroup) {
      out.line(fmt::format("const u32 tile_row = tile % {0}, tile_column = tile / {0};", m_tiles));
    } else {
      const int64_t group = kGroup * n_tiles;
      out.line(fmt::format("const u32 first = tile / {} * {};", group, kGroup));
      const std::string rest = fmt::format("{} - first", m_tiles);
      out.line(fmt::format("const u32 height = {};",
                           m_tiles % kGroup == 0
                               ? std::to_string(kGroup)
                               : fmt::format("{0} < {1} ? {0} : {1}", rest, kGroup)));
      out.line(fmt::format(
          "const u32 tile_row = first + tile % {0} % height, tile_column = tile % {0} / height;",
          group));
    }
    out.line(fmt::format("const {0} row0 = ({0})tile_row * {1}, column0 = ({0})tile_column * {2};",
                         index, spec_.mc, spec_.nc));
    if (sliced()) {
      out.line(
          fmt::format("const u32 slice = blockIdx.x / {} % {};", m_tiles * n_tiles, spec_.slices));
      const int64_t last = plan_.k_tiles() - (spec_.slices - 1) * spec_.slice_blocks;
      out.line(fmt::format("const u32 tiles = slice == {} ? {} : {};", spec_.slices - 1, last,
                           spec_.slice_blocks));
      out.line(
          fmt::format("const {0} k0 = ({0})slice * {1};", index, spec_.slice_blocks * spec_.kc));
    } else if (spec_.k > 0) {
      out.line(fmt::format("const u32 tiles = opaque({});", plan_.k_tiles()));
      out.line(fmt::format("const {} k0 = 0;", index));
    }
    const int64_t matrices = spec_.batch;
    if (matrices > 1)
      out.line(fmt::format("const {0} batch = ({0})blockIdx.x / {1};", index,
                           m_tiles * n_tiles * spec_.slices));
    const auto batch_dims = shape_.dims().first(static_cast<size_t>(shape_.rank() - 2));
    text.batch = region.decompose(batch_dims, "batch", {.base = "batch", .multiple = 1}, "");
  }

  /// Writes the sums of a part of the warp's tile to shared memory and reads them back as rows.
  void turn_sums(MatmulText& text) {
    SourceWriter& out = text.out();
    RegionText& region = text.region;
    const std::string_view type = accumulator();
    const int64_t parts = spec_.mr / plan_.turned_rows();
    const int64_t in_row = spec_.nr / lanes_;  // vectors
    const std::string places = fmt::format("{}, {}", spec_.nr, plan_.turned_stride());
    // A lane keeps its columns where a row has no more vectors than a warp has lanes.
    const bool fixed = in_row <= 32;
    const bool ragged_rows = spec_.m % spec_.mc != 0, ragged_columns = spec_.n % spec_.nc != 0;
    const std::string_view index = region.index_type();
    region.set_lanes(static_cast<int>(lanes_));
    out.line(fmt::format("{0}* const turn = reinterpret_cast<{0}*>(dynamic_shared) + warp * {1};",
                         type, plan_.turned_rows() * plan_.turned_stride()));
    SourceWriter head(6);
    auto place_column = [&](SourceWriter& to, const std::string& vector) {
      to.line(fmt::format("const u32 turned_column = {} * {};", vector, lanes_));
      to.line(fmt::format("const {} column_here = column0 + warp_column + turned_column;", index));
      to.line(ragged_columns
                  ? fmt::format("const {0} column = column_here < {1} ? column_here : {1};", index,
                                region.index_literal(spec_.n - lanes_))
                  : fmt::format("const {} column = column_here;", index));
    };
    if (fixed) {
      place_column(out, fmt::format("lane % {}", in_row));
    } else {
      place_column(head, fmt::format("(q * 32 + lane) % {}", in_row));
    }
    head.line(fmt::format("const u32 turned_row = {};",
                          fixed ? fmt::format("q * {} + lane / {}", 32 / in_row, in_row)
                                : fmt::format("(q * 32 + lane) / {}", in_row)));
    head.line(fmt::format(
        "const {} row = row0 + warp_row + {};", index,
        plan_.mma() ? "part * 16 + turned_row" : "part / 4 * 16 + turned_row * 4 + part % 4"));

    region.enter(ragged_rows || ragged_columns ? 8 : 6);
    region.enter_lanes(ragged_rows || ragged_columns ? 8 : 6);
    std::vector<std::string> stores;
    const std::string sums = lanes_ > 1 ? "x[j]" : "x[0]";
    if (sliced()) {
      const std::string matrix = spec_.batch > 1
                                     ? fmt::format("(slice * (u64){} + batch)", spec_.batch)
                                     : std::string("(u64)slice");
      stores.push_back(
          fmt::format("store_vector<{0}>(reinterpret_cast<{1}*>(workspace) + ({2} * {3} + row) * "
                      "{4} + column, x);",
                      lanes_, type, matrix, spec_.m, spec_.n));
    } else {
      TextCoordinates at = text.batch;
      at.resize(static_cast<size_t>(shape_.rank()));
      const size_t rank = at.size();
      if (spec_.m != 1) at[rank - 2] = {.base = "row", .multiple = 1, .level = Level::Iteration};
      if (spec_.n != 1)
        at[rank - 1] = {.base = "column",
                        .stride = lanes_ > 1 ? 1 : 0,
                        .multiple = lanes_,
                        .level = fixed ? Level::Thread : Level::Iteration};
      const TextIndex element{
          .base = "e", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
      region.lazy(Level::Iteration, "e",
                  fmt::format("{} * {} + column",
                              spec_.batch > 1 ? fmt::format("(batch * {} + row)", spec_.m) : "row",
                              region.index_literal(spec_.n)));
      region.add_identity(shape_, at, element);
      finish_element(region, at, element, sums, stores);
    }
    region.leave_lanes();
    for (const std::string& store : stores) region.writer(Level::Iteration).line(store);
    const std::string body = region.leave();

    out.line("#pragma unroll 1");
    out.open(fmt::format("for (u32 part = 0; part < {}; ++part)", parts));
    write_part(out, parts, places);
    out.line("__syncwarp();");
    const int64_t iterations = plan_.turned_rows() * in_row / 32;
    // The largest tiles take the compiler longest: theirs stay short.
    const bool pairs = iterations % 2 == 0 && plan_.spec.acc != ir::DType::F64 && spec_.nr < 64;
    out.line(pairs ? "#pragma unroll 2" : "#pragma unroll 1");
    // Four rows of few columns are fewer vectors than lanes.
    const int64_t vectors = plan_.turned_rows() * in_row;
    out.open(fmt::format("for (u32 q = 0; q < {}; ++q)", std::max<int64_t>(1, iterations)));
    out.append(head.text());
    std::string inside;
    auto also = [&](const std::string& condition) {
      inside += (inside.empty() ? "" : " & ") + condition;
    };
    if (ragged_rows) also(fmt::format("row < {}", region.index_literal(spec_.m)));
    if (ragged_columns) also(fmt::format("column_here < {}", region.index_literal(spec_.n)));
    if (vectors < 32) also(fmt::format("lane < {}", vectors));
    if (!inside.empty()) out.open(fmt::format("if ({})", inside));
    out.line(fmt::format("{} x[{}];", type, lanes_));
    out.line(fmt::format("load_turned<{}>(x, turn, turned_row, turned_column);", places));
    out.append(body);
    if (!inside.empty()) out.close();
    out.close();
    out.line("__syncwarp();");
    out.close();
  }

  /// The sums of the first part, each from the lane that has it; then those of the next part become
  /// the first, so that one text serves all and each sum stays in a register.
  void write_part(SourceWriter& out, int64_t parts, const std::string& places) {
    out.line("#pragma unroll");
    if (plan_.mma()) {
      out.open(fmt::format("for (u32 j = 0; j < {}; ++j)", spec_.nr / 8));
      for (int half : {0, 1})
        out.line(
            fmt::format("store_pair(turn + turned<{}>(lane / 4 + {}, j * 8 + lane % 4 * 2), "
                        "sums[0][j][{}], sums[0][j][{}]);",
                        places, half * 8, half * 2, half * 2 + 1));
    } else {
      out.open(fmt::format("for (u32 j = 0; j < {}; j += 4)", spec_.mr / 4));
      out.line(
          fmt::format("store_four(turn + turned<{}>(lane / 8, lane % 8 * 4 + j * 8), "
                      "sums[0] + j);",
                      places));
    }
    out.close();
    if (parts > 1) out.line("next_part(sums);");
  }

  /// The epilogue at one element, whose sum is `sum`, and the stores behind the lanes.
  void finish_element(RegionText& region, const TextCoordinates& at, const TextIndex& element,
                      const std::string& sum, std::vector<std::string>& stores) {
    region.preset(product_.result(), {sum, Level::Lane});
    const ir::Op* yield = kernel_.body()->terminator();
    const std::string place = region.index_text({.base = element.base, .level = element.level});
    for (int r = 0; r < yield->num_operands(); ++r) {
      const std::string result = region.eval_to_store(yield->operand(r), at).text;
      stores.push_back(region.store_result(r, result, place));
    }
  }

  /// Adds the slices and evaluates the epilogue: one vector of the result a thread.
  std::string emit_finish(const std::string& name) {
    RegionText region(kernel_, static_cast<int>(lanes_));
    if (checks_index_) region.declare_range();
    region.enter(2);
    region.eval_scalars();
    SourceWriter& thread = region.writer(Level::Thread);
    const int64_t elements = shape_.elements();
    thread.line(fmt::format("const {0} i = (({0})blockIdx.x * {1} + threadIdx.x) * {2};",
                            region.index_type(), kFinishThreads, lanes_));
    region.enter(4);
    region.enter_lanes(4);
    const TextIndex vector{
        .base = "i", .stride = lanes_ > 1 ? 1 : 0, .multiple = lanes_, .level = Level::Iteration};
    if (lanes_ > 1) region.lazy(Level::Lane, "e", "i + j");
    const TextCoordinates at = region.decompose(shape_.dims(), "c", vector, "e");
    region.add_identity(shape_, at, vector);
    std::vector<std::string> stores;
    finish_element(region, at, vector, lanes_ > 1 ? "x[j]" : "x[0]", stores);
    region.leave_lanes();
    for (const std::string& store : stores) region.writer(Level::Iteration).line(store);
    const std::string body = region.leave();
    thread.open(fmt::format("if (i < {})", region.index_literal(elements)));
    thread.line(fmt::format("const {0}* from = reinterpret_cast<const {0}*>(workspace) + i;",
                            accumulator()));
    thread.line(fmt::format("{} x[{}];", accumulator(), lanes_));
    thread.line(fmt::format("load_vector<{}>(x, from);", lanes_));
    thread.line("#pragma unroll 4");
    thread.open(fmt::format("for (u32 s = 1; s < {}; ++s)", spec_.slices));
    thread.line(fmt::format("{} next[{}];", accumulator(), lanes_));
    thread.line(fmt::format("from += {};", region.index_literal(elements)));
    thread.line(fmt::format("load_vector<{}>(next, from);", lanes_));
    thread.line("#pragma unroll");
    thread.line(fmt::format("for (u32 j = 0; j < {}; ++j) x[j] += next[j];", lanes_));
    thread.close();
    thread.append(body);
    thread.close();
    return region.finish(name, kFinishThreads, true);
  }

  const ir::Op& kernel_;
  const ir::Op& product_;
  const ir::CudaMatmul& plan_;
  const ir::MatmulSpec& spec_;
  const ir::Target& target_;
  const ir::Shape shape_;
  int64_t lanes_;
  bool checks_index_ = false;
};

}  // namespace

CudaSource emit_cuda_matmul(const ir::Op& kernel, const ir::Target& target,
                            const std::string& name) {
  const ir::CudaMatmul plan = ir::cuda_matmul(kernel, target);
  const std::string what = ir::unfit_blocking(plan, target);
  MEZZO_CHECK(what.empty(), "kernel @" + kernel.kernel_name() + ": plan: " + what);
  return MatmulEmitter(kernel, plan, target).emit(name);
}

}  // namespace mezzo::codegen
