// What surrounds a store: full and read-only disks, files of older versions.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "store/schema.h"
#include "store/sqlite_error.h"
#include "store/store.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

/// Runs `work` in a child process; its text comes back (an error's code).
template <typename Work>
std::string InChild(Work work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = work();
    const bool told = write(ends[1], text.data(), text.size()) >= 0;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  std::string text(256, '\0');
  const ssize_t n = read(ends[0], text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(StoreEnvironmentTest, AFolderThatCannotBeWritten) {
  TestFolder folder;
  ASSERT_TRUE((*Store::Open(folder / "run", StoreMode::kCreate))->SetFact("a", "1"));
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  ASSERT_EQ(chmod((folder / "run").c_str(), 0555), 0);
  ASSERT_EQ(chmod((folder / "run/store.db").c_str(), 0444), 0);
  ASSERT_EQ(chmod((folder / "run/lock").c_str(), 0444), 0);
  const auto as_nobody = [&](auto work) {
    return InChild([&]() -> std::string {
      if (getuid() == 0 && setuid(65534) != 0) return "could not give up root";
      return work();
    });
  };
  EXPECT_EQ(as_nobody([&] { return Store::Open(folder / "new", StoreMode::kCreate).error().code; }),
            "not_writable");
  EXPECT_EQ(as_nobody([&] { return Store::Open(folder / "run", StoreMode::kWrite).error().code; }),
            "not_writable");
  EXPECT_EQ(as_nobody([&]() -> std::string {
              auto store = Store::Open(folder / "run", StoreMode::kRead);
              if (!store) return store.error().ToString();
              auto fact = (*store)->Fact("a");
              return fact && *fact ? **fact : "no fact";
            }),
            "1");
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder / "run").c_str(), 0755), 0);
}

TEST(StoreEnvironmentTest, AFullDisk) {
  TestFolder folder;
  const std::string found = InChild([&]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      return "no mounts";
    }
    auto store = Store::Open(folder / "run", StoreMode::kCreate);
    if (!store) return store.error().code;
    for (int i = 0; i < 1000; ++i) {
      ReplacementRecord record{std::to_string(i), "k", "o", "c", {}};
      record.body = '"' + std::string(8000, 'x') + '"';
      if (auto status = (*store)->RecordReplacement(record); !status) {
        // What was recorded before is still there.
        const size_t kept = (*store)->Replacements("k")->size();
        return kept == static_cast<size_t>(i) ? status.error().code : "lost rows";
      }
    }
    return "never full";
  });
  if (found == "no mounts") GTEST_SKIP() << "mounting a small disk needs root";
  EXPECT_EQ(found, "disk_full");
}

TEST(StoreEnvironmentTest, SqliteCodesAreErrors) {
  struct Case {
    int code;
    bool full;
    ErrorKind kind;
    const char* wanted;
  };
  for (const Case& c : {Case{SQLITE_FULL, false, ErrorKind::kEnvironment, "disk_full"},
                        {SQLITE_IOERR_SHMSIZE, true, ErrorKind::kEnvironment, "disk_full"},
                        {SQLITE_IOERR_READ, false, ErrorKind::kEnvironment, "io_error"},
                        {SQLITE_READONLY_DIRECTORY, false, ErrorKind::kEnvironment, "not_writable"},
                        {SQLITE_CANTOPEN, false, ErrorKind::kEnvironment, "not_writable"},
                        {SQLITE_CORRUPT_INDEX, false, ErrorKind::kEnvironment, "corrupt_store"},
                        {SQLITE_NOTADB, false, ErrorKind::kEnvironment, "corrupt_store"},
                        {SQLITE_BUSY_SNAPSHOT, false, ErrorKind::kEnvironment, "store_busy"},
                        {SQLITE_CONSTRAINT_CHECK, false, ErrorKind::kInternal, "bad_record"},
                        {SQLITE_MISUSE, false, ErrorKind::kInternal, "store_failed"}}) {
    const Error error = store::StoreError(c.code, "text", "/r/store.db", c.full);
    EXPECT_EQ(error.kind, c.kind) << c.code;
    EXPECT_EQ(error.code, c.wanted) << c.code;
    EXPECT_EQ(error.where, "/r/store.db");
  }
  // A damaged schema shows as a statement that no longer fits it.
  EXPECT_EQ(store::StoreError(SQLITE_ERROR, "no such column: x", "/r", false).code,
            "corrupt_store");
  EXPECT_EQ(store::StoreError(SQLITE_ERROR, "near \"x\": syntax error", "/r", false).code,
            "store_failed");
}

