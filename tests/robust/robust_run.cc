// robust_run: the whole pipeline on a model of two kernels, in the current folder.
//
//   cd FOLDER && robust_run GPU    # again after a kill: the run goes on
//
// Runs with one GPU's UUID wait for each other, as those of the product do.
//
// The judge's checks are the shadow device's, on TTIR of the configuration that is asked
// for; its times are the recording below, the same for the same binary. The fastest
// configuration of each kernel computes something else, so that a winner is one that was
// not rejected. What the judge and the model worker are asked is appended to asked.log
// before they answer: a line KIND KEY.
//
// Prints JSON: how the run ended, its pack, the winners, and how often each fail-point
// (base/fail_point.h) was passed. Exit code 1 with the error's text if it failed.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/fail_point.h"
#include "base/hash.h"
#include "base/json.h"
#include "shadow/shadow_judge.h"
#include "testing/model_bench.h"

namespace kernelopt {
namespace {

constexpr int64_t kElements = 2048;

/// Written at once, so that a kill takes no line apart.
void Note(const std::string& kind, const std::string& asked) {
  const std::string line = kind + " " + Sha256Hex(asked).substr(0, 16) + "\n";
  const int file = open("asked.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::perror("asked.log");
    _exit(1);
  }
  close(file);
}

/// relu(x), or relu(-x), in blocks; without the relu where it is to be wrong.
std::string TtirOf(const std::string& entry, int64_t block, bool wrong) {
  const bool negated = entry.find("neg") != std::string::npos;
  return fmt::format(
      R"(module {{
  tt.func public @{0}(%in_ptr0: !tt.ptr<f32>, %out_ptr0: !tt.ptr<f32>, %xnumel: i32) attributes {{noinline = false}} {{
    %zero = arith.constant dense<0.000000e+00> : tensor<{1}xf32>
    %block = arith.constant {1} : i32
    %program = tt.get_program_id x : i32
    %offset = arith.muli %program, %block : i32
    %lane = tt.make_range {{end = {1} : i32, start = 0 : i32}} : tensor<{1}xi32>
    %0 = tt.splat %offset : i32 -> tensor<{1}xi32>
    %1 = arith.addi %0, %lane : tensor<{1}xi32>
    %2 = tt.splat %xnumel : i32 -> tensor<{1}xi32>
    %mask = arith.cmpi slt, %1, %2 : tensor<{1}xi32>
    %3 = tt.splat %in_ptr0 : !tt.ptr<f32> -> tensor<{1}x!tt.ptr<f32>>
    %4 = tt.addptr %3, %1 : tensor<{1}x!tt.ptr<f32>>, tensor<{1}xi32>
    %5 = tt.load %4, %mask : tensor<{1}x!tt.ptr<f32>>
    %6 = arith.subf %zero, %5 : tensor<{1}xf32>
    %7 = arith.maximumf {2}, %zero : tensor<{1}xf32>
    %8 = tt.splat %out_ptr0 : !tt.ptr<f32> -> tensor<{1}x!tt.ptr<f32>>
    %9 = tt.addptr %8, %1 : tensor<{1}x!tt.ptr<f32>>, tensor<{1}xi32>
    tt.store %9, {3}, %mask : tensor<{1}x!tt.ptr<f32>>
    tt.return
  }}
}}
)",
      entry, block, negated ? "%6" : "%5", wrong ? "%5" : "%7");
}

/// Where the recording is fastest.
bool IsFastest(const LaunchConfig& config) {
  return config.constexprs.at("XBLOCK") == 256 && config.num_warps == 2;
}

class RecordedJudge : public Judge {
 public:
  explicit RecordedJudge(DeviceFacts facts) : facts_(std::move(facts)) {}

  Result<DeviceFacts> Facts() override { return facts_; }
  Result<DeviceSpeeds> Speeds() override {
    Note("speeds", "");
    return DeviceSpeeds{4000, 9000, 1.5};
  }
  Result<CheckResult> Check(const CheckJob& job) override {
    Note("judge", DumpJson(ToJson(job)));
    return shadow_.Check(job);
  }
  Result<TimeResult> Time(const TimeJob& job) override {
    Note("judge", DumpJson(ToJson(job)));
    TimeResult result;
    for (const Program& program : job.programs) {
      const LaunchConfig& config = testing::FakeConfig(program);
      const double distance =
          std::fabs(std::log2(static_cast<double>(config.constexprs.at("XBLOCK"))) - 8) +
          std::fabs(std::log2(config.num_warps) - 1);
      const double us = 20 * std::pow(1.1, distance) * (config.maxnreg ? 1.05 : 1) *
                        (1 + 0.01 * (config.num_stages - 1)) * Noise(program.cubin_path);
      std::vector<double>& samples = result.samples.emplace_back();
      result.failures.emplace_back();
      for (int round = 0; round < job.rounds; ++round) {
        samples.push_back(us * (1 + 0.001 * (round * 7 % 5 - 2)));
      }
    }
    return result;
  }
  Status Release() override { return {}; }

