// From the pipeline's values to rows of the store and back.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agents/search.h"
#include "gates/sites.h"
#include "gates/verdict.h"
#include "pipeline/run.h"
#include "store/store.h"

namespace kernelopt {

/// What the data of gate 2 and the rules are called in the store; a change of
/// either makes another name, so that old verdicts aren't taken for new ones.
inline constexpr char kDataVersion[] = "5";

/// VerdictKey::stage of gate 2's screening on the shadow device.
inline constexpr char kShadowStage[] = "shadow";

/// Gates 1 and 2: of one replacement.
VerdictKey KernelVerdictKey(const Run& run, const Replacement& replacement, Gate gate,
                            const std::string& stage, const std::string& site);
/// Gates 3 and 4: of a set of replacements in one variant.
VerdictKey SetVerdictKey(const Run& run, const std::string& set, Gate gate,
                         const std::string& variant);

VerdictRecord ToRecord(const Verdict& verdict, VerdictKey key, const std::string& kernel);
Verdict FromRecord(const VerdictRecord& record);

/// {"gate", "accepted", "reason", "message", "evidence"}
Json VerdictToJson(const Verdict& verdict);

/// How `show` and `replay` call a verdict: 10 hexadecimal digits of its key.
std::string VerdictName(const VerdictKey& key);

/// One name for the call sites that a kernel is judged at: storages, scalars,
/// aliasing, whatever graph they come from.
std::string HashSites(const std::vector<BuiltSite>& sites);

/// A set of replacements has one name whatever their order.
std::string HashSet(std::vector<std::string> replacement_ids);

/// The names of a winner that the store keeps: its replacement, configurations
/// and times; the compiled files come from the compile cache again.
Json WinnerToJson(const Winner& winner);
/// Errors: kUsage "bad_field"; those of the compile workers.
Result<Winner> WinnerFromJson(const Json& json, const SearchSubject& subject, Compiler& compiler,
                              int compute_capability);

/// Records a search's candidates as they become known.
class CandidateRecorder {
 public:
  /// `stage`: of the verdicts, "screen" or kShadowStage.
  CandidateRecorder(Store& store, const Run& run, const SearchSubject& subject, std::string stage);
  Status Record(const CandidateRecord& record);

 private:
  Store& store_;
  const Run& run_;
  std::string kernel_, sites_, stage_;
  std::set<std::string> known_;  ///< rows that this run has written
};

}  // namespace kernelopt
