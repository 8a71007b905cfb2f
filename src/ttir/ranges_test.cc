#include "ttir/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "base/file.h"

namespace kernelopt {
namespace {

RangeReport Analyze(const std::string& text, const LaunchFacts& facts) {
  auto module = ReadTtir(text, "m");
  EXPECT_TRUE(module.has_value()) << module.error().ToString();
  if (!module) return {};
  auto report = AnalyzeRanges(*module, facts);
  EXPECT_TRUE(report.has_value()) << report.error().ToString();
  return report ? *report : RangeReport{};
}

/// "inside", "outside" or "unknown", and "injective" where that is proven.
std::string Show(const AccessRange& access) {
  std::string text = access.bounds == Bounds::kInside    ? "inside"
                     : access.bounds == Bounds::kOutside ? "outside"
                                                         : "unknown";
  return access.injective ? text + " injective" : text;
}

/// A store by 64 lanes of %v to %p + %o, where %m; %x is program * 64 + lane.
std::string Store(const std::string& body) {
  return R"(tt.func @f(%p: !tt.ptr<i32>, %n: i32, %g: !tt.ptr<i32>) {
  %c64 = arith.constant 64 : i32
  %pid = tt.get_program_id x : i32
  %start = arith.muli %pid, %c64 : i32
  %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %starts = tt.splat %start : i32 -> tensor<64xi32>
  %x = arith.addi %starts, %lane : tensor<64xi32>
  %pp = tt.splat %p : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
  %nn = tt.splat %n : i32 -> tensor<64xi32>
  )" + body +
         R"(
  %a = tt.addptr %pp, %o : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
  tt.store %a, %x, %m : tensor<64x!tt.ptr<i32>>
  tt.return
}
)";
}

std::string Number(const std::string& name, int64_t value) {
  return "%" + name + " = arith.constant dense<" + std::to_string(value) + "> : tensor<64xi32>\n  ";
}

