// Arithmetic on single elements, compiled twice: as C++ for the host and as
// OpenCL C for the GPU (src/judge/kernels.cl), so that both give the same bits.
//
// Only operations that IEEE 754 rounds exactly are used (add, subtract,
// multiply, divide, square root, conversions, integers) and both compilers are
// told not to contract them into fused ones. Elements travel as 64-bit patterns
// with a dtype code, the number of device/judge.h's DType. No other header is
// included but <cstdint>, since OpenCL C has none.
#pragma once

#ifdef __OPENCL_C_VERSION__
typedef unsigned long KoptU64;
typedef long KoptI64;
#define KOPT_FUNCTION static inline __attribute__((always_inline))
#define KOPT_BITS_OF_DOUBLE(x) __builtin_astype((double)(x), KoptU64)
#define KOPT_DOUBLE_OF_BITS(x) __builtin_astype((KoptU64)(x), double)
#define KOPT_BITS_OF_FLOAT(x) __builtin_astype((float)(x), unsigned int)
#define KOPT_FLOAT_OF_BITS(x) __builtin_astype((unsigned int)(x), float)
#define KOPT_SQRT(x) __nvvm_sqrt_rn_d(x)
#else
#include <bit>
#include <cmath>
#include <cstdint>
typedef uint64_t KoptU64;
typedef int64_t KoptI64;
#define KOPT_FUNCTION inline
#define KOPT_BITS_OF_DOUBLE(x) std::bit_cast<uint64_t>((double)(x))
#define KOPT_DOUBLE_OF_BITS(x) std::bit_cast<double>((uint64_t)(x))
#define KOPT_BITS_OF_FLOAT(x) std::bit_cast<uint32_t>((float)(x))
#define KOPT_FLOAT_OF_BITS(x) std::bit_cast<float>((uint32_t)(x))
#define KOPT_SQRT(x) std::sqrt(x)
#endif

// The order of DType.
enum {
  KOPT_F16,
  KOPT_BF16,
  KOPT_F32,
  KOPT_F64,
  KOPT_I8,
  KOPT_U8,
  KOPT_I16,
  KOPT_I32,
  KOPT_I64,
  KOPT_BOOL
};
// The order of DataFamily.
enum {
  KOPT_UNIFORM,
  KOPT_NORMAL,
  KOPT_NORMAL_SHIFTED,
  KOPT_LARGE,
  KOPT_SMALL,
  KOPT_LOG_UNIFORM,
  KOPT_TIES,
  KOPT_CANCELLING,
  KOPT_SPECIAL,
  KOPT_CAPTURED
};

// Scales between the compiler's kernel and its twin beyond which an element is set
// aside (a comparison went the other way), and how near a candidate must then be to
// one of the two.
#define KOPT_ASIDE 64.0
#define KOPT_NEAR 8.0

// Which values a storage gets. `key` = KoptKey(seed, storage, family).
typedef struct KoptDraw {
  KoptU64 key;
  KoptI64 count;    // elements of the storage
  KoptI64 int_low;  // legal integers, inclusive
  KoptI64 int_high;
  double low;  // the observed envelope
  double high;
  int dtype;
  int family;
  int in_envelope;   // 1: float draws are mapped into [low, high]
  int perturbation;  // 0: none; n: float draws moved for the n-th time (KoptStepsOfOne); -n: by one
                     // ulp
  int is_weight;     // 1: raw float draws count elements (KoptWeight)
} KoptDraw;

