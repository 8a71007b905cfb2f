// Every check finds its planted fault, at its line, and nothing where there is none.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "shadow/evaluator.h"
#include "shadow/testing.h"

namespace kernelopt {
namespace {

using Kind = ShadowFinding::Kind;

/// A kernel of `body` over %x (read), %y (written) and %n; %i are the 8 places of an
/// instance, %px and %py pointers to them. The body begins in line 12.
std::string Kernel(const std::string& body) {
  return R"(module {
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
    %c8 = arith.constant 8 : i32
    %p = tt.get_program_id x : i32
    %l = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %s = arith.muli %p, %c8 : i32
    %t = tt.splat %s : i32 -> tensor<8xi32>
    %i = arith.addi %t, %l : tensor<8xi32>
    %sx = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %sy = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
    %px = tt.addptr %sx, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
)" + body +
         "    tt.return\n  }\n}\n";
}

const char* const kPy = "    %py = tt.addptr %sy, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n";
const char* const kLoad = "    %v = tt.load %px : tensor<8x!tt.ptr<f32>>\n";
const char* const kStore = "    tt.store %py, %v : tensor<8x!tt.ptr<f32>>\n";
const char* const kBack =
    "    %c7 = arith.constant dense<7> : tensor<8xi32>\n"
    "    %r = arith.subi %c7, %l : tensor<8xi32>\n"
    "    %j = arith.addi %t, %r : tensor<8xi32>\n"
    "    %pj = tt.addptr %sy, %j : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n";

struct Setup {
  int64_t elements = 64;
  int64_t grid = 8;
  int64_t n = 64;
  bool in_place = false;  ///< %y is %x
  bool y_has_data = false;
  int threads = 1;
};

ShadowReport RunKernel(const std::string& body, const Setup& setup = {},
                       ShadowMemory* keep = nullptr, uint64_t* y = nullptr) {
  const ShadowProgram program = ProgramOf(Kernel(body));
  if (program.parameters.empty()) return {};
  ShadowMemory own;
  ShadowMemory& memory = keep != nullptr ? *keep : own;
  std::vector<double> numbers(static_cast<size_t>(setup.elements));
  std::iota(numbers.begin(), numbers.end(), 1);
  const uint64_t from = StorageOf(memory, "f32", numbers);
  uint64_t to = from;
  if (!setup.in_place)
    to = setup.y_has_data ? StorageOf(memory, "f32", std::vector<double>(numbers.size(), 0))
                          : PoisonedStorage(memory, "f32", setup.elements);
  if (y != nullptr) *y = to;
  ShadowLaunch launch;
  launch.program = &program;
  launch.grid = {setup.grid, 1, 1};
  launch.arguments = {{from}, {to}, {0, setup.n}};
  launch.instances = AllInstances(launch.grid);
  launch.threads = setup.threads;
  auto report = RunShadow(memory, launch);
  EXPECT_TRUE(report) << (report ? "" : report.error().ToString());
  return report ? *report : ShadowReport{};
}

std::string Mask(const std::string& bound) {
  return "    %sn = tt.splat %n : i32 -> tensor<8xi32>\n    %m = arith.cmpi slt, %i, " + bound +
         " : tensor<8xi32>\n";
}

TEST(Checks, FindNothingInARightKernel) {
  for (int threads : {1, 3}) {
    const ShadowReport report = RunKernel(std::string(kPy) + kLoad + kStore, {.threads = threads});
    EXPECT_TRUE(report.findings.empty()) << Describe(report.findings[0]);
    EXPECT_EQ(report.instances, 8);
    EXPECT_EQ(report.share, 1);
  }
  const ShadowReport ragged =
      RunKernel(std::string(kPy) + Mask("%sn") +
                    "    %v = tt.load %px, %m : tensor<8x!tt.ptr<f32>>\n    tt.store %py, %v, %m : "
                    "tensor<8x!tt.ptr<f32>>\n",
                {.elements = 61, .n = 61});
  EXPECT_TRUE(ragged.findings.empty());
}

TEST(Checks, OutOfBounds) {
  // The last instance is three elements too long; its store is the second fault.
  const ShadowReport report = RunKernel(std::string(kPy) + kLoad + kStore, {.elements = 61});
  ASSERT_EQ(report.findings.size(), 2u);
  const ShadowFinding& load = report.findings[0];
  EXPECT_EQ(load.kind, Kind::kOutOfBounds);
  EXPECT_FALSE(load.is_store);
  EXPECT_EQ(load.line, 13);
  EXPECT_EQ(load.instance[0], 7);
  EXPECT_EQ(load.lane, 7);
  EXPECT_EQ(load.amount, 12);
  EXPECT_EQ(load.count, 3);
  EXPECT_TRUE(report.findings[1].is_store);
  EXPECT_THAT(Describe(load), ::testing::HasSubstr("12 bytes past the end of storage 0"));
  // Before the start.
  const ShadowReport before =
      RunKernel(std::string(kPy) +
                "    %k = arith.constant dense<-2> : tensor<8xi32>\n"
                "    %q = tt.addptr %px, %k : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"
                "    %v = tt.load %q : tensor<8x!tt.ptr<f32>>\n" +
                kStore);
  ASSERT_EQ(before.findings.size(), 1u);
  EXPECT_EQ(before.findings[0].amount, -8);
  EXPECT_EQ(before.findings[0].lane, 0);
}

TEST(Checks, AnOffsetThatWrapsIn32BitsIsOutOfBounds) {
  // program * 2^28 * 8 elements, as in row * width with too narrow integers.
  const ShadowReport report = RunKernel(
      "    %w = arith.constant 268435456 : i32\n    %o = arith.muli %s, %w : i32\n"
      "    %so = tt.splat %o : i32 -> tensor<8xi32>\n"
      "    %io = arith.addi %so, %l : tensor<8xi32>\n"
      "    %py = tt.addptr %sy, %io : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n" +
          std::string(kLoad) + kStore,
      {.grid = 1});
  EXPECT_TRUE(report.findings.empty());
  const ShadowReport wrong = RunKernel(
      "    %w = arith.constant 268435457 : i32\n    %o = arith.muli %p, %w : i32\n"
      "    %so = tt.splat %o : i32 -> tensor<8xi32>\n"
      "    %io = arith.muli %so, %so : tensor<8xi32>\n"
      "    %iq = arith.muli %io, %so : tensor<8xi32>\n"
      "    %iz = arith.addi %iq, %so : tensor<8xi32>\n"
      "    %py = tt.addptr %sy, %iz : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n" +
      std::string(kLoad) + kStore);
  ASSERT_FALSE(wrong.findings.empty());
  EXPECT_TRUE(std::ranges::any_of(wrong.findings, [](const ShadowFinding& f) {
    return f.kind == Kind::kOutOfBounds && f.line == 20 && f.is_store;
  }));
}

TEST(Checks, ReadsOfWhatNobodyWrote) {
  const ShadowReport report =
      RunKernel(std::string(kPy) + "    %v = tt.load %py : tensor<8x!tt.ptr<f32>>\n" + kStore);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Kind::kUnwritten);
  EXPECT_EQ(report.findings[0].line, 13);
  EXPECT_EQ(report.findings[0].count, 64);
  // The same with data is fine.
  EXPECT_TRUE(
      RunKernel(std::string(kPy) + "    %v = tt.load %py : tensor<8x!tt.ptr<f32>>\n" + kStore,
                {.y_has_data = true})
          .findings.empty());
}

