#include "device/data.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"

namespace kernelopt {
namespace {

constexpr DType kAllTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                               DType::kInt8,    DType::kUInt8,    DType::kInt16,   DType::kInt32,
                               DType::kInt64,   DType::kBool};

StorageSpec Floats(int64_t count, DType dtype = DType::kFloat32) {
  StorageSpec spec;
  spec.dtype = dtype;
  spec.bytes = count * SizeOf(dtype);
  return spec;
}

std::vector<double> Values(const StorageSpec& spec, const DataSet& data, int perturbation = 0) {
  const KoptDraw draw = *MakeDraw(spec, 3, data, perturbation);
  std::vector<double> values;
  for (int64_t i = 0; i < draw.count; ++i) {
    values.push_back(ElementValue(DrawElement(draw, i), spec.dtype));
  }
  return values;
}

// Any change of the generator changes what every stored verdict was made on:
// the vectors stay as they are.
TEST(Data, TestVectors) {
  std::string bytes;
  for (int family = 0; family < 10; ++family) {
    for (DType dtype : kAllTypes) {
      for (bool in_envelope : {false, true}) {
        for (const auto& [seed, perturbation] :
             {std::pair<uint64_t, int>{42, 0}, {42, 1}, {1337, 0}}) {
          StorageSpec spec = Floats(100, dtype);
          spec.int_low = dtype == DType::kUInt8 || dtype == DType::kBool ? 0 : -1;
          spec.int_high = 1;
          spec.has_envelope = true;
          spec.float_low = -0.5;
          spec.float_high = 3;
          const DataSet data{static_cast<DataFamily>(family), seed, in_envelope};
          const KoptDraw draw = *MakeDraw(spec, 1, data, perturbation);
          for (int64_t i = 0; i < draw.count; ++i) {
            const uint64_t bits = DrawElement(draw, i);
            bytes.append(reinterpret_cast<const char*>(&bits), 8);
          }
        }
      }
    }
  }
  EXPECT_EQ(Sha256Hex(bytes), "7205f34e14fe6a2337b3f4ecf37841a52d36415b8888bb0bd001c431747acdf3");
}

RC_GTEST_PROP(Data, EncodeRoundsToTheNearestFloat16, (uint64_t bits)) {
  // Exponents around those of the type, so that most cases are not infinite.
  bits = (bits & ~(uint64_t{0x7FF} << 52)) | ((1023 - 30 + (bits >> 52) % 50) << 52);
  const double value = std::bit_cast<double>(bits);
  for (int dtype : {KOPT_F16, KOPT_BF16}) {
    const uint64_t encoded = KoptEncode(value, dtype);
    if (!KoptIsFinite(encoded, dtype)) {
      RC_ASSERT(std::abs(value) >= 65520);
      continue;
    }
    const double error = std::abs(KoptDecode(encoded, dtype) - value);
    for (int up : {0, 1}) {
      const uint64_t other = KoptNeighbour(encoded, dtype, up);
      const double distance = std::abs(KoptDecode(other, dtype) - value);
      RC_ASSERT(error < distance || (error == distance && !(encoded & 1)));
    }
  }
}

TEST(Data, SixteenBitPatternsSurviveDecodingAndEncoding) {
  for (int dtype : {KOPT_F16, KOPT_BF16}) {
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      const double value = KoptDecode(bits, dtype);
      if (std::isnan(value)) {
        EXPECT_EQ(KoptClass(bits, dtype), 1);
      } else {
        EXPECT_EQ(KoptEncode(value, dtype), bits);
      }
    }
  }
  EXPECT_EQ(KoptDecode(0x3C00, KOPT_F16), 1.0);
  EXPECT_EQ(KoptDecode(0x3F80, KOPT_BF16), 1.0);
  EXPECT_EQ(KoptDecode(1, KOPT_F16), std::ldexp(1.0, -24));
}

TEST(Data, UlpIsTheDistanceToTheNextValue) {
  for (int dtype : {KOPT_F16, KOPT_BF16, KOPT_F32, KOPT_F64}) {
    for (double value : {0.0, 1.0, 1.5, -3.25, 1e-5, 60000.0}) {
      const uint64_t bits = KoptEncode(value, dtype);
      const uint64_t away = bits + 1;  // the next magnitude
      EXPECT_EQ(std::abs(KoptDecode(away, dtype) - KoptDecode(bits, dtype)), KoptUlp(bits, dtype));
    }
  }
}

