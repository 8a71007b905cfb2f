#include "device/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "device/host_runtime.h"

namespace kernelopt {
namespace {

// out[i] = exp(x[i]) over n = 1000 elements of 1024, and flags[i] = x[i] > 0.
constexpr int kWritten = 1000;
constexpr int kSize = 1024;

void Apply(const HostLaunch& launch, int count, double factor = 1) {
  const float* x = launch.Pointer<float>(0);
  for (int i = 0; i < count; ++i) {
    launch.Pointer<float>(1)[i] = static_cast<float>(std::exp(double{x[i]}) * factor);
    launch.Pointer<int8_t>(2)[i] = x[i] > 0;
  }
}

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() {
    runtime_.Register("baseline", [](const HostLaunch& launch) {
      Apply(launch, kWritten);
      return true;
    });
    StorageSpec x;
    x.bytes = 4 * kSize;
    StorageSpec out = x;
    out.role = StorageRole::kPoison;
    out.written = true;
    StorageSpec flags = out;
    flags.bytes = kSize;
    flags.dtype = DType::kBool;
    job_.site = {"test", {x, out, flags}, {}};
    for (int i = 0; i < 3; ++i) {
      ArgumentSpec argument;
      argument.kind = ArgumentSpec::Kind::kStorage;
      argument.storage = i;
      job_.site.arguments.push_back(argument);
    }
    job_.baseline.record.entry = "baseline";
    job_.candidate.record.entry = "candidate";
    job_.data = {{DataFamily::kNormal, 0, false}, {DataFamily::kUniform, 42, false}};
  }
  CheckResult Check(HostRuntime::Kernel candidate) {
    runtime_.Register("candidate", std::move(candidate));
    auto result = RunCheck(runtime_, job_);
    EXPECT_EQ(runtime_.allocated_bytes(), 0);
    if (!result) {
      ADD_FAILURE() << result.error().ToString();
      return {};
    }
    return *result;
  }

