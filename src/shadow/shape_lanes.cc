#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "shadow/lane_loops.h"

namespace kernelopt {
namespace {

template <typename F>
void WithBytes(int bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

template <typename T>
void Broadcast(T* to, std::span<const int64_t> to_shape, const T* from,
               std::span<const int64_t> from_shape) {
  const int64_t count = to_shape[0];
  int64_t block = 1;  // of `to` below this axis
  for (int64_t size : to_shape.subspan(1)) block *= size;
  const bool repeats = from_shape[0] == 1 && count > 1;
  if (to_shape.size() == 1) {
    if (repeats || count == 1)
      std::fill_n(to, count, from[0]);
    else
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  int64_t from_block = 1;
  for (int64_t size : from_shape.subspan(1)) from_block *= size;
  if (repeats) {
    Broadcast(to, to_shape.subspan(1), from, from_shape.subspan(1));
    for (int64_t i = 1; i < count; ++i)
      std::memcpy(to + i * block, to, static_cast<size_t>(block) * sizeof(T));
    return;
  }
  if (from_block == 1) {  // a column
    for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * block, block, from[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    Broadcast(to + i * block, to_shape.subspan(1), from + i * from_block, from_shape.subspan(1));
}

template <typename T, typename F>
void Reduce(T* work, T* out, int64_t outer, int64_t length, int64_t inner, F f) {
  for (int64_t row = 0; row < outer; ++row) {
    T* __restrict w = work + row * length * inner;
    for (int64_t half = length / 2 * inner; half >= inner && half > 0; half /= 2) {
      const T* upper = w + half;
      for (int64_t i = 0; i < half; ++i) w[i] = f(w[i], upper[i]);
    }
    for (int64_t i = 0; i < inner; ++i) out[row * inner + i] = w[i];
  }
}

template <typename T, typename F>
void Scan(const T* from, T* out, int64_t outer, int64_t length, int64_t inner, bool reverse, F f) {
  for (int64_t row = 0; row < outer; ++row) {
    const T* x = from + row * length * inner;
    T* y = out + row * length * inner;
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = (reverse ? length - 1 - k : k) * inner;
      const int64_t before = reverse ? at + inner : at - inner;
      for (int64_t i = 0; i < inner; ++i)
        y[at + i] = k == 0 ? x[at + i] : f(y[before + i], x[at + i]);
    }
  }
}

template <typename T, typename Run>
void WithOperation(ShadowOp op, Run run) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case ShadowOp::kAddF:
        return run([](T a, T b) { return a + b; });
      case ShadowOp::kMulF:
        return run([](T a, T b) { return a * b; });
      case ShadowOp::kMaximumF:
        return run(MaximumF<T>);
      case ShadowOp::kMinimumF:
        return run(MinimumF<T>);
      case ShadowOp::kMaxNumF:
        return run(MaxNumF<T>);
      default:
        return run(MinNumF<T>);
    }
  } else {
    using U = std::make_unsigned_t<T>;
    const auto as_unsigned = [&](auto f) {
      run([f](T a, T b) { return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b))); });
    };
    switch (op) {
      case ShadowOp::kAdd:
        return as_unsigned([](U a, U b) { return static_cast<U>(a + b); });
      case ShadowOp::kMul:
        return as_unsigned([](U a, U b) {
          return static_cast<U>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        });
      case ShadowOp::kAnd:
        return as_unsigned([](U a, U b) { return static_cast<U>(a & b); });
      case ShadowOp::kOr:
        return as_unsigned([](U a, U b) { return static_cast<U>(a | b); });
      case ShadowOp::kXor:
        return as_unsigned([](U a, U b) { return static_cast<U>(a ^ b); });
      case ShadowOp::kMinS:
        return run([](T a, T b) { return a < b ? a : b; });
      case ShadowOp::kMaxS:
        return run([](T a, T b) { return a > b ? a : b; });
      case ShadowOp::kMinU:
        return as_unsigned([](U a, U b) { return a < b ? a : b; });
      default:
        return as_unsigned([](U a, U b) { return a > b ? a : b; });
    }
  }
}

template <typename F>
void WithKind(ShadowKind kind, F f) {
  if (IsFloat(kind))
    WithFloat(kind, f);
  else
    WithInteger(kind, f);
}

/// The operand bits that a tensor core reads of an f32.
float Tf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if ((bits & 0x7F800000) != 0x7F800000) bits += 0x1000;  // to the nearest, ties away
  bits &= 0xFFFFE000;
  std::memcpy(&x, &bits, 4);
  return x;
}

