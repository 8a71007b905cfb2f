#include "triton/rounding_check.h"

#include <gtest/gtest.h>

namespace kernelopt {
namespace {

/// A kernel that loads a bfloat16 as %x, does `body`, and stores %y as one.
TtirModule ModuleOf(const std::string& body) {
  std::string text =
      "module {\n"
      "  tt.func public @k(%p: !tt.ptr<bf16>, %c: i1, %n: i32) attributes {noinline = false} {\n"
      "    %zero = arith.constant 0.000000e+00 : f32\n"
      "    %h = tt.load %p : !tt.ptr<bf16>\n"
      "    %x = arith.extf %h : bf16 to f32\n" +
      body +
      "    %o = arith.truncf %y : f32 to bf16\n"
      "    tt.store %p, %o : !tt.ptr<bf16>\n"
      "    tt.return\n"
      "  }\n"
      "}\n";
  auto module = ReadTtir(text, "kernel.ttir");
  EXPECT_TRUE(module) << module.error().ToString() << text;
  return module ? *module : TtirModule{};
}

constexpr const char* kPlain = "    %y = arith.addf %x, %x : f32\n";
constexpr const char* kRounds =
    "    %a = arith.addf %x, %x : f32\n"
    "    %b = arith.truncf %a : f32 to bf16\n"
    "    %y = arith.extf %b : bf16 to f32\n";

/// Rounded before a loop, in it, or in one branch, and widened after it.
constexpr const char* kLoop =
    "    %lo = arith.constant 0 : i32\n"
    "    %one = arith.constant 1 : i32\n"
    "    %l = scf.for %i = %lo to %n step %one iter_args(%acc = %h) -> (bf16)  : i32 {\n"
    "      %w = arith.extf %acc : bf16 to f32\n"
    "      %v = arith.addf %w, %x : f32\n"
    "      %r = arith.truncf %v : f32 to bf16\n"
    "      scf.yield %r : bf16\n"
    "    }\n"
    "    %y = arith.addf %x, %x : f32\n";
constexpr const char* kBranch =
    "    %l = scf.if %c -> (bf16) {\n"
    "      %v = arith.addf %x, %x : f32\n"
    "      %r = arith.truncf %v : f32 to bf16\n"
    "      scf.yield %r : bf16\n"
    "    } else {\n"
    "      scf.yield %h : bf16\n"
    "    }\n"
    "    %y = arith.extf %l : bf16 to f32\n";

TEST(RoundingCheckTest, FindsWhatIsWidenedAgain) {
  const std::pair<const char*, std::set<std::string>> cases[] = {
      {kPlain, {}},
      {kRounds, {"bf16"}},
      {kLoop, {"bf16"}},
      {kBranch, {"bf16"}},
      {"    %b = arith.truncf %x : f32 to bf16\n"
       "    %s = arith.select %c, %b, %h : bf16\n"
       "    %y = arith.extf %s : bf16 to f32\n",
       {"bf16"}},
      {"    %s = arith.select %c, %h, %h : bf16\n    %y = arith.extf %s : bf16 to f32\n", {}},
      {"    %d = arith.extf %x : f32 to f64\n"
       "    %e = arith.addf %d, %d : f64\n"
       "    %y = arith.truncf %e : f64 to f32\n",
       {}},
      {"    %b = tt.fp_to_fp %x, rounding = rtne : f32 -> f16\n"
       "    %t = tt.splat %b : f16 -> tensor<8xf16>\n"
       "    %u = arith.extf %t : tensor<8xf16> to tensor<8xf32>\n"
       "    %y = arith.addf %x, %x : f32\n",
       {"f16"}},
  };
  for (const auto& [body, types] : cases) {
    EXPECT_EQ(TypesRoundedThrough(ModuleOf(body)), types) << body;
  }
}

TEST(RoundingCheckTest, ComparesWithTheCompilersKernel) {
  const char* double_sums =
      "    %d = arith.extf %x : f32 to f64\n"
      "    %e = arith.addf %d, %d : f64\n"
      "    %f = arith.truncf %e : f64 to f32\n"
      "    %g = arith.extf %f : f32 to f64\n"
      "    %y = arith.truncf %g : f64 to f32\n";
  struct {
    const char *candidate, *baseline, *code;
  } const cases[] = {
      {kPlain, kPlain, ""},      {kRounds, kPlain, "narrower_rounding"},
      {kRounds, kRounds, ""},    {kPlain, kRounds, ""},
      {double_sums, kPlain, ""}, {kLoop, kPlain, "narrower_rounding"},
      {kPlain, double_sums, ""},
  };
  for (const auto& item : cases) {
    auto findings = CompareRounding(ModuleOf(item.candidate), ModuleOf(item.baseline));
    EXPECT_EQ(findings.empty() ? "" : findings[0].code, item.code) << item.candidate;
  }
}

}  // namespace
}  // namespace kernelopt
