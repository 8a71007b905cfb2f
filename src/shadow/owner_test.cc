// The texts of ttir/owner.h, evaluated: are programs that touch each other's elements found?
#include "ttir/owner.h"

#include <gmock/gmock.h>

#include "shadow/testing.h"

namespace kernelopt {
namespace {

/// y = y + x in place, `block` elements a program and `step` from one to the next;
/// `type` is of y.
std::string AddsInPlace(const std::string& type, int block, int step, const std::string& shift,
                        const std::string& mask = "%in") {
  return fmt::format(R"(module {{
  tt.func public @k(%y: !tt.ptr<{0}>, %x: !tt.ptr<{0}>, %n: i32) {{
    %step = arith.constant {2} : i32
    %p = tt.get_program_id x : i32
    %begin = arith.muli %p, %step : i32
    %lane = tt.make_range {{end = {1} : i32, start = 0 : i32}} : tensor<{1}xi32>
    %begins = tt.splat %begin : i32 -> tensor<{1}xi32>
    %i = arith.addi %begins, %lane : tensor<{1}xi32>
    %ns = tt.splat %n : i32 -> tensor<{1}xi32>
    %in = arith.cmpi slt, %i, %ns : tensor<{1}xi32>
    %shift = arith.constant dense<{3}> : tensor<{1}xi32>
    %j = arith.addi %i, %shift : tensor<{1}xi32>
    %in_j = arith.cmpi slt, %j, %ns : tensor<{1}xi32>
    %sy = tt.splat %y : !tt.ptr<{0}> -> tensor<{1}x!tt.ptr<{0}>>
    %sx = tt.splat %x : !tt.ptr<{0}> -> tensor<{1}x!tt.ptr<{0}>>
    %py = tt.addptr %sy, %i : tensor<{1}x!tt.ptr<{0}>>, tensor<{1}xi32>
    %pj = tt.addptr %sy, %j : tensor<{1}x!tt.ptr<{0}>>, tensor<{1}xi32>
    %px = tt.addptr %sx, %i : tensor<{1}x!tt.ptr<{0}>>, tensor<{1}xi32>
    %a = tt.load %pj, %in_j : tensor<{1}x!tt.ptr<{0}>>
    %b = tt.load %px, %in : tensor<{1}x!tt.ptr<{0}>>
    %zero = arith.constant dense<{5}> : tensor<{1}x{0}>
    %positive = {6} %a, %zero : tensor<{1}x{0}>
    %chosen = arith.andi %positive, %in : tensor<{1}xi1>
    %sum = {7} %a, %b : tensor<{1}x{0}>
    tt.store %py, %sum, {4} : tensor<{1}x!tt.ptr<{0}>>
    tt.return
  }}
}}
)",
                     type, block, step, shift, mask, type[0] == 'i' ? "0" : "0.0",
                     type[0] == 'i' ? "arith.cmpi sgt," : "arith.cmpf ogt,",
                     type[0] == 'i' ? "arith.addi" : "arith.addf");
}

/// Whether `check` changes y after `mark`.
bool TouchOthers(const std::string& text, const std::string& type, int64_t programs) {
  constexpr int64_t kElements = 100;
  auto module = ReadTtir(text, "k.ttir");
  EXPECT_TRUE(module) << (module ? "" : module.error().ToString());
  auto owners = MakeOwnerTexts(*module, {0});
  EXPECT_TRUE(owners) << (owners ? "" : owners.error().ToString());
  if (!owners) return false;
  ShadowMemory memory;
  const uint64_t y = StorageOf(memory, type, std::vector<double>(kElements, 0));
  const uint64_t x = StorageOf(memory, type, std::vector<double>(kElements, 1));
  std::vector<uint64_t> marked;
  for (const std::string& made : {owners->mark, owners->check}) {
    const ShadowProgram program = ProgramOf(made);
    if (program.parameters.empty()) return false;
    ShadowLaunch launch;
    launch.program = &program;
    launch.arguments = {{.address = y}, {.address = x}, {.int_value = kElements}};
    launch.grid = {programs, 1, 1};
    launch.instances = AllInstances(launch.grid);
    EXPECT_TRUE(RunShadow(memory, launch));
    std::vector<uint64_t> now;
    for (int64_t i = 0; i < kElements; ++i) now.push_back(memory.At(y).Element(i));
    if (made == owners->mark) {
      // Every element has the number of a program.
      EXPECT_THAT(now, testing::Each(testing::Gt(0u))) << made;
    } else if (now != marked) {
      return true;
    }
    marked = now;
  }
  return false;
}

