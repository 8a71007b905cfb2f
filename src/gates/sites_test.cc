#include "gates/sites.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "inductor/module.h"
#include "testing/capture_fixture.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using testing::IntArgument;
using testing::LaunchEvent;
using testing::SmallCapture;
using testing::StorageEvent;
using testing::TensorArgument;

Kernel ThreePointers() {
  Kernel kernel;
  kernel.name = kernel.entry = "k";
  kernel.grid_type = "Grid1D";
  kernel.arguments = {{"in_ptr0", "", "*fp32"},
                      {"in_ptr1", "", "*i64"},
                      {"out_ptr0", "", "*fp32"},
                      {"xnumel", "", "i32"},
                      {"XBLOCK", "tl.constexpr", "constexpr"}};
  return kernel;
}

std::vector<PointerUse> Uses(std::vector<std::pair<int, int>> loads_stores) {
  std::vector<PointerUse> uses;
  for (auto [loads, stores] : loads_stores) {
    PointerUse use;
    use.is_pointer = loads + stores > 0;
    use.loads = loads;
    use.stores = stores;
    uses.push_back(use);
  }
  uses.resize(5);
  return uses;
}

std::vector<EventArgument> Arguments() {
  EventArgument index = TensorArgument(1, "i64", {100}, {1});
  index.tensor.has_values = true;
  index.tensor.low = -3;
  index.tensor.high = 99;
  index.tensor.contents = "blob";
  EventArgument data = TensorArgument(0, "fp32", {100}, {1}, 4);
  data.tensor.has_values = true;
  data.tensor.low = 0.5;
  data.tensor.high = 2;
  return {data, index, TensorArgument(2, "fp32", {100}, {1}), IntArgument(100)};
}

Capture CaptureOf(std::vector<EventArgument> arguments) {
  return SmallCapture({416, 800, 400}, {StorageEvent(Event::Kind::kAlloc, 2),
                                        LaunchEvent("k", std::move(arguments))});
}

TEST(SitesTest, RebuildsALaunch) {
  Capture capture = CaptureOf(Arguments());
  auto built = BuildSite(capture, {0, 0, 1}, ThreePointers(), Uses({{1, 0}, {1, 0}, {0, 1}}));
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  EXPECT_EQ(built->site.name, "default graph 0 event 1");
  EXPECT_EQ(built->numels.at("xnumel"), 100);
  EXPECT_EQ(built->compiler_config.constexprs.at("XBLOCK"), 1024);
  ASSERT_EQ(built->site.storages.size(), 3u);
  const StorageSpec& data = built->site.storages[0];
  EXPECT_EQ(data.bytes, 416);
  EXPECT_EQ(data.role, StorageRole::kData);
  EXPECT_FALSE(data.written);
  EXPECT_TRUE(data.has_envelope);
  EXPECT_EQ(data.float_low, 0.5);
  const StorageSpec& index = built->site.storages[1];
  EXPECT_EQ(index.dtype, DType::kInt64);
  EXPECT_EQ(index.int_low, -3);
  EXPECT_EQ(index.int_high, 99);
  EXPECT_EQ(index.contents_path, capture.BlobPath("blob"));
  const StorageSpec& out = built->site.storages[2];
  EXPECT_EQ(out.role, StorageRole::kPoison);
  EXPECT_TRUE(out.written);
  ASSERT_EQ(built->site.arguments.size(), 4u);
  EXPECT_EQ(built->site.arguments[0].byte_offset, 16);
  EXPECT_EQ(built->site.arguments[3].kind, ArgumentSpec::Kind::kInt);
  EXPECT_EQ(built->site.arguments[3].int_value, 100);
}

TEST(SitesTest, JoinsTheRolesOfSlotsThatShareAStorage) {
  // One tensor read through the first slot and written through the third.
  std::vector<EventArgument> arguments = Arguments();
  arguments[2] = TensorArgument(0, "fp32", {100}, {1});
  Capture capture = CaptureOf(arguments);
  auto built = BuildSite(capture, {0, 0, 1}, ThreePointers(), Uses({{1, 0}, {1, 0}, {0, 1}}));
  ASSERT_TRUE(built.has_value()) << built.error().ToString();
  ASSERT_EQ(built->site.storages.size(), 2u);
  EXPECT_EQ(built->site.storages[0].role, StorageRole::kData);
  EXPECT_TRUE(built->site.storages[0].written);
  EXPECT_EQ(built->site.arguments[0].storage, built->site.arguments[2].storage);
  EXPECT_EQ(built->site.arguments[2].byte_offset, 0);
}

TEST(SitesTest, NamesPlayNoPart) {
  // The "input" is the one that is written, and the other way round.
  Capture capture = CaptureOf(Arguments());
  auto built = BuildSite(capture, {0, 0, 1}, ThreePointers(), Uses({{0, 1}, {1, 0}, {1, 0}}));
  ASSERT_TRUE(built.has_value());
  EXPECT_EQ(built->site.storages[0].role, StorageRole::kPoison);
  EXPECT_EQ(built->site.storages[2].role, StorageRole::kData);
}

