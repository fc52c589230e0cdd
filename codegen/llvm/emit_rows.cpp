// SPDX-License-Identifier: Apache-2.0
// Rows kernels: chained reductions over the last axes. Each task takes whole rows. For a row, the
// reductions run in levels (a level's operands need the results of earlier levels only), one loop
// over the columns a level, then one loop stores full-shape results. Costly values that several
// loops need are kept in a buffer of the thread's scratch. A sum folds lanes in a fixed tree, and
// rows longer than kBlock vectors fold blocks in f64.
// Rows + columns: a task is a part of the rows, of fixed length. The loop that stores full-shape
// results also adds each row to the part's accumulators of the columns, which stand in the
// workspace; a second launch (emit_columns.cpp) adds the parts. A part is at most one block of a
// sum.
#include <mezzo/codegen/llvm/column_parts.h>
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/reduce.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>
#include <mezzo/ir/plan.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace mezzo::codegen {

using llvm::Value;

namespace {

/// Most bytes of row buffers a thread; beyond, values are computed anew in each loop.
constexpr int64_t kMostBufferBytes = 512 << 10;

class RowsEmitter {
 public:
  RowsEmitter(KernelFrame& frame, const ir::Op& kernel, int lanes, const ColumnParts& parts)
      : frame_(frame),
        b_(frame.builder()),
        emitter_(frame, kernel),
        kernel_(kernel),
        lanes_(lanes),
        parts_(parts),
        space_(ir::kernel_space(kernel)) {
    const std::vector<ir::Value> yields = kernel.body()->terminator()->operands();
    for (size_t i = 0; i < yields.size(); ++i)
      if (!parts.is_column(yields[i])) yields_.emplace_back(static_cast<int>(i), yields[i]);
    std::span<const int64_t> dims = space_.space.dims();
    size_t kept = static_cast<size_t>(space_.kept());
    for (int64_t dim : dims.first(kept)) rows_ *= dim;
    for (int64_t dim : dims.subspan(kept)) columns_ *= dim;
    for (const ir::Op* op : parts.reductions()) column_reducers_.emplace_back(emitter_, *op, lanes);
    find_levels();
    choose_buffers();
  }

  int64_t rows() const { return rows_; }
  int64_t scratch_bytes() const { return static_cast<int64_t>(buffers_.size()) * buffer_bytes(); }

  void emit(int64_t grain) {
    emitter_.set_lanes(lanes_, nullptr);
    emitter_.eval_scalars();
    Value* limit = emitter_.index(rows_);
    auto row_of = [&](Value* task) {
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                      b_.CreateMul(task, emitter_.index(grain)), limit);
    };
    auto rows_of = [&](Value* first, Value* last) {
      frame_.loop(row_of(first), row_of(last), 1, [&](Value* row) { emit_row(row); });
    };
    if (column_reducers_.empty())
      rows_of(frame_.first_task(), frame_.last_task());
    else
      frame_.loop(frame_.first_task(), frame_.last_task(), 1, [&](Value* part) {
        part_ = part;
        clear_columns();
        rows_of(part, b_.CreateAdd(part, emitter_.index(1)));
      });
    emitter_.write_flags();
  }

 private:
  int64_t buffer_bytes() const { return (columns_ * element_bytes() + 63) / 64 * 64; }
  /// Buffers hold the compute type, f64 if the kernel has any.
  int64_t element_bytes() const { return has_f64_ ? 8 : 4; }

  bool full(ir::Value value) const { return value.shape() == space_.space && !is_row(value); }
  /// Reductions and what is computed from them at row shape.
  bool is_row(ir::Value value) const {
    return !value.is_parameter() && row_values_.contains(value.op());
  }

