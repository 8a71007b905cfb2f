#include "device/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "device/data.h"
#include "device/site_memory.h"

namespace kernelopt {
namespace {

/// Outputs with fewer elements are pooled over all families.
constexpr int64_t kSmallOutput = 256;

/// The root mean square of four changes is far too small for one element in
/// some thousands; before a value is called wrong there are this many times more.
constexpr int kSecondLook = 5;

struct Pool {
  double sum_z2 = 0;
  int64_t elements = 0;
  int last_set = -1;
  double Rms() const {
    return elements > 0 ? std::sqrt(sum_z2 / static_cast<double>(elements)) : 0;
  }
};

class Checker {
 public:
  Checker(KernelRuntime& runtime, const CheckJob& job) : runtime_(runtime), job_(job) {}
  ~Checker();

  Status Prepare();
  /// All data sets in one placement. False: the verdict is in result().
  Result<bool> RunPlacement(Placement placement);
  Result<CheckResult> Finish();

 private:
  struct Output {
    int storage = -1;
    int64_t count = 0;
    DType dtype = DType::kFloat32;
    Allocation reference;
    Allocation conditioning;  ///< no bytes for integers
  };

  Result<bool> RunSet(int set);
  Status Launch(bool candidate);
  /// The baseline's run under `poison`; its outputs become the reference.
  Status MakeReference(const DataSet& data, int poison);
  /// Clears the conditioning and adds `runs` perturbed runs of the baseline.
  Status MakeConditioning(const DataSet& data, int runs);
  /// A fresh run of the candidate under `poison` against the reference; false: a
  /// verdict was reached.
  Result<bool> RunCandidate(int set, int poison);
  Result<std::vector<uint64_t>> OutputChecksums();
  /// Compares the outputs with the reference; false: a verdict was reached.
  Result<bool> Compare(int set, int poison);
  bool Judge(int set, const Output& output, const KoptStats& stats);
  /// Whether what must not change did not; false: a verdict was reached.
  Result<bool> CheckGuarded(int set, bool candidate);
  void Reject(std::string_view reason, int set, int storage, int64_t index, std::string message);
  Status ReadWorst(const Output& output, int64_t index);

