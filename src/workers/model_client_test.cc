#include "workers/model_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "testing/test_folder.h"
#include "workers/model_json.h"
#include "workers/scripted_worker.h"

namespace kernelopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHello = R"({"torch": "2.11.0+cu130", "triton": "3.6.0"})";

constexpr const char* kHandlers = R"(
calls = []
def capture(params, progress):
    calls.append("capture")
    model = params["model"]["file"]
    if model == "raises.py":
        raise framing.JobError("model", "forward_raises", "forward raised ValueError", "raises.py:3")
    if model == "crash.py":
        os.kill(os.getpid(), signal.SIGSEGV)
    if model == "closes.py":
        os.closerange(0, 100)
    if model == "hang.py":
        time.sleep(100)
    progress("recording graph 1 of 1")
    out = pathlib.Path(params["out_dir"])
    path = out / "capture.json"
    if model != "nothing.py":
        path.write_text(json.dumps([params["variants"], os.getpid()]))
    return {"capture": str(path)}
TENSOR = {"name": "output 0", "dtype": "float32", "same_layout": True, "bitwise_equal": False,
          "has_float64": True, "rms_stitched": float("inf"), "rms_compiled": 0.5,
          "rms_eager": float("nan"), "max_stitched": 3, "max_compiled": 1.5, "max_eager": 1.0,
          "nonfinite_mismatches": 2, "allclose_1e4": 0.25}
def check(params, progress):
    calls.append("check")
    comparison = {"setting": "strict", "seed": params["seeds"][-1], "data": "user",
                  "redrawn_weights": True, "consecutive_calls": len(calls), "tensors": [TENSOR]}
    in_situ = {"kernel": "k", "key": "ab", "launches": 4, "bitwise_equal": True, "max_z": 0.5,
               "own_z": 0, "rms_z": 0.25, "integer_mismatches": 0, "nonfinite_mismatches": 0, "skipped": 1}
    answer = {"comparisons": [comparison], "in_situ": [in_situ], "swapped": ["ab"],
              "misses": [{"kernel": "x"}], "externs_compiled": ["mm"], "externs_stitched": ["mm"],
              "launches": {"compiled": {"k": 1}}, "random": False, "degenerate": True,
              "float64_path": True, "note": params["variant"]["mode"], "unknown": 1}
    answer.pop(params["pack"], None)
    return answer
def time_(params, progress):
    block = [1.5, 1, 1.25, 2]
    timing = {"pairs": [[block] * params["blocks"]] * params["pairs"],
              "first_call_compiled_s": 1.0, "first_call_stitched_s": 2.0,
              "peak_bytes_compiled": 10, "peak_bytes_stitched": 11, "swapped": ["ab"],
              "interleaved": False}
    few = params["pack"] == "one too few"
    return {"timings": [timing] * (params["measurements"] - few)}
time_.__name__ = "time"
def prepare(params, progress):
    return {}
def device(params, progress):
    return {"cuda": False, "device": None, "problem": "no_gpu"}
def noise(params, progress):
    return {"samples_us": [1.0] * params["processes"]}
)";

ModelWorkerOptions Options(const std::string& hello = kHello) {
  ModelWorkerOptions options;
  options.command =
      ScriptedWorker(kHandlers, "prepare, device, capture, check, time_, noise", hello);
  return options;
}

Json ReadCaptured(const TestFolder& folder) {
  return *ParseJson(*ReadFile(folder.path() + "/capture.json"), "capture");
}

TEST(ProcessModelWorker, HelloKeepsItsProcessForTheCapture) {
  TestFolder folder;
  ProcessModelWorker worker(Options());
  auto hello = worker.Hello();
  ASSERT_TRUE(hello) << hello.error().ToString();
  EXPECT_EQ((*hello)["cuda"], false);
  std::vector<std::string> steps;
  VariantSpec train;
  train.mode = "reduce-overhead";
  train.train = true;
  auto status = worker.Capture({"m.py", ""}, {VariantSpec{}, train}, folder.path(),
                               [&](const std::string& step) { steps.push_back(step); });
  ASSERT_TRUE(status) << status.error().ToString();
  EXPECT_THAT(steps, ElementsAre("recording graph 1 of 1"));
  const Json first = ReadCaptured(folder);
  EXPECT_EQ(DumpJson(first[0]), R"([{"mode":"default","train":false,"input_set":0},)"
                                R"({"mode":"reduce-overhead","train":true,"input_set":0}])");
  ASSERT_TRUE(worker.Capture({"m.py", ""}, {VariantSpec{}}, folder.path(), {}));
  EXPECT_NE(ReadCaptured(folder)[1], first[1]);
}

