#include "inductor/canonical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inductor/test_modules.h"

namespace kernelopt {
namespace {

struct Change {
  const char* what;
  const char* from;
  const char* to;
};

std::string KernelKey(const std::string& text, size_t index = 0) {
  return Read(text).kernels.at(index).key;
}

class CanonicalTest : public testing::Test {
 protected:
  const std::string text_ = FixtureText("pointwise_and_mm.py");
  const std::string other_ = FixtureText("reductions.py");
};

TEST_F(CanonicalTest, AKernelsKeyIgnoresWhatDoesNotCompute) {
  const std::string key = KernelKey(text_);
  EXPECT_EQ(key.size(), 64u);
  for (const Change& c : {
           Change{"name", "triton_poi_fused_relu_0", "triton_poi_fused_other_17"},
           Change{"comment", "    x2 = xindex\n", "    # note\n    x2 = xindex  # here\n"},
           Change{"layout", "tmp0 + tmp1", "tmp0  +  tmp1"},
           Change{"docstring", "    xnumel = 4096\n", "    \"\"\"Doc.\"\"\"\n    xnumel = 4096\n"},
           Change{"indentation", "\n    x2 = xindex\n    x0", "\n    x2 = xindex;\n    x0"},
           Change{"backend hash", "0123ABCD", "4567CDEF"},
           Change{"device", "multi_processor_count=132", "multi_processor_count=78"},
           Change{"device index", "index=0", "index=3"},
           Change{"flag", "'spill_threshold': 16", "'spill_threshold': 32, 'max_autotune': True"},
           Change{"scores", "'tiling_scores': {'x': 49152}", "'tiling_scores': {'x': 7}"},
           Change{"hint", "    min_elem_per_thread=0", "    tile_hint=TileHint.DEFAULT"},
       }) {
    EXPECT_EQ(KernelKey(Replaced(text_, c.from, c.to)), key) << c.what;
  }
}

TEST_F(CanonicalTest, AKernelsKeyChangesWithWhatItComputes) {
  const std::string key = KernelKey(text_);
  for (const Change& c : {
           Change{"size", "    xnumel = 4096", "    xnumel = 4097"},
           Change{"stride", "xindex % 64", "xindex % 32"},
           Change{"constant", "tl.full([1], 0, tl.int32)", "tl.full([1], 1, tl.int32)"},
           Change{"operation", "triton_helpers.maximum", "triton_helpers.minimum"},
           Change{"hint of size", "size_hints={'x': 4096}", "size_hints={'x': 8192}"},
           Change{"type", "'in_ptr0': '*fp32'", "'in_ptr0': '*bf16'"},
           Change{"alignment", "(1,): [['tt.divisibility', 16]], ", ""},
           Change{"constants", "'constants': {}", "'constants': {'xnumel': 4096}"},
           Change{"fusion", "'enable_fp_fusion': True", "'enable_fp_fusion': False"},
           Change{"ftz", "'disable_ftz': False", "'disable_ftz': True"},
           Change{"mutated", "'mutated_arg_names': ['in_out_ptr0']", "'mutated_arg_names': []"},
           Change{"grid", "'grid_type': 'Grid1D'", "'grid_type': 'Grid2D'"},
           Change{"kind", "triton_heuristics.pointwise", "triton_heuristics.reduction"},
           Change{"argument", "(in_out_ptr0, in_ptr0, xnumel, XBLOCK",
                  "(in_ptr0, in_out_ptr0, xnumel, XBLOCK"},
           Change{"cache hint", ", eviction_policy='evict_last'", ""},
       }) {
    EXPECT_NE(KernelKey(Replaced(text_, c.from, c.to)), key) << c.what;
  }
}

TEST_F(CanonicalTest, HelpersAndBlocksEnterAKernelsKey) {
  const std::string key = KernelKey(other_, 1);
  EXPECT_NE(KernelKey(Replaced(other_, "arg0_0 + arg1_0", "arg0_0 - arg1_0"), 1), key);
  // The store leaves the loop: the same tokens in another block.
  EXPECT_NE(
      KernelKey(
          Replaced(other_, "        tl.store(out_ptr0 + (r0_index + 3000*xindex), tmp3, r0_mask)",
                   "    tl.store(out_ptr0 + (r0_index + 3000*xindex), tmp3, r0_mask)"),
          1),
      key);
}

TEST_F(CanonicalTest, AModulesKeyIgnoresNamesPathsAndTheGpusIndex) {
  const std::string key = Read(text_).key;
  EXPECT_EQ(key.size(), 64u);
  for (const Change& c : {
           Change{"name", "triton_poi_fused_relu_0", "triton_poi_fused_relu_5"},
           Change{"AOT ID", "['0_inference']", "['9_inference']"},
           Change{"path", "/tmp/torchinductor_me/ab/cab.py", "/var/x.py"},
           Change{"comment", "# Graph fragment:\n", ""},
           Change{"docstring", "# AOT ID", "'''\nCompile-time auto-tuning block:\n'''\n# AOT ID"},
           Change{"layout", "\n\nasync_compile.wait", "\nasync_compile.wait"},
           Change{"constant's hash", "# 4f2a", "# 77aa"},
           Change{"kernel's flag", "'spill_threshold': 16", "'spill_threshold': 32"},
           Change{"tail", "rand_strided((64, 64), (64, 1)", "rand_strided((65, 64), (64, 1)"},
       }) {
    EXPECT_EQ(Read(Replaced(text_, c.from, c.to)).key, key) << c.what;
  }
}

std::string OnGpu(std::string text, const std::string& index) {
  text = Replaced(text, "_DeviceGuard(0)", "_DeviceGuard(" + index + ")");
  text = Replaced(text, "set_device(0)", "set_device(" + index + ")");
  text = Replaced(text, "get_raw_stream(0)", "get_raw_stream(" + index + ")");
  text = Replaced(text, "stream0", "stream" + index);
  return Replaced(text, "index=0", "index=" + index);
}

TEST_F(CanonicalTest, AnotherGpuGivesTheSameKeyButTwoGpusDoNot) {
  const std::string alloc = "buf9 = torch.empty(1, device='cuda:0')\n            stream0 = ";
  const std::string text = Replaced(text_, "stream0 = ", alloc);
  EXPECT_EQ(Read(Replaced(OnGpu(text, "1"), "'cuda:0'", "'cuda:1'")).key, Read(text).key);
  EXPECT_EQ(Read(OnGpu(text_, "12")).key, Read(text_).key);
  // One that stays on GPU 0 while the rest is on 1 is another program.
  EXPECT_NE(Read(Replaced(OnGpu(text_, "1"), "set_device(1)", "set_device(0)")).key,
            Read(text_).key);
}

TEST_F(CanonicalTest, AModulesKeyChangesWithTheProgram) {
  const std::string key = Read(text_).key;
  for (const Change& c : {
           Change{"size", "(64, 64), (64, 1), torch.float32", "(64, 32), (64, 1), torch.float32"},
           Change{"stride", "(64, ), (64, ), 0", "(64, ), (32, ), 0"},
           Change{"library call", "extern_kernels.mm", "extern_kernels.bmm"},
           Change{"its arguments", "mm(arg0_1, arg2_1", "mm(arg2_1, arg0_1"},
           Change{"launch", "run(buf1, arg1_1, 4096", "run(buf1, arg2_1, 4096"},
           Change{"size in the kernel", "    xnumel = 4096", "    xnumel = 4095"},
           Change{"constant in the kernel", "tl.full([1], 0, tl.int32)",
                  "tl.full([1], 1, tl.int32)"},
           Change{"no library call", "            extern_kernels.mm(arg0_1, arg2_1, out=buf0)\n",
                  ""},
           Change{"imports", "import random\n", ""},
       }) {
    EXPECT_NE(Read(Replaced(text_, c.from, c.to)).key, key) << c.what;
  }
}

TEST_F(CanonicalTest, OrdinalsDoNotMatterButWhichKernelRunsDoes) {
  const std::string key = Read(other_).key;
  std::string renumbered =
      Replaced(other_, "triton_red_fused_cumsum_1", "triton_red_fused_cumsum_8");
  renumbered = Replaced(renumbered, "triton_per_fused_softmax_0", "triton_per_fused_softmax_3");
  EXPECT_EQ(Read(renumbered).key, key);
  std::string swapped =
      Replaced(other_, "triton_red_fused_cumsum_1.run(buf2", "triton_per_fused_softmax_0.run(buf2");
  EXPECT_NE(Read(swapped).key, key);
}

TEST_F(CanonicalTest, CppHeadersLoseTheirFolder) {
  const std::string text = FixtureText("left_alone.py");
  const std::string key = Read(text).key;
  EXPECT_EQ(Read(Replaced(text, "/tmp/torchinductor_me/pi/", "/home/you/cache/pi/")).key, key);
  EXPECT_NE(Read(Replaced(text, "pi/cpi.h", "pi/other.h")).key, key);
  EXPECT_NE(Read(Replaced(text, "out_ptr0[0] = in_ptr0[0]", "out_ptr0[0] = 0")).key, key);
}

}  // namespace
}  // namespace kernelopt
