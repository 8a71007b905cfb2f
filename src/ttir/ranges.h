// Where a kernel's loads and stores go, for one launch: proven inside the storage,
// proven outside, or not known; and whether two writes can meet.
//
//   LaunchFacts facts{.grid = {64, 1, 1}, .scalars = {{}, {}, 4096}, .elements = {4096, 4096, {}}};
//   RangeReport report = KOPT_TRY(AnalyzeRanges(module, facts));
//
// The analysis follows integers as sums of program ids, lanes and loop
// iterations (linear.h) under each access's mask, and takes wrapping into
// account. Loaded indices, pointers that are chosen or carried by a loop, and
// conditions other than comparisons joined by "and" are not followed: what
// depends on them is "not known", never guessed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "ttir/linear.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// Programs of a grid: `count` from `first` on, along each axis.
struct ProgramBox {
  std::array<int64_t, 3> first = {0, 0, 0};
  std::array<int64_t, 3> count = {1, 1, 1};
};

struct LaunchFacts {
  std::array<int64_t, 3> grid = {1, 1, 1};
  /// One entry a parameter: an integer argument's value, where it is known.
  std::vector<std::optional<int64_t>> scalars;
  /// One entry a parameter: elements behind the pointer that is passed.
  std::vector<std::optional<int64_t>> elements;
  /// The programs of the grid that are asked about; nothing: all.
  std::optional<ProgramBox> programs{};
};

enum class Bounds {
  kInside,   ///< every access is in [0, elements)
  kUnknown,  ///< neither is proven
  kOutside,  ///< some lane of some program certainly is not
};

struct AccessRange {
  enum class Kind { kLoad, kStore, kAtomic };
  Kind kind = Kind::kLoad;
  int line = 0, source_line = 0;
  int parameter = -1;  ///< index of the pointer; -1 where it can't be followed
  Bounds bounds = Bounds::kUnknown;
  Interval offsets;  ///< in elements, where the mask is true; unbounded if not known
  /// Proven: no two of all (program, lane, iteration) touch the same element
  /// with this operation.
  bool injective = false;
};

struct RangeReport {
  std::vector<AccessRange> accesses;  ///< in the order of the text
  /// 64-bit integer additions, multiplications, divisions and the like, and
  /// those of them whose operands and results are proven to fit in 32 bits,
  /// also in lanes that no mask lets through.
  int wide_operations = 0;
  int narrow_operations = 0;
};

/// Errors: kUsage "not_analysable" where there is no single public function or
/// the facts are not of its parameters.
Result<RangeReport> AnalyzeRanges(const TtirModule& module, const LaunchFacts& facts);

}  // namespace kernelopt
