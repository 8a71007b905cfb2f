// The CUDA driver API, as far as the judge uses it: our own declarations and a
// table of functions that is filled from libcuda.so.1 at run time, so that the
// program builds and starts where there is no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace kernelopt::cuda {

using Device = int;
using Pointer = unsigned long long;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using MemoryHandle = unsigned long long;
/// CUresult: 0 is success.
using Code = int;

inline constexpr Code kSuccess = 0;
inline constexpr Code kOutOfMemory = 2;

// CUdevice_attribute
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxSharedPerBlockOptin = 97;
// CUfunction_attribute
inline constexpr int kMaxThreadsPerBlock = 0;
inline constexpr int kSharedSizeBytes = 1;
inline constexpr int kMaxDynamicSharedSizeBytes = 8;
inline constexpr int kNonPortableClusterSizeAllowed = 15;

struct Uuid {
  unsigned char bytes[16];
};

/// CUlaunchAttribute: an id and a value of 64 bytes.
struct LaunchAttribute {
  int id = 0;
  int padding = 0;
  union {
    unsigned cluster[3];
    int number;
    char bytes[64] = {};
  };
};
static_assert(sizeof(LaunchAttribute) == 72);
inline constexpr int kAttributeCooperative = 2;
inline constexpr int kAttributeCluster = 4;

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

/// CUmemAllocationProp: pinned memory of one device.
struct MemoryProperties {
  int type = 1;
  int handle_types = 0;
  int location_type = 1;
  int location_id = 0;
  void* windows = nullptr;
  unsigned char flags[8] = {};
};
static_assert(sizeof(MemoryProperties) == 32);

/// CUmemAccessDesc: read and write from one device.
struct MemoryAccess {
  int location_type = 1;
  int location_id = 0;
  int flags = 3;
};

#define KERNELOPT_CUDA_FUNCTIONS(X)                                                               \
  X(Init, "cuInit", unsigned)                                                                     \
  X(DriverGetVersion, "cuDriverGetVersion", int*)                                                 \
  X(GetErrorName, "cuGetErrorName", Code, const char**)                                           \
  X(GetErrorString, "cuGetErrorString", Code, const char**)                                       \
  X(DeviceGet, "cuDeviceGet", Device*, int)                                                       \
  X(DeviceGetName, "cuDeviceGetName", char*, int, Device)                                         \
  X(DeviceGetUuid, "cuDeviceGetUuid_v2", Uuid*, Device)                                           \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", int*, int, Device)                                \
  X(DeviceTotalMem, "cuDeviceTotalMem_v2", size_t*, Device)                                       \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Context*, Device)                               \
  X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", Device)                                    \
  X(CtxSetCurrent, "cuCtxSetCurrent", Context)                                                    \
  X(MemGetInfo, "cuMemGetInfo_v2", size_t*, size_t*)                                              \
  X(MemAlloc, "cuMemAlloc_v2", Pointer*, size_t)                                                  \
  X(MemFree, "cuMemFree_v2", Pointer)                                                             \
  X(MemcpyHtoD, "cuMemcpyHtoD_v2", Pointer, const void*, size_t)                                  \
  X(MemcpyDtoH, "cuMemcpyDtoH_v2", void*, Pointer, size_t)                                        \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", Pointer, Pointer, size_t, Stream)                    \
  X(MemsetD8Async, "cuMemsetD8Async", Pointer, unsigned char, size_t, Stream)                     \
  X(MemsetD32Async, "cuMemsetD32Async", Pointer, unsigned, size_t, Stream)                        \
  X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity", size_t*,                        \
    const MemoryProperties*, int)                                                                 \
  X(MemAddressReserve, "cuMemAddressReserve", Pointer*, size_t, size_t, Pointer,                  \
    unsigned long long)                                                                           \
  X(MemAddressFree, "cuMemAddressFree", Pointer, size_t)                                          \
  X(MemCreate, "cuMemCreate", MemoryHandle*, size_t, const MemoryProperties*, unsigned long long) \
  X(MemRelease, "cuMemRelease", MemoryHandle)                                                     \
  X(MemMap, "cuMemMap", Pointer, size_t, size_t, MemoryHandle, unsigned long long)                \
  X(MemUnmap, "cuMemUnmap", Pointer, size_t)                                                      \
  X(MemSetAccess, "cuMemSetAccess", Pointer, size_t, const MemoryAccess*, size_t)                 \
  X(ModuleLoadData, "cuModuleLoadData", Module*, const void*)                                     \
  X(ModuleUnload, "cuModuleUnload", Module)                                                       \
  X(ModuleGetFunction, "cuModuleGetFunction", Function*, Module, const char*)                     \
  X(FuncGetAttribute, "cuFuncGetAttribute", int*, int, Function)                                  \
  X(FuncSetAttribute, "cuFuncSetAttribute", Function, int, int)                                   \
  X(LaunchKernelEx, "cuLaunchKernelEx", const LaunchConfig*, Function, void**, void**)            \
  X(StreamCreate, "cuStreamCreate", Stream*, unsigned)                                            \
  X(StreamDestroy, "cuStreamDestroy_v2", Stream)                                                  \
  X(StreamSynchronize, "cuStreamSynchronize", Stream)                                             \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", Stream, int)                                   \
  X(StreamEndCapture, "cuStreamEndCapture", Stream, Graph*)                                       \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", GraphExec*, Graph, unsigned long long)       \
  X(GraphLaunch, "cuGraphLaunch", GraphExec, Stream)                                              \
  X(GraphExecDestroy, "cuGraphExecDestroy", GraphExec)                                            \
  X(GraphDestroy, "cuGraphDestroy", Graph)                                                        \
  X(EventCreate, "cuEventCreate", Event*, unsigned)                                               \
  X(EventDestroy, "cuEventDestroy_v2", Event)                                                     \
  X(EventRecord, "cuEventRecord", Event, Stream)                                                  \
  X(EventSynchronize, "cuEventSynchronize", Event)                                                \
  X(EventElapsedTime, "cuEventElapsedTime", float*, Event, Event)

struct Driver {
#define KERNELOPT_CUDA_MEMBER(name, symbol, ...) Code (*name)(__VA_ARGS__) = nullptr;
  KERNELOPT_CUDA_FUNCTIONS(KERNELOPT_CUDA_MEMBER)
#undef KERNELOPT_CUDA_MEMBER
};

/// Opens the driver once. Errors: kEnvironment "no_gpu" (no driver, or one that
/// lacks a function).
Result<const Driver*> LoadDriver();

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
std::string Describe(const Driver& driver, Code code);

/// Whether the context can't be used after this code.
bool IsSick(Code code);

}  // namespace kernelopt::cuda