TEST(Checks, TwoInstancesWriteOneElement) {
  for (int threads : {1, 2}) {
    // Instances write their own values to the first instance's place.
    const std::string body =
        "    %py = tt.addptr %sy, %l : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n";
    const ShadowReport report = RunKernel(body + kLoad + kStore, {.threads = threads});
    ASSERT_EQ(report.findings.size(), 1u) << threads;
    EXPECT_EQ(report.findings[0].kind, Kind::kWriteWrite);
    EXPECT_EQ(report.findings[0].line, 14);
    // Equal values do no harm.
    const ShadowReport same =
        RunKernel(body + "    %v = arith.constant dense<1.0> : tensor<8xf32>\n" + kStore,
                  {.threads = threads});
    EXPECT_TRUE(same.findings.empty());
  }
}

TEST(Checks, OneInstanceReadsWhatAnotherChanges) {
  for (int threads : {1, 2}) {
    // In place, but one further: the neighbour's first element is changed.
    const std::string shift =
        "    %one = arith.constant dense<1> : tensor<8xi32>\n"
        "    %i1 = arith.addi %i, %one : tensor<8xi32>\n    %c63 = arith.constant dense<63> : "
        "tensor<8xi32>\n    %m = arith.cmpi sle, %i1, %c63 : tensor<8xi32>\n"
        "    %py = tt.addptr %sy, %i1 : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n    gpu.barrier\n";
    const ShadowReport report = RunKernel(
        shift + kLoad + "    gpu.barrier\n    tt.store %py, %v, %m : tensor<8x!tt.ptr<f32>>\n",
        {.in_place = true, .threads = threads});
    ASSERT_FALSE(report.findings.empty()) << threads;
    EXPECT_EQ(report.findings[0].kind, Kind::kReadWrite) << Describe(report.findings[0]);
    // In place at its own element.
    EXPECT_TRUE(RunKernel(std::string(kPy) + kLoad +
                              "    %w = arith.addf %v, %v : tensor<8xf32>\n    tt.store %py, %w : "
                              "tensor<8x!tt.ptr<f32>>\n",
                          {.in_place = true, .threads = threads})
                    .findings.empty());
  }
}

