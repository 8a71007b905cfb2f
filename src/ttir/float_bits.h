// Integers that hold the bits of a float while one of several is selected.
//
// Generated kernels select the one element of a row whose mask is set as
//   bitcast(sum(bitcast(x to an integer) * (mask ? 1 : 0)) to a float)
// which is exact and keeps NaNs. The bits mean nothing on the way, so that the
// same operations on wider integers do the same for a wider float. Any other look
// at the bits of a float is told.
#pragma once

#include <functional>
#include <set>
#include <string_view>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// The integer values of such selections, the masks' zeros and ones included: all
/// that must become 64 bits wide when the floats do. `refuse` makes the error
/// for an operation that does something else with a float's bits.
Result<std::set<ValueId>> FindFloatBits(
    const TtirModule& module, const TtirFunction& entry,
    const std::function<std::unexpected<Error>(const TtirOp& op, std::string_view why)>& refuse);

}  // namespace kernelopt