  /// Level of a reduction: one more than the highest level that its operand needs; 0 for other
  /// values without any.
  void find_levels() {
    for (ir::Op& op : *kernel_.body()) {
      if (op.num_results() != 1) continue;
      if (parts_.is_column(op.result())) continue;
      has_f64_ |= op.result().dtype() == ir::DType::F64;
      int level = 0;
      bool row_operand = false;
      for (ir::Value operand : op.operands())
        if (!operand.is_parameter()) {
          level = std::max(level, level_.at(operand.op()));
          row_operand |= row_values_.contains(operand.op());
        }
      if (ir::is_reduction(op.kind())) {
        level_[&op] = level + 1;
        row_values_.insert(&op);
        deepest_ = std::max(deepest_, level + 1);
        reductions_[level + 1].push_back(&op);
      } else {
        level_[&op] = level;
        // Not larger than a row value: computed once a row. Rows of no columns hold no element of
        // what stands behind their reductions.
        int64_t elements = op.result().type().elements();
        bool no_columns = elements == 0 && rows_ > 0;
        if (row_operand && elements <= rows_ && !no_columns &&
            (columns_ != 1 || !(op.result().shape() == space_.space)))
          row_values_.insert(&op);
      }
    }
  }

  /// Full-shape ops that the loop of `level` evaluates.
  void ops_in_loop(ir::Value value, std::set<const ir::Op*>& seen) const {
    std::vector<ir::Value> work{value};
    while (!work.empty()) {
      ir::Value current = work.back();
      work.pop_back();
      if (current.is_parameter() || is_row(current) || !seen.insert(current.op()).second) continue;
      for (ir::Value operand : current.op()->operands()) work.push_back(operand);
    }
  }

  std::vector<ir::Value> roots(int level) const {
    std::vector<ir::Value> out;
    if (level <= deepest_) {
      if (auto it = reductions_.find(level); it != reductions_.end())
        for (const ir::Op* op : it->second) out.push_back(op->operand(0));
    } else {
      for (const auto& [number, value] : yields_)
        if (full(value)) out.push_back(value);
      for (const ir::Op* op : parts_.reductions()) out.push_back(op->operand(0));
    }
    return out;
  }

  void choose_buffers() {
    if (columns_ == 1) return;  // scalars, and nothing to save
    std::map<const ir::Op*, int> loops;
    for (int level = 1; level <= deepest_ + 1; ++level) {
      std::set<const ir::Op*> seen;
      for (ir::Value root : roots(level)) ops_in_loop(root, seen);
      for (const ir::Op* op : seen) ++loops[op];
    }
    for (ir::Op& op : *kernel_.body()) {
      if (loops[&op] < 2 || !ir::is_costly(op) || !(op.result().shape() == space_.space) ||
          !ir::is_float(op.result().dtype()))
        continue;
      if (static_cast<int64_t>(buffers_.size() + 1) * buffer_bytes() > kMostBufferBytes) break;
      buffers_.emplace_back(&op, static_cast<int64_t>(buffers_.size()));
    }
  }

  Coordinates row_coordinates(Value* row) {
    Coordinates at = emitter_.origin(space_.space);
    std::vector<Value*> position =
        delinearize(emitter_, row, space_.space.dims().first(static_cast<size_t>(space_.kept())));
    for (size_t i = 0; i < position.size(); ++i) at[i].base = position[i];
    return at;
  }

  /// Coordinates of a value of row shape (axes dropped or kept at length 1).
  Coordinates of_row_value(ir::Value value, const Coordinates& row) {
    Coordinates at = emitter_.origin(value.shape());
    for (int i = 0; i < std::min(value.shape().rank(), space_.kept()); ++i)
      if (value.shape()[i] != 1) at[static_cast<size_t>(i)] = row[static_cast<size_t>(i)];
    return at;
  }

  /// Loops over all columns of a row; the body gets coordinates of the space and the linear column.
  /// A row of one column is a vector with one lane on.
  void column_loop(const Coordinates& row,
                   const std::function<void(const Coordinates&, Value*)>& body) {
    std::span<const int64_t> dims = space_.space.dims().subspan(static_cast<size_t>(space_.kept()));
    int axis = ir::vector_axis(dims);
    int64_t inner = axis < 0 ? 1 : dims[static_cast<size_t>(axis)];
    int64_t outer = inner == 0 ? 0 : columns_ / inner;
    auto one_line = [&](Value* line) {
      Coordinates at = row;
      if (axis > 0) {
        std::vector<Value*> position =
            delinearize(emitter_, line, dims.first(static_cast<size_t>(axis)));
        for (size_t i = 0; i < position.size(); ++i)
          at[static_cast<size_t>(space_.kept()) + i].base = position[i];
      }
      Value* base = b_.CreateMul(line, emitter_.index(inner));
      vector_loop(emitter_, emitter_.index(0), emitter_.index(inner), lanes_, [&](Value* column) {
        if (axis >= 0) at[static_cast<size_t>(space_.kept() + axis)] = {column, 1};
        body(at, b_.CreateAdd(base, column));
      });
    };
    if (outer == 1)
      one_line(emitter_.index(0));
    else
      frame_.loop(emitter_.index(0), emitter_.index(outer), 1, one_line);
  }

