// SPDX-License-Identifier: Apache-2.0
// Elementwise and movement kernels that transpose operands. Along the vector axis of the results
// such an operand lies far apart in memory, along another axis side by side. A block takes a tile
// of the two axes: it reads the operands' tiles along their own axis into shared memory and writes
// results along theirs, so that both touch whole sectors. Rows of a tile are padded by one bank, so
// that reading its columns has no conflict.
#include <mezzo/codegen/cuda/emit_families.h>
#include <mezzo/ir/kernel_region.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace mezzo::codegen {

using ir::OpKind;

namespace {

/// Shorter axes leave most of a tile empty.
constexpr int64_t kShortestAxis = 16;
/// Bytes of all tiles of a block, of the 48 KiB that every architecture has.
constexpr int64_t kTileBytes = 40 << 10;

struct Tiling {
  std::vector<const ir::Op*> transposes;  // each of a parameter
  int along = -1;                         // axis of the space along which operands are contiguous
  int across = -1;                        // the vector axis of the space
  int64_t size = 0;                       // elements along an edge of a tile
};

/// Whatever is computed of the value is an element of the space at the value's own coordinates.
bool stays_in_place(ir::Value value) {
  std::vector<ir::Value> work{value};
  for (size_t i = 0; i < work.size(); ++i)
    for (const ir::Op* user : work[i].users()) {
      if (user->kind() == OpKind::Yield) continue;
      if (!ir::is_elementwise(user->kind()) || user->result().shape() != value.shape())
        return false;
      if (std::find(work.begin(), work.end(), user->result()) == work.end())
        work.push_back(user->result());
    }
  return true;
}

std::optional<Tiling> tiling_of(const ir::Op& kernel) {
  const ir::Shape space = ir::kernel_space(kernel).space;
  if (space.elements() == 0) return std::nullopt;
  Tiling tiling;
  tiling.across = ir::vector_axis(space.dims());
  int64_t widest = 1;
  for (const ir::Op& op : *kernel.body()) {
    if (op.kind() != OpKind::Transpose) continue;
    const ir::Value from = op.operand(0);
    if (!from.is_parameter() || op.result().shape() != space || !stays_in_place(op.result()))
      continue;
    const int last = ir::vector_axis(from.shape().dims());
    const std::vector<int64_t> perm = op.ints_attr("perm");
    const int along = static_cast<int>(std::find(perm.begin(), perm.end(), last) - perm.begin());
    if (last < 0 || along == tiling.across) continue;
    if (space[along] < kShortestAxis || space[tiling.across] < kShortestAxis) continue;
    if (tiling.along >= 0 && tiling.along != along) continue;
    tiling.along = along;
    tiling.transposes.push_back(&op);
    widest = std::max(widest, byte_size(from.dtype()));
  }
  if (tiling.along < 0) return std::nullopt;
  tiling.size = widest > 2 ? 32 : 64;
  int64_t room = kTileBytes;
  std::erase_if(tiling.transposes, [&](const ir::Op* op) {
    room -= tiling.size * (tiling.size + 4) * byte_size(op->operand(0).dtype());
    return room < 0;
  });
  return tiling;
}

class TilesEmitter {
 public:
  TilesEmitter(const ir::Op& kernel, const ir::Plan& plan, Tiling tiling)
      : kernel_(kernel),
        tiling_(std::move(tiling)),
        space_(ir::kernel_space(kernel).space),
        threads_(plan.threads),
        region_(kernel, 1) {}

  CudaSource emit(const std::string& name) {
    region_.enter(2);
    region_.eval_scalars();
    const int64_t blocks = place_block();
    for (const ir::Op* op : tiling_.transposes) load_tile(*op);
    region_.writer(Level::Thread).line("__syncthreads();");
    write_results();
    CudaSource source;
    source.name = name;
    source.launches.push_back({name, static_cast<int>(threads_), blocks});
    source.text = region_.finish(name, threads_);
    source.checks_index = region_.checks_index();
    return source;
  }

 private:
  std::string number(int64_t value) const { return region_.index_literal(value); }
  int64_t tiles(int axis) const { return (space_[axis] + tiling_.size - 1) / tiling_.size; }

