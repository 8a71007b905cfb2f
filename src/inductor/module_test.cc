#include "inductor/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "inductor/splice.h"
#include "inductor/test_modules.h"

namespace kernelopt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ReadModuleTest, ReadsKernelsLaunchesAndLibraryCalls) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  EXPECT_EQ(module.phase, "inference");
  ASSERT_EQ(module.kernels.size(), 1u);
  const Kernel& kernel = module.kernels[0];
  EXPECT_EQ(kernel.name, "triton_poi_fused_relu_0");
  EXPECT_EQ(kernel.entry, kernel.name);
  EXPECT_EQ(kernel.decorator, "pointwise");
  EXPECT_EQ((*kernel.size_hints)["x"], 4096);
  EXPECT_EQ(kernel.grid_type, "Grid1D");
  EXPECT_THAT(kernel.mutated, ElementsAre("in_out_ptr0"));
  ASSERT_EQ(kernel.arguments.size(), 4u);
  EXPECT_EQ(kernel.arguments[0].triton_type, "*fp32");
  EXPECT_EQ(kernel.arguments[3].annotation, "tl.constexpr");
  EXPECT_EQ((*kernel.triton_meta)["configs"][0]["(0,)"][0][0], "tt.divisibility");
  EXPECT_EQ(kernel.source.In(module.text), kernel.text);
  EXPECT_THAT(std::string(kernel.assignment.In(module.text)), HasSubstr("async_compile.triton"));
  EXPECT_THAT(std::string(kernel.function.In(kernel.text)),
              testing::StartsWith("@triton_heuristics.pointwise("));

  ASSERT_EQ(module.launches.size(), 1u);
  EXPECT_EQ(module.launches[0].function, "call");
  EXPECT_THAT(module.launches[0].arguments, ElementsAre("buf1", "arg1_1", "4096"));
  EXPECT_EQ(module.launches[0].stream, "stream0");
  ASSERT_EQ(module.externs.size(), 2u);
  EXPECT_EQ(module.externs[0].target, "extern_kernels.mm");
  EXPECT_THAT(module.externs[0].arguments, ElementsAre("arg0_1", "arg2_1", "out=buf0"));
  EXPECT_EQ(module.externs[1].target, "aten.cumsum.out");
  EXPECT_THAT(module.used_elsewhere, IsEmpty());
}

TEST(ReadModuleTest, AModuleWithoutKernelsIsFine) {
  const auto module = ReadModule("def call(args):\n    return args\n", "m.py");
  ASSERT_TRUE(module);
  EXPECT_TRUE(module->kernels.empty());
  EXPECT_EQ(module->phase, "");
}

TEST(ReadModuleTest, SaysWhereASyntaxErrorIs) {
  const auto module = ReadModule("x = 1\ndef call(:\n", "m.py");
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, "syntax_error");
  EXPECT_THAT(module.error().where, HasSubstr("m.py:2:"));
}

// Damaged modules are read or refused, and one that is read re-assembles.
RC_GTEST_PROP(ReadModuleTest, DamagedModulesDoNoHarm, (uint16_t at, uint8_t cut, char byte)) {
  static const std::string whole = FixtureText("pointwise_and_mm.py");
  std::string text = whole;
  text.replace(at % text.size(), cut % 8, 1, byte);
  const auto module = ReadModule(text, "m.py");
  if (!module) {
    RC_ASSERT(!module.error().where.empty());
    return;
  }
  std::vector<std::pair<std::string, std::string>> own;
  for (const Kernel& kernel : module->kernels) own.emplace_back(kernel.name, kernel.text);
  const auto spliced = SpliceModule(*module, own);
  RC_ASSERT(!spliced || *spliced == text);
}

TEST(ReadKernelSourceTest, ReadsASourceAlone) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const auto kernel = ReadKernelSource(module.kernels[0].text, "k.py");
  ASSERT_TRUE(kernel) << kernel.error().ToString();
  EXPECT_EQ(kernel->name, "triton_poi_fused_relu_0");
  EXPECT_EQ(kernel->key, module.kernels[0].key);
  EXPECT_EQ(ReadKernelSource("x = 1\n", "k.py").error().code, "not_a_kernel");
  EXPECT_EQ(ReadKernelSource("x = = 1\n", "k.py").error().code, "syntax_error");
}

TEST(ModuleToJsonTest, HoldsKernelsLaunchesAndExterns) {
  const Json json = ToJson(ReadFixture("pointwise_and_mm.py"));
  EXPECT_EQ(json["kernels"].size(), 1u);
  EXPECT_EQ(json["launches"].size(), 1u);
  EXPECT_EQ(json["externs"].size(), 2u);
  EXPECT_EQ(json["kernels"][0]["arguments"][0]["type"], "*fp32");
}

}  // namespace
}  // namespace kernelopt
