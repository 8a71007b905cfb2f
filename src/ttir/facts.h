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
  /// Float types that arithmetic computes in: "f32", "bf16", "f64", "f8E4M3FN".
  /// Loads, stores, constants and conversions alone don't count.
  std::set<std::string> arithmetic_types;
  /// Float types that a value is converted down to (arith.truncf,
  /// tt.fp_to_fp) and that are not merely stored.
  std::set<std::string> narrowed_types;
  /// Input precision of dots with their count: "ieee", "tf32", "tf32x3"...;
  /// the operand type is in front: "f32:tf32".
  std::map<std::string, int> dots;
  int atomics = 0;
  int inline_asm = 0;
  std::set<std::string> extern_symbols;  ///< "__nv_expf"
  int reduces = 0;
  int scans = 0;
  int asserts = 0;
  int loads = 0;
  int stores = 0;
  bool volatile_access = false;
  /// Operations that this project has never seen a compiler emit for a
  /// generated kernel: calls, prints, descriptors, barriers, ptr casts.
  std::set<std::string> unusual_ops;
};

TtirFacts ReadFacts(const TtirModule& module);

}  // namespace kernelopt
