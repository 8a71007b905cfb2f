#include "judge_mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file.h"
#include "corpus.h"
#include "judge/client.h"
#include "ttir/canonical.h"

namespace kernelopt {
namespace {

namespace fs = std::filesystem;

/// Mutants that are compiled at once, while those before are judged.
constexpr size_t kBatch = 48;

Result<std::vector<Json>> ReadLines(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream in(KOPT_TRY(ReadFile(path)));
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    auto json = ParseJson(line, path);
    if (!json) continue;  // the last line of a run that was killed
    lines.push_back(std::move(*json));
  }
  return lines;
}

/// A folder of corpora beside the mutants, or as the line says.
std::string CorpusFolder(const std::string& folder, const std::string& corpus) {
  const std::string beside = folder + "/" + corpus;
  return fs::exists(beside) ? beside : corpus;
}

Result<std::string> Canonical(const std::string& path) {
  return CanonicalTtir(KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(path)), path)));
}

class MutantRun {
 public:
  explicit MutantRun(const MutantOptions& options) : options_(options) {}

  Status All() {
    compiler_ = KOPT_TRY(MakeCompiler());
    twin_compiler_ = KOPT_TRY(MakeCompiler(2));
    if (!options_.only_static) judge_ = std::make_unique<JudgeClient>(JudgeClientOptions{});
    KOPT_CHECK_OK(Select());
    KOPT_CHECK_OK(OpenCorpora());
    out_.open(options_.results, std::ios::app);
    if (mutants_.empty()) return {};
    auto next = Start(0);
    for (size_t at = 0; at < mutants_.size(); at += kBatch) {
      std::vector<Item> items = KOPT_TRY(next.get());
      const bool goes_on = Seconds() < options_.seconds;
      if (goes_on && at + kBatch < mutants_.size()) next = Start(at + kBatch);
      for (size_t i = 0; i < items.size(); ++i)
        KOPT_CHECK_OK(Conclude(mutants_[at + i], &items[i]));
      fmt::print("{} of {} mutants, {:.0f} s\n", std::min(at + kBatch, mutants_.size()),
                 mutants_.size(), Seconds());
      std::fflush(stdout);
      if (!goes_on) break;
    }
    return {};
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  std::string PathOf(const Json& mutant, const char* field) const {
    return options_.folder + "/" + mutant.value(field, "");
  }

  Corpus& CorpusOf(const Json& mutant) { return *corpora_.at(mutant.value("corpus", "")); }

  /// What is to be done: not done before, of this shard, first ones of all operators first.
  Status Select() {
    std::set<std::string> done;
    if (fs::exists(options_.results)) {
      for (const Json& line : KOPT_TRY(ReadLines(options_.results))) {
        const std::string outcome = line.value("outcome", "");
        if (options_.only_static || outcome != "gate2") done.insert(line.value("id", ""));
      }
    }
    const std::vector<Json> lines = KOPT_TRY(ReadLines(options_.folder + "/mutants.jsonl"));
    for (size_t i = 0; i < lines.size(); ++i) {
      if (static_cast<int>(i % static_cast<size_t>(options_.shards)) != options_.shard) continue;
      if (!done.contains(lines[i].value("id", ""))) mutants_.push_back(lines[i]);
    }
    // "mask_0007" before "dtype_0008".
    std::ranges::stable_sort(mutants_, {}, [](const Json& mutant) {
      const std::string id = mutant.value("id", "");
      return id.substr(id.rfind('_') + 1);
    });
    if (options_.limit > 0 && mutants_.size() > static_cast<size_t>(options_.limit)) {
      mutants_.resize(static_cast<size_t>(options_.limit));
    }
    return {};
  }

  /// All recordings, the compiler's kernels in them, and the TTIR of every base: what the
  /// threads share is complete before there are two.
  Status OpenCorpora() {
    std::map<std::string, std::map<std::string, Json>> bases;
    for (const Json& mutant : mutants_) {
      bases[mutant.value("corpus", "")][mutant.value("base", "")] = mutant;
    }
    for (const auto& [name, of_corpus] : bases) {
      auto& corpus = corpora_[name];
      corpus = std::make_unique<Corpus>(*compiler_, *twin_compiler_, judge_.get());
      KOPT_CHECK_OK(corpus->Open(CorpusFolder(options_.folder, name)));
      std::vector<Item> items;
      for (const auto& [base, mutant] : of_corpus) {
        items.push_back(KOPT_TRY(ReadItem(PathOf(mutant, "base_file"), "good")));
      }
      KOPT_CHECK_OK(corpus->Static(&items));
      size_t i = 0;
      for (const auto& [base, mutant] : of_corpus) {
        const Item& item = items[i++];
        if (!item.verdict.accepted) {
          return Fail(ErrorKind::kUsage, "bad_base", item.verdict.message, base);
        }
        bases_[base] = KOPT_TRY(Canonical(item.compiled.ttir_path));
      }
    }
    return {};
  }

  std::future<Result<std::vector<Item>>> Start(size_t at) {
    return std::async(std::launch::async, [this, at] { return Compile(at); });
  }

  /// Gate 1 of a batch, corpus by corpus; the items in the order of the batch.
  Result<std::vector<Item>> Compile(size_t at) {
    const size_t end = std::min(at + kBatch, mutants_.size());
    std::vector<Item> items(end - at);
    std::map<std::string, std::vector<size_t>> by_corpus;
    for (size_t i = at; i < end; ++i) by_corpus[mutants_[i].value("corpus", "")].push_back(i);
    for (const auto& [name, indices] : by_corpus) {
      std::vector<Item> part;
      for (size_t i : indices) {
        part.push_back(KOPT_TRY(ReadItem(PathOf(mutants_[i], "file"), "bad")));
      }
      KOPT_CHECK_OK(corpora_.at(name)->Static(&part));
      for (size_t i = 0; i < indices.size(); ++i) items[indices[i] - at] = std::move(part[i]);
    }
    return items;
  }

  Status Conclude(const Json& mutant, Item* item) {
    Json line = mutant;
    for (const char* field : {"file", "base_file", "corpus"}) line.erase(field);
    const auto begin = std::chrono::steady_clock::now();
    const bool compiled = !item->compiled.ttir_path.empty();
    std::string outcome = "rejected", stage = compiled ? "binary" : "text";
    if (item->verdict.reason.starts_with("compile_")) {
      outcome = "not_compiled";
    } else if (compiled && KOPT_TRY(Canonical(item->compiled.ttir_path)) ==
                               bases_.at(mutant.value("base", ""))) {
      outcome = "same";
    } else if (item->verdict.accepted && judge_ == nullptr) {
      outcome = "gate2";
    } else if (item->verdict.accepted) {
      stage = "gate2";
      item->verdict = CorpusOf(mutant).Gate2(*item);
      if (item->verdict.accepted) outcome = "survived";
    }
    line["outcome"] = outcome;
    if (outcome == "rejected") line["stage"] = stage;
    if (outcome == "survived") line["bitwise"] = IsBitwise(item->verdict);
    if (!item->verdict.accepted) line["reason"] = item->verdict.reason;
    line["message"] = item->verdict.message.substr(0, 300);
    line["seconds"] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    out_ << DumpJson(line) << std::endl;
    return {};
  }

  const MutantOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::unique_ptr<CompilePool> compiler_, twin_compiler_;
  std::unique_ptr<JudgeClient> judge_;
  std::vector<Json> mutants_;
  std::map<std::string, std::unique_ptr<Corpus>> corpora_;
  std::map<std::string, std::string> bases_;  ///< canonical TTIR by name
  std::ofstream out_;
};

/// Of all results so far: the last line of each mutant counts.
Status PrintTable(const std::string& results) {
  std::map<std::string, Json> last;
  for (const Json& line : KOPT_TRY(ReadLines(results))) last[line.value("id", "")] = line;
  struct Row {
    int all = 0, counted = 0, gate1 = 0, gate2 = 0, waiting = 0, bitwise = 0, differing = 0;
  };
  std::map<std::string, Row> rows;
  for (const auto& [id, line] : last) {
    for (const std::string& name : {line.value("operator", ""), std::string("total")}) {
      Row& row = rows[name];
      const std::string outcome = line.value("outcome", "");
      ++row.all;
      if (outcome == "not_compiled" || outcome == "same") continue;
      ++row.counted;
      row.waiting += outcome == "gate2";
      if (outcome == "rejected") ++(line.value("stage", "") == "gate2" ? row.gate2 : row.gate1);
      if (outcome == "survived") ++(line.value("bitwise", false) ? row.bitwise : row.differing);
    }
    if (line.value("outcome", "") == "survived" && !line.value("bitwise", false)) {
      fmt::print("differing survivor {:<16} {} line {}: {}\n", id, line.value("base", ""),
                 line.value("line", 0), line.value("change", "").substr(0, 90));
    }
  }
  fmt::print("{:<12} {:>6} {:>7} {:>6} {:>6} {:>7} {:>7} {:>9}\n", "operator", "made", "counted",
             "gate 1", "gate 2", "waiting", "bitwise", "differing");
  for (const auto& [name, row] : rows) {
    fmt::print("{:<12} {:>6} {:>7} {:>6} {:>6} {:>7} {:>7} {:>9}\n", name, row.all, row.counted,
               row.gate1, row.gate2, row.waiting, row.bitwise, row.differing);
  }
  return {};
}

}  // namespace

Status JudgeMutants(const MutantOptions& options) {
  KOPT_CHECK_OK(MutantRun(options).All());
  return PrintTable(options.results);
}

}  // namespace kernelopt
