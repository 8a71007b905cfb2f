#include "shadow/evaluator.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

#include "shadow/testing.h"

namespace kernelopt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  OperationCase run;
  std::vector<double> want;  ///< of the first lanes
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.run.text;
}

class Operations : public ::testing::TestWithParam<Row> {};

TEST_P(Operations, GiveTheValuesComputedByHand) {
  const std::vector<double> got = RunOperation(GetParam().run);
  ASSERT_EQ(got.size(), 8u);
  for (size_t i = 0; i < GetParam().want.size(); ++i) {
    const double want = GetParam().want[i];
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got[i])) << "lane " << i << " is " << got[i];
    } else {
      EXPECT_EQ(got[i], want) << "lane " << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << "lane " << i;
    }
  }
}

Row Binary(const std::string& op, const std::string& type, std::vector<double> a,
           std::vector<double> b, std::vector<double> want) {
  return {
      {"%r = " + op + " %a, %b : tensor<8x" + type + ">", type, type, {std::move(a), std::move(b)}},
      std::move(want)};
}
Row Compare(const std::string& op, const std::string& type, std::vector<double> a,
            std::vector<double> b, std::vector<double> want) {
  return {{"%z = " + op + ", %a, %b : tensor<8x" + type +
               ">\n    %r = arith.extui %z : tensor<8xi1> to tensor<8xi8>",
           type,
           "i8",
           {std::move(a), std::move(b)}},
          std::move(want)};
}
Row Unary(const std::string& op, const std::string& from, const std::string& to,
          std::vector<double> a, std::vector<double> want) {
  const std::string type =
      from == to ? "tensor<8x" + to + ">" : "tensor<8x" + from + "> to tensor<8x" + to + ">";
  return {{"%r = " + op + " %a : " + type, from, to, {std::move(a)}}, std::move(want)};
}
Row Library(const std::string& name, const std::string& type, std::vector<double> a,
            std::vector<double> want) {
  return {{"%r = tt.extern_elementwise %a {libname = \"\", libpath = \"\", pure = true, symbol = "
           "\"__nv_" +
               name + "\"} : (tensor<8x" + type + ">) -> tensor<8x" + type + ">",
           type,
           type,
           {std::move(a)}},
          std::move(want)};
}

const double kBig = 2147483647;

INSTANTIATE_TEST_SUITE_P(
    Integers, Operations,
    ::testing::Values(Binary("arith.addi", "i32", {1, kBig}, {2, 1}, {3, -kBig - 1}),
                      Binary("arith.addi", "i8", {127, -128}, {1, -1}, {-128, 127}),
                      Binary("arith.subi", "i16", {-32768}, {1}, {32767}),
                      Binary("arith.muli", "i32", {65536, -3}, {65536, 7}, {0, -21}),
                      Binary("arith.muli", "i16", {-32768, 300}, {-1, 300}, {-32768, 24464}),
                      Binary("arith.divsi", "i32", {7, -7, 7, -7, -kBig - 1, 5},
                             {2, 2, -2, -2, -1, 0}, {3, -3, -3, 3, -kBig - 1, -1}),
                      Binary("arith.remsi", "i32", {7, -7, 7, -7, -kBig - 1}, {3, 3, -3, -3, -1},
                             {1, -1, 1, -1, 0}),
                      Binary("arith.divui", "i32", {-1, 7}, {2, 2}, {kBig, 3}),
                      Binary("arith.remui", "i8", {-1, 7}, {16, 4}, {15, 3}),
                      Binary("arith.shli", "i32", {1, 1, 3}, {31, 32, 1}, {-kBig - 1, 0, 6}),
                      Binary("arith.shrsi", "i32", {-8, -8, 8}, {1, 40, 1}, {-4, -1, 4}),
                      Binary("arith.shrui", "i32", {-1, 8}, {31, 1}, {1, 4}),
                      Binary("arith.maxsi", "i64", {-5, 5}, {3, 3}, {3, 5}),
                      Binary("arith.minui", "i32", {-5, 5}, {3, 3}, {3, 3}),
                      Binary("arith.xori", "i32", {6}, {3}, {5}),
                      Binary("tt.mulhiui", "i32", {-1, 65536}, {2, 65536}, {1, 1}),
                      Compare("arith.cmpi slt", "i32", {-1, 1, 2}, {1, 1, 1}, {1, 0, 0}),
                      Compare("arith.cmpi ult", "i32", {-1, 1, 0}, {1, 1, 1}, {0, 0, 1}),
                      Unary("arith.extsi", "i8", "i32", {-1, 127}, {-1, 127}),
                      Unary("arith.extui", "i8", "i32", {-1, 127}, {255, 127}),
                      Unary("arith.trunci", "i32", "i8", {300, -129}, {44, 127}),
                      Unary("arith.sitofp", "i32", "f32", {16777217, -3}, {16777216, -3}),
                      Unary("arith.uitofp", "i8", "f32", {-1}, {255}),
                      Unary("arith.sitofp", "i32", "bf16", {257, 259}, {256, 260})));