// What a comparison of two storages found. Indices are elements, the lowest of
// their kind, -1 for none. z is against the float64 twin where there is one, for
// the candidate and for the reference (the compiler's kernel); else against the
// reference, whose own z stay zero.
typedef struct KoptStats {
  double max_z;
  double sum_z2;
  double own_max_z;
  double own_sum_z2;
  KoptI64 max_index;
  KoptI64 compared;   // floats with a finite reference
  KoptI64 nonfinite;  // floats with a reference that is not finite
  KoptI64 differing;  // elements with other bits
  KoptI64 first_differing;
  KoptI64 bad_class;  // NaN or infinity on one side only, or another sign of it
  KoptI64 first_bad_class;
  KoptI64 bad_integer;
  KoptI64 first_bad_integer;
  KoptI64 not_written;  // the candidate left poison where the reference did not
  KoptI64 first_not_written;
  KoptI64 aside;      // reference and twin are far apart: left out of the z
  KoptI64 bad_aside;  // of these, the candidate is at neither
  KoptI64 first_bad_aside;
  KoptI64 extra;  // the candidate wrote where the reference left poison
  KoptI64 first_extra;
} KoptStats;

KOPT_FUNCTION KoptU64 KoptMix(KoptU64 x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9UL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBUL;
  return x ^ (x >> 31);
}

// Its last bit is the seed's: families that have two halves take one for even seeds
// and the other for odd ones, in all storages alike (KoptIsOdd).
KOPT_FUNCTION KoptU64 KoptKey(KoptU64 seed, KoptU64 storage, KoptU64 family) {
  KoptU64 key = KoptMix(seed + 0x9E3779B97F4A7C15UL);
  key = KoptMix(key + storage * 0xD1B54A32D192ED03UL + 1);
  key = KoptMix(key + family * 0x8CB92BA72F3D8DD7UL + 1);
  return (key & ~1UL) | (seed & 1UL);
}
KOPT_FUNCTION int KoptIsOdd(KoptU64 key) {
  return (int)(key & 1UL);
}

// The `lane`-th 64 random bits of an element.
KOPT_FUNCTION KoptU64 KoptHash(KoptU64 key, KoptU64 index, KoptU64 lane) {
  return KoptMix(KoptMix(key + index * 0x9E3779B97F4A7C15UL) + lane * 0xD1B54A32D192ED03UL);
}

KOPT_FUNCTION int KoptIsFloat(int dtype) {
  return dtype <= KOPT_F64;
}

KOPT_FUNCTION int KoptSize(int dtype) {
  if (dtype == KOPT_F64 || dtype == KOPT_I64) return 8;
  if (dtype == KOPT_F32 || dtype == KOPT_I32) return 4;
  if (dtype == KOPT_F16 || dtype == KOPT_BF16 || dtype == KOPT_I16) return 2;
  return 1;
}

// 2^exponent for exponents of normal doubles.
KOPT_FUNCTION double KoptPow2(int exponent) {
  return KOPT_DOUBLE_OF_BITS((KoptU64)(exponent + 1023) << 52);
}

// Stored bits of the mantissa, and the exponent bias, of a float dtype.
KOPT_FUNCTION int KoptMantissa(int dtype) {
  return dtype == KOPT_F16 ? 10 : dtype == KOPT_BF16 ? 7 : dtype == KOPT_F32 ? 23 : 52;
}
KOPT_FUNCTION int KoptBias(int dtype) {
  return dtype == KOPT_F16 ? 15 : dtype == KOPT_F64 ? 1023 : 127;
}
KOPT_FUNCTION KoptU64 KoptSignBit(int dtype) {
  return 1UL << (8 * KoptSize(dtype) - 1);
}
KOPT_FUNCTION KoptU64 KoptMagnitude(KoptU64 bits, int dtype) {
  return bits & (KoptSignBit(dtype) - 1);
}
// The pattern of +infinity; magnitudes below it are finite, above it NaN.
KOPT_FUNCTION KoptU64 KoptInfinity(int dtype) {
  return dtype == KOPT_F16    ? 0x7C00UL
         : dtype == KOPT_BF16 ? 0x7F80UL
         : dtype == KOPT_F32  ? 0x7F800000UL
                              : 0x7FF0000000000000UL;
}
KOPT_FUNCTION int KoptIsFinite(KoptU64 bits, int dtype) {
  return KoptMagnitude(bits, dtype) < KoptInfinity(dtype);
}
// 0 finite, 1 NaN, 2 +infinity, 3 -infinity.
KOPT_FUNCTION int KoptClass(KoptU64 bits, int dtype) {
  const KoptU64 magnitude = KoptMagnitude(bits, dtype);
  const KoptU64 infinity = KoptInfinity(dtype);
  if (magnitude < infinity) return 0;
  if (magnitude > infinity) return 1;
  return magnitude == bits ? 2 : 3;
}