  /// Presets buffered values that an earlier loop has stored, then evaluates and stores those that
  /// this loop needs first. Those may read the former, so that none of them comes before: the body
  /// is emitted twice, and would read what the first copy has preset.
  void use_buffers(int level, const Coordinates& at, Value* column) {
    std::set<const ir::Op*> needed;
    for (ir::Value root : roots(level)) ops_in_loop(root, needed);
    for (const auto& [op, number] : buffers_)
      if (needed.contains(op) && stored_.contains(op))
        emitter_.preset(op->result(), load_buffered(*op, number, column));
    for (const auto& [op, number] : buffers_)
      if (needed.contains(op) && !stored_.contains(op))
        store_buffered(*op, number, column, emitter_.eval_vector(op->result(), at));
  }

  std::pair<Value*, llvm::Align> buffer_place(const ir::Op& op, int64_t number, Value* column) {
    llvm::Type* element = emitter_.compute_type_of(op.result().dtype(), 1);
    Value* start = b_.CreateConstGEP1_64(b_.getInt8Ty(), frame_.scratch(),
                                         static_cast<uint64_t>(number * buffer_bytes()));
    return {b_.CreateGEP(element, start, column), llvm::Align(element->isDoubleTy() ? 8 : 4)};
  }

  Value* load_buffered(const ir::Op& op, int64_t number, Value* column) {
    auto [address, align] = buffer_place(op, number, column);
    llvm::Type* type = emitter_.compute_type_of(op.result().dtype(), lanes_);
    if (!emitter_.mask()) return b_.CreateAlignedLoad(type, address, align);
    return b_.CreateMaskedLoad(type, address, align, emitter_.mask(),
                               llvm::Constant::getNullValue(type));
  }

  void store_buffered(const ir::Op& op, int64_t number, Value* column, Value* value) {
    auto [address, align] = buffer_place(op, number, column);
    if (emitter_.mask())
      b_.CreateMaskedStore(value, address, align, emitter_.mask());
    else
      b_.CreateAlignedStore(value, address, align);
  }

  void forget_buffers(int level) {
    std::set<const ir::Op*> needed;
    for (ir::Value root : roots(level)) ops_in_loop(root, needed);
    for (const auto& [op, number] : buffers_)
      if (needed.contains(op)) {
        emitter_.forget(op->result());
        stored_.insert(op);
      }
  }

  void clear_columns() {
    vector_loop(emitter_, emitter_.index(0), emitter_.index(columns_), lanes_, [&](Value* column) {
      for (size_t i = 0; i < column_reducers_.size(); ++i)
        parts_.store(emitter_, column_reducers_[i], i, part_, column, column_reducers_[i].empty());
    });
  }

  void add_to_columns(const Coordinates& at, Value* column) {
    for (size_t i = 0; i < column_reducers_.size(); ++i) {
      Reducer& reducer = column_reducers_[i];
      Value* value = emitter_.eval_vector(reducer.op().operand(0), at);
      Value* before = parts_.load(emitter_, reducer, i, part_, column);
      parts_.store(emitter_, reducer, i, part_, column, reducer.with(before, value));
    }
  }

  /// Everything of row shape that the loop needs is computed before it, once.
  void eval_row_values(int level, const Coordinates& row) {
    std::set<const ir::Op*> needed;
    for (ir::Value root : roots(level)) ops_in_loop(root, needed);
    for (const ir::Op* op : needed)
      for (ir::Value operand : op->operands())
        if (is_row(operand) && !ir::is_reduction(operand.op()->kind()))
          emitter_.eval(operand, of_row_value(operand, row));
  }

