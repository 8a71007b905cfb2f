#include "program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;

constexpr const char* kModule = "def call(args):\n    return args\n";

class ReadCaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("kernelopt_capture_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "modules");
    hash_ = Sha256Hex(kModule);
    ASSERT_TRUE(WriteFileAtomic(folder_ / "modules" / (hash_ + ".py"), kModule));
    json_ = Json::parse(R"({"schema": 1, "torch": "2.11.0", "triton": "3.6.0", "python": "3.12",
      "device": {"name": "NVIDIA H200", "uuid": "GPU-1", "compute_capability": 90,
                 "sm_count": 132, "l2_bytes": 62914560, "memory_bytes": 1, "new_field": []},
      "model": {"file": "m.py", "sha256": "00", "entry": ""},
      "modules": [], "variants": [{"mode": "default", "train": true, "input_set": 2,
        "graph_breaks": 1, "compiled_us": 10.5, "eager_us": 20, "device_us": null,
        "storages": [{"id": 3, "bytes": 64, "kind": "input"},
                     {"id": 7, "bytes": 32, "kind": "intermediate"}],
        "graphs": [{"module": "", "phase": "inference", "events": [
          {"kind": "alloc", "storage": 7},
          {"kind": "launch", "name": "k", "grid": [1, 2, 3],
           "config": {"XBLOCK": 64, "num_warps": 4, "maxnreg": null}, "binary_hash": "ab",
           "device_us": 1.5, "arguments": [
             {"tensor": {"storage": 3, "dtype": "fp32", "size": [4, 4], "stride": [4, 1],
                         "offset": 1, "low": -1, "high": 2.5, "nonfinite": true}},
             {"tensor": {"storage": 7, "dtype": "i64", "size": [], "stride": [], "offset": 0}},
             {"int": 16}, {"float": 0.5}, {"bool": true}, {"none": true}, {"other": "inf"}]},
          {"kind": "extern", "name": "aten.mm.out", "device_us": 2, "arguments": []},
          {"kind": "return", "arguments": []}]}]}]})");
    json_["modules"].push_back(hash_);
    json_["variants"][0]["graphs"][0]["module"] = hash_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Capture> Read() {
    EXPECT_TRUE(WriteFileAtomic(folder_ / "capture.json", json_.dump()));
    return ReadCapture(folder_);
  }

  std::filesystem::path folder_;
  std::string hash_;
  Json json_;
};

TEST_F(ReadCaptureTest, ReadsEveryField) {
  const auto capture = Read();
  ASSERT_TRUE(capture) << capture.error().ToString();
  EXPECT_EQ(capture->torch, "2.11.0");
  EXPECT_EQ(capture->device_name, "NVIDIA H200");
  EXPECT_EQ(capture->compute_capability, 90);
  EXPECT_EQ(capture->modules.at(hash_), kModule);
  EXPECT_EQ(capture->BlobPath("x"), (folder_ / "blobs" / "x").string());
  const Variant& variant = capture->variants.at(0);
  EXPECT_EQ(variant.Name(), "default+train#2");
  EXPECT_EQ(variant.storages.at(1).bytes, 32);
  EXPECT_EQ(variant.eager_us, 20);
  const auto& events = variant.graphs.at(0).events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].storage, 7);
  const Event& launch = events[1];
  EXPECT_EQ(launch.grid, (std::array<int64_t, 3>{1, 2, 3}));
  EXPECT_EQ(launch.config, (std::map<std::string, int64_t>{{"XBLOCK", 64}, {"num_warps", 4}}));
  ASSERT_EQ(launch.arguments.size(), 7u);
  const TensorRef& tensor = launch.arguments[0].tensor;
  EXPECT_EQ(tensor.offset, 1);
  EXPECT_TRUE(tensor.has_values && tensor.has_nonfinite);
  EXPECT_EQ(tensor.low, -1);
  EXPECT_EQ(tensor.high, 2.5);
  EXPECT_FALSE(launch.arguments[1].tensor.has_values);
  EXPECT_EQ(launch.arguments[2].int_value, 16);
  EXPECT_EQ(launch.arguments[5].kind, EventArgument::Kind::kNone);
  EXPECT_EQ(launch.arguments[6].text, "inf");
}