INSTANTIATE_TEST_SUITE_P(
    Floats, Operations,
    ::testing::Values(
        Binary("arith.addf", "f32", {16777216, kInf, 1}, {1, -kInf, -1}, {16777216, kNan, 0}),
        Binary("arith.addf", "bf16", {256, 257}, {1, 2}, {256, 258}),
        Binary("arith.addf", "f16", {2048, 65504}, {1, 32}, {2048, kInf}),
        Binary("arith.mulf", "f64", {3, -0.0}, {0.5, 1}, {1.5, -0.0}),
        Binary("arith.divf", "f32", {1, 1, -1, 0}, {4, 0, 0, 0}, {0.25, kInf, -kInf, kNan}),
        Binary("arith.remf", "f32", {5.5, -5.5}, {2, 2}, {1.5, -1.5}),
        Binary("arith.maximumf", "f32", {1, kNan, 1, -0.0}, {2, 1, kNan, 0.0},
               {2, kNan, kNan, 0.0}),
        Binary("arith.maxnumf", "f32", {1, kNan, 1, kNan}, {2, 1, kNan, kNan}, {2, 1, 1, kNan}),
        Binary("arith.minimumf", "f32", {1, kNan, 0.0}, {2, 1, -0.0}, {1, kNan, -0.0}),
        Binary("arith.minnumf", "f32", {1, kNan, 3}, {2, 1, kNan}, {1, 1, 3}),
        Compare("arith.cmpf oeq", "f32", {1, kNan, 0.0}, {1, kNan, -0.0}, {1, 0, 1}),
        Compare("arith.cmpf une", "f32", {1, kNan, 2}, {1, kNan, 1}, {0, 1, 1}),
        Compare("arith.cmpf ogt", "f32", {2, kNan, 1}, {1, 1, 1}, {1, 0, 0}),
        Compare("arith.cmpf ugt", "f32", {2, kNan, 1}, {1, 1, 1}, {1, 1, 0}),
        Compare("arith.cmpf uno", "f32", {2, kNan}, {1, 1}, {0, 1}),
        Unary("math.absf", "f32", "f32", {-2, -0.0}, {2, 0.0}),
        Unary("math.sqrt", "f32", "f32", {9, -1}, {3, kNan}),
        Unary("math.rsqrt", "f32", "f32", {4, 0}, {0.5, kInf}),
        Unary("math.floor", "f32", "f32", {-1.5, 2.5}, {-2, 2}),
        Unary("arith.negf", "f32", "f32", {0.0, 2}, {-0.0, -2}),
        Unary("math.exp", "f32", "f32", {0, -kInf}, {1, 0}),
        Library("rintf", "f32", {0.5, 1.5, -0.5}, {0, 2, -0.0}), Library("fabsf", "f32", {-3}, {3}),
        Library("sqrt", "f64", {4}, {2}), Library("tanhf", "f32", {0, kInf}, {0, 1}),
        // Conversions round to nearest, ties to even; small ones become subnormal.
        Unary("arith.truncf", "f32", "bf16", {1.00390625, 1.01171875, kNan, 3.4e38},
              {1, 1.015625, kNan, kInf}),
        Unary("arith.truncf", "f32", "f16", {1.00048828125, 65519, 65520, 2.98e-8, 2.99e-8, -kInf},
              {1, 65504, kInf, 0, 5.9604644775390625e-8, -kInf}),
        Unary("arith.truncf", "f64", "f16", {1 + 1.0 / 2048 + 1e-12}, {1 + 1.0 / 1024}),
        Unary("arith.extf", "f16", "f32", {5.9604644775390625e-8, 65504, kInf},
              {5.9604644775390625e-8, 65504, kInf}),
        Unary("arith.fptosi", "f32", "i32", {-1.9, 3e9, -3e9, kNan}, {-1, kBig, -kBig - 1, 0}),
        Unary("arith.fptosi", "f64", "i64", {-1.9, 1e300}, {-1, 9223372036854775807.0}),
        Unary("arith.fptoui", "f32", "i8", {3.7, -1}, {3, 0}),
        Row{{"%r = tt.bitcast %a : tensor<8xf32> -> tensor<8xi32>", "f32", "i32", {{1, -0.0}}},
            {1065353216, -2147483648.0}},
        Row{{"%r = tt.bitcast %a : tensor<8xi16> -> tensor<8xbf16>", "i16", "bf16", {{16256}}},
            {1}},
        Row{{"%r = tt.clampf %a, %b, %c, propagateNan = none : tensor<8xf32>",
             "f32",
             "f32",
             {{-5, 5, kNan}, {-1}, {1}}},
            {-1, 1, -1}},
        Row{{"%r = tt.clampf %a, %b, %c, propagateNan = all : tensor<8xf32>",
             "f32",
             "f32",
             {{-5, 5, kNan}, {-1}, {1}}},
            {-1, 1, kNan}},
        Row{{"%z = arith.cmpf olt, %a, %b : tensor<8xf32>\n    %r = arith.select %z, %a, %c : "
             "tensor<8xi1>, tensor<8xf32>",
             "f32",
             "f32",
             {{1, 5}, {2, 2}, {7, 8}}},
            {1, 8}}));

