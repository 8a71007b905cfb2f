// The loops of lanes.h, for its .cc files alone.
#pragma once

#include <type_traits>

#include "shadow/lanes.h"

namespace kernelopt {

template <typename In, typename Out, typename F>
void UnaryLoop(const LaneOperands& o, F f) {
  const In* a = static_cast<const In*>(o.a);
  Out* __restrict out = static_cast<Out*>(o.out);
  if (o.a_uniform) {
    const Out value = f(a[0]);
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = value;
    return;
  }
  for (int64_t i = 0; i < o.lanes; ++i) out[i] = f(a[i]);
}

template <typename In, typename Out, typename F>
void BinaryLoop(const LaneOperands& o, F f) {
  const In* a = static_cast<const In*>(o.a);
  const In* b = static_cast<const In*>(o.b);
  Out* __restrict out = static_cast<Out*>(o.out);
  if (o.a_uniform && o.b_uniform) {
    const Out value = f(a[0], b[0]);
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = value;
  } else if (o.a_uniform) {
    const In x = a[0];
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = f(x, b[i]);
  } else if (o.b_uniform) {
    const In y = b[0];
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = f(a[i], y);
  } else {
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = f(a[i], b[i]);
  }
}

/// Calls `f` with an integer of the kind: f(int32_t{}). Bools are bytes of 0 and 1.
template <typename F>
void WithInteger(ShadowKind kind, F f) {
  switch (kind) {
    case ShadowKind::kI1:
    case ShadowKind::kI8:
      return f(int8_t{});
    case ShadowKind::kI16:
      return f(int16_t{});
    case ShadowKind::kI64:
    case ShadowKind::kPointer:
      return f(int64_t{});
    default:
      return f(int32_t{});
  }
}

template <typename F>
void WithFloat(ShadowKind kind, F f) {
  if (kind == ShadowKind::kF64) return f(double{});
  return f(float{});
}

template <typename T>
T MaximumF(T a, T b) {  // NaN wins; -0 < +0
  if (a != a) return a;
  if (b != b) return b;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <typename T>
T MinimumF(T a, T b) {
  if (a != a) return a;
  if (b != b) return b;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <typename T>
T MaxNumF(T a, T b) {  // a number wins
  if (a != a) return b;
  if (b != b) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <typename T>
T MinNumF(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

}  // namespace kernelopt
