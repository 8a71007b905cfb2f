// The run folder: what a run did and found, in SQLite, and large or binary
// things beside it as content-addressed files. docs/store-schema.md has the
// layout and its reasons.
//
//   auto store = KOPT_TRY(Store::Open("runs/m", StoreMode::kCreate, {.session = id}));
//   if (auto known = KOPT_TRY(store->FindVerdict(key))) return *known;   // resumed: not again
//   Batch batch;                                     // one candidate = one transaction
//   batch.replacements.push_back(...); batch.verdicts.push_back(...);
//   KOPT_CHECK_OK(store->Record(std::move(batch)));
//
// Everything is append-only and named by content hashes, so that recording the
// same thing twice changes nothing and two stores join by insert-or-ignore
// (Merge). The store knows no words of the layers above: JSON goes in and out
// as text, hashes as 64 hexadecimal digits, samples as doubles.
//
// Not thread-safe: one Store is used from one thread. Errors of every call:
// kEnvironment disk_full | not_writable | corrupt_store | store_busy |
// io_error, kInternal bad_record (a text that must be JSON isn't).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kernelopt {

inline constexpr int kStoreSchema = 1;

enum class StoreMode {
  kCreate,  ///< makes the folder and the store where they are missing; locks the folder
  kWrite,   ///< goes on with a store that exists; locks the folder
  kRead,    ///< looks only: no lock, no change, works beside a running run
};

struct StoreOptions {
  std::string session;  ///< names this process's rows; empty = a random one is made
  std::function<int64_t()> now_us = {};  ///< Unix time in microseconds; empty = the system's clock
};

/// A compiler's kernel as this run met it.
struct KernelRecord {
  std::string key;            ///< canonical key
  std::string name;           ///< name in the generated module
  std::string detail = "{}";  ///< JSON: launches, times, floor, configuration (src/report/report.h)
};

struct ReplacementRecord {
  std::string id;           ///< content hash
  std::string kernel;       ///< canonical key of the kernel that it replaces
  std::string origin;       ///< rule or model; of the first who found it
  std::string change;       ///< one sentence
  std::string body = "{}";  ///< JSON: the whole replacement
};

/// What a verdict is about. All of it together names it: another data version
/// or another triton is another verdict.
struct VerdictKey {
  std::string subject;  ///< replacement, or hash of the set of them (gates 3 and 4)
  int gate = 0;         ///< 1 to 4
  std::string stage;    ///< "screen" | "certify" | "model" ...
  std::string site;     ///< hash of the storage signature; "" where it doesn't apply
  std::string gpu;      ///< GPU id; "" without one
  std::string versions;
  std::string variant;
  std::string policy;
  std::string data_version;

  bool operator==(const VerdictKey&) const = default;
};

struct VerdictRecord {
  VerdictKey key;
  std::string kernel;  ///< canonical key; "" for a verdict on a set
  bool accepted = false;
  /// false: nothing was learned about the subject (out of memory, sick
  /// device); it is shown, but doesn't keep it from being judged again.
  bool final = true;
  std::string reason;
  std::string message;
  std::string evidence = "{}";  ///< JSON; large parts as blobs, named by hash
  // Filled in by the store.
  int64_t at_us = 0;
  std::string host, session;
};

struct MeasurementKey {
  std::string subject;  ///< replacement, set, or "baseline:" and the kernel's key
  std::string site;
  std::string gpu;
  std::string versions;
  std::string variant;
  std::string state;    ///< "cold" | "as_in_model" | "model" ...
  std::string purpose;  ///< "search" | "gate4" | "confirm" ...
  std::string data_version;

  bool operator==(const MeasurementKey&) const = default;
};

struct MeasurementRecord {
  MeasurementKey key;
  std::string kernel;
  /// Measurements that were interleaved, and may be compared with one another,
  /// share one batch.
  std::string batch;
  std::string unit = "us";
  std::vector<double> samples;  ///< raw, in the order in which they were taken
  std::string gpu_uuid;
  std::string detail = "{}";  ///< JSON
  // Filled in by the store.
  int64_t at_us = 0;
  std::string host, session;
};