 private:
  /// Within 3 %, by the binary.
  static double Noise(const std::string& cubin_path) {
    const std::string name = std::filesystem::path(cubin_path).filename();
    return 1 + 0.03 * std::sin(static_cast<double>(std::stoul(name.substr(0, 6), nullptr, 16)));
  }

  DeviceFacts facts_;
  ShadowJudge shadow_;
};

class RecordedModel : public ModelWorker {
 public:
  explicit RecordedModel(testing::FakeModelWorker& model) : model_(model) {}

  Result<Json> Hello() override { return model_.Hello(); }
  Status Capture(const ModelSpec& model, const std::vector<VariantSpec>& variants,
                 const std::string& folder, const Progress& progress) override {
    Note("capture", "");
    return model_.Capture(model, variants, folder, progress);
  }
  Result<ModelCheck> Check(const ModelSpec& model, const VariantSpec& variant,
                           const std::string& pack, const std::vector<int>& seeds,
                           const Progress& progress) override {
    Note("model", pack);
    return model_.Check(model, variant, pack, seeds, progress);
  }
  Result<std::vector<ModelTiming>> Time(const ModelSpec& model, const VariantSpec& variant,
                                        const std::string& pack, int measurements, int pairs,
                                        int blocks, const Progress& progress) override {
    Note("timing", pack);
    return model_.Time(model, variant, pack, measurements, pairs, blocks, progress);
  }
  Result<std::vector<double>> Noise(int, const Progress&) override {
    Note("noise", "");
    return std::vector<double>{100, 100.1, 99.9, 100.2, 99.8, 100};
  }

 private:
  testing::FakeModelWorker& model_;
};

/// What a compiler makes of the request: TTIR in a file, and how it is launched.
void Compile(const CompileRequest& request, CompileOutput* output) {
  output->ttir_path = output->cubin_path + ".ttir";
  std::string text = request.source;
  if (!request.is_ttir) {
    // The compiler's own kernels have 4 warps in blocks of 1024.
    text = TtirOf(request.kernel_name, request.config.constexprs.at("XBLOCK"),
                  IsFastest(request.config));
  }
  ModelBench::WriteInput(output->ttir_path, text);
  for (int argument : {0, 1, 2}) {
    LaunchParameter& parameter = output->record.parameters.emplace_back();
    parameter.argument = argument;
    parameter.kind = argument == 2 ? LaunchParameter::Kind::kInt : LaunchParameter::Kind::kPointer;
    parameter.size = argument == 2 ? 4 : 8;
  }
}

Result<Json> RunHere(const std::string& gpu) {
  ModelBench bench(".", kElements);
  bench.bench_.judge.facts.uuid = gpu;
  bench.bench_.compiler.adjust = [place = bench.bench_.compiler.adjust](
                                     const CompileRequest& request, CompileOutput* output) {
    place(request, output);
    Compile(request, output);
  };
  // One kernel is wrong only inside the model: gate 3 finds it by bisection.
  bench.wrong_in_model_ = "triton_poi_fused_neg_1";
  bench.bench_.store = KOPT_TRY(OpenRun(bench.Options(), "run"));
  RecordedJudge judge(bench.bench_.judge.facts);
  RecordedModel model(bench.bench_.model);
  Environment environment = bench.bench_.MakeEnvironment();
  environment.judge = &judge;
  environment.model = &model;
  Run run(bench.Options(), "run");
  run.search.first_batch = run.search.batch = 6;
  run.search.max_candidates = 14;
  const Outcome outcome = KOPT_TRY(OptimizeModel(environment, run));
  Json winners = Json::object();
  for (const auto& [key, result] : run.results) {
    winners[key] = result.outcome.winner ? result.outcome.winner->replacement.Id() : "";
  }
  return Json{{"result", outcome.result},
              {"message", outcome.message},
              {"pack", run.pack},
              {"winners", winners},
              {"passages", FailPointPassages()}};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: robust_run GPU\n");
    return 2;
  }
  const auto result = kernelopt::RunHere(argv[1]);
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().ToString());
    return 1;
  }
  fmt::print("{}\n", kernelopt::DumpJson(*result));
  return 0;
}
