// SPDX-License-Identifier: Apache-2.0
// Entry points of the fake driver: graphs, recorded from streams or made node by node.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ptx/fake_entry.h>
#include <ptx/fake_launch.h>
#include <ptx/fake_stream.h>
#include <set>

namespace mezzo::runtime::cuda {

using namespace fakecuda;

namespace {

/// Whether every end of every stream of a recording comes before the end of its first one.
bool is_joined(const Capture& capture) {
  std::set<const GraphNodeObject*> before;
  std::vector<const GraphNodeObject*> open;
  const auto visit = [&](const GraphNodeObject* node) {
    if (before.insert(node).second) open.push_back(node);
  };
  for (const auto& [stream, ends] : capture.ends)
    if (stream == capture.origin)
      for (const GraphNodeObject* node : ends) visit(node);
  while (!open.empty()) {
    const GraphNodeObject* node = open.back();
    open.pop_back();
    for (const GraphNodeObject* needed : node->needs) visit(needed);
  }
  for (const auto& [stream, ends] : capture.ends)
    for (const GraphNodeObject* node : ends)
      if (!before.contains(node)) return false;
  return true;
}

/// Does what a graph holds: of the nodes that may come next the last one first, so that a
/// dependence that was forgotten shows.
void run_nodes(ContextObject& context, const std::vector<GraphExecObject::Node>& nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t turn = 0; turn < nodes.size(); ++turn) {
    size_t next = nodes.size();
    for (size_t i = nodes.size(); i-- > 0 && next == nodes.size();) {
      bool ready = !done[i];
      for (const size_t needed : nodes[i].needs) ready = ready && done[needed];
      if (ready) next = i;
    }
    if (nodes[next].run && context.fault == Success) nodes[next].run();
    done[next] = true;
  }
}

Result add_node(ContextObject& context, GraphNode* node, Graph graph, const GraphNode* needs,
                size_t number, std::function<void()> run) {
  if (!node || !is_live(context, graph) || (number > 0 && !needs)) return InvalidValue;
  auto made = std::make_unique<GraphNodeObject>();
  made->run = std::move(run);
  for (size_t i = 0; i < number; ++i) {
    bool found = false;
    for (const auto& known : graph->nodes) found = found || known.get() == needs[i];
    if (!found) return InvalidValue;
    made->needs.push_back(needs[i]);
  }
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return Success;
}

/// A copy of one row between device memory and device or host memory.
std::function<void()> copy(ContextObject& context, const MemcpyNodeParameters& copy) {
  return [&context, copy] {
    const auto end = [&](const MemcpyEnd& side) -> std::byte* {
      if (side.type == MemoryHost)
        return static_cast<std::byte*>(const_cast<void*>(side.host)) + side.x_bytes;
      const DevicePointer address = side.device + side.x_bytes;
      if (context.memory.holds(address, copy.width_bytes)) return context.memory.host(address);
      fault(context, IllegalAddress,
            fmt::format("a copy in a graph of {} bytes at {:#x}: no live allocation holds them",
                        copy.width_bytes, address));
      return nullptr;
    };
    const std::byte* from = end(copy.from);
    std::byte* to = end(copy.to);
    if (from && to) std::memmove(to, from, copy.width_bytes);
  };
}

bool is_known_copy(const MemcpyNodeParameters& copy) {
  const auto known = [](const MemcpyEnd& end) {
    return (end.type == MemoryHost || end.type == MemoryDevice) && end.y == 0 && end.z == 0;
  };
  return copy.height == 1 && copy.depth == 1 && known(copy.from) && known(copy.to);
}

}  // namespace

Result cuStreamBeginCapture_v2(Stream handle, CaptureMode mode) {
  return with_context("cuStreamBeginCapture", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream) return InvalidHandle;
    if (stream == &context.legacy) return StreamCaptureUnsupported;
    if (stream->capture) return IllegalState;
    if (mode < CaptureGlobal || mode > CaptureRelaxed) return InvalidValue;
    auto capture = std::make_shared<Capture>();
    capture->graph = std::make_unique<GraphObject>();
    capture->graph->context = &context;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->ends[stream];
    stream->capture = capture;
    fakecuda::driver().captures.insert(capture);
    return Success;
  });
}

Result cuStreamEndCapture(Stream handle, Graph* graph) {
  return with_context("cuStreamEndCapture", [&](ContextObject& context) {
    StreamObject* stream = find_stream(context, handle);
    if (!stream || !graph) return InvalidValue;
    *graph = nullptr;
    const std::shared_ptr<Capture> capture = stream->capture;
    if (!capture) return IllegalState;
    if (capture->origin != stream) return StreamCaptureUnmatched;
    if (capture->mode != CaptureRelaxed && capture->thread != std::this_thread::get_id())
      return StreamCaptureUnmatched;
    for (StreamObject* member : context.streams)
      if (member->capture == capture) member->capture = nullptr;
    fakecuda::driver().captures.erase(capture);
    if (capture->invalid) return StreamCaptureInvalidated;
    if (!is_joined(*capture)) return StreamCaptureUnjoined;
    *graph = adopt(context, std::move(capture->graph));
    return Success;
  });
}