TEST(RangesTest, StoresUnderMasks) {
  const std::string t = " : tensor<64xi32>\n  ";
  const std::string below = "%m = arith.cmpi slt, %x, %nn" + t;
  const std::string k10 = Number("k", 10);
  const std::string split = k10 + "%r = arith.remsi %x, %k" + t + "%q = arith.divsi %x, %k" + t;
  const struct {
    std::string body;
    int64_t grid, n, elements;
    const char* wanted;
  } cases[] = {
      // Plain: 4 programs of 64 lanes.
      {below + "%o = arith.addi %x, %x" + t, 4, 200, 399, "inside injective"},
      {below + "%o = arith.addi %x, %x" + t, 4, 200, 398, "outside injective"},
      {below + Number("z", 0) + "%o = arith.addi %x, %z" + t, 4, 200, 200, "inside injective"},
      {below + Number("z", 0) + "%o = arith.addi %x, %z" + t, 4, 201, 200, "outside injective"},
      {"%m = arith.cmpi sle, %x, %nn" + t + Number("z", 0) + "%o = arith.addi %x, %z" + t, 4, 200,
       200, "outside injective"},
      {below + Number("z", -1) + "%o = arith.addi %x, %z" + t, 4, 200, 200, "outside injective"},
      // More programs than the mask lets through, and fewer than it would.
      {below + "%o = arith.subi %x, %x" + t, 4, 200, 1, "inside"},
      {below + Number("z", 5) + "%o = arith.addi %x, %z" + t, 2, 200, 133, "inside injective"},
      // Taken apart and put together again.
      {below + split + "%s = arith.muli %q, %k" + t + "%o = arith.addi %r, %s" + t, 4, 195, 195,
       "inside injective"},
      {below + split + "%o = arith.addi %r, %q" + t, 4, 200, 29, "inside"},
      // Transposed: r * 20 + q.
      {below + split + Number("w", 20) + "%s = arith.muli %r, %w" + t + "%o = arith.addi %s, %q" +
           t,
       4, 200, 200, "inside injective"},
      // Rows that are too near to each other meet.
      {below + split + Number("w", 19) + "%s = arith.muli %r, %w" + t + "%o = arith.addi %s, %q" +
           t,
       4, 200, 200, "inside"},
      // A padded window: 1 <= x < 101 stored at x - 1.
      {Number("one", 1) + "%y = arith.subi %x, %one" + t + Number("z", 0) +
           "%m1 = arith.cmpi sge, %y, %z" + t + Number("h", 100) + "%m2 = arith.cmpi slt, %y, %h" +
           t + "%m = arith.andi %m1, %m2 : tensor<64xi1>\n  " + "%o = arith.subi %x, %one" + t,
       4, 0, 100, "inside injective"},
      // Always true and always false.
      {"%m = arith.constant dense<true> : tensor<64xi1>\n  " + Number("z", 0) +
           "%o = arith.addi %x, %z" + t,
       4, 0, 256, "inside injective"},
      {"%m = arith.constant dense<false> : tensor<64xi1>\n  " + Number("z", 900) +
           "%o = arith.addi %x, %z" + t,
       4, 0, 256, "inside injective"},
      // A condition that is not followed: nothing is certain.
      {"%m0 = arith.cmpi ne, %x, %nn" + t + below + "%o = arith.addi %x, %x" + t, 4, 200, 399,
       "inside injective"},
      {"%m = arith.cmpi ne, %x, %nn" + t + Number("z", 1) + "%o = arith.addi %x, %z" + t, 4, 200,
       256, "unknown injective"},
      // Loaded indices.
      {below + "%gg = tt.splat %g : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>\n  "
               "%ga = tt.addptr %gg, %lane : tensor<64x!tt.ptr<i32>>, tensor<64xi32>\n  "
               "%o = tt.load %ga : tensor<64x!tt.ptr<i32>>\n  ",
       4, 200, 200, "unknown"},
      // 32 bits are not enough: 64 * 4 * 2^25.
      {below + Number("w", 1 << 25) + "%o = arith.muli %x, %w" + t, 4, 200, int64_t{1} << 40,
       "unknown"},
      {below + Number("w", 1 << 20) + "%o = arith.muli %x, %w" + t, 4, 200, int64_t{1} << 40,
       "inside injective"},
  };
  for (const auto& one : cases) {
    RangeReport report = Analyze(Store(one.body), {.grid = {one.grid, 1, 1},
                                                   .scalars = {std::nullopt, one.n, std::nullopt},
                                                   .elements = {one.elements, std::nullopt, 64}});
    ASSERT_FALSE(report.accesses.empty()) << one.body;
    EXPECT_EQ(Show(report.accesses.back()), one.wanted) << one.body << one.elements;
    EXPECT_EQ(report.accesses.back().kind, AccessRange::Kind::kStore);
    EXPECT_EQ(report.accesses.back().parameter, 0);
  }
  // Without the scalar's value the mask tells nothing.
  RangeReport report = Analyze(Store("%m = arith.cmpi slt, %x, %nn : tensor<64xi32>\n  " +
                                     Number("z", 0) + "%o = arith.addi %x, %z : tensor<64xi32>"),
                               {.grid = {4, 1, 1},
                                .scalars = {std::nullopt, std::nullopt, std::nullopt},
                                .elements = {200, std::nullopt, 64}});
  EXPECT_EQ(Show(report.accesses.back()), "unknown injective");
}