  KernelRuntime& runtime_;
  const CheckJob& job_;
  CheckResult result_;
  int baseline_ = -1;
  int candidate_ = -1;
  std::unique_ptr<SiteMemory> memory_;
  std::vector<Output> outputs_;
  std::vector<uint64_t> guarded_before_;
  bool perturbs_ = false;
  int perturbations_ = 0;  ///< runs that the conditioning is made of
  bool baseline_deterministic_ = true;
  bool refill_needed_ = false;  ///< a storage is both loaded and written
  bool has_poisoned_output_ = false;
  bool reporting_ = true;  ///< the first placement fills result_.sets
  std::map<std::pair<int, DataFamily>, Pool> pools_;
  double worst_z_ = -1;
};

Checker::~Checker() {
  for (const Output& output : outputs_) {
    runtime_.Free(output.reference);
    if (output.conditioning.storage.bytes > 0) runtime_.Free(output.conditioning);
  }
  if (baseline_ >= 0) runtime_.Unload(baseline_);
  if (candidate_ >= 0) runtime_.Unload(candidate_);
}

/// Adds who is to blame to an error.
Error Blame(Error error, bool candidate) {
  error.where = candidate ? "candidate" : "baseline";
  return error;
}

Status Checker::Prepare() {
  if (job_.repeats < 1 || job_.rule.perturbations < 0) {
    return Fail(ErrorKind::kUsage, "job_error",
                fmt::format("{} repeats and {} perturbations, wanted at least 1 and 0",
                            job_.repeats, job_.rule.perturbations));
  }
  for (bool candidate : {false, true}) {
    auto kernel = runtime_.Load(candidate ? job_.candidate : job_.baseline);
    if (!kernel) return std::unexpected(Blame(std::move(kernel).error(), candidate));
    (candidate ? candidate_ : baseline_) = *kernel;
  }
  const std::vector<StorageSpec>& storages = job_.site.storages;
  for (size_t i = 0; i < storages.size(); ++i) {
    const StorageSpec& spec = storages[i];
    const bool is_float = KoptIsFloat(static_cast<int>(spec.dtype));
    if (spec.role == StorageRole::kData && is_float && spec.contents_path.empty()) {
      perturbs_ = !job_.rule.bitwise && job_.rule.perturbations > 0;
    }
    if (!spec.written || spec.bytes == 0) continue;
    if (spec.role == StorageRole::kPoison) has_poisoned_output_ = true;
    if (spec.role == StorageRole::kData || spec.role == StorageRole::kZeros) refill_needed_ = true;
    Output& output = outputs_.emplace_back();
    output.storage = static_cast<int>(i);
    output.dtype = spec.dtype;
    output.count = spec.bytes / SizeOf(spec.dtype);
  }
  if (outputs_.empty()) {
    return Fail(ErrorKind::kUsage, "job_error", "the site has no written storage", job_.site.name);
  }
  for (Output& output : outputs_) {
    const int64_t bytes = output.count * SizeOf(output.dtype);
    output.reference = KOPT_TRY(runtime_.Allocate(bytes, Placement::kMiddle));
  }
  if (perturbs_) {
    for (Output& output : outputs_) {
      if (!KoptIsFloat(static_cast<int>(output.dtype))) continue;
      output.conditioning = KOPT_TRY(runtime_.Allocate(4 * output.count, Placement::kMiddle));
    }
  }
  return {};
}

Status Checker::Launch(bool candidate) {
  Status status = runtime_.Launch({candidate ? candidate_ : baseline_, memory_->Arguments()});
  if (status) status = runtime_.Synchronize();
  if (!status) return std::unexpected(Blame(std::move(status).error(), candidate));
  return {};
}

Status Checker::MakeReference(const DataSet& data, int poison) {
  KOPT_CHECK_OK(memory_->Prepare(data, poison));
  guarded_before_ = KOPT_TRY(runtime_.Checksums(memory_->guarded()));
  KOPT_CHECK_OK(Launch(false));
  const std::vector<uint64_t> after = KOPT_TRY(runtime_.Checksums(memory_->guarded()));
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == guarded_before_[i]) continue;
    return Fail(
        ErrorKind::kUsage, "job_error",
        fmt::format("the compiler's kernel writes {} storage {}, which the site does not "
                    "say; its roles are wrong",
                    memory_->GuardedIsCanary(i) ? "outside" : "to", memory_->GuardedStorage(i)),
        "baseline");
  }
  for (const Output& output : outputs_) {
    KOPT_CHECK_OK(runtime_.CopyOnDevice(output.reference.storage.pointer,
                                        memory_->storage(output.storage).pointer,
                                        output.count * SizeOf(output.dtype)));
  }
  return {};
}

Status Checker::MakeConditioning(const DataSet& data, int runs) {
  if (!perturbs_) return {};
  perturbations_ = runs;
  for (const Output& output : outputs_) {
    if (output.conditioning.storage.bytes > 0) {
      KOPT_CHECK_OK(runtime_.FillBytes(output.conditioning.storage, 0));
    }
  }
  for (int run = 1; run <= runs; ++run) {
    KOPT_CHECK_OK(memory_->Prepare(data, 0, run));
    KOPT_CHECK_OK(Launch(false));
    for (const Output& output : outputs_) {
      if (output.conditioning.storage.bytes == 0) continue;
      KOPT_CHECK_OK(runtime_.AddConditioning(
          output.conditioning.storage.pointer, memory_->storage(output.storage).pointer,
          output.reference.storage.pointer, output.count, output.dtype));
    }
  }
  return {};
}

Result<std::vector<uint64_t>> Checker::OutputChecksums() {
  std::vector<Region> regions;
  for (const Output& output : outputs_) regions.push_back(memory_->storage(output.storage));
  return runtime_.Checksums(regions);
}

