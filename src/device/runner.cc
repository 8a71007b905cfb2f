#include "device/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "device/data.h"
#include "device/error_rule.h"
#include "device/site_memory.h"
#include "device/twin_reference.h"

namespace kernelopt {
namespace {

/// Outputs with fewer elements are pooled over all families.
constexpr int64_t kSmallOutput = 256;

/// The root mean square of four changes is far too small for one element in
/// some thousands; before a value is called wrong there are this many times more.
constexpr int kSecondLook = 5;

/// Further off than any estimate of a scale is, over storages of 10^9 elements: needs
/// no second look.
constexpr double kHopeless = 1000;

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
    double max_z = 0;  ///< allowed
    int storage = -1;
    int64_t count = 0;
    DType dtype = DType::kFloat32;
    Allocation reference;
    Allocation conditioning;  ///< no bytes for integers
  };

  /// False for a check that the job leaves out.
  bool On(const char* check) const { return !job_.without.contains(check); }
  /// Whether the twin has results for an output, and whether they are of the data at hand.
  bool HasTwin(const Output& output) const;
  bool UsesTwin(const Output& output) const { return scaled_ && HasTwin(output); }
  Result<bool> RunSet(int set);
  /// Whether programs touch each other's elements in place; false: a verdict was reached.
  Result<bool> CheckOwners();
  /// More perturbed runs, and limits that the baseline keeps itself.
  Status LookCloser(const DataSet& data);
  /// For the float outputs that have no twin.
  Status AllocateConditioning();
  Status Launch(bool candidate);
  /// The baseline's run under `poison`; its outputs become the reference.
  Status MakeReference(const DataSet& data, int poison);
  /// Clears the conditioning and adds `runs` perturbed runs of the baseline.
  Status MakeConditioning(const DataSet& data, int runs);
  /// A fresh run of the candidate under `poison` against the reference; false: a
  /// verdict was reached.
  Result<bool> RunCandidate(int set, int poison);
  /// The run and the comparison alone.
  Result<bool> LaunchCandidate(int set, int poison, std::vector<KoptStats>* found);
  /// One checksum of all outputs.
  Result<uint64_t> OutputChecksum();
  /// Of every output against its reference.
  std::vector<CompareRequest> Requests(int poison) const;
  /// Notes and judges what a comparison of the outputs found, but does not judge bits that
  /// are known to be right; false: a verdict was reached.
  Result<bool> Conclude(int set, int poison, const std::vector<KoptStats>& all);
  /// Whether the outputs have the bits that CheckJob::known has for them.
  bool IsKnown(int set, int poison) const;
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
  DType perturbed_ = DType::kBFloat16;  ///< of the floats that are moved; float32 if any is
  /// Conditioning and twin are of the data set at hand. Not where the first run of the
  /// candidate equals the reference bit for bit, which needs no scale.
  bool scaled_ = false;
  int perturbations_ = 0;  ///< runs that the conditioning is made of
  uint64_t checksum_ = 0;  ///< of the candidate's outputs, of its last compared run
  bool baseline_deterministic_ = true;
  bool refill_needed_ = false;  ///< a storage is both loaded and written
  bool has_poisoned_output_ = false;
  bool reporting_ = true;  ///< the first placement fills result_.sets
  std::map<std::pair<int, DataFamily>, ErrorPool> pools_;
  std::unique_ptr<TwinReference> twin_;
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
      if (SizeOf(spec.dtype) >= 4) perturbed_ = spec.dtype;
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
  if (job_.twin && !job_.rule.bitwise) {
    auto twin = TwinReference::Create(runtime_, *job_.twin, job_.site);
    if (twin) {
      twin_ = std::move(*twin);
    } else if (twin.error().code != "out_of_memory") {
      return std::unexpected(Blame(std::move(twin).error(), false));
    }
    result_.has_twin = twin_ != nullptr;
  }
  return AllocateConditioning();
}

