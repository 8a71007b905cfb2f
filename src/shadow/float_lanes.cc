#include <bit>
#include <cmath>

#include "shadow/lane_loops.h"
#include "shadow/math_functions.h"

namespace kernelopt {
namespace {

/// a * b + c rounded once. The loop is compiled for processors that have the
/// instruction as well; without it the library's function does the same, slowly.
template <typename T>
[[gnu::always_inline]] inline void FmaLoop(const T* a, int64_t as, const T* b, int64_t bs,
                                           const T* c, int64_t cs, T* __restrict out, int64_t lanes,
                                           T product_sign, T sum_sign) {
  if (as == 1 && bs == 1 && cs == 1) {
    for (int64_t i = 0; i < lanes; ++i)
      out[i] = std::fma(product_sign * a[i], b[i], sum_sign * c[i]);
    return;
  }
  for (int64_t i = 0; i < lanes; ++i)
    out[i] = std::fma(product_sign * a[i * as], b[i * bs], sum_sign * c[i * cs]);
}

template <typename T>
void FmaPlain(const T* a, int64_t as, const T* b, int64_t bs, const T* c, int64_t cs, T* out,
              int64_t lanes, T product_sign, T sum_sign) {
  FmaLoop(a, as, b, bs, c, cs, out, lanes, product_sign, sum_sign);
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2,fma")]] void FmaFast(const T* a, int64_t as, const T* b, int64_t bs, const T* c,
                                         int64_t cs, T* out, int64_t lanes, T product_sign,
                                         T sum_sign) {
  FmaLoop(a, as, b, bs, c, cs, out, lanes, product_sign, sum_sign);
}
#endif

template <typename T>
void Fma(uint8_t variant, const LaneOperands& o) {
  const auto run = [&](auto f) {
    f(static_cast<const T*>(o.a), o.a_uniform ? 0 : 1, static_cast<const T*>(o.b),
      o.b_uniform ? 0 : 1, static_cast<const T*>(o.c), o.c_uniform ? 0 : 1, static_cast<T*>(o.out),
      o.lanes, T(variant & 1 ? -1 : 1), T(variant & 2 ? -1 : 1));
  };
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (fast) return run(FmaFast<T>);
#endif
  run(FmaPlain<T>);
}

template <typename T>
void Clamp(bool nan_wins, const LaneOperands& o) {
  const T* a = static_cast<const T*>(o.a);
  const T* low = static_cast<const T*>(o.b);
  const T* high = static_cast<const T*>(o.c);
  T* out = static_cast<T*>(o.out);
  for (int64_t i = 0; i < o.lanes; ++i) {
    const T x = a[o.a_uniform ? 0 : i];
    if (nan_wins && x != x)
      out[i] = x;
    else
      out[i] = MinNumF(MaxNumF(x, low[o.b_uniform ? 0 : i]), high[o.c_uniform ? 0 : i]);
  }
}

template <typename T>
void Floats(ShadowOp op, uint8_t variant, const LaneOperands& o) {
  const auto unary = [&](auto f) { UnaryLoop<T, T>(o, f); };
  const auto binary = [&](auto f) { BinaryLoop<T, T>(o, f); };
  switch (op) {
    case ShadowOp::kAddF:
      return binary([](T a, T b) { return a + b; });
    case ShadowOp::kSubF:
      return binary([](T a, T b) { return a - b; });
    case ShadowOp::kMulF:
      return binary([](T a, T b) { return a * b; });
    case ShadowOp::kDivF:
      return binary([](T a, T b) { return a / b; });
    case ShadowOp::kRemF:
      return binary([](T a, T b) { return std::fmod(a, b); });
    case ShadowOp::kMaximumF:
      return binary(MaximumF<T>);
    case ShadowOp::kMinimumF:
      return binary(MinimumF<T>);
    case ShadowOp::kMaxNumF:
      return binary(MaxNumF<T>);
    case ShadowOp::kMinNumF:
      return binary(MinNumF<T>);
    case ShadowOp::kCopySign:
      return binary([](T a, T b) { return std::copysign(a, b); });
    case ShadowOp::kNegF:
      return unary([](T a) { return -a; });
    case ShadowOp::kAbsF:
      return unary([](T a) { return std::fabs(a); });
    case ShadowOp::kSqrtF:
      return unary([](T a) { return std::sqrt(a); });
    case ShadowOp::kRsqrtF:
      return unary([](T a) { return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a))); });
    case ShadowOp::kFloorF:
      return unary([](T a) { return std::floor(a); });
    case ShadowOp::kCeilF:
      return unary([](T a) { return std::ceil(a); });
    case ShadowOp::kRoundEvenF:
      return unary([](T a) { return std::nearbyint(a); });
    case ShadowOp::kTruncF:
      return unary([](T a) { return std::trunc(a); });
    case ShadowOp::kFma:
      return Fma<T>(variant, o);
    case ShadowOp::kClampF:
    case ShadowOp::kClampFNan:
      return Clamp<T>(op == ShadowOp::kClampFNan, o);
    case ShadowOp::kMath: {
      const MathFunction& function = MathFunctionAt(variant);
      if constexpr (sizeof(T) == 8)
        return unary(function.wide);
      else
        return unary(function.single);
    }
    default: {  // kMath2
      const MathFunction2& function = MathFunction2At(variant);
      if constexpr (sizeof(T) == 8)
        return binary(function.wide);
      else
        return binary(function.single);
    }
  }
}

}  // namespace

void RunFloatLanes(ShadowOp op, ShadowKind kind, uint8_t variant, const LaneOperands& operands) {
  WithFloat(kind, [&](auto zero) { Floats<decltype(zero)>(op, variant, operands); });
  if (kind == ShadowKind::kF16 || kind == ShadowKind::kBF16)
    RoundLanes(kind, static_cast<float*>(operands.out), operands.lanes);
}

}  // namespace kernelopt
