// Round trips of all contract types: text -> type -> the same text.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "device/judge.h"
#include "device/replacement.h"

namespace kernelopt {
namespace {

template <typename T>
T Any() {
  return *rc::gen::arbitrary<T>();
}
double AnyDouble() {
  const double special[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 5e-324};
  return Any<bool>() ? special[*rc::gen::inRange(0, 6)] : Any<double>();
}
template <typename T>
T AnyOf(int count) {
  return static_cast<T>(*rc::gen::inRange(0, count));
}
template <typename F>
auto Many(F make) {
  std::vector<decltype(make())> list;
  for (int n = *rc::gen::inRange(0, 4); n > 0; --n) list.push_back(make());
  return list;
}

LaunchParameter AnyParameter() {
  return {AnyOf<LaunchParameter::Kind>(4), Any<int>(), Any<int>(), Any<int64_t>(), Any<int64_t>()};
}
LaunchRecord AnyRecord() {
  return {Any<std::string>(),
          Many(AnyParameter),
          Any<int>(),
          Any<int>(),
          {Any<int>(), Any<int>(), Any<int>()},
          Any<int64_t>(),
          Any<bool>()};
}
Program AnyProgram() {
  return {Any<std::string>(),
          AnyRecord(),
          {Any<int64_t>(), Any<int64_t>(), Any<int64_t>()},
          Any<std::string>()};
}
StorageSpec AnyStorage() {
  return {Any<int64_t>(), AnyOf<DType>(10), AnyOf<StorageRole>(3), Any<bool>(),
          Any<int64_t>(), Any<int64_t>(),   Any<bool>(),           AnyDouble(),
          AnyDouble(),    Any<bool>(),      Any<std::string>()};
}
ArgumentSpec AnyArgument() {
  return {AnyOf<ArgumentSpec::Kind>(3), Any<int>(), Any<int64_t>(), Any<int64_t>(), AnyDouble()};
}
Site AnySite() {
  return {Any<std::string>(), Many(AnyStorage), Many(AnyArgument)};
}
DataSet AnyData() {
  return {AnyOf<DataFamily>(10), Any<uint64_t>(), Any<bool>()};
}

/// Text of what a conversion there and back gives.
template <typename T>
void ExpectRoundTrip(const T& value, Result<T> (*convert)(const Json&)) {
  const std::string text = DumpJson(ToJson(value));
  auto parsed = ParseJson(text, "test");
  RC_ASSERT(parsed.has_value());
  auto back = convert(*parsed);
  if (!back) RC_FAIL(back.error().ToString());
  RC_ASSERT(DumpJson(ToJson(*back)) == text);
}

RC_GTEST_PROP(Json, LaunchRecordRoundTrip, ()) {
  ExpectRoundTrip(AnyRecord(), LaunchRecordFromJson);
}

RC_GTEST_PROP(Json, JobsRoundTrip, ()) {
  CheckJob check;
  check.site = AnySite();
  check.baseline = AnyProgram();
  check.candidate = AnyProgram();
  if (Any<bool>()) check.twin = AnyProgram();
  check.data = Many(AnyData);
  check.known = Many([] { return Many(Any<uint64_t>); });
  check.rule = {AnyDouble(), AnyDouble(), AnyDouble(), AnyDouble(), AnyDouble(), AnyDouble(),
                AnyDouble(), AnyDouble(), AnyDouble(), AnyDouble(), Any<int>(),  Any<bool>()};
  check.repeats = Any<int>();
  check.guard_pages = Any<bool>();
  check.time_limit_ms = Any<int>();
  if (Any<bool>()) check.without = {"exact", "repeats"};
  ExpectRoundTrip(check, CheckJobFromJson);
  TimeJob time{AnySite(),  Many(AnyProgram), AnyOf<CacheState>(2), Many(Any<int>), Any<int>(),
               Any<int>(), AnyData()};
  ExpectRoundTrip(time, TimeJobFromJson);
}

RC_GTEST_PROP(Json, ResultsRoundTrip, ()) {
  CheckResult check{Any<std::string>(),
                    Any<std::string>(),
                    Any<bool>(),
                    Any<bool>(),
                    Many([] {
                      return DataSetResult{AnyData(),          Any<bool>(),    Any<bool>(),
                                           AnyDouble(),        AnyDouble(),    AnyDouble(),
                                           AnyDouble(),        Any<int64_t>(), Any<int64_t>(),
                                           Many(Any<uint64_t>)};
                    }),
                    Any<int>(),
                    Any<int64_t>(),
                    AnyDouble(),
                    AnyDouble(),
                    AnyDouble(),
                    Any<int>()};
  ExpectRoundTrip(check, CheckResultFromJson);
  TimeResult time{Many([] { return Many(AnyDouble); }), Many(Any<std::string>)};
  ExpectRoundTrip(time, TimeResultFromJson);
  DeviceFacts facts{Any<std::string>(), Any<std::string>(), Any<std::string>(),
                    Any<std::string>(), Any<int>(),         Any<int>(),
                    Any<int64_t>(),     Any<int64_t>(),     Any<int64_t>()};
  ExpectRoundTrip(facts, DeviceFactsFromJson);
  ExpectRoundTrip(DeviceSpeeds{AnyDouble(), AnyDouble(), AnyDouble()}, DeviceSpeedsFromJson);
}

Replacement AnyReplacement() {
  Replacement replacement;
  replacement.kernel_key = Any<std::string>();
  replacement.form = AnyOf<ReplacementForm>(3);
  replacement.workspaces =
      Many([] { return Workspace{Any<int64_t>(), Any<int64_t>(), Any<std::string>()}; });
  replacement.steps = Many([] {
    ReplacementStep step;
    step.kernel_text = Any<std::string>();
    step.config = {{{"XBLOCK", Any<int64_t>()}, {Any<std::string>(), Any<int64_t>()}},
                   Any<int>(),
                   Any<int>(),
                   Any<int>(),
                   std::nullopt};
    if (Any<bool>()) step.config.maxnreg = Any<int>();
    step.grid = {Any<std::string>(), "", Any<std::string>()};
    step.cooperative = Any<bool>();
    return step;
  });
  replacement.origin = Any<std::string>();
  replacement.change = Any<std::string>();
  return replacement;
}

RC_GTEST_PROP(Json, ReplacementRoundTrip, ()) {
  const Replacement replacement = AnyReplacement();
  ExpectRoundTrip(replacement, ReplacementFromJson);
  Replacement renamed = replacement;
  renamed.origin += "x";
  renamed.change += "y";
  RC_ASSERT(renamed.Id() == replacement.Id());
  renamed.kernel_key += "z";
  RC_ASSERT(renamed.Id() != replacement.Id());
}

TEST(Json, ErrorsNameTheField) {
  struct Case {
    std::string text, expected;
  };
  const std::string good =
      R"({"entry":"k","parameters":[{"kind":"pointer","size":8,"argument":0}],"threads":128,)"
      R"("num_ctas":1,"cluster":[1,1,1],"shared_bytes":0,"cooperative":false})";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const Case cases[] = {
      {good, ""},
      {with("pointer", "array"), "'array'"},
      {with("128", "\"many\""), "threads"},
      {with("128", "99999999999"), "threads"},
      {with("[1,1,1]", "[1,1]"), "cluster"},
      {with("\"threads\":128,", ""), "threads"},
      {"[]", "entry"},
  };
  for (const Case& c : cases) {
    auto record = LaunchRecordFromJson(*ParseJson(c.text, "test"));
    if (c.expected.empty()) {
      ASSERT_TRUE(record) << record.error().ToString();
      EXPECT_EQ(record->parameters[0].argument, 0);
    } else {
      ASSERT_FALSE(record) << c.text;
      EXPECT_NE(record.error().message.find(c.expected), std::string::npos)
          << record.error().message;
    }
  }
}

TEST(Json, DTypesAsTritonSpellsThem) {
  EXPECT_EQ(*DTypeFromTriton("*fp32"), DType::kFloat32);
  EXPECT_EQ(*DTypeFromTriton("*kbf16"), DType::kBFloat16);
  EXPECT_EQ(*DTypeFromTriton("i1"), DType::kBool);
  EXPECT_EQ(DTypeFromTriton("*fp8e4nv").error().code, "bad_dtype");
  EXPECT_EQ(SizeOf(*DTypeFromTriton("i64")), 8);
  EXPECT_EQ(DataFamilyFromString("weird").error().code, "bad_field");
}

TEST(LaunchConfig, ShowsWhatDiffersFromTheDefault) {
  LaunchConfig config{{{"XBLOCK", 64}, {"R0_BLOCK", 1024}}, 8, 1, 1, 64};
  EXPECT_EQ(config.ToString(), "R0_BLOCK=1024 XBLOCK=64 warps=8 stages=1 maxnreg=64");
}

}  // namespace
}  // namespace kernelopt