// The value of a float element, exact.
KOPT_FUNCTION double KoptDecode(KoptU64 bits, int dtype) {
  if (dtype == KOPT_F64) return KOPT_DOUBLE_OF_BITS(bits);
  if (dtype == KOPT_F32) return (double)KOPT_FLOAT_OF_BITS(bits);
  if (dtype == KOPT_BF16) return (double)KOPT_FLOAT_OF_BITS(bits << 16);
  const int exponent = (int)((bits >> 10) & 31);
  const KoptU64 mantissa = bits & 1023;
  const KoptU64 sign = (bits >> 15) << 63;
  KoptU64 value;
  if (exponent == 31) {
    value = 0x7FF0000000000000UL | (mantissa << 42);
  } else if (exponent == 0) {
    value = KOPT_BITS_OF_DOUBLE((double)mantissa * KoptPow2(-24));
  } else {
    value = KOPT_BITS_OF_DOUBLE((double)(mantissa + 1024) * KoptPow2(exponent - 25));
  }
  return KOPT_DOUBLE_OF_BITS(value | sign);
}

// A double rounded to the nearest value of a float dtype, ties to even.
KOPT_FUNCTION KoptU64 KoptEncode(double value, int dtype) {
  const KoptU64 bits = KOPT_BITS_OF_DOUBLE(value);
  if (dtype == KOPT_F64) return bits;
  if (dtype == KOPT_F32) return KOPT_BITS_OF_FLOAT((float)value);
  const int mantissa = KoptMantissa(dtype);
  const int bias = KoptBias(dtype);
  const KoptU64 sign = (bits >> 63) << 15;
  const KoptU64 magnitude = bits & 0x7FFFFFFFFFFFFFFFUL;
  const KoptU64 infinity = KoptInfinity(dtype);
  if (magnitude > 0x7FF0000000000000UL) return sign | infinity | (1UL << (mantissa - 1));
  if (magnitude == 0x7FF0000000000000UL) return sign | infinity;
  int exponent = (int)(magnitude >> 52) - 1023;
  if (exponent > bias) return sign | infinity;
  if (exponent < 1 - bias) exponent = 1 - bias;
  // Scaled so that one unit is the last place kept; both factors are exact.
  const double scaled = KOPT_DOUBLE_OF_BITS(magnitude) * KoptPow2(mantissa - exponent);
  KoptU64 whole = (KoptU64)scaled;
  const double rest = scaled - (double)whole;
  if (rest > 0.5 || (rest == 0.5 && (whole & 1))) whole += 1;
  // A carry out of the mantissa moves into the exponent by itself, and a
  // subnormal has neither the leading one nor an exponent.
  const KoptU64 base = (KoptU64)(exponent - 1 + bias) << mantissa;
  return sign | (base + whole);
}

// The distance of neighbouring values around a finite element.
KOPT_FUNCTION double KoptUlp(KoptU64 bits, int dtype) {
  const int mantissa = KoptMantissa(dtype);
  int exponent = (int)(KoptMagnitude(bits, dtype) >> mantissa);
  if (exponent == 0) exponent = 1;
  const int power = exponent - KoptBias(dtype) - mantissa;
  if (power >= -1022) return KoptPow2(power);
  return KOPT_DOUBLE_OF_BITS(1UL << (power + 1074));
}

// The neighbour of a finite element, up or down; one at the end of the range
// goes the other way.
KOPT_FUNCTION KoptU64 KoptNeighbour(KoptU64 bits, int dtype, int up) {
  const KoptU64 sign = KoptSignBit(dtype);
  const KoptU64 magnitude = KoptMagnitude(bits, dtype);
  if (magnitude == 0) return up ? 1 : sign | 1;
  const int negative = (bits & sign) != 0;
  int away = negative != up;
  if (away && magnitude + 1 == KoptInfinity(dtype)) away = 0;
  return (bits & sign) | (away ? magnitude + 1 : magnitude - 1);
}

