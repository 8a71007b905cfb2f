// The device interface on the CUDA driver API: device 0 of those visible, its
// primary context, one stream. Created when first needed; destroying it gives
// all device memory back, the context's own too.
#pragma once

#include <map>
#include <memory>

#include "device/kernel_runtime.h"
#include "judge/cuda_driver.h"

namespace kernelopt {

class CudaRuntime : public KernelRuntime {
 public:
  /// Errors: kEnvironment "no_gpu", "out_of_memory".
  static Result<std::unique_ptr<CudaRuntime>> Create();
  ~CudaRuntime() override;

  /// What the doctor measures: copies in DRAM and in L2, an empty kernel.
  Result<DeviceSpeeds> MeasureSpeeds();

  Result<DeviceFacts> Facts() override { return facts_; }
  Result<int64_t> FreeMemory() override;
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
  /// Memory of the judge itself that grows to the largest size asked for.
  struct Buffer {
    cuda::Pointer pointer = 0;
    int64_t bytes = 0;
  };
  struct Block {
    cuda::Pointer pointer = 0;  ///< of MemAlloc, or the reserved range
    size_t reserved = 0;        ///< 0: from MemAlloc
    size_t mapped = 0;
    cuda::MemoryHandle memory = 0;
  };
  struct Kernel {
    cuda::Module module = nullptr;
    cuda::Function function = nullptr;
    Program program;
    std::vector<cuda::Pointer> scratch;  ///< one a scratch parameter
  };

  explicit CudaRuntime(const cuda::Driver& driver) : driver_(driver) {}
  Status Open();
  Status ReadFacts();
  Status Check(cuda::Code code, std::string_view doing) const;
  Status Grow(Buffer& buffer, int64_t bytes);
  Result<Allocation> AllocateGuarded(int64_t bytes, Placement placement);
  Status PrepareKernel(Kernel& kernel);
  void DropKernel(Kernel& kernel);
  void DropBlock(Block& block);
  Status LaunchLoaded(const Kernel& kernel, const std::vector<KernelValue>& arguments);
  unsigned BlocksFor(int64_t items) const;
  /// Launches one of kernels.cl.
  template <typename... T>
  Status Own(cuda::Function function, unsigned blocks, T... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    return LaunchOwn(function, blocks, pointers);
  }
  Status LaunchOwn(cuda::Function function, unsigned blocks, void** arguments);
  /// Microseconds of `launch`, recorded `times` times in one graph: the least of
  /// several starts, for one of them.
  template <typename F>
  Result<double> Fastest(int times, F launch);
  template <typename F>
  Result<cuda::GraphExec> Record(F launches);
  Result<double> TimeExec(cuda::GraphExec graph);

  const cuda::Driver& driver_;
  cuda::Device device_ = 0;
  bool retained_ = false;
  DeviceFacts facts_;
  cuda::Stream stream_ = nullptr;
  cuda::Event start_ = nullptr;
  cuda::Event end_ = nullptr;
  cuda::Module own_module_ = nullptr;
  cuda::Function generate_ = nullptr, poison_ = nullptr, widen_ = nullptr, condition_ = nullptr;
  cuda::Function compare_ = nullptr, checksum_ = nullptr, touch_ = nullptr;
  cuda::Function copy_ = nullptr, empty_ = nullptr;
  Buffer partials_;
  Buffer flush_;
  int next_handle_ = 1;
  std::map<uint64_t, Block> blocks_;
  std::map<int, Kernel> kernels_;
  std::map<int, cuda::GraphExec> graphs_;
};

}  // namespace kernelopt
