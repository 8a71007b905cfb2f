// gate_corpus_gpu_test: every candidate of tests/gates through gates 1 and 2, each
// against the verdict that it was written for. Prints a table; exit code 0 when all
// verdicts are as expected, 3 where there is no GPU.
//
//   gate_corpus_gpu_test [--static | --shadow] [--only TEXT] [--necessity [--seconds S]] [FOLDER]
//   gate_corpus_gpu_test --mutants FOLDER --results FILE [--static] [--limit N]
//                        [--shard I/N] [--seconds S]
//
// --static --necessity prints both tables; what nothing needs is no failure.
// --static: gate 1 and the compile workers alone, which need no GPU; a candidate
// that gate 2 must judge has to pass them. --shadow: and gate 2 on the shadow device, of
// which bad ones that it does not see are listed, and a good one that its screening rejects
// is a failure. --only: files whose names hold TEXT.
// FOLDER: by default tests/gates in the current folder. --necessity: what each check is
// needed for, instead (necessity.h). --mutants: what mutants.py made (judge_mutants.h).
// The Python is found as by `kernelopt`, from $KERNELOPT_PYTHON on.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "corpus.h"
#include "judge/client.h"
#include "judge/server.h"
#include "judge_mutants.h"
#include "necessity.h"
#include "shadow/shadow_judge.h"

