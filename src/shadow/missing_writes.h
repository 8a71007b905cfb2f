// Elements that no program of a grid writes, shown by a sample of its programs.
//
// The sample left an element out that the compiler's kernel writes. Whether one of the
// programs that did not run writes it is asked of the range analysis (ttir/ranges.h): in
// boxes of the grid that are halved until none of their stores reaches the element, or
// only programs of the sample are left. A few programs that may reach it are left to be run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/judge.h"
#include "shadow/evaluator.h"

namespace kernelopt {

struct UnwrittenElement {
  int64_t element = 0;
  std::vector<ShadowInstance> suspects;  ///< programs that may write it, if any does
};

/// Those of `elements` of storage number `storage` that certainly no program writes but,
/// perhaps, a few suspects. `ran` are the programs that ran and did not write them. Empty
/// where stores can't be followed. Errors: those of reading the program's text.
Result<std::vector<UnwrittenElement>> NeverWritten(const Program& program, const Site& site,
                                                   int storage,
                                                   const std::vector<int64_t>& elements,
                                                   const std::vector<ShadowInstance>& ran);

}  // namespace kernelopt
