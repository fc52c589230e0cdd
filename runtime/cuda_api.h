// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA Driver API that Mezzo calls, declared by ourselves so that no toolkit is
// needed to build: numbers and layouts are those of the API's binary interface, which is fixed.
// Functions are opened at run time (cuda_driver.cpp); nothing links a CUDA library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mezzo::runtime::cuda {

enum Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  JitCompilerNotFound = 221,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  IllegalState = 401,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  AssertFailed = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  NotPermitted = 800,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupportedOnDevice = 804,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureUnmatched = 903,
  StreamCaptureUnjoined = 904,
  StreamCaptureImplicit = 906,
  UnknownError = 999,
};

enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxBlockDimX = 2,
  MaxBlockDimY = 3,
  MaxBlockDimZ = 4,
  MaxGridDimX = 5,
  MaxGridDimY = 6,
  MaxGridDimZ = 7,
  MaxSharedMemoryPerBlock = 8,
  WarpSize = 10,
  MaxRegistersPerBlock = 12,
  MultiprocessorCount = 16,
  MaxThreadsPerMultiprocessor = 39,
  UnifiedAddressing = 41,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  MaxSharedMemoryPerBlockOptin = 97,
  ReservedSharedMemoryPerBlock = 111,
  MemoryPoolsSupported = 115,
};

enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionSharedBytes = 1,
  FunctionLocalBytes = 3,
  FunctionRegisters = 4,
  FunctionPtxVersion = 5,
  FunctionBinaryVersion = 6,
  FunctionMaxDynamicSharedBytes = 8,
};

enum JitOption : int {
  JitInfoLogBuffer = 3,
  JitInfoLogBufferBytes = 4,
  JitErrorLogBuffer = 5,
  JitErrorLogBufferBytes = 6,
};

enum PoolAttribute : int {
  PoolReleaseThreshold = 4,
  PoolReservedBytes = 5,
  PoolUsedBytes = 7,
};

enum StreamFlags : unsigned { StreamNonBlocking = 1 };
enum EventFlags : unsigned { EventDefault = 0, EventDisableTiming = 2 };
enum CaptureMode : int { CaptureGlobal = 0, CaptureThreadLocal = 1, CaptureRelaxed = 2 };
enum LocationType : int { LocationDevice = 1 };
enum AllocationType : int { AllocationPinned = 1 };

using Device = int;
using DevicePointer = uint64_t;
using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Pool = struct PoolObject*;
using Graph = struct GraphObject*;
using GraphNode = struct GraphNodeObject*;
using GraphExec = struct GraphExecObject*;

struct PoolProperties {
  AllocationType allocation_type = AllocationPinned;
  int handle_types = 0;
  LocationType location_type = LocationDevice;
  int location_id = 0;
  void* security_attributes = nullptr;
  size_t max_bytes = 0;
  unsigned char reserved[56] = {};
};
static_assert(sizeof(PoolProperties) == 88);

}  // namespace mezzo::runtime::cuda

