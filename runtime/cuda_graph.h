// SPDX-License-Identifier: Apache-2.0
// Work of the stream that was recorded once and is launched with one call.
#pragma once

#include <mezzo/ir/function_ref.h>
#include <mezzo/runtime/cuda_context.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::runtime {

class CudaGraph {
 public:
  /// Records what `work` puts on the context's stream; nothing runs. The addresses and parameters
  /// that it used are those of every launch: buffers must outlive the graph, kernels are kept by
  /// it. Memory cannot be allocated meanwhile, nor the stream waited for. `name` stands for the
  /// graph in messages.
  CudaGraph(std::shared_ptr<CudaContext> context, const std::string& name,
            ir::FunctionRef<void()> work);
  CudaGraph(CudaGraph&& other) noexcept;
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  ~CudaGraph() { release(); }

  /// Puts all of it on the stream.
  void launch() const;
  /// Kernels, copies and fills.
  size_t nodes() const { return nodes_; }

 private:
  void release() noexcept;

  std::shared_ptr<CudaContext> context_;
  cuda::GraphExec exec_ = nullptr;
  size_t nodes_ = 0;
  CudaWorkName name_;
  std::vector<std::shared_ptr<const void>> kernels_;
};

}  // namespace mezzo::runtime