  /// The block's tile and the thread's place in it; the number of blocks.
  int64_t place_block() {
    SourceWriter& out = region_.writer(Level::Thread);
    const auto type = region_.index_type();
    const int64_t size = tiling_.size, along = tiles(tiling_.along), across = tiles(tiling_.across);
    out.line(fmt::format("const u32 x = threadIdx.x % {0}, y = threadIdx.x / {0};", size));
    out.line(fmt::format("const {} first_across = blockIdx.x % {} * {};", type, across, size));
    out.line(fmt::format("const {} first_along = blockIdx.x / {} % {} * {};", type, across, along,
                         size));
    // The other axes, as one index.
    std::vector<int64_t> others;
    for (int i = 0; i < space_.rank(); ++i)
      others.push_back(i == tiling_.along || i == tiling_.across ? 1 : space_[i]);
    int64_t count = 1;
    for (int64_t dim : others) count *= dim;
    if (count > 1) out.line(fmt::format("const {} other = blockIdx.x / {};", type, along * across));
    outer_ = region_.decompose(others, "k", {.base = "other", .multiple = 1}, "");
    return count * along * across;
  }

  /// Coordinates of an element whose indices along the two axes are named.
  TextCoordinates at(const char* along, const char* across) const {
    TextCoordinates coordinates = outer_;
    coordinates[static_cast<size_t>(tiling_.along)] = {
        .base = along, .multiple = 1, .level = Level::Iteration};
    coordinates[static_cast<size_t>(tiling_.across)] = {
        .base = across, .multiple = 1, .level = Level::Iteration};
    return coordinates;
  }

  /// `body` for every row of the tile that the thread takes, where `row` and `column` are inside.
  void for_rows(const char* row, const char* column, const std::string& body) {
    SourceWriter& out = region_.writer(Level::Thread);
    const auto type = region_.index_type();
    const auto length = [&](const char* axis) {
      return number(space_[std::string_view(axis) == "along" ? tiling_.along : tiling_.across]);
    };
    out.line("#pragma unroll");
    out.open(
        fmt::format("for (u32 n = 0; n < {}; n += {})", tiling_.size, threads_ / tiling_.size));
    out.line(
        fmt::format("const {0} {1} = first_{1} + y + n, {2} = first_{2} + x;", type, row, column));
    out.open(fmt::format("if ({0} < {1} && {2} < {3})", row, length(row), column, length(column)));
    out.append(body);
    out.close();
    out.close();
  }

  void load_tile(const ir::Op& op) {
    const ir::Value from = op.operand(0);
    const std::string tile = region_.name("tile");
    const int64_t bytes = byte_size(from.dtype());
    region_.writer(Level::Thread)
        .line(fmt::format("__shared__ {} {}[{}][{}];", storage_type_name(from.dtype()), tile,
                          tiling_.size, tiling_.size + std::max<int64_t>(1, 4 / bytes)));
    const std::vector<int64_t> perm = op.ints_attr("perm");
    const TextCoordinates space = at("along", "across");
    TextCoordinates source(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) source[static_cast<size_t>(perm[i])] = space[i];
    region_.enter(6);
    region_.enter(6);
    const std::string place = region_.place(from.shape(), source);
    region_.writer(Level::Lane)
        .line(fmt::format("{}[y + n][x] = {}[{}];", tile, region_.pointer(from), place));
    const std::string lane = region_.leave();
    region_.writer(Level::Iteration).append(lane);
    for_rows("across", "along", region_.leave());
    tiles_.emplace_back(op.result(), fmt::format("widen({}[x][y + n])", tile));
  }

  void write_results() {
    region_.enter(6);
    region_.enter(6);
    for (const auto& [value, text] : tiles_)
      region_.stand_in(value,
                       region_.define(Level::Lane, compute_type_name(value.dtype()), text, value));
    const TextCoordinates coordinates = at("along", "across");
    const ir::Op* yield = kernel_.body()->terminator();
    // All are evaluated before any is stored: a result may overwrite an operand in place.
    std::vector<std::string> stores;
    for (int r = 0; r < yield->num_operands(); ++r) {
      const ir::Value value = yield->operand(r);
      const std::string result = region_.eval_to_store(value, coordinates).text;
      stores.push_back(fmt::format("narrow(r{}[{}], {});", r,
                                   region_.place(value.shape(), coordinates), result));
    }
    for (const std::string& store : stores) region_.writer(Level::Lane).line(store);
    const std::string lane = region_.leave();
    region_.writer(Level::Iteration).append(lane);
    for_rows("along", "across", region_.leave());
  }

  const ir::Op& kernel_;
  Tiling tiling_;
  ir::Shape space_;
  int64_t threads_;
  RegionText region_;
  TextCoordinates outer_;
  std::vector<std::pair<ir::Value, std::string>> tiles_;
};

}  // namespace

std::optional<CudaSource> emit_cuda_tiles(const ir::Op& kernel, const ir::Plan& plan,
                                          const std::string& name) {
  std::optional<Tiling> tiling = tiling_of(kernel);
  if (!tiling || tiling->transposes.empty() || plan.threads % tiling->size != 0)
    return std::nullopt;
  return TilesEmitter(kernel, plan, std::move(*tiling)).emit(name);
}

}  // namespace mezzo::codegen
