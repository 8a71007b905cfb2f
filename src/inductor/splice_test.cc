#include "inductor/splice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "inductor/test_modules.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ReplacementStep Step(std::string text) {
  ReplacementStep step;
  step.kernel_text = std::move(text);
  step.config.constexprs = {{"XBLOCK", 256}, {"R0_BLOCK", 512}};
  step.config.num_warps = 8;
  return step;
}

TEST(KernelTextTest, HoldsFunctionsAlone) {
  const Module module = ReadFixture("reductions.py");
  const std::string text = KernelText(module.kernels[1]);
  EXPECT_THAT(text, StartsWith("@triton.jit\ndef _triton_helper_fn_add0(arg0_0, arg1_0):\n"));
  EXPECT_THAT(text, HasSubstr("\n\n@triton.jit\ndef triton_red_fused_cumsum_1(in_ptr0"));
  EXPECT_THAT(text, Not(HasSubstr("import")));
  EXPECT_THAT(text, Not(HasSubstr("triton_heuristics")));
  EXPECT_EQ(KernelText(ReadFixture("left_alone.py").kernels[17]), "");  // not readable
}

TEST(BuildSourceTest, KeepsTheHeaderAndReplacesTheFunctions) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const Kernel& kernel = module.kernels[0];
  auto step = Step(Replaced(KernelText(kernel), "tmp0 + tmp1", "tmp1 + tmp0"));
  step.config.maxnreg = 64;
  const auto source = BuildSource(kernel, step);
  ASSERT_TRUE(source) << source.error().ToString();
  const size_t decorator = kernel.text.find("@triton_heuristics");
  EXPECT_THAT(*source, StartsWith(kernel.text.substr(0, decorator) +
                                  "@triton_heuristics.fixed_config(\n    config={'XBLOCK': 256, "
                                  "'num_warps': 8, 'num_stages': 1, 'maxnreg': 64},\n"
                                  "    filename=__file__,\n    triton_meta={'signature':"));
  EXPECT_THAT(*source, HasSubstr("def triton_poi_fused_relu_0__kopt(in_out_ptr0, in_ptr0"));
  EXPECT_THAT(*source, HasSubstr("tmp2 = tmp1 + tmp0"));
  EXPECT_THAT(*source,
              testing::EndsWith("\n\ntriton_poi_fused_relu_0 = triton_poi_fused_relu_0__kopt\n"));
  const auto again = ReadKernelSource(*source, "k.py");
  ASSERT_TRUE(again) << again.error().ToString();
  EXPECT_EQ(*again->triton_meta, *kernel.triton_meta);
  EXPECT_EQ(*again->inductor_meta, *kernel.inductor_meta);
  EXPECT_EQ(again->decorator, "fixed_config");
}

TEST(BuildSourceTest, PassesOnlyConstexprsThatAreParameters) {
  const Module module = ReadFixture("reductions.py");
  // XBLOCK is fixed to 1 and R0_BLOCK is set inside.
  const auto source = BuildSource(module.kernels[0], Step(KernelText(module.kernels[0])));
  ASSERT_TRUE(source) << source.error().ToString();
  EXPECT_THAT(*source, HasSubstr("config={'num_warps': 8, 'num_stages': 1},"));
  // xnumel is a constant of the signature, not of the configuration.
  const auto reduction = BuildSource(module.kernels[1], Step(KernelText(module.kernels[1])));
  ASSERT_TRUE(reduction) << reduction.error().ToString();
  EXPECT_THAT(*reduction, HasSubstr("config={'XBLOCK': 256, 'R0_BLOCK': 512, 'num_warps': 8,"));
}

TEST(BuildSourceTest, BringsItsOwnHelpers) {
  const Module module = ReadFixture("reductions.py");
  const Kernel& kernel = module.kernels[1];
  const std::string text = Replaced(KernelText(kernel), "_triton_helper_fn_add0", "sum_of") +
                           "\n@triton.jit\ndef after(x):\n    return x.triton_red_fused_cumsum_1\n";
  const auto source = BuildSource(kernel, Step(text));
  ASSERT_TRUE(source) << source.error().ToString();
  EXPECT_THAT(*source, Not(HasSubstr("_triton_helper_fn_add0")));
  EXPECT_THAT(*source, HasSubstr("def sum_of(arg0_0, arg1_0)"));
  EXPECT_THAT(*source, HasSubstr("x.triton_red_fused_cumsum_1\n"));  // an attribute: kept
  EXPECT_LT(source->find("def sum_of"), source->find("@triton_heuristics.fixed_config"));
}

