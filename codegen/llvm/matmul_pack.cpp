// SPDX-License-Identifier: Apache-2.0
// Two ways to pack: rows of memory that run along the panel are copied; rows that run along k are
// transposed in registers. Both have a fast loop without masks for whole panels and whole vectors
// and one masked loop for the rest.
#include <mezzo/codegen/llvm/matmul_pack.h>

#include <mezzo/codegen/llvm/vector_io.h>

#include <llvm/IR/IRBuilder.h>

#include <algorithm>

namespace mezzo::codegen {
namespace {

using llvm::Value;

/// How far ahead lines are fetched, in steps of k: two lines of f32 along a row, half a page of
/// rows.
constexpr int64_t kStepsAhead = 32;
constexpr int64_t kRowsAhead = 8;

class Packer {
 public:
  Packer(KernelFrame& frame, const PackOperand& operand, Value* batch, Value* start, Value* k0,
         Value* length, Value* panel)
      : frame_(frame),
        operand_(operand),
        b_(frame.builder()),
        batch_(batch),
        start_(start),
        k0_(k0),
        length_(length),
        panel_(panel) {
    const int bytes = operand.compute == ir::DType::F64 ? 8 : 4;
    lanes_ = frame.target().lanes(bytes);
    // Transposition works on at most 8 x 8.
    block_ = std::min(lanes_, 8);
    element_ = operand.pairs ? static_cast<llvm::Type*>(b_.getInt32Ty())
                             : compute_type(b_, operand.compute);
    units_ = operand.pairs ? 2 : 1;
  }

  void emit() {
    const int64_t reach = operand_.k_contiguous ? operand_.width : chunks() * lanes_;
    Value* whole =
        b_.CreateICmpSLE(b_.CreateAdd(start_, constant(reach)), constant(operand_.extent));
    const int64_t steps = (operand_.k_contiguous ? block_ : 1) * units_;
    // `steps` is a power of two.
    Value* full = b_.CreateAnd(length_, constant(-steps));
    Value* fast_end = b_.CreateSelect(whole, full, constant(0));
    for (bool masked : {false, true}) {
      frame_.loop(
          masked ? fast_end : constant(0), masked ? length_ : fast_end, steps,
          [&](Value* k) { operand_.k_contiguous ? transposed(k, masked) : copied(k, masked); });
    }
  }

 private:
  int chunks() const { return (operand_.width + lanes_ - 1) / lanes_; }
  Value* constant(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  /// Address of element `offset` of step `k` (in steps of k, not pairs) of the panel.
  Value* address(Value* k, int64_t step, int64_t offset) {
    Value* unit = operand_.pairs ? b_.CreateLShr(k, 1) : k;
    Value* index = b_.CreateMul(unit, constant(operand_.width));
    Value* row = b_.CreateGEP(element_, panel_, index);
    return b_.CreateConstGEP1_64(element_, row,
                                 static_cast<uint64_t>(step * operand_.width + offset));
  }

  void store(Value* value, Value* to) {
    b_.CreateAlignedStore(value, to,
                          llvm::Align(static_cast<uint64_t>(element_->getScalarSizeInBits() / 8)));
  }

  /// The second half of a last pair is 0: it is added. Of a size-1 axis a load gives all lanes the
  /// same number, also those that the mask leaves out.
  Value* or_zero(Value* mask, Value* value) {
    return b_.CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
  }

  /// Two vectors of compute lanes as pairs: the first in the low halves.
  Value* join_pairs(Value* even, Value* odd) {
    auto* wide = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(lanes_));
    Value* low = b_.CreateZExt(narrow(b_, ir::DType::BF16, even), wide);
    Value* high = b_.CreateZExt(narrow(b_, ir::DType::BF16, odd), wide);
    return b_.CreateOr(low, b_.CreateShl(high, 16));
  }

  /// Fetches what a later step of k needs; the hardware does not see that rows of memory follow
  /// each other, and runs along k are too short for it.
  void fetch(Value* k, int64_t steps_ahead, int row) {
    Value* later = b_.CreateAdd(b_.CreateAdd(k0_, k), constant(steps_ahead));
    Value* across = b_.CreateAdd(start_, constant(row));
    if (operand_.k_contiguous) {
      operand_.prefetch(frame_, batch_, across, later);
    } else {
      operand_.prefetch(frame_, batch_, later, across);
    }
  }

