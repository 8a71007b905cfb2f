#include "shadow/shadow_judge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "shadow/testing.h"

namespace kernelopt {
namespace {

/// y = x * 2 over `block` elements an instance, with pieces replaced by a test.
std::string Doubles(int block, const std::string& value = "arith.addf %v, %v",
                    const std::string& bound = "%n", const std::string& shift = "0") {
  return fmt::format(R"(module {{
  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {{
    %c = arith.constant {0} : i32
    %p = tt.get_program_id x : i32
    %l = tt.make_range {{end = {0} : i32, start = 0 : i32}} : tensor<{0}xi32>
    %s = arith.muli %p, %c : i32
    %t = tt.splat %s : i32 -> tensor<{0}xi32>
    %i = arith.addi %t, %l : tensor<{0}xi32>
    %sn = tt.splat {2} : i32 -> tensor<{0}xi32>
    %m = arith.cmpi slt, %i, %sn : tensor<{0}xi32>
    %sx = tt.splat %x : !tt.ptr<f32> -> tensor<{0}x!tt.ptr<f32>>
    %sy = tt.splat %y : !tt.ptr<f32> -> tensor<{0}x!tt.ptr<f32>>
    %k = arith.constant dense<{3}> : tensor<{0}xi32>
    %j = arith.addi %i, %k : tensor<{0}xi32>
    %px = tt.addptr %sx, %j : tensor<{0}x!tt.ptr<f32>>, tensor<{0}xi32>
    %py = tt.addptr %sy, %i : tensor<{0}x!tt.ptr<f32>>, tensor<{0}xi32>
    %v = tt.load %px, %m : tensor<{0}x!tt.ptr<f32>>
    %two = arith.constant dense<2.0> : tensor<{0}xf32>
    %w = {1} : tensor<{0}xf32>
    tt.store %py, %w, %m : tensor<{0}x!tt.ptr<f32>>
    tt.return
  }}
}}
)",
                     block, value, bound, shift);
}

class ShadowJudgeTest : public ::testing::Test {
 protected:
  ShadowJudgeTest() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("kopt_shadow_{}", reinterpret_cast<uintptr_t>(this));
    std::filesystem::create_directories(folder_);
  }
  ~ShadowJudgeTest() override { std::filesystem::remove_all(folder_); }

  Program Kernel(const std::string& text, int64_t grid) {
    Program program;
    program.ttir_path = (folder_ / fmt::format("{}.ttir", ++count_)).string();
    EXPECT_TRUE(WriteFileAtomic(program.ttir_path, text));
    program.record.entry = "k";
    for (int i = 0; i < 3; ++i) {
      LaunchParameter parameter;
      parameter.kind = i < 2 ? LaunchParameter::Kind::kPointer : LaunchParameter::Kind::kInt;
      parameter.argument = i;
      program.record.parameters.push_back(parameter);
    }
    program.record.parameters.push_back({LaunchParameter::Kind::kScratch, 8, -1, 0, 1});
    program.grid = {grid, 1, 1};
    return program;
  }

  CheckJob Job(int64_t elements, Program baseline, Program candidate) {
    CheckJob job;
    job.site.name = "graph 0 event 1";
    StorageSpec in, out;
    in.bytes = out.bytes = 4 * elements;
    out.role = StorageRole::kPoison;
    out.written = true;
    job.site.storages = {in, out};
    for (int i = 0; i < 3; ++i) {
      ArgumentSpec& argument = job.site.arguments.emplace_back();
      argument.kind = i < 2 ? ArgumentSpec::Kind::kStorage : ArgumentSpec::Kind::kInt;
      argument.storage = i < 2 ? i : -1;
      argument.int_value = elements;
    }
    job.baseline = std::move(baseline);
    job.candidate = std::move(candidate);
    job.data = {{DataFamily::kNormal, 0, false}, {DataFamily::kSpecial, 3, false}};
    return job;
  }

  CheckResult Check(const CheckJob& job, ShadowJudgeOptions options = {}) {
    ShadowJudge judge(options);
    auto result = judge.Check(job);
    EXPECT_TRUE(result) << (result ? "" : result.error().ToString());
    last_ = judge.last();
    return result ? *result : CheckResult{};
  }

  std::filesystem::path folder_;
  int count_ = 0;
  ShadowJudge::Summary last_;
};

