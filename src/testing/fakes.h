// Fakes of the device, the compile workers and the model worker for unit
// tests of everything above them: no process, no GPU, no sleep.
//
//   FakeCompiler compiler;             // "compiles" everything
//   FakeJudge judge;
//   judge.time_us = [](const Program& p, const Site&) { return FakeConfig(p).num_warps; };
//
// A fake cubin's path carries the configuration and the source's hash, so that
// a FakeJudge can script times and verdicts by configuration.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "device/judge.h"
#include "device/replacement.h"
#include "workers/compile.h"
#include "workers/model.h"

namespace kernelopt::testing {

/// What a FakeCompiler knew of a program, by the path of its cubin.
struct FakeBinary {
  LaunchConfig config;
  std::string source;
};

inline std::map<std::string, FakeBinary>& FakeBinaries() {
  static std::map<std::string, FakeBinary> binaries;
  return binaries;
}

inline const LaunchConfig& FakeConfig(const Program& program) {
  return FakeBinaries().at(program.cubin_path).config;
}
inline const std::string& FakeSource(const Program& program) {
  return FakeBinaries().at(program.cubin_path).source;
}

class FakeCompiler : public Compiler {
 public:
  /// An error for a request that must fail.
  std::function<std::optional<Error>(const CompileRequest&)> fail = [](const CompileRequest&) {
    return std::nullopt;
  };
  /// Changes an output: paths of TTIR and PTX, registers, shared memory, hash.
  std::function<void(const CompileRequest&, CompileOutput*)> adjust = [](const CompileRequest&,
                                                                         CompileOutput*) {};
  /// Files that every output names, unless `adjust` changes them.
  std::string ttir_path, ptx_path;
  std::vector<CompileRequest> requests;  ///< all of them, in order

  std::vector<Result<CompileOutput>> CompileAll(
      const std::vector<CompileRequest>& batch,
      const std::function<void(size_t index)>& done) override {
    std::vector<Result<CompileOutput>> results;
    for (size_t i = 0; i < batch.size(); ++i) {
      const CompileRequest& request = batch[i];
      requests.push_back(request);
      if (auto error = fail(request)) {
        results.push_back(std::unexpected(*error));
      } else {
        CompileOutput output;
        output.binary_hash = Sha256Hex(request.source + "\n" + request.config.ToString());
        output.cubin_path = "fake/" + output.binary_hash + ".cubin";
        output.ttir_path = ttir_path;
        output.ptx_path = ptx_path;
        output.record.entry = request.kernel_name;
        output.record.threads = 32 * request.config.num_warps;
        output.registers = 32;
        output.compile_ms = 1;
        adjust(request, &output);
        FakeBinaries()[output.cubin_path] = {request.config, request.source};
        results.push_back(std::move(output));
      }
      if (done) done(i);
    }
    return results;
  }

  Result<std::string> Versions() override { return "torch 2.11.0, triton 3.6.0"; }
};

class FakeJudge : public Judge {
 public:
  DeviceFacts facts;
  DeviceSpeeds speeds{4000, 9000, 1.5};
  /// Time of one launch; below 0 = the program fails.
  std::function<double(const Program&, const Site&)> time_us = [](const Program&, const Site&) {
    return 10.0;
  };
  /// Relative deterministic spread over the rounds of one job.
  double jitter = 0.002;
  std::function<Result<CheckResult>(const CheckJob&)> check = [](const CheckJob& job) {
    return PassingCheck(job);
  };
  std::vector<CheckJob> checks;
  std::vector<TimeJob> times;
  int releases = 0;

  FakeJudge() {
    facts.name = "Fake GPU";
    facts.uuid = "GPU-fake";
    facts.driver = "13.0";
    facts.compute_capability = 90;
    facts.sm_count = 132;
    facts.l2_bytes = 50 << 20;
    facts.memory_bytes = int64_t{140} << 30;
    facts.shared_bytes_per_block = 232448;
  }

  static CheckResult PassingCheck(const CheckJob& job, bool bitwise = true) {
    CheckResult result;
    result.bitwise_equal = bitwise;
    for (const DataSet& data : job.data) {
      DataSetResult set;
      set.data = data;
      set.bitwise_equal = bitwise;
      set.elements = 1024;
      set.max_z = bitwise ? 0 : 0.5;
      set.rms_z = bitwise ? 0 : 0.1;
      result.sets.push_back(set);
    }
    return result;
  }

  static CheckResult FailingCheck(std::string reason, int set = 0, int64_t index = 7) {
    CheckResult result;
    result.message = "element " + std::to_string(index) + " differs";
    result.reason = std::move(reason);
    result.worst_storage = 0;
    result.worst_index = index;
    result.worst_value = 2;
    result.worst_reference = 1;
    result.worst_scale = 1e-6;
    result.worst_set = set;
    return result;
  }

  Result<DeviceFacts> Facts() override { return facts; }
  Result<DeviceSpeeds> Speeds() override { return speeds; }
  Result<CheckResult> Check(const CheckJob& job) override {
    checks.push_back(job);
    return check(job);
  }
  Result<TimeResult> Time(const TimeJob& job) override {
    times.push_back(job);
    TimeResult result;
    for (size_t p = 0; p < job.programs.size(); ++p) {
      double us = time_us(job.programs[p], job.site);
      result.samples.emplace_back();
      result.failures.emplace_back(us < 0 ? "sick_device" : "");
      for (int round = 0; us >= 0 && round < job.rounds; ++round) {
        result.samples.back().push_back(us * (1 + jitter * ((round * 7 + 3) % 5 - 2) / 2.0));
      }
    }
    return result;
  }
  Status Release() override {
    ++releases;
    return {};
  }
};

class FakeModelWorker : public ModelWorker {
 public:
  std::function<Result<Json>()> hello;
  std::function<Status(const ModelSpec&, const std::vector<VariantSpec>&,
                       const std::string& folder)>
      capture;
  std::function<Result<ModelCheck>(const VariantSpec&, const std::string& pack)> check;
  std::function<Result<ModelTiming>(const VariantSpec&, const std::string& pack)> time;
  std::vector<double> noise;

  Result<Json> Hello() override { return hello(); }
  Status Capture(const ModelSpec& model, const std::vector<VariantSpec>& variants,
                 const std::string& folder, const Progress&) override {
    return capture(model, variants, folder);
  }
  Result<ModelCheck> Check(const ModelSpec&, const VariantSpec& variant, const std::string& pack,
                           const std::vector<int>&, const Progress&) override {
    return check(variant, pack);
  }
  Result<std::vector<ModelTiming>> Time(const ModelSpec&, const VariantSpec& variant,
                                        const std::string& pack, int measurements, int, int,
                                        const Progress&) override {
    std::vector<ModelTiming> timings;
    for (int i = 0; i < measurements; ++i) timings.push_back(KOPT_TRY(time(variant, pack)));
    return timings;
  }
  Result<std::vector<double>> Noise(int, const Progress&) override { return noise; }
};

}  // namespace kernelopt::testing
