#include "ttir/ttir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "ttir/facts.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TtirModule Fixture(const std::string& name) {
  std::string path = std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/" + name + ".ttir";
  auto text = ReadFile(path);
  EXPECT_TRUE(text.has_value());
  auto module = ReadTtir(*text, path);
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  return std::move(*module);
}

std::map<std::string, int> Counts(const TtirModule& module) {
  std::map<std::string, int> counts;
  WalkOps(module, [&](const TtirOp& op) { ++counts[op.name]; });
  return counts;
}

TEST(TtirTest, ReadsFunctionsParametersAndTypes) {
  TtirModule module = Fixture("pointwise");
  ASSERT_NE(module.Entry(), nullptr);
  EXPECT_EQ(module.Entry()->name, "pointwise");
  std::vector<std::string> types;
  for (ValueId id : module.Entry()->parameters) types.push_back(module.TypeOf(id));
  EXPECT_THAT(types, ElementsAre("!tt.ptr<f32>", "!tt.ptr<bf16>", "!tt.ptr<bf16>", "i32"));
  for (const TtirValue& value : module.values) EXPECT_NE(value.type, "") << value.name;
}

TEST(TtirTest, ReadsLoopsWithCarriedValues) {
  TtirModule module = Fixture("reduction");
  auto counts = Counts(module);
  EXPECT_EQ(counts["scf.for"], 2);
  EXPECT_EQ(counts["tt.reduce"], 1);
  EXPECT_EQ(counts["tt.reduce.return"], 1);
  WalkOps(module, [&](const TtirOp& op) {
    if (op.name != "scf.for") return;
    ASSERT_EQ(op.operands.size(), 3u);
    ASSERT_EQ(op.regions.size(), 1u);
    EXPECT_EQ(op.regions[0].blocks[0].arguments.size(), 1 + op.initial.size());
    EXPECT_EQ(op.results.size(), op.initial.size());
  });
}

TEST(TtirTest, ReadsBranchesWhileIfAndScan) {
  TtirModule module = Fixture("control");
  auto counts = Counts(module);
  EXPECT_EQ(counts["cf.cond_br"], 1);
  EXPECT_EQ(counts["scf.while"], 1);
  EXPECT_EQ(counts["scf.if"], 1);
  EXPECT_EQ(counts["tt.scan"], 1);
  EXPECT_EQ(counts["tt.return"], 2);
  EXPECT_EQ(module.Entry()->body.blocks.size(), 3u);
}

TEST(TtirTest, ReadsGenericFormBranchesWithArgumentsAndQuotedNames) {
  auto module = ReadTtir(R"(module attributes {a.b = "}"} {
  tt.func private @"helper fn"(%a: f32) -> f32 {
    tt.return %a : f32
  }
  tt.func @f(%p: !tt.ptr<f32, 1>, %c: i1) {
    cf.cond_br %c, ^bb1(%p, %c : !tt.ptr<f32, 1>, i1), ^bb2
  ^bb1(%q: !tt.ptr<f32, 1>, %d: i1):
    %0:2 = "tt.reduce"(%q, %q) ({
    ^bb0(%x: f32, %y: f32):
      "tt.reduce.return"(%x, %y) : (f32, f32) -> ()
    }) {axis = 0 : i32} : (!tt.ptr<f32, 1>, !tt.ptr<f32, 1>) -> (f32, i32)
    tt.return
  ^bb2:
    %v = tt.load %p : !tt.ptr<f32, 1>
    tt.return
  }
})",
                         "m");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  ASSERT_EQ(module->functions.size(), 2u);
  EXPECT_EQ(module->functions[0].name, "helper fn");
  EXPECT_EQ(module->Entry()->name, "f");
  const TtirOp& branch = module->Entry()->body.blocks[0].ops[0];
  ASSERT_EQ(branch.successors.size(), 2u);
  EXPECT_EQ(branch.successors[0].arguments.size(), 2u);
  const TtirOp& reduce = module->Entry()->body.blocks[1].ops[0];
  EXPECT_EQ(module->TypeOf(reduce.results[1]), "i32");
  EXPECT_EQ(module->TypeOf(module->Entry()->body.blocks[2].ops[0].results[0]), "f32");
}

