// judge_trials: how far the judge's clock and its screening can be trusted. Needs a GPU and
// a Python with torch and triton, found as by `kernelopt`. Prints a table a mode; with
// --out the raw samples, a JSON line a run.
//
//   judge_trials aa [--runs 300]           the compiler's kernel as its own candidate, timed as
//                                          a finalist of a search: how often is it "faster"?
//   judge_trials sensitivity [--runs 100]  the same kernel with 1, 2 and 5 % of its programs
//                                          left out: how often is it faster?
//   judge_trials screening [--runs 5000]   the compiler's kernel screened again and again:
//                                          candidates a second, and the judge's memory
//   ... [--out FILE] [CAPTURE...]          folders of captures; by default those of tests/gates
//                                          and examples/recordings
//
// "Faster": the one-sided 99 % bound of the mean log ratio of a run's rounds is above 0.
// Exit code 0 when the limits below hold, 1 when not, 3 where there is no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "corpus.h"
#include "gates/student_t.h"
#include "judge/client.h"
#include "judge/server.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

/// Rounds of a finalist (SearchOptions::final_rounds).
constexpr int kRounds = 60;
constexpr double kConfidence = 0.99;

/// Of 300 runs with equal kernels at most 6 may be "faster".
constexpr double kMostFalse = 6.0 / 300;
/// Share of programs left out, and how often that must be seen.
constexpr std::pair<double, double> kSensitivity[] = {{0.01, 0.50}, {0.02, 0.90}, {0.05, 0.99}};
/// Grids of which 1 % is some dozen programs; smaller ones have no such share.
constexpr int64_t kLeastGrid = 4000;
/// Storages of a screening whose speed has a limit, and the limit a second.
constexpr int64_t kScreenedBytes = 16 << 20;
constexpr double kLeastScreened = 10;
/// Growth of the judge's memory that counts as none, over all runs.
constexpr int64_t kMostGrowthKiB = 16 * 1024;

struct Subject {
  const ExtractedKernel* kernel = nullptr;
  CompileOutput compiled;
  Program program;

  const BuiltSite& site() const { return kernel->subject.sites.front(); }
  int64_t Bytes() const {
    int64_t bytes = 0;
    for (const StorageSpec& storage : site().site.storages) bytes += storage.bytes;
    return bytes;
  }
};

struct Subjects {
  std::vector<std::unique_ptr<Extraction>> extractions;
  std::vector<Subject> list;  ///< least time first
};

Result<Subjects> Read(const std::vector<std::string>& captures, Compiler& compiler) {
  Subjects subjects;
  for (const std::string& capture : captures) {
    auto& extraction = subjects.extractions.emplace_back(
        std::make_unique<Extraction>(KOPT_TRY(Extract(capture, compiler, [](size_t, size_t) {}))));
    for (const ExtractedKernel& kernel : extraction->kernels) {
      if (!kernel.refused.empty() || kernel.subject.sites.empty()) continue;
      Subject& subject = subjects.list.emplace_back();
      subject.kernel = &kernel;
      subject.compiled = KOPT_TRY(
          CompileBaseline(compiler, kernel.subject, extraction->capture.compute_capability));
      subject.program = KOPT_TRY(ProgramAt(*kernel.work.kernel, subject.site().compiler_config,
                                           subject.compiled, subject.site()));
    }
  }
  std::ranges::stable_sort(subjects.list, {},
                           [](const Subject& subject) { return subject.site().device_us; });
  return subjects;
}

/// The rounds' log ratios, baseline over candidate.
struct Gain {
  double mean = 0, lower = 0;
  std::vector<double> logs;
};

