#include "ttir/promote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/file.h"
#include "ttir/facts.h"

namespace kernelopt {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::string Path(const std::string& name) {
  return std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/" + name + ".ttir";
}

Result<Float64Twin> Promote(const std::string& text, const std::set<int>& shared = {}) {
  return PromoteToFloat64(KOPT_TRY(ReadTtir(text, "m")), shared);
}

Float64Twin Twin(const std::string& text, const std::set<int>& shared = {}) {
  auto twin = Promote(text, shared);
  EXPECT_TRUE(twin.has_value()) << twin.error().ToString();
  return twin ? *twin : Float64Twin{};
}

/// One operation in a function that loads %x : f32 and stores what %r is.
std::string Kernel(const std::string& body) {
  return "tt.func @f(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %n: i32, %m: i1) {\n"
         "  %x = tt.load %p : !tt.ptr<f32>\n  " +
         body + "\n  tt.return\n}\n";
}

TEST(PromoteTest, ComputesFixturesInFloat64) {
  const std::pair<const char*, std::vector<bool>> cases[] = {
      {"pointwise", {true, false, true, false}},
      {"reduction", {false, true, false, false}},
      {"gather", {false, false, true, false}},
      {"control", {false, false, true, false}},
      {"select_one", {false, true, false}},
      {"versions/3.5.1/library", {false, true, false, false}},
      {"versions/3.8.0/library", {false, true, false, false}},
      {"versions/3.8.0/scan", {false, true}},
      {"versions/3.8.0/dot", {false, false, true, false}},
      {"versions/3.6.0/atomics", {true, false, true, false}},
  };
  for (const auto& [name, widened] : cases) {
    Float64Twin twin = Twin(*ReadFile(Path(name)));
    EXPECT_EQ(twin.widened, widened) << name;
    auto module = ReadTtir(twin.text, "twin");
    ASSERT_TRUE(module.has_value()) << name << module.error().ToString();
    TtirFacts facts = ReadFacts(*module);
    facts.arithmetic_types.insert("f64");  // atomics.ttir has no arithmetic
    EXPECT_THAT(facts.arithmetic_types, ElementsAre("f64")) << name;
    EXPECT_THAT(facts.narrowed_types, IsEmpty()) << name;
    EXPECT_THAT(twin.text, AllOf(Not(HasSubstr("tf32")), Not(HasSubstr("truncf")),
                                 Not(HasSubstr("precise_")), Not(HasSubstr("loc"))))
        << name;
    // The twin of a twin reads its result buffers as they are.
    Float64Twin again = Twin(twin.text);
    auto twice = ReadTtir(again.text, "twice");
    ASSERT_TRUE(twice.has_value()) << name;
    EXPECT_EQ(ReadFacts(*twice).loads, facts.loads) << name;
  }
}

TEST(PromoteTest, LoadsInTheStoragesTypeAndWidens) {
  const std::string text = R"(module {
  tt.func public @f(%p: !tt.ptr<bf16>, %q: !tt.ptr<f16>, %e: f32, %n: i32) attributes {noinline = false} {
    %c = arith.constant dense<1.250000e-01> : tensor<8xbf16>
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %b = tt.splat %n : i32 -> tensor<8xi32>
    %m = arith.cmpi slt, %r, %b : tensor<8xi32>
    %s = tt.splat %p : !tt.ptr<bf16> -> tensor<8x!tt.ptr<bf16>>
    %a = tt.addptr %s, %r : tensor<8x!tt.ptr<bf16>>, tensor<8xi32>
    %0 = tt.load %a, %m, %c evictionPolicy = evict_last : tensor<8x!tt.ptr<bf16>>
    %1 = arith.extf %0 : tensor<8xbf16> to tensor<8xf32>
    %2 = tt.splat %e : f32 -> tensor<8xf32>
    %3 = arith.addf %1, %2 : tensor<8xf32>
    %4 = arith.truncf %3 : tensor<8xf32> to tensor<8xf16>
    %5 = tt.splat %q : !tt.ptr<f16> -> tensor<8x!tt.ptr<f16>>
    %6 = tt.addptr %5, %r : tensor<8x!tt.ptr<f16>>, tensor<8xi32>
    tt.store %6, %4, %m : tensor<8x!tt.ptr<f16>>
    tt.return
  }
}
)";
  EXPECT_EQ(Twin(text).text, R"(module {
  tt.func public @f(%p: !tt.ptr<bf16>, %q: !tt.ptr<f64>, %narrow_e: f32, %n: i32) attributes {noinline = false} {
    %e = arith.extf %narrow_e : f32 to f64
    %c = arith.constant dense<0x3FC0000000000000> : tensor<8xf64>
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %b = tt.splat %n : i32 -> tensor<8xi32>
    %m = arith.cmpi slt, %r, %b : tensor<8xi32>
    %s = tt.splat %p : !tt.ptr<bf16> -> tensor<8x!tt.ptr<bf16>>
    %a = tt.addptr %s, %r : tensor<8x!tt.ptr<bf16>>, tensor<8xi32>
    %narrow_0 = tt.load %a, %m : tensor<8x!tt.ptr<bf16>>
    %wide_0 = arith.extf %narrow_0 : tensor<8xbf16> to tensor<8xf64>
    %0 = arith.select %m, %wide_0, %c : tensor<8xi1>, tensor<8xf64>
    %2 = tt.splat %e : f64 -> tensor<8xf64>
    %3 = arith.addf %0, %2 : tensor<8xf64>
    %5 = tt.splat %q : !tt.ptr<f64> -> tensor<8x!tt.ptr<f64>>
    %6 = tt.addptr %5, %r : tensor<8x!tt.ptr<f64>>, tensor<8xi32>
    tt.store %6, %3, %m : tensor<8x!tt.ptr<f64>>
    tt.return
  }
}
)");
}

