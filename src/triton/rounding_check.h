// Gate 1's look at rounding: does a kernel round a value that it computed and
// then go on computing with it?
//
// A kernel that loads and stores bfloat16 narrows and widens all the time; only a
// narrowed value that is widened again, by whatever way it gets there, has lost
// something that the compiler's kernel keeps.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "triton/static_check.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// Float types that a computed value is rounded to before it is widened again.
/// Through selects, shapes, loops and branches; not through memory. Where values
/// of one type meet (a loop, a reduction), all of them count as rounded.
std::set<std::string> TypesRoundedThrough(const TtirModule& module);

/// Code: narrower_rounding, for types that only the candidate rounds through.
std::vector<StaticFinding> CompareRounding(const TtirModule& candidate, const TtirModule& baseline);

}  // namespace kernelopt
