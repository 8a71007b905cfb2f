// The launch configurations of a generated kernel, in the order to try them.
//
//   ConfigSpace space(kernel, compiler_config, numels, limits);
//   for (const LaunchConfig& config : space.Ordered()) ...   // [0] is the compiler's
//   for (const LaunchConfig& config : space.Neighbours(best)) ...
//
// Blocks are powers of two, not beyond the next power of two of the axis's
// numel, and divide the compiler's largest block of the axis (x 4096, y and z
// 1024, r0_ 65536, r1_ 32768): generated code leaves masks out under that
// assumption, so any other block would read and write out of bounds. The
// space contains all that Inductor's coordinate descent can reach from the
// compiler's configuration, up to the tile limit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/replacement.h"

namespace kernelopt {

struct Kernel;  // inductor/module.h

struct ConfigLimits {
  /// Elements of a CTA's tile and of a thread; at least the compiler's own.
  int64_t max_tile = 65536;
  int64_t max_per_thread = 128;
  int max_warps = 32;
  int sm_count = 132;
  size_t max_configs = 4096;
};

/// The configuration that a recorded launch ran in.
LaunchConfig ConfigOfLaunch(const std::map<std::string, int64_t>& recorded);

class ConfigSpace {
 public:
  /// `numels`: integer arguments by name (profile/estimate.h, LaunchNumels).
  /// With several sites whose numels differ, pass the smallest of each.
  ConfigSpace(const Kernel& kernel, LaunchConfig compiler, std::map<std::string, int64_t> numels,
              ConfigLimits limits = {});

  /// Everything, most promising first: the compiler's own, its one-step
  /// neighbours, then the rest by plausibility. No configuration twice.
  std::vector<LaunchConfig> Ordered() const;

  /// One step away: each block doubled and halved, warps doubled and halved.
  std::vector<LaunchConfig> Neighbours(const LaunchConfig& config) const;

  /// Same blocks: other warps, stages (where the kernel has a loop), register caps.
  std::vector<LaunchConfig> Refinements(const LaunchConfig& config) const;

  bool IsLegal(const LaunchConfig& config) const;

  /// Elements of one CTA's tile, the persistent reduction axis counted.
  int64_t Tile(const LaunchConfig& config) const;

 private:
  struct Axis {
    std::string block;  ///< "XBLOCK"
    int64_t numel = 1;
    int64_t largest = 1;
  };
  double Plausibility(const LaunchConfig& config) const;

  std::vector<Axis> axes_;
  int64_t fixed_tile_ = 1;  ///< of axes that are no parameters (persistent reductions)
  bool has_loop_ = false;
  LaunchConfig compiler_;
  ConfigLimits limits_;
};

}  // namespace kernelopt
