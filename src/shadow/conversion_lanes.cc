#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "device/element_code.h"
#include "shadow/lane_loops.h"

namespace kernelopt {
namespace {

// --- f16 and bf16 as bits. Branches that both sides of a select can take, so that
// loops of them vectorise.

uint32_t RoundToBf16(uint32_t bits) {  // to the nearest, ties to even; the upper half
  const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return nan ? (bits >> 16) | 0x40 : rounded >> 16;
}

uint32_t FloatToHalf(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7FFFFFFF;
  // Normal: the exponent moves by 112, and the 13 last bits are rounded away.
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal: adding one half rounds at the place of the last bit kept.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                         std::bit_cast<uint32_t>(0.5f);
  uint32_t half = magnitude < (113u << 23) ? small : normal;
  half = magnitude >= 0x477FF000 ? 0x7C00 : half;
  half = magnitude > 0x7F800000 ? 0x7E00 : half;
  return sign | half;
}

uint32_t HalfToFloat(uint32_t half) {
  const uint32_t sign = (half & 0x8000) << 16, magnitude = half & 0x7FFF;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) + (224u << 23);
  const uint32_t small = std::bit_cast<uint32_t>(
      static_cast<float>(static_cast<int32_t>(magnitude)) * 5.9604644775390625e-8f);  // 2^-24
  return sign | (magnitude < 0x400 ? small : magnitude >= 0x7C00 ? special : normal);
}

/// A double as a short float in one rounding.
float ShortOf(double value, ShadowKind kind) {
  const int dtype = kind == ShadowKind::kF16 ? KOPT_F16 : KOPT_BF16;
  return static_cast<float>(KoptDecode(KoptEncode(value, dtype), dtype));
}

bool IsShort(ShadowKind kind) {
  return kind == ShadowKind::kF16 || kind == ShadowKind::kBF16;
}

template <typename T>
void Select(const LaneOperands& o) {
  const uint8_t* chosen = static_cast<const uint8_t*>(o.a);
  const T* b = static_cast<const T*>(o.b);
  const T* c = static_cast<const T*>(o.c);
  T* __restrict out = static_cast<T*>(o.out);
  if (o.a_uniform) {
    const T* from = chosen[0] ? b : c;
    const int64_t step = (chosen[0] ? o.b_uniform : o.c_uniform) ? 0 : 1;
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = from[i * step];
  } else if (o.b_uniform && o.c_uniform) {
    const T x = b[0], y = c[0];
    for (int64_t i = 0; i < o.lanes; ++i) out[i] = chosen[i] ? x : y;
  } else if (o.b_uniform) {
    const T x = b[0];
    for (int64_t i = 0; i < o.lanes; ++i) {
      const T y = c[i];
      out[i] = chosen[i] ? x : y;
    }
  } else if (o.c_uniform) {
    const T y = c[0];
    for (int64_t i = 0; i < o.lanes; ++i) {
      const T x = b[i];
      out[i] = chosen[i] ? x : y;
    }
  } else {
    for (int64_t i = 0; i < o.lanes; ++i) {
      const T x = b[i], y = c[i];
      out[i] = chosen[i] ? x : y;
    }
  }
}

/// Toward zero; what is out of range becomes the nearest integer, NaN becomes 0, as the
/// GPU's conversion has it.
template <typename To, typename From>
To Saturate(From x) {
  constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
  if (x != x) return 0;
  if (x <= kLow) return std::numeric_limits<To>::min();
  // The largest integer may have been rounded up to a power of two.
  if (x >= kHigh) return std::numeric_limits<To>::max();
  return static_cast<To>(x);
}

void ToInteger(const ShadowInstruction& instruction, const LaneOperands& o) {
  WithFloat(instruction.kind, [&](auto from_zero) {
    WithInteger(instruction.out_kind, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      using Unsigned = std::make_unsigned_t<To>;
      if (instruction.op == ShadowOp::kFToUnsigned)
        return UnaryLoop<From, To>(
            o, [](From x) { return static_cast<To>(Saturate<Unsigned, From>(x)); });
      // Bytes are converted as 16 bits and cut.
      if constexpr (sizeof(To) == 1) {
        return UnaryLoop<From, To>(
            o, [](From x) { return static_cast<To>(Saturate<int16_t, From>(x)); });
      } else {
        return UnaryLoop<From, To>(o, [](From x) { return Saturate<To, From>(x); });
      }
    });
  });
  if (instruction.out_kind != ShadowKind::kI1) return;
  uint8_t* out = static_cast<uint8_t*>(o.out);
  for (int64_t i = 0; i < o.lanes; ++i) out[i] = out[i] & 1;
}