Result<Gain> Compare(Judge& judge, const Subject& subject, const Program& candidate) {
  TimeJob job;
  job.site = subject.site().site;
  job.touched = subject.site().touched;
  job.rounds = kRounds;
  job.programs = {subject.program, candidate};
  job.time_limit_ms = 60000;
  const TimeResult result = KOPT_TRY(judge.Time(job));
  Gain gain;
  if (result.samples.size() != 2 || result.samples[0].size() != result.samples[1].size()) {
    return Fail(ErrorKind::kInternal, "died", "a side gave no times", job.site.name);
  }
  for (size_t i = 0; i < result.samples[0].size(); ++i) {
    gain.logs.push_back(std::log(result.samples[0][i] / result.samples[1][i]));
  }
  const auto n = static_cast<double>(gain.logs.size());
  gain.mean = std::accumulate(gain.logs.begin(), gain.logs.end(), 0.0) / n;
  double squares = 0;
  for (double log : gain.logs) squares += (log - gain.mean) * (log - gain.mean);
  gain.lower = gain.mean - StudentTQuantile(kConfidence, n - 1) * std::sqrt(squares / (n - 1) / n);
  return gain;
}

class Trials {
 public:
  Trials(Judge& judge, std::vector<Subject> subjects, int runs, const std::string& out)
      : judge_(judge), subjects_(std::move(subjects)), runs_(runs) {
    if (!out.empty()) out_.open(out);
  }

  Result<bool> Equal() {
    int faster = 0;
    std::vector<int> of_kernel(subjects_.size(), 0);
    for (int run = 0; run < runs_; ++run) {
      const size_t s = static_cast<size_t>(run) % subjects_.size();
      const Gain gain = KOPT_TRY(Compare(judge_, subjects_[s], subjects_[s].program));
      Keep("aa", subjects_[s], 0, gain);
      faster += gain.lower > 0;
      of_kernel[s] += gain.lower > 0;
    }
    for (size_t s = 0; s < subjects_.size(); ++s) {
      fmt::print("{:>10.2f} us  {:>3} faster  {}\n", subjects_[s].site().device_us, of_kernel[s],
                 subjects_[s].kernel->work.name);
    }
    const bool holds = faster <= std::ceil(kMostFalse * runs_);
    fmt::print("{} of {} runs of equal kernels called faster, at most {} wanted: {}\n", faster,
               runs_, std::ceil(kMostFalse * runs_), holds ? "ok" : "FAILED");
    return holds;
  }

  Result<bool> Sensitivity() {
    std::vector<const Subject*> large;
    for (const Subject& subject : subjects_) {
      if (subject.program.grid[0] >= kLeastGrid) large.push_back(&subject);
    }
    if (large.empty()) {
      return Fail(ErrorKind::kUsage, "no_kernel", "no kernel has a grid of 4,000 programs");
    }
    bool all = true;
    for (const auto& [share, wanted] : kSensitivity) {
      int faster = 0;
      double mean = 0;
      for (int run = 0; run < runs_; ++run) {
        const Subject& subject = *large[static_cast<size_t>(run) % large.size()];
        Program shorter = subject.program;
        shorter.grid[0] -= std::llround(share * static_cast<double>(shorter.grid[0]));
        const Gain gain = KOPT_TRY(Compare(judge_, subject, shorter));
        Keep("sensitivity", subject, share, gain);
        faster += gain.lower > 0;
        mean += gain.mean / runs_;
      }
      const bool holds = faster >= wanted * runs_;
      all = all && holds;
      fmt::print(
          "{:.0f} % left out: {} of {} seen, mean gain {:.2f} %, at least {:.0f} wanted: {}\n",
          100 * share, faster, runs_, 100 * std::expm1(mean), wanted * runs_,
          holds ? "ok" : "FAILED");
    }
    return all;
  }

