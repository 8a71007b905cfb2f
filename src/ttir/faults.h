// Faults planted in the compiler's kernel, to ask whether gate 2 would notice them there
// (gates/power_probe.h).
//
// Each is one edit of the TTIR where the kernel's results depend on it, of a kind that a
// wrong rewrite can have, and large enough that a gate with any power rejects it: a term
// that is a tiny constant is not dropped, and what is lost in a 16-bit result is not
// tried where all results have 16 bits. No fault leaves the storages.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

struct Fault {
  /// mask_short (the last element of an axis left out), last_tile (a loop ends one
  /// iteration early), wrong_pad (masked lanes of a reduction hold another value),
  /// term_dropped (one side of a sum), count_less (a division by N - 1 instead of N),
  /// tf32_input (a float32 load loses 13 bits).
  std::string name;
  int line = 0;         ///< of the TTIR
  int source_line = 0;  ///< of the kernel's source; 0 = not known
  std::string text;     ///< the whole TTIR with the fault
};

/// At most two of each kind, in the order of the list above.
std::vector<Fault> PlantFaults(const TtirModule& module);

}  // namespace kernelopt