TEST(Data, FamiliesAreWhatTheySay) {
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const StorageSpec spec = Floats(4096);
  for (double value : Values(spec, {DataFamily::kUniform, 0, false})) {
    EXPECT_TRUE(value >= 0 && value < 1);
  }
  for (double value : Values(Floats(4096, DType::kBFloat16), {DataFamily::kUniform, 0, false})) {
    EXPECT_TRUE(value >= 0 && value < 1);
  }
  const std::vector<double> normal = Values(spec, {DataFamily::kNormal, 0, false});
  EXPECT_NEAR(mean(normal), 0, 0.1);
  double squares = 0;
  for (double value : normal) squares += value * value;
  EXPECT_NEAR(squares / 4096, 1, 0.1);
  EXPECT_NEAR(mean(Values(spec, {DataFamily::kNormalShifted, 0, false})), 30, 0.1);
  // For odd seeds all negative, and all equal.
  for (double value : Values(spec, {DataFamily::kNormalShifted, 1337, false})) {
    EXPECT_TRUE(value > -36 && value < -24);
  }
  const std::vector<double> equal = Values(spec, {DataFamily::kTies, 1337, false});
  EXPECT_NE(equal[0], 0);
  EXPECT_EQ(std::ranges::count(equal, equal[0]), 4096);
  const std::vector<double> cancelling = Values(spec, {DataFamily::kCancelling, 0, false});
  EXPECT_LT(std::abs(cancelling[0] + cancelling[1]), 0.01);
  int special = 0;
  for (double value : Values(Floats(100), {DataFamily::kSpecial, 0, false})) {
    special += !std::isfinite(value);
  }
  EXPECT_EQ(special, 3);
}

// Sums that are exact in float32 hide the order of a sum, and inputs that have no more
// bits than TensorFloat-32 hide a rounding to it.
TEST(Data, FloatsHaveFullMantissas) {
  for (DataFamily family :
       {DataFamily::kUniform, DataFamily::kNormal, DataFamily::kNormalShifted, DataFamily::kLarge,
        DataFamily::kSmall, DataFamily::kLogUniform, DataFamily::kCancelling}) {
    int odd = 0;
    float forward = 0, backward = 0;
    const std::vector<double> values = Values(Floats(32), {family, 42, false});
    for (double value : Values(Floats(4096), {family, 42, false})) {
      odd += std::bit_cast<uint32_t>(static_cast<float>(value)) & 1;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      forward += static_cast<float>(values[i]);
      backward += static_cast<float>(values[values.size() - 1 - i]);
    }
    EXPECT_GT(odd, 4096 / 5) << ToString(family);
    EXPECT_NE(forward, backward) << ToString(family);
  }
}

TEST(Data, IntegersStayInTheLegalDomainAndReachItsEnds) {
  for (int family = 0; family < 10; ++family) {
    StorageSpec spec = Floats(200, DType::kInt64);
    spec.int_low = -7;
    spec.int_high = 11;
    bool first = false, last = false;
    for (double value : Values(spec, {static_cast<DataFamily>(family), 9, true})) {
      ASSERT_TRUE(value >= -7 && value <= 11);
      first |= value == -7;
      last |= value == 11;
    }
    const bool one_value =
        family == KOPT_NORMAL_SHIFTED || family == KOPT_LARGE || family == KOPT_SMALL;
    EXPECT_TRUE(one_value || (first && last)) << family;
  }
  StorageSpec whole = Floats(10, DType::kInt64);
  whole.int_low = INT64_MIN;
  whole.int_high = INT64_MAX;
  EXPECT_NE(Values(whole, {})[3], Values(whole, {})[4]);
}

RC_GTEST_PROP(Data, EnvelopesHold, (uint64_t seed)) {
  const int family = *rc::gen::inRange(0, 10);
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    StorageSpec spec = Floats(64, dtype);
    spec.has_envelope = true;
    spec.float_low = 0;
    spec.float_high = 0.3;
    for (int perturbation : {0, 1, 2}) {
      for (double value :
           Values(spec, {static_cast<DataFamily>(family), seed, true}, perturbation)) {
        RC_ASSERT(value >= 0 && value <= 0.3);
      }
    }
  }
}