TEST(PromoteTest, OperationsInTheirFloat64Form) {
  const std::pair<const char*, const char*> cases[] = {
      {"%r = tt.precise_sqrt %x : f32", "%r = math.sqrt %x : f64\n"},
      {"%r = tt.precise_divf %x, %x : f32", "%r = arith.divf %x, %x : f64\n"},
      {"%r = arith.sitofp %n : i32 to f32",
       "%narrow_r = arith.sitofp %n : i32 to f32\n    %r = arith.extf %narrow_r : f32 to f64\n"},
      {"%r = arith.uitofp %m : i1 to f64", "%r = arith.uitofp %m : i1 to f64\n"},
      {"%r = arith.fptosi %x : f32 to i32", "%r = arith.fptosi %x : f64 to i32\n"},
      {"%r = arith.cmpf une, %x, %x : f32", "%r = arith.cmpf une, %x, %x : f64\n"},
      {"%r = arith.select %m, %x, %x : f32", "%r = arith.select %m, %x, %x : f64\n"},
      {"%r = tt.load %p, %m, %x : !tt.ptr<f32>", "%r = arith.select %m, %wide_r, %x : f64\n"},
      {R"(%r = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_expf"} : (f32) -> f32)",
       R"(%x {libname = "", libpath = "", pure = true, symbol = "__nv_exp"} : (f64) -> f64)"},
      {R"(%r = tt.extern_elementwise %x {symbol = "__nv_isnanf"} : (f32) -> i32)",
       R"({symbol = "__nv_isnand"} : (f64) -> i32)"},
      {R"(%r = tt.extern_elementwise %n {symbol = "__nv_clz"} : (i32) -> i32)",
       R"({symbol = "__nv_clz"} : (i32) -> i32)"},
      {"%r = arith.truncf %x : f32 to bf16\n  %s = arith.extf %r : bf16 to f32\n"
       "  %t = arith.negf %s : f32",
       "%t = arith.negf %x : f64\n"},
      {"%r = tt.fp_to_fp %x, rounding = rtne : f32 -> f16\n  %t = arith.negf %r : f16",
       "%t = arith.negf %x : f64\n"},
      {"%r = tt.atomic_rmw fadd, acq_rel, gpu, %q, %x, %m : (!tt.ptr<f32>, f32, i1) -> f32",
       "%r = tt.atomic_rmw fadd, acq_rel, gpu, %q, %x, %m : (!tt.ptr<f64>, f64, i1) -> f64\n"},
  };
  for (auto [body, wanted] : cases) EXPECT_THAT(Twin(Kernel(body)).text, HasSubstr(wanted));
}

TEST(PromoteTest, ConstantsKeepTheValueOfTheirType) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.333333343 : f32", "0x3FD5555560000000 : f64"},  // the nearest float32
      {"0.33333333333333331 : f64", "0x3FD5555555555555 : f64"},
      {"1.000980e-01 : bf16", "0x3FB9A00000000000 : f64"},
      {"9.997550e-02 : f16", "0x3FB9980000000000 : f64"},
      {"-0.000000e+00 : f32", "0x8000000000000000 : f64"},
      {"0xFF800000 : f32", "0xFFF0000000000000 : f64"},
      {"0x7FC00000 : f32", "0x7FF8000000000000 : f64"},
      {"0xFF80 : bf16", "0xFFF0000000000000 : f64"},
      {"0x7C00 : f16", "0x7FF0000000000000 : f64"},
      {"0x0001 : f16", "0x3E70000000000000 : f64"},
      {"0x3C01 : f16", "0x3FF0040000000000 : f64"},
      {"0x7FF0000000000000 : f64", "0x7FF0000000000000 : f64"},
      {"3.40282347E+38 : f32", "0x47EFFFFFE0000000 : f64"},
      {"dense<1.401300e-45> : tensor<2x4xf32>", "dense<0x36A0000000000000> : tensor<2x4xf64>"},
      {"7 : i32", "arith.constant 7 : i32"},
  };
  for (auto [literal, wanted] : cases) {
    EXPECT_THAT(Twin(Kernel("%r = arith.constant " + std::string(literal))).text, HasSubstr(wanted))
        << literal;
  }
}

