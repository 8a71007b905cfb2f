// The float64 twin of a kernel, as text: the reference that gate 2 compares with.
//
//   auto twin = PromoteToFloat64(KOPT_TRY(ReadTtir(text, file)));
//   ... compile twin->text; pass float64 buffers where twin->widened says so
//
// The twin does what the kernel does with every float value in float64, which
// stands for exact arithmetic:
// - A float parameter that is written becomes a pointer to float64, and what is
//   read through it is float64. Others keep their type; what is loaded through
//   them is widened. Float scalars keep their type and are widened at the entry.
// - Conversions between float types vanish, so that rounding in the middle (to
//   bfloat16 and back) is not part of the reference. Constants keep the value
//   that their own type gives them.
// - Integers become floats as in the kernel, in its type, and are widened then.
// - Functions become their float64 counterparts; tt.precise_sqrt and
//   tt.precise_divf become math.sqrt and arith.divf, tt.dot loses its reduced
//   precision, loads and stores stay where they are.
// - Integers, addresses, masks, control flow and parameter order are untouched,
//   and so is the launch.
//
// What depends on a float's bits or has no float64 form is refused, never
// approximated: bitcasts (but for the selection of float_bits.h), eight-bit floats, inline
// assembly, atomics other than an addition, descriptors, calls, and operations that are not known.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

struct Float64Twin {
  std::string text;
  /// One entry a parameter: true where it is a pointer to float64 now and its
  /// storage's contents have to be widened.
  std::vector<bool> widened;
};

/// `shared` are parameters whose storage another parameter writes (a tensor that
/// is passed twice): they become float64 as well, so that both still see the
/// same bytes. Errors: kUsage "not_promotable", naming operation and line.
Result<Float64Twin> PromoteToFloat64(const TtirModule& module, const std::set<int>& shared = {});

/// The float64 counterpart of a function of CUDA's device library
/// ("__nv_expf" -> "__nv_exp"); float64 functions give themselves. Empty when it
/// has none: it works on bits, on neighbours of a number, or is not known.
std::string_view Float64Function(std::string_view symbol);

}  // namespace kernelopt