Status Checker::AllocateConditioning() {
  if (!perturbs_) return {};
  for (Output& output : outputs_) {
    const bool has_twin = twin_ != nullptr && output.dtype != DType::kFloat64;
    if (!KoptIsFloat(static_cast<int>(output.dtype)) || has_twin) continue;
    if (output.conditioning.storage.bytes > 0) continue;
    output.conditioning = KOPT_TRY(runtime_.Allocate(4 * output.count, Placement::kMiddle));
  }
  return {};
}

bool Checker::HasTwin(const Output& output) const {
  // The twin of a float64 result is no more exact than the result.
  return twin_ != nullptr && twin_->values(output.storage) != 0 && output.dtype != DType::kFloat64;
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
  if (std::ranges::none_of(outputs_,
                           [](const Output& o) { return o.conditioning.storage.bytes > 0; })) {
    return {};
  }
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
          output.reference.storage.pointer, output.count, output.dtype,
          KoptSteps(static_cast<int>(perturbed_))));
    }
  }
  return {};
}

Status Checker::LookCloser(const DataSet& data) {
  const int runs = kSecondLook * job_.rule.perturbations;
  KOPT_CHECK_OK(MakeConditioning(data, runs));
  std::vector<double> own(outputs_.size(), INFINITY);
  // The smaller of two: one element that happens to jump must not lift the limit.
  for (int run : {-1, -2}) {  // as an ulp of every input moves it
    KOPT_CHECK_OK(memory_->Prepare(data, 0, run));
    KOPT_CHECK_OK(Launch(false));
    const std::vector<KoptStats> all = KOPT_TRY(runtime_.Compare(Requests(0)));
    for (size_t o = 0; o < own.size(); ++o) own[o] = std::min(own[o], all[o].max_z);
  }
  const ErrorRule& rule = job_.rule;
  for (size_t o = 0; o < own.size(); ++o) {
    outputs_[o].max_z = std::max(rule.max_z, std::min(rule.own_factor * own[o] + 1, rule.most_z));
  }
  return {};
}

