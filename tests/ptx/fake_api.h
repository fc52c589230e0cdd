// SPDX-License-Identifier: Apache-2.0
// Functions and layouts of the CUDA Driver API that the fake driver has beyond those that Mezzo
// calls (mezzo/runtime/cuda_api.h), and the declarations of all of them.
#pragma once

#include <mezzo/runtime/cuda_api.h>

namespace mezzo::runtime::cuda {

/// Handles that stand for the stream of all streams; any other one is a pointer.
inline const auto kLegacyStream = reinterpret_cast<Stream>(uintptr_t{1});

struct KernelNodeParameters {
  Function function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  Context context;
};
static_assert(sizeof(KernelNodeParameters) == 72);

struct MemsetNodeParameters {
  DevicePointer to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(MemsetNodeParameters) == 40);

enum MemoryType : int { MemoryHost = 1, MemoryDevice = 2 };
struct MemcpyEnd {
  size_t x_bytes, y, z, lod;
  MemoryType type;
  const void* host;
  DevicePointer device;
  void* array;
};
/// Of copies in three dimensions; the fake driver knows rows of one dimension alone.
struct MemcpyNodeParameters {
  MemcpyEnd from;
  void* reserved0;
  size_t from_pitch, from_height;
  MemcpyEnd to;
  void* reserved1;
  size_t to_pitch, to_height;
  size_t width_bytes, height, depth;
};
static_assert(sizeof(MemcpyNodeParameters) == 200);

struct Uuid {
  char bytes[16];
};

}  // namespace mezzo::runtime::cuda

#define MEZZO_FAKE_FUNCTIONS(X)                                                                   \
  X(cuGetErrorString, , (Result code, const char** text))                                         \
  X(cuGetExportTable, , (const void** table, const Uuid* id))                                     \
  X(cuGetProcAddress, , (const char* name, void** function, int version, uint64_t flags))         \
  X(cuGetProcAddress, _v2,                                                                        \
    (const char* name, void** function, int version, uint64_t flags, int* status))                \
  X(cuCtxGetCurrent, , (Context * context))                                                       \
  X(cuCtxSetCurrent, , (Context context))                                                         \
  X(cuCtxGetDevice, , (Device * device))                                                          \
  X(cuCtxSynchronize, , ())                                                                       \
  X(cuMemAllocHost, _v2, (void** memory, size_t bytes))                                           \
  X(cuMemcpyHtoD, _v2, (DevicePointer to, const void* from, size_t bytes))                        \
  X(cuMemcpyDtoH, _v2, (void* to, DevicePointer from, size_t bytes))                              \
  X(cuMemsetD32Async, , (DevicePointer to, unsigned value, size_t count, Stream stream))          \
  X(cuModuleLoadData, , (Module * module, const void* image))                                     \
  X(cuModuleGetGlobal, _v2, (DevicePointer * address, size_t* bytes, Module module, const char*)) \
  X(cuStreamQuery, , (Stream stream))                                                             \
  X(cuGraphCreate, , (Graph * graph, unsigned flags))                                             \
  X(cuGraphAddKernelNode, _v2,                                                                    \
    (GraphNode * node, Graph graph, const GraphNode* needs, size_t count,                         \
     const KernelNodeParameters* parameters))                                                     \
  X(cuGraphAddMemsetNode, ,                                                                       \
    (GraphNode * node, Graph graph, const GraphNode* needs, size_t count,                         \
     const MemsetNodeParameters* parameters, Context context))                                    \
  X(cuGraphAddMemcpyNode, ,                                                                       \
    (GraphNode * node, Graph graph, const GraphNode* needs, size_t count,                         \
     const MemcpyNodeParameters* parameters, Context context))                                    \
  X(cuGraphAddEmptyNode, , (GraphNode * node, Graph graph, const GraphNode* needs, size_t count))

#define MEZZO_FAKE_EXPORT __attribute__((visibility("default")))

namespace mezzo::runtime::cuda {

#define X(name, suffix, parameters) extern "C" MEZZO_FAKE_EXPORT Result name##suffix parameters;
MEZZO_CUDA_FUNCTIONS(X)
MEZZO_FAKE_FUNCTIONS(X)
#undef X

}  // namespace mezzo::runtime::cuda

// For tests; a program finds them by dlsym.

/// Text of the last fault, "" before the first; valid until the next one.
extern "C" MEZZO_FAKE_EXPORT const char* mezzo_fake_last_fault();

/// How often an entry point was called, by its name without version (`cuLaunchKernel`), or one of
/// `kernel runs` (those of graphs too), `graph launches`, `synchronising calls` (whatever may make
/// the host wait), `synchronising calls since graph launch`, `bytes to device`, `bytes to host`,
/// `bytes on device`. 0 for what never happened.
extern "C" MEZZO_FAKE_EXPORT uint64_t mezzo_fake_count(const char* what);
extern "C" MEZZO_FAKE_EXPORT void mezzo_fake_reset_counts();
