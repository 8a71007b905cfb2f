// The arithmetic of torch's GridExpr classes (torch/_inductor/runtime/
// triton_heuristics.py), 2.9 to 2.14.
#include <fmt/format.h>

#include "inductor/splice.h"

namespace kernelopt {
namespace {

using Grid = std::array<int64_t, 3>;

constexpr int64_t kMaxY = 65535;  // also of z; torch's get_max_y_grid()
constexpr int64_t kMaxX = 2147483647;

int64_t CeilDiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

class Axes {
 public:
  Axes(const Kernel& kernel, const LaunchConfig& config,
       const std::map<std::string, int64_t>& numels)
      : kernel_(kernel), config_(config), numels_(numels) {}

  // ceildiv(xnumel, XBLOCK). A block that is no parameter of the kernel is 1
  // for the launcher, whatever the configuration says.
  Result<int64_t> Blocks(char axis) const {
    const std::string numel_name = std::string(1, axis) + "numel";
    const std::string block_name = std::string(1, static_cast<char>(axis - 'a' + 'A')) + "BLOCK";
    const auto numel = numels_.find(numel_name);
    if (numel == numels_.end() || numel->second < 0) {
      return Fail(ErrorKind::kUsage, "missing_numel",
                  fmt::format("{}: the launch has no {}, wanted one of at least 0 for its {}",
                              kernel_.name, numel_name, kernel_.grid_type));
    }
    if (!kernel_.FindArgument(block_name)) return numel->second;
    const auto block = config_.constexprs.find(block_name);
    if (block == config_.constexprs.end() || block->second <= 0) {
      return Fail(
          ErrorKind::kUsage, "bad_block",
          fmt::format("{}: the configuration has no {} of at least 1, wanted one for its {}",
                      kernel_.name, block_name, kernel_.grid_type));
    }
    return CeilDiv(numel->second, block->second);
  }

 private:
  const Kernel& kernel_;
  const LaunchConfig& config_;
  const std::map<std::string, int64_t>& numels_;
};

}  // namespace

Result<Grid> ComputeGrid(const Kernel& kernel, const LaunchConfig& config,
                         const std::map<std::string, int64_t>& numels) {
  const Axes axes(kernel, config, numels);
  Grid grid = {1, 1, 1};
  if (kernel.grid_type == "Grid1D") {
    grid[0] = KOPT_TRY(axes.Blocks('x'));
  } else if (kernel.grid_type == "Grid2D") {
    grid = {KOPT_TRY(axes.Blocks('x')), KOPT_TRY(axes.Blocks('y')), 1};
  } else if (kernel.grid_type == "Grid3D") {
    grid = {KOPT_TRY(axes.Blocks('x')), KOPT_TRY(axes.Blocks('y')), KOPT_TRY(axes.Blocks('z'))};
  } else if (kernel.grid_type == "Grid2DWithYZOverflow") {
    grid[0] = KOPT_TRY(axes.Blocks('x'));
    const int64_t y = KOPT_TRY(axes.Blocks('y'));
    grid[2] = CeilDiv(y, kMaxY);
    grid[1] = grid[2] == 0 ? 0 : CeilDiv(y, grid[2]);
  } else {
    return Fail(ErrorKind::kUsage, "unsupported_grid",
                fmt::format("{}: found the grid type '{}', wanted Grid1D, Grid2D, Grid3D or "
                            "Grid2DWithYZOverflow; the compiler's kernel is kept",
                            kernel.name, kernel.grid_type));
  }
  if (grid[0] > kMaxX || grid[1] > kMaxY || grid[2] > kMaxY) {
    return Fail(ErrorKind::kUsage, "grid_too_large",
                fmt::format("{}: the configuration gives a grid of {} x {} x {}, wanted at most "
                            "{} x {} x {}; use larger blocks",
                            kernel.name, grid[0], grid[1], grid[2], kMaxX, kMaxY, kMaxY));
  }
  return grid;
}

}  // namespace kernelopt
