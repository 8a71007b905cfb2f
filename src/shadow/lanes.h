// Operations on arrays of lanes: one switch an instruction, then a loop that the
// compiler vectorises. Operands that are the same in every lane have one element.
#pragma once

#include <cstdint>
#include <span>

#include "shadow/program.h"

namespace kernelopt {

struct LaneOperands {
  void* out = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  bool a_uniform = false, b_uniform = false, c_uniform = false;
  int64_t lanes = 0;
};

/// kAdd ... kAbs, and kAddPointer's sums.
void RunIntegerLanes(ShadowOp op, ShadowKind kind, const LaneOperands& operands);
/// kAddF ... kMath2; short floats are rounded.
void RunFloatLanes(ShadowOp op, ShadowKind kind, uint8_t variant, const LaneOperands& operands);
/// kSelect ... kRoundToLong.
void RunConversionLanes(const ShadowInstruction& instruction, const LaneOperands& operands);
/// out = a + b * bytes, b an i32 or i64.
void RunAddPointerLanes(ShadowKind offset_kind, int64_t bytes, const LaneOperands& operands);
void RunCompareLanes(ShadowKind kind, ShadowPredicate predicate, const LaneOperands& operands);

/// Rounds floats in place to f16 or bf16.
void RoundLanes(ShadowKind kind, float* values, int64_t lanes);

/// Elements in memory to a slot and back.
void FromMemory(ShadowKind kind, const void* memory, void* slot, int64_t lanes);
void ToMemory(ShadowKind kind, const void* slot, void* memory, int64_t lanes);

/// Copies or spreads lanes of `bytes` bytes.
void CopyLanes(int bytes, void* to, const void* from, bool uniform, int64_t lanes);
/// Shapes are of the same rank; axes of one element are repeated.
void BroadcastLanes(int bytes, void* to, std::span<const int64_t> to_shape, const void* from,
                    std::span<const int64_t> from_shape);
void TransposeLanes(int bytes, void* to, const void* from, std::span<const int64_t> from_shape,
                    std::span<const int> order);
/// Reduces [outer, length, inner] with one operation; `work` is overwritten.
void ReduceLanes(ShadowOp op, ShadowKind kind, void* work, void* out, int64_t outer, int64_t length,
                 int64_t inner);
void ScanLanes(ShadowOp op, ShadowKind kind, const void* from, void* out, int64_t outer,
               int64_t length, int64_t inner, bool reverse);
void DotLanes(const ShadowDot& dot, ShadowKind kind, ShadowKind out_kind, const void* a,
              const void* b, const void* c, void* out);

}  // namespace kernelopt
