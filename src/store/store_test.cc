#include "store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "testing/test_folder.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

VerdictKey KeyOf(const std::string& subject) {
  return {subject, 2, "screen", "site", "gpu", "v", "default", "strict", "d1"};
}

VerdictRecord VerdictOf(const std::string& subject, bool accepted, const std::string& reason) {
  VerdictRecord v;
  v.key = KeyOf(subject);
  v.kernel = "k";
  v.accepted = accepted;
  v.reason = reason;
  v.message = "a sentence";
  return v;
}

MeasurementRecord MeasurementOf(const std::string& subject, std::vector<double> samples) {
  MeasurementRecord m;
  m.key = {subject, "site", "gpu", "v", "default", "cold", "search", "d1"};
  m.kernel = "k";
  m.batch = "b";
  m.samples = std::move(samples);
  m.gpu_uuid = "GPU-1";
  return m;
}

TEST(StoreTest, KeepsWhatWasRecordedOverASecondOpening) {
  TestFolder folder;
  std::string run;
  const std::vector<double> samples = {1.5, 0.1, std::numeric_limits<double>::infinity(), 1e-300};
  {
    auto store = Store::Open(folder / "run", StoreMode::kCreate, {.session = "s1"});
    ASSERT_TRUE(store) << store.error().ToString();
    run = (*store)->RunId();
    EXPECT_EQ(run.size(), 32u);
    Batch batch;
    batch.kernels.push_back({"k", "triton_poi_0", R"({"launches":3})"});
    batch.replacements.push_back({"r", "k", "configuration", "XBLOCK 64", R"({"steps":[]})"});
    batch.verdicts.push_back(VerdictOf("r", true, "ok"));
    batch.measurements.push_back(MeasurementOf("r", samples));
    batch.decisions.push_back({"k", "frozen", "the fastest of 12", "{}", 0, ""});
    batch.facts.emplace_back("model", R"({"file":"m.py"})");
    batch.steps.push_back({"search", "started", "{}", 0, ""});
    ASSERT_TRUE((*store)->Record(batch));
  }
  for (const StoreMode mode : {StoreMode::kRead, StoreMode::kWrite, StoreMode::kCreate}) {
    auto opened = Store::Open(folder / "run", mode);
    ASSERT_TRUE(opened) << opened.error().ToString();
    const Store& store = **opened;
    EXPECT_EQ(store.RunId(), run);
    EXPECT_EQ(store.Kernels()->at(0).detail, R"({"launches":3})");
    EXPECT_EQ(store.FindReplacement("r")->value().change, "XBLOCK 64");
    EXPECT_EQ(store.Replacements("k")->size(), 1u);
    EXPECT_EQ(store.FindMeasurement(MeasurementOf("r", {}).key)->value().samples, samples);
    const VerdictRecord verdict = store.FindVerdict(KeyOf("r"))->value();
    EXPECT_EQ(verdict.session, "s1");
    EXPECT_GT(verdict.at_us, 0);
    EXPECT_EQ(verdict.key, KeyOf("r"));
    EXPECT_EQ(store.Decisions()->at(0).message, "the fastest of 12");
    EXPECT_EQ(store.Fact("model")->value(), R"({"file":"m.py"})");
    EXPECT_EQ(store.LastStep("search")->value().state, "started");
  }
}

