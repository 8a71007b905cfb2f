#include "store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>
#include <fmt/format.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/fail_point.h"
#include "base/file.h"
#include "base/hash.h"
#include "store/blobs.h"
#include "store/run_lock.h"
#include "store/schema.h"
#include "store/sqlite_error.h"

static_assert(std::endian::native == std::endian::little, "samples are stored little-endian");

namespace kernelopt {
namespace {
namespace fs = std::filesystem;

std::string DatabasePath(const std::string& folder) {
  return folder + "/store.db";
}
std::string BlobFolder(const std::string& folder) {
  return folder + "/blobs";
}

std::string RandomId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string HostName() {
  std::array<char, 128> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Names a row by all of its fields: each with its length, so that no two
/// different lists of fields give the same bytes.
std::string RowId(std::string_view table, std::initializer_list<std::string_view> fields) {
  std::string bytes(table);
  for (const std::string_view field : fields) {
    bytes += fmt::format("|{}:", field.size());
    bytes += field;
  }
  return Sha256Hex(bytes);
}

/// A database opened without writing. A folder that can't be written has no
/// room for WAL's shared memory; where there is no log either, the file can't
/// change and is read as it is.
std::string ReadOnlyUri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  const bool quiet = access(fs::path(path).parent_path().c_str(), W_OK) != 0 &&
                     !PathExists(path + "-wal") && !PathExists(path + "-journal");
  return uri + (quiet ? "?mode=ro&immutable=1" : "?mode=ro");
}

Error FromException(const SQLite::Exception& e, const std::string& path) {
  const int extended = e.getExtendedErrorCode();
  return store::StoreError(extended > 0 ? extended : e.getErrorCode(), e.what(), path,
                           store::DiskIsFull(fs::path(path).parent_path()));
}

/// Runs `work` (which gives a Result) and turns SQLite's exceptions, which
/// must not leave this folder, into errors.
template <typename Work>
auto Guard(const std::string& path, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const SQLite::Exception& e) {
    return std::unexpected(FromException(e, path));
  }
}

Status CheckSchema(SQLite::Database& db, const std::string& path) {
  const int application = db.execAndGet("PRAGMA application_id").getInt();
  const int schema = db.execAndGet("PRAGMA user_version").getInt();
  if (application != store::kApplicationId) {
    return Fail(ErrorKind::kUsage, "not_a_store",
                "the database was not made by kernelopt; choose another folder with --out", path);
  }
  if (schema > kStoreSchema) {
    return Fail(ErrorKind::kUsage, "newer_schema",
                fmt::format("the store has schema {} and this kernelopt reads up to {}; open it "
                            "with the kernelopt that wrote it",
                            schema, kStoreSchema),
                path);
  }
  return {};
}

void ChooseJournal(SQLite::Database& db, const std::string& folder) {
  struct statfs info;
  const bool network = statfs(folder.c_str(), &info) == 0 &&
                       store::IsNetworkFileSystem(static_cast<uint64_t>(info.f_type));
  if (network) {
    // Exclusive first: a store that was moved here in WAL mode is then read
    // and converted without shared memory.
    db.exec("PRAGMA locking_mode=EXCLUSIVE");
    db.execAndGet("PRAGMA journal_mode=DELETE");
    db.exec("PRAGMA locking_mode=NORMAL");
  } else {
    db.execAndGet("PRAGMA journal_mode=WAL");
  }
  db.exec("PRAGMA synchronous=FULL");
}

Status CheckPages(SQLite::Database& db, const std::string& path) {
  const std::string found = db.execAndGet("PRAGMA quick_check(1)").getString();
  if (found == "ok") return {};
  return Fail(ErrorKind::kEnvironment, "corrupt_store",
              fmt::format("the store is damaged ({}); move the folder away and run again",
                          found.substr(0, found.find('\n'))),
              path);
}

std::string SampleBytes(const std::vector<double>& samples) {
  return std::string(reinterpret_cast<const char*>(samples.data()),
                     samples.size() * sizeof(double));
}

constexpr const char* kVerdictColumns =
    "subject, gate, stage, site, gpu, versions, variant, policy, data_version, kernel, accepted, "
    "final, reason, message, evidence, at_us, host, session";

VerdictRecord ReadVerdict(SQLite::Statement& row) {
  VerdictRecord v;
  v.key = {
      row.getColumn(0).getString(), row.getColumn(1).getInt(),    row.getColumn(2).getString(),
      row.getColumn(3).getString(), row.getColumn(4).getString(), row.getColumn(5).getString(),
      row.getColumn(6).getString(), row.getColumn(7).getString(), row.getColumn(8).getString()};
  v.kernel = row.getColumn(9).getString();
  v.accepted = row.getColumn(10).getInt() != 0;
  v.final = row.getColumn(11).getInt() != 0;
  v.reason = row.getColumn(12).getString();
  v.message = row.getColumn(13).getString();
  v.evidence = row.getColumn(14).getString();
  v.at_us = row.getColumn(15).getInt64();
  v.host = row.getColumn(16).getString();
  v.session = row.getColumn(17).getString();
  return v;
}

constexpr const char* kMeasurementColumns =
    "subject, site, gpu, versions, variant, state, purpose, data_version, kernel, batch, unit, "
    "samples, gpu_uuid, detail, at_us, host, session";

MeasurementRecord ReadMeasurement(SQLite::Statement& row) {
  MeasurementRecord m;
  m.key = {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
           row.getColumn(3).getString(), row.getColumn(4).getString(), row.getColumn(5).getString(),
           row.getColumn(6).getString(), row.getColumn(7).getString()};
  m.kernel = row.getColumn(8).getString();
  m.batch = row.getColumn(9).getString();
  m.unit = row.getColumn(10).getString();
  const SQLite::Column samples = row.getColumn(11);
  m.samples.resize(static_cast<size_t>(samples.getBytes()) / sizeof(double));
  if (!m.samples.empty()) {
    std::memcpy(m.samples.data(), samples.getBlob(), m.samples.size() * sizeof(double));
  }
  m.gpu_uuid = row.getColumn(12).getString();
  m.detail = row.getColumn(13).getString();
  m.at_us = row.getColumn(14).getInt64();
  m.host = row.getColumn(15).getString();
  m.session = row.getColumn(16).getString();
  return m;
}

ReplacementRecord ReadReplacement(SQLite::Statement& row) {
  return {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
          row.getColumn(3).getString(), row.getColumn(4).getString()};
}

StepRecord ReadStep(SQLite::Statement& row) {
  return {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
          row.getColumn(3).getInt64(), row.getColumn(4).getString()};
}

}  // namespace