TEST(BuildSourceTest, KeepsAnEntryOfAnotherName) {
  const Module module = ReadFixture("reductions.py");
  const Kernel& kernel = module.kernels[2];
  EXPECT_EQ(kernel.name, "triton_poi_fused_transpose_2");
  EXPECT_EQ(kernel.entry, "triton_");
  auto step = Step(KernelText(kernel));
  step.config.constexprs["YBLOCK"] = 16;
  const auto source = BuildSource(kernel, step);
  ASSERT_TRUE(source) << source.error().ToString();
  EXPECT_THAT(*source, HasSubstr("\ntriton_ = triton___kopt\n"));
}

TEST(BuildSourceTest, RefusesWhatIsNotADropIn) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const Kernel& kernel = module.kernels[0];
  const std::string text = KernelText(kernel);
  const std::string name = kernel.name;
  struct Case {
    std::string text;
    const char* code;
  };
  for (const Case& c : {
           Case{Replaced(text, name, "other"), "entry_mismatch"},
           Case{Replaced(text, "in_ptr0, xnumel", "xnumel, in_ptr0"), "entry_mismatch"},
           Case{Replaced(text, "XBLOCK : tl.constexpr", "XBLOCK"), "entry_mismatch"},
           Case{Replaced(text, "XBLOCK : tl.constexpr)", "XBLOCK : tl.constexpr = 64)"),
                "entry_mismatch"},
           Case{Replaced(text, "xnumel, XBLOCK : tl.constexpr)",
                         "xnumel, XBLOCK : tl.constexpr, *rest)"),
                "entry_mismatch"},
           Case{"", "entry_mismatch"},
           Case{"import os\n" + text, "bad_kernel_text"},
           Case{text + "\nx = 1\n", "bad_kernel_text"},
           Case{text + text, "bad_kernel_text"},
           Case{Replaced(text, "@triton.jit", "@triton.jit(noinline=True)"), "bad_kernel_text"},
           Case{Replaced(text, "@triton.jit\n", ""), "bad_kernel_text"},
           Case{"@run\n" + text, "bad_kernel_text"},
           Case{text + "(", "syntax_error"},
       }) {
    const auto source = BuildSource(kernel, Step(c.text));
    ASSERT_FALSE(source) << c.text;
    EXPECT_EQ(source.error().code, c.code) << c.text;
  }
  auto step = Step(text);
  step.config.constexprs.clear();
  EXPECT_EQ(BuildSource(kernel, step).error().code, "missing_constexpr");
  step = Step(text);
  step.grid[0] = "1";
  EXPECT_EQ(BuildSource(kernel, step).error().code, "not_drop_in");
  step = Step(text);
  step.cooperative = true;
  EXPECT_EQ(BuildSource(kernel, step).error().code, "not_drop_in");
  const Kernel user = ReadFixture("left_alone.py").kernels[0];
  EXPECT_EQ(BuildSource(user, Step(KernelText(user))).error().code, "not_drop_in");
}

TEST(SpliceModuleTest, ChangesOnlyTheSource) {
  const Module module = ReadFixture("reductions.py");
  const std::string name = module.kernels[1].name;
  const std::string source = "x = '''\\n''' # it's '";
  const auto spliced = SpliceModule(module, {{name, source}});
  ASSERT_TRUE(spliced);
  EXPECT_EQ(Read(*spliced).kernels[1].text, source);
  EXPECT_EQ(spliced->substr(0, module.kernels[1].source.begin),
            module.text.substr(0, module.kernels[1].source.begin));
  EXPECT_TRUE(CheckOutsideEqual(module, *spliced, {name}));
  EXPECT_EQ(CheckOutsideEqual(module, *spliced, {}).error().code, "outside_changed");
  EXPECT_EQ(SpliceModule(module, {{"nobody", ""}}).error().code, "no_such_kernel");
  EXPECT_EQ(*SpliceModule(module, {}), module.text);
  EXPECT_EQ(*SpliceModule(module, {{name, module.kernels[1].text}}), module.text);
}

TEST(CheckOutsideEqualTest, FindsEveryByteThatChanged) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const std::string name = module.kernels[0].name;
  const Span inside = module.kernels[0].source;
  int caught = 0;
  for (size_t i = 0; i < module.text.size(); i += 101) {
    if (i >= inside.begin && i < inside.end) continue;
    std::string text = module.text;
    text[i] = text[i] == 'q' ? 'z' : 'q';
    EXPECT_FALSE(CheckOutsideEqual(module, text, {name})) << i;
    ++caught;
  }
  EXPECT_GT(caught, 20);
  const auto status = CheckOutsideEqual(module, module.text + "\n", {name});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("at byte " + std::to_string(module.text.size())));
}

TEST(CheckOutsideEqualTest, FindsADroppedLibraryCall) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const std::string text =
      Replaced(module.text, "            extern_kernels.mm(arg0_1, arg2_1, out=buf0)\n", "");
  EXPECT_EQ(CheckOutsideEqual(module, text, {module.kernels[0].name}).error().code,
            "outside_changed");
}

