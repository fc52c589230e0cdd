// SPDX-License-Identifier: Apache-2.0
// What the handles of the fake driver stand for. Streams are lazy: work waits in a queue until
// something asks for its result, so that a forgotten wait shows as a wrong result.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <ptx/fake_api.h>
#include <ptx/fake_cubin.h>
#include <ptx/interpreter.h>
#include <ptx/memory.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace mezzo::runtime::cuda {

/// A place in a stream: where an event was recorded.
struct Marker {
  StreamObject* stream = nullptr;
  bool done = false;
  double milliseconds = 0;  // when it was reached, by the host's clock
};

/// What a stream does next, one of the three.
struct Work {
  std::function<void()> run = {};
  std::shared_ptr<Marker> wait = {};
  std::shared_ptr<Marker> record = {};
};

struct GraphNodeObject {
  std::function<void()> run;  // empty: only a place to wait for
  std::vector<GraphNodeObject*> needs;
};

struct GraphObject {
  ContextObject* context = nullptr;
  std::vector<std::unique_ptr<GraphNodeObject>> nodes;
};

struct GraphExecObject {
  struct Node {
    std::function<void()> run;
    std::vector<size_t> needs;
  };
  ContextObject* context = nullptr;
  std::shared_ptr<const std::vector<Node>> nodes;  // kept by launches that have not run
};

/// A recording under way. Streams join it by waiting for an event of a stream that is in it.
struct Capture {
  std::unique_ptr<GraphObject> graph;
  StreamObject* origin = nullptr;
  CaptureMode mode = CaptureGlobal;
  std::thread::id thread;
  bool invalid = false;
  std::map<StreamObject*, std::vector<GraphNodeObject*>> ends;  // what the next node of each needs
};

struct StreamObject {
  ContextObject* context = nullptr;
  bool blocking = false;  // waits for the legacy stream and is waited for by it
  std::deque<Work> queue;
  std::shared_ptr<Capture> capture;
};

struct EventObject {
  ContextObject* context = nullptr;
  bool timing = false;
  std::shared_ptr<Marker> marker;  // of the last record
  // Instead, where that was in a recording:
  std::shared_ptr<Capture> capture;
  std::vector<GraphNodeObject*> captured_ends;
};

struct PoolObject {
  ContextObject* context = nullptr;
  uint64_t used = 0, threshold = 0;
};

struct FunctionObject {
  ContextObject* context = nullptr;
  ptx::Kernel kernel;
  fakecuda::KernelFacts facts;
  int architecture = 0;
  int64_t max_dynamic_shared = 0;
  bool unloaded = false;
};

struct ModuleObject {
  ContextObject* context = nullptr;
  std::unique_ptr<ptx::Module> code;
  std::map<std::string, fakecuda::KernelFacts> facts;  // from the cubin
  std::map<std::string, FunctionObject*> functions;
  int architecture = 0;
};

/// The primary context of a device.
struct ContextObject {
  ContextObject(Device device, uint64_t memory_bytes) : device(device), memory(memory_bytes) {
    legacy.context = this;
    legacy.blocking = true;
  }

  Device device = 0;
  int retained = 0;
  Result fault = Success;  // of a kernel; every call returns it from then on
  ptx::DeviceMemory memory;
  StreamObject legacy;
  std::set<StreamObject*> streams;                     // but the legacy one
  std::map<ptx::Address, PoolObject*> allocations;     // null: by cuMemAlloc
  std::map<const void*, std::shared_ptr<void>> owned;  // what handles lead to
};

}  // namespace mezzo::runtime::cuda