  HostRuntime runtime_;
  CheckJob job_;
};

TEST_F(RunnerTest, SameKernelIsBitwiseEqual) {
  const CheckResult result = Check([](const HostLaunch& launch) {
    Apply(launch, kWritten);
    return true;
  });
  EXPECT_EQ(result.reason, "ok") << result.message;
  EXPECT_TRUE(result.bitwise_equal);
  ASSERT_EQ(result.sets.size(), 2u);
  EXPECT_EQ(result.sets[0].elements, kWritten);
  EXPECT_EQ(result.sets[1].data.family, DataFamily::kUniform);
}

TEST_F(RunnerTest, RoundingWithinTheRulePasses) {
  job_.rule.max_rms = 1.5;
  const auto rounded = [](const HostLaunch& launch) {
    Apply(launch, kWritten, 1 + 1e-7);
    return true;
  };
  const CheckResult result = Check(rounded);
  EXPECT_EQ(result.reason, "ok") << result.message;
  EXPECT_FALSE(result.bitwise_equal);
  EXPECT_GT(result.sets[0].max_z, 0);
  EXPECT_GE(result.worst_index, 0);
  EXPECT_GT(result.worst_scale, 0);
  job_.rule.bitwise = true;
  EXPECT_EQ(Check(rounded).reason, "wrong_value");
}

struct Fault {
  const char* reason;
  HostRuntime::Kernel kernel;
};

TEST_F(RunnerTest, EveryFaultHasItsReason) {
  int runs = 0;
  const auto then = [](auto change) {
    return [change](const HostLaunch& launch) {
      Apply(launch, kWritten);
      change(launch);
      return true;
    };
  };
  const std::vector<Fault> faults = {
      {"wrong_value", then([](const HostLaunch& l) { l.Pointer<float>(1)[17] *= 1.0001F; })},
      {"wrong_value",
       [](const HostLaunch& l) {
         Apply(l, kWritten, 1 + 6e-7);  // each within 8 scales, all on one side
         return true;
       }},
      {"wrong_integer", then([](const HostLaunch& l) { l.Pointer<int8_t>(2)[5] ^= 1; })},
      {"wrong_nonfinite", then([](const HostLaunch& l) { l.Pointer<float>(1)[9] = NAN; })},
      {"wrote_outside", then([](const HostLaunch& l) { l.Pointer<float>(1)[kSize] = 0; })},
      {"wrote_outside", then([](const HostLaunch& l) { l.Pointer<float>(1)[-1] = 0; })},
      {"wrote_outside", then([](const HostLaunch& l) { l.Pointer<float>(1)[kWritten] = 0; })},
      {"changed_input", then([](const HostLaunch& l) { l.Pointer<float>(0)[kSize - 1] += 1; })},
      {"not_written",
       [](const HostLaunch& l) {
         Apply(l, kWritten - 1);
         return true;
       }},
      {"not_written", [](const HostLaunch&) { return true; }},
      {"not_deterministic", then([&runs](const HostLaunch& l) {
         if (runs++ % 2 != 0) {
           l.Pointer<float>(1)[3] = std::nextafter(l.Pointer<float>(1)[3], 1e30F);
         }
       })},
  };
  for (const Fault& fault : faults) {
    const CheckResult result = Check(fault.kernel);
    EXPECT_EQ(result.reason, fault.reason) << result.message;
    EXPECT_NE(result.message.find("seed"), std::string::npos) << result.message;
  }
}

TEST_F(RunnerTest, ACandidateThatReadsWhatItNeverWroteDiffersBetweenPoisons) {
  const CheckResult result = Check([](const HostLaunch& launch) {
    const float old = launch.Pointer<float>(1)[0];
    Apply(launch, kWritten);
    if (old < 0) launch.Pointer<float>(1)[0] = 2;
    return true;
  });
  EXPECT_EQ(result.reason, "wrong_value") << result.message;
}

TEST_F(RunnerTest, InPlaceStoragesAreRestoredBeforeEachRun) {
  job_.site.storages.resize(1);
  job_.site.storages[0].written = true;
  job_.site.arguments.resize(2);
  job_.site.arguments[1] = job_.site.arguments[0];  // one storage in two slots
  const auto scale = [](float factor) {
    return [factor](const HostLaunch& launch) {
      for (int i = 0; i < kSize; ++i) {
        launch.Pointer<float>(1)[i] = launch.Pointer<float>(0)[i] * factor;
      }
      return true;
    };
  };
  runtime_.Register("baseline", scale(3));
  EXPECT_EQ(Check(scale(3)).reason, "ok");
  EXPECT_EQ(Check(scale(3.001F)).reason, "wrong_value");
}

// On data that cancels a scale from few perturbed runs is far too small for some
// of the rows; among special values an overflow may depend on the order.
TEST_F(RunnerTest, SumsInAnotherOrderPass) {
  constexpr int kRows = 1500;
  constexpr int kColumns = 24;
  job_.site.storages.resize(2);
  job_.site.arguments.resize(2);
  job_.site.storages[0].bytes = 4 * kRows * kColumns;
  job_.site.storages[1].bytes = 4 * kRows;
  job_.data = {{DataFamily::kCancelling, 1337, false}, {DataFamily::kSpecial, 0, false}};
  const auto sum = [](int first, int step, int dropped) {
    return [=](const HostLaunch& launch) {
      for (int row = 0; row < kRows; ++row) {
        float total = 0;
        for (int k = 0; k < kColumns; ++k) {
          const int column = (first + k * step) % kColumns;
          if (column != dropped) total += launch.Pointer<float>(0)[row * kColumns + column];
        }
        launch.Pointer<float>(1)[row] = total;
      }
      return true;
    };
  };
  runtime_.Register("baseline", sum(0, 1, -1));
  const CheckResult result = Check(sum(5, 7, -1));
  EXPECT_EQ(result.reason, "ok") << result.message;
  EXPECT_EQ(result.sets.size(), 2u);
  EXPECT_EQ(Check(sum(5, 7, 3)).reason, "wrong_value");
}

// Where an ulp makes the compiler's kernel jump by some scales, so may ours, whatever
// the jump's height; an error of many scales stays one.
TEST_F(RunnerTest, TheCompilersOwnJumpsWidenTheLimit) {
  constexpr int kElements = 4096;
  constexpr float kUlp = 0x1p-23F;  // of the results, which are in [1, 2)
  job_.site.storages.resize(2);
  job_.site.arguments.resize(2);
  for (StorageSpec& storage : job_.site.storages) storage.bytes = 4 * kElements;
  job_.data = {{DataFamily::kUniform, 0, false}};
  const auto kernel = [](float jump, float off) {
    return [=](const HostLaunch& launch) {
      bool is_first = true;
      for (int i = 0; i < kElements; ++i) {
        const float x = launch.Pointer<float>(0)[i];
        const uint32_t low = std::bit_cast<uint32_t>(x) % 64;
        launch.Pointer<float>(1)[i] = 1 + x / 2 + (low == 1 ? jump : 0);
        if (low != 9 || !is_first) continue;  // 9: no perturbation makes it jump
        launch.Pointer<float>(1)[i] += off;
        is_first = false;
      }
      return true;
    };
  };
  runtime_.Register("baseline", kernel(0, 0));
  EXPECT_EQ(Check(kernel(0, 12 * kUlp)).reason, "wrong_value");
  runtime_.Register("baseline", kernel(30 * kUlp, 0));
  EXPECT_EQ(Check(kernel(30 * kUlp, 12 * kUlp)).reason, "ok");
  runtime_.Register("baseline", kernel(1, 0));
  EXPECT_EQ(Check(kernel(1, 12 * kUlp)).reason, "ok");
  EXPECT_EQ(Check(kernel(1, 40 * kUlp)).reason, "wrong_value");
}

/// Rows of 24 values that cancel, summed in some order, in float or (the twin) double.
class TwinTest : public RunnerTest {
 protected:
  static constexpr int kRows = 1500, kColumns = 24;