TEST(SitesTest, ZerosOnlyWhenNothingCameBetween) {
  auto role = [](std::vector<Event> before) {
    before.push_back(LaunchEvent("k", Arguments()));
    int event = static_cast<int>(before.size()) - 1;
    Capture capture = SmallCapture({416, 800, 400}, before);
    return BuildSite(capture, {0, 0, event}, ThreePointers(), Uses({{1, 0}, {1, 0}, {1, 1}}))
        ->site.storages[2]
        .role;
  };
  Event alloc = StorageEvent(Event::Kind::kAlloc, 2), zero = StorageEvent(Event::Kind::kZero, 2);
  Event use = LaunchEvent("other", {TensorArgument(2, "fp32", {1}, {1})});
  Event else_use = LaunchEvent("other", {TensorArgument(1, "i64", {1}, {1})});
  EXPECT_EQ(role({alloc, zero}), StorageRole::kZeros);
  EXPECT_EQ(role({alloc, zero, else_use}), StorageRole::kZeros);
  EXPECT_EQ(role({alloc, zero, use}), StorageRole::kData);
  EXPECT_EQ(role({zero, alloc}), StorageRole::kData);
  EXPECT_EQ(role({alloc}), StorageRole::kData);
  EXPECT_EQ(role({}), StorageRole::kData);
}

TEST(SitesTest, TouchesWhatTheProgramUsedBefore) {
  Capture capture =
      SmallCapture({416, 800, 400}, {LaunchEvent("other", {TensorArgument(2, "fp32", {1}, {1})}),
                                     LaunchEvent("other", {TensorArgument(0, "fp32", {1}, {1})}),
                                     LaunchEvent("k", Arguments())});
  auto built = BuildSite(capture, {0, 0, 2}, ThreePointers(), Uses({{1, 0}, {1, 0}, {0, 1}}));
  ASSERT_TRUE(built.has_value());
  EXPECT_THAT(built->touched, ElementsAre(2, 0));
}

TEST(SitesTest, RefusesWhatItCannotRebuild) {
  struct {
    const char* code;
    std::function<void(std::vector<EventArgument>&, std::vector<PointerUse>&)> change;
  } const cases[] = {
      {"unsupported_dtype", [](auto& a, auto&) { a[0].tensor.dtype = "fp8e4nv"; }},
      {"mixed_dtypes", [](auto& a, auto&) { a[2] = TensorArgument(0, "i32", {100}, {1}); }},
      {"atomics", [](auto&, auto& uses) { uses[2].atomics = 1; }},
      {"unknown_integer_domain", [](auto& a, auto&) { a[1].tensor.has_values = false; }},
      {"unsupported_argument", [](auto& a, auto&) { a[3].kind = EventArgument::Kind::kNone; }},
      {"unsupported_argument", [](auto& a, auto&) { a[3].kind = EventArgument::Kind::kOther; }},
      {"argument_count", [](auto& a, auto&) { a.resize(6); }},
      {"argument_count", [](auto&, auto& uses) { uses.resize(2); }},
      {"unknown_storage", [](auto& a, auto&) { a[0].tensor.storage = 77; }},
      {"outside_storage", [](auto& a, auto&) { a[0].tensor.offset = 5; }},
      {"outside_storage", [](auto& a, auto&) { a[0].tensor.offset = -1; }},
      {"outside_storage", [](auto& a, auto&) { a[0].tensor.stride = {-1}; }},
  };
  for (const auto& [code, change] : cases) {
    std::vector<EventArgument> arguments = Arguments();
    std::vector<PointerUse> uses = Uses({{1, 0}, {1, 0}, {0, 1}});
    change(arguments, uses);
    Capture capture = CaptureOf(arguments);
    auto built = BuildSite(capture, {0, 0, 1}, ThreePointers(), uses);
    ASSERT_FALSE(built.has_value()) << code;
    EXPECT_EQ(built.error().code, code) << built.error().ToString();
  }
}

TEST(SitesTest, SpreadsUsesOverConstants) {
  Kernel kernel = ThreePointers();
  kernel.arguments[3].triton_type = "constexpr";  // a numel of 1 is folded
  std::vector<PointerUse> uses = Uses({{1, 0}, {2, 0}, {0, 1}});
  uses.resize(3);
  auto spread = UsesByArgument(kernel, uses);
  ASSERT_TRUE(spread.has_value());
  ASSERT_EQ(spread->size(), 5u);
  EXPECT_EQ((*spread)[1].loads, 2);
  EXPECT_FALSE((*spread)[3].is_pointer);
  for (size_t wrong : {2, 4}) {
    std::vector<PointerUse> other = uses;
    other.resize(wrong);
    EXPECT_EQ(UsesByArgument(kernel, other).error().code, "argument_count");
  }
}

TEST(SitesTest, LaunchesWithTheConfigurationsGrid) {
  Capture capture = CaptureOf(Arguments());
  Kernel kernel = ThreePointers();
  auto built = BuildSite(capture, {0, 0, 1}, kernel, Uses({{1, 0}, {1, 0}, {0, 1}}));
  ASSERT_TRUE(built.has_value());
  CompileOutput compiled;
  compiled.cubin_path = "x.cubin";
  LaunchConfig config;
  config.constexprs = {{"XBLOCK", 16}};
  auto program = ProgramAt(kernel, config, compiled, *built);
  ASSERT_TRUE(program.has_value()) << program.error().ToString();
  EXPECT_THAT(program->grid, ElementsAre(7, 1, 1));
  kernel.grid_type = "CooperativeReductionGrid";
  EXPECT_EQ(ProgramAt(kernel, config, compiled, *built).error().code, "unsupported_grid");
}

}  // namespace
}  // namespace kernelopt