/// One change of a step's state: "started", "done", "failed", "skipped",
/// "interrupted". A step's story is all of its rows in order.
struct StepRecord {
  std::string name;
  std::string state;
  std::string detail = "{}";  ///< JSON
  int64_t at_us = 0;          ///< filled in by the store
  std::string session;        ///< filled in by the store
};

/// One line of the search log.
struct DecisionRecord {
  std::string kernel;  ///< canonical key, or ""
  std::string kind;    ///< "kept" | "frozen" | "dropped" | "stopped" ...
  std::string message;
  std::string detail = "{}";  ///< JSON
  int64_t at_us = 0;          ///< filled in by the store
  std::string session;        ///< filled in by the store
};

/// Rows that are recorded together or not at all.
struct Batch {
  std::vector<KernelRecord> kernels;
  std::vector<ReplacementRecord> replacements;
  std::vector<VerdictRecord> verdicts;
  std::vector<MeasurementRecord> measurements;
  std::vector<StepRecord> steps;
  std::vector<DecisionRecord> decisions;
  std::vector<std::pair<std::string, std::string>> facts;  ///< key -> JSON
};

struct MergeCounts {
  int64_t rows = 0;   ///< rows that were new here
  int64_t blobs = 0;  ///< blobs that were new here
};

class Store {
 public:
  /// Further errors: kUsage "no_such_run" (kWrite, kRead), "run_in_use" with
  /// the holder's process id, "newer_schema", "not_a_store".
  static Result<std::unique_ptr<Store>> Open(const std::string& folder, StoreMode mode,
                                             StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& Folder() const;
  const std::string& RunId() const;  ///< this folder's run, random, made with it
  const std::string& Session() const;

  /// All rows in one transaction, on disk when it returns.
  Status Record(Batch batch);
  Status RecordKernel(KernelRecord record);
  Status RecordReplacement(ReplacementRecord record);
  Status RecordVerdict(VerdictRecord record);
  Status RecordMeasurement(MeasurementRecord record);
  Status RecordStep(StepRecord record);
  Status RecordDecision(DecisionRecord record);

  /// Run metadata: the last value set wins, all of them stay on record.
  Status SetFact(const std::string& key, const std::string& json);
  Result<std::optional<std::string>> Fact(const std::string& key) const;
  Result<std::map<std::string, std::string>> Facts() const;

  /// This run's kernels, in the order of their keys.
  Result<std::vector<KernelRecord>> Kernels() const;
  /// This run's steps and decisions, in the order of time.
  Result<std::vector<StepRecord>> Steps() const;
  Result<std::optional<StepRecord>> LastStep(const std::string& name) const;
  Result<std::vector<DecisionRecord>> Decisions() const;

  Result<std::optional<ReplacementRecord>> FindReplacement(const std::string& id) const;
  Result<std::vector<ReplacementRecord>> Replacements(const std::string& kernel) const;

  /// The verdict that counts among the final ones with this key: a rejection
  /// before an acceptance, then the earliest.
  Result<std::optional<VerdictRecord>> FindVerdict(const VerdictKey& key) const;
  /// Every verdict on a kernel ("" = on sets), oldest first.
  Result<std::vector<VerdictRecord>> AllVerdicts(const std::string& kernel) const;
  /// Every verdict on a subject, oldest first.
  Result<std::vector<VerdictRecord>> VerdictsOn(const std::string& subject) const;

  /// The earliest measurement with this key, so that a resumed run decides
  /// from the same samples as the run that was killed.
  Result<std::optional<MeasurementRecord>> FindMeasurement(const MeasurementKey& key) const;
  Result<std::vector<MeasurementRecord>> Measurements(const std::string& kernel) const;

  /// Stores bytes under their SHA-256, which is returned. Done before the row
  /// that names them, so that no row names a blob that isn't there.
  Result<std::string> WriteBlob(std::string_view bytes);
  /// Errors: kUsage "no_such_blob"; kEnvironment "corrupt_store" when the
  /// bytes are not those of the name.
  Result<std::string> ReadBlob(const std::string& hash) const;
  /// Where a blob lies, for a process that reads it.
  std::string BlobPath(const std::string& hash) const;

  /// Takes over all rows and blobs of another run folder that are not here.
  Result<MergeCounts> Merge(const std::string& other_folder);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelopt
