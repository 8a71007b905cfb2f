// The storages of one call site on a device: allocated with canaries, filled
// as the site says, and found again as a kernel's arguments.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/kernel_runtime.h"

namespace kernelopt {

/// Bytes of canary at a side of a storage that has one.
inline constexpr int64_t kCanaryBytes = 64 * 1024;

class SiteMemory {
 public:
  /// Errors: job_error (arguments that name no storage, a contents file that
  /// is missing or has another size), out_of_memory.
  static Result<std::unique_ptr<SiteMemory>> Create(KernelRuntime& runtime, const Site& site,
                                                    Placement placement);
  ~SiteMemory();
  SiteMemory(const SiteMemory&) = delete;
  SiteMemory& operator=(const SiteMemory&) = delete;

  /// Brings every storage to its state before a launch: data (the
  /// `perturbation`-th neighbour of it when not 0), poison number `poison`,
  /// or zeros. What no launch has changed since is left alone.
  Status Prepare(const DataSet& data, int poison, int perturbation = 0);

  /// The kernel's full argument list.
  std::vector<KernelValue> Arguments() const;

  const Site& site() const { return site_; }
  const Region& storage(int index) const {
    return allocations_[static_cast<size_t>(index)].storage;
  }

  /// The storages that must not change, then all canaries; the same order each
  /// time, so that two lists of checksums can be compared.
  const std::vector<Region>& guarded() const { return guarded_; }
  /// The storage that guarded()[i] belongs to, and whether it is a canary.
  int GuardedStorage(size_t i) const { return guarded_storage_[i]; }
  bool GuardedIsCanary(size_t i) const { return i >= unwritten_; }

 private:
  SiteMemory(KernelRuntime& runtime, const Site& site) : runtime_(runtime), site_(site) {}

  struct State {
    bool filled = false;
    DataSet data;
    int poison = -1;
    int perturbation = 0;
  };
  Status Fill(int index, const State& state);

  KernelRuntime& runtime_;
  const Site site_;
  std::vector<Allocation> allocations_;
  std::vector<State> states_;
  std::map<int, std::string> contents_;
  std::vector<Region> guarded_;
  std::vector<int> guarded_storage_;
  size_t unwritten_ = 0;
};

}  // namespace kernelopt