TEST(ProcessModelWorker, CaptureErrors) {
  TestFolder folder;
  ModelWorkerOptions options = Options();
  options.capture_limit_ms = 300;
  ProcessModelWorker worker(options);
  const auto error = [&](const std::string& file) {
    return worker.Capture({file, ""}, {VariantSpec{}}, folder.path(), {}).error();
  };
  const Error raises = error("raises.py");
  EXPECT_EQ(raises.ToString(), "raises.py:3: forward raised ValueError");
  EXPECT_EQ(raises.kind, ErrorKind::kModel);
  const Error crash = error("crash.py");
  EXPECT_EQ(crash.code, "died");
  EXPECT_EQ(crash.kind, ErrorKind::kModel);
  EXPECT_EQ(crash.where, "crash.py");
  EXPECT_EQ(error("hang.py").code, "timeout");
  EXPECT_EQ(error("nothing.py").code, "protocol_error");
  const Error closes = error("closes.py");
  EXPECT_EQ(closes.kind, ErrorKind::kModel) << closes.message;
  EXPECT_EQ(closes.where, "closes.py");
}

TEST(ProcessModelWorker, CheckReadsEveryFieldInAFreshProcess) {
  ProcessModelWorker worker(Options());
  for (int i = 0; i < 2; ++i) {
    auto check = worker.Check({"m.py", ""}, VariantSpec{}, "pack", {0, 42}, {});
    ASSERT_TRUE(check) << check.error().ToString();
    ASSERT_EQ(check->comparisons.size(), 1u);
    const ModelComparison& comparison = check->comparisons[0];
    EXPECT_EQ(comparison.setting, "strict");
    EXPECT_EQ(comparison.seed, 42);
    EXPECT_TRUE(comparison.redrawn_weights);
    EXPECT_EQ(comparison.consecutive_calls, 1);  // its process had no call before
    const TensorComparison& tensor = comparison.tensors.at(0);
    EXPECT_EQ(tensor.name, "output 0");
    EXPECT_TRUE(tensor.same_layout);
    EXPECT_FALSE(tensor.bitwise_equal);
    EXPECT_EQ(tensor.rms_stitched, INFINITY);
    EXPECT_EQ(tensor.rms_compiled, 0.5);
    EXPECT_TRUE(std::isnan(tensor.rms_eager));
    EXPECT_EQ(tensor.max_stitched, 3);
    EXPECT_EQ(tensor.nonfinite_mismatches, 2);
    EXPECT_EQ(tensor.allclose_1e4, 0.25);
    EXPECT_EQ(check->in_situ.at(0).launches, 4);
    EXPECT_EQ(check->in_situ.at(0).skipped, 1);
    EXPECT_THAT(check->swapped, ElementsAre("ab"));
    EXPECT_EQ(check->misses->at(0).at("kernel"), "x");
    EXPECT_EQ(check->launches.at("compiled").at("k"), 1);
    EXPECT_THAT(check->externs_stitched, ElementsAre("mm"));
    EXPECT_TRUE(check->degenerate);
    EXPECT_EQ(check->note, "default");
  }
}

TEST(ProcessModelWorker, PreparedChildrenServeOneCheckAndEveryTiming) {
  ProcessModelWorker worker(Options());
  worker.Prepare();
  for (int i = 0; i < 2; ++i) {
    auto check = worker.Check({"m.py", ""}, VariantSpec{}, "pack", {0}, {});
    ASSERT_TRUE(check) << check.error().ToString();
    EXPECT_EQ(check->comparisons.at(0).consecutive_calls, 1);
    EXPECT_TRUE(worker.Time({"m.py", ""}, VariantSpec{}, "pack", 1, 2, 3, {}));
  }
  EXPECT_THAT(*worker.Noise(3, {}), ElementsAre(1, 1, 1));
}

TEST(ProcessModelWorker, AnswerThatLacksAFieldIsAProtocolError) {
  auto check = ProcessModelWorker(Options()).Check({"m.py", ""}, VariantSpec{}, "random", {0}, {});
  ASSERT_FALSE(check);
  EXPECT_EQ(check.error().code, "protocol_error");
  EXPECT_EQ(check.error().kind, ErrorKind::kInternal);
}

TEST(ModelJson, WhatAVerdictNeedsMustBeThere) {
  const Json whole = {{"comparisons", Json::array()},
                      {"in_situ", Json::array()},
                      {"swapped", Json::array()},
                      {"misses", Json::array()},
                      {"externs_compiled", Json::array()},
                      {"externs_stitched", Json::array()},
                      {"launches", Json::object()},
                      {"random", false},
                      {"degenerate", false},
                      {"float64_path", true}};
  EXPECT_TRUE(ModelCheckFromJson(whole));
  for (const auto& [field, value] : whole.items()) {
    Json part = whole;
    part.erase(field);
    auto check = ModelCheckFromJson(part);
    ASSERT_FALSE(check) << field;
    EXPECT_EQ(check.error().code, "bad_field");
    EXPECT_THAT(check.error().message, HasSubstr(field));
  }
}