TEST(StoreEnvironmentTest, KnowsNetworkFileSystems) {
  for (const uint64_t magic : {0x6969ull, 0xff534d42ull, 0xfe534d42ull, 0x65735546ull,
                               0xffffffffff534d42ull, 0x0bd00bd0ull}) {
    EXPECT_TRUE(store::IsNetworkFileSystem(magic)) << magic;
  }
  for (const uint64_t magic : {0xef53ull, 0x01021994ull, 0x58465342ull, 0x794c7630ull}) {
    EXPECT_FALSE(store::IsNetworkFileSystem(magic)) << magic;
  }
}

// A file as schema 1 was released. This text is never changed: a later schema
// has to read it.
constexpr const char* kSchema1 = R"sql(
PRAGMA application_id=1263489108;
PRAGMA user_version=1;
CREATE TABLE self(run TEXT NOT NULL) STRICT;
CREATE TABLE runs(run TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL, at_us INTEGER NOT NULL)
  STRICT, WITHOUT ROWID;
CREATE TABLE facts(id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, key TEXT NOT NULL,
  value TEXT NOT NULL CHECK(json_valid(value)), at_us INTEGER NOT NULL) STRICT;
CREATE INDEX facts_by_key ON facts(run, key, at_us);
CREATE TABLE kernels(run TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
  detail TEXT NOT NULL CHECK(json_valid(detail)), PRIMARY KEY(run, key)) STRICT;
CREATE TABLE replacements(id TEXT NOT NULL PRIMARY KEY, kernel TEXT NOT NULL, origin TEXT NOT NULL,
  change TEXT NOT NULL, body TEXT NOT NULL CHECK(json_valid(body))) STRICT;
CREATE INDEX replacements_by_kernel ON replacements(kernel);
CREATE TABLE verdicts(id TEXT NOT NULL PRIMARY KEY, subject TEXT NOT NULL,
  gate INTEGER NOT NULL CHECK(gate BETWEEN 1 AND 4), stage TEXT NOT NULL, site TEXT NOT NULL,
  gpu TEXT NOT NULL, versions TEXT NOT NULL, variant TEXT NOT NULL, policy TEXT NOT NULL,
  data_version TEXT NOT NULL, kernel TEXT NOT NULL,
  accepted INTEGER NOT NULL CHECK(accepted IN (0, 1)),
  final INTEGER NOT NULL CHECK(final IN (0, 1)), reason TEXT NOT NULL, message TEXT NOT NULL,
  evidence TEXT NOT NULL CHECK(json_valid(evidence)), at_us INTEGER NOT NULL, host TEXT NOT NULL,
  session TEXT NOT NULL) STRICT;
CREATE INDEX verdicts_by_subject ON verdicts(subject, gate);
CREATE INDEX verdicts_by_kernel ON verdicts(kernel);
CREATE TABLE measurements(id TEXT NOT NULL PRIMARY KEY, subject TEXT NOT NULL, site TEXT NOT NULL,
  gpu TEXT NOT NULL, versions TEXT NOT NULL, variant TEXT NOT NULL, state TEXT NOT NULL,
  purpose TEXT NOT NULL, data_version TEXT NOT NULL, kernel TEXT NOT NULL, batch TEXT NOT NULL,
  unit TEXT NOT NULL, samples BLOB NOT NULL CHECK(length(samples) % 8 = 0),
  gpu_uuid TEXT NOT NULL, detail TEXT NOT NULL CHECK(json_valid(detail)), at_us INTEGER NOT NULL,
  host TEXT NOT NULL, session TEXT NOT NULL) STRICT;
