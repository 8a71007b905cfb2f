#include "triton/config_space.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"

namespace kernelopt {
namespace {

struct AxisRule {
  const char* block;
  const char* numel;
  const char* hint;
  int64_t largest;
};

/// The compiler's largest blocks; masks are left out under the assumption that
/// every block divides them.
constexpr AxisRule kRules[] = {{"XBLOCK", "xnumel", "x", 4096},
                               {"YBLOCK", "ynumel", "y", 1024},
                               {"ZBLOCK", "znumel", "z", 1024},
                               {"R0_BLOCK", "r0_numel", "r0_", 65536},
                               {"R1_BLOCK", "r1_numel", "r1_", 32768}};

int64_t NextPowerOfTwo(int64_t value) {
  return value <= 1 ? 1 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value)));
}

bool IsPowerOfTwo(int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<uint64_t>(value));
}

/// Text that names a configuration, for "seen already".
std::string Key(const LaunchConfig& config) {
  return config.ToString();
}

}  // namespace

LaunchConfig ConfigOfLaunch(const std::map<std::string, int64_t>& recorded) {
  LaunchConfig config;
  for (const auto& [name, value] : recorded) {
    if (name == "num_warps") {
      config.num_warps = static_cast<int>(value);
    } else if (name == "num_stages") {
      config.num_stages = static_cast<int>(value);
    } else if (name == "num_ctas") {
      config.num_ctas = static_cast<int>(value);
    } else if (name == "maxnreg") {
      if (value > 0) config.maxnreg = static_cast<int>(value);
    } else {
      config.constexprs[name] = value;
    }
  }
  return config;
}

ConfigSpace::ConfigSpace(const Kernel& kernel, LaunchConfig compiler,
                         std::map<std::string, int64_t> numels, ConfigLimits limits)
    : compiler_(std::move(compiler)), limits_(limits) {
  for (const AxisRule& rule : kRules) {
    int64_t numel = 1;
    if (auto it = numels.find(rule.numel); it != numels.end()) {
      numel = it->second;
    } else if (auto hint = GetInt(*kernel.size_hints, rule.hint, "size_hints")) {
      numel = *hint;
    }
    bool is_parameter = compiler_.constexprs.contains(rule.block);
    if (is_parameter) {
      axes_.push_back({rule.block, numel, rule.largest});
    } else if (rule.block[0] == 'R') {
      fixed_tile_ *= NextPowerOfTwo(numel);  // persistent: the whole axis
    }
  }
  has_loop_ = kernel.decorator == "reduction";
  limits_.max_tile = std::max(limits_.max_tile, Tile(compiler_));
  limits_.max_per_thread =
      std::max(limits_.max_per_thread, Tile(compiler_) / (32 * compiler_.num_warps));
}

int64_t ConfigSpace::Tile(const LaunchConfig& config) const {
  int64_t tile = fixed_tile_;
  for (const Axis& axis : axes_) {
    auto it = config.constexprs.find(axis.block);
    if (it != config.constexprs.end()) tile *= it->second;
  }
  return tile;
}

bool ConfigSpace::IsLegal(const LaunchConfig& config) const {
  if (config == compiler_) return true;
  if (config.constexprs.size() != compiler_.constexprs.size()) return false;
  for (const auto& [name, value] : config.constexprs) {
    auto axis =
        std::find_if(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.block == name; });
    if (axis == axes_.end()) {
      // A constant that is no block stays as the compiler chose it.
      auto it = compiler_.constexprs.find(name);
      if (it == compiler_.constexprs.end() || it->second != value) return false;
      continue;
    }
    int64_t own = compiler_.constexprs.at(name);
    int64_t most = std::max(own, std::min(axis->largest, NextPowerOfTwo(axis->numel)));
    if (!IsPowerOfTwo(value) || value > most || axis->largest % value != 0) return false;
  }
  if (!IsPowerOfTwo(config.num_warps) || config.num_warps > limits_.max_warps) return false;
  if (config.num_stages < 1 || config.num_stages > 8) return false;
  if (config.num_ctas != compiler_.num_ctas) return false;
  return Tile(config) <= limits_.max_tile &&
         Tile(config) <= limits_.max_per_thread * 32 * config.num_warps;
}