// Ulps that a perturbation moves a float by, root mean square. Where the kernel's own
// rounding is coarser than an ulp of its inputs, single ulps are rounded away, and a
// result would look exact. An ulp of the short types is never too small, and sixteen
// would be no small change.
KOPT_FUNCTION int KoptSteps(int dtype) {
  return dtype == KOPT_F32 || dtype == KOPT_F64 ? 16 : 1;
}

// The steps of one float, from random bits: 1 to 27 alike, whose root mean square is
// 16.02, or 1. With steps of one length two inputs that cancel would move by the same
// in half of all runs, and their sum not at all.
KOPT_FUNCTION int KoptStepsOfOne(int dtype, KoptU64 bits) {
  return KoptSteps(dtype) == 1 ? 1 : 1 + (int)(bits % 27);
}

// `steps` neighbours on from a finite element, up or down, and no further than the
// last finite value.
KOPT_FUNCTION KoptU64 KoptMoved(KoptU64 bits, int dtype, int up, int steps) {
  const KoptU64 sign = KoptSignBit(dtype);
  const KoptI64 last = (KoptI64)KoptInfinity(dtype) - 1;
  const KoptI64 magnitude = (KoptI64)KoptMagnitude(bits, dtype);
  KoptI64 place = (bits & sign) ? -magnitude : magnitude;
  place += up ? steps : -steps;
  if (place > last) place = last;
  if (place < -last) place = -last;
  return place < 0 ? sign | (KoptU64)-place : (KoptU64)place;
}

// In [0, 1), a multiple of 2^-24.
KOPT_FUNCTION double KoptUnit(KoptU64 bits) {
  return (double)(bits >> 40) * KoptPow2(-24);
}

// Sum of twelve 16-bit uniforms less six: mean 0, variance 1, in (-6, 6). With 32 more
// random bits below these: sums of a few values with 16-bit fractions are exact in
// float32, so that neither their order nor a rounding of their inputs would show.
KOPT_FUNCTION double KoptGauss(KoptU64 key, KoptU64 index, KoptU64 lane) {
  KoptI64 sum = 0;
  KoptU64 bits = 0;
  for (int word = 0; word < 3; ++word) {
    bits = KoptHash(key, index, lane + (KoptU64)word);
    sum += (KoptI64)((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) +
                     (bits >> 48));
  }
  const double below = (double)(KoptMix(bits) >> 32) * KoptPow2(-32) - 0.5;
  return ((double)(sum + 6 - 6 * 65536) + below) * KoptPow2(-16);
}

