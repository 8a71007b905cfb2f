// The device interface on host memory: kernels are C++ functions registered by
// name (a program's record.entry), time is what they say they take. With it the
// runner, the timer, the gates and the search are tested without a GPU.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "device/kernel_runtime.h"

namespace kernelopt {

/// Arguments of one launch, in the kernel's full argument list.
class HostLaunch {
 public:
  HostLaunch(const std::vector<KernelValue>& values, std::array<int64_t, 3> grid)
      : values_(values), grid_(grid) {}
  template <typename T>
  T* Pointer(int argument) const {
    return reinterpret_cast<T*>(values_[static_cast<size_t>(argument)].pointer);
  }
  int64_t Int(int argument) const { return values_[static_cast<size_t>(argument)].int_value; }
  double Float(int argument) const { return values_[static_cast<size_t>(argument)].float_value; }
  const std::array<int64_t, 3>& grid() const { return grid_; }

 private:
  const std::vector<KernelValue>& values_;
  std::array<int64_t, 3> grid_;
};

class HostRuntime : public KernelRuntime {
 public:
  /// Returns false for an illegal access: the device is sick from then on.
  using Kernel = std::function<bool(const HostLaunch&)>;

  explicit HostRuntime(int64_t memory_bytes = int64_t{1} << 30) : memory_bytes_(memory_bytes) {}

  void Register(const std::string& entry, Kernel kernel, double microseconds = 10);
  int64_t allocated_bytes() const { return allocated_; }
  /// What was done for timing, in order: "flush", "touch 4096", "graph 20".
  const std::vector<std::string>& timing_log() const { return timing_log_; }

  Result<DeviceFacts> Facts() override;
  Result<int64_t> FreeMemory() override { return memory_bytes_ - allocated_; }
  Result<Allocation> Allocate(int64_t bytes, Placement placement) override;
  void Free(const Allocation& allocation) override;
  Status CopyToDevice(DevicePointer to, const void* from, int64_t bytes) override;
  Status CopyToHost(void* to, DevicePointer from, int64_t bytes) override;
  Status CopyOnDevice(DevicePointer to, DevicePointer from, int64_t bytes) override;
  Result<int> Load(const Program& program) override;
  void Unload(int kernel) override;
  Status Launch(const LaunchRequest& request) override;
  Status Synchronize() override;
  Status FillBytes(Region region, uint8_t value) override;
  Status Generate(DevicePointer to, const KoptDraw& draw) override;
  Status Poison(DevicePointer to, int64_t count, DType dtype, int which) override;
  Status Widen(DevicePointer to, DevicePointer from, int64_t count, DType dtype) override;
  Status AddConditioning(DevicePointer conditioning, DevicePointer perturbed,
                         DevicePointer reference, int64_t count, DType dtype, int steps) override;
  Result<std::vector<KoptStats>> Compare(std::span<const CompareRequest> requests) override;
  Result<std::vector<uint64_t>> Checksums(std::span<const Region> regions) override;
  Status FlushL2() override;
  Status Touch(std::span<const Region> regions) override;
  Result<int> MakeGraph(std::span<const LaunchRequest> launches) override;
  void FreeGraph(int graph) override;
  Result<double> TimeGraph(int graph) override;

 private:
  struct Registered {
    Kernel kernel;
    double microseconds = 0;
  };
  struct Loaded {
    const Registered* registered = nullptr;
    std::array<int64_t, 3> grid = {1, 1, 1};
  };

  int64_t memory_bytes_;
  int64_t allocated_ = 0;
  bool sick_ = false;
  int next_handle_ = 0;
  std::map<std::string, Registered> registry_;
  std::map<int, Loaded> loaded_;
  std::map<int, std::vector<LaunchRequest>> graphs_;
  std::map<uint64_t, std::unique_ptr<std::vector<char>>> blocks_;
  std::vector<std::string> timing_log_;
};

}  // namespace kernelopt