TEST(StoreTest, FindsOnlyTheWholeKey) {
  TestFolder folder;
  auto store = std::move(*Store::Open(folder / "run", StoreMode::kCreate));
  ASSERT_TRUE(store->RecordVerdict(VerdictOf("r", true, "ok")));
  ASSERT_TRUE(store->RecordMeasurement(MeasurementOf("r", {1})));
  EXPECT_TRUE(store->FindVerdict(KeyOf("r"))->has_value());
  for (auto change : std::vector<void (*)(VerdictKey&)>{
           [](VerdictKey& k) { k.subject = "q"; }, [](VerdictKey& k) { k.gate = 3; },
           [](VerdictKey& k) { k.stage = "certify"; }, [](VerdictKey& k) { k.site = "x"; },
           [](VerdictKey& k) { k.gpu = "x"; }, [](VerdictKey& k) { k.versions = "x"; },
           [](VerdictKey& k) { k.variant = "x"; }, [](VerdictKey& k) { k.policy = "tf32"; },
           [](VerdictKey& k) { k.data_version = "d2"; }}) {
    VerdictKey key = KeyOf("r");
    change(key);
    EXPECT_FALSE(store->FindVerdict(key)->has_value());
  }
  for (auto change : std::vector<void (*)(MeasurementKey&)>{
           [](MeasurementKey& k) { k.subject = "q"; }, [](MeasurementKey& k) { k.site = "x"; },
           [](MeasurementKey& k) { k.gpu = "x"; }, [](MeasurementKey& k) { k.versions = "x"; },
           [](MeasurementKey& k) { k.variant = "x"; }, [](MeasurementKey& k) { k.state = "x"; },
           [](MeasurementKey& k) { k.purpose = "x"; },
           [](MeasurementKey& k) { k.data_version = "d2"; }}) {
    MeasurementKey key = MeasurementOf("r", {}).key;
    change(key);
    EXPECT_FALSE(store->FindMeasurement(key)->has_value());
  }
}

TEST(StoreTest, ARejectionWinsAndAnUnfinalVerdictDoesNotCount) {
  TestFolder folder;
  auto store = std::move(*Store::Open(folder / "run", StoreMode::kCreate));
  VerdictRecord no_memory = VerdictOf("r", false, "out_of_memory");
  no_memory.final = false;
  ASSERT_TRUE(store->RecordVerdict(no_memory));
  EXPECT_FALSE(store->FindVerdict(KeyOf("r"))->has_value());
  ASSERT_TRUE(store->RecordVerdict(VerdictOf("r", true, "ok")));
  EXPECT_TRUE(store->FindVerdict(KeyOf("r"))->value().accepted);
  ASSERT_TRUE(store->RecordVerdict(VerdictOf("r", false, "wrong_value")));
  EXPECT_EQ(store->FindVerdict(KeyOf("r"))->value().reason, "wrong_value");
  EXPECT_EQ(store->AllVerdicts("k")->size(), 3u);
  EXPECT_EQ(store->VerdictsOn("r")->size(), 3u);
  EXPECT_EQ(store->AllVerdicts("other")->size(), 0u);
}

TEST(StoreTest, TheLastFactWinsEvenWhenTheClockStandsStillOrGoesBack) {
  TestFolder folder;
  int64_t now = 1000;
  const StoreOptions options = {.session = "s", .now_us = [&] { return now; }};
  for (int i = 0; i < 3; ++i, now -= 100) {
    auto store = std::move(*Store::Open(folder / "run", StoreMode::kCreate, options));
    ASSERT_TRUE(store->SetFact("n", std::to_string(2 * i)));
    ASSERT_TRUE(store->SetFact("n", std::to_string(2 * i + 1)));
    ASSERT_TRUE(store->RecordStep({"search", "started", "{}", 0, ""}));
    ASSERT_TRUE(store->RecordStep({"search", i == 2 ? "done" : "interrupted", "{}", 0, ""}));
    EXPECT_EQ(store->Fact("n")->value(), std::to_string(2 * i + 1));
    EXPECT_EQ(store->Facts()->at("n"), std::to_string(2 * i + 1));
  }
  auto store = std::move(*Store::Open(folder / "run", StoreMode::kRead));
  EXPECT_EQ(store->LastStep("search")->value().state, "done");
  EXPECT_EQ(store->Steps()->size(), 6u);
  EXPECT_FALSE(store->LastStep("pack")->has_value());
  EXPECT_FALSE(store->Fact("none")->has_value());
}

TEST(StoreTest, ABadRowTakesItsWholeBatchBack) {
  TestFolder folder;
  auto store = std::move(*Store::Open(folder / "run", StoreMode::kCreate));
  Batch batch;
  batch.replacements.push_back({"r", "k", "o", "c", "{}"});
  batch.verdicts.push_back(VerdictOf("r", true, "ok"));
  batch.verdicts.back().evidence = "{not json";
  const Status status = store->Record(batch);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, "bad_record");
  EXPECT_FALSE(store->FindReplacement("r")->has_value());
}