int SourceLineOf(const TtirModule& module, std::string_view name) {
  int line = -1;
  WalkOps(module, [&](const TtirOp& op) {
    if (op.name == name && line < 0) line = op.source_line;
  });
  return line;
}

/// What each supported version prints of the same kernels.
TEST(TtirTest, ReadsEveryVersionsText) {
  for (const std::string version : {"3.5.1", "3.6.0", "3.7.1", "3.8.0"}) {
    const std::string folder = "versions/" + version + "/";
    TtirModule dot = Fixture(folder + "dot");
    EXPECT_EQ(ReadFacts(dot).dots, (std::map<std::string, int>{{"f16 tf32", 1}})) << version;
    EXPECT_EQ(Counts(dot)["scf.for"], 1);
    TtirModule atomics = Fixture(folder + "atomics");
    EXPECT_EQ(ReadFacts(atomics).atomics, 3) << version;
    TtirModule scan = Fixture(folder + "scan");
    EXPECT_EQ(Counts(scan)["tt.scan"], 2) << version;
    EXPECT_EQ(Counts(scan)["tt.reduce"], 1) << version;
    TtirModule library = Fixture(folder + "library");
    EXPECT_THAT(ReadFacts(library).extern_symbols, UnorderedElementsAre("__nv_tanhf", "__nv_powf"));
    EXPECT_EQ(Counts(library)["cf.cond_br"], 2) << version;
    EXPECT_EQ(Counts(library)["tt.assert"], 1) << version;
    TtirModule descriptors = Fixture(folder + "descriptors");
    EXPECT_FALSE(PointerUses(descriptors).has_value()) << version;
    for (const TtirModule* module : {&dot, &atomics, &scan, &library, &descriptors}) {
      int placed = 0, ops = 0;
      WalkOps(*module, [&](const TtirOp& op) {
        ++ops;
        placed += op.source_line > 0;
        const std::string_view text(module->text);
        EXPECT_EQ(text.find(op.name, op.span.begin) < op.span.end, true) << op.name;
        EXPECT_EQ(std::count(text.begin(), text.begin() + static_cast<long>(op.span.begin), '\n'),
                  op.line - 1)
            << op.name;
      });
      EXPECT_GT(placed, ops * 3 / 4) << version;  // constants that were folded have none
      for (const TtirValue& value : module->values) EXPECT_NE(value.type, "") << value.name;
      for (const TtirUse& use : module->uses)
        EXPECT_EQ(module->text.substr(use.span.begin, use.span.end - use.span.begin),
                  module->values[use.value].name);
    }
  }
}

