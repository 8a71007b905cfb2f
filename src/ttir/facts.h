// Facts about a kernel that gate 1 compares with the compiler's kernel.
//
// They are read off the operations, so neither comments nor names of values or
// functions of the source can change them.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ttir/ttir.h"

namespace kernelopt {

struct TtirFacts {
  /// Float types that arithmetic, reductions and library functions compute in:
  /// "f32", "bf16", "f64". Loads, stores, constants, selects and conversions
  /// don't count.
  std::set<std::string> arithmetic_types;
  /// Float types that something is converted down to, and that conversions
  /// widen again ("f16" in f32 -> f16 -> f32): rounding in the middle.
  std::set<std::string> narrowed_types;
  /// Dots with their count, operand type and input precision: "f32 tf32".
  std::map<std::string, int> dots;
  int atomics = 0;
  int inline_asm = 0;
  std::set<std::string> extern_symbols;  ///< "__nv_expf"
  /// Operations with implementations of different exactness: "math.exp",
  /// "arith.divf", "tt.precise_sqrt".
  std::set<std::string> math_functions;
  int reduces = 0;
  int scans = 0;
  int asserts = 0;
  int loads = 0;
  int stores = 0;
  bool volatile_access = false;
  /// Alignment and contiguity claims on operations (not on parameters, which
  /// come from the call site's guards).
  std::set<std::string> hints;
  /// Operations beyond what generated kernels need: calls, prints,
  /// descriptors, pointers from integers.
  std::set<std::string> unusual_ops;
};

TtirFacts ReadFacts(const TtirModule& module);

}  // namespace kernelopt
