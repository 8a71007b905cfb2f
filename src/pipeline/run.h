// A run: its folder, what it was asked, and what its steps have found so far.
//
// FOLDER/  store.db, blobs/, lock   the store (docs/store-schema.md)
//          capture/                 the capture record
//          drafts/                  packs that gates 3 and 4 tried
//          NAME.kopt                the pack, when something was proven
//          report.html, log.jsonl
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/certify.h"
#include "agents/search.h"
#include "agents/stitch.h"
#include "gates/performance_gate.h"
#include "pack/pack.h"
#include "pipeline/environment.h"
#include "pipeline/extract.h"
#include "pipeline/options.h"
#include "profile/estimate.h"

namespace kernelopt {

/// Paths inside a run's folder.
struct RunPaths {
  explicit RunPaths(std::string run_folder) : folder(std::move(run_folder)) {}
  std::string folder;
  std::string Capture() const { return folder + "/capture"; }
  std::string Drafts() const { return folder + "/drafts"; }
  std::string Report() const { return folder + "/report.html"; }
  std::string Log() const { return folder + "/log.jsonl"; }
};

/// The name of a model's run or pack: the file's without its ending.
std::string ModelStem(const RunOptions& options);

/// What makes two runs the same run: the options without the budget, and the
/// model file's content.
std::string RunIdentity(const RunOptions& options, const std::string& model_sha256);

/// Makes or re-opens the run's store and holds it to these options. An empty
/// `folder` means STEM.kopt-run in the current folder, or, where that holds a
/// run of another model or of other options, STEM-2.kopt-run and so on; a
/// named folder that does is an error: kUsage "other_run". Also the errors of
/// Store::Open and of reading the model.
Result<std::unique_ptr<Store>> OpenRun(const RunOptions& options, const std::string& folder);

/// Re-opens a run, and gives its options. Errors: kUsage "no_such_run".
struct OpenedRun {
  std::unique_ptr<Store> store;
  RunOptions options;
};
Result<OpenedRun> ReopenRun(const std::string& folder, StoreMode mode);

/// Makes a run on a recording one on the model that was recorded, from here on. Errors:
/// kUsage "other_model", "bad_option"; those of reading the two.
Status TakeModel(Store& store, RunOptions* options, const std::string& model);

/// What the search and the certification found for one kernel.
struct KernelResult {
  SearchOutcome outcome;
  Certificate certificate;  ///< of the winner, if there is one
  bool certified() const { return outcome.winner && certificate.verdict.accepted; }
};

/// What gates 3 and 4 said of one variant.
struct VariantResult {
  StitchOutcome stitch;                        ///< of the variants that share its modules
  std::optional<PerformanceEffect> confirmed;  ///< measured again after acceptance
  double compiled_us = 0, ours_us = 0;         ///< medians of that measurement
  bool improved() const { return confirmed && !stitch.accepted.empty(); }
};

/// Filled in by the steps, in their order.
struct Run {
  Run(RunOptions run_options, std::string folder)
      : options(std::move(run_options)), paths(std::move(folder)) {}

  RunOptions options;
  RunPaths paths;
  SearchOptions search;  ///< how wide; the rule and the time limit are set by the step
  DeviceFacts device;
  DeviceSpeeds speeds;
  std::vector<double> noise_us;  ///< times of fresh processes, by the doctor; may be empty
  std::string gpu_id, versions;  ///< what measurements are comparable by
  std::string triton_version;

  Extraction extraction;
  std::vector<ModelEstimate> estimates;         ///< one a variant
  std::vector<std::string> order;               ///< keys worth working on, largest gain first
  std::map<std::string, KernelResult> results;  ///< by kernel key
  std::vector<VariantResult> variants;          ///< one a variant of the capture
  std::string pack;                             ///< path, when there is one
};

}  // namespace kernelopt
