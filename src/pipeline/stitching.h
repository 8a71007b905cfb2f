// The step `stitch`: the certified winners go into the model, and gates 3 and 4
// decide, for each variant, which of them stay.
//
// Variants that share a generated module are decided together, because the
// loader tells variants apart by their modules alone: a replacement in a
// shared module must hold in all of them.
#pragma once

#include <string>
#include <vector>

#include "pack/pack.h"
#include "pipeline/run.h"
#include "pipeline/step.h"
#include "store/store.h"

namespace kernelopt {

/// Fills run.variants. Errors: kInterrupted, the store's, the model worker's
/// (a model that fails here did not fail in capture).
Result<StepResult> StitchVariants(Environment& environment, Run& run);

/// Gate 3 or 4 again on a set that was tried, for `replay`. Error: kUsage
/// "no_such_verdict" when its draft is gone.
Result<Verdict> ReplaySet(Environment& environment, Run& run, const VerdictKey& key);

/// Indices of variants, grouped by shared module keys.
std::vector<std::vector<size_t>> GroupVariants(const Extraction& extraction);

/// The pack with exactly these kernels replaced in these variants; no report,
/// no evidence, no speed-ups. Errors: of reading the cubins.
Result<Pack> BuildPack(const Run& run, const std::string& version,
                       const std::vector<std::string>& keys, const std::vector<size_t>& variants);

/// The name of a set of replacements, by their kernels' keys.
std::string NameSet(const Run& run, const std::vector<std::string>& keys);

}  // namespace kernelopt