struct Store::Impl {
  std::string folder;
  std::string path;
  std::string run, session, host;
  std::function<int64_t()> now_us;
  int64_t last_us = 0;
  store::RunLock lock;
  std::optional<SQLite::Database> db;

  /// Later than everything this run has on record, so that "the last" and "in
  /// order" are meant as one would expect even when the clock is set back.
  int64_t Now() {
    last_us = std::max(now_us(), last_us + 1);
    return last_us;
  }

  Status Create();
  Status ReadRun();

  template <typename... Values>
  void Insert(const char* sql, const Values&... values) {
    SQLite::Statement statement(*db, sql);
    SQLite::bind(statement, values...);
    statement.exec();
  }

  template <typename Row, typename... Values>
  Result<std::vector<Row>> Query(Row (*read)(SQLite::Statement&), const std::string& sql,
                                 const Values&... values) {
    return Guard(path, [&]() -> Result<std::vector<Row>> {
      std::vector<Row> rows;
      SQLite::Statement statement(*db, sql);
      if constexpr (sizeof...(values) > 0) SQLite::bind(statement, values...);
      while (statement.executeStep()) rows.push_back(read(statement));
      return rows;
    });
  }

  void Put(const KernelRecord& k) {
    Insert("INSERT INTO kernels VALUES(?,?,?,?) ON CONFLICT DO NOTHING", run, k.key, k.name,
           k.detail);
  }
  void Put(const ReplacementRecord& r) {
    Insert("INSERT INTO replacements VALUES(?,?,?,?,?) ON CONFLICT DO NOTHING", r.id, r.kernel,
           r.origin, r.change, r.body);
  }
  void Put(const VerdictRecord& v) {
    const int64_t at = Now();
    const VerdictKey& k = v.key;
    const std::string id =
        RowId("verdicts",
              {k.subject, std::to_string(k.gate), k.stage, k.site, k.gpu, k.versions, k.variant,
               k.policy, k.data_version, v.kernel, v.accepted ? "1" : "0", v.final ? "1" : "0",
               v.reason, v.message, v.evidence, std::to_string(at), host, session});
    Insert(
        "INSERT INTO verdicts VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        id, k.subject, k.gate, k.stage, k.site, k.gpu, k.versions, k.variant, k.policy,
        k.data_version, v.kernel, int{v.accepted}, int{v.final}, v.reason, v.message, v.evidence,
        at, host, session);
  }
  void Put(const MeasurementRecord& m) {
    const int64_t at = Now();
    const MeasurementKey& k = m.key;
    const std::string samples = SampleBytes(m.samples);
    const std::string id =
        RowId("measurements", {k.subject, k.site, k.gpu, k.versions, k.variant, k.state, k.purpose,
                               k.data_version, m.kernel, m.batch, m.unit, samples, m.gpu_uuid,
                               m.detail, std::to_string(at), host, session});
    SQLite::Statement statement(*db,
                                "INSERT INTO measurements "
                                "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) "
                                "ON CONFLICT DO NOTHING");
    SQLite::bind(statement, id, k.subject, k.site, k.gpu, k.versions, k.variant, k.state, k.purpose,
                 k.data_version, m.kernel, m.batch, m.unit);
    statement.bind(13, static_cast<const void*>(samples.data()), static_cast<int>(samples.size()));
    statement.bind(14, m.gpu_uuid);
    statement.bind(15, m.detail);
    statement.bind(16, at);
    statement.bind(17, host);
    statement.bind(18, session);
    statement.exec();
  }
  void Put(const StepRecord& s) {
    const int64_t at = Now();
    Insert("INSERT INTO steps VALUES(?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
           RowId("steps", {run, s.name, s.state, s.detail, std::to_string(at), session}), run,
           s.name, s.state, s.detail, at, session);
  }
  void Put(const DecisionRecord& d) {
    const int64_t at = Now();
    Insert("INSERT INTO decisions VALUES(?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
           RowId("decisions",
                 {run, d.kernel, d.kind, d.message, d.detail, std::to_string(at), session}),
           run, d.kernel, d.kind, d.message, d.detail, at, session);
  }
  void Put(const std::pair<std::string, std::string>& fact) {
    const int64_t at = Now();
    Insert("INSERT INTO facts VALUES(?,?,?,?,?) ON CONFLICT DO NOTHING",
           RowId("facts", {run, fact.first, fact.second, std::to_string(at)}), run, fact.first,
           fact.second, at);
  }
};

