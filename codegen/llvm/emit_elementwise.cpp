// SPDX-License-Identifier: Apache-2.0
// Elementwise, movement and optimizer kernels: every result element is evaluated where it is
// stored. Where all operands are read at the element itself (or are scalars) the space is one long
// axis; else one loop a row.
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <set>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// Coordinates of the position `linear` of a space that is treated as one axis: the whole index
/// sits on the vector axis, which row-major strides make right for every tensor of the space's
/// shape.
Coordinates flat_coordinates(RegionEmitter& emitter, const ir::Shape& space, Value* linear) {
  Coordinates at = emitter.origin(space);
  at[static_cast<size_t>(ir::vector_axis(space.dims()))] = {linear, 1};
  return at;
}

struct Segment {
  std::vector<ir::Value> yields;
  std::vector<int> results;  // kernel result of each yield
};

void store_all(RegionEmitter& emitter, const Segment& segment, const Coordinates& at, bool vector) {
  RegionEmitter::Scope scope(emitter);
  // All are evaluated before any is stored: a result may overwrite an operand in place.
  std::vector<Value*> values;
  for (ir::Value value : segment.yields)
    values.push_back(vector ? emitter.eval_vector(value, at) : emitter.eval(value, at));
  for (size_t i = 0; i < values.size(); ++i) emitter.store(segment.results[i], values[i], at);
}

/// Where the vector axis is cut so that each piece lies in one operand of a concatenation, inside
/// or outside of what is padded; the ends of the axis alone where there are too many places, for
/// each piece has code of its own.
std::vector<int64_t> pieces(const ir::Op& kernel, const ir::Shape& space, int axis) {
  constexpr size_t kMostPieces = 8;
  std::set<int64_t> cuts;
  for (const ir::Op& op : *kernel.body()) {
    const bool cut = op.kind() == ir::OpKind::Concat || op.kind() == ir::OpKind::Pad;
    if (!cut || !(op.result().shape() == space)) continue;
    if (op.kind() == ir::OpKind::Pad) {
      const size_t i = static_cast<size_t>(axis);
      if (op.ints_attr("interior")[i] > 0) continue;
      cuts.insert({op.ints_attr("low")[i], space[axis] - op.ints_attr("high")[i]});
    } else if (op.int_attr("axis") == axis) {
      int64_t end = 0;
      for (ir::Value operand : op.operands()) cuts.insert(end += operand.shape()[axis]);
    }
  }
  if (cuts.size() > kMostPieces) cuts.clear();
  cuts.insert({0, space[axis]});
  return {cuts.begin(), cuts.end()};
}

/// A row reads its elements far apart and the next row their neighbours: a transposition of the
/// last two axes.
bool reads_across(const ir::Op& kernel, const ir::Shape& space) {
  const int last = space.rank() - 1;
  for (const ir::Op& op : *kernel.body())
    if (op.kind() == ir::OpKind::Transpose && op.result().shape() == space &&
        op.ints_attr("perm")[static_cast<size_t>(last) - 1] == last)
      return true;
  return false;
}

/// Elements [begin, end) of a segment; `begin` is a multiple of the vector axis unless the segment
/// is flat.
void emit_range(RegionEmitter& emitter, const Segment& segment, Value* begin, Value* end,
                int lanes) {
  const ir::Shape& space = segment.yields[0].shape();
  llvm::IRBuilderBase& b = emitter.builder();
  int axis = ir::vector_axis(space.dims());
  if (axis < 0) {
    emitter.frame().loop(
        begin, end, 1, [&](Value*) { store_all(emitter, segment, emitter.origin(space), false); });
    return;
  }
  if (ir::is_flat(segment.yields)) {
    vector_loop(emitter, begin, end, lanes, [&](Value* position) {
      store_all(emitter, segment, flat_coordinates(emitter, space, position), true);
    });
    return;
  }
  int64_t inner = std::max<int64_t>(space[axis], 1);
  std::span<const int64_t> outer = space.dims().first(static_cast<size_t>(axis));
  const std::vector<int64_t> cuts = pieces(emitter.kernel(), space, axis);
  auto columns = [&](const Coordinates& row, Value* first, Value* last) {
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      Value* from = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, first, emitter.index(cuts[i]));
      Value* to = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, emitter.index(cuts[i + 1]));
      to = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, from, to);  // a piece of another task
      vector_loop(emitter, from, to, lanes, [&](Value* column) {
        Coordinates at = row;
        at[static_cast<size_t>(axis)] = {column, 1, cuts[i], cuts[i + 1]};
        store_all(emitter, segment, at, true);
      });
    }
  };
  // A task takes whole rows, or a part of the only one.
  if (inner == space.elements()) return columns(emitter.origin(space), begin, end);
  Value* first_row = b.CreateSDiv(begin, emitter.index(inner));
  Value* end_row = b.CreateSDiv(end, emitter.index(inner));
  auto rows = [&](Value* from, Value* to, Value* first, Value* last) {
    emitter.frame().loop(from, to, 1, [&](Value* row) {
      Coordinates at = emitter.origin(space);
      std::vector<Value*> position = delinearize(emitter, row, outer);
      for (size_t i = 0; i < position.size(); ++i) at[i].base = position[i];
      columns(at, first, last);
    });
  };
  if (axis == 0 || axis != space.rank() - 1 || !reads_across(emitter.kernel(), space))
    return rows(first_row, end_row, emitter.index(0), emitter.index(inner));
  // Tile by tile: a line of the cache that a row reads one element of is there for the next rows.
  constexpr int64_t kTileRows = 16, kTileColumns = 32;
  auto least = [&](Value* x, Value* y) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
  };
  emitter.frame().loop(first_row, end_row, kTileRows, [&](Value* row) {
    Value* to = least(b.CreateAdd(row, emitter.index(kTileRows)), end_row);
    emitter.frame().loop(emitter.index(0), emitter.index(inner), kTileColumns, [&](Value* first) {
      Value* last = least(b.CreateAdd(first, emitter.index(kTileColumns)), emitter.index(inner));
      rows(row, to, first, last);
    });
  });
}

