#include "ttir/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Rows of 100 in tiles of 64: their sum, and their mean's distance from one.
constexpr const char* kTtir = R"(module {
  tt.func public @k(%in: !tt.ptr<f32>, %out: !tt.ptr<TYPE>) {
    %zero = arith.constant dense<0.000000e+00> : tensor<64xf32>
    %count = arith.constant 1.000000e+02 : f32
    %tiny = arith.constant 1.000000e-05 : f32
    %hundred = arith.constant dense<100> : tensor<64xi32>
    %rows = arith.constant 20 : i32
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %c100 = arith.constant 100 : i32
    %row = tt.get_program_id x : i32
    %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %sum = scf.for %i = %c0 to %c100 step %c64 iter_args(%acc = %zero) -> (tensor<64xf32>)  : i32 {
      %0 = tt.splat %i : i32 -> tensor<64xi32>
      %1 = arith.addi %0, %lane : tensor<64xi32>
      %2 = arith.cmpi slt, %1, %hundred : tensor<64xi32>
      %3 = tt.splat %in : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %4 = tt.addptr %3, %1 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %x = tt.load %4, %2, %zero : tensor<64x!tt.ptr<f32>>
      %5 = arith.addf %acc, %x : tensor<64xf32>
      scf.yield %5 : tensor<64xf32>
    }
    %keep = arith.cmpi slt, %lane, %hundred : tensor<64xi32>
    %padded = arith.select %keep, %sum, %zero : tensor<64xi1>, tensor<64xf32>
    %total = "tt.reduce"(%padded) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<64xf32>) -> f32
    %mean = arith.divf %total, %count : f32
    %safe = arith.addf %mean, %tiny : f32
    %inside = arith.cmpi slt, %row, %rows : i32
    %p = tt.addptr %out, %row : !tt.ptr<TYPE>, i32
    tt.store %p, VALUE, %inside : !tt.ptr<TYPE>
    tt.return
  }
}
)";

std::string Text(std::string_view type, std::string_view value) {
  std::string text = kTtir;
  for (const auto& [name, by] :
       {std::pair<std::string, std::string_view>{"TYPE", type}, {"VALUE", value}}) {
    for (size_t at; (at = text.find(name)) != std::string::npos;) text.replace(at, name.size(), by);
  }
  return text;
}

std::vector<Fault> FaultsOf(const std::string& text) {
  auto module = ReadTtir(text, "k.ttir");
  EXPECT_TRUE(module) << module.error().ToString();
  return module ? PlantFaults(*module) : std::vector<Fault>{};
}

std::vector<std::string> Names(const std::vector<Fault>& faults) {
  std::vector<std::string> names;
  for (const Fault& fault : faults) names.push_back(fault.name);
  return names;
}

TEST(Faults, OfEachKindWhereItMatters) {
  const std::vector<Fault> faults = FaultsOf(Text("f32", "%safe"));
  EXPECT_THAT(Names(faults), ElementsAre("mask_short", "mask_short", "last_tile", "wrong_pad",
                                         "term_dropped", "count_less", "tf32_input"));
  for (const Fault& fault : faults) {
    // Each is a module again, and another one.
    EXPECT_TRUE(ReadTtir(fault.text, "fault.ttir")) << fault.name << "\n" << fault.text;
    EXPECT_GT(fault.line, 0);
  }
  EXPECT_THAT(faults[0].text, HasSubstr("%kopt_fault = arith.constant dense<99> : tensor<64xi32>\n"
                                        "%2 = arith.cmpi slt, %1, %kopt_fault"));
  EXPECT_THAT(faults[1].text, HasSubstr("arith.cmpi slt, %row, %kopt_fault : i32"));
  EXPECT_THAT(faults[2].text, HasSubstr("%kopt_fault = arith.constant 64 : i32\n"
                                        "%sum = scf.for %i = %c0 to %kopt_fault step"));
  EXPECT_THAT(faults[3].text, HasSubstr("dense<1.000000e+00> : tensor<64xf32>\n%padded = "
                                        "arith.select %keep, %sum, %kopt_fault"));
  EXPECT_THAT(faults[4].text, HasSubstr("%5 = arith.mulf %acc, %kopt_fault : tensor<64xf32>"));
  EXPECT_THAT(faults[5].text, HasSubstr("%kopt_fault = arith.constant 9.900000e+01 : f32\n%mean = "
                                        "arith.divf %total, %kopt_fault"));
  EXPECT_THAT(faults[6].text, HasSubstr("%kopt_whole = tt.load %4, %2, %zero"));
  EXPECT_THAT(faults[6].text, HasSubstr("%x = tt.bitcast %kopt_short"));
}

TEST(Faults, NoneThatSixteenBitsHide) {
  std::string text = Text("bf16", "%short");
  text.replace(text.find("    %inside"), 0, "    %short = arith.truncf %safe : f32 to bf16\n");
  EXPECT_THAT(Names(FaultsOf(text)),
              ElementsAre("mask_short", "last_tile", "wrong_pad", "term_dropped"));
}

TEST(Faults, NoneInAKernelThatOnlyMoves) {
  EXPECT_TRUE(FaultsOf(R"(module {
  tt.func public @k(%in: !tt.ptr<i64>, %out: !tt.ptr<i64>) {
    %x = tt.load %in : !tt.ptr<i64>
    tt.store %out, %x : !tt.ptr<i64>
    tt.return
  }
}
)")
                  .empty());
}

}  // namespace
}  // namespace kernelopt
