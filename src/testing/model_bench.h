// A model of two kernels with fakes that answer about it: the whole pipeline with
// no process, no GPU and no sleep.
//
//   ModelBench bench;
//   auto outcome = bench.Optimize(bench.Options());
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "pack/pack.h"
#include "pipeline/optimize.h"
#include "testing/kernel_fixture.h"
#include "testing/pipeline_bench.h"

namespace kernelopt {

inline constexpr const char* kCopyTtir = R"(module {
  tt.func public @k(%in_ptr0: !tt.ptr<f32>, %out_ptr0: !tt.ptr<f32>, %xnumel: i32) attributes {noinline = false} {
    %c1024_i32 = arith.constant 1024 : i32
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c1024_i32 : i32
    %2 = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %3 = tt.splat %1 : i32 -> tensor<1024xi32>
    %4 = arith.addi %3, %2 : tensor<1024xi32>
    %5 = tt.splat %in_ptr0 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %6 = tt.addptr %5, %4 : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    %n = tt.splat %xnumel : i32 -> tensor<1024xi32>
    %mask = arith.cmpi slt, %4, %n : tensor<1024xi32>
    %7 = tt.load %6, %mask : tensor<1024x!tt.ptr<f32>>
    %8 = tt.splat %out_ptr0 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %9 = tt.addptr %8, %4 : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    tt.store %9, %7, %mask : tensor<1024x!tt.ptr<f32>>
    tt.return
  }
}
)";

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A generated module with two kernels: relu, and relu of a negation.
inline std::string ModuleText() {
  std::string relu = testing::kPointwiseSource;
  std::string other =
      Replaced(Replaced(relu, "fused_relu_0", "fused_neg_1"), "triton_helpers.maximum(tmp1, tmp0)",
               "triton_helpers.maximum(tmp1, -tmp0)");
  return R"(# AOT ID: ['0_inference']
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
async_compile = AsyncCompile()

triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', ''')" +
         relu + R"(''', device_str='cuda')

triton_poi_fused_neg_1 = async_compile.triton('triton_poi_fused_neg_1', ''')" +
         other + R"(''', device_str='cuda')

async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((1048576, ), (1, ), torch.float32)
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_0.run(arg0_1, buf0, 1048576, stream=stream0)
        buf1 = empty_strided_cuda((1048576, ), (1, ), torch.float32)
        triton_poi_fused_neg_1.run(buf0, buf1, 1048576, stream=stream0)
    return (buf1, )
)";
}

inline Json Tensor(int storage, int64_t elements) {
  return {{"tensor",
           {{"storage", storage},
            {"dtype", "fp32"},
            {"size", {elements}},
            {"stride", {1}},
            {"offset", 0}}}};
}

inline Json Launch(const std::string& name, int from, int to, double device_us, int64_t elements) {
  return {{"kind", "launch"},
          {"name", name},
          {"arguments", {Tensor(from, elements), Tensor(to, elements), {{"int", elements}}}},
          {"grid", {elements / 1024, 1, 1}},
          {"config", {{"XBLOCK", 1024}, {"num_warps", 4}, {"num_stages", 1}}},
          {"binary_hash", ""},
          {"device_us", device_us}};
}

inline Json VariantJson(const VariantSpec& spec, const std::string& module, int64_t elements) {
  Json events = Json::array();
  events.push_back({{"kind", "alloc"}, {"storage", 1}});
  events.push_back(Launch("triton_poi_fused_relu_0", 0, 1, 40, elements));
  events.push_back({{"kind", "alloc"}, {"storage", 2}});
  events.push_back(Launch("triton_poi_fused_neg_1", 1, 2, 30, elements));
  events.push_back({{"kind", "return"}, {"arguments", Json::array({Tensor(2, elements)})}});
  Json storages = Json::array();
  for (int id : {0, 1, 2}) {
    storages.push_back(
        {{"id", id}, {"bytes", 4 * elements}, {"kind", id == 0 ? "input" : "intermediate"}});
  }
  return {
      {"mode", spec.mode},
      {"train", spec.train},
      {"input_set", spec.input_set},
      {"graph_breaks", 0},
      {"compiled_us", 100.0},
      {"eager_us", 150.0},
      {"device_us", 70.0},
      {"storages", storages},
      {"graphs", Json::array({{{"module", module}, {"phase", "inference"}, {"events", events}}})}};
}

