#include "shadow/memory.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "device/data.h"

namespace kernelopt {
namespace {

KoptDraw DrawOf(int64_t elements) {
  StorageSpec spec;
  spec.bytes = elements * 4;
  return *MakeDraw(spec, 3, DataSet{.family = DataFamily::kNormal, .seed = 5});
}

TEST(Memory, AddressesLeadToTheirStorageHoweverFarOutside) {
  ShadowMemory memory;
  const uint64_t a = memory.Allocate(64), b = memory.Allocate(64);
  EXPECT_NE(memory.Find(a), memory.Find(b));
  EXPECT_EQ(memory.Find(a + (uint64_t{1} << 40)), memory.Find(a));
  EXPECT_EQ(memory.Find(b - (uint64_t{1} << 40)), memory.Find(b));
  EXPECT_EQ(ShadowMemory::Offset(b - 12), -12);
  EXPECT_EQ(memory.Find(0), nullptr);
  EXPECT_EQ(memory.Find(~uint64_t{0}), nullptr);
  memory.Free(a);
  EXPECT_EQ(memory.Find(a), nullptr);
  EXPECT_EQ(memory.allocated(), 64);
}

TEST(Memory, FillsRunsWithTheJudgesElements) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                      DType::kInt32, DType::kInt64}) {
    for (DataFamily family : {DataFamily::kNormal, DataFamily::kUniform, DataFamily::kSpecial}) {
      for (int perturbation : {0, 1, 3, -1, -2}) {
        for (bool is_weight : {false, true}) {
          const int bytes = SizeOf(dtype);
          StorageSpec spec;
          spec.bytes = 4096 * bytes;
          spec.dtype = dtype;
          spec.int_high = 100;
          spec.is_weight = is_weight;
          const KoptDraw draw =
              *MakeDraw(spec, 2, DataSet{.family = family, .seed = 7}, perturbation);
          std::vector<char> filled(static_cast<size_t>(600 * bytes));
          ShadowContent::Draw(draw).Fill(1000, 600, bytes, filled.data());
          for (int64_t i = 0; i < 600; ++i) {
            ASSERT_EQ(LoadElement(filled.data(), i, dtype), DrawElement(draw, 1000 + i))
                << ToString(dtype) << " " << ToString(family) << " " << perturbation << " " << i;
          }
        }
      }
    }
  }
}

TEST(Memory, HoldsItsContentAndWhatWasStored) {
  ShadowMemory memory;
  ShadowStorage& storage = memory.At(memory.Allocate(int64_t{4} << 40));
  const KoptDraw draw = DrawOf(int64_t{1} << 40);
  storage.SetContent(ShadowContent::Draw(draw));
  const int64_t far = (int64_t{1} << 40) - 3;
  EXPECT_EQ(storage.Element(far), DrawElement(draw, far));
  storage.Store(far, 77);
  EXPECT_EQ(storage.Element(far), 77u);
  EXPECT_TRUE(storage.IsWritten(far));
  EXPECT_FALSE(storage.IsWritten(far + 1));
  EXPECT_EQ(storage.pages().size(), 1u);
  ShadowStorage copy(storage.bytes());
  copy.CopyFrom(storage);
  storage.SetContent(ShadowContent::Bytes(0));
  EXPECT_EQ(storage.Element(far), 0u);
  EXPECT_EQ(copy.Element(far), 77u);
  EXPECT_EQ(copy.Element(far - 1), DrawElement(draw, far - 1));
  EXPECT_FALSE(copy.SetElementBytes(8));
}

TEST(Memory, WidensFloats) {
  const uint16_t halves[] = {0x3C00, 0xC000, 0x7C00};
  auto narrow = std::make_shared<const ShadowContent>(
      ShadowContent::Host(std::string(reinterpret_cast<const char*>(halves), 6)));
  const ShadowContent wide = ShadowContent::Widened(narrow, DType::kFloat16);
  double values[3];
  wide.Fill(0, 3, 8, values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_GT(values[2], 1e300);
}

TEST(Memory, FingerprintsTellContentsApart) {
  const std::vector<ShadowContent> all = {
      ShadowContent::Bytes(0),
      ShadowContent::Bytes(1),
      ShadowContent::Poison(DType::kFloat32, 0),
      ShadowContent::Poison(DType::kFloat32, 1),
      ShadowContent::Draw(DrawOf(8)),
      ShadowContent::Draw(DrawOf(9)),
      ShadowContent::Host("abcd"),
      ShadowContent::Host("abce"),
  };
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j)
      EXPECT_EQ(all[i].Fingerprint() == all[j].Fingerprint(), i == j) << i << " " << j;
}

RC_GTEST_PROP(Pages, RangesAreMarkedAsElementsAre, (uint16_t a, uint16_t b)) {
  const int64_t begin = std::min(a, b) % kShadowPageElements;
  const int64_t end = std::min<int64_t>(begin + std::max(a, b) % 200, kShadowPageElements);
  ShadowPage ranges, singles;
  ranges.MarkRange(begin, end);
  for (int64_t i = begin; i < end; ++i) singles.MarkWritten(i);
  RC_ASSERT(ranges.written == singles.written);
  RC_ASSERT(ranges.Count() == end - begin);
  RC_ASSERT(ranges.AnyWritten(begin, end) == (end > begin));
  RC_ASSERT(!ranges.AnyWritten(end, kShadowPageElements));
  RC_ASSERT(!ranges.AnyWritten(0, begin));
}

}  // namespace
}  // namespace kernelopt