Result<uint64_t> Checker::OutputChecksum() {
  std::vector<Region> regions;
  for (const Output& output : outputs_) regions.push_back(memory_->storage(output.storage));
  uint64_t all = 0;
  for (uint64_t one : KOPT_TRY(runtime_.Checksums(regions))) all = KoptMix(all ^ one) + 1;
  return all;
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
    if (!On(memory_->GuardedIsCanary(i) ? "wrote_outside" : "changed_input")) continue;
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
    DevicePointer sums = output.conditioning.storage.pointer;
    if (UsesTwin(output)) {
      const DevicePointer twin = twin_->values(output.storage) + 8 * static_cast<uint64_t>(index);
      KOPT_CHECK_OK(runtime_.CopyToHost(&result_.worst_reference, twin, 8));
      reference = KoptEncode(result_.worst_reference, dtype);
      sums = twin_->conditioning(output.storage);
    }
    if (sums != 0) {
      KOPT_CHECK_OK(runtime_.CopyToHost(&conditioning, sums + 4 * static_cast<uint64_t>(index), 4));
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
  if (On("not_written") && stats.not_written > 0 &&
      (is_float || 2 * stats.not_written > stats.bad_integer)) {
    Reject("not_written", set, storage, stats.first_not_written,
           fmt::format("{} elements of storage {} that the compiler's kernel writes were not "
                       "written",
                       stats.not_written, storage));
    return false;
  }
  if (On("wrote_outside") && stats.extra > 0 && (is_float || 2 * stats.extra > stats.bad_integer)) {
    Reject("wrote_outside", set, storage, stats.first_extra,
           fmt::format("{} elements of storage {} that the compiler's kernel leaves alone were "
                       "written",
                       stats.extra, storage));
    return false;
  }
  if (On("wrong_integer") && stats.bad_integer > 0) {
    Reject("wrong_integer", set, storage, stats.first_bad_integer,
           fmt::format("{} elements of storage {} differ, wanted equal ones for {}",
                       stats.bad_integer, storage, ToString(output.dtype)));
    return false;
  }
  if (On("wrong_nonfinite") && stats.bad_class > 0) {
    Reject("wrong_nonfinite", set, storage, stats.first_bad_class,
           fmt::format("{} elements of storage {} are NaN or infinite on one side only",
                       stats.bad_class, storage));
    return false;
  }
  if (On("wrong_value") && job_.rule.bitwise && stats.differing > 0) {
    Reject("wrong_value", set, storage, stats.first_differing,
           fmt::format("{} elements of storage {} differ, wanted equal bits", stats.differing,
                       storage));
    return false;
  }
  if (!On("wrong_value")) return true;
  if (stats.bad_aside > 0) {
    Reject("wrong_value", set, storage, stats.first_bad_aside,
           fmt::format("an element of storage {} is near neither the compiler's value nor the "
                       "exact one",
                       storage));
    return false;
  }
  if (!UsesTwin(output) && !(stats.max_z <= output.max_z)) {
    Reject("wrong_value", set, storage, stats.max_index,
           fmt::format("an element of storage {} is {:.3g} scales off, wanted at most {:.3g}",
                       storage, stats.max_z, output.max_z));
    return false;
  }
  return true;
}

std::vector<CompareRequest> Checker::Requests(int poison) const {
  std::vector<CompareRequest> requests;
  for (const Output& output : outputs_) {
    const StorageSpec& spec = job_.site.storages[static_cast<size_t>(output.storage)];
    CompareRequest& request = requests.emplace_back();
    request.candidate = memory_->storage(output.storage).pointer;
    request.reference = output.reference.storage.pointer;
    if (scaled_) request.conditioning = output.conditioning.storage.pointer;
    if (UsesTwin(output)) {
      request.twin = twin_->values(output.storage);
      request.conditioning = twin_->conditioning(output.storage);
    }
    request.count = output.count;
    request.dtype = output.dtype;
    request.perturbations = perturbations_;
    request.poison = spec.role == StorageRole::kPoison ? poison : -1;
  }
  return requests;
}

Result<bool> Checker::Conclude(int set, int poison, const std::vector<KoptStats>& all) {
  KoptStats total;
  KoptClearStats(&total);
  DataSetResult shown;
  shown.data = job_.data[static_cast<size_t>(set)];
  for (const KoptStats& stats : all) KoptMergeStats(&total, &stats);
  shown.counted = 4 * total.nonfinite <= total.nonfinite + total.compared;
  shown.bitwise_equal = total.differing == 0;
  shown.max_z = total.max_z;
  shown.elements = total.compared;
  shown.aside = total.aside;
  ErrorPool of_set;
  of_set.Add(total, set);
  shown.rms_z = of_set.Rms();
  shown.own_max_z = of_set.own_max_z;
  shown.own_rms_z = of_set.OwnRms();
  shown.checksums = {checksum_};
  if (reporting_) {
    if (poison == 0) {
      result_.sets.push_back(shown);
    } else {
      DataSetResult& first = result_.sets.back();
      first.checksums.push_back(checksum_);
      first.bitwise_equal = first.bitwise_equal && shown.bitwise_equal;
      first.max_z = std::max(first.max_z, shown.max_z);
      first.rms_z = std::max(first.rms_z, shown.rms_z);
    }
  }
  if (IsKnown(set, poison)) return true;
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
    if (shown.counted && scaled_ && all[i].compared > 0) {
      pools_[{output.storage, shown.data.family}].Add(all[i], set);
    }
  }
  return true;
}