TEST_F(ShadowJudgeTest, AcceptsTheSameInOtherBlocks) {
  const CheckResult result = Check(Job(1000, Kernel(Doubles(64), 16), Kernel(Doubles(256), 4)));
  EXPECT_TRUE(result.ok()) << result.message;
  EXPECT_TRUE(result.bitwise_equal);
  EXPECT_EQ(last_.share, 1);
  EXPECT_EQ(last_.compared, last_.wanted);
}

TEST_F(ShadowJudgeTest, RejectsEachFaultByItsReason) {
  const Program good = Kernel(Doubles(64), 16);
  for (const auto& [program, reason] : std::vector<std::pair<Program, std::string>>{
           {Kernel(Doubles(64, "arith.mulf %v, %v"), 16), "wrong_value"},
           {Kernel(Doubles(64, "arith.addf %v, %two"), 16), "wrong_value"},
           {Kernel(Doubles(64), 15), "not_written"},
           {Kernel(Doubles(64, "arith.addf %v, %v", "%c"), 16), "not_written"},
           {Kernel(Doubles(64, "arith.addf %v, %v", "%n", "1"), 16), "read_outside"},
           {Kernel(Doubles(64), 17), "ok"},  // one more instance, all masked out
       }) {
    EXPECT_EQ(Check(Job(1000, good, program)).reason, reason) << reason;
  }
  const std::string unmasked = [] {
    std::string text = Doubles(64);
    const size_t at = text.find(", %m : tensor<64x!tt.ptr<f32>>\n    tt.return");
    return text.erase(at, 4);
  }();
  const CheckResult outside = Check(Job(1000, good, Kernel(unmasked, 16)));
  EXPECT_EQ(outside.reason, "wrote_outside");
  EXPECT_THAT(outside.message, ::testing::HasSubstr("96 bytes past the end of storage 1"));
}