TEST(Owners, ProgramsThatKeepApartChangeNothing) {
  for (const char* type : {"f32", "f16", "bf16", "f64", "i64", "i32", "i16", "i8"}) {
    EXPECT_FALSE(TouchOthers(AddsInPlace(type, 16, 16, "0"), type, 7)) << type;
    EXPECT_FALSE(TouchOthers(AddsInPlace(type, 128, 128, "0"), type, 1)) << type;
  }
}

TEST(Owners, ProgramsThatShareElementsAreSeen) {
  for (const char* type : {"f32", "f16", "bf16", "f64", "i64", "i32", "i16", "i8"}) {
    // Two programs update the same elements.
    EXPECT_TRUE(TouchOthers(AddsInPlace(type, 32, 16, "0"), type, 7)) << type;
    // Each writes its own and reads one of the next.
    EXPECT_TRUE(TouchOthers(AddsInPlace(type, 16, 16, "1"), type, 7)) << type;
  }
}

TEST(Owners, RefusesWhatItCannotWatch) {
  const auto refusal = [](const std::string& text, const std::set<int>& tracked) {
    auto module = ReadTtir(text, "k.ttir");
    EXPECT_TRUE(module) << (module ? "" : module.error().ToString());
    auto owners = MakeOwnerTexts(*module, tracked);
    EXPECT_FALSE(owners);
    if (owners) return std::string();
    EXPECT_EQ(owners.error().code, "not_analysable");
    return owners.error().message;
  };
  EXPECT_THAT(refusal(AddsInPlace("f32", 16, 16, "0", "%chosen"), {0}),
              testing::HasSubstr("depends on a value that is updated in place"));
  // The same values are of another storage, and the mask may depend on them.
  auto module = ReadTtir(AddsInPlace("f32", 16, 16, "0", "%chosen"), "k.ttir");
  EXPECT_TRUE(MakeOwnerTexts(*module, {1}));
  EXPECT_THAT(refusal(R"(tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: i1) {
    %p = arith.select %c, %a, %b : !tt.ptr<f32>
    %x = tt.load %p : !tt.ptr<f32>
    tt.store %a, %x : !tt.ptr<f32>
    tt.return
  })",
                      {0}),
              testing::HasSubstr("several storages"));
  EXPECT_THAT(refusal(R"(tt.func public @k(%a: !tt.ptr<f8E5M2>) {
    %x = tt.load %a : !tt.ptr<f8E5M2>
    tt.store %a, %x : !tt.ptr<f8E5M2>
    tt.return
  })",
                      {0}),
              testing::HasSubstr("f8E5M2"));
  EXPECT_THAT(refusal(R"(tt.func public @k(%a: !tt.ptr<i32>, %n: i32, %t: i1) {
    %x = tt.atomic_rmw add, relaxed, gpu, %a, %n, %t : (!tt.ptr<i32>, i32, i1) -> i32
    tt.return
  })",
                      {0}),
              testing::HasSubstr("atomic"));
  // A loop as long as a value says.
  EXPECT_THAT(refusal(R"(tt.func public @k(%a: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %n = tt.load %a : !tt.ptr<i32>
    %s = scf.for %i = %zero to %n step %one iter_args(%t = %zero) -> (i32)  : i32 {
      %u = arith.addi %t, %i : i32
      scf.yield %u : i32
    }
    tt.store %a, %s : !tt.ptr<i32>
    tt.return
  })",
                      {0}),
              testing::HasSubstr("scf.for"));
}

}  // namespace
}  // namespace kernelopt