TEST(PromoteTest, PointersThatMeetChangeTogether) {
  // Written through a choice of two: both are float64.
  EXPECT_THAT(Twin(Kernel("%s = arith.select %m, %p, %q : !tt.ptr<f32>\n"
                          "  tt.store %s, %x : !tt.ptr<f32>"))
                  .widened,
              ElementsAre(true, true, false, false));
  EXPECT_THAT(Twin(Kernel("tt.store %q, %x : !tt.ptr<f32>")).widened,
              ElementsAre(false, true, false, false));
  // A tensor that is passed twice: the caller says so.
  Float64Twin twin = Twin(Kernel("tt.store %q, %x : !tt.ptr<f32>"), {0});
  EXPECT_THAT(twin.widened, ElementsAre(true, true, false, false));
  EXPECT_THAT(twin.text, HasSubstr("%x = tt.load %p : !tt.ptr<f64>"));
  // Through a branch's argument and a loop's carried pointer.
  twin =
      Twin(Kernel("%w = scf.for %i = %n to %n step %n iter_args(%a = %q) -> (!tt.ptr<f32>)  : "
                  "i32 {\n    %b = tt.addptr %a, %n : !tt.ptr<f32>, i32\n"
                  "    scf.yield %b : !tt.ptr<f32>\n  }\n"
                  "  cf.br ^bb1(%w : !tt.ptr<f32>)\n"
                  "^bb1(%z: !tt.ptr<f32>):\n  tt.store %z, %x : !tt.ptr<f32>"));
  EXPECT_THAT(twin.widened, ElementsAre(false, true, false, false));
  EXPECT_THAT(twin.text, AllOf(HasSubstr("^bb1(%z: !tt.ptr<f64>)"), HasSubstr("-> (!tt.ptr<f64>)"),
                               HasSubstr("cf.br ^bb1(%w : !tt.ptr<f64>)"),
                               HasSubstr("tt.load %p : !tt.ptr<f32>")));
}

TEST(PromoteTest, BitsOfOneSelectedElementBecomeWider) {
  EXPECT_THAT(
      Twin(*ReadFile(Path("select_one"))).text,
      AllOf(HasSubstr("tensor<8x16xf64> -> tensor<8x16xi64>"), HasSubstr("{axis = 1 : i32}"),
            HasSubstr("i1> to tensor<1x16xi64>"), HasSubstr("(tensor<8x16xi64>) -> tensor<8xi64>"),
            HasSubstr("tensor<8x1xi64> -> tensor<8x1xf64>")));
  EXPECT_THAT(Twin(Kernel("%r = tt.bitcast %x : f32 -> i32\n  %b = arith.extui %m : i1 to i32\n"
                          "  %s = arith.muli %b, %r : i32\n  %t = tt.bitcast %s : i32 -> f32"))
                  .text,
              AllOf(HasSubstr("%r = tt.bitcast %x : f64 -> i64"),
                    HasSubstr("%s = arith.muli %b, %r : i64")));
}