Status Store::Impl::Create() {
  SQLite::Transaction transaction(*db);
  db->exec(store::kSchemaSql);
  db->exec(fmt::format("PRAGMA application_id={}", store::kApplicationId));
  db->exec(fmt::format("PRAGMA user_version={}", kStoreSchema));
  const std::string id = RandomId();
  Insert("INSERT INTO self VALUES(?)", id);
  Insert("INSERT INTO runs VALUES(?,?,?)", id, host, now_us());
  FailPoint("store.create");
  transaction.commit();
  return {};
}

Status Store::Impl::ReadRun() {
  SQLite::Statement self(*db, "SELECT run FROM self");
  if (!self.executeStep()) {
    return Fail(ErrorKind::kEnvironment, "corrupt_store",
                "the store doesn't name its run; move the folder away and run again", path);
  }
  run = self.getColumn(0).getString();
  for (const char* table : {"facts", "steps", "decisions"}) {
    SQLite::Statement last(*db, fmt::format("SELECT max(at_us) FROM {} WHERE run=?", table));
    last.bind(1, run);
    if (last.executeStep()) last_us = std::max<int64_t>(last_us, last.getColumn(0).getInt64());
  }
  return {};
}

Result<std::unique_ptr<Store>> Store::Open(const std::string& folder, StoreMode mode,
                                           StoreOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->path = DatabasePath(folder);
  impl->host = HostName();
  impl->session = options.session.empty() ? RandomId() : std::move(options.session);
  impl->now_us = options.now_us ? std::move(options.now_us) : [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  if (mode != StoreMode::kCreate && !PathExists(impl->path)) {
    return Fail(ErrorKind::kUsage, "no_such_run",
                "there is no run in this folder; give the folder that `kernelopt optimize` named",
                folder);
  }
  if (mode == StoreMode::kCreate) KOPT_CHECK_OK(MakeFolder(folder));
  if (mode != StoreMode::kRead) {
    impl->lock = KOPT_TRY(store::RunLock::Take(folder));
    RemoveLeftovers(folder);
  }
  constexpr int kBusyMilliseconds = 5000;
  KOPT_CHECK_OK(Guard(impl->path, [&]() -> Status {
    if (mode == StoreMode::kRead) {
      impl->db.emplace(ReadOnlyUri(impl->path), SQLite::OPEN_READONLY | SQLite::OPEN_URI,
                       kBusyMilliseconds);
      KOPT_CHECK_OK(CheckSchema(*impl->db, impl->path));
      return impl->ReadRun();
    }
    impl->db.emplace(impl->path,
                     SQLite::OPEN_READWRITE | SQLite::OPEN_URI |
                         (mode == StoreMode::kCreate ? SQLite::OPEN_CREATE : 0),
                     kBusyMilliseconds);
    // Nothing is written, not even the journal's mode, to a file that isn't ours.
    const bool empty = impl->db->execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
    if (!empty || mode == StoreMode::kWrite) KOPT_CHECK_OK(CheckSchema(*impl->db, impl->path));
    KOPT_CHECK_OK(CheckPages(*impl->db, impl->path));
    ChooseJournal(*impl->db, impl->folder);
    if (empty) KOPT_CHECK_OK(impl->Create());
    return impl->ReadRun();
  }));
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

const std::string& Store::Folder() const {
  return impl_->folder;
}
const std::string& Store::RunId() const {
  return impl_->run;
}
const std::string& Store::Session() const {
  return impl_->session;
}

Status Store::Record(Batch batch) {
  return Guard(impl_->path, [&]() -> Status {
    SQLite::Transaction transaction(*impl_->db);
    for (const auto& row : batch.kernels) impl_->Put(row);
    for (const auto& row : batch.replacements) impl_->Put(row);
    for (const auto& row : batch.measurements) impl_->Put(row);
    for (const auto& row : batch.verdicts) impl_->Put(row);
    for (const auto& row : batch.decisions) impl_->Put(row);
    for (const auto& row : batch.facts) impl_->Put(row);
    for (const auto& row : batch.steps) impl_->Put(row);
    FailPoint("store.record");
    transaction.commit();
    FailPoint("store.done");
    return {};
  });
}

Status Store::RecordKernel(KernelRecord record) {
  Batch batch;
  batch.kernels.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::RecordReplacement(ReplacementRecord record) {
  Batch batch;
  batch.replacements.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::RecordVerdict(VerdictRecord record) {
  Batch batch;
  batch.verdicts.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::RecordMeasurement(MeasurementRecord record) {
  Batch batch;
  batch.measurements.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::RecordStep(StepRecord record) {
  Batch batch;
  batch.steps.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::RecordDecision(DecisionRecord record) {
  Batch batch;
  batch.decisions.push_back(std::move(record));
  return Record(std::move(batch));
}
Status Store::SetFact(const std::string& key, const std::string& json) {
  Batch batch;
  batch.facts.emplace_back(key, json);
  return Record(std::move(batch));
}

Result<std::map<std::string, std::string>> Store::Facts() const {
  using Fact = std::pair<std::string, std::string>;
  const auto rows = KOPT_TRY(impl_->Query<Fact>(
      [](SQLite::Statement& row) {
        return Fact(row.getColumn(0).getString(), row.getColumn(1).getString());
      },
      "SELECT key, value FROM facts WHERE run=? ORDER BY at_us, id", impl_->run));
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : rows) facts[key] = value;
  return facts;
}

Result<std::optional<std::string>> Store::Fact(const std::string& key) const {
  auto rows = KOPT_TRY(impl_->Query<std::string>(
      [](SQLite::Statement& row) { return row.getColumn(0).getString(); },
      "SELECT value FROM facts WHERE run=? AND key=? ORDER BY at_us DESC, id DESC LIMIT 1",
      impl_->run, key));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

Result<std::vector<KernelRecord>> Store::Kernels() const {
  return impl_->Query<KernelRecord>(
      [](SQLite::Statement& row) {
        return KernelRecord{row.getColumn(0).getString(), row.getColumn(1).getString(),
                            row.getColumn(2).getString()};
      },
      "SELECT key, name, detail FROM kernels WHERE run=? ORDER BY key", impl_->run);
}

Result<std::vector<StepRecord>> Store::Steps() const {
  return impl_->Query(ReadStep,
                      "SELECT name, state, detail, at_us, session FROM steps WHERE run=? "
                      "ORDER BY at_us, id",
                      impl_->run);
}

Result<std::optional<StepRecord>> Store::LastStep(const std::string& name) const {
  auto rows = KOPT_TRY(impl_->Query(ReadStep,
                                    "SELECT name, state, detail, at_us, session FROM steps "
                                    "WHERE run=? AND name=? ORDER BY at_us DESC, id DESC LIMIT 1",
                                    impl_->run, name));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

Result<std::vector<DecisionRecord>> Store::Decisions() const {
  return impl_->Query<DecisionRecord>(
      [](SQLite::Statement& row) {
        return DecisionRecord{row.getColumn(0).getString(), row.getColumn(1).getString(),
                              row.getColumn(2).getString(), row.getColumn(3).getString(),
                              row.getColumn(4).getInt64(),  row.getColumn(5).getString()};
      },
      "SELECT kernel, kind, message, detail, at_us, session FROM decisions WHERE run=? "
      "ORDER BY at_us, id",
      impl_->run);
}

Result<std::optional<ReplacementRecord>> Store::FindReplacement(const std::string& id) const {
  auto rows = KOPT_TRY(impl_->Query(
      ReadReplacement, "SELECT id, kernel, origin, change, body FROM replacements WHERE id=?", id));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

Result<std::vector<ReplacementRecord>> Store::Replacements(const std::string& kernel) const {
  return impl_->Query(
      ReadReplacement,
      "SELECT id, kernel, origin, change, body FROM replacements WHERE kernel=? ORDER BY id",
      kernel);
}

Result<std::optional<VerdictRecord>> Store::FindVerdict(const VerdictKey& key) const {
  auto rows = KOPT_TRY(impl_->Query(
      ReadVerdict,
      fmt::format("SELECT {} FROM verdicts WHERE subject=? AND gate=? AND stage=? AND site=? AND "
                  "gpu=? AND versions=? AND variant=? AND policy=? AND data_version=? AND final=1 "
                  "ORDER BY accepted, at_us, id LIMIT 1",
                  kVerdictColumns),
      key.subject, key.gate, key.stage, key.site, key.gpu, key.versions, key.variant, key.policy,
      key.data_version));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

Result<std::vector<VerdictRecord>> Store::AllVerdicts(const std::string& kernel) const {
  return impl_->Query(
      ReadVerdict,
      fmt::format("SELECT {} FROM verdicts WHERE kernel=? ORDER BY at_us, id", kVerdictColumns),
      kernel);
}

Result<std::vector<VerdictRecord>> Store::VerdictsOn(const std::string& subject) const {
  return impl_->Query(
      ReadVerdict,
      fmt::format("SELECT {} FROM verdicts WHERE subject=? ORDER BY at_us, id", kVerdictColumns),
      subject);
}

Result<std::optional<MeasurementRecord>> Store::FindMeasurement(const MeasurementKey& key) const {
  auto rows = KOPT_TRY(impl_->Query(
      ReadMeasurement,
      fmt::format("SELECT {} FROM measurements WHERE subject=? AND site=? AND gpu=? AND versions=? "
                  "AND variant=? AND state=? AND purpose=? AND data_version=? "
                  "ORDER BY at_us, id LIMIT 1",
                  kMeasurementColumns),
      key.subject, key.site, key.gpu, key.versions, key.variant, key.state, key.purpose,
      key.data_version));
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

Result<std::vector<MeasurementRecord>> Store::Measurements(const std::string& kernel) const {
  return impl_->Query(ReadMeasurement,
                      fmt::format("SELECT {} FROM measurements WHERE kernel=? ORDER BY at_us, id",
                                  kMeasurementColumns),
                      kernel);
}

Result<std::string> Store::WriteBlob(std::string_view bytes) {
  return store::WriteBlob(BlobFolder(impl_->folder), bytes);
}
Result<std::string> Store::ReadBlob(const std::string& hash) const {
  return store::ReadBlob(BlobFolder(impl_->folder), hash);
}
std::string Store::BlobPath(const std::string& hash) const {
  return store::BlobPath(BlobFolder(impl_->folder), hash);
}

Result<MergeCounts> Store::Merge(const std::string& other_folder) {
  // Opened once by itself for its errors: no store, newer schema, damaged.
  KOPT_TRY(Open(other_folder, StoreMode::kRead));
  MergeCounts counts;
  counts.blobs =
      KOPT_TRY(store::CopyMissingBlobs(BlobFolder(other_folder), BlobFolder(impl_->folder)));
  return Guard(impl_->path, [&]() -> Result<MergeCounts> {
    SQLite::Database& db = *impl_->db;
    impl_->Insert("ATTACH ? AS other", ReadOnlyUri(DatabasePath(other_folder)));
    struct Detach {
      SQLite::Database& db;
      ~Detach() { db.tryExec("DETACH other"); }
    } detach{db};
    SQLite::Transaction transaction(db);
    for (const std::string& table : store::kMergedTables) {
      counts.rows += db.exec(fmt::format(
          "INSERT INTO main.{0} SELECT * FROM other.{0} WHERE true ON CONFLICT DO NOTHING", table));
    }
    FailPoint("store.merge");
    transaction.commit();
    return counts;
  });
}

}  // namespace kernelopt
