// A replacement: what is judged, stored and shipped in place of a compiler's
// kernel (docs/architecture.md). A candidate until it is certified.
//
// Only `drop_in` is made today: one step, the parameters of the compiler's
// kernel, launched from the unchanged call site. Every other form is carried
// by the type and refused by name where it would have to be run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace kernelopt {

/// How a kernel text is compiled: constexpr arguments and options.
struct LaunchConfig {
  std::map<std::string, int64_t> constexprs;  ///< XBLOCK, R0_BLOCK, ...
  int num_warps = 4;
  int num_stages = 1;
  int num_ctas = 1;
  std::optional<int> maxnreg;  ///< register cap a thread, none = the compiler's choice

  bool operator==(const LaunchConfig&) const = default;

  /// "XBLOCK=64 R0_BLOCK=1024 warps=8 stages=1 maxnreg=64"
  std::string ToString() const;
};

Json ToJson(const LaunchConfig& config);
Result<LaunchConfig> LaunchConfigFromJson(const Json& json);

enum class ReplacementForm { kDropIn, kCallObject, kModuleEdit };

/// Memory of one call that the replacement brings along.
struct Workspace {
  int64_t bytes = 0;
  int64_t alignment = 16;
  std::string init = "none";  ///< none | zeros | ones
};

/// One launch. `kernel_text` is Python source: helper @triton.jit functions
/// and one entry function, no imports and no heuristics decorator; the header
/// is rebuilt from the live source (inductor/splice.h).
struct ReplacementStep {
  std::string kernel_text;
  LaunchConfig config;
  std::array<std::string, 3> grid;  ///< expressions; empty = the kernel's own grid
  bool cooperative = false;
};

struct Replacement {
  std::string kernel_key;  ///< canonical key of the compiler's kernel it replaces
  ReplacementForm form = ReplacementForm::kDropIn;
  std::vector<Workspace> workspaces;
  std::vector<ReplacementStep> steps;
  std::string origin;  ///< which rule or model made it, for instance "configuration"
  std::string change;  ///< one sentence: what was changed and why

  /// Content hash: the same replacement has the same name in every store.
  /// Origin and change do not enter it.
  std::string Id() const;
};

Json ToJson(const Replacement& replacement);
Result<Replacement> ReplacementFromJson(const Json& json);

}  // namespace kernelopt
