#include "triton/config_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "inductor/module.h"

namespace kernelopt {
namespace {

LaunchConfig Config(std::map<std::string, int64_t> blocks, int warps, int stages = 1) {
  LaunchConfig config;
  config.constexprs = std::move(blocks);
  config.num_warps = warps;
  config.num_stages = stages;
  return config;
}

Kernel KernelOf(const std::string& decorator) {
  Kernel kernel;
  kernel.decorator = decorator;
  return kernel;
}

struct Shape {
  const char* decorator;
  LaunchConfig compiler;
  std::map<std::string, int64_t> numels;
};

std::vector<Shape> Shapes() {
  return {
      {"pointwise", Config({{"XBLOCK", 512}}, 8), {{"xnumel", 1000000}}},
      {"pointwise", Config({{"XBLOCK", 32}, {"YBLOCK", 32}}, 4), {{"xnumel", 100}, {"ynumel", 50}}},
      {"pointwise",
       Config({{"XBLOCK", 16}, {"YBLOCK", 16}, {"ZBLOCK", 16}}, 8),
       {{"xnumel", 16}, {"ynumel", 8}, {"znumel", 30}}},
      {"reduction",
       Config({{"XBLOCK", 1}, {"R0_BLOCK", 2048}}, 16),
       {{"xnumel", 4096}, {"r0_numel", 393216}}},
      {"persistent_reduction", Config({{"XBLOCK", 8}}, 2), {{"xnumel", 4096}, {"r0_numel", 200}}},
      {"persistent_reduction", Config({}, 8), {{"xnumel", 4096}, {"r0_numel", 1000}}},
  };
}

TEST(ConfigSpaceTest, ReadsARecordedConfiguration) {
  LaunchConfig config = ConfigOfLaunch(
      {{"XBLOCK", 64}, {"R0_BLOCK", 8}, {"num_warps", 2}, {"num_stages", 3}, {"maxnreg", 0}});
  EXPECT_EQ(config, Config({{"XBLOCK", 64}, {"R0_BLOCK", 8}}, 2, 3));
}

TEST(ConfigSpaceTest, OrderedBeginsWithTheCompilersAndItsNeighbours) {
  for (const Shape& shape : Shapes()) {
    ConfigSpace space(KernelOf(shape.decorator), shape.compiler, shape.numels);
    std::vector<LaunchConfig> ordered = space.Ordered();
    ASSERT_FALSE(ordered.empty());
    EXPECT_EQ(ordered[0], shape.compiler);
    std::vector<LaunchConfig> neighbours = space.Neighbours(shape.compiler);
    for (size_t i = 0; i < neighbours.size(); ++i) EXPECT_EQ(ordered[1 + i], neighbours[i]);
    std::set<std::string> seen;
    for (const LaunchConfig& config : ordered) {
      EXPECT_TRUE(space.IsLegal(config)) << config.ToString();
      EXPECT_TRUE(seen.insert(config.ToString()).second) << config.ToString();
    }
  }
}

/// Everything that repeated one-step moves reach from the compiler's own
/// configuration is in the list: no descent can find more.
TEST(ConfigSpaceTest, ContainsWhatCoordinateDescentCanReach) {
  for (const Shape& shape : Shapes()) {
    ConfigSpace space(KernelOf(shape.decorator), shape.compiler, shape.numels);
    std::set<std::string> listed;
    for (const LaunchConfig& config : space.Ordered()) listed.insert(config.ToString());
    std::set<std::string> reached = {shape.compiler.ToString()};
    std::deque<LaunchConfig> queue = {shape.compiler};
    while (!queue.empty()) {
      LaunchConfig config = queue.front();
      queue.pop_front();
      EXPECT_TRUE(listed.contains(config.ToString())) << config.ToString();
      for (const LaunchConfig& next : space.Neighbours(config))
        if (reached.insert(next.ToString()).second) queue.push_back(next);
    }
    EXPECT_EQ(reached.size(), listed.size()) << shape.decorator;
  }
}

TEST(ConfigSpaceTest, RefusesBlocksThatElidedMasksForbid) {
  ConfigSpace space(KernelOf("pointwise"), Config({{"XBLOCK", 1024}}, 4), {{"xnumel", 1 << 20}});
  EXPECT_TRUE(space.IsLegal(Config({{"XBLOCK", 4096}}, 4)));
  const LaunchConfig bad[] = {Config({{"XBLOCK", 8192}}, 4),
                              Config({{"XBLOCK", 48}}, 4),
                              Config({{"XBLOCK", 0}}, 4),
                              Config({{"XBLOCK", 1024}}, 64),
                              Config({{"XBLOCK", 64}}, 3),
                              Config({{"YBLOCK", 64}}, 4),
                              Config({}, 4),
                              Config({{"XBLOCK", 64}}, 4, 0)};
  for (const LaunchConfig& config : bad) EXPECT_FALSE(space.IsLegal(config)) << config.ToString();

  ConfigSpace small(KernelOf("pointwise"), Config({{"XBLOCK", 64}}, 1), {{"xnumel", 100}});
  EXPECT_TRUE(small.IsLegal(Config({{"XBLOCK", 128}}, 1)));
  EXPECT_FALSE(small.IsLegal(Config({{"XBLOCK", 256}}, 1)));  // beyond the axis
}

TEST(ConfigSpaceTest, AConstantThatIsNoBlockStays) {
  ConfigSpace space(KernelOf("reduction"), Config({{"XBLOCK", 1}, {"RSPLIT", 8}}, 4),
                    {{"xnumel", 64}});
  for (const LaunchConfig& config : space.Ordered()) EXPECT_EQ(config.constexprs.at("RSPLIT"), 8);
}

TEST(ConfigSpaceTest, RefinementsKeepTheBlocks) {
  ConfigSpace loop(KernelOf("reduction"), Config({{"XBLOCK", 4}, {"R0_BLOCK", 512}}, 4),
                   {{"xnumel", 4096}, {"r0_numel", 65536}});
  ConfigSpace flat(KernelOf("pointwise"), Config({{"XBLOCK", 512}}, 4), {{"xnumel", 1 << 20}});
  bool stages = false, capped = false;
  for (const LaunchConfig& config :
       loop.Refinements(Config({{"XBLOCK", 4}, {"R0_BLOCK", 512}}, 4))) {
    EXPECT_EQ(config.constexprs.at("R0_BLOCK"), 512);
    stages = stages || config.num_stages > 1;
    capped = capped || config.maxnreg.has_value();
  }
  EXPECT_TRUE(stages && capped);
  for (const LaunchConfig& config : flat.Refinements(Config({{"XBLOCK", 512}}, 4)))
    EXPECT_EQ(config.num_stages, 1);
}

TEST(ConfigSpaceTest, TheCompilersOwnTileIsAlwaysLegal) {
  ConfigSpace space(KernelOf("persistent_reduction"), Config({{"XBLOCK", 128}}, 2),
                    {{"xnumel", 4096}, {"r0_numel", 4096}});
  EXPECT_EQ(space.Tile(Config({{"XBLOCK", 128}}, 2)), 128 * 4096);
  EXPECT_EQ(space.Ordered()[0], Config({{"XBLOCK", 128}}, 2));
}

}  // namespace
}  // namespace kernelopt