TEST_F(ReadCaptureTest, NamesWhatIsWrong) {
  struct Case {
    const char* pointer;  // where the value goes
    const char* value;    // JSON
    const char* code;
    const char* message;  // part of it
  };
  const std::string event = "/variants/0/graphs/0/events/";
  for (const Case& c : {
           Case{"/schema", "2", "bad_schema", "schema 2, wanted 1"},
           Case{"/schema", "\"1\"", "bad_field", "'schema'"},
           Case{"/device", "[]", "bad_field", "'device'"},
           Case{"/device/sm_count", "0", "bad_field", "sm_count = 0"},
           Case{"/modules/0", "\"../../secret\"", "bad_field", "SHA-256"},
           Case{"/modules/0", "7", "bad_field", "isn't text"},
           Case{"/variants/0/graphs/0/module", "\"ff\"", "bad_field", "graph 0"},
           Case{"/variants/0/storages/1/id", "3", "bad_field", "second time"},
           Case{"/variants/0/storages/1/bytes", "-1", "bad_field", "-1 bytes"},
           Case{"/variants/0/storages/1/bytes", "18446744073709551615", "bad_field", "64-bit"},
           Case{"/variants/0/graphs/0/events/0/kind", "\"explode\"", "bad_field", "explode"},
           Case{"/variants/0/graphs/0/events/0/storage", "8", "bad_field", "storage 8"},
           Case{"/variants/0/graphs/0/events/0/storage", "99999999999", "bad_field", "storage"},
           Case{"/variants/0/graphs/0/events/1/grid", "[1,2]", "bad_field", "2 numbers"},
           Case{"/variants/0/graphs/0/events/1/config", "{\"XBLOCK\":\"a\"}", "bad_field",
                "XBLOCK"},
           Case{"/variants/0/graphs/0/events/1/arguments/0", "3", "bad_field",
                "a number as an argument"},
           Case{"/variants/0/graphs/0/events/1/arguments/0/tensor/size", "[1]", "bad_field",
                "1 sizes, 2 strides"},
           Case{"/variants/0/graphs/0/events/1/arguments/0/tensor/size", "[1.5, 2]", "bad_field",
                "a number in size"},
           Case{"/variants/0/graphs/0/events/1/arguments/0/tensor/contents", "\"../x\"",
                "bad_field", "SHA-256"},
       }) {
    const Json kept = json_;
    json_[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    const auto capture = Read();
    ASSERT_FALSE(capture) << c.pointer;
    EXPECT_EQ(capture.error().code, c.code) << c.pointer;
    EXPECT_EQ(capture.error().kind, ErrorKind::kUsage) << c.pointer;
    EXPECT_THAT(capture.error().message, HasSubstr(c.message)) << c.pointer;
    EXPECT_FALSE(capture.error().where.empty()) << c.pointer;
    json_ = kept;
  }
}

TEST_F(ReadCaptureTest, FindsChangedAndMissingFiles) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "modules" / (hash_ + ".py"), "changed"));
  EXPECT_EQ(Read().error().code, "changed_module");
  std::filesystem::remove(folder_ / "modules" / (hash_ + ".py"));
  EXPECT_EQ(Read().error().code, "no_such_file");
  EXPECT_EQ(ReadCapture(folder_ / "nowhere").error().code, "no_such_file");
  ASSERT_TRUE(WriteFileAtomic(folder_ / "capture.json", "{\"schema\": 1,"));
  EXPECT_EQ(ReadCapture(folder_).error().code, "bad_json");
  EXPECT_EQ(ParseCapture("{\"schema\": 1e999}", folder_).error().code, "bad_json");
}

}  // namespace
}  // namespace kernelopt
