// What is known of this machine: versions, the GPU, how fast and how quiet it
// is. Measured once a GPU and kept in the user's cache folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/judge.h"
#include "pipeline/environment.h"

namespace kernelopt {

/// What was measured on one GPU.
struct MeasuredGpu {
  std::string uuid, driver;
  DeviceSpeeds speeds;
  std::vector<double> noise_us;  ///< times of fresh processes; empty = not measured
};

/// Empty when nothing was measured on this GPU with this driver, or when the
/// file can't be read.
std::optional<MeasuredGpu> LoadMeasured(const std::string& cache, const DeviceFacts& facts);
/// Under the GPU's lock.
Status SaveMeasured(const std::string& cache, const MeasuredGpu& measured);

/// What was measured before, else the quick part now (bandwidths and launch
/// time, seconds), which is kept.
Result<MeasuredGpu> MeasureSpeeds(Environment& environment, const DeviceFacts& facts);

/// How much equal processes differ on this GPU: what was measured before, else
/// measured now (half a minute) and kept. Gate 4 can't tell a small gain from
/// the luck of a process without it.
Result<std::vector<double>> MeasureNoise(Environment& environment, const DeviceFacts& facts,
                                         const ModelWorker::Progress& say);

/// The versions that are tested; others are refused.
/// Errors: kEnvironment "unsupported_version".
Status CheckVersions(const std::string& torch, const std::string& triton);

/// What a Python and its GPU are, from the model worker's hello.
struct HostFacts {
  std::string torch, triton, python;
  bool cuda = false;
  DeviceFacts device;  ///< as torch reports it; what only the judge knows is 0
};
/// Errors: those of ModelWorker::Hello ("torch_missing", ...), "bad_field".
Result<HostFacts> ReadHost(ModelWorker& worker);

/// Whether performance counters can be read: one sentence.
std::string CounterNote();

/// The doctor's table, row by row as it comes to know: (name, text, is it well?).
struct DoctorRow {
  std::string name, text;
  bool good = true;
};
struct DoctorReport {
  std::vector<DoctorRow> rows;
  Status verdict;  ///< the first thing that is missing, as an error
};

/// Measures everything again. `python` is the path of the Python in use.
DoctorReport Examine(Environment& environment, const std::string& python);

}  // namespace kernelopt