std::vector<Segment> segments_of(const ir::Op& kernel, bool optimizer) {
  std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
  std::vector<Segment> segments;
  std::vector<std::vector<ir::Value>> groups =
      optimizer ? ir::optimizer_segments(kernel) : std::vector<std::vector<ir::Value>>{yields};
  std::vector<bool> taken(yields.size(), false);
  for (const std::vector<ir::Value>& group : groups) {
    Segment segment{group, {}};
    for (ir::Value value : group)
      for (size_t i = 0; i < yields.size(); ++i)
        if (yields[i] == value && !taken[i]) {
          taken[i] = true;
          segment.results.push_back(static_cast<int>(i));
          break;
        }
    segments.push_back(std::move(segment));
  }
  return segments;
}

CpuKernel emit_segments(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol,
                        bool optimizer) {
  ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  int lanes = static_cast<int>(plan.vector);
  KernelFrame frame(module, symbol);
  RegionEmitter emitter(frame, kernel);
  emitter.set_lanes(lanes, nullptr);
  llvm::IRBuilderBase& b = frame.builder();
  emitter.eval_scalars();
  int64_t first_task = 0;
  for (const Segment& segment : segments_of(kernel, optimizer)) {
    int64_t elements = segment.yields[0].type().elements();
    int64_t tasks = ir::ceil_div(elements, plan.grain);
    // This segment's part of the task range, as elements.
    auto clamp = [&](Value* task) {
      Value* local = b.CreateSub(task, emitter.index(first_task));
      local = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, local, emitter.index(0));
      Value* element =
          b.CreateMul(b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, local, emitter.index(tasks)),
                      emitter.index(plan.grain));
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, element, emitter.index(elements));
    };
    emit_range(emitter, segment, clamp(frame.first_task()), clamp(frame.last_task()), lanes);
    first_task += tasks;
  }
  emitter.write_flags();
  frame.close();
  return {{}, {{symbol, first_task}}, 0, 0};
}

}  // namespace

std::vector<Value*> delinearize(RegionEmitter& emitter, Value* linear,
                                std::span<const int64_t> dims) {
  llvm::IRBuilderBase& b = emitter.builder();
  std::vector<Value*> out(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    if (i == 0) {
      out[i] = linear;
      break;
    }
    Value* length = emitter.index(std::max<int64_t>(dims[i], 1));
    out[i] = b.CreateURem(linear, length);
    linear = b.CreateUDiv(linear, length);
  }
  return out;
}

void vector_loop(RegionEmitter& emitter, Value* begin, Value* end, int lanes,
                 const std::function<void(Value*)>& body) {
  llvm::IRBuilderBase& b = emitter.builder();
  KernelFrame& frame = emitter.frame();
  int outer_lanes = emitter.lanes();
  Value* outer_mask = emitter.mask();
  Value* length = b.CreateSub(end, begin);
  Value* whole = b.CreateAnd(length, emitter.index(~static_cast<int64_t>(lanes - 1)));
  Value* middle = b.CreateAdd(begin, whole);
  emitter.set_lanes(lanes, nullptr);
  frame.loop(begin, middle, lanes, [&](Value* position) {
    RegionEmitter::Scope scope(emitter);
    body(position);
  });
  frame.branch(
      b.CreateICmpSLT(middle, end),
      [&] {
        RegionEmitter::Scope scope(emitter);
        emitter.set_lanes(lanes, frame.lane_mask(b.CreateSub(end, middle), lanes));
        body(middle);
      },
      [] {});
  emitter.set_lanes(outer_lanes, outer_mask);
}

CpuKernel emit_elementwise(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  return emit_segments(module, kernel, symbol, /*optimizer=*/false);
}

CpuKernel emit_optimizer(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  return emit_segments(module, kernel, symbol, /*optimizer=*/true);
}

}  // namespace mezzo::codegen
