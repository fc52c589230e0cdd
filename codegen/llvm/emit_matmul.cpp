// SPDX-License-Identifier: Apache-2.0
// Order of a task: for each block of k, pack A; for each panel of B, for each panel of A, run the
// register tile. The tiles of a task are kept between blocks of k; the epilogue takes a tile right
// after its last block, out of L1.
#include <mezzo/codegen/llvm/emit_matmul.h>

#include <mezzo/codegen/llvm/matmul_pack.h>
#include <mezzo/codegen/llvm/microkernel.h>
#include <mezzo/codegen/llvm/vector_io.h>

#include <llvm/IR/IRBuilder.h>

namespace mezzo::codegen {
namespace {

using llvm::Value;

class Emitter {
 public:
  Emitter(ModuleBuilder& module, const MatmulSpec& spec, const std::string& name,
          const MatmulHooks& hooks)
      : module_(module), spec_(spec), name_(name), hooks_(hooks), place_(matmul_scratch(spec)) {
    const int64_t a_rows = spec.trans_a ? spec.k : spec.m;
    const int64_t b_rows = spec.trans_b ? spec.n : spec.k;
    a_ = {hooks.load_a
              ? hooks.load_a
              : load_from_buffer(0, spec.a_type, a_rows, spec.m + spec.k - a_rows, spec.shared_a),
          hooks.prefetch_a,
          !spec.trans_a,
          spec.mr,
          spec.m,
          spec.bf16_pairs,
          spec.acc};
    b_ = {hooks.load_b
              ? hooks.load_b
              : load_from_buffer(1, spec.b_type, b_rows, spec.n + spec.k - b_rows, spec.shared_b),
          hooks.prefetch_b,
          spec.trans_b,
          spec.nr,
          spec.n,
          spec.bf16_pairs,
          spec.acc};
    store_ = hooks.store ? hooks.store : store_to_buffer(2, spec.c_type, spec.m, spec.n);
    acc_bytes_ = spec.acc == ir::DType::F64 ? 8 : 4;
    packed_bytes_ = spec.bf16_pairs ? 2 : acc_bytes_;
    lanes_ = module.target().lanes(static_cast<int>(acc_bytes_));
    microkernel_ =
        emit_microkernel(module, {spec.bf16_pairs ? ir::DType::BF16 : spec.acc, spec.mr, spec.nr});
  }

  void emit() {
    if (spec_.prepack_b) emit_pack_launch();
    emit_product();
    if (spec_.slices > 1) emit_reduce();
  }

 private:
  /// The emitted code of one function; short names for what every line needs.
  struct Scope {
    Scope(ModuleBuilder& module, const std::string& name, const MatmulHooks& all)
        : frame(module, name), hooks(all) {
      if (hooks.start) hooks.start(frame);
    }
    /// Last, when the function is whole: emits code, so that no destructor may do it.
    void finish() {
      if (hooks.finish) hooks.finish(frame);
    }
    KernelFrame frame;
    const MatmulHooks& hooks;
    llvm::IRBuilderBase& b = frame.builder();