// A float draw with no envelope.
KOPT_FUNCTION double KoptRawFloat(const KoptDraw* draw, KoptU64 index) {
  const KoptU64 key = draw->key;
  switch (draw->family) {
    case KOPT_UNIFORM: {
      // Rounding must not reach one.
      const double top = 1.0 - KoptPow2(-KoptMantissa(draw->dtype) - 1);
      const double u = KoptUnit(KoptHash(key, index, 0));
      return u < top ? u : top;
    }
    case KOPT_NORMAL_SHIFTED:
      // All negative for odd seeds: a maximum that starts from 0 would pass elsewhere.
      return (KoptIsOdd(key) ? -30.0 : 30.0) + KoptGauss(key, index, 0);
    case KOPT_LARGE:
      if (!KoptIsOdd(key)) return 1000.0 * KoptGauss(key, index, 0);
      // A few large ones among others for odd seeds: where each of them counts, one that is
      // left out of a long sum shows even in 16 bits.
      return KoptGauss(key, index, 0) + ((KoptHash(key, index, 8) & 31) == 0 ? 20.0 : 0.0);
    case KOPT_SMALL:
      return 1e-6 * KoptGauss(key, index, 0);
    case KOPT_LOG_UNIFORM: {
      const KoptU64 bits = KoptHash(key, index, 0);
      const int range = draw->dtype == KOPT_F16 ? 13 : 30;
      const int exponent = (int)((bits >> 8) % (KoptU64)(2 * range + 1)) - range;
      const double value = (1.0 + KoptUnit(KoptHash(key, index, 1))) * KoptPow2(exponent);
      return (bits & 1) ? -value : value;
    }
    case KOPT_TIES: {
      if (!KoptIsOdd(key)) return ((double)(KoptHash(key, index, 0) % 17) - 8.0) * 0.25;
      // All equal for odd seeds, and not zero: no row varies, everything ties.
      const KoptU64 pick = KoptHash(key, 0, 0) & 15;
      return ((pick & 8) ? -0.25 : 0.25) * (double)((pick & 7) + 1);
    }
    case KOPT_CANCELLING: {
      // Neighbours cancel but for a small rest.
      const double value = 1000.0 * KoptGauss(key, index >> 1, 0);
      if (!(index & 1)) return value;
      return 1e-3 * KoptGauss(key, index, 8) - value;
    }
    case KOPT_SPECIAL: {
      const KoptU64 bits = KoptHash(key, index, 8);
      const KoptU64 rare = bits & 32767;
      const double infinity = KOPT_DOUBLE_OF_BITS(0x7FF0000000000000UL);
      if (draw->count > 64) {
        // One of each at a random place, so that small storages have them too. The
        // largest finite value comes once: whether two of them overflow depends on
        // the order of a sum, which a right kernel may choose.
        const KoptU64 place = (index + KoptHash(key, 0, 9)) % (KoptU64)draw->count;
        if (place == 0 || rare == 0) return KOPT_DOUBLE_OF_BITS(0x7FF8000000000000UL);
        if (place == 1 || rare == 1) return infinity;
        if (place == 2 || rare == 2) return -infinity;
        if (place == 3) return KoptDecode(KoptInfinity(draw->dtype) - 1, draw->dtype);
      }
      const KoptU64 common = (bits >> 15) & 31;
      if (common < 2) return 0.0;
      if (common < 4) return -0.0;
      if (common == 4) return KoptDecode(1, draw->dtype);
      if (common == 5) return -KoptDecode(1, draw->dtype);
      if (common == 6) return KoptDecode(1UL << KoptMantissa(draw->dtype), draw->dtype);
      return KoptGauss(key, index, 0);
    }
    default:
      return KoptGauss(key, index, 0);
  }
}

// A weight of a Welford combination: how many elements a part has, 1 to 8; some have
// none in the special family. Parts of one tensor are alike in size: over 2^10 apart,
// float32 loses the mean of the smaller one, and no two orders agree.
KOPT_FUNCTION double KoptWeight(const KoptDraw* draw, KoptU64 index) {
  const KoptU64 bits = KoptHash(draw->key, index, 0);
  if (draw->family == KOPT_SPECIAL && (bits >> 8) % 16 == 0) return 0.0;
  return (double)(1 + bits % 8);
}

// The same family as a share of an interval, in [0, 1].
KOPT_FUNCTION double KoptShare(const KoptDraw* draw, KoptU64 index) {
  const KoptU64 key = draw->key;
  const double u = KoptUnit(KoptHash(key, index, 0));
  double share;
  switch (draw->family) {
    case KOPT_UNIFORM:
      return u;
    case KOPT_NORMAL_SHIFTED:
      share = (KoptIsOdd(key) ? 0.25 : 0.75) + KoptGauss(key, index, 0) * 0.03125;
      break;
    case KOPT_LARGE:
      return 1.0 - u * u * u;
    case KOPT_SMALL:
      return u * u * u;
    case KOPT_LOG_UNIFORM:
      return (1.0 + u) * KoptPow2(-1 - (int)(KoptHash(key, index, 1) % 24));
    case KOPT_TIES:
      return (double)(KoptHash(key, KoptIsOdd(key) ? 0 : index, 0) % 9) * 0.125;
    case KOPT_CANCELLING: {
      const double pair = KoptUnit(KoptHash(key, index >> 1, 0));
      return (index & 1) ? 1.0 - pair : pair;
    }
    case KOPT_SPECIAL: {
      const KoptU64 pick = KoptHash(key, index, 8) & 7;  // 2: see KoptFloatDraw
      if (pick == 0) return 0.0;
      if (pick == 1) return 1.0;
      return u;
    }
    default:
      share = 0.5 + KoptGauss(key, index, 0) * 0.125;
  }
  return share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
}

