#include "inductor/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inductor/test_modules.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(RefusalsTest, NamesWhyEachKernelIsKept) {
  const Module module = ReadFixture("left_alone.py");
  std::map<std::string, std::string> codes;
  for (const Refusal& refusal : Refusals(module)) {
    codes[refusal.kernel] = refusal.code;
    EXPECT_THAT(refusal.message, testing::StartsWith(refusal.kernel + " is kept: "));
  }
  EXPECT_EQ(codes, (std::map<std::string, std::string>{
                       {"user_add_0", "user_written"},
                       {"triton_tem_fused_mm_1", "template"},
                       {"triton_poi_fused_combo_2", "combo"},
                       {"triton_for_fused_3", "foreach"},
                       {"triton_red_fused_coop_4", "cooperative"},
                       {"triton_spl_fused_scan_5", "split_scan"},
                       {"triton_red_fused_mix_6", "unsupported_kind"},
                       {"triton_poi_fused_dropout_7", "random_numbers"},
                       {"triton_poi_fused_rand_8", "random_numbers"},
                       {"triton_poi_fused_scatter_9", "atomics"},
                       {"triton_poi_fused_dynamic_10", "symbolic_sizes"},
                       {"triton_poi_fused_scalar_11", "scalar_argument"},
                       {"triton_poi_fused_fp8_12", "fp8"},
                       {"triton_poi_fused_to_fp8_13", "fp8"},
                       {"triton_poi_fused_complex_14", "complex"},
                       {"triton_poi_fused_xpu_15", "not_cuda"},
                       {"triton_poi_fused_picked_16", "other_use"},
                       {"triton_poi_fused_odd_17", "unreadable_source"},
                       {"triton_poi_fused_barrier_18", "waits_for_programs"},
                       {"triton_poi_fused_idle_19", "other_use"},
                   }));
}

TEST(RefusalsTest, PlainKernelsMayBeReplaced) {
  EXPECT_THAT(Refusals(ReadFixture("pointwise_and_mm.py")), IsEmpty());
  EXPECT_THAT(Refusals(ReadFixture("reductions.py")), IsEmpty());
  EXPECT_THAT(Refusals(ReadFixture("no_kernels.py")), IsEmpty());
}

TEST(RefusalsTest, LooksAtLaunchesAndDefinitions) {
  const std::string text = FixtureText("pointwise_and_mm.py");
  struct Case {
    const char* from;
    const char* to;
    const char* code;
  };
  for (const Case& c : {
           Case{"arg1_1, 4096, stream", "arg1_1, 64*s0, stream", "symbolic_sizes"},
           Case{"    xnumel = 4096\n", "", "symbolic_sizes"},
           Case{"device_str='cuda')", "device_str='cpu')", "not_cuda"},
           Case{"triton_poi_fused_relu_0.run(", "run_it(triton_poi_fused_relu_0, ", "other_use"},
           Case{"tmp2 = tmp0 + tmp1",
                "tmp2 = tl.inline_asm_elementwise('', '', [], tl.int32, 1, 1)", "inline_assembly"},
           Case{"'in_ptr0': '*fp32'", "'in_ptr0': 'tensordesc<fp32[64]>'", "unsupported_type"},
           Case{"# kernel path:", "# Original path:", "user_written"},
           Case{"'atomic_add_found': False", "'atomic_add_found': True", "atomics"},
       }) {
    const auto refusals = Refusals(Read(Replaced(text, c.from, c.to)));
    ASSERT_EQ(refusals.size(), 1u) << c.from;
    EXPECT_EQ(refusals[0].code, c.code) << c.from;
  }
}

}  // namespace
}  // namespace kernelopt