TEST(Data, PerturbationsMoveEachFloatByUlps) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    const KoptDraw base = *MakeDraw(Floats(500, dtype), 0, {DataFamily::kSpecial, 1, false});
    for (int perturbation : {1, 2}) {
      KoptDraw moved = base;
      moved.perturbation = perturbation;
      const int most = SizeOf(dtype) >= 4 ? 27 : 1;
      int up = 0;
      double squares = 0;
      int finite = 0;
      for (int64_t i = 0; i < base.count; ++i) {
        const uint64_t a = DrawElement(base, i);
        const uint64_t b = DrawElement(moved, i);
        if (!KoptIsFinite(a, base.dtype)) {
          EXPECT_EQ(a, b);
          continue;
        }
        int steps = 0;
        do ++steps;
        while (b != KoptMoved(a, base.dtype, 0, steps) && b != KoptMoved(a, base.dtype, 1, steps) &&
               steps < 100);
        EXPECT_LE(steps, most);
        squares += steps * steps;
        ++finite;
        up += ElementValue(b, dtype) > ElementValue(a, dtype);
      }
      EXPECT_NEAR(std::sqrt(squares / finite), KoptSteps(base.dtype), most > 1 ? 1 : 0);
      EXPECT_GT(up, 150);
      EXPECT_LT(up, 350);
    }
  }
}

TEST(Data, MovesByNeighboursAndStopsAtTheLastFinite) {
  const auto moved = [](float value, int up, int steps) {
    const uint64_t bits = KoptMoved(std::bit_cast<uint32_t>(value), KOPT_F32, up, steps);
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  };
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(moved(1, 1, 3), 1 + 3 * std::ldexp(1.0F, -23));
  EXPECT_EQ(moved(1, 0, 1), 1 - std::ldexp(1.0F, -24));
  EXPECT_EQ(moved(-1, 1, 1), -1 + std::ldexp(1.0F, -24));
  EXPECT_EQ(moved(kTiny, 0, 3), -2 * kTiny);
  EXPECT_EQ(moved(-0.0F, 1, 1), kTiny);
  EXPECT_EQ(moved(kMost, 1, 5), kMost);
  EXPECT_EQ(moved(-kMost, 0, 5), -kMost);
}

TEST(Data, WeightsAreCounts) {
  for (const DataFamily family :
       {DataFamily::kNormal, DataFamily::kSpecial, DataFamily::kLogUniform}) {
    StorageSpec weights = Floats(400);
    weights.is_weight = true;
    int zeros = 0;
    for (double value : Values(weights, {family, 1, false})) {
      EXPECT_EQ(value, std::floor(value));
      EXPECT_LE(value, 8);
      zeros += value == 0;
      EXPECT_TRUE(value == 0 || value >= 1) << value;
    }
    EXPECT_EQ(zeros > 0, family == DataFamily::kSpecial) << zeros;
    // Where nothing is left to move down to, nothing becomes negative.
    for (double value : Values(weights, {family, 1, false}, 1)) EXPECT_FALSE(std::signbit(value));
    weights.has_envelope = true;
    weights.float_low = weights.float_high = 100;
    for (double value : Values(weights, {family, 1, true})) EXPECT_EQ(value, 100);
  }
}

TEST(Data, RefusesWhatHasNoValue) {
  struct Case {
    const char* name;
    StorageSpec spec;
  };
  StorageSpec ragged = Floats(4);
  ragged.bytes = 15;
  StorageSpec empty_range = Floats(4, DType::kInt32);
  empty_range.int_low = 2;
  StorageSpec infinite = Floats(4);
  infinite.has_envelope = true;
  infinite.float_high = INFINITY;
  for (const Case& c :
       {Case{"ragged", ragged}, Case{"range", empty_range}, Case{"inf", infinite}}) {
    auto draw = MakeDraw(c.spec, 0, {DataFamily::kCaptured, 0, true});
    ASSERT_FALSE(draw) << c.name;
    EXPECT_EQ(draw.error().code, "job_error");
  }
}