Result cuGraphCreate(Graph* graph, unsigned flags) {
  return with_context("cuGraphCreate", [&](ContextObject& context) {
    if (!graph || flags != 0) return InvalidValue;
    *graph = adopt(context, std::make_unique<GraphObject>());
    return Success;
  });
}

Result cuGraphAddKernelNode_v2(GraphNode* node, Graph graph, const GraphNode* needs, size_t number,
                               const KernelNodeParameters* parameters) {
  return with_context("cuGraphAddKernelNode", [&](ContextObject& context) {
    if (!parameters) return InvalidValue;
    const unsigned* grid = parameters->grid;
    const unsigned* block = parameters->block;
    std::function<void()> run;
    const Result code = prepare_launch(context,
                                       {.function = parameters->function,
                                        .grid = {grid[0], grid[1], grid[2]},
                                        .block = {block[0], block[1], block[2]},
                                        .shared_bytes = parameters->shared_bytes,
                                        .parameters = parameters->parameters,
                                        .extra = parameters->extra},
                                       run);
    return code != Success ? code : add_node(context, node, graph, needs, number, std::move(run));
  });
}

Result cuGraphAddMemsetNode(GraphNode* node, Graph graph, const GraphNode* needs, size_t number,
                            const MemsetNodeParameters* parameters, Context) {
  return with_context("cuGraphAddMemsetNode", [&](ContextObject& context) {
    if (!parameters) return InvalidValue;
    const MemsetNodeParameters set = *parameters;
    const size_t size = set.element_bytes;
    if (set.height != 1 || (size != 1 && size != 2 && size != 4)) return InvalidValue;
    return add_node(context, node, graph, needs, number, [&context, set, size] {
      if (!context.memory.holds(set.to, set.width * size)) {
        fault(context, IllegalAddress,
              fmt::format("a fill in a graph of {} bytes at {:#x}: no live allocation holds them",
                          set.width * size, set.to));
        return;
      }
      std::byte* at = context.memory.host(set.to);
      for (size_t i = 0; i < set.width; ++i) std::memcpy(at + i * size, &set.value, size);
    });
  });
}

Result cuGraphAddMemcpyNode(GraphNode* node, Graph graph, const GraphNode* needs, size_t number,
                            const MemcpyNodeParameters* parameters, Context) {
  return with_context("cuGraphAddMemcpyNode", [&](ContextObject& context) {
    if (!parameters) return InvalidValue;
    if (!is_known_copy(*parameters)) {
      explain("cuGraphAddMemcpyNode", "only copies of one row are supported");
      return NotSupported;
    }
    return add_node(context, node, graph, needs, number, copy(context, *parameters));
  });
}

Result cuGraphAddEmptyNode(GraphNode* node, Graph graph, const GraphNode* needs, size_t number) {
  return with_context("cuGraphAddEmptyNode", [&](ContextObject& context) {
    return add_node(context, node, graph, needs, number, nullptr);
  });
}

Result cuGraphGetNodes(Graph graph, GraphNode* nodes, size_t* number) {
  return with_context("cuGraphGetNodes", [&](ContextObject& context) {
    if (!is_live(context, graph) || !number) return InvalidValue;
    if (!nodes) {
      *number = graph->nodes.size();
      return Success;
    }
    for (size_t i = 0; i < *number; ++i)
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    *number = std::min(*number, graph->nodes.size());
    return Success;
  });
}

Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  return with_context("cuGraphInstantiateWithFlags", [&](ContextObject& context) {
    if (!exec || !is_live(context, graph)) return InvalidValue;
    auto made = std::make_unique<GraphExecObject>();
    std::vector<GraphExecObject::Node> nodes;
    std::map<const GraphNodeObject*, size_t> index;
    for (const auto& node : graph->nodes) {
      GraphExecObject::Node copied{node->run, {}};
      for (const GraphNodeObject* needed : node->needs) copied.needs.push_back(index.at(needed));
      index.emplace(node.get(), nodes.size());
      nodes.push_back(std::move(copied));
    }
    made->nodes = std::make_shared<const std::vector<GraphExecObject::Node>>(std::move(nodes));
    *exec = adopt(context, std::move(made));
    return Success;
  });
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  return with_context("cuGraphLaunch", [&](ContextObject& context) {
    if (!is_live(context, exec)) return InvalidValue;
    if (const StreamObject* target = find_stream(context, stream); target && target->capture) {
      explain("cuGraphLaunch", "graphs within graphs are not supported");
      return StreamCaptureUnsupported;
    }
    count("graph launches");
    fakecuda::driver().counts["synchronising calls since graph launch"] = 0;
    return enqueue(context, stream,
                   [&context, nodes = exec->nodes] { run_nodes(context, *nodes); });
  });
}

Result cuGraphExecDestroy(GraphExec exec) {
  return with_context("cuGraphExecDestroy", [&](ContextObject& context) {
    if (!is_live(context, exec)) return InvalidValue;
    disown(context, exec);
    return Success;
  });
}

Result cuGraphDestroy(Graph graph) {
  return with_context("cuGraphDestroy", [&](ContextObject& context) {
    if (!is_live(context, graph)) return InvalidValue;
    disown(context, graph);
    return Success;
  });
}

}  // namespace mezzo::runtime::cuda