void ToFloat(const ShadowInstruction& instruction, const LaneOperands& o) {
  const bool is_signed = instruction.op == ShadowOp::kSignedToF;
  const ShadowKind kind = instruction.kind, to = instruction.out_kind;
  const auto convert = [&]<typename Int>(Int) {
    if (IsShort(to)) {
      return UnaryLoop<Int, float>(o, [to](Int x) { return ShortOf(static_cast<double>(x), to); });
    }
    WithFloat(to, [&](auto zero) {
      using To = decltype(zero);
      UnaryLoop<Int, To>(o, [](Int x) { return static_cast<To>(x); });
    });
  };
  if (kind == ShadowKind::kI1 && is_signed) {
    // A signed true is -1.
    WithFloat(to, [&](auto zero) {
      using To = decltype(zero);
      UnaryLoop<uint8_t, To>(o, [](uint8_t x) { return x ? To(-1) : To(0); });
    });
    return;
  }
  WithInteger(kind, [&](auto zero) {
    using Int = decltype(zero);
    if (is_signed)
      convert(Int{});
    else
      convert(std::make_unsigned_t<Int>{});
  });
}

void ConvertFloat(const ShadowInstruction& instruction, const LaneOperands& o) {
  const ShadowKind from = instruction.kind, to = instruction.out_kind;
  if (to == ShadowKind::kF64) {
    if (from == ShadowKind::kF64) return UnaryLoop<double, double>(o, [](double x) { return x; });
    return UnaryLoop<float, double>(o, [](float x) { return static_cast<double>(x); });
  }
  if (from == ShadowKind::kF64) {
    if (IsShort(to)) return UnaryLoop<double, float>(o, [to](double x) { return ShortOf(x, to); });
    return UnaryLoop<double, float>(o, [](double x) { return static_cast<float>(x); });
  }
  UnaryLoop<float, float>(o, [](float x) { return x; });
  if (IsShort(to) && from != to) RoundLanes(to, static_cast<float*>(o.out), o.lanes);
}

void ConvertInteger(const ShadowInstruction& instruction, const LaneOperands& o) {
  const bool is_signed = instruction.op == ShadowOp::kExtendS;
  const bool from_bool = instruction.kind == ShadowKind::kI1;
  WithInteger(instruction.kind, [&](auto from_zero) {
    WithInteger(instruction.out_kind, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      using Unsigned = std::make_unsigned_t<From>;
      if (is_signed && from_bool)
        UnaryLoop<From, To>(o, [](From x) { return static_cast<To>(-static_cast<To>(x)); });
      else if (is_signed || instruction.op == ShadowOp::kTruncateI)
        UnaryLoop<From, To>(o, [](From x) { return static_cast<To>(x); });
      else
        UnaryLoop<From, To>(o, [](From x) { return static_cast<To>(static_cast<Unsigned>(x)); });
    });
  });
  if (instruction.out_kind != ShadowKind::kI1) return;
  uint8_t* out = static_cast<uint8_t*>(o.out);
  for (int64_t i = 0; i < o.lanes; ++i) out[i] &= 1;
}

void Bitcast(const ShadowInstruction& instruction, const LaneOperands& o) {
  const ShadowKind from = instruction.kind, to = instruction.out_kind;
  if (IsShort(from) && IsShort(to)) {
    return UnaryLoop<float, float>(o, [&](float x) {
      uint16_t bits = 0;
      float out = 0;
      ToMemory(from, &x, &bits, 1);
      FromMemory(to, &bits, &out, 1);
      return out;
    });
  }
  if (IsShort(from)) {
    return UnaryLoop<float, int16_t>(o, [&](float x) {
      int16_t bits = 0;
      ToMemory(from, &x, &bits, 1);
      return bits;
    });
  }
  if (IsShort(to)) {
    return UnaryLoop<int16_t, float>(o, [&](int16_t bits) {
      float out = 0;
      FromMemory(to, &bits, &out, 1);
      return out;
    });
  }
  CopyLanes(SlotBytes(to), o.out, o.a, o.a_uniform, o.lanes);
}

