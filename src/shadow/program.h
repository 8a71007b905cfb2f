// A kernel's TTIR compiled once into a flat list of typed instructions, which
// evaluator.h runs for one program instance after the other.
//
//   TtirModule module = KOPT_TRY(ReadTtir(text, file));
//   ShadowProgram program = KOPT_TRY(CompileShadowProgram(module));
//
// Every SSA value is a slot: an array of lanes of one kind in an instance's arena,
// at an offset that is fixed here; slots whose values are dead share memory. A
// value that is the same in every lane (splats, constants) is stored once
// (`uniform`). Views (expand_dims, reshape) share their operand's slot. What depends
// on neither program ids nor memory is computed once a worker (`prologue`).
// Structured control flow becomes jumps, so that an instance is its arena and a
// place in the code and can be set aside at any instruction.
//
// f16 and bf16 are kept as floats and rounded after each operation, which gives the
// bits of native arithmetic (twice the digits and two more: rounding twice is
// harmless). What has no meaning here is an error, never skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ttir/ttir.h"

namespace kernelopt {

enum class ShadowKind : uint8_t { kI1, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64, kPointer };

/// Bytes of a lane in a slot.
int SlotBytes(ShadowKind kind);
/// Bytes of an element in memory.
int MemoryBytes(ShadowKind kind);
bool IsFloat(ShadowKind kind);

enum class ShadowOp : uint8_t {
  // Integers: a, b.
  kAdd,
  kSub,
  kMul,
  kDivS,
  kDivU,
  kRemS,
  kRemU,
  kAnd,
  kOr,
  kXor,
  kShl,
  kShrS,
  kShrU,
  kMinS,
  kMaxS,
  kMinU,
  kMaxU,
  kMulHighU,
  kMulHighS,
  kAbs,
  // Floats: a, b, c.
  kAddF,
  kSubF,
  kMulF,
  kDivF,
  kRemF,
  kMaximumF,
  kMinimumF,
  kMaxNumF,
  kMinNumF,
  kNegF,
  kAbsF,
  kSqrtF,
  kRsqrtF,
  kFloorF,
  kCeilF,
  kRoundEvenF,
  kTruncF,
  kCopySign,
  kFma,
  kClampF,
  kClampFNan,
  kMath,   ///< variant: index into the table of functions (math_functions.h)
  kMath2,  ///< of two operands
  // a ? b : c, comparisons (variant: ShadowPredicate), conversions.
  kSelect,
  kCompareI,
  kCompareF,
  kExtendS,
  kExtendU,
  kTruncateI,
  kConvertF,
  kSignedToF,
  kUnsignedToF,
  kFToSigned,
  kFToUnsigned,
  kBitcast,
  kIsNan,
  kIsInf,
  kIsFinite,
  kSignBit,
  kRoundToLong,
  // Shapes.
  kCopy,
  kBroadcast,
  kTranspose,
  kMakeRange,
  kJoin,
  kSplit,
  kConcatenate,
  kGather,
  kHistogram,
  // Programs and memory.
  kProgramId,
  kNumPrograms,
  kAddPointer,
  kLoad,
  kStore,
  kAtomic,
  kCompareAndSwap,
  kBarrier,
  kAssert,
  kReduce,
  kScan,
  kDot,
  // Control: `target` is an instruction's index.
  kJump,
  kJumpUnless,
  kLoopTest,  ///< jumps when !(a < b)
  kLoopStep,  ///< a += b, then jumps: the end of an iteration
  kBackEdge,  ///< of scf.while: jumps
  kReturn,
};

enum class ShadowPredicate : uint8_t {
  kFalse,
  kEq,
  kNe,
  kSlt,
  kSle,
  kSgt,
  kSge,
  kUlt,
  kUle,
  kUgt,
  kUge,  // integers
  kOeq,
  kOgt,
  kOge,
  kOlt,
  kOle,
  kOne,
  kOrd,
  kUeq,
  kUfGt,
  kUfGe,
  kUfLt,
  kUfLe,
  kUne,
  kUno,
  kTrue,
};

struct ShadowSlot {
  ShadowKind kind = ShadowKind::kI32;
  bool uniform = false;  ///< one lane stands for all
  std::vector<int64_t> shape;
  int64_t lanes = 1;    ///< of the shape
  int64_t offset = -1;  ///< bytes from the arena's start
  int64_t stored() const { return uniform ? 1 : lanes; }
};

struct ShadowInstruction {
  ShadowOp op = ShadowOp::kReturn;
  ShadowKind kind = ShadowKind::kI32;  ///< of what it computes with
  ShadowKind out_kind = ShadowKind::kI32;
  uint8_t variant = 0;                   ///< predicate, function, axis
  int out = -1, a = -1, b = -1, c = -1;  ///< slots
  int extra = -1;                        ///< index into one of the program's tables, or an axis
  int target = -1;
  int64_t lanes = 0;  ///< stored lanes of `out`
  int line = 0, source_line = 0;
};

/// tt.load, tt.store and atomics.
struct ShadowAccess {
  ShadowKind pointee = ShadowKind::kF32;
  int pointer = -1, value = -1, mask = -1, other = -1;  ///< slots; `value` also of atomics
  int compare = -1;                                     ///< of compare-and-swap
  int result = -1;
  bool is_volatile = false;
  std::string atomic;  ///< "fadd", "max", ...
};

/// tt.reduce and tt.scan: inputs are [outer, length, inner].
struct ShadowReduction {
  int64_t outer = 1, length = 1, inner = 1;
  bool scan = false, reverse = false;
  std::vector<int> inputs, outputs;
  /// The region is one operation on its two arguments; else it is `code`.
  bool is_single = false;
  ShadowOp single = ShadowOp::kAdd;
  std::vector<ShadowInstruction> code;  ///< on as many lanes as are combined at a time
  std::vector<int> left, right, results;
  std::vector<int> work;  ///< a copy of the inputs
};

struct ShadowDot {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool tf32 = false;
};

struct ShadowParameter {
  int slot = -1;
  bool is_pointer = false;
  ShadowKind kind = ShadowKind::kI32;  ///< of a scalar, or of what a pointer leads to
};

struct ShadowOptions {
  /// Contracts a * b + c to one rounding, as ptxas does with enable_fp_fusion.
  bool fuse = true;
};

struct ShadowProgram {
  std::string name;
  std::vector<ShadowParameter> parameters;
  std::vector<ShadowSlot> slots;
  std::vector<ShadowInstruction> prologue;  ///< once a worker
  std::vector<ShadowInstruction> code;
  std::vector<ShadowAccess> accesses;
  std::vector<ShadowReduction> reductions;
  std::vector<ShadowDot> dots;
  std::vector<std::vector<int>> lists;  ///< permutations
  std::vector<std::string> texts;       ///< of assertions
  struct Constant {
    int slot;
    uint64_t bits;  ///< as the slot keeps it
  };
  std::vector<Constant> constants;
  struct Table {
    int slot;
    std::vector<uint64_t> bits;
  };
  std::vector<Table> tables;  ///< constants with a value a lane
  int64_t arena_bytes = 0;
  int64_t largest_lanes = 1;
  /// Instances can wait for each other: it has atomics, volatile loads, or loops
  /// over a loaded condition.
  bool may_wait = false;
  bool has_atomics = false;
  /// Operations whose last bits the hardware may choose otherwise: contracted
  /// multiply-adds, functions, quotients, sums of reductions.
  int unspecified = 0;
  int contracted = 0;  ///< of these, multiply-adds
};

/// Errors: kUsage "not_evaluable", naming the operation and its line.
Result<ShadowProgram> CompileShadowProgram(const TtirModule& module,
                                           const ShadowOptions& options = {});

}  // namespace kernelopt