TEST(PromoteTest, RefusesWhatHasNoFloat64Form) {
  const std::pair<const char*, const char*> cases[] = {
      {"%r = tt.bitcast %x : f32 -> i32\n  %s = arith.addi %r, %r : i32",
       "arith.addi in line 4 looks at the bits"},
      {"%r = tt.bitcast %x : f32 -> i32\n  %s = arith.muli %r, %n : i32", "looks at the bits"},
      {"%r = tt.bitcast %x : f32 -> i32\n  %b = arith.extui %m : i1 to i32\n"
       "  %s = arith.muli %b, %r : i32\n  %t = arith.addi %b, %n : i32",
       "arith.addi in line 6 looks at the bits"},
      {"%r = tt.bitcast %x : f32 -> i32\n  scf.if %m {\n    %s = arith.xori %r, %n : i32\n  }",
       "looks at the bits"},
      {"%r = tt.bitcast %n : i32 -> f32", "makes a float of bits"},
      {"%r = arith.bitcast %n : i32 to f32", "bits of a float"},
      {"%r = tt.bitcast %p : !tt.ptr<f32> -> !tt.ptr<i32>", "bits of a float"},
      {"%r = tt.fp_to_fp %x, rounding = rtne : f32 -> f8E5M2", "works on f8E5M2"},
      {"%r = tt.atomic_rmw exch, acq_rel, gpu, %q, %x, %m : (!tt.ptr<f32>, f32, i1) -> f32",
       "something else than an addition"},
      {"%r = tt.atomic_cas acq_rel, gpu, %q, %x, %x : (!tt.ptr<f32>, f32, f32) -> f32",
       "no known float64 form"},
      {R"(%r = tt.elementwise_inline_asm "mov" {pure = true} %x : f32 -> f32)",
       "no known float64 form"},
      {R"(%r = tt.extern_elementwise %x {symbol = "__nv_nextafterf"} : (f32) -> f32)",
       "__nv_nextafterf, which has no float64 counterpart"},
      {"%r = tt.call @g(%x) : (f32) -> f32", "calls a function"},
      {"%r = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>", "no single number"},
      {"%r = tt.int_to_ptr %n : i32 -> !tt.ptr<f32>", "no known float64 form"},
      {"%r = math.cbrt %x : f32", "no known float64 form"},
      {"%r = tt.make_tensor_ptr %p, [%n], [%n], [%n] {order = array<i32: 0>} : "
       "<tensor<8xf32>>",
       "tt.make_tensor_ptr"},
      {"%r = tt.load %n : !tt.ptr<!tt.ptr<f32>>", "tt.load"},
  };
  for (auto [body, wanted] : cases) {
    auto twin = Promote(Kernel(body));
    ASSERT_FALSE(twin.has_value()) << twin->text;
    EXPECT_EQ(twin.error().code, "not_promotable");
    EXPECT_THAT(twin.error().message, HasSubstr(wanted)) << body;
  }
  for (const char* name : {"forbidden", "untraceable", "versions/3.8.0/descriptors"}) {
    auto twin = Promote(*ReadFile(Path(name)));
    ASSERT_FALSE(twin.has_value()) << name;
    EXPECT_EQ(twin.error().code, "not_promotable");
  }
  // The kernel's own line is said too.
  EXPECT_THAT(Promote(*ReadFile(Path("versions/3.8.0/descriptors"))).error().message,
              HasSubstr("of the kernel)"));
}

TEST(PromoteTest, WhatHasNoFloatsStaysAsItIs) {
  const std::string text =
      "tt.func @f(%p: !tt.ptr<i32>, %n: i32) {\n"
      "  %a = tt.atomic_rmw max, acq_rel, gpu, %p, %n : (!tt.ptr<i32>, i32) -> i32\n"
      "  %b = tt.unheard_of %n {x = 3 : i32} : i32 -> i32\n"
      "  tt.return\n}\n";
  Float64Twin twin = Twin(text);
  EXPECT_EQ(twin.text, text);
  EXPECT_THAT(twin.widened, ElementsAre(false, false));
}

TEST(PromoteTest, FunctionsOfTheDeviceLibrary) {
  EXPECT_EQ(Float64Function("__nv_expf"), "__nv_exp");
  EXPECT_EQ(Float64Function("__nv_exp"), "__nv_exp");
  EXPECT_EQ(Float64Function("__nv_erff"), "__nv_erf");
  EXPECT_EQ(Float64Function("__nv_fast_expf"), "__nv_exp");
  EXPECT_EQ(Float64Function("__nv_fsqrt_rn"), "__nv_dsqrt_rn");
  EXPECT_EQ(Float64Function("__nv_frcp_rz"), "__nv_drcp_rn");
  EXPECT_EQ(Float64Function("__nv_isinff"), "__nv_isinfd");
  EXPECT_EQ(Float64Function("__nv_float2int_rz"), "__nv_double2int_rz");
  for (const char* none : {"", "expf", "__nv_", "__nv_nextafterf", "__nv_frexpf", "__nv_saturatef",
                           "__nv_float_as_int", "__nv_expff"})
    EXPECT_EQ(Float64Function(none), "") << none;
}

RC_GTEST_PROP(PromoteTest, DamagedTextIsPromotedOrRefusedNeverMore, ()) {
  static const std::string texts[] = {*ReadFile(Path("control")), *ReadFile(Path("pointwise")),
                                      *ReadFile(Path("versions/3.8.0/library"))};
  std::string damaged =
      *rc::gen::elementOf(std::vector<std::string>(std::begin(texts), std::end(texts)));
  auto at = *rc::gen::inRange<size_t>(0, damaged.size());
  auto count = *rc::gen::inRange<size_t>(0, 40);
  damaged.replace(at, count,
                  *rc::gen::container<std::string>(
                      rc::gen::elementOf(std::string("%^{}()<>:\"#,=- \nabc0fx"))));
  (void)Promote(damaged);
}

}  // namespace
}  // namespace kernelopt