  /// Of the kernel whose storages are nearest to 16 MiB.
  Result<bool> Screening(Compiler& compiler) {
    const Subject& subject = *std::ranges::min_element(subjects_, {}, [](const Subject& s) {
      return std::abs(std::log(static_cast<double>(s.Bytes()) / kScreenedBytes));
    });
    const KernelPair pair{.kernel = subject.kernel->work.kernel,
                          .baseline_config = subject.site().compiler_config,
                          .candidate_config = subject.site().compiler_config,
                          .baseline = &subject.compiled,
                          .candidate = &subject.compiled};
    const LaunchConfig config = subject.site().compiler_config;
    TwinMaker twins(*pair.kernel, config, subject.compiled, 90, compiler);
    int64_t begin_kib = 0;
    SteadyClock::time_point begin;
    const int warm = std::max(1, runs_ / 10);
    for (int run = 0; run < warm + runs_; ++run) {
      if (run == warm) {
        begin = SteadyClock::now();
        begin_kib = ChildrenKiB();
      }
      const Verdict verdict = ScreenKernel(judge_, pair, twins, subject.kernel->subject.sites, {});
      if (!verdict.accepted) return Fail(ErrorKind::kInternal, verdict.reason, verdict.message);
    }
    const std::chrono::duration<double> seconds = SteadyClock::now() - begin;
    const double rate = runs_ / seconds.count();
    const int64_t grown = ChildrenKiB() - begin_kib;
    const bool holds = rate >= kLeastScreened && grown <= kMostGrowthKiB;
    fmt::print(
        "{}, {:.1f} MiB of storages: {:.1f} screened a second, at least {:.0f} wanted; the "
        "judge grew by {} KiB over {}: {}\n",
        subject.kernel->work.name, static_cast<double>(subject.Bytes()) / (1 << 20), rate,
        kLeastScreened, grown, runs_, holds ? "ok" : "FAILED");
    return holds;
  }

 private:
  void Keep(const char* mode, const Subject& subject, double share, const Gain& gain) {
    if (!out_) return;
    out_ << Json{{"mode", mode},
                 {"kernel", subject.kernel->work.name},
                 {"device_us", subject.site().device_us},
                 {"left_out", share},
                 {"lower", gain.lower},
                 {"logs", gain.logs}}
         << "\n";
  }

  /// Resident memory of this process's children: the judge's.
  static int64_t ChildrenKiB() {
    int64_t kib = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream status(entry.path() / "status");
      std::string key;
      int64_t parent = 0, resident = 0;
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("PPid:")) parent = std::atoll(line.c_str() + 5);
        if (line.starts_with("VmRSS:")) resident = std::atoll(line.c_str() + 6);
      }
      if (parent == getpid()) kib += resident;
    }
    return kib;
  }

  Judge& judge_;
  std::vector<Subject> subjects_;
  int runs_;
  std::ofstream out_;
};

Result<bool> Perform(const std::string& mode, int runs, const std::string& out,
                     const std::vector<std::string>& captures) {
  auto compiler = KOPT_TRY(MakeCompiler());
  Subjects subjects = KOPT_TRY(Read(captures, *compiler));
  if (subjects.list.empty()) return Fail(ErrorKind::kUsage, "no_kernel", "no kernel to try");
  JudgeClient judge(JudgeClientOptions{});
  Trials trials(judge, subjects.list, runs, out);
  if (mode == "aa") return trials.Equal();
  if (mode == "sensitivity") return trials.Sensitivity();
  return trials.Screening(*compiler);
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  using namespace kernelopt;
  if (argc > 1 && std::string_view(argv[1]) == "judge") return JudgeMain(argc - 2, argv + 2);
  CLI::App app("How far the judge's clock and its screening can be trusted.");
  std::string mode, out;
  int runs = 0;
  std::vector<std::string> captures;
  app.add_option("MODE", mode)
      ->required()
      ->check(CLI::IsMember({"aa", "sensitivity", "screening"}));
  app.add_option("--runs", runs)->check(CLI::PositiveNumber);
  app.add_option("--out", out);
  app.add_option("CAPTURE", captures);
  CLI11_PARSE(app, argc, argv);
  if (runs == 0) runs = mode == "aa" ? 300 : mode == "sensitivity" ? 100 : 5000;
  if (captures.empty()) {
    captures.push_back("tests/gates/capture");
    for (const auto& entry : std::filesystem::directory_iterator("examples/recordings"))
      captures.push_back(entry.path().string());
    std::ranges::sort(captures);
  }
  auto holds = Perform(mode, runs, out, captures);
  if (!holds) {
    fmt::print(stderr, "{}\n", holds.error().ToString());
    return static_cast<int>(holds.error().kind);
  }
  return *holds ? 0 : 1;
}