TEST(TtirTest, LeadsToTheSourceLine) {
  auto module = ReadTtir(R"(#loc = loc("k.py":3:0)
tt.func @f(%c: i1 loc("c"(#loc)), %n: i32 loc(unknown)) {
  %a = arith.addi %n, %n : i32 loc(#loc1)
  %b = arith.subi %n, %n : i32 loc("named"("a )\" file.py":12:5))
  %d = arith.muli %n, %n : i32 loc(callsite(#loc1 at callsite("x"("lib.py":1:2) at #loc2)))
  scf.if %c {
    %e = arith.divsi %n, %n : i32 loc(fused<"pass">[unknown, #loc2, #loc1])
    %f = arith.remsi %n, %n : i32
  } loc(#loc3)
  %g = arith.andi %n, %n : i32 loc(#missing)
  %h = arith.ori %n, %n : i32 loc(#loop)
  %i = arith.xori %n, %n : i32 loc("just a name")
  tt.return loc(unknown)
}
#loc1 = loc("k.py":7:9)
#loc2 = loc("y"("k.py":20:9 to :15))
#loc3 = loc(#loc2)
#loop = loc(fused[#loop, #loop])
)",
                         "m");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  const std::pair<const char*, int> cases[] = {
      {"arith.addi", 7},   {"arith.subi", 12}, {"arith.muli", 20}, {"scf.if", 20},
      {"arith.divsi", 20}, {"arith.remsi", 0}, {"arith.andi", 0},  {"arith.ori", 0},
      {"arith.xori", 0},   {"tt.return", 0}};
  for (auto [name, line] : cases) EXPECT_EQ(SourceLineOf(*module, name), line) << name;

  // A called function's operations are where the entry calls it.
  TtirModule scan = Fixture("versions/3.8.0/scan");
  auto source = ReadFile(std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/make_fixtures.py");
  ASSERT_TRUE(source.has_value());
  std::vector<std::string> lines(1);
  for (char c : *source) c == '\n' ? lines.emplace_back() : lines.back() += std::string(1, c);
  auto line_of = [&](std::string_view name) {
    return lines[static_cast<size_t>(SourceLineOf(scan, name)) - 1];
  };
  EXPECT_THAT(line_of("tt.reduce"), HasSubstr("tl.max(x, 0, return_indices=True)"));
  EXPECT_THAT(line_of("tt.scan"), HasSubstr("tl.associative_scan("));
  EXPECT_THAT(line_of("tt.load"), HasSubstr("x = tl.load(x_ptr + i)"));
  EXPECT_THAT(line_of("tt.store"), HasSubstr("tl.store(y_ptr"));
}

TEST(TtirTest, TypesOfPointersAndShapes) {
  EXPECT_EQ(WithElementType("tensor<4x8xf32>", "i1"), "tensor<4x8xi1>");
  EXPECT_EQ(WithElementType("f32", "f64"), "f64");
  EXPECT_EQ(WithElementType("tensor<4x!tt.ptr<f32>>", "f16"), "tensor<4xf16>");
  EXPECT_EQ(PointeeType("tensor<4x!tt.ptr<bf16>>"), "tensor<4xbf16>");
  EXPECT_EQ(PointeeType("!tt.ptr<f32, 1>"), "f32");
  EXPECT_EQ(PointeeType("!tt.ptr<tensor<16x16xf32>>"), "tensor<16x16xf32>");
  EXPECT_EQ(PointeeType("tensor<4xf32>"), "");
}

struct BadCase {
  const char* text;
  const char* found;
  const char* where;
};

TEST(TtirTest, RefusesWhatItCannotRead) {
  const BadCase cases[] = {
      {"", "no function", "m:1"},
      {"module {\n}", "no function", "m:2"},
      {"module {\n  tt.func @f() {\n    tt.return\n", "never ends", "m:4"},
      {"tt.func @f() {\n  %a = arith.addi %b, %b : i32\n}", "%b, which nothing defines", "m:2"},
      {"tt.func @f() {\n  hello\n}", "'hello'", "m:2"},
      {"tt.func @f() {\n  %a = arith.constant dense<1 : i32\n}", "bracket that never closes", "m:"},
      {"tt.func @f() {\n  tt.print \"x\n}", "string or location", "m:1"},
      {"tt.func @f(%a) {\n}", "without a type", "m:1"},
      {"tt.func @f()\n", "without a body", "m:1"},
      {"scf.for\n", "neither a function nor a module", "m:1"},
      {"tt.func @f() {\n  %a:99999 = tt.call @g() : () -> i32\n}", "number of results", "m:2"},
  };
  for (const BadCase& bad : cases) {
    auto module = ReadTtir(bad.text, "m");
    ASSERT_FALSE(module.has_value()) << bad.text;
    EXPECT_EQ(module.error().code, "unreadable_ttir");
    EXPECT_THAT(module.error().message, HasSubstr(bad.found)) << bad.text;
    EXPECT_THAT(module.error().where, HasSubstr(bad.where)) << bad.text;
  }
  std::string deep = "tt.func @f(%c: i1) {\n";
  for (int i = 0; i < 5000; ++i) deep += "scf.if %c {\n";
  EXPECT_FALSE(ReadTtir(deep, "m").has_value());
}

TEST(TtirTest, ElementTypes) {
  EXPECT_EQ(ElementType("tensor<64x32xf32>"), "f32");
  EXPECT_EQ(ElementType("tensor<8x!tt.ptr<f32>>"), "!tt.ptr<f32>");
  EXPECT_EQ(ElementType("tensor<8xf16, #blocked>"), "f16");
  EXPECT_EQ(ElementType("i32"), "i32");
  EXPECT_TRUE(IsPointerType("tensor<8x!tt.ptr<bf16>>"));
  EXPECT_FALSE(IsPointerType("f32"));
  EXPECT_TRUE(IsFloatType("f8E4M3FN"));
  EXPECT_FALSE(IsFloatType("i32"));
}

std::string Show(const std::vector<PointerUse>& uses) {
  std::string text;
  for (const PointerUse& use : uses) {
    if (!text.empty()) text += ' ';
    text += use.is_pointer ? "L" + std::to_string(use.loads) + "S" + std::to_string(use.stores) +
                                 "A" + std::to_string(use.atomics) + (use.indirect ? "i" : "")
                           : "-";
  }
  return text;
}

TEST(RolesTest, FollowsPointers) {
  const std::pair<const char*, const char*> cases[] = {
      {"pointwise", "L1S1A0 L1S0A0 L0S1A0 -"},
      {"reduction", "L2S0A0 L0S1A0 - -"},
      {"gather", "L1S0A0 L1S0A0i L0S1A0 -"},
      {"control", "L2S0A0 L2S0A0 L0S1A0 -"},  // a select: one load may read either
      {"forbidden", "L1S0A0 L0S0A1 -"},
  };
  for (auto [name, wanted] : cases) {
    auto uses = PointerUses(Fixture(name));
    ASSERT_TRUE(uses.has_value()) << name << uses.error().ToString();
    EXPECT_EQ(Show(*uses), wanted) << name;
  }
}

// Third operands are divided by their sums: `%w`, by a select with a constant. The first
// two are not, and nothing is in a reduction that divides by something else.
TEST(RolesTest, FindsWeightsOfWelfordCombinations) {
  const auto text = [](const char* sum) {
    return std::string(
               R"(tt.func public @f(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %w: !tt.ptr<f32>, %mask: i1) {
    %zero = arith.constant dense<0.0> : tensor<16xf32>
    %pa = tt.splat %a : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %pb = tt.splat %b : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %pw = tt.splat %w : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %va = tt.load %pa : tensor<16x!tt.ptr<f32>>
    %vb = tt.load %pb : tensor<16x!tt.ptr<f32>>
    %vw = tt.load %pw : tensor<16x!tt.ptr<f32>>
    %chosen = arith.select %mask, %vw, %zero : i1, tensor<16xf32>
    %r:3 = "tt.reduce"(%va, %vb, %chosen) <{axis = 0 : i32}> ({
    ^bb0(%m1: f32, %s1: f32, %w1: f32, %m2: f32, %s2: f32, %w2: f32):
      %total = arith.addf %w1, %w2 : f32
      %scaled = arith.mulf %w1, %w2 : f32
      %part = arith.divf %w2, )") +
           sum + R"( : f32
      %m = arith.addf %m1, %m2 : f32
      %s = arith.addf %s1, %part : f32
      tt.reduce.return %m, %s, %total : f32, f32, f32
    }) : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> (f32, f32, f32)
    tt.return
  })";
  };
  const auto weights = [](const std::string& ttir) {
    std::string marks;
    auto module = ReadTtir(ttir, "m");
    EXPECT_TRUE(module.has_value()) << module.error().ToString();
    auto uses = PointerUses(*module);
    EXPECT_TRUE(uses.has_value()) << uses.error().ToString();
    for (const PointerUse& use : *uses) marks += use.weight ? '1' : '0';
    return marks;
  };
  EXPECT_EQ(weights(text("%total")), "0010");
  EXPECT_EQ(weights(text("%scaled")), "0000");
}

TEST(RolesTest, RefusesWhatItCannotFollow) {
  auto uses = PointerUses(Fixture("untraceable"));
  ASSERT_FALSE(uses.has_value());
  EXPECT_EQ(uses.error().code, "not_analysable");
  EXPECT_THAT(uses.error().message, HasSubstr("tt.call in line 6"));

  const char* texts[] = {
      "tt.func @f(%n: i64) {\n  %p = tt.int_to_ptr %n : i64 -> !tt.ptr<f32>\n"
      "  %x = tt.load %p : !tt.ptr<f32>\n  tt.return\n}",
      "tt.func @f(%p: !tt.ptr<f32>) {\n  %n = tt.ptr_to_int %p : !tt.ptr<f32> -> i64\n"
      "  tt.return\n}",
      "tt.func @f(%p: !tt.ptr<!tt.ptr<f32>>) {\n  %q = tt.load %p : !tt.ptr<!tt.ptr<f32>>\n"
      "  tt.return\n}",
      "tt.func @f(%p: !tt.ptr<f32>) {\n  tt.return\n}\ntt.func @g() {\n  tt.return\n}",
  };
  for (const char* text : texts) {
    auto module = ReadTtir(text, "m");
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    EXPECT_FALSE(PointerUses(*module).has_value()) << text;
  }
}

TEST(RolesTest, FollowsBranchArgumentsAndLoopCarriedPointers) {
  auto module = ReadTtir(R"(tt.func @f(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32, %c: i1) {
    %r:2 = scf.for %i = %n to %n step %n iter_args(%p = %a, %q = %b) -> (!tt.ptr<f32>, !tt.ptr<f32>)  : i32 {
      %x = tt.load %p : !tt.ptr<f32>
      scf.yield %q, %p : !tt.ptr<f32>, !tt.ptr<f32>
    }
    cf.cond_br %c, ^bb1(%r#0 : !tt.ptr<f32>), ^bb2
  ^bb1(%s: !tt.ptr<f32>):
    %y = tt.load %s : !tt.ptr<f32>
    tt.return
  ^bb2:
    tt.return
  })",
                         "m");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  auto uses = PointerUses(*module);
  ASSERT_TRUE(uses.has_value()) << uses.error().ToString();
  EXPECT_EQ(Show(*uses), "L2S0A0 L2S0A0 - -");  // swapped each round, so both may be read
}

TEST(FactsTest, ReadsWhatTheGateCompares) {
  TtirFacts plain = ReadFacts(Fixture("pointwise"));
  EXPECT_THAT(plain.arithmetic_types, UnorderedElementsAre("f32"));
  EXPECT_THAT(plain.narrowed_types, UnorderedElementsAre("bf16"));  // bf16 in, bf16 out
  EXPECT_THAT(plain.extern_symbols, UnorderedElementsAre("__nv_expf"));
  EXPECT_THAT(plain.unusual_ops, IsEmpty());
  EXPECT_EQ(plain.loads, 2);
  EXPECT_EQ(plain.stores, 2);

  TtirFacts bad = ReadFacts(Fixture("forbidden"));
  EXPECT_THAT(bad.arithmetic_types, UnorderedElementsAre("f16", "f32"));
  EXPECT_THAT(bad.narrowed_types, UnorderedElementsAre("f16"));
  EXPECT_EQ(bad.dots.at("f32 tf32"), 1);
  EXPECT_EQ(bad.atomics, 1);
  EXPECT_EQ(bad.inline_asm, 1);
  EXPECT_TRUE(bad.volatile_access);

  EXPECT_THAT(ReadFacts(Fixture("untraceable")).unusual_ops, UnorderedElementsAre("tt.call"));
  EXPECT_GT(ReadFacts(Fixture("gather")).asserts, 0);
  EXPECT_EQ(ReadFacts(Fixture("control")).scans, 1);
  EXPECT_THAT(ReadFacts(Fixture("reduction")).math_functions, UnorderedElementsAre("arith.divf"));
}

RC_GTEST_PROP(TtirTest, DamagedTextIsReadOrRefusedNeverMore, ()) {
  static const std::string text =
      *ReadFile(std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/control.ttir");
  std::string damaged = text;
  auto at = *rc::gen::inRange<size_t>(0, text.size());
  auto count = *rc::gen::inRange<size_t>(0, 40);
  damaged.replace(
      at, count,
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("%^{}()<>:\"#,=- \nabc0"))));
  if (auto module = ReadTtir(damaged, "m")) {
    (void)PointerUses(*module);
    (void)ReadFacts(*module);
  }
}

/// A developer's run over many kernels: a folder of *.ttir, each beside the
/// *.src it was compiled from, if any.
TEST(TtirTest, ReadsAFolderOfCompiledKernels) {
  const char* folder = std::getenv("KERNELOPT_TTIR_DIR");
  if (folder == nullptr) GTEST_SKIP() << "KERNELOPT_TTIR_DIR is not set";
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".ttir") continue;
    auto module = ReadTtir(*ReadFile(entry.path()), entry.path().string());
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    auto uses = PointerUses(*module);
    EXPECT_TRUE(uses.has_value()) << entry.path() << uses.error().ToString();
    EXPECT_THAT(ReadFacts(*module).unusual_ops, IsEmpty()) << entry.path();
    for (const TtirValue& value : module->values) EXPECT_NE(value.type, "") << value.name;
    ++read;
  }
  EXPECT_GE(read, 150);
}

}  // namespace
}  // namespace kernelopt
