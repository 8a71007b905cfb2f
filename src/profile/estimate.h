// What a model could gain, before anything is searched.
//
//   std::vector<KernelWork> work = CollectWork(capture, modules);
//   ModelEstimate estimate = Estimate(capture, 0, work, uses, speeds);
//   estimate.at_most        // 1.03: "at most 1.03x for this model"
//   estimate.kernels        // in order of gain; the first `worthwhile` are worked on
//
// gain of a kernel = launches x (time - floor), floor = the larger of
// bytes / bandwidth of the level the data is in and the empty kernel's time.
// Bytes are the least that a launch must move: every storage byte once for a
// read and once for a write. It is an estimate, printed as one, and decides
// only the order of work and when to stop; nothing is accepted by it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/judge.h"
#include "program/program.h"
#include "ttir/roles.h"

namespace kernelopt {

struct Kernel;  // inductor/module.h
struct Module;

/// A launch in a capture: indices into variants, graphs, events.
struct CallSite {
  int variant = 0;
  int graph = 0;
  int event = 0;
  auto operator<=>(const CallSite&) const = default;

  /// "default graph 0 event 12"
  std::string ToString(const Capture& capture) const;
};

/// One kernel by canonical key, with every launch of it.
struct KernelWork {
  std::string key;
  std::string name;                ///< of its first appearance
  std::string module;              ///< SHA-256 of the module it first appears in
  const Kernel* kernel = nullptr;  ///< in `modules`, which must outlive it
  std::vector<CallSite> sites;
};

/// Groups all launches of all variants by canonical kernel key, in order of
/// appearance. `modules` maps a module's SHA-256 to its reading. Launches of
/// names that no module defines are left out.
std::vector<KernelWork> CollectWork(const Capture& capture,
                                    const std::map<std::string, Module>& modules);

/// Integer arguments of a launch by parameter name: {"xnumel": 4096, ...}.
std::map<std::string, int64_t> LaunchNumels(const Kernel& kernel, const Event& event);

/// Bytes that one launch must move.
struct LaunchBytes {
  int64_t dram = 0;  ///< of storages that are not in L2 any more, and all writes
  int64_t l2 = 0;    ///< of storages used within the last L2-size bytes
  int64_t total() const { return dram + l2; }
};

/// `uses`: from PointerUses of the compiler's TTIR; empty = every storage is
/// counted once. A parameter that `uses` calls neither loaded nor stored costs
/// nothing. Broadcast dimensions (stride 0) count once, and a load can't touch
/// more elements than the kernel has iterations.
LaunchBytes BytesOfLaunch(const Capture& capture, const CallSite& site, const Kernel& kernel,
                          const std::vector<PointerUse>& uses);

/// Storages of the variant that the events before `site` used within the last
/// L2-size bytes, oldest first.
std::vector<int> RecentStorages(const Capture& capture, const CallSite& site);

/// Least time of a launch, microseconds.
double FloorUs(const LaunchBytes& bytes, const DeviceSpeeds& speeds);

struct KernelEstimate {
  std::string key, name;
  int launches = 0;     ///< a call of the model
  double time_us = 0;   ///< of all its launches
  double floor_us = 0;  ///< the same at the floor
  double gain_us = 0;   ///< time - floor, never below 0
  double share = 0;     ///< gain over the model's time
};

struct ModelEstimate {
  double model_us = 0;                  ///< one call
  double triton_us = 0;                 ///< device time in generated kernels
  double extern_us = 0;                 ///< device time in library calls
  double gain_us = 0;                   ///< of all kernels
  double at_most = 1;                   ///< model_us / (model_us - gain_us)
  std::vector<KernelEstimate> kernels;  ///< largest gain first
  /// Kernels worth working on: what the rest adds up to is under
  /// `stop_share` of the model.
  size_t worthwhile = 0;
  double left_us = 0;  ///< what the rest adds up to
};

/// The estimate of one variant. `uses` by kernel key; a kernel without an
/// entry is counted as BytesOfLaunch says.
ModelEstimate Estimate(const Capture& capture, int variant, const std::vector<KernelWork>& work,
                       const std::map<std::string, std::vector<PointerUse>>& uses,
                       const DeviceSpeeds& speeds, double stop_share = 0.005);

/// "at most 1.03x: 2 of 7 kernels are worth working on; ..."
std::string Summary(const ModelEstimate& estimate);

Json ToJson(const ModelEstimate& estimate);

}  // namespace kernelopt