void Checker::Reject(std::string_view reason, int set, int storage, int64_t index,
                     std::string message) {
  const DataSet& data = job_.data[static_cast<size_t>(set)];
  result_.reason = reason;
  result_.message = fmt::format("{} (data {}, seed {})", message, ToString(data.family), data.seed);
  result_.worst_storage = storage;
  result_.worst_index = index;
  result_.worst_set = set;
}

Result<bool> Checker::CheckGuarded(int set, bool candidate) {
  const std::vector<uint64_t> after = KOPT_TRY(runtime_.Checksums(memory_->guarded()));
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == guarded_before_[i]) continue;
    const int storage = memory_->GuardedStorage(i);
    if (memory_->GuardedIsCanary(i)) {
      Reject("wrote_outside", set, storage, -1,
             fmt::format("the {} wrote outside storage {}", candidate ? "candidate" : "baseline",
                         storage));
    } else {
      Reject(
          "changed_input", set, storage, -1,
          fmt::format("storage {}, which the compiler's kernel only reads, was changed", storage));
    }
    return false;
  }
  return true;
}

Status Checker::ReadWorst(const Output& output, int64_t index) {
  if (index < 0) return {};
  const int size = SizeOf(output.dtype);
  const uint64_t offset = static_cast<uint64_t>(index * size);
  uint64_t value = 0;
  uint64_t reference = 0;
  KOPT_CHECK_OK(
      runtime_.CopyToHost(&value, memory_->storage(output.storage).pointer + offset, size));
  KOPT_CHECK_OK(runtime_.CopyToHost(&reference, output.reference.storage.pointer + offset, size));
  result_.worst_value = ElementValue(value, output.dtype);
  result_.worst_reference = ElementValue(reference, output.dtype);
  result_.worst_scale = 0;
  const int dtype = static_cast<int>(output.dtype);
  if (KoptIsFloat(dtype) && KoptIsFinite(reference, dtype)) {
    float conditioning = 0;
    if (output.conditioning.storage.bytes > 0) {
      KOPT_CHECK_OK(runtime_.CopyToHost(
          &conditioning, output.conditioning.storage.pointer + 4 * static_cast<uint64_t>(index),
          4));
    }
    result_.worst_scale = KoptScale(reference, dtype, conditioning, perturbations_);
  }
  return {};
}

/// Applies the rule to one storage; false: a verdict was reached.
bool Checker::Judge(int set, const Output& output, const KoptStats& stats) {
  const int storage = output.storage;
  const bool is_float = KoptIsFloat(static_cast<int>(output.dtype));
  // A narrow integer can hold the poison's bits by chance: the reason is that
  // of most elements.
  if (stats.not_written > 0 && (is_float || 2 * stats.not_written > stats.bad_integer)) {
    Reject("not_written", set, storage, stats.first_not_written,
           fmt::format("{} elements of storage {} that the compiler's kernel writes were not "
                       "written",
                       stats.not_written, storage));
    return false;
  }
  if (stats.extra > 0 && (is_float || 2 * stats.extra > stats.bad_integer)) {
    Reject("wrote_outside", set, storage, stats.first_extra,
           fmt::format("{} elements of storage {} that the compiler's kernel leaves alone were "
                       "written",
                       stats.extra, storage));
    return false;
  }
  if (stats.bad_integer > 0) {
    Reject("wrong_integer", set, storage, stats.first_bad_integer,
           fmt::format("{} elements of storage {} differ, wanted equal ones for {}",
                       stats.bad_integer, storage, ToString(output.dtype)));
    return false;
  }
  if (stats.bad_class > 0) {
    Reject("wrong_nonfinite", set, storage, stats.first_bad_class,
           fmt::format("{} elements of storage {} are NaN or infinite on one side only",
                       stats.bad_class, storage));
    return false;
  }
  if (job_.rule.bitwise && stats.differing > 0) {
    Reject("wrong_value", set, storage, stats.first_differing,
           fmt::format("{} elements of storage {} differ, wanted equal bits", stats.differing,
                       storage));
    return false;
  }
  if (!(stats.max_z <= job_.rule.max_z)) {
    Reject("wrong_value", set, storage, stats.max_index,
           fmt::format("an element of storage {} is {:.3g} scales off, wanted at most {:.3g}",
                       storage, stats.max_z, job_.rule.max_z));
    return false;
  }
  return true;
}

