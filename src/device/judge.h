// The judge: what runs and measures cubins, seen by the gates and the search.
//
// Implementations: judge/client.h (a child process on the CUDA driver API),
// shadow/shadow_judge.h (the CPU; it times nothing), the fakes of the unit tests.
// Types only carry data and convert to JSON, since they cross a pipe
// (docs/protocol.md).
//
// Errors of every call have one of the codes
//   out_of_memory  the job needs more memory than there is: not verifiable here
//   sick_device    illegal access, failed launch: the child was replaced
//   timeout        the job's limit ran out: the child was killed and replaced
//   died           the child ended by itself
//   protocol_error the child's answer can't be read
//   job_error      the job itself is wrong (a missing file, a bad record)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "device/launch_record.h"

namespace kernelopt {

struct DeviceFacts {
  std::string name;            ///< "NVIDIA H200"
  std::string uuid;            ///< "GPU-..."
  std::string mig;             ///< MIG profile or empty
  std::string driver;          ///< CUDA driver version, "13.0"
  int compute_capability = 0;  ///< 90
  int sm_count = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  int64_t shared_bytes_per_block = 0;  ///< opt-in maximum
};

/// What the doctor measures through the judge.
struct DeviceSpeeds {
  double dram_gb_s = 0;        ///< copy, bytes read + written, beyond L2
  double l2_gb_s = 0;          ///< the same within L2
  double empty_kernel_us = 0;  ///< a launch that does nothing, inside a graph
};

enum class DType {
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool
};

/// "*fp32", "fp32", "i64", "u8", "i1", "bf16" ... as Triton signatures spell it.
Result<DType> DTypeFromTriton(std::string_view name);
std::string_view ToString(DType dtype);
int SizeOf(DType dtype);  ///< bytes

/// What a storage holds before a launch.
enum class StorageRole {
  kData,    ///< loaded by the kernel: generated data, restored before each run
  kPoison,  ///< never loaded: a poison pattern, to find what isn't written
  kZeros,   ///< zero-filled by the program before the launch
};

struct StorageSpec {
  int64_t bytes = 0;
  DType dtype = DType::kFloat32;  ///< of its elements
  StorageRole role = StorageRole::kData;
  bool written = false;  ///< the kernel stores to it
  /// Legal values of an integer or bool storage, inclusive.
  int64_t int_low = 0;
  int64_t int_high = 0;
  /// Observed values of a float storage, for draws mapped into the envelope.
  bool has_envelope = false;
  double float_low = 0;
  double float_high = 0;
  /// Weights of a Welford combination (ttir/roles.h): raw draws are counts.
  bool is_weight = false;
  /// Recorded contents (integers), a file of `bytes` bytes; empty = generate.
  std::string contents_path;
};

/// One argument of the kernel's full argument list, in its order.
struct ArgumentSpec {
  enum class Kind { kStorage, kInt, kFloat };
  Kind kind = Kind::kStorage;
  int storage = -1;         ///< index into Site::storages
  int64_t byte_offset = 0;  ///< of the pointer inside the storage
  int64_t int_value = 0;
  double float_value = 0;
};

/// One call site: exact storages and aliasing (one storage may be passed in
/// several slots).
struct Site {
  std::string name;  ///< "graph 0 event 12"
  std::vector<StorageSpec> storages;
  std::vector<ArgumentSpec> arguments;
};

/// A kernel that can be launched at a site.
struct Program {
  std::string cubin_path;
  LaunchRecord record;
  std::array<int64_t, 3> grid = {1, 1, 1};  ///< CTAs (clusters x num_ctas not applied)
  std::string ttir_path{};  ///< the text that the cubin was made of, for the shadow device
};

/// The data families of gate 2 (docs/numerics.md).
enum class DataFamily {
  kUniform,
  kNormal,
  kNormalShifted,
  kLarge,
  kSmall,
  kLogUniform,
  kTies,
  kCancelling,
  kSpecial,
  kCaptured
};
std::string_view ToString(DataFamily family);
Result<DataFamily> DataFamilyFromString(std::string_view name);

/// One data set: every value is a function of (family, seed, storage, index).
struct DataSet {
  DataFamily family = DataFamily::kNormal;
  uint64_t seed = 0;
  bool in_envelope = false;  ///< mapped into the observed envelope
};

/// Limits of the error rule. z = (value - reference) / scale, scale = ulp(reference)
/// + J, J the RMS change an ulp of the reference over `perturbations` runs in which
/// every float input moves by ulps at random (element_code.h).
///
/// With a float64 twin its results are the reference and the baseline's own z the
/// yardstick (error_rule.h). Without, or where its results don't fit into the memory
/// beside the others, the baseline's results are the reference.
struct ErrorRule {
  double rms_factor = 1.5, rms_slack = 0.1;  ///< with a twin, times the baseline's
  double max_factor = 3.0, max_slack = 1.0;
  /// With a twin, allowed whatever the baseline's: as much as moving every float input
  /// by one ulp does, which no order of exact steps can be blamed for.
  double rms_floor = 1.0, max_floor = 8.0;
  double max_rms = 1.5;  ///< from here on without a twin
  double max_z = 8.0;
  /// Where an element is further off, the baseline is measured against itself: the
  /// largest z that moving every float input by one random ulp makes of it, times
  /// `own_factor` and plus 1, is allowed too, but never more than `most_z`.
  double own_factor = 3.0;
  double most_z = 24.0;
  int perturbations = 4;
  bool bitwise = false;  ///< every byte must be equal (policy `bitwise`)
};

struct CheckJob {
  Site site;
  Program baseline;
  Program candidate;
  std::optional<Program> twin;  ///< of the baseline, in float64
  /// Of the candidate: none, or what marks elements and what checks the marks
  /// (ttir/owner.h), of the storages that are loaded and written. Run once.
  std::vector<Program> owners;
  std::vector<DataSet> data;
  /// DataSetResult::checksums of an accepted check of the same pair on the same data, one
  /// a data set, or empty: results with these bits are not held to the error rule again.
  std::vector<std::vector<uint64_t>> known;
  ErrorRule rule;
  int repeats = 2;           ///< runs of the candidate that must agree bitwise
  bool guard_pages = false;  ///< storages flush against unmapped pages, both ends
  int time_limit_ms = 20000;
  /// Checks that are left out: reason codes of CheckResult, or second_poison, repeats,
  /// back_to_back, exact. Tests of the gates find out what each is needed for; nothing
  /// else sets this.
  std::set<std::string> without;
};

/// What one data set showed.
struct DataSetResult {
  DataSet data;
  bool counted = true;  ///< false: over 25 % non-finite reference values
  bool bitwise_equal = false;
  double max_z = 0;
  double rms_z = 0;
  double own_max_z = 0;  ///< of the baseline; 0 without a twin
  double own_rms_z = 0;
  int64_t elements = 0;  ///< compared float elements
  int64_t aside = 0;     ///< left out, since baseline and twin are far apart there
  /// Of all that the candidate wrote, a run under each poison that was tried.
  std::vector<uint64_t> checksums{};
};

struct CheckResult {
  /// "ok", or the reason code of the first failure: wrong_value, wrong_integer,
  /// wrong_nonfinite, wrote_outside, changed_input, not_written,
  /// not_deterministic, nothing_counted, race. On the shadow device also read_outside,
  /// read_unwritten, assertion, endless.
  std::string reason = "ok";
  std::string message;  ///< one sentence; empty when ok
  bool bitwise_equal = false;
  bool has_twin = false;  ///< the twin was the reference where bits differ
  std::vector<DataSetResult> sets;
  /// The worst element of all data sets.
  int worst_storage = -1;
  int64_t worst_index = -1;
  double worst_value = 0;
  double worst_reference = 0;
  double worst_scale = 0;
  int worst_set = -1;

