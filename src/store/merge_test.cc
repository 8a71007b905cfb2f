// Two stores join to the same one, in whatever order and however often.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/fail_point.h"
#include "base/file.h"
#include "store/schema.h"
#include "store/store.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

/// Everything that a merge joins, as text.
std::multiset<std::string> Rows(const std::string& folder) {
  SQLite::Database db(folder + "/store.db", SQLite::OPEN_READONLY);
  std::multiset<std::string> rows;
  for (const std::string& table : store::kMergedTables) {
    SQLite::Statement statement(db, fmt::format("SELECT * FROM {}", table));
    while (statement.executeStep()) {
      std::string row = table;
      for (int i = 0; i < statement.getColumnCount(); ++i) {
        row += "|" + statement.getColumn(i).getString();
      }
      rows.insert(row);
    }
  }
  return rows;
}

/// Contents by path below blobs/.
std::map<std::string, std::string> BlobsOf(const std::string& folder) {
  std::map<std::string, std::string> blobs;
  const std::filesystem::path top = folder + "/blobs";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(top)) {
    if (!entry.is_regular_file()) continue;
    blobs[std::filesystem::relative(entry.path(), top)] = *ReadFile(entry.path());
  }
  return blobs;
}

/// A store with rows drawn from few values, so that two of them overlap.
void Fill(const std::string& folder, const std::vector<uint8_t>& choices, int64_t start_us) {
  int64_t now = start_us;
  auto store = std::move(*Store::Open(folder, StoreMode::kCreate,
                                      {.session = "s", .now_us = [&now] { return now++; }}));
  Batch batch;
  for (const uint8_t choice : choices) {
    const std::string name = fmt::format("n{}", choice / 8 % 4);
    switch (choice % 8) {
      case 0:
        batch.kernels.push_back({name, "triton_" + name, "{}"});
        break;
      case 1:
        batch.replacements.push_back({name, "k", "rule", "change", "{}"});
        break;
      case 2: {
        VerdictRecord v;
        v.key = {name, 2, "screen", "s", "g", "v", "default", "strict", "d"};
        v.accepted = choice & 64;
        batch.verdicts.push_back(v);
        break;
      }
      case 3: {
        MeasurementRecord m;
        m.key.subject = name;
        m.samples = {1.0 * choice, 2.0};
        batch.measurements.push_back(m);
        break;
      }
      case 4:
        batch.steps.push_back({name, "done", "{}", 0, ""});
        break;
      case 5:
        batch.decisions.push_back({name, "kept", "m", "{}", 0, ""});
        break;
      case 6:
        batch.facts.emplace_back(name, "1");
        break;
      case 7:
        (void)store->WriteBlob(name);
        break;
    }
  }
  RC_ASSERT(store->Record(batch).has_value());
}

MergeCounts Join(const std::string& into, const std::string& from) {
  auto store = std::move(*Store::Open(into, StoreMode::kCreate));
  auto counts = store->Merge(from);
  RC_ASSERT(counts.has_value());
  return *counts;
}

TEST(MergeTest, IsCommutativeAndIdempotent) {
  rc::detail::TestParams params;
  params.maxSuccess = 25;  // six openings of a store each
  const auto property = [](const std::vector<uint8_t>& in_a, const std::vector<uint8_t>& in_b) {
    TestFolder folder;
    const std::string a = folder / "a", b = folder / "b";
    Fill(a, in_a, 1000);
    Fill(b, in_b, 1000 + in_a.size() / 2);
    const auto before = Rows(a);
    const size_t replacements = (*Store::Open(a, StoreMode::kRead))->Replacements("k")->size();

    Join(a, b);
    Join(b, a);
    RC_ASSERT(Rows(a) == Rows(b));
    const auto after = Rows(a);
    RC_ASSERT(std::includes(after.begin(), after.end(), before.begin(), before.end()));
    const MergeCounts again = Join(a, b);
    RC_ASSERT(again.rows == 0 && again.blobs == 0);
    RC_ASSERT(Rows(a) == after);
    RC_ASSERT((*Store::Open(a, StoreMode::kRead))->Replacements("k")->size() >= replacements);
  };
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata(), params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << text.str();
}

