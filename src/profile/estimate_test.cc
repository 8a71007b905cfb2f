#include "profile/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "inductor/module.h"
#include "testing/capture_fixture.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IntArgument;
using ::testing::IsEmpty;
using testing::LaunchEvent;
using testing::SmallCapture;
using testing::StorageEvent;
using testing::TensorArgument;

constexpr int64_t kMiB = 1 << 20;

Kernel KernelOf(const std::string& name, int pointers) {
  Kernel kernel;
  kernel.name = kernel.entry = name;
  kernel.key = "key of " + name;
  for (int i = 0; i < pointers; ++i)
    kernel.arguments.push_back({"p" + std::to_string(i), "", "*fp32"});
  kernel.arguments.push_back({"xnumel", "", "i32"});
  kernel.arguments.push_back({"XBLOCK", "tl.constexpr", "constexpr"});
  return kernel;
}

PointerUse Use(int loads, int stores) {
  PointerUse use;
  use.is_pointer = true;
  use.loads = loads;
  use.stores = stores;
  return use;
}

EventArgument Whole(int storage, int64_t elements) {
  return TensorArgument(storage, "fp32", {elements}, {1});
}

TEST(EstimateTest, CountsEachByteOnceForReadAndOnceForWrite) {
  const int64_t n = 32 * kMiB;  // 128 MiB a tensor: beyond L2
  Kernel kernel = KernelOf("k", 2);
  struct {
    const char* name;
    std::vector<EventArgument> arguments;
    std::vector<PointerUse> uses;
    int64_t bytes;
  } const cases[] = {
      {"copy", {Whole(0, n), Whole(1, n)}, {Use(1, 0), Use(0, 1)}, 8 * n},
      {"in place", {Whole(0, n)}, {Use(1, 1)}, 8 * n},
      {"one tensor in two slots", {Whole(0, n), Whole(0, n)}, {Use(1, 0), Use(1, 0)}, 4 * n},
      {"read and written through two slots",
       {Whole(0, n), Whole(0, n)},
       {Use(1, 0), Use(0, 1)},
       8 * n},
      {"two halves",
       {TensorArgument(0, "fp32", {n / 2}, {1}), TensorArgument(0, "fp32", {n / 2}, {1}, n / 2)},
       {Use(1, 0), Use(1, 0)},
       4 * n},
      {"broadcast", {TensorArgument(0, "fp32", {n / 4, 64}, {1, 0})}, {Use(1, 0)}, n},
      {"half precision", {TensorArgument(0, "bf16", {n}, {1})}, {Use(1, 0)}, 2 * n},
      {"every second", {TensorArgument(0, "fp32", {n / 2}, {2})}, {Use(1, 0)}, 2 * n},
      {"unused", {Whole(0, n), Whole(1, n)}, {Use(1, 0), Use(0, 0)}, 4 * n},
      {"not analysed", {Whole(0, n), Whole(1, n)}, {}, 8 * n},
      {"empty", {TensorArgument(0, "fp32", {0, 8}, {8, 1})}, {Use(1, 0)}, 0},
  };
  for (const auto& c : cases) {
    std::vector<EventArgument> arguments = c.arguments;
    arguments.push_back(IntArgument(n));
    Kernel named = KernelOf("k", static_cast<int>(c.arguments.size()));
    Capture capture = SmallCapture({4 * n, 4 * n}, {LaunchEvent("k", arguments)});
    EXPECT_EQ(BytesOfLaunch(capture, {0, 0, 0}, named, c.uses).total(), c.bytes) << c.name;
  }
  // A gather of 1000 rows doesn't read the whole table.
  Capture gather = SmallCapture(
      {4 * n, 4000}, {LaunchEvent("k", {Whole(0, n), Whole(1, 1000), IntArgument(1000)})});
  EXPECT_EQ(BytesOfLaunch(gather, {0, 0, 0}, kernel, {Use(1, 0), Use(0, 1)}).total(), 8000);
}

