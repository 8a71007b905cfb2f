// The low-level device interface on the shadow device: runner.h checks kernels with
// it as it does on a GPU.
//
// Storages are rules and pages (memory.h), so that a site of any size fits; filling,
// copying, comparing and checksums touch only what was written. Each program runs all
// its instances, or those that SetInstances names: then a comparison is of the elements
// that both sides have written.
//
// A program that does what it may not (evaluator.h) fails its launch with kUsage
// "shadow_finding"; last_finding() says what it was. Nothing can be timed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "device/kernel_runtime.h"
#include "shadow/evaluator.h"

namespace kernelopt {

class ShadowRuntime : public KernelRuntime {
 public:
  /// Which instances of a text in a grid are run; all where nothing is said.
  void SetInstances(const std::string& ttir_path, const std::array<int64_t, 3>& grid,
                    std::vector<ShadowInstance> instances);
  /// Of one launch; beyond it the program counts as endless.
  void SetMostWork(int64_t work) { most_work_ = work; }
  /// Launches after this time are refused: "timeout".
  void SetDeadline(double seconds_from_now);

  const std::optional<ShadowFinding>& last_finding() const { return last_finding_; }
  /// The argument of that launch whose storage it is about; -1 for none.
  int last_argument() const { return last_argument_; }
  const ShadowReport& last_report() const { return last_report_; }
  /// The storage that an address belongs to; null for none.
  const ShadowStorage* StorageAt(DevicePointer pointer) { return memory_.Find(pointer); }
  /// Elements that comparisons looked at, and that their references had written.
  int64_t compared() const { return compared_; }
  int64_t wanted() const { return wanted_; }
  /// Where samples were compared: elements, a few of each storage, that the reference had
  /// written and the candidate's programs left as they were, by the launches' argument.
  const std::map<int, std::set<int64_t>>& left_out() const { return left_out_; }

  Result<DeviceFacts> Facts() override;
  Result<int64_t> FreeMemory() override;
  Result<Allocation> Allocate(int64_t bytes, Placement placement) override;
  void Free(const Allocation& allocation) override;
  Status CopyToDevice(DevicePointer to, const void* from, int64_t bytes) override;
  Status CopyToHost(void* to, DevicePointer from, int64_t bytes) override;
  Status CopyOnDevice(DevicePointer to, DevicePointer from, int64_t bytes) override;
  Result<int> Load(const Program& program) override;
  void Unload(int kernel) override;
  Status Launch(const LaunchRequest& request) override;
  Status Synchronize() override { return {}; }
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
  void FreeGraph(int) override {}
  Result<double> TimeGraph(int graph) override;

 private:
  struct Loaded {
    ShadowProgram program;
    std::vector<bool> written;   ///< by parameter
    std::vector<int> arguments;  ///< by parameter: index into the launch's arguments
    std::array<int64_t, 3> grid = {1, 1, 1};
    std::vector<ShadowInstance> instances;
    bool sampled = false;
  };
  /// Notes elements that the candidate left out of what the reference wrote.
  void NoteLeftOut(DevicePointer candidate, int64_t index);
  /// The storage that begins at `pointer`.
  Result<ShadowStorage*> Whole(DevicePointer pointer);

  ShadowMemory memory_;
  std::map<std::pair<std::string, std::array<int64_t, 3>>, std::vector<ShadowInstance>> plans_;
  std::map<int, Loaded> loaded_;
  int next_handle_ = 0;
  bool sampled_ = false;
  int64_t most_work_ = int64_t{1} << 40;
  double deadline_ = 0;  ///< of the steady clock; 0 = none
  std::optional<ShadowFinding> last_finding_;
  int last_argument_ = -1;
  ShadowReport last_report_;
  int64_t compared_ = 0, wanted_ = 0;
  std::vector<KernelValue> last_arguments_;
  std::map<int, std::set<int64_t>> left_out_;
};

}  // namespace kernelopt