TEST(MergeTest, KeepsTheRunsApart) {
  TestFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  {
    auto first = std::move(*Store::Open(a, StoreMode::kCreate));
    auto second = std::move(*Store::Open(b, StoreMode::kCreate));
    ASSERT_TRUE(first->SetFact("model", R"("A")"));
    ASSERT_TRUE(second->SetFact("model", R"("B")"));
    ASSERT_TRUE(second->RecordKernel({"k", "n", "{}"}));
    ASSERT_TRUE(second->RecordReplacement({"r", "k", "o", "c", "{}"}));
    const std::string blob = *second->WriteBlob("evidence");
    const std::string run = first->RunId();

    const auto counts = first->Merge(b);
    ASSERT_TRUE(counts) << counts.error().ToString();
    EXPECT_EQ(counts->blobs, 1);
    EXPECT_EQ(counts->rows, 4);  // run, fact, kernel, replacement
    EXPECT_EQ(first->RunId(), run);
    EXPECT_EQ(first->Fact("model")->value(), R"("A")");
    EXPECT_TRUE(first->Kernels()->empty());
    EXPECT_TRUE(first->FindReplacement("r")->has_value());
    EXPECT_EQ(*first->ReadBlob(blob), "evidence");
  }
  auto missing = (*Store::Open(a, StoreMode::kWrite))->Merge(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "no_such_run");
}

#ifdef KERNELOPT_FAIL_POINTS
// Killed at every boundary of a merge: no half-written blob, all rows or none, and the
// merge done again gives what it would have given.
TEST(MergeTest, SurvivesAKillAnywhere) {
  TestFolder folder;
  Fill(folder / "other", {0, 1, 2, 3, 9, 10, 11}, 1000);
  for (const char* bytes : {"first", "second"}) {
    ASSERT_TRUE((*Store::Open(folder / "other", StoreMode::kWrite))->WriteBlob(bytes));
  }
  std::map<std::string, int> passages;
  {
    Fill(folder / "whole", {3, 17}, 2000);
    auto store = std::move(*Store::Open(folder / "whole", StoreMode::kWrite));
    const auto before = FailPointPassages();
    ASSERT_TRUE(store->Merge(folder / "other"));
    passages = FailPointPassages();
    for (const auto& [name, count] : before) passages[name] -= count;
    std::erase_if(passages, [](const auto& point) { return point.second == 0; });
  }
  for (const char* name : {"blob.write", "blob.done", "file.rename", "store.merge"}) {
    EXPECT_TRUE(passages.contains(name)) << name;
  }
  int run = 0;
  for (const auto& [name, count] : passages) {
    for (int passage = 1; passage <= count; ++passage) {
      SCOPED_TRACE(fmt::format("{}:{}", name, passage));
      const std::string into = folder / std::to_string(run++);
      Fill(into, {3, 17}, 2000);
      const auto before = Rows(into);
      const pid_t child = fork();
      if (child == 0) {
        auto store = Store::Open(into, StoreMode::kWrite);
        if (!store) _exit(1);
        SetFailPoint(name, passage);
        (void)(*store)->Merge(folder / "other");
        _exit(2);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      EXPECT_EQ(Rows(into), before);
      auto store = Store::Open(into, StoreMode::kWrite);
      ASSERT_TRUE(store) << store.error().ToString();
      ASSERT_TRUE((*store)->Merge(folder / "other"));
      EXPECT_EQ(BlobsOf(into), BlobsOf(folder / "other")) << "whole, and nothing beside them";
      std::multiset<std::string> rows = Rows(into);
      EXPECT_TRUE(std::ranges::includes(rows, Rows(folder / "other")));
      EXPECT_EQ(rows.size(), Rows(folder / "whole").size());
    }
  }
}
#endif

}  // namespace
}  // namespace kernelopt