KOPT_FUNCTION KoptU64 KoptFloatDraw(const KoptDraw* draw, KoptU64 index) {
  const int dtype = draw->dtype;
  KoptU64 bits;
  if (draw->in_envelope) {
    const double share = KoptShare(draw, index);
    double value = draw->low * (1.0 - share) + draw->high * share;
    if (draw->family == KOPT_SPECIAL && draw->low <= 0.0 && draw->high >= 0.0 &&
        (KoptHash(draw->key, index, 8) & 7) == 2) {
      value = 0.0;
    }
    bits = KoptEncode(value, dtype);
    if (KoptDecode(bits, dtype) > draw->high) bits = KoptNeighbour(bits, dtype, 0);
    if (KoptDecode(bits, dtype) < draw->low) bits = KoptNeighbour(bits, dtype, 1);
  } else {
    bits = KoptEncode(draw->is_weight ? KoptWeight(draw, index) : KoptRawFloat(draw, index), dtype);
  }
  if (draw->perturbation == 0 || !KoptIsFinite(bits, dtype)) return bits;
  const KoptU64 random = KoptHash(draw->key, index, 16 + (KoptU64)draw->perturbation);
  const int up = (int)(random & 1);
  const int steps = draw->perturbation < 0 ? 1 : KoptStepsOfOne(dtype, random >> 1);
  KoptU64 moved = KoptMoved(bits, dtype, up, steps);
  if (draw->in_envelope &&
      (KoptDecode(moved, dtype) > draw->high || KoptDecode(moved, dtype) < draw->low)) {
    moved = KoptMoved(bits, dtype, !up, steps);
    if (KoptDecode(moved, dtype) > draw->high || KoptDecode(moved, dtype) < draw->low) moved = bits;
  }
  if (draw->is_weight) moved &= ~KoptSignBit(dtype);
  return moved;
}

// A value in [low, high] from 64 random bits.
KOPT_FUNCTION KoptI64 KoptInRange(KoptU64 bits, KoptI64 low, KoptI64 high) {
  const KoptU64 span = (KoptU64)high - (KoptU64)low;
  if (span == 0xFFFFFFFFFFFFFFFFUL) return (KoptI64)bits;
  return (KoptI64)((KoptU64)low + bits % (span + 1));
}

KOPT_FUNCTION KoptU64 KoptIntDraw(const KoptDraw* draw, KoptU64 index) {
  const KoptU64 key = draw->key;
  const KoptI64 low = draw->int_low;
  const KoptI64 high = draw->int_high;
  KoptI64 value;
  switch (draw->family) {
    case KOPT_NORMAL_SHIFTED:  // all equal
      value = KoptInRange(KoptHash(key, 0, 1), low, high);
      break;
    case KOPT_LARGE:  // all last
      value = high;
      break;
    case KOPT_SMALL:  // all first
      value = low;
      break;
    case KOPT_TIES:  // repeats
      value = KoptInRange(KoptHash(key, index >> 2, 0), low, high);
      break;
    case KOPT_CANCELLING:
      value = (index & 1) ? high : low;
      break;
    case KOPT_SPECIAL: {
      const KoptU64 pick = KoptHash(key, index, 8) & 3;
      value = pick == 0 ? low : pick == 1 ? high : KoptInRange(KoptHash(key, index, 0), low, high);
      break;
    }
    default:
      value = index == 0                          ? low
              : index + 1 == (KoptU64)draw->count ? high
                                                  : KoptInRange(KoptHash(key, index, 0), low, high);
  }
  const int size = KoptSize(draw->dtype);
  return size == 8 ? (KoptU64)value : (KoptU64)value & ((1UL << (8 * size)) - 1);
}