TEST(CheckOutsideEqualTest, ASourceCannotEscapeItsQuotes) {
  const Module module = ReadFixture("pointwise_and_mm.py");
  const Kernel& kernel = module.kernels[0];
  // Written without escapes, as a careless splice would.
  std::string text = module.text;
  text.replace(kernel.source.begin, kernel.source.size(),
               "''', device_str='cuda')\nextern_kernels.mm = None\nx = ('''");
  EXPECT_FALSE(CheckOutsideEqual(module, text, {kernel.name}));
}

TEST(ComputeGridTest, FollowsTheGridTypes) {
  struct Case {
    const char* type;
    std::map<std::string, int64_t> blocks;
    std::map<std::string, int64_t> numels;
    std::array<int64_t, 3> grid;
  };
  for (const Case& c : {
           Case{"Grid1D", {{"XBLOCK", 64}}, {{"xnumel", 129}}, {3, 1, 1}},
           Case{"Grid1D", {}, {{"xnumel", 129}, {"r0_numel", 5}}, {129, 1, 1}},
           Case{"Grid1D", {{"XBLOCK", 64}}, {{"xnumel", 0}}, {0, 1, 1}},
           Case{"Grid2D",
                {{"XBLOCK", 16}, {"YBLOCK", 32}},
                {{"xnumel", 48}, {"ynumel", 33}},
                {3, 2, 1}},
           Case{"Grid3D",
                {{"XBLOCK", 2}, {"YBLOCK", 2}, {"ZBLOCK", 2}},
                {{"xnumel", 3}, {"ynumel", 5}, {"znumel", 7}},
                {2, 3, 4}},
           // 70000 y blocks: 2 slices of 35000; 131070 = 2 * 65535 still two.
           Case{"Grid2DWithYZOverflow",
                {{"XBLOCK", 32}, {"YBLOCK", 1}},
                {{"xnumel", 48}, {"ynumel", 70000}},
                {2, 35000, 2}},
           Case{"Grid2DWithYZOverflow",
                {{"XBLOCK", 32}, {"YBLOCK", 1}},
                {{"xnumel", 48}, {"ynumel", 131071}},
                {2, 43691, 3}},
           Case{"Grid2DWithYZOverflow",
                {{"XBLOCK", 32}, {"YBLOCK", 64}},
                {{"xnumel", 48}, {"ynumel", 70000}},
                {2, 1094, 1}},
           Case{"Grid2DWithYZOverflow",
                {{"XBLOCK", 32}, {"YBLOCK", 64}},
                {{"xnumel", 48}, {"ynumel", 0}},
                {2, 0, 0}},
       }) {
    Kernel kernel;
    kernel.grid_type = c.type;
    LaunchConfig config;
    config.constexprs = c.blocks;
    for (const auto& [name, block] : c.blocks) {
      kernel.arguments.push_back({name, "tl.constexpr", "constexpr"});
    }
    const auto grid = ComputeGrid(kernel, config, c.numels);
    ASSERT_TRUE(grid) << grid.error().ToString();
    EXPECT_EQ(*grid, c.grid) << c.type;
  }
}

TEST(ComputeGridTest, RefusesByName) {
  Kernel kernel;
  LaunchConfig config;
  config.constexprs = {{"XBLOCK", 1}, {"YBLOCK", 1}};
  kernel.arguments = {{"XBLOCK", "tl.constexpr", "constexpr"},
                      {"YBLOCK", "tl.constexpr", "constexpr"}};
  for (const char* type :
       {"FixedGrid", "PrecomputedGrid", "MixOrderReductionGrid", "CooperativeReductionGrid",
        "SplitScanGrid", "SequentialComboKernelGrid", "BatchMatmulGrid3D", ""}) {
    kernel.grid_type = type;
    const auto grid = ComputeGrid(kernel, config, {{"xnumel", 1}});
    ASSERT_FALSE(grid);
    EXPECT_EQ(grid.error().code, "unsupported_grid");
    EXPECT_THAT(grid.error().message, HasSubstr(std::string("'") + type + "'"));
  }
  kernel.grid_type = "Grid2D";
  EXPECT_EQ(ComputeGrid(kernel, config, {{"xnumel", 1}}).error().code, "missing_numel");
  EXPECT_EQ(ComputeGrid(kernel, config, {{"xnumel", 1}, {"ynumel", 65536}}).error().code,
            "grid_too_large");
  config.constexprs["YBLOCK"] = 0;
  EXPECT_EQ(ComputeGrid(kernel, config, {{"xnumel", 1}, {"ynumel", 1}}).error().code, "bad_block");
}

}  // namespace
}  // namespace kernelopt
