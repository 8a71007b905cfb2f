// What a kernel does with the memory behind each of its pointer parameters.
//
// A pointer is followed from the parameters through address arithmetic, views,
// loops, branches and selects to every load, store and atomic. Names play no
// part: argument names lie. Where a pointer can't be followed (an integer made
// into a pointer, a call, an unknown operation) the whole kernel is "not
// analysable" and is left as the compiler made it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// Uses of one parameter of the entry, in its order. `is_pointer` is false for
/// scalars, which have no uses.
struct PointerUse {
  bool is_pointer = false;
  int loads = 0;    ///< tt.load operations that may read through it
  int stores = 0;   ///< tt.store operations
  int atomics = 0;  ///< tt.atomic_rmw, tt.atomic_cas
  /// An address through it depends on a loaded value (gather, scatter).
  bool indirect = false;
  /// What is loaded through it is a weight of a Welford combination: a reduction divides
  /// it by its sum with another (PyTorch: aten/src/ATen/native/cuda/Normalization.cuh,
  /// torch/_inductor/runtime/triton_helpers.py, welford_combine). Weights count elements
  /// and are never negative; with signs, sums of them cancel and no two orders agree.
  bool weight = false;
};

/// One entry a parameter of the entry function. Error: kUsage
/// "not_analysable", naming the operation and its line.
Result<std::vector<PointerUse>> PointerUses(const TtirModule& module);

/// The parameters that each load, store and atomic may address, by where the operation's
/// text begins (TtirOp::span). Error: as above.
Result<std::map<size_t, std::set<int>>> AddressParameters(const TtirModule& module);

}  // namespace kernelopt
