// The low-level device interface: memory, launches, the judge's own element
// kernels and timing. runner.h and timer.h are written against it.
//
// Implementations: judge/cuda_runtime.h (the CUDA driver API) and
// device/host_runtime.h (host memory, kernels are C++ functions: unit tests).
// Everything is issued on one stream in call order; calls that return values
// wait for it. Errors have the codes that device/judge.h lists; after
// sick_device nothing of the runtime can be used again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/element_code.h"
#include "device/judge.h"

namespace kernelopt {

using DevicePointer = uint64_t;

/// Where a storage lies inside its allocation.
enum class Placement {
  kMiddle,      ///< canaries on both sides
  kFlushEnd,    ///< ends at an unmapped page (rounded up to 16 bytes)
  kFlushStart,  ///< starts right after an unmapped page
};

/// Bytes on the device.
struct Region {
  DevicePointer pointer = 0;
  int64_t bytes = 0;
};

/// A storage with canary bytes before and after it (empty where a page without
/// memory is).
struct Allocation {
  Region storage;
  Region before;
  Region after;
  uint64_t handle = 0;  ///< the runtime's
};

/// One value of the kernel's full argument list.
struct KernelValue {
  ArgumentSpec::Kind kind = ArgumentSpec::Kind::kInt;
  DevicePointer pointer = 0;
  int64_t int_value = 0;
  double float_value = 0;
};

struct LaunchRequest {
  int kernel = -1;  ///< of Load
  std::vector<KernelValue> arguments;
};

struct CompareRequest {
  DevicePointer candidate = 0;
  DevicePointer reference = 0;
  DevicePointer twin = 0;          ///< a double an element, or 0 for none
  DevicePointer conditioning = 0;  ///< a float an element, or 0 for none
  int64_t count = 0;               ///< elements
  DType dtype = DType::kFloat32;
  int perturbations = 0;
  int poison = -1;  ///< which poison both started from, -1 for none
};

class KernelRuntime {
 public:
  virtual ~KernelRuntime() = default;

  virtual Result<DeviceFacts> Facts() = 0;
  /// Bytes that can still be allocated.
  virtual Result<int64_t> FreeMemory() = 0;

  virtual Result<Allocation> Allocate(int64_t bytes, Placement placement) = 0;
  virtual void Free(const Allocation& allocation) = 0;
  virtual Status CopyToDevice(DevicePointer to, const void* from, int64_t bytes) = 0;
  virtual Status CopyToHost(void* to, DevicePointer from, int64_t bytes) = 0;
  virtual Status CopyOnDevice(DevicePointer to, DevicePointer from, int64_t bytes) = 0;

  /// Reads a program's binary and prepares its launches; a handle.
  virtual Result<int> Load(const Program& program) = 0;
  virtual void Unload(int kernel) = 0;
  virtual Status Launch(const LaunchRequest& request) = 0;
  virtual Status Synchronize() = 0;

  virtual Status FillBytes(Region region, uint8_t value) = 0;
  virtual Status Generate(DevicePointer to, const KoptDraw& draw) = 0;
  virtual Status Poison(DevicePointer to, int64_t count, DType dtype, int which) = 0;
  /// `count` floats of `dtype` as doubles.
  virtual Status Widen(DevicePointer to, DevicePointer from, int64_t count, DType dtype) = 0;
  /// Adds one run, perturbed by `steps` ulps, to the conditioning of each element.
  virtual Status AddConditioning(DevicePointer conditioning, DevicePointer perturbed,
                                 DevicePointer reference, int64_t count, DType dtype,
                                 int steps) = 0;
  virtual Result<std::vector<KoptStats>> Compare(std::span<const CompareRequest> requests) = 0;
  /// A 64-bit checksum a region, of every byte and its place.
  virtual Result<std::vector<uint64_t>> Checksums(std::span<const Region> regions) = 0;

  /// Puts other data in the L2 cache.
  virtual Status FlushL2() = 0;
  /// Reads regions, so that they are in the L2 cache as far as they fit.
  virtual Status Touch(std::span<const Region> regions) = 0;
  /// Launches recorded once, then started as one; a handle.
  virtual Result<int> MakeGraph(std::span<const LaunchRequest> launches) = 0;
  virtual void FreeGraph(int graph) = 0;
  /// Starts a graph after all that was issued; microseconds on the device.
  virtual Result<double> TimeGraph(int graph) = 0;
};

}  // namespace kernelopt