TEST(RangesTest, OfSomePrograms) {
  const std::string t = " : tensor<64xi32>\n  ";
  const std::string plain =
      "%m = arith.cmpi slt, %x, %nn" + t + Number("z", 0) + "%o = arith.addi %x, %z" + t;
  // Rows of 1,000 that are 1,024 apart.
  const std::string rows = "%m = arith.cmpi slt, %x, %nn" + t + Number("k", 1000) +
                           Number("w", 1024) + "%r = arith.remsi %x, %k" + t +
                           "%q = arith.divsi %x, %k" + t + "%s = arith.muli %q, %w" + t +
                           "%o = arith.addi %r, %s" + t;
  const struct {
    std::string body;
    int64_t first, count;
    Interval offsets;
  } cases[] = {
      {plain, 0, 100, {0, 6399}},   {plain, 0, 1, {0, 63}},   {plain, 7, 1, {448, 511}},
      {plain, 99, 1, {6336, 6399}}, {rows, 2, 3, {128, 319}},  // inside of the first row
      {rows, 16, 1, {1048, 1111}},                             // of the second
      {rows, 15, 1, {0, 2023}},  // across the border: not known better
  };
  for (const auto& one : cases) {
    LaunchFacts facts{.grid = {100, 1, 1},
                      .scalars = {std::nullopt, 6400, std::nullopt},
                      .elements = {1 << 20, std::nullopt, 64}};
    facts.programs = {{one.first, 0, 0}, {one.count, 1, 1}};
    const RangeReport report = Analyze(Store(one.body), facts);
    ASSERT_FALSE(report.accesses.empty());
    const Interval found = report.accesses.back().offsets;
    EXPECT_EQ(found, one.offsets) << one.body << one.first << ": " << found.low << " to "
                                  << found.high;
  }
}

std::string FixtureText(const std::string& name) {
  return *ReadFile(std::string(KERNELOPT_SOURCE_DIR) + "/src/ttir/testdata/" + name + ".ttir");
}

std::string ShowAll(const RangeReport& report) {
  std::string text;
  for (const AccessRange& access : report.accesses)
    text += (text.empty() ? "" : ", ") + std::to_string(access.parameter) + " " + Show(access);
  return text;
}

TEST(RangesTest, CompiledKernels) {
  const std::nullopt_t no = std::nullopt;
  EXPECT_EQ(ShowAll(Analyze(FixtureText("pointwise"), {.grid = {4, 1, 1},
                                                       .scalars = {no, no, no, 1000},
                                                       .elements = {1000, 128, 1000, no}})),
            "0 inside injective, 1 inside, 0 inside injective, 2 inside injective");
  EXPECT_EQ(ShowAll(Analyze(FixtureText("pointwise"), {.grid = {4, 1, 1},
                                                       .scalars = {no, no, no, 1000},
                                                       .elements = {1000, 127, 999, no}})),
            "0 inside injective, 1 unknown, 0 inside injective, 2 outside injective");
  // 5 programs of 4 rows of 100; no mask on the rows.
  EXPECT_EQ(ShowAll(Analyze(FixtureText("reduction"), {.grid = {5, 1, 1},
                                                       .scalars = {no, no, 20, 100},
                                                       .elements = {2000, 2000, no, no}})),
            "0 inside injective, 0 inside injective, 1 inside injective");
  EXPECT_EQ(ShowAll(Analyze(FixtureText("reduction"), {.grid = {5, 1, 1},
                                                       .scalars = {no, no, 20, 100},
                                                       .elements = {1999, 1999, no, no}})),
            "0 outside injective, 0 outside injective, 1 outside injective");
  EXPECT_EQ(ShowAll(Analyze(FixtureText("gather"), {.grid = {2, 1, 1},
                                                    .scalars = {no, no, no, 200},
                                                    .elements = {200, 100, 200, no}})),
            "0 inside injective, 1 unknown, 2 inside injective");
  // Another axis for each of two equal ranges, in a loop over k.
  EXPECT_EQ(
      ShowAll(Analyze(
          FixtureText("versions/3.8.0/dot"),
          {.grid = {2, 4, 1}, .scalars = {no, no, no, 64}, .elements = {2048, 4096, 2048, no}})),
      "0 inside, 1 inside, 2 inside injective");
}