KOPT_FUNCTION KoptU64 KoptElement(const KoptDraw* draw, KoptU64 index) {
  return KoptIsFloat(draw->dtype) ? KoptFloatDraw(draw, index) : KoptIntDraw(draw, index);
}

// Poison `which` (0 or 1) of an element. Floats are finite, so that they are
// compared as values; the two differ in sign and in every size of number.
KOPT_FUNCTION KoptU64 KoptPoison(KoptU64 index, int dtype, int which) {
  const KoptU64 noise = KoptHash(0x706F69736F6EUL, index, 0);
  switch (dtype) {
    case KOPT_F16:
      return (which ? 0xE400UL : 0x7000UL) | (noise & 0x3FF);
    case KOPT_BF16:
      return (which ? 0xE880UL : 0x7180UL) | (noise & 0x7F);
    case KOPT_F32:
      return (which ? 0xE8800000UL : 0x71800000UL) | (noise & 0x7FFFFF);
    case KOPT_F64:
      return (which ? 0xD900000000000000UL : 0x6100000000000000UL) | (noise & 0xFFFFFFFFFFFFFUL);
    default: {
      const int size = KoptSize(dtype);
      const KoptU64 bits = which ? ~noise : noise;
      return size == 8 ? bits : bits & ((1UL << (8 * size)) - 1);
    }
  }
}

// The position-dependent contribution of a 64-bit word to a checksum.
KOPT_FUNCTION KoptU64 KoptChecksumWord(KoptU64 word, KoptU64 index) {
  return KoptMix(KoptMix(word + 0x9E3779B97F4A7C15UL) ^ KoptMix(index + 0xD1B54A32D192ED03UL));
}

KOPT_FUNCTION void KoptClearStats(KoptStats* stats) {
  stats->max_z = stats->sum_z2 = stats->own_max_z = stats->own_sum_z2 = 0;
  stats->aside = stats->bad_aside = 0;
  stats->first_bad_aside = -1;
  stats->compared = stats->nonfinite = stats->differing = stats->bad_class = 0;
  stats->bad_integer = stats->not_written = stats->extra = 0;
  stats->max_index = stats->first_differing = stats->first_bad_class = -1;
  stats->first_bad_integer = stats->first_not_written = stats->first_extra = -1;
}