TEST(StoreTest, OneRunAtATimeButReadersBeside) {
  TestFolder folder;
  auto first = Store::Open(folder / "run", StoreMode::kCreate);
  ASSERT_TRUE(first);
  auto second = Store::Open(folder / "run", StoreMode::kWrite);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(second.error().code, "run_in_use");
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(getpid())));
  auto reader = Store::Open(folder / "run", StoreMode::kRead);
  ASSERT_TRUE(reader);
  ASSERT_TRUE((*first)->SetFact("a", "1"));
  EXPECT_EQ((*reader)->Fact("a")->value(), "1");
  EXPECT_FALSE((*reader)->SetFact("a", "2"));
  first->reset();
  EXPECT_TRUE(Store::Open(folder / "run", StoreMode::kWrite));
}

TEST(StoreTest, ErrorsAreOneSentenceWithACode) {
  struct Case {
    const char* name;
    void (*make)(const std::string& run);
    const char* code;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing", [](const std::string&) {}, "no_such_run"},
           {"text",
            [](const std::string& run) {
              std::ofstream(run + "/store.db")
                  << "hello, world, "
                     "this is no database but long enough to have a header of one hundred bytes "
                     "and some more of it";
            },
            "corrupt_store"},
           {"foreign",
            [](const std::string& run) {
              SQLite::Database db(run + "/store.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
              db.exec("CREATE TABLE t(a)");
            },
            "not_a_store"},
           {"newer",
            [](const std::string& run) {
              ASSERT_TRUE(Store::Open(run, StoreMode::kCreate));
              SQLite::Database db(run + "/store.db", SQLite::OPEN_READWRITE);
              db.exec("PRAGMA user_version=99");
            },
            "newer_schema"},
           {"damaged",
            [](const std::string& run) {
              {
                auto store = std::move(*Store::Open(run, StoreMode::kCreate));
                for (int i = 0; i < 50; ++i) {
                  ASSERT_TRUE(store->RecordVerdict(VerdictOf("r" + std::to_string(i), true, "ok")));
                }
              }
              std::fstream file(run + "/store.db", std::ios::in | std::ios::out | std::ios::binary);
              file.seekp(4096);
              file << std::string(3 * 4096, '\x5a');
            },
            "corrupt_store"}}) {
    SCOPED_TRACE(c.name);
    TestFolder folder;
    fs::create_directory(folder / "run");
    c.make(folder / "run");
    auto store = Store::Open(folder / "run", StoreMode::kWrite);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, c.code) << store.error().ToString();
    EXPECT_THAT(store.error().message, testing::Not(HasSubstr("\n")));
    EXPECT_THAT(store.error().where, HasSubstr(folder.path()));
  }
}

// The process is killed while it writes candidates; every candidate is whole
// or absent, and at most the one in flight is lost.
TEST(StoreTest, SurvivesAKill) {
  TestFolder folder;
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = Store::Open(folder / "run", StoreMode::kCreate);
    for (uint32_t i = 0; store; ++i) {
      Batch batch;
      batch.replacements.push_back({std::to_string(i), "k", "o", "c", "{}"});
      batch.verdicts.push_back(VerdictOf(std::to_string(i), true, "ok"));
      batch.measurements.push_back(MeasurementOf(std::to_string(i), {1, 2, 3}));
      if (!(*store)->Record(batch) || write(told[1], &i, sizeof i) != sizeof i) _exit(1);
    }
    _exit(1);
  }
  close(told[1]);
  uint32_t last = 0;
  while (last < 40 && read(told[0], &last, sizeof last) == sizeof last) {
  }
  kill(child, SIGKILL);
  while (read(told[0], &last, sizeof last) == sizeof last) {
  }
  close(told[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));

  auto store = Store::Open(folder / "run", StoreMode::kWrite);
  ASSERT_TRUE(store) << store.error().ToString();
  const size_t count = (*store)->Replacements("k")->size();
  EXPECT_GE(count, last + 1);
  EXPECT_LE(count, last + 2);
  EXPECT_EQ((*store)->AllVerdicts("k")->size(), count);
  EXPECT_EQ((*store)->Measurements("k")->size(), count);
}

}  // namespace
}  // namespace kernelopt