const char* const kSum = R"(%r0 = "tt.reduce"(%a) <{axis = 0 : i32}> ({
    ^bb0(%x: T, %y: T):
      %s = OP %x, %y : T
      tt.reduce.return %s : T
    }) : (tensor<8xT>) -> T
    %r = tt.splat %r0 : T -> tensor<8xT>)";
const char* const kScan = R"(%r = "tt.scan"(%a) <{axis = 0 : i32, reverse = REVERSE}> ({
    ^bb0(%x: T, %y: T):
      %s = OP %x, %y : T
      tt.scan.return %s : T
    }) : (tensor<8xT>) -> tensor<8xT>)";

std::string With(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}
Row Fold(const char* form, const std::string& op, const std::string& type, std::vector<double> a,
         std::vector<double> want, const std::string& reverse = "false") {
  // "OP" first: the type's letter is in the words of the form.
  std::string text = With(With(form, "REVERSE", reverse), "OP", op);
  text = With(With(With(text, ": T", ": " + type), "xT>", "x" + type + ">"), "-> T", "-> " + type);
  return {{text, type, type, {std::move(a)}}, std::move(want)};
}

INSTANTIATE_TEST_SUITE_P(
    Reductions, Operations,
    ::testing::Values(Fold(kSum, "arith.addf", "f32", {1, 2, 3, 4, 5, 6, 7, 8}, {36, 36}),
                      Fold(kSum, "arith.addf", "bf16", {256, 1, 0, 0, 0, 0, 0, 0}, {256}),
                      Fold(kSum, "arith.mulf", "f64", {1, 2, 3, 4, 1, 1, 1, -1}, {-24}),
                      Fold(kSum, "arith.maxnumf", "f32", {1, kNan, 7, 2, 3, 4, 5, 6}, {7}),
                      Fold(kSum, "arith.maximumf", "f32", {1, kNan, 7, 2, 3, 4, 5, 6}, {kNan}),
                      Fold(kSum, "arith.addi", "i32", {kBig, 1, 0, 0, 0, 0, 0, 0}, {-kBig - 1}),
                      Fold(kSum, "arith.minsi", "i64", {4, -9, 3, 2, 1, 0, 5, 6}, {-9}),
                      // Not commutative, so that only the general way does it.
                      Fold(kSum, "arith.subf", "f32", {1, 2, 3, 4, 5, 6, 7, 8}, {0}),
                      Fold(kScan, "arith.addf", "f32", {1, 2, 3, 4, 5, 6, 7, 8},
                           {1, 3, 6, 10, 15, 21, 28, 36}),
                      Fold(kScan, "arith.addf", "f32", {1, 2, 3, 4, 5, 6, 7, 8},
                           {36, 35, 33, 30, 26, 21, 15, 8}, "true"),
                      Fold(kScan, "arith.subf", "f32", {1, 2, 3, 4, 5, 6, 7, 8},
                           {1, -1, -4, -8, -13, -19, -26, -34}),
                      Row{{R"(%l2 = arith.sitofp %l : tensor<8xi32> to tensor<8xf32>
    %m:2 = "tt.reduce"(%a, %l) <{axis = 0 : i32}> ({
    ^bb0(%x: f32, %i: i32, %y: f32, %j: i32):
      %g = arith.cmpf ogt, %x, %y : f32
      %e = arith.cmpf oeq, %x, %y : f32
      %t = arith.cmpi slt, %i, %j : i32
      %u = arith.andi %e, %t : i1
      %w = arith.ori %g, %u : i1
      %v = arith.select %w, %x, %y : f32
      %k = arith.select %w, %i, %j : i32
      tt.reduce.return %v, %k : f32, i32
    }) : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)
    %n = arith.sitofp %m#1 : i32 to f32
    %r1 = arith.addf %n, %m#0 : f32
    %r = tt.splat %r1 : f32 -> tensor<8xf32>)",
                           "f32",
                           "f32",
                           {{1, 9, 3, 9, 2, 2, 2, 2}}},
                          {10}}));