TEST(ModelJson, TensorFieldsAreRequiredOnlyWhereTheyMean) {
  const std::string text =
      R"({"comparisons":[{"setting":"strict","seed":0,"data":"user","redrawn_weights":false,)"
      R"("consecutive_calls":1,"tensors":[{"name":"o","dtype":"int64","same_layout":true,)"
      R"("bitwise_equal":true,"has_float64":HAS,"nonfinite_mismatches":0,"allclose_1e4":1}]}],)"
      R"("in_situ":[],"swapped":[],"misses":[],"externs_compiled":[],"externs_stitched":[],)"
      R"("launches":{},"random":false,"degenerate":false,"float64_path":true})";
  const auto with = [&](const std::string& has) {
    std::string changed = text;
    changed.replace(changed.find("HAS"), 3, has);
    return ModelCheckFromJson(*ParseJson(changed, "check"));
  };
  EXPECT_TRUE(with("false"));
  EXPECT_EQ(with("true").error().code, "bad_field");
  EXPECT_THAT(with("true").error().message, HasSubstr("rms_stitched"));
  EXPECT_FALSE(with("\"true\""));
  EXPECT_FALSE(ModelCheckFromJson(Json::array()));
}

TEST(ProcessModelWorker, Time) {
  ProcessModelWorker worker(Options());
  auto timings = worker.Time({"m.py", ""}, VariantSpec{}, "pack", 2, 2, 3, {});
  ASSERT_TRUE(timings) << timings.error().ToString();
  ASSERT_EQ(timings->size(), 2u);
  const ModelTiming* timing = &(*timings)[1];
  ASSERT_EQ(timing->pairs.size(), 2u);
  ASSERT_EQ(timing->pairs[1].size(), 3u);
  EXPECT_THAT(timing->pairs[1][2], ElementsAre(1.5, 1, 1.25, 2));
  EXPECT_EQ(timing->peak_bytes_stitched, 11);
  EXPECT_FALSE(timing->interleaved);
  EXPECT_EQ(worker.Time({"m.py", ""}, VariantSpec{}, "one too few", 2, 2, 3, {}).error().code,
            "protocol_error");
}

TEST(ModelJson, TimesThatAreNone) {
  const auto with = [](const std::string& block) {
    return ModelTimingFromJson(*ParseJson(
        R"({"pairs":[[)" + block +
            R"(]],"first_call_compiled_s":1,"first_call_stitched_s":2,)"
            R"("peak_bytes_compiled":10,"peak_bytes_stitched":11,"swapped":[],"interleaved":true})",
        "timing"));
  };
  EXPECT_TRUE(with("[1,2,3,4.5]"));
  for (auto [block, said] : {std::pair{"[1,2,3]", "four"},
                             {"[1,2,3,4,5]", "four"},
                             {"7", "four"},
                             {"[1,2,0,3]", "0 where a time"},
                             {"[1,2,-1,3]", "-1"},
                             {"[1,2,\"nan\",3]", "nan"},
                             {"[1,2,null,3]", "null"}}) {
    auto timing = with(block);
    ASSERT_FALSE(timing) << block;
    EXPECT_THAT(timing.error().message, HasSubstr(said));
  }
  EXPECT_THAT(ModelTimingFromJson(Json::object()).error().message, HasSubstr("pairs"));
}

TEST(ProcessModelWorker, Noise) {
  EXPECT_THAT(*ProcessModelWorker(Options()).Noise(3, {}), ElementsAre(1, 1, 1));
}

TEST(ProcessModelWorker, TorchMissingOrTooOld) {
  struct Case {
    std::vector<std::string> command;
    const char* code;
    const char* said;
  };
  const auto scripted = [](const std::string& hello) { return Options(hello).command; };
  for (const Case& c : {
           Case{{"kernelopt-no-such-python"}, "torch_missing", "no program"},
           Case{{"sh", "-c", "echo 'No module named kernelopt' >&2; exit 1"},
                "torch_missing",
                "No module named kernelopt"},
           Case{scripted(R"({"torch": None, "triton": None})"), "torch_missing",
                "can't import torch"},
           Case{scripted(R"({"torch": "2.11.0", "triton": None})"), "torch_missing",
                "can't import triton"},
           Case{scripted(R"({"torch": "2.8.0+cu126", "triton": "3.4.0"})"), "torch_too_old",
                "torch 2.8.0+cu126 is installed where 2.9 or later"},
           Case{scripted(R"({"torch": "1.13.1", "triton": "3.4.0"})"), "torch_too_old", "1.13.1"},
           Case{{"sh", "-c", "echo a banner; cat"}, "python_unusable", "--python"},
           Case{scripted(R"(1/0)"), "exception", "ZeroDivisionError"},
       }) {
    ModelWorkerOptions options;
    options.command = c.command;
    ProcessModelWorker worker(options);
    auto hello = worker.Hello();
    ASSERT_FALSE(hello) << c.said;
    EXPECT_EQ(hello.error().code, c.code);
    EXPECT_THAT(hello.error().message, HasSubstr(c.said));
  }
}

TEST(VariantSpec, Names) {
  VariantSpec variant;
  EXPECT_EQ(variant.Name(), "default");
  variant.train = true;
  variant.input_set = 2;
  variant.mode = "reduce-overhead";
  EXPECT_EQ(variant.Name(), "reduce-overhead+train#2");
}

}  // namespace
}  // namespace kernelopt