TEST(RangesTest, WideArithmeticThatFitsInLess) {
  const std::string text = R"(tt.func @f(%p: !tt.ptr<f32>, %n: i64) {
  %c = arith.constant dense<4096> : tensor<64xi64>
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %w = arith.extsi %r : tensor<64xi32> to tensor<64xi64>
  %s = arith.muli %w, %c : tensor<64xi64>
  %b = tt.splat %n : i64 -> tensor<64xi64>
  %o = arith.addi %s, %b : tensor<64xi64>
  tt.return
})";
  RangeReport report = Analyze(text, {.scalars = {std::nullopt, 7}, .elements = {1, std::nullopt}});
  EXPECT_EQ(report.wide_operations, 2);
  EXPECT_EQ(report.narrow_operations, 2);
  report = Analyze(text, {.scalars = {std::nullopt, int64_t{1} << 31}, .elements = {1, {}}});
  EXPECT_EQ(report.narrow_operations, 1);
  report = Analyze(text, {.scalars = {std::nullopt, std::nullopt}, .elements = {1, {}}});
  EXPECT_EQ(report.narrow_operations, 1);
}

TEST(RangesTest, FactsMustBeOfItsParameters) {
  auto module = ReadTtir("tt.func @f(%n: i32) {\n  tt.return\n}\n", "m");
  EXPECT_EQ(AnalyzeRanges(*module, {}).error().code, "not_analysable");
  EXPECT_TRUE(AnalyzeRanges(*module, {.scalars = {1}, .elements = {{}}}).has_value());
}

// Small random kernels, and what their stores do, counted out.

struct Random {
  std::string text;
  int next = 0;

  /// Values of every (program, lane).
  struct Value {
    std::string name;
    std::map<std::pair<int, int>, int64_t> of;
  };

  Value Make(int depth, int grid) {
    const int kind = depth == 0 ? *rc::gen::inRange(0, 3) : *rc::gen::inRange(0, 9);
    Value value;
    value.name = "%v" + std::to_string(next++);
    if (kind <= 1) {
      value.name = kind == 0 ? "%x" : "%lane";
      for (int p = 0; p < grid; ++p)
        for (int l = 0; l < 8; ++l) value.of[{p, l}] = kind == 0 ? p * 8 + l : l;
      return value;
    }
    if (kind == 2) {
      const int number = *rc::gen::inRange(-3, 12);
      text += "  " + value.name + " = arith.constant dense<" + std::to_string(number) +
              "> : tensor<8xi32>\n";
      for (int p = 0; p < grid; ++p)
        for (int l = 0; l < 8; ++l) value.of[{p, l}] = number;
      return value;
    }
    const Value a = Make(depth - 1, grid);
    static const char* const kNames[] = {"addi", "subi", "muli", "remsi", "divsi", "minsi"};
    const std::string name = kNames[kind - 3];
    Value b;
    if (kind >= 5 && kind <= 7) {  // by a positive number
      const int number = *rc::gen::inRange(1, 12);
      b.name = "%n" + std::to_string(next++);
      text += "  " + b.name + " = arith.constant dense<" + std::to_string(number) +
              "> : tensor<8xi32>\n";
      for (const auto& [place, ignored] : a.of) b.of[place] = number;
    } else {
      b = Make(depth - 1, grid);
    }
    text += "  " + value.name + " = arith." + name + " " + a.name + ", " + b.name +
            " : tensor<8xi32>\n";
    for (const auto& [place, x] : a.of) {
      const int64_t y = b.of.at(place);
      value.of[place] = name == "addi"    ? x + y
                        : name == "subi"  ? x - y
                        : name == "muli"  ? x * y
                        : name == "remsi" ? x % y
                        : name == "divsi" ? x / y
                                          : std::min(x, y);
    }
    return value;
  }
};