  TwinTest() {
    job_.site.storages.resize(2);
    job_.site.arguments.resize(2);
    job_.site.storages[0].bytes = 4 * kRows * kColumns;
    job_.site.storages[1].bytes = 4 * kRows;
    job_.data = {{DataFamily::kCancelling, 1337, false},
                 {DataFamily::kCancelling, 42, false},
                 {DataFamily::kNormal, 0, false}};
    job_.twin = Program();
    job_.twin->record.entry = "twin";
    runtime_.Register("baseline", Sum<float>(0, 1));
    runtime_.Register("twin", Sum<double>(0, 1));
  }

  template <typename T>
  static HostRuntime::Kernel Sum(int first, int step,
                                 std::function<T(int row, T sum)> change = {}) {
    return [=](const HostLaunch& launch) {
      for (int row = 0; row < kRows; ++row) {
        T total = 0;
        for (int k = 0; k < kColumns; ++k) {
          total += launch.Pointer<float>(0)[row * kColumns + (first + k * step) % kColumns];
        }
        launch.Pointer<T>(1)[row] = change ? change(row, total) : total;
      }
      return true;
    };
  }
};

TEST_F(TwinTest, OtherOrdersAndMoreExactOnesPass) {
  const CheckResult other = Check(Sum<float>(5, 7));
  EXPECT_EQ(other.reason, "ok") << other.message;
  ASSERT_EQ(other.sets.size(), 3u);
  EXPECT_GT(other.sets[0].own_rms_z, 0);
  EXPECT_GT(other.sets[0].own_max_z, other.sets[0].own_rms_z);
  const CheckResult exact = Check([](const HostLaunch& launch) {
    for (int row = 0; row < kRows; ++row) {
      double total = 0;
      for (int k = 0; k < kColumns; ++k) total += launch.Pointer<float>(0)[row * kColumns + k];
      launch.Pointer<float>(1)[row] = static_cast<float>(total);
    }
    return true;
  });
  EXPECT_EQ(exact.reason, "ok") << exact.message;
  EXPECT_LT(exact.sets[0].rms_z, exact.sets[0].own_rms_z);
}

TEST_F(TwinTest, FaultsOfOneRowAndOfAllAreFound) {
  EXPECT_EQ(
      Check(Sum<float>(0, 1, [](int row, float sum) { return row == 700 ? sum + 1 : sum; })).reason,
      "wrong_value");
  EXPECT_EQ(Check(Sum<float>(0, 1, [](int, float sum) { return sum * (1 + 1e-5F); })).reason,
            "wrong_value");
}

// The last data set needs no twin, and the rule is the twin's all the same: one element in
// 1,500 that is 40 scales off changes no mean.
TEST_F(TwinTest, ALastDataSetOfEqualBitsHidesNothing) {
  runtime_.Register("baseline", Sum<float>(0, 1));
  job_.data = {{DataFamily::kNormal, 0, false}, {DataFamily::kTies, 1, false}};
  const auto off_by = [this](float scales) {
    return Check(Sum<float>(0, 1, [=](int row, float sum) {
      const bool is_ties = sum == std::round(sum * 4) / 4;
      return row == 700 && !is_ties ? sum + scales * 0x1p-22F : sum;
    }));
  };
  const CheckResult wrong = off_by(80);
  EXPECT_EQ(wrong.reason, "wrong_value") << wrong.message;
  EXPECT_EQ(off_by(0.5).reason, "ok");
}

TEST_F(TwinTest, WhereTheCompilersKernelIsFarFromTheTwinOneOfBothIsRight) {
  // The compiler's kernel takes the other branch in one row.
  runtime_.Register("baseline",
                    Sum<float>(0, 1, [](int row, float sum) { return row == 7 ? 100 : sum; }));
  const auto row_seven = [this](float value) {
    return Check(Sum<float>(5, 7, [=](int row, float sum) { return row == 7 ? value : sum; }));
  };
  const CheckResult as_compiler = row_seven(100);
  EXPECT_EQ(as_compiler.reason, "ok") << as_compiler.message;
  EXPECT_EQ(as_compiler.sets[0].aside, 1);
  EXPECT_EQ(Check(Sum<float>(5, 7)).reason, "ok");  // as the twin
  EXPECT_EQ(row_seven(50).reason, "wrong_value");
}

TEST_F(TwinTest, BitsThatAreKnownToBeRightNeedNoTwin) {
  int twin_runs = 0;
  runtime_.Register("twin", [&](const HostLaunch& launch) {
    ++twin_runs;
    return Sum<double>(0, 1)(launch);
  });
  const CheckResult first = Check(Sum<float>(5, 7));
  ASSERT_EQ(first.reason, "ok") << first.message;
  EXPECT_GT(twin_runs, 0);
  for (const DataSetResult& set : first.sets) {
    EXPECT_EQ(set.checksums.size(), 2u);  // two poisons
    job_.known.push_back(set.checksums);
  }
  twin_runs = 0;
  const CheckResult again = Check(Sum<float>(5, 7));
  EXPECT_EQ(again.reason, "ok") << again.message;
  EXPECT_FALSE(again.bitwise_equal);
  EXPECT_EQ(twin_runs, 0);
  // Other bits are held to the rule, whatever is known.
  EXPECT_EQ(Check(Sum<float>(3, 11)).reason, "ok");
  EXPECT_GT(twin_runs, 0);
  EXPECT_EQ(
      Check(Sum<float>(5, 7, [](int row, float sum) { return row == 700 ? sum + 1 : sum; })).reason,
      "wrong_value");
}

// Every second value makes the result jump: one element in 16 doesn't show it in four
// perturbed runs, and there a difference within the jump looks large.
TEST_F(TwinTest, LooksCloserBeforeAValueIsCalledWrong) {
  constexpr int kElements = 4096;
  constexpr double kUlp = 0x1p-23;  // of the results, which are in [1, 2)
  for (StorageSpec& storage : job_.site.storages) storage.bytes = 4 * kElements;
  job_.data = {{DataFamily::kUniform, 0, false}};
  int twin_runs = 0;
  const auto kernel = [&]<typename T>(T, double off, int* runs = nullptr) {
    return [=](const HostLaunch& launch) {
      if (runs != nullptr) ++*runs;
      for (int i = 0; i < kElements; ++i) {
        const float x = launch.Pointer<float>(0)[i];
        const double jump = std::bit_cast<uint32_t>(x) % 2 == 1 ? 480 * kUlp : 0;
        launch.Pointer<T>(1)[i] = static_cast<T>(1 + x / 3.0 + jump + (i < 300 ? off : 0));
      }
      return true;
    };
  };
  runtime_.Register("baseline", kernel(float{}, 0));
  runtime_.Register("twin", kernel(double{}, 0, &twin_runs));
  const CheckResult within = Check(kernel(float{}, 16 * kUlp));
  EXPECT_EQ(within.reason, "ok") << within.message;
  EXPECT_EQ(twin_runs, 1 + 4 + 1 + 20);
  EXPECT_EQ(Check(kernel(float{}, 400 * kUlp)).reason, "wrong_value");
}

// The second program finds what the first marked, or writes over it.
TEST_F(RunnerTest, ElementsThatAnotherProgramTouchesAreARace) {
  job_.site.storages.resize(2);
  job_.site.arguments.resize(2);
  for (StorageSpec& storage : job_.site.storages) storage.bytes = 4 * 100;
  job_.site.storages[1].role = StorageRole::kData;
  job_.owners.resize(2);
  job_.owners[0].record.entry = "mark";
  job_.owners[1].record.entry = "check";
  const auto update = [](const HostLaunch& launch) {
    for (int i = 0; i < 100; ++i) launch.Pointer<float>(1)[i] += 1;
    return true;
  };
  runtime_.Register("baseline", update);
  bool began_with_zeros = false, found_marks = false;
  runtime_.Register("mark", [&](const HostLaunch& launch) {
    auto* owner = launch.Pointer<int32_t>(1);
    began_with_zeros = std::all_of(owner, owner + 100, [](int32_t mark) { return mark == 0; });
    for (int i = 0; i < 100; ++i) owner[i] = 1 + i / 10;
    return true;
  });
  int conflict = -1;
  runtime_.Register("check", [&](const HostLaunch& launch) {
    auto* owner = launch.Pointer<int32_t>(1);
    found_marks = owner[99] == 10;
    if (conflict >= 0) owner[conflict] = -1;
    return true;
  });
  EXPECT_EQ(Check(update).reason, "ok");
  EXPECT_TRUE(began_with_zeros && found_marks);
  conflict = 77;
  const CheckResult race = Check(update);
  EXPECT_EQ(race.reason, "race");
  EXPECT_EQ(race.worst_storage, 1);
}

TEST_F(TwinTest, IsLeftOutWhereItDoesNotFit) {
  std::vector<std::string> ends;
  for (int64_t kib = 128; kib <= 2048; kib += 32) {
    HostRuntime runtime(kib << 10);
    runtime.Register("baseline", Sum<float>(0, 1));
    runtime.Register("candidate", Sum<float>(5, 7));
    runtime.Register("twin", Sum<double>(0, 1));
    const auto result = RunCheck(runtime, job_);
    EXPECT_EQ(runtime.allocated_bytes(), 0);
    const std::string end = !result            ? result.error().code
                            : !result->ok()    ? result->reason
                            : result->has_twin ? "with"
                                               : "without";
    if (ends.empty() || ends.back() != end) ends.push_back(end);
  }
  EXPECT_THAT(ends, testing::ElementsAre("out_of_memory", "without", "with"));
}

TEST_F(TwinTest, StoragesThatAreReadAndWrittenAreWidenedAtTheirOffsets) {
  // out[4:] = 3 * out[4:] + x, in place.
  job_.site.storages[0].bytes = 4 * 1000;
  job_.site.storages[1].bytes = 4 * 1004;
  job_.site.storages[1].role = StorageRole::kData;
  job_.site.arguments[1].byte_offset = 16;
  const auto update = [](auto zero, bool added_first = false) {
    using T = decltype(zero);
    return [=](const HostLaunch& launch) {
      for (int i = 0; i < 1000; ++i) {
        T* out = launch.Pointer<T>(1);
        const T x = static_cast<T>(launch.Pointer<float>(0)[i]);
        out[i] = added_first ? out[i] + (out[i] + (out[i] + x)) : 3 * out[i] + x;
      }
      return true;
    };
  };
  runtime_.Register("baseline", update(float()));
  runtime_.Register("twin", update(double()));
  const CheckResult same = Check(update(float(), true));
  EXPECT_EQ(same.reason, "ok") << same.message;
  EXPECT_GT(same.sets[0].own_max_z, 0);
  EXPECT_LT(same.sets[0].own_max_z, 2);
  EXPECT_EQ(same.sets[0].aside, 0);
}

TEST_F(RunnerTest, NothingCountsWhereTheReferenceIsNotFinite) {
  runtime_.Register("baseline", [](const HostLaunch& launch) {
    Apply(launch, kWritten, INFINITY);
    return true;
  });
  const auto infinite = [](const HostLaunch& launch) {
    Apply(launch, kWritten, INFINITY);
    return true;
  };
  EXPECT_EQ(Check(infinite).reason, "nothing_counted");
  EXPECT_EQ(Check([](const HostLaunch& launch) {
              Apply(launch, kWritten, -INFINITY);
              return true;
            }).reason,
            "wrong_nonfinite");
}

TEST_F(RunnerTest, GuardPagesRunBothPlacementsAndReportSetsOnce) {
  job_.guard_pages = true;
  const CheckResult result = Check([](const HostLaunch& launch) {
    Apply(launch, kWritten);
    return true;
  });
  EXPECT_EQ(result.reason, "ok") << result.message;
  EXPECT_EQ(result.sets.size(), 2u);
}

TEST_F(RunnerTest, RecordedContentsAreUsed) {
  const std::string path = testing::TempDir() + "/contents";
  std::ofstream(path, std::ios::binary) << std::string(kSize * 4, '\1');
  StorageSpec& x = job_.site.storages[0];
  x.dtype = DType::kInt32;
  x.contents_path = path;
  bool seen = false;
  const auto kernel = [&seen](const HostLaunch& launch) {
    seen = launch.Pointer<int32_t>(0)[kSize - 1] == 0x01010101;
    for (int i = 0; i < kSize; ++i) launch.Pointer<float>(1)[i] = 1;
    return true;
  };
  runtime_.Register("baseline", kernel);
  EXPECT_EQ(Check(kernel).reason, "ok");
  EXPECT_TRUE(seen);
  x.contents_path = path + "_missing";
  EXPECT_EQ(RunCheck(runtime_, job_).error().code, "job_error");
}

TEST_F(RunnerTest, ErrorsAreNotVerdicts) {
  runtime_.Register("candidate", [](const HostLaunch&) { return true; });
  CheckJob job = job_;
  job.candidate.record.entry = "nobody";
  EXPECT_EQ(RunCheck(runtime_, job).error().code, "job_error");
  EXPECT_EQ(RunCheck(runtime_, job).error().where, "candidate");
  job = job_;
  job.data.clear();
  EXPECT_EQ(RunCheck(runtime_, job).error().code, "job_error");
  job = job_;
  job.site.arguments[0].storage = 7;
  EXPECT_EQ(RunCheck(runtime_, job).error().code, "job_error");
  job = job_;
  job.site.storages[1].bytes = int64_t{1} << 40;
  EXPECT_EQ(RunCheck(runtime_, job).error().code, "out_of_memory");
  job = job_;
  job.site.storages[1].written = false;  // but the baseline writes it
  EXPECT_EQ(RunCheck(runtime_, job).error().code, "job_error");
  EXPECT_EQ(runtime_.allocated_bytes(), 0);
  runtime_.Register("candidate", [](const HostLaunch&) { return false; });
  auto sick = RunCheck(runtime_, job_);
  ASSERT_FALSE(sick);
  EXPECT_EQ(sick.error().code, "sick_device");
  EXPECT_EQ(sick.error().where, "candidate");
}

}  // namespace
}  // namespace kernelopt
