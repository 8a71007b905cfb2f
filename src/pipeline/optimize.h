// The pipeline: a visible list of steps.
#pragma once

#include "pipeline/packing.h"
#include "pipeline/run.h"
#include "pipeline/step.h"

namespace kernelopt {

/// capture, extract, estimate, search, certify, stitch, pack. The outcome is
/// also in the store. Errors: the steps'; kEnvironment "no_gpu",
/// "unsupported_version", "gpu_mismatch".
Result<Outcome> OptimizeModel(Environment& environment, Run& run);

/// capture, extract, estimate; fills run.estimates and run.order.
Status EstimateOnly(Environment& environment, Run& run);

/// The estimate of every variant from run.speeds; fills run.estimates and run.order, in
/// which a kernel's place is its largest share in any variant.
StepResult EstimateVariants(Run& run);

/// Asks torch for its GPU and versions; fills run.device, gpu_id and versions.
/// Errors: kEnvironment "no_gpu", "unsupported_version"; without a GPU the
/// model's own faults come first.
Status PrepareRun(Environment& environment, Run& run);

/// Asks the judge for the same GPU, and for its speeds; fills run.device,
/// speeds and noise_us. Error: kEnvironment "gpu_mismatch".
Status PrepareJudge(Environment& environment, Run& run);

/// The GPU that a capture was recorded on, as far as gate 1 needs it.
DeviceFacts DeviceOfRecord(const Capture& capture);

/// The step `extract` on a capture's folder; fills run.extraction.
Result<StepResult> ExtractStep(Environment& environment, Run& run, const std::string& folder);

/// extract, estimate, search on a recorded capture: everything that needs no GPU
/// (shadow_search.h). The capture is copied into the run's folder.
Result<Outcome> OptimizeRecording(Environment& environment, Run& run);

}  // namespace kernelopt