// Every function: name, suffix of the version whose signature is declared, if any, parameters.
#define MEZZO_CUDA_FUNCTIONS(X)                                                                   \
  X(cuInit, , (unsigned flags))                                                                   \
  X(cuDriverGetVersion, , (int* version))                                                         \
  X(cuGetErrorName, , (Result code, const char** name))                                           \
  X(cuDeviceGetCount, , (int* count))                                                             \
  X(cuDeviceGet, , (Device * device, int ordinal))                                                \
  X(cuDeviceGetName, , (char* name, int bytes, Device device))                                    \
  X(cuDeviceTotalMem, _v2, (size_t* bytes, Device device))                                        \
  X(cuDeviceGetAttribute, , (int* value, DeviceAttribute attribute, Device device))               \
  X(cuDevicePrimaryCtxRetain, , (Context * context, Device device))                               \
  X(cuDevicePrimaryCtxRelease, _v2, (Device device))                                              \
  X(cuCtxPushCurrent, _v2, (Context context))                                                     \
  X(cuCtxPopCurrent, _v2, (Context * context))                                                    \
  X(cuMemGetInfo, _v2, (size_t* free, size_t* total))                                             \
  X(cuMemAlloc, _v2, (DevicePointer * address, size_t bytes))                                     \
  X(cuMemFree, _v2, (DevicePointer address))                                                      \
  X(cuMemHostAlloc, , (void** memory, size_t bytes, unsigned flags))                              \
  X(cuMemFreeHost, , (void* memory))                                                              \
  X(cuMemPoolCreate, , (Pool * pool, const PoolProperties* properties))                           \
  X(cuMemPoolDestroy, , (Pool pool))                                                              \
  X(cuMemPoolSetAttribute, , (Pool pool, PoolAttribute attribute, void* value))                   \
  X(cuMemPoolGetAttribute, , (Pool pool, PoolAttribute attribute, void* value))                   \
  X(cuMemPoolTrimTo, , (Pool pool, size_t bytes_to_keep))                                         \
  X(cuMemAllocFromPoolAsync, , (DevicePointer * address, size_t bytes, Pool pool, Stream stream)) \
  X(cuMemFreeAsync, , (DevicePointer address, Stream stream))                                     \
  X(cuMemcpyHtoDAsync, _v2, (DevicePointer to, const void* from, size_t bytes, Stream stream))    \
  X(cuMemcpyDtoHAsync, _v2, (void* to, DevicePointer from, size_t bytes, Stream stream))          \
  X(cuMemcpyDtoDAsync, _v2, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))  \
  X(cuMemsetD8Async, , (DevicePointer to, unsigned char value, size_t bytes, Stream stream))      \
  X(cuModuleLoadDataEx, ,                                                                         \
    (Module * module, const void* image, unsigned options, JitOption* names, void** values))      \
  X(cuModuleUnload, , (Module module))                                                            \
  X(cuModuleGetFunction, , (Function * function, Module module, const char* name))                \
  X(cuFuncGetAttribute, , (int* value, FunctionAttribute attribute, Function function))           \
  X(cuFuncSetAttribute, , (Function function, FunctionAttribute attribute, int value))            \
  X(cuLaunchKernel, ,                                                                             \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,      \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters, \
     void** extra))                                                                               \
  X(cuStreamCreate, , (Stream * stream, unsigned flags))                                          \
  X(cuStreamDestroy, _v2, (Stream stream))                                                        \
  X(cuStreamSynchronize, , (Stream stream))                                                       \
  X(cuStreamWaitEvent, , (Stream stream, Event event, unsigned flags))                            \
  X(cuEventCreate, , (Event * event, unsigned flags))                                             \
  X(cuEventDestroy, _v2, (Event event))                                                           \
  X(cuEventRecord, , (Event event, Stream stream))                                                \
  X(cuEventSynchronize, , (Event event))                                                          \
  X(cuEventQuery, , (Event event))                                                                \
  X(cuEventElapsedTime, , (float* milliseconds, Event start, Event end))                          \
  X(cuStreamBeginCapture, _v2, (Stream stream, CaptureMode mode))                                 \
  X(cuStreamEndCapture, , (Stream stream, Graph * graph))                                         \
  X(cuGraphInstantiateWithFlags, , (GraphExec * exec, Graph graph, unsigned long long flags))     \
  X(cuGraphGetNodes, , (Graph graph, GraphNode * nodes, size_t* count))                           \
  X(cuGraphLaunch, , (GraphExec exec, Stream stream))                                             \
  X(cuGraphExecDestroy, , (GraphExec exec))                                                       \
  X(cuGraphDestroy, , (Graph graph))

namespace mezzo::runtime::cuda {

/// The functions of an opened driver, by their names without version.
struct Driver {
#define X(name, suffix, parameters) Result(*name) parameters = nullptr;
  MEZZO_CUDA_FUNCTIONS(X)
#undef X
  int version = 0;  // CUDA's, major * 1000 + minor * 10
};

/// The driver of this process, opened and initialised at the first call. Throws DeviceError that
/// says why there is none.
const Driver& driver();

}  // namespace mezzo::runtime::cuda