  bool ok() const { return reason == "ok"; }
};

enum class CacheState { kCold, kAsInModel };

struct TimeJob {
  Site site;
  std::vector<Program> programs;  ///< the first is the baseline
  CacheState state = CacheState::kAsInModel;
  /// kAsInModel: storages that the recorded sequence used within the last
  /// L2-size bytes, oldest first; touched in this order after a flush.
  std::vector<int> touched;
  int rounds = 20;  ///< interleaved rounds over all programs
  int time_limit_ms = 20000;
  DataSet data;
};

struct TimeResult {
  /// Microseconds: one list a program, `rounds` samples each, in the order
  /// they were taken. A program that failed has an empty list and a reason.
  std::vector<std::vector<double>> samples;
  std::vector<std::string> failures;  ///< reason code a program, "" = fine
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual Result<DeviceFacts> Facts() = 0;
  virtual Result<DeviceSpeeds> Speeds() = 0;
  virtual Result<CheckResult> Check(const CheckJob& job) = 0;
  virtual Result<TimeResult> Time(const TimeJob& job) = 0;
  /// Gives all device memory back, so that another tenant of the GPU can run.
  virtual Status Release() = 0;
};

Json ToJson(const DeviceFacts& facts);
Result<DeviceFacts> DeviceFactsFromJson(const Json& json);
Json ToJson(const DeviceSpeeds& speeds);
Result<DeviceSpeeds> DeviceSpeedsFromJson(const Json& json);
Json ToJson(const CheckJob& job);
Result<CheckJob> CheckJobFromJson(const Json& json);
Json ToJson(const CheckResult& result);
Result<CheckResult> CheckResultFromJson(const Json& json);
Json ToJson(const TimeJob& job);
Result<TimeJob> TimeJobFromJson(const Json& json);
Json ToJson(const TimeResult& result);
Result<TimeResult> TimeResultFromJson(const Json& json);

}  // namespace kernelopt
