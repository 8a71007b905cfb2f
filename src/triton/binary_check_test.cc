#include "triton/binary_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/file.h"

namespace kernelopt {
namespace {

TtirFacts Baseline() {
  TtirFacts facts;
  facts.arithmetic_types = {"f32"};
  facts.extern_symbols = {"__nv_expf"};
  facts.math_functions = {"arith.divf"};
  facts.asserts = 1;
  return facts;
}

TEST(BinaryCheckTest, ComparesTtir) {
  struct {
    const char* code;
    std::function<void(TtirFacts&)> change;
  } const cases[] = {
      {"", [](TtirFacts&) {}},
      {"", [](TtirFacts& f) { f.arithmetic_types.insert("f64"); }},
      {"", [](TtirFacts& f) { f.extern_symbols.clear(); }},
      {"", [](TtirFacts& f) { f.extern_symbols.insert("__nv_exp"); }},
      {"added_library_function", [](TtirFacts& f) { f.extern_symbols.insert("__nv_log"); }},
      {"", [](TtirFacts& f) { f.math_functions.insert("math.fma"); }},
      {"", [](TtirFacts& f) { f.math_functions.insert("tt.precise_sqrt"); }},
      {"added_math_function", [](TtirFacts& f) { f.math_functions.insert("math.sqrt"); }},
      {"", [](TtirFacts& f) { f.narrowed_types.insert("f32"); }},
      {"narrower_arithmetic", [](TtirFacts& f) { f.arithmetic_types.insert("f16"); }},
      {"narrower_arithmetic", [](TtirFacts& f) { f.arithmetic_types.insert("bf16"); }},
      {"narrower_rounding", [](TtirFacts& f) { f.narrowed_types.insert("bf16"); }},
      {"dot_precision", [](TtirFacts& f) { f.dots["f32 tf32"] = 1; }},
      {"dot_precision", [](TtirFacts& f) { f.dots["f16 ieee"] = 1; }},
      {"added_atomics", [](TtirFacts& f) { f.atomics = 1; }},
      {"added_assembly", [](TtirFacts& f) { f.inline_asm = 1; }},
      {"added_library_function", [](TtirFacts& f) { f.extern_symbols.insert("__nv_fast_expf"); }},
      {"added_math_function", [](TtirFacts& f) { f.math_functions.insert("math.exp"); }},
      {"volatile_access", [](TtirFacts& f) { f.volatile_access = true; }},
      {"added_hint", [](TtirFacts& f) { f.hints.insert("tt.divisibility"); }},
      {"unusual_operation", [](TtirFacts& f) { f.unusual_ops.insert("tt.print"); }},
      {"dropped_assert", [](TtirFacts& f) { f.asserts = 0; }},
  };
  for (const auto& [code, change] : cases) {
    TtirFacts candidate = Baseline();
    change(candidate);
    std::vector<StaticFinding> findings = CompareTtir(candidate, Baseline());
    if (*code == 0) {
      EXPECT_TRUE(findings.empty()) << findings[0].message;
    } else {
      ASSERT_EQ(findings.size(), 1u) << code;
      EXPECT_EQ(findings[0].code, code);
    }
  }
  // What the compiler does itself is allowed.
  TtirFacts half = Baseline();
  half.arithmetic_types.insert("f16");
  half.dots["f32 tf32"] = 1;
  EXPECT_TRUE(CompareTtir(half, half).empty());
  // A double kernel may not compute in float.
  TtirFacts wide = Baseline();
  wide.arithmetic_types = {"f64"};
  EXPECT_EQ(CompareTtir(Baseline(), wide)[0].code, "narrower_arithmetic");
  // Nor one that computes in both give up the wider of them.
  wide.arithmetic_types = {"f32", "f64"};
  EXPECT_EQ(CompareTtir(Baseline(), wide)[0].code, "narrower_arithmetic");
  TtirFacts copy = Baseline();
  copy.arithmetic_types.clear();
  EXPECT_TRUE(CompareTtir(copy, wide).empty());
}

TEST(BinaryCheckTest, ComparesPtx) {
  const char* plain =
      ".version 8.7\n// trap; red.global\n.loc 1 2 3 // k.py:1:2 @[ atom.py:3 ]\n"
      "mov.u32 %r1, %tid.x;\nld.global.b32 {%r1}, [%rd1];\nbar.sync 0;\n"
      ".section .debug_str { .b8 1 }\n.file 1 \"trap.py\"\nst.shared.b32 [%r1], %r2;\nret;\n";
  EXPECT_TRUE(ComparePtx(plain, plain).empty());
  EXPECT_TRUE(ComparePtx(plain, "").empty());
  const std::pair<const char*, const char*> cases[] = {
      {"mov.u64 %rd1, %clock64;", "ptx_clock"},
      {"mov.u64 %rd1, %globaltimer;", "ptx_clock"},
      {"mov.u32 %r1, %smid;", "ptx_special_register"},
      {"mov.u32 %r1, %nwarpid;", "ptx_special_register"},
      {"nanosleep.u32 100;", "ptx_sleep"},
      {"trap;", "ptx_trap"},
      {"ld.volatile.global.b32 %r1, [%rd1];", "ptx_volatile"},
      {"ld.global.relaxed.gpu.b32 %r1, [%rd1];", "ptx_volatile"},
      {"membar.gl;", "ptx_inter_grid"},
      {"fence.acq_rel.gpu;", "ptx_inter_grid"},
      {"griddepcontrol.wait;", "ptx_inter_grid"},
      {"red.global.add.f32 [%rd1], %f1;", "ptx_atomic"},
      {"@%p1 atom.global.gpu.acq_rel.add.f32 %f1, [%rd1], %f2;", "ptx_atomic"},
      {"call.uni (r), vprintf, (a, b);", "ptx_call"},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};", "ptx_reduced_precision"},
  };
  for (auto [line, code] : cases) {
    std::string candidate = std::string(plain) + line + "\n";
    std::vector<StaticFinding> findings = ComparePtx(candidate, plain);
    ASSERT_FALSE(findings.empty()) << line;
    EXPECT_EQ(findings[0].code, code) << line;
    EXPECT_EQ(findings[0].line, 11) << line;
    EXPECT_TRUE(ComparePtx(candidate, candidate).empty()) << line;
  }
}

TEST(BinaryCheckTest, ChecksLimits) {
  DeviceFacts device;
  device.shared_bytes_per_block = 1000;
  LaunchRecord record;
  record.shared_bytes = 1000;
  record.threads = 1024;
  EXPECT_TRUE(CheckLimits(record, device).empty());
  record.shared_bytes = 1001;
  EXPECT_EQ(CheckLimits(record, device)[0].code, "too_much_shared_memory");
  record.shared_bytes = 0;
  record.threads = 2048;
  EXPECT_EQ(CheckLimits(record, device)[0].code, "too_many_threads");
  record.threads = 64;
  record.num_ctas = 2;
  EXPECT_EQ(CheckLimits(record, device)[0].code, "unsupported_launch");
}

/// A developer's run: the same kernels in two configurations must be within the
/// policy of each other (src/ttir/testdata/compile_modules.py makes the folders).
TEST(BinaryCheckTest, ConfigurationsOfOneKernelAreWithinThePolicy) {
  const char* first = std::getenv("KERNELOPT_TTIR_DIR");
  const char* second = std::getenv("KERNELOPT_TTIR_DIR2");
  if (first == nullptr || second == nullptr) GTEST_SKIP() << "no folders of TTIR are named";
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(first)) {
    if (entry.path().extension() != ".ttir") continue;
    std::filesystem::path other = std::filesystem::path(second) / entry.path().filename();
    if (!std::filesystem::exists(other)) continue;
    auto facts = [](const std::filesystem::path& path) {
      return ReadFacts(*ReadTtir(*ReadFile(path), path.string()));
    };
    for (const StaticFinding& finding : CompareTtir(facts(other), facts(entry.path())))
      ADD_FAILURE() << entry.path() << ": " << finding.message;
    std::filesystem::path ptx = entry.path(), other_ptx = other;
    for (const StaticFinding& finding : ComparePtx(*ReadFile(other_ptx.replace_extension(".ptx")),
                                                   *ReadFile(ptx.replace_extension(".ptx"))))
      ADD_FAILURE() << entry.path() << ": " << finding.message;
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace kernelopt