Result<bool> Checker::LaunchCandidate(int set, int poison, std::vector<KoptStats>* found) {
  KOPT_CHECK_OK(memory_->Prepare(job_.data[static_cast<size_t>(set)], poison));
  KOPT_CHECK_OK(Launch(true));
  if (!KOPT_TRY(CheckGuarded(set, true))) return false;
  *found = KOPT_TRY(runtime_.Compare(Requests(poison)));
  checksum_ = KOPT_TRY(OutputChecksum());
  return true;
}

bool Checker::IsKnown(int set, int poison) const {
  const auto s = static_cast<size_t>(set), p = static_cast<size_t>(poison);
  return baseline_deterministic_ && s < job_.known.size() && p < job_.known[s].size() &&
         job_.known[s][p] == checksum_;
}

Result<bool> Checker::RunCandidate(int set, int poison) {
  std::vector<KoptStats> found;
  if (!KOPT_TRY(LaunchCandidate(set, poison, &found))) return false;
  return Conclude(set, poison, found);
}

Result<bool> Checker::RunSet(int set) {
  const DataSet& data = job_.data[static_cast<size_t>(set)];
  KOPT_CHECK_OK(MakeReference(data, 0));
  if (set == 0) {
    const uint64_t first = KOPT_TRY(OutputChecksum());
    for (int run = 1; run < job_.repeats; ++run) {
      KOPT_CHECK_OK(memory_->Prepare(data, 0));
      KOPT_CHECK_OK(Launch(false));
      if (KOPT_TRY(OutputChecksum()) != first) baseline_deterministic_ = false;
    }
  }
  for (Output& output : outputs_) output.max_z = job_.rule.max_z;
  scaled_ = false;

  const auto unsteady = [&](std::string message) {
    Reject("not_deterministic", set, -1, -1, std::move(message));
    return false;
  };
  std::vector<KoptStats> found;
  if (!KOPT_TRY(LaunchCandidate(set, 0, &found))) return false;
  const bool differs =
      std::ranges::any_of(found, [](const KoptStats& stats) { return stats.differing > 0; });
  if (differs && !IsKnown(set, 0)) {
    KOPT_CHECK_OK(MakeConditioning(data, job_.rule.perturbations));
    if (twin_ != nullptr) {
      auto status = twin_->Run(*memory_, data, perturbs_ ? job_.rule.perturbations : 0, perturbed_);
      if (!status) return std::unexpected(Blame(std::move(status).error(), false));
    }
    scaled_ = true;
    if (!KOPT_TRY(LaunchCandidate(set, 0, &found))) return false;
  }
  bool right = KOPT_TRY(Conclude(set, 0, found));
  if (!right && result_.reason == "wrong_value" && scaled_ && perturbs_ && twin_ == nullptr) {
    if (reporting_) result_.sets.pop_back();
    result_.reason = "ok";
    result_.message.clear();
    KOPT_CHECK_OK(LookCloser(data));
    right = KOPT_TRY(RunCandidate(set, 0));
  }
  if (!right) return false;
  for (int run = 1; run < job_.repeats; ++run) {
    KOPT_CHECK_OK(memory_->Prepare(data, 0));
    KOPT_CHECK_OK(Launch(true));
    if (!KOPT_TRY(CheckGuarded(set, true))) return false;
    if (On("repeats") && KOPT_TRY(OutputChecksum()) != checksum_ && baseline_deterministic_) {
      return unsteady("two runs of the candidate on the same data differ");
    }
  }
  if (has_poisoned_output_ && On("second_poison")) {
    KOPT_CHECK_OK(MakeReference(data, 1));
    if (!KOPT_TRY(RunCandidate(set, 1))) return false;
  }
  if (!refill_needed_ && baseline_deterministic_ && On("back_to_back")) {
    const uint64_t before = KOPT_TRY(OutputChecksum());
    KOPT_CHECK_OK(runtime_.Launch({candidate_, memory_->Arguments()}));
    KOPT_CHECK_OK(Launch(true));
    if (!KOPT_TRY(CheckGuarded(set, true))) return false;
    if (KOPT_TRY(OutputChecksum()) != before) {
      return unsteady("launches of the candidate one after the other differ");
    }
  }
  return true;
}