TEST_F(ShadowJudgeTest, SamplesWhatIsTooLarge) {
  const int64_t elements = int64_t{1} << 30;
  const Program good = Kernel(Doubles(1024), elements / 1024);
  const ShadowJudgeOptions small{.work = 500'000};
  EXPECT_TRUE(Check(Job(elements, good, Kernel(Doubles(256), elements / 256)), small).ok());
  EXPECT_LT(last_.share, 0.01);
  EXPECT_GT(last_.instances, 1);
  EXPECT_EQ(last_.compared, last_.wanted);
  EXPECT_EQ(
      Check(Job(elements, good, Kernel(Doubles(256, "arith.mulf %v, %v"), elements / 256)), small)
          .reason,
      "wrong_value");
  // Grids that don't fit together can't be sampled.
  ShadowJudge judge(small);
  auto refused = judge.Check(Job(elements, good, Kernel(Doubles(256), elements / 256 - 5000)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "out_of_memory");
}

TEST_F(ShadowJudgeTest, ProvesThatASampleLeftElementsOut) {
  const int64_t elements = int64_t{1} << 30, grid = elements / 256;
  const Program good = Kernel(Doubles(1024), elements / 1024);
  const ShadowJudgeOptions small{.work = 500'000};
  // Every program but the first writes nothing.
  const CheckResult result =
      Check(Job(elements, good, Kernel(Doubles(256, "arith.addf %v, %v", "%c"), grid)), small);
  EXPECT_EQ(result.reason, "not_written") << result.message;
  EXPECT_EQ(result.worst_storage, 1);
  EXPECT_GE(result.worst_index, 256);
  EXPECT_LT(last_.share, 0.01);
  // The same elements in another order: programs that did not run write them.
  std::string backwards = Doubles(256);
  const std::string start = "%s = arith.muli %p, %c : i32";
  backwards.replace(backwards.find(start), start.size(),
                    fmt::format("%g = arith.constant {} : i32\n    %r = arith.subi %g, %p : i32\n"
                                "    %s = arith.muli %r, %c : i32",
                                grid - 1));
  ShadowJudgeOptions other = small;
  other.seed = 5;  // the random instances are no mirror image of each other
  const CheckResult mirrored = Check(Job(elements, good, Kernel(backwards, grid)), other);
  EXPECT_TRUE(mirrored.ok()) << mirrored.message;
  EXPECT_LT(last_.compared, last_.wanted);
}

TEST_F(ShadowJudgeTest, RunsTheProgramsThatMayWriteWhatASampleLeftOut) {
  const int64_t elements = int64_t{1} << 28, grid = elements / 256;
  const ShadowJudgeOptions small{.work = 500'000};
  // Rows of 1,000: a program that reaches into two of them may write either, as far as the
  // ranges tell. Elements of a program are left out where the mask says so.
  const auto rows = [&](const std::string& least) {
    std::string text = Doubles(256);
    const std::string pointers = "    %py = tt.addptr %sy, %i :";
    text.replace(text.find(pointers), pointers.size(),
                 fmt::format(R"(    %th = arith.constant dense<1000> : tensor<256xi32>
    %row = arith.divsi %i, %th : tensor<256xi32>
    %col = arith.remsi %i, %th : tensor<256xi32>
    %at = arith.muli %row, %th : tensor<256xi32>
    %ia = arith.addi %at, %col : tensor<256xi32>
    %least = arith.constant dense<{}> : tensor<256xi32>
    %enough = arith.cmpi sge, %i, %least : tensor<256xi32>
    %mm = arith.andi %m, %enough : tensor<256xi1>
    %py = tt.addptr %sy, %ia :)",
                             least));
    const std::string store = "tt.store %py, %w, %m :";
    text.replace(text.find(store), store.size(), "tt.store %py, %w, %mm :");
    return text;
  };
  const Program good = Kernel(Doubles(256), grid);
  EXPECT_TRUE(Check(Job(elements, good, Kernel(rows("0"), grid)), small).ok());
  const CheckResult result = Check(Job(elements, good, Kernel(rows("200"), grid)), small);
  EXPECT_EQ(result.reason, "not_written") << result.message;
  EXPECT_LT(result.worst_index, 200);
  EXPECT_LT(last_.share, 0.01);
}

TEST_F(ShadowJudgeTest, BlamesTheCompilersKernelForItsFaults) {
  ShadowJudge judge;
  auto result = judge.Check(
      Job(1000, Kernel(Doubles(64, "arith.addf %v, %v", "%n", "1"), 16), Kernel(Doubles(64), 16)));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "job_error");
  EXPECT_EQ(result.error().where, "baseline");
  Program textless = Kernel(Doubles(64), 16);
  textless.ttir_path.clear();
  EXPECT_EQ(judge.Check(Job(1000, textless, textless)).error().code, "job_error");
}

TEST_F(ShadowJudgeTest, TimesNothing) {
  ShadowJudge judge;
  EXPECT_EQ(judge.Facts()->name, "shadow device");
  EXPECT_THAT(judge.Time({}).error().message, ::testing::HasSubstr("GPU"));
  EXPECT_FALSE(judge.Speeds());
  EXPECT_TRUE(judge.Release());
}

RC_GTEST_PROP(Plans, CoverTheSamePartOfBothGrids, (uint16_t elements, uint8_t a, uint8_t b)) {
  const int64_t n = elements + 1, block_a = int64_t{1} << a % 8, block_b = int64_t{1} << b % 8;
  const auto plan = PlanInstances({(n + block_a - 1) / block_a, 7, 1},
                                  {(n + block_b - 1) / block_b, 3, 1}, 1000, 3);
  RC_ASSERT(!plan);
  const auto same =
      PlanInstances({(n + block_a - 1) / block_a, 2, 1}, {(n + block_b - 1) / block_b, 2, 1}, 6, 3);
  RC_ASSERT(same.has_value());
  const auto covered = [n](const std::vector<ShadowInstance>& instances, int64_t block) {
    std::set<std::pair<int64_t, int64_t>> elements_of;
    for (const ShadowInstance& at : instances)
      for (int64_t i = at[0] * block; i < std::min(n, (at[0] + 1) * block); ++i)
        elements_of.insert({at[1], i});
    return elements_of;
  };
  RC_ASSERT(covered(same->baseline, block_a) == covered(same->candidate, block_b));
}

}  // namespace
}  // namespace kernelopt