std::vector<LaunchConfig> ConfigSpace::Neighbours(const LaunchConfig& config) const {
  std::vector<LaunchConfig> result;
  auto add = [&](const LaunchConfig& neighbour) {
    if (IsLegal(neighbour)) result.push_back(neighbour);
  };
  for (const Axis& axis : axes_) {
    for (bool up : {true, false}) {
      LaunchConfig neighbour = config;
      int64_t& block = neighbour.constexprs[axis.block];
      if (!up && block == 1) continue;
      block = up ? block * 2 : block / 2;
      add(neighbour);
    }
  }
  for (bool up : {true, false}) {
    LaunchConfig neighbour = config;
    if (!up && config.num_warps == 1) continue;
    neighbour.num_warps = up ? config.num_warps * 2 : config.num_warps / 2;
    add(neighbour);
  }
  return result;
}

std::vector<LaunchConfig> ConfigSpace::Refinements(const LaunchConfig& config) const {
  std::vector<LaunchConfig> result;
  auto add = [&](const LaunchConfig& refined) {
    if (!(refined == config) && IsLegal(refined)) result.push_back(refined);
  };
  for (int warps = 1; warps <= limits_.max_warps; warps *= 2) {
    LaunchConfig refined = config;
    refined.num_warps = warps;
    add(refined);
  }
  if (has_loop_) {
    for (int stages = 1; stages <= 4; ++stages) {
      LaunchConfig refined = config;
      refined.num_stages = stages;
      add(refined);
    }
  }
  // A cap makes room for more CTAs; below 32 registers everything spills.
  for (int cap : {32, 40, 48, 64, 96, 128}) {
    if (static_cast<int64_t>(cap) * 32 * config.num_warps > 65536) continue;
    LaunchConfig refined = config;
    refined.maxnreg = cap;
    add(refined);
  }
  return result;
}

/// Lower is more promising. A guess in logarithms: some 4 to 16 elements a
/// thread, 128 to 512 threads, enough CTAs for every SM and no CTA far larger
/// than the work.
double ConfigSpace::Plausibility(const LaunchConfig& config) const {
  double threads = 32.0 * config.num_warps;
  double per_thread = std::log2(static_cast<double>(Tile(config)) / threads);
  double score = 0;
  if (per_thread < 2) score += 1.2 * (2 - per_thread);
  if (per_thread > 4) score += 1.0 * (per_thread - 4);
  double log_threads = std::log2(threads);
  if (log_threads < 7) score += 0.7 * (7 - log_threads);
  if (log_threads > 9) score += 0.5 * (log_threads - 9);
  double ctas = 1, contiguous = 1;
  for (const Axis& axis : axes_) {
    double block = static_cast<double>(config.constexprs.at(axis.block));
    if (axis.block[0] != 'R') ctas *= std::ceil(static_cast<double>(axis.numel) / block);
    contiguous = std::max(contiguous, block);
  }
  contiguous = std::max(contiguous, static_cast<double>(fixed_tile_));
  double waves = ctas / limits_.sm_count;
  if (waves < 1) score += 1.0 * std::log2(1 / waves);
  // Memory is read in lines of 32 elements; some axis should fill them.
  if (contiguous < 32) score += std::log2(32 / contiguous);
  // A little for being far from what the compiler chose.
  double distance = 0;
  for (const auto& [name, value] : config.constexprs) {
    distance += std::fabs(
        std::log2(static_cast<double>(value) / static_cast<double>(compiler_.constexprs.at(name))));
  }
  return score + 0.05 * distance;
}

std::vector<LaunchConfig> ConfigSpace::Ordered() const {
  std::vector<LaunchConfig> ordered = {compiler_};
  std::set<std::string> seen = {Key(compiler_)};
  for (const LaunchConfig& neighbour : Neighbours(compiler_))
    if (seen.insert(Key(neighbour)).second) ordered.push_back(neighbour);

  // All blocks by all warps, with the compiler's stages.
  std::vector<LaunchConfig> rest = {compiler_};
  for (const Axis& axis : axes_) {
    std::vector<LaunchConfig> wider;
    for (const LaunchConfig& config : rest) {
      for (int64_t block = 1; block <= axis.largest; block *= 2) {
        LaunchConfig next = config;
        next.constexprs[axis.block] = block;
        wider.push_back(std::move(next));
      }
    }
    rest = std::move(wider);
  }
  std::vector<std::pair<double, LaunchConfig>> scored;
  for (const LaunchConfig& config : rest) {
    for (int warps = 1; warps <= limits_.max_warps; warps *= 2) {
      LaunchConfig next = config;
      next.num_warps = warps;
      if (!IsLegal(next) || seen.contains(Key(next))) continue;
      scored.emplace_back(Plausibility(next), std::move(next));
    }
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [score, config] : scored) {
    if (ordered.size() >= limits_.max_configs) break;
    ordered.push_back(std::move(config));
  }
  return ordered;
}

}  // namespace kernelopt