TEST(Checks, LanesMeetWithoutABarrier) {
  const std::string reads = "    %w = tt.load %pj : tensor<8x!tt.ptr<f32>>\n";
  const std::string writes = "    tt.store %px, %w : tensor<8x!tt.ptr<f32>>\n";
  // Scratch is written, then read back reversed.
  const ShadowReport report = RunKernel(std::string(kPy) + kBack + kLoad + kStore + reads + writes);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Kind::kLaneConflict);
  EXPECT_EQ(report.findings[0].line, 19);
  EXPECT_EQ(report.findings[0].other_line, 18);
  EXPECT_EQ(report.findings[0].count, 64);
  EXPECT_TRUE(
      RunKernel(std::string(kPy) + kBack + kLoad + kStore + "    gpu.barrier\n" + reads + writes)
          .findings.empty());
  // Its own place needs none.
  EXPECT_TRUE(RunKernel(std::string(kPy) + kLoad + kStore +
                        "    %w = tt.load %py : tensor<8x!tt.ptr<f32>>\n" + writes)
                  .findings.empty());
  // Read reversed, then written in place: some lane may write before another reads.
  const ShadowReport after = RunKernel(
      std::string(kPy) + kBack + "    %v = tt.load %pj : tensor<8x!tt.ptr<f32>>\n" + kStore,
      {.in_place = true});
  ASSERT_EQ(after.findings.size(), 1u);
  EXPECT_EQ(after.findings[0].kind, Kind::kLaneConflict);
  EXPECT_TRUE(after.findings[0].is_store);
}

TEST(Checks, Assertions) {
  const std::string body =
      "    tt.assert %m, \"too large\" : tensor<8xi1>\n" + std::string(kPy) + kLoad + kStore;
  const ShadowReport report = RunKernel(Mask("%sn") + body, {.n = 60});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Kind::kAssertion);
  EXPECT_EQ(report.findings[0].lane, 4);
  EXPECT_THAT(Describe(report.findings[0]), ::testing::HasSubstr("\"too large\""));
  EXPECT_TRUE(RunKernel(Mask("%sn") + body).findings.empty());
}

TEST(Checks, BranchesThatAreNeverTaken) {
  const std::string body = std::string(kPy) + kLoad + R"(    %c = arith.cmpi sgt, %n, %c8 : i32
    scf.if %c {
      tt.store %py, %v : tensor<8x!tt.ptr<f32>>
    }
)";
  EXPECT_EQ(RunKernel(body, {.n = 5}).never_taken, std::vector<int>{15});
  EXPECT_EQ(RunKernel(body, {.grid = 1, .n = 9}).never_taken, std::vector<int>{15});
}

/// A lock of one word in %y: an instance waits until it holds `wanted`.
std::string Waits(const std::string& wanted, const std::string& given) {
  return "    %lock = tt.bitcast %y : !tt.ptr<f32> -> !tt.ptr<i32>\n    %want = " + wanted +
         "\n    %give = " + given + R"(
    %zero = arith.constant 0 : i32
    %w = scf.while (%k = %zero) : (i32) -> (i32) {
      %o = tt.atomic_rmw or, acquire, gpu, %lock, %zero, %true : (!tt.ptr<i32>, i32, i1) -> i32
      %g = arith.cmpi ne, %o, %want : i32
      scf.condition(%g) %k : i32
    } do {
    ^bb0(%k: i32):
      scf.yield %k : i32
    }
    %old = tt.atomic_rmw exch, release, gpu, %lock, %give, %true : (!tt.ptr<i32>, i32, i1) -> i32
)";
}

TEST(Checks, WaitingInstances) {
  const std::string head = "    %true = arith.constant true\n    %one = arith.constant 1 : i32\n";
  // Each waits for the one after it, the last for nobody.
  const std::string last = "    %c7 = arith.constant 7 : i32\n    %q = arith.subi %c7, %p : i32\n";
  const ShadowReport report =
      RunKernel(head + last + "    %zero0 = arith.constant 0 : i32\n" +
                    Waits("arith.addi %q, %zero0 : i32", "arith.addi %q, %one : i32"),
                {.y_has_data = true});
  EXPECT_TRUE(report.findings.empty()) << Describe(report.findings[0]);
  EXPECT_EQ(report.instances, 8);
  // Nobody gives what the first waits for.
  const ShadowReport stuck = RunKernel(
      head + Waits("arith.addi %p, %one : i32", "arith.addi %p, %one : i32"), {.y_has_data = true});
  ASSERT_EQ(stuck.findings.size(), 1u);
  EXPECT_EQ(stuck.findings[0].kind, Kind::kDeadlock);
  EXPECT_EQ(stuck.findings[0].count, 8);
}

