#include <cmath>
#include <limits>

#include "shadow/lane_loops.h"

namespace kernelopt {
namespace {

/// Division truncates; by zero it gives -1, and the remainder the dividend: no trap,
/// and as good as any value (the GPU's is unspecified).
template <typename T>
T DivS(T a, T b) {
  if (b == 0) return T(-1);
  if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <typename T>
T RemS(T a, T b) {
  if (b == 0) return a;
  if (b == -1) return 0;
  return static_cast<T>(a % b);
}

bool IsPowerOfTwo(int64_t x) {
  return x > 0 && (x & (x - 1)) == 0;
}

/// Quotient and remainder by one positive divisor, without the machine's slow division.
template <bool kRemainder, typename T>
void DivideByOne(const LaneOperands& o) {
  using U = std::make_unsigned_t<T>;
  const T* a = static_cast<const T*>(o.a);
  T* __restrict out = static_cast<T*>(o.out);
  const T d = *static_cast<const T*>(o.b);
  if (IsPowerOfTwo(d)) {
    const int shift = __builtin_ctzll(static_cast<uint64_t>(d));
    const int top = 8 * static_cast<int>(sizeof(T)) - 1;
    const U low = static_cast<U>(d - 1);
    for (int64_t i = 0; i < o.lanes; ++i) {
      // Toward zero: a negative dividend is moved up first.
      const T x = static_cast<T>(static_cast<U>(a[i]) + (static_cast<U>(a[i] >> top) & low));
      if constexpr (kRemainder)
        out[i] = static_cast<T>(static_cast<U>(a[i]) - (static_cast<U>(x >> shift) << shift));
      else
        out[i] = static_cast<T>(x >> shift);
    }
    return;
  }
  if constexpr (sizeof(T) == 4) {
    // Exact: the quotient of two 32-bit integers is never within 2^-53 of the next one
    // without being it.
    const double divisor = d;
    for (int64_t i = 0; i < o.lanes; ++i) {
      const T q = static_cast<T>(static_cast<double>(a[i]) / divisor);
      out[i] = kRemainder
                   ? static_cast<T>(static_cast<U>(a[i]) - static_cast<U>(q) * static_cast<U>(d))
                   : q;
    }
    return;
  }
  for (int64_t i = 0; i < o.lanes; ++i) out[i] = static_cast<T>(kRemainder ? a[i] % d : a[i] / d);
}

template <typename T>
void Integers(ShadowOp op, const LaneOperands& o) {
  using U = std::make_unsigned_t<T>;
  constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  const auto as_unsigned = [&](auto f) {
    BinaryLoop<T, T>(
        o, [f](T a, T b) { return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b))); });
  };
  switch (op) {
    case ShadowOp::kAdd:
      return as_unsigned([](U a, U b) { return static_cast<U>(a + b); });
    case ShadowOp::kSub:
      return as_unsigned([](U a, U b) { return static_cast<U>(a - b); });
    case ShadowOp::kMul:
      // Short ones would be multiplied as signed ints.
      return as_unsigned([](U a, U b) {
        return static_cast<U>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      });
    case ShadowOp::kDivS:
      if (o.b_uniform && !o.a_uniform && *static_cast<const T*>(o.b) > 0)
        return DivideByOne<false, T>(o);
      return BinaryLoop<T, T>(o, DivS<T>);
    case ShadowOp::kRemS:
      if (o.b_uniform && !o.a_uniform && *static_cast<const T*>(o.b) > 0)
        return DivideByOne<true, T>(o);
      return BinaryLoop<T, T>(o, RemS<T>);
    case ShadowOp::kDivU:
      return as_unsigned(
          [](U a, U b) { return b == 0 ? static_cast<U>(-1) : static_cast<U>(a / b); });
    case ShadowOp::kRemU:
      return as_unsigned([](U a, U b) { return b == 0 ? a : static_cast<U>(a % b); });
    case ShadowOp::kAnd:
      return as_unsigned([](U a, U b) { return static_cast<U>(a & b); });
    case ShadowOp::kOr:
      return as_unsigned([](U a, U b) { return static_cast<U>(a | b); });
    case ShadowOp::kXor:
      return as_unsigned([](U a, U b) { return static_cast<U>(a ^ b); });
    case ShadowOp::kShl:  // too far gives what shifting everything out does, as in PTX
      return as_unsigned([](U a, U b) { return b >= kBits ? U{0} : static_cast<U>(a << b); });
    case ShadowOp::kShrU:
      return as_unsigned([](U a, U b) { return b >= kBits ? U{0} : static_cast<U>(a >> b); });
    case ShadowOp::kShrS:
      return BinaryLoop<T, T>(o, [](T a, T b) {
        const U by = static_cast<U>(b);
        return static_cast<T>(a >> (by >= kBits ? kBits - 1 : static_cast<int>(by)));
      });
    case ShadowOp::kMinS:
      return BinaryLoop<T, T>(o, [](T a, T b) { return a < b ? a : b; });
    case ShadowOp::kMaxS:
      return BinaryLoop<T, T>(o, [](T a, T b) { return a > b ? a : b; });
    case ShadowOp::kMinU:
      return as_unsigned([](U a, U b) { return a < b ? a : b; });
    case ShadowOp::kMaxU:
      return as_unsigned([](U a, U b) { return a > b ? a : b; });
    case ShadowOp::kMulHighU:
      return as_unsigned(
          [](U a, U b) { return static_cast<U>(static_cast<unsigned __int128>(a) * b >> kBits); });
    case ShadowOp::kMulHighS:
      return BinaryLoop<T, T>(
          o, [](T a, T b) { return static_cast<T>(static_cast<__int128>(a) * b >> kBits); });
    default:  // kAbs
      return UnaryLoop<T, T>(o,
                             [](T a) { return a < 0 ? static_cast<T>(0 - static_cast<U>(a)) : a; });
  }
}