/// A model file with a capture, and fakes that answer about it.
struct ModelBench {
  ModelBench() { Prepare(); }
  /// In a folder that stays, with tensors of so many elements (a multiple of 1024); the
  /// store is for the caller to open.
  ModelBench(const std::string& existing, int64_t elements)
      : bench_(existing), elements_(elements) {
    module_text_ = Replaced(module_text_, "1048576", std::to_string(elements));
    Prepare();
  }

  static void WriteInput(const std::string& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    EXPECT_TRUE(file.good()) << path;
  }

  void Prepare() {
    model_ = bench_.folder / "model.py";
    WriteInput(model_, "class Model: pass\n");
    WriteInput(bench_.folder / "k.ttir", kCopyTtir);
    WriteInput(bench_.folder / "k.ptx", ".visible .entry k() { ret; }\n");
    std::filesystem::create_directories(bench_.folder / "cubins");
    bench_.compiler.ttir_path = bench_.folder / "k.ttir";
    bench_.compiler.ptx_path = bench_.folder / "k.ptx";
    bench_.compiler.adjust = [this](const CompileRequest&, CompileOutput* output) {
      output->cubin_path = bench_.folder / ("cubins/" + output->binary_hash);
      if (!std::filesystem::exists(output->cubin_path)) {
        WriteInput(output->cubin_path, output->binary_hash);
      }
    };
    bench_.judge.facts.driver = "13.0";
    bench_.judge.time_us = [this](const Program& program, const Site& site) {
      return TimeOf(program, site);
    };
    bench_.model.hello = [this]() -> Result<Json> {
      const DeviceFacts& facts = bench_.judge.facts;
      return Json{{"torch", torch_},
                  {"triton", "3.6.0"},
                  {"python", "3.11.2"},
                  {"cuda", true},
                  {"device",
                   {{"name", facts.name},
                    {"uuid", facts.uuid},
                    {"mig", ""},
                    {"compute_capability", facts.compute_capability},
                    {"sm_count", facts.sm_count},
                    {"l2_bytes", facts.l2_bytes},
                    {"memory_bytes", facts.memory_bytes}}}};
    };
    bench_.model.capture = [this](const ModelSpec&, const std::vector<VariantSpec>& variants,
                                  const std::string& folder) -> Status {
      ++captures_;
      WriteCapture(variants, folder);
      return {};
    };
    bench_.model.check = [this](const VariantSpec&, const std::string& pack) -> Result<ModelCheck> {
      return Check(pack);
    };
    bench_.model.time = [this](const VariantSpec&, const std::string& pack) -> Result<ModelTiming> {
      return Timing(pack);
    };
  }

  /// XBLOCK 256 with 2 warps is best, a third faster than the compiler's
  /// choice. No two launches take the same time, so that a question asked twice
  /// has two answers.
  double TimeOf(const Program& program, const Site&) {
    const LaunchConfig& config = testing::FakeConfig(program);
    double distance =
        std::fabs(std::log2(static_cast<double>(config.constexprs.at("XBLOCK"))) - 8) +
        std::fabs(std::log2(config.num_warps) - 1);
    return 20 * std::pow(1.1, distance) * (config.maxnreg ? 1.05 : 1) *
           (1 + 0.01 * (config.num_stages - 1)) * (1 + 0.03 * std::sin(++launches_));
  }

