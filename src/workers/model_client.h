// The ModelWorker on a child process: `python -m kernelopt.model_worker`.
//
//   ProcessModelWorker worker({.python = ".venv/bin/python"});
//   KOPT_CHECK_OK(worker.Capture({.file = "model.py"}, {VariantSpec{}}, "out", {}));
//
// Hello keeps its process for the next Capture, which ends it; Check runs in a
// fresh process. Noise and Time share one that never touches CUDA and forks what
// does. So no process of this class holds GPU memory when none of its methods runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workers/model.h"

namespace kernelopt {

struct ModelWorkerOptions {
  std::string python = "python3";
  std::string python_path;  ///< folder that holds the package `kernelopt`; empty = installed
  /// The kernelopt program that the loader in the worker asks; empty = it finds one.
  std::string program;
  int64_t start_limit_ms = 180000;  ///< importing torch from a cold disk takes a while
  int64_t capture_limit_ms = 600000;
  int64_t check_limit_ms = 900000;
  int64_t time_limit_ms = 600000;
  int64_t noise_limit_ms = 600000;
  /// What is run as the worker; empty = {python, "-m", "kernelopt.model_worker"}.
  std::vector<std::string> command;
};

class ProcessModelWorker : public ModelWorker {
 public:
  explicit ProcessModelWorker(ModelWorkerOptions options);
  ~ProcessModelWorker() override;

  /// Errors of all methods beside the worker's own: kEnvironment "torch_missing",
  /// "torch_too_old"; "timeout", "died", "protocol_error" (kModel in Capture,
  /// where only the user's code can end the worker or write into its answers, else
  /// kInternal); kInterrupted.
  Result<Json> Hello() override;
  void Prepare() override;
  Status Capture(const ModelSpec& model, const std::vector<VariantSpec>& variants,
                 const std::string& folder, const Progress& progress) override;
  Result<ModelCheck> Check(const ModelSpec& model, const VariantSpec& variant,
                           const std::string& pack, const std::vector<int>& seeds,
                           const Progress& progress) override;
  Result<std::vector<ModelTiming>> Time(const ModelSpec& model, const VariantSpec& variant,
                                        const std::string& pack, int measurements, int pairs,
                                        int blocks, const Progress& progress) override;
  Result<std::vector<double>> Noise(int processes, const Progress& progress) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kernelopt