template <typename T>
void Compare(ShadowPredicate predicate, const LaneOperands& o) {
  using P = ShadowPredicate;
  using U = std::make_unsigned_t<T>;
  const auto with = [&](auto f) {
    BinaryLoop<T, uint8_t>(o, [f](T a, T b) { return static_cast<uint8_t>(f(a, b)); });
  };
  const auto as_unsigned = [&](auto f) {
    with([f](T a, T b) { return f(static_cast<U>(a), static_cast<U>(b)); });
  };
  switch (predicate) {
    case P::kEq:
      return with([](T a, T b) { return a == b; });
    case P::kNe:
      return with([](T a, T b) { return a != b; });
    case P::kSlt:
      return with([](T a, T b) { return a < b; });
    case P::kSle:
      return with([](T a, T b) { return a <= b; });
    case P::kSgt:
      return with([](T a, T b) { return a > b; });
    case P::kSge:
      return with([](T a, T b) { return a >= b; });
    case P::kUlt:
      return as_unsigned([](U a, U b) { return a < b; });
    case P::kUle:
      return as_unsigned([](U a, U b) { return a <= b; });
    case P::kUgt:
      return as_unsigned([](U a, U b) { return a > b; });
    default:
      return as_unsigned([](U a, U b) { return a >= b; });
  }
}

template <typename T>
void CompareFloats(ShadowPredicate predicate, const LaneOperands& o) {
  using P = ShadowPredicate;
  const auto with = [&](auto f) {
    BinaryLoop<T, uint8_t>(o, [f](T a, T b) { return static_cast<uint8_t>(f(a, b)); });
  };
  switch (predicate) {
    case P::kOeq:
      return with([](T a, T b) { return a == b; });
    case P::kOgt:
      return with([](T a, T b) { return a > b; });
    case P::kOge:
      return with([](T a, T b) { return a >= b; });
    case P::kOlt:
      return with([](T a, T b) { return a < b; });
    case P::kOle:
      return with([](T a, T b) { return a <= b; });
    case P::kOne:
      return with([](T a, T b) { return a < b || a > b; });
    case P::kOrd:
      return with([](T a, T b) { return a == a && b == b; });
    case P::kUeq:
      return with([](T a, T b) { return !(a < b || a > b); });
    case P::kUfGt:
      return with([](T a, T b) { return !(a <= b); });
    case P::kUfGe:
      return with([](T a, T b) { return !(a < b); });
    case P::kUfLt:
      return with([](T a, T b) { return !(a >= b); });
    case P::kUfLe:
      return with([](T a, T b) { return !(a > b); });
    case P::kUne:
      return with([](T a, T b) { return a != b; });
    case P::kUno:
      return with([](T a, T b) { return a != a || b != b; });
    default:
      return with([](T, T) { return true; });
  }
}

}  // namespace

void RunIntegerLanes(ShadowOp op, ShadowKind kind, const LaneOperands& operands) {
  WithInteger(kind, [&](auto zero) { Integers<decltype(zero)>(op, operands); });
  if (kind != ShadowKind::kI1) return;
  uint8_t* out = static_cast<uint8_t*>(operands.out);
  for (int64_t i = 0; i < operands.lanes; ++i) out[i] &= 1;
}

void RunCompareLanes(ShadowKind kind, ShadowPredicate predicate, const LaneOperands& operands) {
  using P = ShadowPredicate;
  if (IsFloat(kind))
    return WithFloat(kind, [&](auto zero) { CompareFloats<decltype(zero)>(predicate, operands); });
  if (kind == ShadowKind::kI1) {
    // A signed bool is 0 or -1: the order is the other way round.
    if (predicate == P::kSlt)
      predicate = P::kUgt;
    else if (predicate == P::kSle)
      predicate = P::kUge;
    else if (predicate == P::kSgt)
      predicate = P::kUlt;
    else if (predicate == P::kSge)
      predicate = P::kUle;
  }
  WithInteger(kind, [&](auto zero) { Compare<decltype(zero)>(predicate, operands); });
}

void RunAddPointerLanes(ShadowKind offset_kind, int64_t bytes, const LaneOperands& o) {
  const int64_t* a = static_cast<const int64_t*>(o.a);
  int64_t* __restrict out = static_cast<int64_t*>(o.out);
  WithInteger(offset_kind, [&](auto zero) {
    using T = decltype(zero);
    const T* b = static_cast<const T*>(o.b);
    const auto sum = [bytes](int64_t base, T offset) {
      return static_cast<int64_t>(static_cast<uint64_t>(base) +
                                  static_cast<uint64_t>(static_cast<int64_t>(offset)) *
                                      static_cast<uint64_t>(bytes));
    };
    if (o.a_uniform) {
      const int64_t base = a[0];
      if (o.b_uniform) {
        for (int64_t i = 0; i < o.lanes; ++i) out[i] = sum(base, b[0]);
      } else if (sizeof(T) < 8) {
        // A small factor: products of 32 bits.
        for (int64_t i = 0; i < o.lanes; ++i) out[i] = base + static_cast<int64_t>(b[i]) * bytes;
      } else {
        for (int64_t i = 0; i < o.lanes; ++i) out[i] = sum(base, b[i]);
      }
    } else if (o.b_uniform) {
      for (int64_t i = 0; i < o.lanes; ++i) out[i] = sum(a[i], b[0]);
    } else {
      for (int64_t i = 0; i < o.lanes; ++i) out[i] = sum(a[i], b[i]);
    }
  });
}

}  // namespace kernelopt