INSTANTIATE_TEST_SUITE_P(
    ShapesAndControl, Operations,
    ::testing::Values(
        Row{{R"(%m = tt.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
    %t = tt.trans %m {order = array<i32: 1, 0>} : tensor<2x4xf32> -> tensor<4x2xf32>
    %r = tt.reshape %t : tensor<4x2xf32> -> tensor<8xf32>)",
             "f32",
             "f32",
             {{0, 1, 2, 3, 4, 5, 6, 7}}},
            {0, 4, 1, 5, 2, 6, 3, 7}},
        Row{{R"(%m = tt.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
    %s = "tt.reduce"(%m) <{axis = 0 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      tt.reduce.return %z : f32
    }) : (tensor<2x4xf32>) -> tensor<4xf32>
    %e = tt.expand_dims %s {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
    %b0 = tt.broadcast %e : tensor<4x1xf32> -> tensor<4x2xf32>
    %r = tt.reshape %b0 : tensor<4x2xf32> -> tensor<8xf32>)",
             "f32",
             "f32",
             {{0, 1, 2, 3, 4, 5, 6, 7}}},
            {4, 4, 6, 6, 8, 8, 10, 10}},
        Row{{R"(%j = tt.join %a, %b : tensor<8xf32> -> tensor<8x2xf32>
    %x, %y = tt.split %j : tensor<8x2xf32> -> tensor<8xf32>
    %r = arith.subf %y, %x : tensor<8xf32>)",
             "f32",
             "f32",
             {{1, 2}, {5, 7}}},
            {4, 5}},
        Row{{R"(%lo = arith.constant 0 : i32
    %hi = arith.constant 5 : i32
    %st = arith.constant 2 : i32
    %f:2 = scf.for %i = %lo to %hi step %st iter_args(%x = %a, %y = %b) -> (tensor<8xf32>, tensor<8xf32>) : i32 {
      %n = arith.addf %x, %y : tensor<8xf32>
      scf.yield %y, %n : tensor<8xf32>, tensor<8xf32>
    }
    %r = arith.subf %f#1, %f#0 : tensor<8xf32>)",
             "f32",
             "f32",
             {{1}, {2}}},
            {3}},  // 1 2 3 5 8
        Row{{R"(%lo = arith.constant 0 : i32
    %hi = arith.constant 3 : i32
    %st = arith.constant 1 : i32
    %sp = tt.splat %p0 : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %at = tt.addptr %sp, %l : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
    scf.for %i = %lo to %hi step %st  : i32 {
      %x = tt.load %at : tensor<8x!tt.ptr<f32>>
      %d = arith.addf %x, %x : tensor<8xf32>
      tt.store %at, %d : tensor<8x!tt.ptr<f32>>
    }
    %r = tt.load %at : tensor<8x!tt.ptr<f32>>)",
             "f32",
             "f32",
             {{1, 2}}},
            {8, 16}},
        Row{{R"(%zero = arith.constant 0 : i32
    %w:2 = scf.while (%x = %a, %i = %zero) : (tensor<8xi32>, i32) -> (tensor<8xi32>, i32) {
      %three = arith.constant 3 : i32
      %go = arith.cmpi slt, %i, %three : i32
      scf.condition(%go) %x, %i : tensor<8xi32>, i32
    } do {
    ^bb0(%x: tensor<8xi32>, %i: i32):
      %one = arith.constant 1 : i32
      %k = arith.addi %i, %one : i32
      %d = arith.addi %x, %x : tensor<8xi32>
      scf.yield %d, %k : tensor<8xi32>, i32
    }
    %r = arith.addi %w#0, %l : tensor<8xi32>)",
             "i32",
             "i32",
             {{1, 2}}},
            {8, 17}},
        Row{{R"(%zero = arith.constant 0 : i32
    %p = tt.get_program_id x : i32
    %c = arith.cmpi eq, %p, %zero : i32
    %r = scf.if %c -> (tensor<8xi32>) {
      scf.yield %a : tensor<8xi32>
    } else {
      %d = arith.addi %a, %a : tensor<8xi32>
      scf.yield %d : tensor<8xi32>
    })",
             "i32",
             "i32",
             {{3, 4}}},
            {3, 4}},
        Row{{R"(%m = tt.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
    %n = tt.reshape %b : tensor<8xf32> -> tensor<4x2xf32>
    %z = arith.constant dense<1.0> : tensor<2x2xf32>
    %d = tt.dot %m, %n, %z, inputPrecision = ieee : tensor<2x4xf32> * tensor<4x2xf32> -> tensor<2x2xf32>
    %e = tt.reshape %d : tensor<2x2xf32> -> tensor<4xf32>
    %k = arith.constant dense<2> : tensor<8xi32>
    %g = arith.divsi %l, %k : tensor<8xi32>
    %r = tt.gather %e[%g] {axis = 0 : i32} : (tensor<4xf32>, tensor<8xi32>) -> tensor<8xf32>)",
             "f32",
             "f32",
             {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 0, 0, 1, 1, 0, 0, 1}}},
            {5, 5, 7, 7, 13, 13, 15, 15}},
        Row{{"%k = arith.constant dense<[1, -2, 3, 4, 5, 6, 7, 8]> : tensor<8xi32>\n    %r = "
             "arith.addi %a, %k : tensor<8xi32>",
             "i32",
             "i32",
             {{1}}},
            {2, -1, 4}}));