Result<bool> Checker::CheckOwners() {
  std::vector<Region> updated;
  std::vector<int> storages;
  for (const Output& output : outputs_) {
    const StorageSpec& spec = job_.site.storages[static_cast<size_t>(output.storage)];
    if (spec.role == StorageRole::kPoison) continue;
    updated.push_back(memory_->storage(output.storage));
    storages.push_back(output.storage);
  }
  KOPT_CHECK_OK(memory_->Prepare(job_.data.front(), 0));
  for (const Region& region : updated) KOPT_CHECK_OK(runtime_.FillBytes(region, 0));
  std::vector<uint64_t> marked;
  for (const Program& program : job_.owners) {
    const int kernel = KOPT_TRY(runtime_.Load(program));
    Status status = runtime_.Launch({kernel, memory_->Arguments()});
    if (status) status = runtime_.Synchronize();
    runtime_.Unload(kernel);
    if (!status) return std::unexpected(Blame(std::move(status).error(), true));
    const std::vector<uint64_t> now = KOPT_TRY(runtime_.Checksums(updated));
    for (size_t i = 0; i < marked.size(); ++i) {
      if (now[i] == marked[i]) continue;
      Reject("race", 0, storages[i], -1,
             fmt::format("a program reads or writes elements of storage {} that another one "
                         "writes, in place",
                         storages[i]));
      return false;
    }
    marked = now;
  }
  return true;
}

Result<bool> Checker::RunPlacement(Placement placement) {
  memory_.reset();
  auto memory = SiteMemory::Create(runtime_, job_.site, placement);
  if (!memory && memory.error().code == "out_of_memory" && twin_ != nullptr) {
    twin_.reset();
    result_.has_twin = false;
    KOPT_CHECK_OK(AllocateConditioning());
    memory = SiteMemory::Create(runtime_, job_.site, placement);
  }
  memory_ = KOPT_TRY(std::move(memory));
  if (reporting_ && !job_.owners.empty() && !KOPT_TRY(CheckOwners())) return false;
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
  if (job_.rule.bitwise || !On("wrong_value")) return result_;
  std::map<int, ErrorPool> all_families;
  for (const auto& [key, pool] : pools_) all_families[key.first].Add(pool);
  const auto judge = [&](int storage, const ErrorPool& pool) {
    if (!result_.ok()) return;
    const auto output = std::ranges::find(outputs_, storage, &Output::storage);
    const std::string violation = Violation(pool, job_.rule, HasTwin(*output), On("exact"));
    if (violation.empty()) return;
    Reject("wrong_value", pool.last_set, storage, result_.worst_index,
           fmt::format("storage {} {}", storage, violation));
  };
  for (const auto& [key, pool] : pools_) {
    if (pool.elements >= kSmallOutput) judge(key.first, pool);
  }
  for (const auto& [storage, pool] : all_families) judge(storage, pool);
  return result_;
}

Result<CheckResult> RunOnce(KernelRuntime& runtime, const CheckJob& job) {
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

}  // namespace

Result<CheckResult> RunCheck(KernelRuntime& runtime, const CheckJob& job) {
  if (job.data.empty()) {
    return Fail(ErrorKind::kUsage, "job_error", "the job has no data set", job.site.name);
  }
  CheckResult result = KOPT_TRY(RunOnce(runtime, job));
  const bool hopeless = std::ranges::any_of(
      result.sets, [](const DataSetResult& set) { return !(set.max_z <= kHopeless); });
  if (result.reason != "wrong_value" || !result.has_twin || hopeless || job.rule.bitwise) {
    return result;
  }
  CheckJob closer = job;
  closer.rule.perturbations *= kSecondLook;
  return RunOnce(runtime, closer);
}

}  // namespace kernelopt