namespace kernelopt {
namespace {

struct Options {
  std::string folder = "tests/gates", only;
  bool only_static = false, shadow = false, necessity = false;
  double seconds = 1e9;
  MutantOptions mutants;
};

/// The table; gives the number of verdicts that are not the expected ones.
int Print(const Corpus& corpus, const std::vector<Item>& items, bool only_static) {
  int wrong = 0, bad_accepted = 0, good_rejected = 0, good = 0, differing = 0;
  for (const Item& item : items) {
    // Without a GPU, what gate 2 is to judge must come as far as gate 2.
    std::vector<std::string> expected = item.expected;
    if (only_static && item.IsOfGate2()) expected = {"ok"};
    const std::string& found = item.verdict.accepted ? "ok" : item.verdict.reason;
    bool fits = std::ranges::find(expected, found) != expected.end();
    wrong += !fits;
    bool is_good = item.expected.front() == "ok";
    good += is_good;
    good_rejected += is_good && found != "ok";
    bad_accepted += !is_good && !fits && found == "ok";
    bool differs = is_good && item.compiled.binary_hash != corpus.Baseline(item).binary_hash;
    differing += only_static ? differs : is_good && item.how == "within rule";
    fmt::print("{:<8} {:<34} {:<24} {}{}\n", fits ? "ok" : "DIFFERS", item.file, found,
               item.verdict.accepted ? item.how : item.verdict.message.substr(0, 160),
               fits ? "" : fmt::format("   <-- expected {}", fmt::join(expected, " | ")));
  }
  fmt::print("{} candidates, {} bad accepted, {} of {} good rejected, {} good {}, {} unexpected\n",
             items.size(), bad_accepted, good_rejected, good, differing,
             only_static ? "with another binary" : "with other bits", wrong);
  return wrong;
}

/// Gate 2 on the shadow device, of what gate 1 lets through: screening, and certification's
/// data for the bad ones that pass it. Gives the number of good ones that were rejected.
int JudgeOnShadow(Corpus& corpus, const ShadowJudge& judge, std::vector<Item>& items) {
  int bad = 0, later = 0, unseen = 0, good = 0, rejected = 0, sampled = 0;
  for (Item& item : items) {
    if (!item.verdict.accepted) continue;
    const bool is_good = item.expected.front() == "ok";
    item.verdict = corpus.Screen(item, {});
    sampled += judge.last().share < 1;
    (is_good ? good : bad) += 1;
    std::string_view state = "ok";
    if (is_good && !item.verdict.accepted) {
      state = "REJECTED";
      ++rejected;
    } else if (!is_good && item.verdict.accepted) {
      item.verdict = corpus.Gate2(item);
      state = item.verdict.accepted ? "UNSEEN" : "later";
      (item.verdict.accepted ? unseen : later) += 1;
    }
    fmt::print("{:<8} {:<34} {:<18} {:>3.0f} %  {}\n", state, item.file,
               item.verdict.accepted ? "ok" : item.verdict.reason, 100 * judge.last().share,
               item.verdict.message.substr(0, 160));
  }
  fmt::print(
      "{} of {} bad unseen, {} seen with certification's data alone, {} of {} good rejected, {} "
      "sampled\n",
      unseen, bad, later, rejected, good, sampled);
  return rejected;
}

Result<int> RunAll(const Options& options) {
  if (!options.mutants.folder.empty()) {
    KOPT_CHECK_OK(JudgeMutants(options.mutants));
    return 0;
  }
  auto compiler = KOPT_TRY(MakeCompiler());
  std::unique_ptr<Judge> judge;
  ShadowJudge shadow;
  if (!options.only_static && !options.shadow)
    judge = std::make_unique<JudgeClient>(JudgeClientOptions{});
  std::vector<Item> items = KOPT_TRY(ReadItems(options.folder, options.only));
  Corpus corpus(*compiler, *compiler, options.shadow ? &shadow : judge.get());
  KOPT_CHECK_OK(corpus.Open(options.folder));
  const bool all = options.necessity && options.only_static;
  KOPT_CHECK_OK(corpus.Static(&items, all));
  if (all) {
    const int wrong = Print(corpus, items, true);
    PrintStaticNecessity(items);
    return wrong;
  }
  if (options.shadow) return JudgeOnShadow(corpus, shadow, items);
  if (options.necessity) return PrintNecessity(corpus, items, options.seconds);
  for (Item& item : items) {
    if (judge == nullptr || !item.verdict.accepted) continue;
    const auto begin = std::chrono::steady_clock::now();
    item.verdict = corpus.Gate2(item);
    if (item.verdict.accepted) item.how = IsBitwise(item.verdict) ? "bitwise" : "within rule";
    item.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return Print(corpus, items, options.only_static);
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (argument == "--static") {
      options->only_static = options->mutants.only_static = true;
    } else if (argument == "--shadow") {
      options->shadow = true;
    } else if (argument == "--necessity") {
      options->necessity = true;
    } else if (argument == "--only") {
      options->only = value();
    } else if (argument == "--mutants") {
      options->mutants.folder = value();
    } else if (argument == "--results") {
      options->mutants.results = value();
    } else if (argument == "--limit") {
      options->mutants.limit = std::atoll(value().c_str());
    } else if (argument == "--seconds") {
      options->seconds = options->mutants.seconds = std::atof(value().c_str());
    } else if (argument == "--shard") {
      const std::string shard = value();
      if (std::sscanf(shard.c_str(), "%d/%d", &options->mutants.shard, &options->mutants.shards) !=
              2 ||
          options->mutants.shards < 1) {
        return false;
      }
    } else if (argument.starts_with("--")) {
      return false;
    } else {
      options->folder = argument;
    }
  }
  return options->mutants.folder.empty() == options->mutants.results.empty();
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  using namespace kernelopt;
  if (argc > 1 && std::string_view(argv[1]) == "judge") return JudgeMain(argc - 2, argv + 2);
  Options options;
  if (!Parse(argc, argv, &options)) {
    fmt::print(stderr, "the options are at the top of tests/gates/gate_corpus_gpu_test.cc\n");
    return 2;
  }
  auto begin = std::chrono::steady_clock::now();
  auto wrong = RunAll(options);
  if (!wrong) {
    fmt::print("{}\n", wrong.error().ToString());
    return static_cast<int>(wrong.error().kind);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{} failures, {:.1f} s\n", *wrong, seconds.count());
  return *wrong == 0 ? 0 : 1;
}