KOPT_FUNCTION KoptI64 KoptFirst(KoptI64 a, KoptI64 b) {
  return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

KOPT_FUNCTION void KoptMergeStats(KoptStats* into, const KoptStats* from) {
  if (from->max_index >= 0 && (into->max_index < 0 || from->max_z > into->max_z ||
                               (from->max_z == into->max_z && from->max_index < into->max_index))) {
    into->max_z = from->max_z;
    into->max_index = from->max_index;
  }
  into->sum_z2 += from->sum_z2;
  if (from->own_max_z > into->own_max_z) into->own_max_z = from->own_max_z;
  into->own_sum_z2 += from->own_sum_z2;
  into->aside += from->aside;
  into->bad_aside += from->bad_aside;
  into->first_bad_aside = KoptFirst(into->first_bad_aside, from->first_bad_aside);
  into->compared += from->compared;
  into->nonfinite += from->nonfinite;
  into->differing += from->differing;
  into->first_differing = KoptFirst(into->first_differing, from->first_differing);
  into->bad_class += from->bad_class;
  into->first_bad_class = KoptFirst(into->first_bad_class, from->first_bad_class);
  into->bad_integer += from->bad_integer;
  into->first_bad_integer = KoptFirst(into->first_bad_integer, from->first_bad_integer);
  into->not_written += from->not_written;
  into->first_not_written = KoptFirst(into->first_not_written, from->first_not_written);
  into->extra += from->extra;
  into->first_extra = KoptFirst(into->first_extra, from->first_extra);
}

// The conditioning of an element, the root of the sum of its squared changes an
// ulp over perturbed runs that moved the inputs by `steps` ulps: in absolute terms,
// since the reference can be zero where it cancels. A change to or from a value that is not finite
// adds nothing, and a sum beyond float's range stays at its end: both make the rule stricter.
KOPT_FUNCTION float KoptAddConditioning(float sum, KoptU64 perturbed, KoptU64 reference, int dtype,
                                        int steps) {
  if (!KoptIsFinite(perturbed, dtype) || !KoptIsFinite(reference, dtype)) return sum;
  const double change =
      (KoptDecode(perturbed, dtype) - KoptDecode(reference, dtype)) / (double)steps;
  const double total = KOPT_SQRT((double)sum * (double)sum + change * change);
  return total < 3e38 ? (float)total : 3e38f;
}

// ulp(reference) + J.
KOPT_FUNCTION double KoptScale(KoptU64 reference, int dtype, float conditioning,
                               int perturbations) {
  const double runs = perturbations > 0 ? (double)perturbations : 1.0;
  return KoptUlp(reference, dtype) + (double)conditioning / KOPT_SQRT(runs);
}

KOPT_FUNCTION double KoptDistance(double a, double b) {
  return a < b ? b - a : a - b;
}

// Compares one element. `twin` is the float64 twin's value, read if `has_twin`.
// `poison` is the poison that both sides were filled with before their runs, or -1
// for storages that held data or zeros.
KOPT_FUNCTION void KoptCompareElement(KoptStats* stats, KoptU64 candidate, KoptU64 reference,
                                      int has_twin, double twin, float conditioning,
                                      int perturbations, KoptI64 index, int dtype, int poison) {
  int untouched = 0;
  if (poison >= 0) {
    const KoptU64 pattern = KoptPoison((KoptU64)index, dtype, poison);
    if (reference == pattern) {
      if (candidate == pattern) return;
      stats->extra += 1;
      stats->first_extra = KoptFirst(stats->first_extra, index);
      untouched = 1;
    } else if (candidate == pattern) {
      stats->not_written += 1;
      stats->first_not_written = KoptFirst(stats->first_not_written, index);
    }
  }
  if (candidate != reference) {
    stats->differing += 1;
    stats->first_differing = KoptFirst(stats->first_differing, index);
  }
  if (!KoptIsFloat(dtype)) {
    if (candidate != reference) {
      stats->bad_integer += 1;
      stats->first_bad_integer = KoptFirst(stats->first_bad_integer, index);
    }
    return;
  }
  const KoptU64 center = has_twin ? KoptEncode(twin, dtype) : reference;
  const int center_class = KoptClass(center, dtype);
  const int reference_class = KoptClass(reference, dtype);
  const int candidate_class = KoptClass(candidate, dtype);
  if (center_class) stats->nonfinite += 1;
  if (candidate_class != center_class && candidate_class != reference_class) {
    stats->bad_class += 1;
    stats->first_bad_class = KoptFirst(stats->first_bad_class, index);
    return;
  }
  if (center_class || reference_class || candidate_class || untouched) return;
  const double value = KoptDecode(candidate, dtype);
  const double of_reference = KoptDecode(reference, dtype);
  const double scale = KoptScale(center, dtype, conditioning, perturbations);
  const double z = KoptDistance(value, has_twin ? twin : of_reference) / scale;
  const double own_z = has_twin ? KoptDistance(of_reference, twin) / scale : 0;
  if (own_z > KOPT_ASIDE) {
    stats->aside += 1;
    if (z > KOPT_NEAR && KoptDistance(value, of_reference) / scale > KOPT_NEAR) {
      stats->bad_aside += 1;
      stats->first_bad_aside = KoptFirst(stats->first_bad_aside, index);
    }
    return;
  }
  stats->compared += 1;
  stats->sum_z2 += z * z;
  stats->own_sum_z2 += own_z * own_z;
  if (own_z > stats->own_max_z) stats->own_max_z = own_z;
  if (stats->max_index < 0 || z > stats->max_z) {
    stats->max_z = z;
    stats->max_index = index;
  }
}