TEST(Compare, ScaleIsUlpPlusConditioning) {
  const auto bits = [](float value) { return uint64_t{std::bit_cast<uint32_t>(value)}; };
  KoptStats stats;
  KoptClearStats(&stats);
  const float ulp = std::ldexp(1.0F, -23);
  // Four runs with a change of 3 ulps a step each: J = 3 ulps, scale = 4.
  float sum = 0;
  for (int run = 0; run < 4; ++run) {
    const int steps = run % 2 == 0 ? 1 : 16;
    const float changed = 1 + 3 * static_cast<float>(steps) * ulp;
    sum = KoptAddConditioning(sum, bits(changed), bits(1), KOPT_F32, steps);
  }
  KoptCompareElement(&stats, bits(1 + 8 * ulp), bits(1), 0, 0, sum, 4, 7, KOPT_F32, -1);
  EXPECT_DOUBLE_EQ(stats.max_z, 2);
  EXPECT_EQ(stats.max_index, 7);
  KoptCompareElement(&stats, bits(NAN), bits(1), 0, 0, 0, 4, 8, KOPT_F32, -1);
  EXPECT_EQ(stats.bad_class, 1);
  KoptCompareElement(&stats, bits(NAN), bits(-NAN), 0, 0, 0, 4, 9, KOPT_F32, -1);
  KoptCompareElement(&stats, bits(INFINITY), bits(-INFINITY), 0, 0, 0, 4, 10, KOPT_F32, -1);
  EXPECT_EQ(stats.bad_class, 2);
  EXPECT_EQ(stats.nonfinite, 2);
  // A change to something that is not finite does not widen the scale.
  EXPECT_EQ(KoptAddConditioning(1, bits(INFINITY), bits(1), KOPT_F32, 1), 1);
  // A sum that cancels to zero is as uncertain as one that almost does.
  const float around_zero = KoptAddConditioning(0, bits(0.001F), bits(0), KOPT_F32, 1);
  EXPECT_NEAR(KoptScale(bits(0), KOPT_F32, around_zero, 1), 0.001, 1e-6);
  EXPECT_EQ(KoptAddConditioning(0, bits(-3e38F), bits(3e38F), KOPT_F32, 1), 3e38F);
}

// An average of 25 values in two orders. Its partial sums round away most single
// ulps of the inputs, so that now and then twenty perturbed runs change nothing.
TEST(Compare, WidePerturbationsShowWhatPartialSumsRoundAway) {
  constexpr int kValues = 25;
  constexpr float kWindow[kValues] = {
      0x1.1bc8cep+10F,  0x1.cd0a04p+9F,   -0x1.0cfdeep+7F,  -0x1.249d56p+8F, -0x1.63be14p+8F,
      0x1.48dd16p+10F,  0x1.8137aep+9F,   0x1.fdd228p+8F,   0x1.014aep+10F,  0x1.18dbf4p+8F,
      -0x1.630ab4p+9F,  -0x1.590cap+7F,   0x1.3644b4p+11F,  0x1.9494bap+10F, 0x1.c312f8p+7F,
      0x1.d03feep+7F,   -0x1.ba7582p+9F,  -0x1.25bfbcp+10F, -0x1.c235aep+9F, -0x1.67f844p+4F,
      -0x1.ac5a44p+10F, -0x1.c3f6fap+10F, -0x1.00705p+11F,  -0x1.b1df14p+6F, 0x1.76e19ep+7F};
  const auto average = [](const float* values, bool adjacent) {
    float lane[32] = {};
    std::copy_n(values, kValues, lane);
    for (int half = 16; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) {
        lane[k] = adjacent ? lane[2 * k] + lane[2 * k + 1] : lane[k] + lane[k + half];
      }
    }
    return uint64_t{std::bit_cast<uint32_t>(lane[0] / kValues)};
  };
  constexpr int kTrials = 500, kRuns = 20;
  const auto largest_z = [&](bool wide) {
    KoptStats stats;
    KoptClearStats(&stats);
    for (uint64_t trial = 0; trial < kTrials; ++trial) {
      float sum = 0;
      for (int run = 1; run <= kRuns; ++run) {
        float moved[kValues];
        for (int k = 0; k < kValues; ++k) {
          const uint64_t random = KoptHash(trial, static_cast<uint64_t>(run), k);
          const int steps = wide ? KoptStepsOfOne(KOPT_F32, random >> 1) : 1;
          const uint64_t bits = KoptMoved(std::bit_cast<uint32_t>(kWindow[k]), KOPT_F32,
                                          static_cast<int>(random & 1), steps);
          moved[k] = std::bit_cast<float>(static_cast<uint32_t>(bits));
        }
        sum = KoptAddConditioning(sum, average(moved, true), average(kWindow, true), KOPT_F32,
                                  wide ? KoptSteps(KOPT_F32) : 1);
      }
      KoptCompareElement(&stats, average(kWindow, false), average(kWindow, true), 0, 0, sum, kRuns,
                         static_cast<KoptI64>(trial), KOPT_F32, -1);
    }
    return stats.max_z;
  };
  EXPECT_GT(largest_z(false), 8);
  EXPECT_LT(largest_z(true), 4);
}

}  // namespace
}  // namespace kernelopt
