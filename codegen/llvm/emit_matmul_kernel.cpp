// SPDX-License-Identifier: Apache-2.0
// Matmul kernels: the product of emit_matmul with the region's prologue evaluated while packing and
// its epilogue on each finished row of a tile, which may store several results.
#include <mezzo/codegen/llvm/emit_families.h>
#include <mezzo/codegen/llvm/emit_matmul.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/kernel_region.h>

#include <llvm/IR/IRBuilder.h>

namespace mezzo::codegen {

using llvm::Value;

namespace {

class ProductEmitter {
 public:
  explicit ProductEmitter(const ir::Op& kernel) : kernel_(kernel) {
    for (ir::Op& op : *kernel.body())
      if (op.kind() == ir::OpKind::Matmul) product_ = &op;
    yields_ = kernel.body()->terminator()->operands();
  }

  MatmulHooks hooks() {
    MatmulHooks hooks;
    hooks.start = [this](KernelFrame& frame) {
      emitter_.emplace(frame, kernel_);
      emitter_->set_lanes(1, nullptr);
      emitter_->eval_scalars();
    };
    hooks.finish = [this](KernelFrame&) {
      emitter_->write_flags();
      emitter_.reset();
    };
    hooks.load_a = [this](KernelFrame&, Value* batch, Value* row, Value* column, int lanes,
                          Value* mask) { return load(0, batch, row, column, lanes, mask); };
    hooks.load_b = [this](KernelFrame&, Value* batch, Value* row, Value* column, int lanes,
                          Value* mask) { return load(1, batch, row, column, lanes, mask); };
    hooks.store = [this](KernelFrame&, Value* batch, Value* row, Value* column, Value* acc,
                         Value* mask) { store(batch, row, column, acc, mask); };
    hooks.prefetch_a = [this](KernelFrame&, Value* batch, Value* row, Value* column) {
      fetch_operand(0, batch, row, column);
    };
    hooks.prefetch_b = [this](KernelFrame&, Value* batch, Value* row, Value* column) {
      fetch_operand(1, batch, row, column);
    };
    hooks.prefetch_c = [this](KernelFrame&, Value* batch, Value* row, Value* column) {
      for (int i = 0; i < kernel_.num_results(); ++i) {
        emitter_->prefetch_result(i, result_coordinates(batch, row, column));
      }
    };
    hooks.workspace_buffer = kernel_.num_operands() + kernel_.num_results();
    return hooks;
  }

 private:
  /// Coordinates of element [row][column] onwards of operand `operand` of the product.
  Coordinates operand_coordinates(int operand, Value* batch, Value* row, Value* column) {
    ir::Value value = product_->operand(operand);
    const ir::Shape &shape = value.shape(), &result = product_->result().shape();
    Coordinates at = emitter_->origin(shape);
    std::vector<Value*> position =
        delinearize(*emitter_, batch, result.dims().first(static_cast<size_t>(result.rank() - 2)));
    int shift = result.rank() - shape.rank();
    for (int i = 0; i + 2 < shape.rank(); ++i)
      if (shape[i] != 1) at[static_cast<size_t>(i)].base = position[static_cast<size_t>(i + shift)];
    at[static_cast<size_t>(shape.rank() - 2)] = {row, 0};
    at[static_cast<size_t>(shape.rank() - 1)] = {column, 1};
    return at;
  }

  Coordinates result_coordinates(Value* batch, Value* row, Value* column) {
    const ir::Shape& shape = product_->result().shape();
    size_t rank = static_cast<size_t>(shape.rank());
    Coordinates at = emitter_->origin(shape);
    std::vector<Value*> position = delinearize(*emitter_, batch, shape.dims().first(rank - 2));
    for (size_t i = 0; i < position.size(); ++i) at[i].base = position[i];
    at[rank - 2] = {row, 0};
    at[rank - 1] = {column, 1};
    return at;
  }

  void fetch_operand(int operand, Value* batch, Value* row, Value* column) {
    RegionEmitter::Scope scope(*emitter_);
    emitter_->set_lanes(1, nullptr);
    emitter_->prefetch_parameters(product_->operand(operand),
                                  operand_coordinates(operand, batch, row, column));
  }

  Value* load(int operand, Value* batch, Value* row, Value* column, int lanes, Value* mask) {
    RegionEmitter::Scope scope(*emitter_);
    emitter_->set_lanes(lanes, mask);
    ir::Value value = product_->operand(operand);
    Value* out = emitter_->eval_vector(value, operand_coordinates(operand, batch, row, column));
    // What a prologue makes of an element that is not there must not count.
    if (mask && !value.is_parameter())
      out =
          emitter_->builder().CreateSelect(mask, out, llvm::Constant::getNullValue(out->getType()));
    return out;
  }

  void store(Value* batch, Value* row, Value* column, Value* acc, Value* mask) {
    RegionEmitter::Scope scope(*emitter_);
    auto lanes = llvm::cast<llvm::FixedVectorType>(acc->getType())->getNumElements();
    emitter_->set_lanes(static_cast<int>(lanes), mask);
    const Coordinates at = result_coordinates(batch, row, column);
    emitter_->preset(product_->result(), acc, /*rounded=*/false);
    std::vector<Value*> values;
    for (ir::Value value : yields_) values.push_back(emitter_->eval_vector(value, at));
    for (size_t i = 0; i < values.size(); ++i) {
      // An axis of one column has no stride; its vector has one lane on.
      if (product_->result().shape()[product_->result().shape().rank() - 1] == 1)
        emitter_->store(static_cast<int>(i),
                        emitter_->builder().CreateExtractElement(values[i], uint64_t{0}), at);
      else
        emitter_->store(static_cast<int>(i), values[i], at);
    }
    emitter_->forget(product_->result());
  }

  const ir::Op& kernel_;
  const ir::Op* product_ = nullptr;
  std::vector<ir::Value> yields_;
  std::optional<RegionEmitter> emitter_;
};

}  // namespace

CpuKernel emit_matmul_kernel(ModuleBuilder& module, const ir::Op& kernel,
                             const std::string& symbol) {
  MatmulSpec spec = ir::matmul_spec(kernel);
  MEZZO_CHECK(spec.mr > 0, "kernel @" + kernel.kernel_name() + " has no plan");
  ProductEmitter emitter(kernel);
  emit_matmul(module, spec, symbol, emitter.hooks());
  return {{}, matmul_launches(spec, symbol), ir::scratch_bytes(spec), ir::workspace_bytes(spec)};
}

}  // namespace mezzo::codegen