TEST(Checks, AtomicsAddUpFromAllInstances) {
  ShadowMemory memory;
  uint64_t y = 0;
  const ShadowReport report = RunKernel(
      "    %py = tt.addptr %sy, %l : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n" + std::string(kLoad) +
          "    %m = arith.constant dense<true> : tensor<8xi1>\n"
          "    %o = tt.atomic_rmw fadd, acq_rel, gpu, %py, %v, %m : (tensor<8x!tt.ptr<f32>>, "
          "tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>\n",
      {.y_has_data = true}, &memory, &y);
  EXPECT_TRUE(report.findings.empty()) << Describe(report.findings[0]);
  const std::vector<double> sums = ValuesOf(memory, y, "f32");
  EXPECT_EQ(sums[0], 1 + 9 + 17 + 25 + 33 + 41 + 49 + 57);
  EXPECT_EQ(sums[7], sums[0] + 7 * 8);
  EXPECT_EQ(sums[8], 0);
}

TEST(Checks, LoopsThatDoNotEnd) {
  const ShadowProgram program = ProgramOf(Kernel(R"(    %zero = arith.constant 0 : i32
    %w = scf.while (%k = %zero) : (i32) -> (i32) {
      %g = arith.cmpi sge, %n, %zero : i32
      scf.condition(%g) %k : i32
    } do {
    ^bb0(%k: i32):
      scf.yield %k : i32
    }
)"));
  ShadowMemory memory;
  ShadowLaunch launch;
  launch.program = &program;
  launch.arguments = {{StorageOf(memory, "f32", {1})}, {StorageOf(memory, "f32", {1})}, {0, 1}};
  launch.instances = AllInstances(launch.grid);
  launch.most_work = 100000;
  auto report = RunShadow(memory, launch);
  ASSERT_TRUE(report);
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].kind, Kind::kEndless);
}

TEST(Jobs, ThatAreWrongAreRefused) {
  const ShadowProgram program = ProgramOf(Kernel(std::string(kPy) + kLoad + kStore));
  ShadowMemory memory;
  ShadowLaunch launch;
  launch.program = &program;
  launch.arguments = {{1}};
  EXPECT_EQ(RunShadow(memory, launch).error().code, "job_error");
  launch.arguments = {{1}, {2}, {}};
  EXPECT_EQ(RunShadow(memory, launch).error().code, "job_error");
  const uint64_t bytes = StorageOf(memory, "f64", {1, 2, 3, 4, 5, 6, 7, 8});
  memory.At(bytes).SetElementBytes(8);
  launch.arguments = {{bytes}, {bytes}, {}};
  launch.instances = AllInstances(launch.grid);
  EXPECT_EQ(RunShadow(memory, launch).error().code, "not_evaluable");
}

TEST(Instances, SamplesHoldTheEdges) {
  const std::vector<ShadowInstance> some = SampleInstances({1000, 30, 2}, 12, 5);
  EXPECT_EQ(some.size(), 12u);
  for (const ShadowInstance& edge : std::vector<ShadowInstance>{
           {0, 0, 0}, {999, 29, 1}, {999, 0, 0}, {0, 29, 0}, {0, 0, 1}, {0, 29, 1}, {999, 0, 1}})
    EXPECT_THAT(some, ::testing::Contains(edge));
  EXPECT_EQ(some, SampleInstances({1000, 30, 2}, 12, 5));
  EXPECT_NE(some, SampleInstances({1000, 30, 2}, 12, 6));
  EXPECT_EQ(SampleInstances({3, 2, 1}, 12, 5), AllInstances({3, 2, 1}));
}

RC_GTEST_PROP(Properties, ThreadsMakeNoDifference, (uint8_t seed)) {
  std::vector<std::vector<double>> results;
  for (int threads : {1, 4}) {
    ShadowMemory memory;
    uint64_t y = 0;
    RunKernel(std::string(kPy) +
                  fmt::format("    %k = arith.constant dense<{}.5> : tensor<8xf32>\n", seed) +
                  kLoad +
                  "    %w = arith.mulf %v, %k : tensor<8xf32>\n    tt.store %py, %w : "
                  "tensor<8x!tt.ptr<f32>>\n",
              {.threads = threads}, &memory, &y);
    results.push_back(ValuesOf(memory, y, "f32"));
  }
  RC_ASSERT(results[0] == results[1]);
  RC_ASSERT(results[0][9] == 10 * (seed + 0.5));
}

}  // namespace
}  // namespace kernelopt