CREATE INDEX measurements_by_subject ON measurements(subject);
CREATE INDEX measurements_by_kernel ON measurements(kernel);
CREATE TABLE steps(id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, name TEXT NOT NULL,
  state TEXT NOT NULL, detail TEXT NOT NULL CHECK(json_valid(detail)), at_us INTEGER NOT NULL,
  session TEXT NOT NULL) STRICT;
CREATE TABLE decisions(id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, kernel TEXT NOT NULL,
  kind TEXT NOT NULL, message TEXT NOT NULL, detail TEXT NOT NULL CHECK(json_valid(detail)),
  at_us INTEGER NOT NULL, session TEXT NOT NULL) STRICT;
INSERT INTO self VALUES('run1');
INSERT INTO runs VALUES('run1', 'host', 1);
INSERT INTO facts VALUES('f1', 'run1', 'policy', '"strict"', 2);
INSERT INTO kernels VALUES('run1', 'key', 'triton_poi_0', '{"launches":2}');
INSERT INTO replacements VALUES('r', 'key', 'configuration', 'XBLOCK 64', '{}');
INSERT INTO verdicts VALUES('v1', 'r', 2, 'screen', 's', 'g', 'v', 'default', 'strict', 'd', 'key',
  1, 1, 'ok', 'bitwise equal', '{}', 3, 'host', 'session');
INSERT INTO measurements VALUES('m1', 'r', 's', 'g', 'v', 'default', 'cold', 'search', 'd', 'key',
  'b', 'us', x'000000000000F03F0000000000000040', 'GPU-1', '{}', 4, 'host', 'session');
INSERT INTO steps VALUES('s1', 'run1', 'search', 'done', '{}', 5, 'session');
INSERT INTO decisions VALUES('d1', 'run1', 'key', 'frozen', 'the fastest', '{}', 6, 'session');
)sql";

TEST(StoreEnvironmentTest, AFileOfSchema1StaysReadable) {
  TestFolder folder;
  std::filesystem::create_directory(folder / "run");
  SQLite::Database(folder / "run/store.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec(kSchema1);
  for (const StoreMode mode : {StoreMode::kRead, StoreMode::kWrite}) {
    auto opened = Store::Open(folder / "run", mode);
    ASSERT_TRUE(opened) << opened.error().ToString();
    Store& store = **opened;
    EXPECT_EQ(store.RunId(), "run1");
    EXPECT_EQ(store.Fact("policy")->value(), "\"strict\"");
    EXPECT_EQ(store.Kernels()->at(0).name, "triton_poi_0");
    EXPECT_EQ(store.FindReplacement("r")->value().change, "XBLOCK 64");
    EXPECT_EQ(store.FindVerdict({"r", 2, "screen", "s", "g", "v", "default", "strict", "d"})
                  ->value()
                  .message,
              "bitwise equal");
    EXPECT_EQ(store.FindMeasurement({"r", "s", "g", "v", "default", "cold", "search", "d"})
                  ->value()
                  .samples,
              (std::vector<double>{1, 2}));
    EXPECT_EQ(store.LastStep("search")->value().state, "done");
    EXPECT_EQ(store.Decisions()->at(0).kind, "frozen");
  }
  auto fresh = Store::Open(folder / "fresh", StoreMode::kCreate);
  ASSERT_TRUE(fresh);
  EXPECT_EQ((*fresh)->Merge(folder / "run")->rows, 8);
}

}  // namespace
}  // namespace kernelopt