    Value* constant(int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }
    Value* times(Value* x, int64_t factor) { return b.CreateMul(x, constant(factor)); }
    Value* min(Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); }
    Value* max(Value* x, Value* y) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); }
    Value* byte_offset(Value* base, Value* bytes) {
      return b.CreateGEP(b.getInt8Ty(), base, bytes);
    }
    /// Takes the lowest digit of base `size` off `number`.
    Value* digit(Value*& number, int64_t size) {
      if (size == 1) return constant(0);
      Value* low = b.CreateURem(number, constant(size));
      number = b.CreateUDiv(number, constant(size));
      return low;
    }
  };

  int64_t panel_bytes(int width) const { return spec_.kc * width * packed_bytes_; }
  int64_t tile_bytes() const { return int64_t{spec_.mr} * spec_.nr * acc_bytes_; }

  /// Steps of k in block `block`: kc, less at the end, never negative.
  Value* block_length(Scope& s, Value* k0) {
    Value* left = s.b.CreateSub(s.constant(spec_.k), k0);
    return s.max(s.min(left, s.constant(spec_.kc)), s.constant(0));
  }

  void emit_pack_launch() {
    Scope s(module_, name_ + ".pack", hooks_);
    s.frame.loop(s.frame.first_task(), s.frame.last_task(), 1, [&](Value* task) {
      Value* rest = task;
      Value* panel = s.digit(rest, spec_.panels());
      Value* k0 = s.times(s.digit(rest, spec_.k_blocks()), spec_.kc);
      Value* to = s.byte_offset(s.frame.buffer(hooks_.workspace_buffer),
                                s.times(task, panel_bytes(spec_.nr)));
      emit_pack(s.frame, b_, rest, s.times(panel, spec_.nr), k0, block_length(s, k0), to);
    });
    s.finish();
  }

  void emit_product() {
    Scope s(module_, name_, hooks_);
    s.frame.loop(s.frame.first_task(), s.frame.last_task(), 1, [&](Value* task) {
      Value* rest = task;
      Value* row0 = s.times(s.digit(rest, spec_.m_tiles()), spec_.mc);
      Value* column0 = s.times(s.digit(rest, spec_.n_tiles()), spec_.nc);
      Value* slice = s.digit(rest, spec_.slices);
      emit_task(s, rest, slice, row0, column0);
    });
    s.finish();
  }

  void emit_task(Scope& s, Value* batch, Value* slice, Value* row0, Value* column0) {
    Value* row_end = s.min(s.b.CreateAdd(row0, s.constant(spec_.mc)), s.constant(spec_.m));
    Value* column_end = s.min(s.b.CreateAdd(column0, s.constant(spec_.nc)), s.constant(spec_.n));
    s.frame.loop(s.constant(0), s.constant(spec_.slice_blocks), 1, [&](Value* block) {
      Value* global = s.b.CreateAdd(s.times(slice, spec_.slice_blocks), block);
      Value* k0 = s.times(global, spec_.kc);
      Value* length = block_length(s, k0);
      pack_block_of_a(s, batch, row0, row_end, k0, length);
      s.frame.loop(column0, column_end, spec_.nr, [&](Value* column) {
        Value* b_panel = panel_of_b(s, batch, global, column, k0, length);
        s.frame.loop(row0, row_end, spec_.mr, [&](Value* row) {
          Value* row_offset = s.b.CreateSub(row, row0);
          Value* a_panel = panel_of_a(s, row_offset);
          // Tiles lie one after the other: offset = (columns before)·mc + (rows before)·nr
          // elements.
          Value* elements = s.b.CreateAdd(s.times(s.b.CreateSub(column, column0), spec_.mc),
                                          s.times(row_offset, spec_.nr));
          Value* offset = spec_.blocked_k() ? s.times(elements, acc_bytes_) : s.constant(0);
          Value* tile =
              s.byte_offset(s.frame.scratch(), s.b.CreateAdd(offset, s.constant(place_.tiles)));
          Value* last = s.b.CreateICmpEQ(block, s.constant(spec_.slice_blocks - 1));
          if (hooks_.prefetch_c && spec_.slices == 1) {
            // The lines of C arrive while the tile is computed; rows behind the end only cost an
            // instruction.
            s.frame.branch(
                last,
                [&] {
                  for (int r = 0; r < spec_.mr; ++r) {
                    hooks_.prefetch_c(s.frame, batch, s.b.CreateAdd(row, s.constant(r)), column);
                  }
                },
                [] {});
          }
          emit_tile(s, a_panel, b_panel, length, block, tile, offset);
          s.frame.branch(
              last,
              [&] {
                Value* done = spec_.two_level()
                                  ? s.byte_offset(s.frame.scratch(),
                                                  s.b.CreateAdd(offset, s.constant(place_.totals)))
                                  : tile;
                finish_tile(s, batch, slice, row, row_end, column, column_end, done);
              },
              [] {});
        });
      });
    });
  }

  /// Panel of A that begins `row_offset` rows into the block; a multiple of mr.
  Value* panel_of_a(Scope& s, Value* row_offset) {
    Value* index = s.b.CreateUDiv(row_offset, s.constant(spec_.mr));
    return s.byte_offset(s.frame.scratch(), s.times(index, place_.a_stride));
  }

  void pack_block_of_a(Scope& s, Value* batch, Value* row0, Value* row_end, Value* k0,
                       Value* length) {
    // Where the panels lie side by side in memory, a few steps of k of all of them come first, so
    // that a cache line is fetched once and not for every panel that has a part of it.
    const int64_t steps = spec_.trans_a ? 8 : spec_.kc;
    s.frame.loop(s.constant(0), length, steps, [&](Value* k) {
      Value* count = s.min(s.constant(steps), s.b.CreateSub(length, k));
      s.frame.loop(row0, row_end, spec_.mr, [&](Value* row) {
        Value* to = s.byte_offset(panel_of_a(s, s.b.CreateSub(row, row0)),
                                  s.times(k, spec_.mr * packed_bytes_));
        emit_pack(s.frame, a_, batch, row, s.b.CreateAdd(k0, k), count, to);
      });
    });
  }

  Value* panel_of_b(Scope& s, Value* batch, Value* block, Value* column, Value* k0, Value* length) {
    if (spec_.prepack_b) {
      Value* matrix = spec_.shared_b ? s.constant(0) : batch;
      Value* index = s.b.CreateAdd(s.times(matrix, spec_.k_blocks()), block);
      index = s.b.CreateAdd(s.times(index, spec_.panels()),
                            s.b.CreateUDiv(column, s.constant(spec_.nr)));
      return s.byte_offset(s.frame.buffer(hooks_.workspace_buffer),
                           s.times(index, panel_bytes(spec_.nr)));
    }
    Value* to = s.byte_offset(s.frame.scratch(), s.constant(place_.b_panel));
    emit_pack(s.frame, b_, batch, column, k0, length, to);
    return to;
  }

  /// Runs the register tile and, at the end of a run of blocks, adds the run to the total.
  void emit_tile(Scope& s, Value* a_panel, Value* b_panel, Value* length, Value* block, Value* tile,
                 Value* offset) {
    Value* steps =
        spec_.bf16_pairs ? s.b.CreateLShr(s.b.CreateAdd(length, s.constant(1)), 1) : length;
    Value* in_run = spec_.two_level() ? s.b.CreateURem(block, s.constant(spec_.run_blocks)) : block;
    Value* accumulate = s.b.CreateZExt(s.b.CreateICmpNE(in_run, s.constant(0)), s.b.getInt64Ty());
    s.b.CreateCall(microkernel_->getFunctionType(), microkernel_,
                   {a_panel, b_panel, steps, tile, s.constant(spec_.nr), accumulate});
    if (!spec_.two_level()) return;
    Value* ends = s.b.CreateOr(s.b.CreateICmpEQ(in_run, s.constant(spec_.run_blocks - 1)),
                               s.b.CreateICmpEQ(block, s.constant(spec_.slice_blocks - 1)));
    s.frame.branch(
        ends,
        [&] {
          Value* total =
              s.byte_offset(s.frame.scratch(), s.b.CreateAdd(offset, s.constant(place_.totals)));
          Value* first = s.b.CreateICmpSLT(block, s.constant(spec_.run_blocks));
          s.frame.loop(s.constant(0), s.constant(int64_t{spec_.mr} * spec_.nr), lanes_,
                       [&](Value* i) {
                         Value* part = load_vector(s.b, spec_.acc, tile, i, lanes_, nullptr);
                         Value* sum = load_vector(s.b, spec_.acc, total, i, lanes_, nullptr);
                         sum = s.b.CreateSelect(first, part, s.b.CreateFAdd(sum, part));
                         store_vector(s.b, spec_.acc, total, i, sum, nullptr);
                       });
        },
        [] {});
  }

  void finish_tile(Scope& s, Value* batch, Value* slice, Value* row0, Value* row_end,
                   Value* column0, Value* column_end, Value* tile) {
    Value* rows = s.min(s.b.CreateSub(row_end, row0), s.constant(spec_.mr));
    Value* columns = s.min(s.b.CreateSub(column_end, column0), s.constant(spec_.nr));
    MatmulStore partial = store_partial(s, slice);
    s.frame.loop(s.constant(0), rows, 1, [&](Value* r) {
      Value* tile_row = s.byte_offset(tile, s.times(r, spec_.nr * acc_bytes_));
      emit_row(s, batch, s.b.CreateAdd(row0, r), column0, columns, spec_.n % lanes_ != 0,
               spec_.slices > 1 ? partial : store_,
               [&](Value* v) { return load_vector(s.b, spec_.acc, tile_row, v, lanes_, nullptr); });
    });
  }

  /// Elements [0, columns) of one row in vectors, the last one masked where lengths are not whole
  /// vectors.
  void emit_row(Scope& s, Value* batch, Value* row, Value* column0, Value* columns, bool ragged,
                const MatmulStore& store, const std::function<Value*(Value*)>& value_at) {
    Value* whole = ragged ? s.b.CreateAnd(columns, static_cast<uint64_t>(-lanes_)) : columns;
    s.frame.loop(s.constant(0), whole, lanes_, [&](Value* v) {
      store(s.frame, batch, row, s.b.CreateAdd(column0, v), value_at(v), nullptr);
    });
    if (!ragged) return;
    s.frame.loop(whole, columns, lanes_, [&](Value* v) {
      Value* mask = s.frame.lane_mask(s.b.CreateSub(columns, v), lanes_);
      store(s.frame, batch, row, s.b.CreateAdd(column0, v), value_at(v), mask);
    });
  }

  Value* partials(Scope& s) {
    return s.byte_offset(s.frame.buffer(hooks_.workspace_buffer),
                         s.constant(packed_b_bytes(spec_)));
  }

  /// Index of [slice][batch][row][column] in the partial sums.
  Value* partial_index(Scope& s, Value* slice, Value* batch, Value* row, Value* column) {
    Value* index = s.b.CreateAdd(s.times(slice, spec_.batch), batch);
    index = s.b.CreateAdd(s.times(index, spec_.m), row);
    return s.b.CreateAdd(s.times(index, spec_.n), column);
  }

  MatmulStore store_partial(Scope& s, Value* slice) {
    return [this, &s, slice](KernelFrame&, Value* batch, Value* row, Value* column, Value* acc,
                             Value* mask) {
      store_vector(s.b, spec_.acc, partials(s), partial_index(s, slice, batch, row, column), acc,
                   mask);
    };
  }

  void emit_reduce() {
    Scope s(module_, name_ + ".reduce", hooks_);
    const int64_t rows = reduce_rows(spec_);
    const int64_t blocks = (spec_.m + rows - 1) / rows;
    s.frame.loop(s.frame.first_task(), s.frame.last_task(), 1, [&](Value* task) {
      Value* batch = task;
      Value* row0 = s.times(s.digit(batch, std::max<int64_t>(blocks, 1)), rows);
      Value* end = s.min(s.b.CreateAdd(row0, s.constant(rows)), s.constant(spec_.m));
      s.frame.loop(row0, end, 1, [&](Value* row) {
        MatmulStore sum_slices = [&](KernelFrame&, Value*, Value*, Value* column, Value*,
                                     Value* mask) {
          Value* sum = nullptr;
          for (int64_t slice = 0; slice < spec_.slices; ++slice) {
            Value* index = partial_index(s, s.constant(slice), batch, row, column);
            Value* part = load_vector(s.b, spec_.acc, partials(s), index, lanes_, mask);
            sum = sum ? s.b.CreateFAdd(sum, part) : part;
          }
          store_(s.frame, batch, row, column, sum, mask);
        };
        emit_row(s, batch, row, s.constant(0), s.constant(spec_.n), spec_.n % lanes_ != 0,
                 sum_slices, [](Value*) { return nullptr; });
      });
    });
    s.finish();
  }

  ModuleBuilder& module_;
  const MatmulSpec& spec_;
  const std::string& name_;
  const MatmulHooks& hooks_;
  const MatmulScratch place_;
  PackOperand a_, b_;
  MatmulStore store_;
  llvm::Function* microkernel_ = nullptr;
  int64_t acc_bytes_ = 4, packed_bytes_ = 4;
  int lanes_ = 0;
};