TEST(Contraction, RoundsOnceWhereItIsAllowed) {
  const OperationCase run{
      "%p = arith.mulf %a, %b : tensor<8xf32>\n    %r = arith.subf %p, %c : tensor<8xf32>",
      "f32",
      "f32",
      {{1 + 0x1p-12}, {1 + 0x1p-12}, {1}}};
  EXPECT_EQ(RunOperation(run, true)[0], 0x1p-11 + 0x1p-24);
  EXPECT_EQ(RunOperation(run, false)[0], 0x1p-11);
  const OperationCase negated{
      "%p = arith.mulf %a, %b : tensor<8xf32>\n    %r = arith.subf %c, %p : tensor<8xf32>",
      "f32",
      "f32",
      {{1 + 0x1p-12}, {1 + 0x1p-12}, {1}}};
  EXPECT_EQ(RunOperation(negated, true)[0], -(0x1p-11 + 0x1p-24));
}

TEST(Refusals, NameTheOperation) {
  for (const auto& [body, why] : std::vector<std::pair<std::string, std::string>>{
           {"%x = tt.foo %p : !tt.ptr<f32> -> i32", "tt.foo in line 3 is not evaluated"},
           {"%x = arith.constant dense<nothing> : tensor<8xf32>", "has the value"},
           {"%x = arith.constant dense<0.0> : tensor<8xf8E5M2>", "f8E5M2"},
           {"%x = tt.call @f(%p) : (!tt.ptr<f32>) -> i32", "tt.call"}}) {
    auto module = ReadTtir("module {\n  tt.func public @k(%p: !tt.ptr<f32>) {\n    " + body +
                               "\n    tt.return\n  }\n}\n",
                           "test");
    ASSERT_TRUE(module) << module.error().ToString();
    auto program = CompileShadowProgram(*module);
    ASSERT_FALSE(program) << body;
    EXPECT_EQ(program.error().code, "not_evaluable");
    EXPECT_THAT(program.error().message, ::testing::HasSubstr(why));
  }
}