template <typename In, typename Sum>
void Dot(const ShadowDot& dot, const In* a, const In* b, const Sum* c, Sum* out) {
  std::vector<Sum> row(static_cast<size_t>(dot.n));
  for (int64_t batch = 0; batch < dot.batch; ++batch) {
    for (int64_t i = 0; i < dot.m; ++i) {
      const int64_t at = (batch * dot.m + i) * dot.n;
      std::copy_n(c + at, dot.n, row.data());
      for (int64_t k = 0; k < dot.k; ++k) {
        In x = a[(batch * dot.m + i) * dot.k + k];
        const In* of_b = b + (batch * dot.k + k) * dot.n;
        if constexpr (std::is_same_v<In, float>) {
          if (dot.tf32) {
            x = Tf32(x);
            for (int64_t j = 0; j < dot.n; ++j)
              row[static_cast<size_t>(j)] += static_cast<Sum>(x * Tf32(of_b[j]));
            continue;
          }
        }
        for (int64_t j = 0; j < dot.n; ++j)
          row[static_cast<size_t>(j)] += static_cast<Sum>(x) * static_cast<Sum>(of_b[j]);
      }
      std::copy_n(row.data(), dot.n, out + at);
    }
  }
}

}  // namespace

void CopyLanes(int bytes, void* to, const void* from, bool uniform, int64_t lanes) {
  if (!uniform) {
    std::memmove(to, from, static_cast<size_t>(bytes * lanes));
    return;
  }
  WithBytes(bytes, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(static_cast<T*>(to), lanes, *static_cast<const T*>(from));
  });
}

void BroadcastLanes(int bytes, void* to, std::span<const int64_t> to_shape, const void* from,
                    std::span<const int64_t> from_shape) {
  WithBytes(bytes, [&](auto zero) {
    using T = decltype(zero);
    Broadcast(static_cast<T*>(to), to_shape, static_cast<const T*>(from), from_shape);
  });
}

void TransposeLanes(int bytes, void* to, const void* from, std::span<const int64_t> from_shape,
                    std::span<const int> order) {
  const size_t rank = from_shape.size();
  std::vector<int64_t> strides(rank, 1), shape(rank), steps(rank), at(rank, 0);
  for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * from_shape[i + 1];
  int64_t lanes = 1;
  for (size_t i = 0; i < rank; ++i) {
    shape[i] = from_shape[static_cast<size_t>(order[i])];
    steps[i] = strides[static_cast<size_t>(order[i])];
    lanes *= shape[i];
  }
  WithBytes(bytes, [&](auto zero) {
    using T = decltype(zero);
    const T* source = static_cast<const T*>(from);
    T* target = static_cast<T*>(to);
    int64_t offset = 0;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      target[lane] = source[offset];
      for (size_t axis = rank; axis-- > 0;) {
        offset += steps[axis];
        if (++at[axis] < shape[axis]) break;
        offset -= steps[axis] * shape[axis];
        at[axis] = 0;
      }
    }
  });
}

void ReduceLanes(ShadowOp op, ShadowKind kind, void* work, void* out, int64_t outer, int64_t length,
                 int64_t inner) {
  WithKind(kind, [&](auto zero) {
    using T = decltype(zero);
    WithOperation<T>(op, [&](auto f) {
      Reduce(static_cast<T*>(work), static_cast<T*>(out), outer, length, inner, f);
    });
  });
  if (kind == ShadowKind::kI1)
    for (int64_t i = 0; i < outer * inner; ++i) static_cast<uint8_t*>(out)[i] &= 1;
}

void ScanLanes(ShadowOp op, ShadowKind kind, const void* from, void* out, int64_t outer,
               int64_t length, int64_t inner, bool reverse) {
  WithKind(kind, [&](auto zero) {
    using T = decltype(zero);
    WithOperation<T>(op, [&](auto f) {
      Scan(static_cast<const T*>(from), static_cast<T*>(out), outer, length, inner, reverse, f);
    });
  });
  if (kind == ShadowKind::kI1)
    for (int64_t i = 0; i < outer * length * inner; ++i) static_cast<uint8_t*>(out)[i] &= 1;
}

void DotLanes(const ShadowDot& dot, ShadowKind kind, ShadowKind out_kind, const void* a,
              const void* b, const void* c, void* out) {
  const auto run = [&](auto in, auto sum) {
    using In = decltype(in);
    using Sum = decltype(sum);
    Dot(dot, static_cast<const In*>(a), static_cast<const In*>(b), static_cast<const Sum*>(c),
        static_cast<Sum*>(out));
  };
  if (kind == ShadowKind::kF64) return run(double{}, double{});
  if (kind == ShadowKind::kI8) return run(int8_t{}, int32_t{});
  if (out_kind == ShadowKind::kF64) return run(float{}, double{});
  run(float{}, float{});
  if (out_kind == ShadowKind::kF16 || out_kind == ShadowKind::kBF16)
    RoundLanes(out_kind, static_cast<float*>(out), dot.batch * dot.m * dot.n);
}

}  // namespace kernelopt
