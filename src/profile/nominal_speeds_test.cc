#include "profile/nominal_speeds.h"

#include <gtest/gtest.h>

namespace kernelopt {
namespace {

TEST(NominalSpeeds, GoByThePartOfTheNameThatSaysMost) {
  const std::pair<const char*, double> cases[] = {
      {"NVIDIA H200", 4320},      {"NVIDIA GH200 480GB", 3600},
      {"NVIDIA H100 PCIe", 1800}, {"NVIDIA H100 80GB HBM3", 3015},
      {"NVIDIA A10G", 540},       {"NVIDIA L40S", 777.6},
      {"NVIDIA L4", 270},         {"NVIDIA GeForce RTX 4090", 907.2}};
  for (const auto& [name, bandwidth] : cases) {
    const auto speeds = NominalSpeeds(name);
    ASSERT_TRUE(speeds) << name;
    EXPECT_NEAR(speeds->dram_gb_s, bandwidth, 1e-6) << name;
    EXPECT_GT(speeds->l2_gb_s, speeds->dram_gb_s);
    EXPECT_GT(speeds->empty_kernel_us, 0);
  }
  EXPECT_FALSE(NominalSpeeds("NVIDIA GeForce GT 710"));
  EXPECT_FALSE(NominalSpeeds(""));
}

}  // namespace
}  // namespace kernelopt