  /// One step of k (two with pairs): rows of memory run along the panel.
  void copied(Value* k, bool masked) {
    if (operand_.prefetch && !masked) {
      for (int unit = 0; unit < units_; ++unit) fetch(k, kRowsAhead + unit, 0);
    }
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      Value* column = b_.CreateAdd(start_, constant(chunk * lanes_));
      Value* mask = masked
                        ? frame_.lane_mask(b_.CreateSub(constant(operand_.extent), column), lanes_)
                        : nullptr;
      Value* row = b_.CreateAdd(k0_, k);
      Value* value = operand_.load(frame_, batch_, row, column, lanes_, mask);
      if (operand_.pairs) {
        Value* odd_mask = mask;
        Value* odd_row = b_.CreateAdd(row, constant(1));
        if (masked) {
          Value* inside = b_.CreateICmpSLT(b_.CreateAdd(k, constant(1)), length_);
          odd_mask =
              b_.CreateAnd(mask, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), inside));
          // A number that all lanes share is loaded whatever the mask says.
          odd_row = b_.CreateSelect(inside, odd_row, row);
        }
        Value* odd = operand_.load(frame_, batch_, odd_row, column, lanes_, odd_mask);
        value = join_pairs(value, masked ? or_zero(odd_mask, odd) : odd);
      }
      store(value, address(k, 0, chunk * lanes_));
    }
  }

  /// block_ steps of k (twice as many with pairs): rows of memory run along k.
  void transposed(Value* k, bool masked) {
    if (operand_.prefetch && !masked) {
      for (int r = 0; r < operand_.width; ++r) fetch(k, kStepsAhead, r);
    }
    const int loaded = block_ * units_;
    Value* k_mask = masked ? frame_.lane_mask(b_.CreateSub(length_, k), loaded) : nullptr;
    Value* column = b_.CreateAdd(k0_, k);
    std::vector<std::vector<Value*>> groups;
    for (int first = 0; first < operand_.width; first += block_) {
      std::vector<Value*> rows;
      for (int r = first; r < first + block_; ++r) {
        auto* vector = llvm::FixedVectorType::get(element_, static_cast<unsigned>(block_));
        if (r >= operand_.width) {
          rows.push_back(llvm::Constant::getNullValue(vector));
          continue;
        }
        Value* row = b_.CreateAdd(start_, constant(r));
        Value* mask = nullptr;
        if (masked) {
          Value* inside = b_.CreateICmpSLT(row, constant(operand_.extent));
          mask = b_.CreateAnd(k_mask, b_.CreateVectorSplat(static_cast<unsigned>(loaded), inside));
        }
        Value* value = operand_.load(frame_, batch_, row, column, loaded, mask);
        if (operand_.pairs) {
          if (masked) value = or_zero(mask, value);
          value = b_.CreateBitCast(narrow(b_, ir::DType::BF16, value), vector);
        }
        rows.push_back(value);
      }
      groups.push_back(transpose(b_, std::move(rows)));
      // Whole groups do not touch their neighbours, so they need not wait in registers.
      if (operand_.width % block_ == 0) store_group(groups, k, static_cast<int>(groups.size()) - 1);
    }
    if (operand_.width % block_ == 0) return;
    // Ascending steps: a vector that reaches into the next step is overwritten by that step.
    for (int step = 0; step < block_; ++step) {
      for (size_t g = 0; g < groups.size(); ++g) {
        store(groups[g][static_cast<size_t>(step)],
              address(k, step, static_cast<int64_t>(g) * block_));
      }
    }
  }

  void store_group(const std::vector<std::vector<Value*>>& groups, Value* k, int group) {
    for (int step = 0; step < block_; ++step) {
      store(groups[static_cast<size_t>(group)][static_cast<size_t>(step)],
            address(k, step, static_cast<int64_t>(group) * block_));
    }
  }

  KernelFrame& frame_;
  const PackOperand& operand_;
  llvm::IRBuilderBase& b_;
  Value *batch_, *start_, *k0_, *length_, *panel_;
  llvm::Type* element_ = nullptr;
  int lanes_ = 0, block_ = 0, units_ = 1;
};

}  // namespace

void emit_pack(KernelFrame& frame, const PackOperand& operand, Value* batch, Value* start,
               Value* k0, Value* length, Value* panel) {
  Packer(frame, operand, batch, start, k0, length, panel).emit();
}

}  // namespace mezzo::codegen