  void emit_row(Value* row) {
    RegionEmitter::Scope scope(emitter_);
    stored_.clear();
    Coordinates at_row = row_coordinates(row);
    for (int level = 1; level <= deepest_; ++level) {
      auto it = reductions_.find(level);
      if (it == reductions_.end()) continue;
      eval_row_values(level, at_row);
      std::vector<Reducer> reducers;
      for (const ir::Op* op : it->second) reducers.emplace_back(emitter_, *op, lanes_);
      for (Reducer& reducer : reducers) reducer.begin();
      column_loop(at_row, [&](const Coordinates& at, Value* column) {
        use_buffers(level, at, column);
        for (Reducer& reducer : reducers)
          reducer.add(emitter_.eval_vector(reducer.op().operand(0), at), column);
      });
      forget_buffers(level);
      for (Reducer& reducer : reducers)
        emitter_.preset(reducer.op().result(), reducer.finish(columns_), false);
    }
    eval_row_values(deepest_ + 1, at_row);
    for (const auto& [number, yielded] : yields_)
      if (!full(yielded)) {
        Coordinates at = of_row_value(yielded, at_row);
        emitter_.store(number, emitter_.eval(yielded, at), at);
      }
    if (!roots(deepest_ + 1).empty()) {
      column_loop(at_row, [&](const Coordinates& at, Value* column) {
        use_buffers(deepest_ + 1, at, column);
        for (const auto& [number, yielded] : yields_)
          if (full(yielded)) {
            Value* value = emitter_.eval_vector(yielded, at);
            // A row of one column has one lane on.
            if (columns_ == 1) value = b_.CreateExtractElement(value, uint64_t{0});
            emitter_.store(number, value, at);
          }
        add_to_columns(at, column);
      });
      forget_buffers(deepest_ + 1);
    }
    for (const auto& [level, ops] : reductions_)
      for (const ir::Op* op : ops) emitter_.forget(op->result());
  }

  KernelFrame& frame_;
  llvm::IRBuilderBase& b_;
  RegionEmitter emitter_;
  const ir::Op& kernel_;
  int lanes_;
  const ColumnParts& parts_;
  std::vector<Reducer> column_reducers_;
  Value* part_ = nullptr;
  ir::KernelSpace space_;
  int64_t rows_ = 1, columns_ = 1;
  bool has_f64_ = false;
  std::vector<std::pair<int, ir::Value>> yields_;  // with the numbers of their results; no columns
  std::unordered_map<const ir::Op*, int> level_;
  std::map<int, std::vector<const ir::Op*>> reductions_;
  std::set<const ir::Op*> row_values_;
  std::vector<std::pair<const ir::Op*, int64_t>> buffers_;  // in program order
  std::set<const ir::Op*> stored_;
  int deepest_ = 0;
};

}  // namespace

CpuKernel emit_rows(ModuleBuilder& module, const ir::Op& kernel, const std::string& symbol) {
  ir::Plan plan = ir::Plan::from(kernel.plan());
  MEZZO_CHECK(plan.vector > 0 && plan.grain > 0,
              "kernel @" + kernel.kernel_name() + " has no plan");
  KernelFrame frame(module, symbol);
  const ColumnParts parts(kernel, plan);
  MEZZO_CHECK(parts.reductions().empty() || plan.grain <= ir::kSumBlock,
              "kernel @" + kernel.kernel_name() + " has parts longer than a block of a sum");
  RowsEmitter emitter(frame, kernel, static_cast<int>(plan.vector), parts);
  emitter.emit(plan.grain);
  frame.close();
  int64_t tasks = (emitter.rows() + plan.grain - 1) / plan.grain;
  CpuKernel out{{}, {{symbol, tasks}}, emitter.scratch_bytes(), parts.bytes()};
  if (!parts.reductions().empty())
    out.launches.push_back(emit_column_totals(module, kernel, parts, symbol + "_total"));
  return out;
}

}  // namespace mezzo::codegen