Result<bool> Checker::Compare(int set, int poison) {
  std::vector<CompareRequest> requests;
  for (const Output& output : outputs_) {
    const StorageSpec& spec = job_.site.storages[static_cast<size_t>(output.storage)];
    CompareRequest& request = requests.emplace_back();
    request.candidate = memory_->storage(output.storage).pointer;
    request.reference = output.reference.storage.pointer;
    request.conditioning = output.conditioning.storage.pointer;
    request.count = output.count;
    request.dtype = output.dtype;
    request.perturbations = perturbations_;
    request.poison = spec.role == StorageRole::kPoison ? poison : -1;
  }
  const std::vector<KoptStats> all = KOPT_TRY(runtime_.Compare(requests));
  KoptStats total;
  KoptClearStats(&total);
  DataSetResult shown;
  shown.data = job_.data[static_cast<size_t>(set)];
  for (const KoptStats& stats : all) KoptMergeStats(&total, &stats);
  shown.counted = 4 * total.nonfinite <= total.nonfinite + total.compared;
  shown.bitwise_equal = total.differing == 0;
  shown.max_z = total.max_z;
  shown.elements = total.compared;
  shown.rms_z =
      total.compared > 0 ? std::sqrt(total.sum_z2 / static_cast<double>(total.compared)) : 0;
  if (reporting_) {
    if (poison == 0) {
      result_.sets.push_back(shown);
    } else {
      DataSetResult& first = result_.sets.back();
      first.bitwise_equal = first.bitwise_equal && shown.bitwise_equal;
      first.max_z = std::max(first.max_z, shown.max_z);
      first.rms_z = std::max(first.rms_z, shown.rms_z);
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (Judge(set, outputs_[i], all[i])) continue;
    KOPT_CHECK_OK(ReadWorst(outputs_[i], result_.worst_index));
    return false;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Output& output = outputs_[i];
    if (all[i].max_index >= 0 && all[i].max_z > worst_z_) {
      worst_z_ = all[i].max_z;
      result_.worst_storage = output.storage;
      result_.worst_index = all[i].max_index;
      result_.worst_set = set;
      KOPT_CHECK_OK(ReadWorst(output, all[i].max_index));
    }
    if (shown.counted && all[i].compared > 0) {
      Pool& pool = pools_[{output.storage, shown.data.family}];
      pool.sum_z2 += all[i].sum_z2;
      pool.elements += all[i].compared;
      pool.last_set = set;
    }
  }
  return true;
}

Result<bool> Checker::RunCandidate(int set, int poison) {
  KOPT_CHECK_OK(memory_->Prepare(job_.data[static_cast<size_t>(set)], poison));
  KOPT_CHECK_OK(Launch(true));
  if (!KOPT_TRY(CheckGuarded(set, true))) return false;
  return Compare(set, poison);
}

Result<bool> Checker::RunSet(int set) {
  const DataSet& data = job_.data[static_cast<size_t>(set)];
  KOPT_CHECK_OK(MakeReference(data, 0));
  if (set == 0) {
    const std::vector<uint64_t> first = KOPT_TRY(OutputChecksums());
    for (int run = 1; run < job_.repeats; ++run) {
      KOPT_CHECK_OK(memory_->Prepare(data, 0));
      KOPT_CHECK_OK(Launch(false));
      if (KOPT_TRY(OutputChecksums()) != first) baseline_deterministic_ = false;
    }
  }
  KOPT_CHECK_OK(MakeConditioning(data, job_.rule.perturbations));

  const auto unsteady = [&](std::string message) {
    Reject("not_deterministic", set, -1, -1, std::move(message));
    return false;
  };
  bool right = KOPT_TRY(RunCandidate(set, 0));
  if (!right && result_.reason == "wrong_value" && perturbs_) {
    if (reporting_) result_.sets.pop_back();
    result_.reason = "ok";
    result_.message.clear();
    KOPT_CHECK_OK(MakeConditioning(data, kSecondLook * job_.rule.perturbations));
    right = KOPT_TRY(RunCandidate(set, 0));
  }
  if (!right) return false;
  const std::vector<uint64_t> first = KOPT_TRY(OutputChecksums());
  for (int run = 1; run < job_.repeats; ++run) {
    KOPT_CHECK_OK(memory_->Prepare(data, 0));
    KOPT_CHECK_OK(Launch(true));
    if (!KOPT_TRY(CheckGuarded(set, true))) return false;
    if (KOPT_TRY(OutputChecksums()) != first && baseline_deterministic_) {
      return unsteady("two runs of the candidate on the same data differ");
    }
  }
  if (has_poisoned_output_) {
    KOPT_CHECK_OK(MakeReference(data, 1));
    if (!KOPT_TRY(RunCandidate(set, 1))) return false;
  }
  if (!refill_needed_ && baseline_deterministic_) {
    const std::vector<uint64_t> before = KOPT_TRY(OutputChecksums());
    KOPT_CHECK_OK(runtime_.Launch({candidate_, memory_->Arguments()}));
    KOPT_CHECK_OK(Launch(true));
    if (!KOPT_TRY(CheckGuarded(set, true))) return false;
    if (KOPT_TRY(OutputChecksums()) != before) {
      return unsteady("launches of the candidate one after the other differ");
    }
  }
  return true;
}

Result<bool> Checker::RunPlacement(Placement placement) {
  memory_.reset();
  memory_ = KOPT_TRY(SiteMemory::Create(runtime_, job_.site, placement));
  for (int set = 0; set < static_cast<int>(job_.data.size()); ++set) {
    if (!KOPT_TRY(RunSet(set))) return false;
  }
  reporting_ = false;
  return true;
}

Result<CheckResult> Checker::Finish() {
  if (!result_.ok()) return result_;
  result_.bitwise_equal = std::all_of(result_.sets.begin(), result_.sets.end(),
                                      [](const DataSetResult& set) { return set.bitwise_equal; });
  if (std::none_of(result_.sets.begin(), result_.sets.end(),
                   [](const DataSetResult& set) { return set.counted; })) {
    result_.reason = "nothing_counted";
    result_.message =
        "over 25 % of the reference is not finite in every data set, so nothing was "
        "compared";
    return result_;
  }
  if (job_.rule.bitwise) return result_;
  std::map<int, Pool> all_families;
  for (const auto& [key, pool] : pools_) {
    Pool& all = all_families[key.first];
    all.sum_z2 += pool.sum_z2;
    all.elements += pool.elements;
    all.last_set = pool.last_set;
  }
  const auto judge = [&](int storage, const Pool& pool) {
    if (!result_.ok() || pool.Rms() <= job_.rule.max_rms) return;
    Reject("wrong_value", pool.last_set, storage, result_.worst_index,
           fmt::format("storage {} is {:.3g} scales off in the mean, wanted at most {:.3g}",
                       storage, pool.Rms(), job_.rule.max_rms));
  };
  for (const auto& [key, pool] : pools_) {
    if (pool.elements >= kSmallOutput) judge(key.first, pool);
  }
  for (const auto& [storage, pool] : all_families) judge(storage, pool);
  return result_;
}

}  // namespace

Result<CheckResult> RunCheck(KernelRuntime& runtime, const CheckJob& job) {
  if (job.data.empty()) {
    return Fail(ErrorKind::kUsage, "job_error", "the job has no data set", job.site.name);
  }
  Checker checker(runtime, job);
  KOPT_CHECK_OK(checker.Prepare());
  const std::vector<Placement> placements =
      job.guard_pages ? std::vector{Placement::kFlushEnd, Placement::kFlushStart}
                      : std::vector{Placement::kMiddle};
  for (Placement placement : placements) {
    if (!KOPT_TRY(checker.RunPlacement(placement))) break;
  }
  return checker.Finish();
}

}  // namespace kernelopt