RC_GTEST_PROP(RangesTest, WhatIsProvenHoldsWhenCountedOut, ()) {
  const int grid = *rc::gen::inRange(1, 5);
  Random random;
  const Random::Value offset = random.Make(3, grid);
  std::map<std::pair<int, int>, bool> enabled;
  for (const auto& [place, ignored] : offset.of) enabled[place] = true;
  std::string mask;
  const int conditions = *rc::gen::inRange(0, 3);
  for (int i = 0; i < conditions; ++i) {
    // Half of them about the offset itself or the index, as kernels have them.
    const Random::Value left = *rc::gen::arbitrary<bool>() ? random.Make(1, grid) : offset;
    const Random::Value right = random.Make(0, grid);
    const std::string predicate =
        *rc::gen::elementOf(std::vector<std::string>{"slt", "sle", "sgt", "sge", "eq", "ne"});
    const std::string name = "%c" + std::to_string(i);
    random.text += "  " + name + " = arith.cmpi " + predicate + ", " + left.name + ", " +
                   right.name + " : tensor<8xi32>\n";
    if (!mask.empty()) {
      random.text +=
          "  %b" + std::to_string(i) + " = arith.andi " + mask + ", " + name + " : tensor<8xi1>\n";
      mask = "%b" + std::to_string(i);
    } else {
      mask = name;
    }
    for (auto& [place, on] : enabled) {
      const int64_t a = left.of.at(place), b = right.of.at(place);
      on = on && (predicate == "slt"   ? a < b
                  : predicate == "sle" ? a <= b
                  : predicate == "sgt" ? a > b
                  : predicate == "sge" ? a >= b
                  : predicate == "eq"  ? a == b
                                       : a != b);
    }
  }
  const int64_t elements = *rc::gen::inRange(1, 60);
  const std::string text =
      "tt.func @f(%p: !tt.ptr<i32>) {\n"
      "  %c8 = arith.constant 8 : i32\n"
      "  %pid = tt.get_program_id x : i32\n"
      "  %s = arith.muli %pid, %c8 : i32\n"
      "  %lane = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
      "  %ss = tt.splat %s : i32 -> tensor<8xi32>\n"
      "  %x = arith.addi %ss, %lane : tensor<8xi32>\n" +
      random.text +
      "  %pp = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
      "  %a = tt.addptr %pp, " +
      offset.name +
      " : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
      "  tt.store %a, %x" +
      (mask.empty() ? "" : ", " + mask) +
      " : tensor<8x!tt.ptr<i32>>\n"
      "  tt.return\n}\n";
  const RangeReport report =
      Analyze(text, {.grid = {grid, 1, 1}, .scalars = {{}}, .elements = {elements}});
  RC_ASSERT(report.accesses.size() == 1u);
  const AccessRange& access = report.accesses[0];

  std::map<int64_t, int> seen;
  bool inside = true, twice = false;
  for (const auto& [place, on] : enabled) {
    if (!on) continue;
    const int64_t at = offset.of.at(place);
    inside = inside && at >= 0 && at < elements;
    twice = twice || ++seen[at] > 1;
    RC_ASSERT(at >= access.offsets.low && at <= access.offsets.high);
  }
  RC_TAG(Show(access));
  RC_LOG() << text << Show(access) << "\n";
  if (access.bounds == Bounds::kInside) RC_ASSERT(inside);
  if (access.bounds == Bounds::kOutside) RC_ASSERT(!inside);
  if (access.injective) RC_ASSERT(!twice);
}

RC_GTEST_PROP(RangesTest, DamagedTextIsAnalyzedOrRefusedNeverMore, ()) {
  std::string damaged = FixtureText(
      *rc::gen::elementOf(std::vector<std::string>{"reduction", "control", "versions/3.8.0/dot"}));
  const auto at = *rc::gen::inRange<size_t>(0, damaged.size());
  const auto count = *rc::gen::inRange<size_t>(0, 40);
  damaged.replace(
      at, count,
      *rc::gen::container<std::string>(rc::gen::elementOf(std::string("%^{}()<>:\"#,=- \nabc0i"))));
  auto module = ReadTtir(damaged, "m");
  if (!module || module->Entry() == nullptr) return;
  const size_t parameters = module->Entry()->parameters.size();
  (void)AnalyzeRanges(*module, {.grid = {7, 3, 1},
                                .scalars = std::vector<std::optional<int64_t>>(parameters, 100),
                                .elements = std::vector<std::optional<int64_t>>(parameters, 500)});
}

}  // namespace
}  // namespace kernelopt