TEST(EstimateTest, KnowsWhatIsStillInL2) {
  Capture capture = SmallCapture(
      {20 * kMiB, 20 * kMiB, 20 * kMiB, 4 * kMiB},
      {LaunchEvent("a", {Whole(0, 5 * kMiB), Whole(1, 5 * kMiB)}),
       StorageEvent(Event::Kind::kAlloc, 3), StorageEvent(Event::Kind::kZero, 3),
       LaunchEvent("b", {Whole(2, 5 * kMiB)}),
       LaunchEvent("c", {Whole(0, 5 * kMiB), Whole(2, 5 * kMiB), IntArgument(5 * kMiB)})});
  EXPECT_THAT(RecentStorages(capture, {0, 0, 0}), IsEmpty());
  EXPECT_THAT(RecentStorages(capture, {0, 0, 3}), ElementsAre(0, 1, 3));
  EXPECT_THAT(RecentStorages(capture, {0, 0, 4}), ElementsAre(1, 3, 2));
  Kernel kernel = KernelOf("c", 2);
  LaunchBytes bytes = BytesOfLaunch(capture, {0, 0, 4}, kernel, {Use(1, 0), Use(1, 0)});
  EXPECT_EQ(bytes.l2, 20 * kMiB);
  EXPECT_EQ(bytes.dram, 20 * kMiB);
}

TEST(EstimateTest, FloorIsTheSlowerOfTheLevels) {
  DeviceSpeeds speeds{4000, 8000, 2};
  EXPECT_DOUBLE_EQ(FloorUs({0, 0}, speeds), 2);
  EXPECT_DOUBLE_EQ(FloorUs({40000000, 0}, speeds), 10);
  EXPECT_DOUBLE_EQ(FloorUs({40000000, 80000000}, speeds), 15);
}

TEST(EstimateTest, OrdersByGainAndStopsWhereLittleIsLeft) {
  const int64_t n = 20 * kMiB;
  std::map<std::string, Module> modules;
  Module module;
  module.kernels = {KernelOf("small", 2), KernelOf("large", 2), KernelOf("perfect", 2)};
  modules["m"] = module;
  auto arguments = [&] {
    return std::vector<EventArgument>{Whole(0, n), Whole(1, n), IntArgument(n)};
  };
  Event mm = LaunchEvent("aten.mm", {}, 500);
  mm.kind = Event::Kind::kExtern;
  Capture capture = SmallCapture(
      {4 * n, 4 * n},
      {LaunchEvent("small", arguments(), 45), mm, LaunchEvent("large", arguments(), 142),
       LaunchEvent("unknown", {}, 5), LaunchEvent("large", arguments(), 142),
       LaunchEvent("perfect", arguments(), 40)});
  capture.variants[0].compiled_us = 1000;
  std::vector<KernelWork> work = CollectWork(capture, modules);
  ASSERT_EQ(work.size(), 3u);
  EXPECT_EQ(work[1].sites.size(), 2u);
  EXPECT_EQ(work[1].sites[1].ToString(capture), "default graph 0 event 4");

  DeviceSpeeds speeds{4000, 8000, 2};  // 160 MiB: 42 us
  ModelEstimate estimate = Estimate(capture, 0, work, {}, speeds);
  ASSERT_EQ(estimate.kernels.size(), 3u);
  EXPECT_EQ(estimate.kernels[0].name, "large");
  EXPECT_EQ(estimate.kernels[0].launches, 2);
  EXPECT_NEAR(estimate.kernels[0].gain_us, 200, 0.2);
  EXPECT_EQ(estimate.kernels[2].gain_us, 0);
  EXPECT_EQ(estimate.worthwhile, 1u);
  EXPECT_NEAR(estimate.left_us, 3, 0.1);
  EXPECT_NEAR(estimate.at_most, 1000 / (1000 - 203.1), 1e-3);
  EXPECT_NEAR(estimate.extern_us, 500, 1e-9);
  EXPECT_THAT(Summary(estimate), HasSubstr("at most 1.25x for this model: 1 of 3 kernels"));
  EXPECT_EQ(ToJson(estimate)["kernels"].size(), 3u);
  // A stricter rule works on more.
  EXPECT_EQ(Estimate(capture, 0, work, {}, speeds, 0.001).worthwhile, 2u);
}

TEST(EstimateTest, NoKernelNoGain) {
  Capture capture = SmallCapture({}, {});
  ModelEstimate estimate = Estimate(capture, 0, {}, {}, {4000, 8000, 2});
  EXPECT_EQ(estimate.at_most, 1);
  EXPECT_THAT(Summary(estimate), HasSubstr("launches no generated kernel"));
}

}  // namespace
}  // namespace kernelopt
