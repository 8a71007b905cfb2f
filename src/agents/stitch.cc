#include "agents/stitch.h"

#include <algorithm>
#include <map>

namespace kernelopt {
namespace {

using Keys = std::vector<std::string>;

/// What gate 3 can say of a model whatever is swapped: no subset would pass.
bool IsAboutTheModel(const std::string& reason) {
  static const std::vector<std::string> kReasons = {"degenerate",     "no_float64",
                                                    "no_comparisons", "no_strict_setting",
                                                    "compiler_wrong", "no_launch_counts"};
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end();
}

class Stitcher {
 public:
  Stitcher(const StitchGates& gates, StitchOutcome* outcome) : gates_(gates), outcome_(outcome) {}

  Result<Verdict> Check(const Keys& keys) {
    Keys sorted = keys;
    std::sort(sorted.begin(), sorted.end());
    auto known = verdicts_.find(sorted);
    if (known == verdicts_.end()) {
      ++outcome_->checks;
      Verdict verdict = KOPT_TRY(gates_.check(keys));
      known = verdicts_.emplace(std::move(sorted), std::move(verdict)).first;
    }
    outcome_->correctness = known->second;
    return known->second;
  }

  /// The part of `set` that passes together with `context`. `context` passes;
  /// `context` + `set` failed with `failure`. Every member that is left out is
  /// recorded as dropped.
  Result<Keys> Keep(const Keys& context, const Keys& set, const Verdict& failure) {
    if (set.size() == 1) {
      outcome_->dropped.push_back({set[0], failure});
      return Keys{};
    }
    auto middle = set.begin() + static_cast<long>((set.size() + 1) / 2);
    Keys kept = KOPT_TRY(KeepOf(context, Keys(set.begin(), middle)));
    Keys wider = context;
    wider.insert(wider.end(), kept.begin(), kept.end());
    Keys rest = KOPT_TRY(KeepOf(wider, Keys(middle, set.end())));
    kept.insert(kept.end(), rest.begin(), rest.end());
    return kept;
  }

 private:
  Result<Keys> KeepOf(const Keys& context, const Keys& part) {
    Keys all = context;
    all.insert(all.end(), part.begin(), part.end());
    Verdict verdict = KOPT_TRY(Check(all));
    if (verdict.accepted) return part;
    return Keep(context, part, verdict);
  }

  const StitchGates& gates_;
  StitchOutcome* outcome_;
  std::map<Keys, Verdict> verdicts_;
};

}  // namespace

Result<StitchOutcome> StitchAndProve(std::vector<StitchPiece> pieces, const StitchGates& gates,
                                     double noise_us) {
  StitchOutcome outcome;
  if (pieces.empty()) {
    outcome.reason = "nothing_to_stitch";
    return outcome;
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const StitchPiece& a, const StitchPiece& b) {
    return a.predicted_gain_us > b.predicted_gain_us;
  });
  Keys set;
  for (const StitchPiece& piece : pieces) set.push_back(piece.key);

  Stitcher stitcher(gates, &outcome);
  Verdict verdict = KOPT_TRY(stitcher.Check(set));
  if (!verdict.accepted) {
    if (IsAboutTheModel(verdict.reason)) {
      outcome.reason = verdict.reason;
      return outcome;
    }
    set = KOPT_TRY(stitcher.Keep({}, set, verdict));
    if (set.empty()) {
      outcome.reason = outcome.dropped.back().verdict.reason;
      return outcome;
    }
    // The last check may have been of a failing set; the one kept is known.
    (void)KOPT_TRY(stitcher.Check(set));
  }

  ++outcome.timings;
  outcome.performance = KOPT_TRY(gates.time(set));
  if (!outcome.performance.accepted) {
    Keys large;
    for (const StitchPiece& piece : pieces) {
      if (piece.predicted_gain_us > noise_us &&
          std::find(set.begin(), set.end(), piece.key) != set.end())
        large.push_back(piece.key);
    }
    outcome.reason = outcome.performance.reason;
    if (large.empty() || large.size() == set.size()) return outcome;
    if (!KOPT_TRY(stitcher.Check(large)).accepted) {
      outcome.reason = outcome.correctness.reason;
      return outcome;
    }
    ++outcome.timings;
    Verdict second = KOPT_TRY(gates.time(large));
    Verdict first = outcome.performance;
    outcome.performance = second;
    if (!second.accepted) {
      outcome.reason = second.reason;
      return outcome;
    }
    for (const std::string& key : set) {
      if (std::find(large.begin(), large.end(), key) == large.end())
        outcome.dropped.push_back({key, first});
    }
    set = large;
  }
  outcome.accepted = set;
  outcome.reason = "improved";
  return outcome;
}

}  // namespace kernelopt