void Classify(const ShadowInstruction& instruction, const LaneOperands& o) {
  WithFloat(instruction.kind, [&](auto from_zero) {
    WithInteger(instruction.out_kind, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      UnaryLoop<From, To>(o, [&](From x) {
        switch (instruction.op) {
          case ShadowOp::kIsNan:
            return static_cast<To>(x != x);
          case ShadowOp::kIsInf:
            return static_cast<To>(std::fabs(x) > std::numeric_limits<From>::max());
          case ShadowOp::kIsFinite:
            return static_cast<To>(std::fabs(x) <= std::numeric_limits<From>::max());
          case ShadowOp::kSignBit:
            return static_cast<To>(std::signbit(x));
          default:
            return static_cast<To>(Saturate<int64_t, From>(std::nearbyint(x)));
        }
      });
    });
  });
}

}  // namespace

void RoundLanes(ShadowKind kind, float* values, int64_t lanes) {
  if (kind == ShadowKind::kBF16) {
    for (int64_t i = 0; i < lanes; ++i)
      values[i] = std::bit_cast<float>(RoundToBf16(std::bit_cast<uint32_t>(values[i])) << 16);
  } else {
    for (int64_t i = 0; i < lanes; ++i)
      values[i] =
          std::bit_cast<float>(HalfToFloat(FloatToHalf(std::bit_cast<uint32_t>(values[i]))));
  }
}

void FromMemory(ShadowKind kind, const void* memory, void* slot, int64_t lanes) {
  if (!IsShort(kind)) {
    std::memcpy(slot, memory, static_cast<size_t>(lanes * SlotBytes(kind)));
    if (kind == ShadowKind::kI1) {
      uint8_t* bits = static_cast<uint8_t*>(slot);
      for (int64_t i = 0; i < lanes; ++i) bits[i] = bits[i] != 0;
    }
    return;
  }
  const uint16_t* from = static_cast<const uint16_t*>(memory);
  uint32_t* to = static_cast<uint32_t*>(slot);
  if (kind == ShadowKind::kBF16)
    for (int64_t i = 0; i < lanes; ++i) to[i] = static_cast<uint32_t>(from[i]) << 16;
  else
    for (int64_t i = 0; i < lanes; ++i) to[i] = HalfToFloat(from[i]);
}

void ToMemory(ShadowKind kind, const void* slot, void* memory, int64_t lanes) {
  if (!IsShort(kind)) {
    std::memcpy(memory, slot, static_cast<size_t>(lanes * SlotBytes(kind)));
    return;
  }
  const uint32_t* from = static_cast<const uint32_t*>(slot);
  uint16_t* to = static_cast<uint16_t*>(memory);
  if (kind == ShadowKind::kBF16)
    for (int64_t i = 0; i < lanes; ++i) to[i] = static_cast<uint16_t>(RoundToBf16(from[i]));
  else
    for (int64_t i = 0; i < lanes; ++i) to[i] = static_cast<uint16_t>(FloatToHalf(from[i]));
}

void RunConversionLanes(const ShadowInstruction& instruction, const LaneOperands& o) {
  switch (instruction.op) {
    case ShadowOp::kSelect:
      switch (SlotBytes(instruction.out_kind)) {
        case 1:
          return Select<uint8_t>(o);
        case 2:
          return Select<uint16_t>(o);
        case 4:
          return Select<uint32_t>(o);
        default:
          return Select<uint64_t>(o);
      }
    case ShadowOp::kExtendS:
    case ShadowOp::kExtendU:
    case ShadowOp::kTruncateI:
      return ConvertInteger(instruction, o);
    case ShadowOp::kConvertF:
      return ConvertFloat(instruction, o);
    case ShadowOp::kSignedToF:
    case ShadowOp::kUnsignedToF:
      return ToFloat(instruction, o);
    case ShadowOp::kFToSigned:
    case ShadowOp::kFToUnsigned:
      return ToInteger(instruction, o);
    case ShadowOp::kBitcast:
      return Bitcast(instruction, o);
    default:
      return Classify(instruction, o);
  }
}

}  // namespace kernelopt