  void WriteCapture(const std::vector<VariantSpec>& variants, const std::string& folder) {
    std::string text = module_text_;
    std::string module = Sha256Hex(text);
    std::filesystem::create_directories(folder + "/modules");
    EXPECT_TRUE(WriteFileAtomic(folder + "/modules/" + module + ".py", text));
    const DeviceFacts& facts = bench_.judge.facts;
    Json json = {{"schema", 1},
                 {"torch", "2.11.0"},
                 {"triton", "3.6.0"},
                 {"python", "3.11.2"},
                 {"device",
                  {{"name", facts.name},
                   {"uuid", facts.uuid},
                   {"compute_capability", 90},
                   {"sm_count", 132},
                   {"l2_bytes", 50 << 20},
                   {"memory_bytes", int64_t{140} << 30}}},
                 {"model", {{"file", model_}, {"sha256", Sha256Hex("m")}, {"entry", ""}}},
                 {"modules", {module}},
                 {"variants", Json::array()}};
    for (const VariantSpec& variant : variants) {
      Json item = VariantJson(variant, module, elements_);
      if (no_graph_) {
        item["graphs"] = Json::array();
        item["graph_breaks"] = 3;
      }
      json["variants"].push_back(std::move(item));
    }
    if (no_graph_) json["modules"] = Json::array();
    EXPECT_TRUE(WriteFileAtomic(folder + "/capture.json", DumpJson(json)));
  }

  Result<ModelCheck> Check(const std::string& folder) {
    ++checks_;
    Pack pack = KOPT_TRY(ReadPack(folder));
    ModelCheck check;
    bool wrong = false;
    for (const PackKernel& kernel : pack.kernels) {
      check.swapped.push_back(kernel.replacement.kernel_key);
      InSituComparison in_situ;
      in_situ.kernel = kernel.name;
      in_situ.key = kernel.replacement.kernel_key;
      in_situ.launches = 1;
      check.in_situ.push_back(in_situ);
      check.launches["compiled"][kernel.name] = 1;
      check.launches["stitched"][kernel.name + "__kopt"] = 1;
      wrong = wrong || kernel.name == wrong_in_model_;
    }
    ModelComparison comparison;
    comparison.setting = "strict";
    comparison.data = "user";
    TensorComparison tensor;
    tensor.name = "output 0";
    tensor.dtype = "float32";
    tensor.bitwise_equal = !wrong;
    tensor.has_float64 = true;
    tensor.rms_compiled = tensor.rms_eager = 0.3;
    tensor.max_compiled = tensor.max_eager = 1;
    tensor.rms_stitched = wrong ? 1000 : 0.3;
    tensor.max_stitched = wrong ? 10000 : 1;
    comparison.tensors.push_back(tensor);
    check.comparisons.push_back(comparison);
    return check;
  }

  Result<ModelTiming> Timing(const std::string& folder) {
    ++timings_;
    Pack pack = KOPT_TRY(ReadPack(folder));
    double ours = 100 - model_gain_us_ * static_cast<double>(pack.kernels.size());
    ModelTiming timing;
    for (int pair = 0; pair < 2; ++pair) {
      auto& blocks = timing.pairs.emplace_back();
      for (int block = 0; block < 8; ++block) {
        double noise = 1 + 0.001 * ((pair * 8 + block) * 7 % 5 - 2);
        blocks.push_back({100 * noise, ours * noise, ours, 100});
      }
    }
    for (const PackKernel& kernel : pack.kernels) {
      timing.swapped.push_back(kernel.replacement.kernel_key);
    }
    return timing;
  }

  RunOptions Options() {
    RunOptions options;
    options.model = model_;
    return options;
  }

  Result<Outcome> Optimize(const RunOptions& options) {
    Environment environment = bench_.MakeEnvironment();
    run_ = std::make_unique<Run>(options, bench_.store->Folder());
    run_->search.first_batch = 6;
    run_->search.batch = 6;
    run_->search.max_candidates = 18;
    return OptimizeModel(environment, *run_);
  }

  TestBench bench_;
  int64_t elements_ = 1 << 20;
  std::string model_, torch_ = "2.11.0+cu130", module_text_ = ModuleText(), wrong_in_model_;
  bool no_graph_ = false;
  double model_gain_us_ = 5;
  int launches_ = 0;
  int captures_ = 0, checks_ = 0, timings_ = 0;
  std::unique_ptr<Run> run_;
};

}  // namespace kernelopt