/// Element index of [batch][row][column].
Value* flat_index(llvm::IRBuilderBase& b, Value* batch, Value* row, Value* column, int64_t rows,
                  int64_t columns, bool shared) {
  if (!shared) {
    row = b.CreateAdd(b.CreateMul(batch, b.getInt64(static_cast<uint64_t>(rows))), row);
  }
  return b.CreateAdd(b.CreateMul(row, b.getInt64(static_cast<uint64_t>(columns))), column);
}

}  // namespace

std::vector<KernelLaunch> matmul_launches(const MatmulSpec& spec, const std::string& name) {
  std::vector<KernelLaunch> launches;
  const bool empty = spec.m == 0 || spec.n == 0 || spec.batch == 0;
  auto add = [&](const std::string& symbol, int64_t tasks) {
    launches.push_back({symbol, empty ? 0 : tasks});
  };
  if (spec.prepack_b) {
    add(name + ".pack", (spec.shared_b ? 1 : spec.batch) * spec.k_blocks() * spec.panels());
  }
  add(name, spec.batch * spec.slices * spec.m_tiles() * spec.n_tiles());
  if (spec.slices > 1) {
    add(name + ".reduce", spec.batch * ((spec.m + reduce_rows(spec) - 1) / reduce_rows(spec)));
  }
  return launches;
}

MatmulLoad load_from_buffer(int buffer, ir::DType type, int64_t rows, int64_t columns,
                            bool shared) {
  return [=](KernelFrame& frame, Value* batch, Value* row, Value* column, int lanes, Value* mask) {
    auto& b = frame.builder();
    Value* index = flat_index(b, batch, row, column, rows, columns, shared);
    return load_vector(b, type, frame.buffer(buffer), index, lanes, mask);
  };
}

MatmulStore store_to_buffer(int buffer, ir::DType type, int64_t rows, int64_t columns) {
  return [=](KernelFrame& frame, Value* batch, Value* row, Value* column, Value* acc, Value* mask) {
    auto& b = frame.builder();
    Value* index = flat_index(b, batch, row, column, rows, columns, /*shared=*/false);
    store_vector(b, type, frame.buffer(buffer), index, acc, mask);
  };
}

void emit_matmul(ModuleBuilder& module, const MatmulSpec& spec, const std::string& name,
                 const MatmulHooks& hooks) {
  Emitter(module, spec, name, hooks).emit();
}

}  // namespace mezzo::codegen
