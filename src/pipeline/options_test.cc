#include "pipeline/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace kernelopt {
namespace {

std::string ModelFile() {
  std::string path = ::testing::TempDir() + "/kernelopt_options_model.py";
  EXPECT_TRUE(WriteFileAtomic(path, "x = 1\n"));
  return path;
}

TEST(Options, SurviveJson) {
  RunOptions options;
  options.model = ModelFile();
  options.modes = {"default", "reduce-overhead"};
  options.train = true;
  options.budget_s = 90;
  options.policy = "bitwise";
  options.allow_weaker = true;
  auto back = RunOptionsFromJson(ToJson(options));
  ASSERT_TRUE(back) << back.error().ToString();
  EXPECT_EQ(ToJson(*back), ToJson(options));
}

TEST(Options, VariantsAreModesAndThenTraining) {
  RunOptions options;
  options.modes = {"default", "reduce-overhead"};
  EXPECT_EQ(options.Variants().size(), 2u);
  options.train = true;
  auto variants = options.Variants();
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_EQ(variants[3].mode, "reduce-overhead");
  EXPECT_TRUE(variants[3].train);
}

TEST(Options, WrongOnesAreNamed) {
  struct Case {
    std::function<void(RunOptions*)> change;
    std::string code, part;
  };
  const Case cases[] = {
      {[](RunOptions* o) { o->modes = {"fast"}; }, "bad_option", "'fast'"},
      {[](RunOptions* o) { o->policy = "loose"; }, "bad_option", "'loose'"},
      {[](RunOptions* o) { o->budget_s = 0; }, "bad_option", "--budget"},
      {[](RunOptions* o) { o->min_gain = 2; }, "bad_option", "--min-gain"},
      {[](RunOptions* o) { o->entry = "module"; }, "bad_option", "module:function"},
      {[](RunOptions* o) { o->model += ".missing"; }, "no_such_file", "no such file"},
      {[](RunOptions* o) { o->model = "/dev/null"; }, "no_such_file", "no file"},
      {[](RunOptions* o) { o->entry = "a:b:c"; }, "bad_option", "a:b:c"},
      {[](RunOptions* o) { o->model = "/tmp"; }, "no_such_file", "folder"},
      {[](RunOptions* o) { o->recording = "/nonexistent"; }, "no_such_file", "capture.json"},
  };
  for (const Case& wrong : cases) {
    RunOptions options;
    options.model = ModelFile();
    ASSERT_TRUE(CheckOptions(options));
    wrong.change(&options);
    Status status = CheckOptions(options);
    ASSERT_FALSE(status) << wrong.part;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_EQ(status.error().code, wrong.code);
    EXPECT_NE(status.error().message.find(wrong.part), std::string::npos) << status.error().message;
  }
}

TEST(Options, ModesAreSplit) {
  EXPECT_EQ(*ParseModes("default"), std::vector<std::string>{"default"});
  EXPECT_EQ(*ParseModes("default,reduce-overhead,default"),
            (std::vector<std::string>{"default", "reduce-overhead"}));
  EXPECT_FALSE(ParseModes(""));
  EXPECT_FALSE(ParseModes("default,"));
}

}  // namespace
}  // namespace kernelopt