RC_GTEST_PROP(Properties, DivisionByOneNumberIsTheMachines, (int32_t a, int32_t d)) {
  RC_PRE(d > 0);
  const OperationCase run{fmt::format("%d = arith.constant dense<{}> : tensor<8xi32>\n    %q = "
                                      "arith.divsi %a, %d : tensor<8xi32>\n    %s = arith.muli "
                                      "%q, %d : tensor<8xi32>\n    %m = arith.remsi %a, %d : "
                                      "tensor<8xi32>\n    %r = arith.addi %s, %m : tensor<8xi32>",
                                      d),
                          "i32",
                          "i32",
                          {{static_cast<double>(a)}}};
  RC_ASSERT(RunOperation(run)[0] == a);
  const OperationCase quotient{
      fmt::format("%d = arith.constant dense<{}> : tensor<8xi32>\n    %r = "
                  "arith.divsi %a, %d : tensor<8xi32>",
                  d),
      "i32",
      "i32",
      {{static_cast<double>(a)}}};
  RC_ASSERT(RunOperation(quotient)[0] == a / d);
}

RC_GTEST_PROP(Properties, ShortFloatsRoundAsTheDataGeneratorDoes, (uint32_t bits)) {
  float value;
  std::memcpy(&value, &bits, 4);
  for (const char* type : {"f16", "bf16"}) {
    const OperationCase run{
        fmt::format("%t = arith.truncf %a : tensor<8xf32> to tensor<8x{0}>\n    "
                    "%r = arith.extf %t : tensor<8x{0}> to tensor<8xf32>",
                    type),
        "f32",
        "f32",
        {{value}}};
    const double got = RunOperation(run)[0];
    const int dtype = static_cast<int>(DTypeOf(type));
    const double want = KoptDecode(KoptEncode(value, dtype), dtype);
    RC_ASSERT(got == want || (std::isnan(got) && std::isnan(want)));
  }
}

}  // namespace
}  // namespace kernelopt
