#include "report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "report/fields.h"
#include "report/html.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
using testing::Not;

VerdictRecord VerdictOn(const std::string& subject, const std::string& kernel, int gate,
                        bool accepted, const std::string& reason) {
  VerdictRecord v;
  v.key.subject = subject;
  v.key.gate = gate;
  v.key.variant = "default";
  v.kernel = kernel;
  v.accepted = accepted;
  v.reason = reason;
  v.message = "said " + reason;
  return v;
}

/// A finished run: one kernel improved, one rejected at gate 2, one refused.
void Fill(Store& store) {
  Batch b;
  b.facts = {{"model", R"({"file":"/m/softmax.py","sha256":"ab","entry":""})"},
             {"gpu", R"({"name":"NVIDIA H200","uuid":"GPU-1"})"},
             {"versions", R"({"torch":"2.11.0","triton":"3.6.0","kernelopt":"0.1.0"})"},
             {"policy", R"("strict")"},
             {"preview", "true"},
             {"estimate", R"({"at_most":1.31})"},
             {"outcome", R"({"result":"improved","message":"1 of 3 kernels","pack":"s.kopt"})"},
             {"variant/default",
              R"({"compiled_us":120,"ours_us":100,"eager_us":300,"accepted":true,
                  "speedup":{"median":1.2,"lo":1.18,"hi":1.22}})"},
             {"kernel/k1", R"({"outcome":"improved","reason":"ok","replacement":"r1",
                  "compiler_us":40,"ours_us":20,"config_after":{"constexprs":{"XBLOCK":64},
                  "num_warps":8,"maxnreg":null},"label":"bitwise"})"},
             {"kernel/k2", R"({"outcome":"kept","reason":"nothing_faster"})"},
             {"kernel/k3", R"({"outcome":"refused","reason":"random_numbers"})"}};
  b.kernels = {
      {"k2", "triton_red_1", R"({"launches":1,"compiler_us":9,"gain_us":3})"},
      {"k1", "triton_per_0",
       R"({"launches":2,"compiler_us":40,"floor_us":18,"gain_us":44,"config":{"XBLOCK":1}})"},
      {"k3", "triton_poi_2", R"({"launches":1,"compiler_us":5,"gain_us":0})"}};
  b.replacements = {{"r0", "k1", "configuration", "c", "{}"},
                    {"r1", "k1", "configuration", "c", "{}"},
                    {"r2", "k2", "configuration", "c", "{}"}};
  b.verdicts = {VerdictOn("r0", "k1", 1, false, "import"),
                VerdictOn("r1", "k1", 1, true, "ok"),
                VerdictOn("r1", "k1", 2, true, "ok"),
                VerdictOn("r2", "k2", 1, true, "ok"),
                VerdictOn("r2", "k2", 2, false, "wrong_value"),
                VerdictOn("set", "", 3, true, "ok"),
                VerdictOn("set", "", 4, true, "ok")};
  ASSERT_TRUE(store.Record(b));
}

std::vector<std::string> States(const Json& kernel) {
  std::vector<std::string> states;
  for (const Json& gate : kernel["gates"]) states.push_back(gate["state"]);
  return states;
}

/// Every tag closed in the right order, nothing that loads or runs.
void ExpectWellFormed(const std::string& page) {
  std::vector<std::string> open;
  for (size_t i = page.find('<'); i != std::string::npos; i = page.find('<', i + 1)) {
    const size_t end = page.find('>', i);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(i + 1, end - i - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    const std::string attributes = std::regex_replace(tag, std::regex("\"[^\"]*\""), "");
    for (const char* word : {"script", " on", "src", "href", "link", "iframe"}) {
      EXPECT_THAT(attributes, Not(HasSubstr(word)));
    }
    if (name == "!doctype" || name == "meta" || name == "br") continue;
    if (name.starts_with('/')) {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), name.substr(1));
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(page, Not(HasSubstr("url(")));
}

class ReportTest : public testing::Test {
 protected:
  int64_t now_ = 0;
  TestFolder folder_;
  std::unique_ptr<Store> store_ = std::move(*Store::Open(
      folder_ / "run", StoreMode::kCreate, {.session = "s", .now_us = [this] { return now_; }}));
};

TEST_F(ReportTest, GathersWhatTheRunRecorded) {
  Fill(*store_);
  const auto data = ReportData(*store_);
  ASSERT_TRUE(data) << data.error().ToString();
  const Json& kernels = (*data)["kernels"];
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0]["key"], "k1");  // in order of gain
  EXPECT_EQ(kernels[1]["key"], "k2");
  EXPECT_EQ(kernels[2]["key"], "k3");
  EXPECT_EQ(kernels[0]["candidates"], 2);
  EXPECT_EQ(kernels[0]["config_before"]["XBLOCK"], 1);
  EXPECT_EQ(States(kernels[0]), (std::vector<std::string>{"passed", "passed", "passed", "passed"}));
  EXPECT_EQ(States(kernels[1]),
            (std::vector<std::string>{"passed", "failed", "not_reached", "not_reached"}));
  EXPECT_EQ(kernels[1]["gates"][1]["reason"], "wrong_value");
  EXPECT_EQ(States(kernels[2]), std::vector<std::string>(4, "not_reached"));
  EXPECT_EQ((*data)["variants"][0]["name"], "default");
  EXPECT_EQ((*data)["variants"][0]["verdicts"].size(), 2u);
}

TEST_F(ReportTest, ARejectionAtOneSiteIsTheGatesState) {
  ASSERT_TRUE(store_->SetFact("kernel/k", R"({"replacement":"r"})"));
  ASSERT_TRUE(store_->RecordKernel({"k", "n", "{}"}));
  VerdictRecord open = VerdictOn("r", "k", 2, false, "out_of_memory");
  open.final = false;
  ASSERT_TRUE(store_->RecordVerdict(open));
  EXPECT_EQ(States((*ReportData(*store_))["kernels"][0])[1], "not_verifiable");
  ASSERT_TRUE(store_->RecordVerdict(VerdictOn("r", "k", 2, true, "ok")));
  EXPECT_EQ(States((*ReportData(*store_))["kernels"][0])[1], "passed");
  ASSERT_TRUE(store_->RecordVerdict(VerdictOn("r", "k", 2, false, "wrong_value")));
  ASSERT_TRUE(store_->RecordVerdict(VerdictOn("r", "k", 2, true, "ok")));
  EXPECT_EQ(States((*ReportData(*store_))["kernels"][0])[1], "failed");
}

TEST_F(ReportTest, AddsUpAStepsTimeOverSessions) {
  const auto at = [&](int64_t seconds, const char* state) {
    now_ = seconds * 1'000'000;
    ASSERT_TRUE(store_->RecordStep({"search", state, "{}", 0, ""}));
  };
  at(10, "started");
  at(13, "interrupted");
  at(100, "started");  // killed: this attempt has no end
  at(200, "started");
  at(204, "done");
  const Json steps = (*ReportData(*store_))["steps"];
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_DOUBLE_EQ(steps[0]["seconds"], 7);
  EXPECT_EQ(steps[0]["state"], "done");
}

TEST_F(ReportTest, ThePageShowsTheRun) {
  Fill(*store_);
  const std::string page = ReportPage(*ReportData(*store_));
  ExpectWellFormed(page);
  for (const char* wanted :
       {"softmax.py", "NVIDIA H200", "1.20x", "1.18x to 1.22x", "triton_per_0", "2.00x",
        "random numbers", "wrong value", "XBLOCK=64 warps=8", "<svg", "preview", "1 of 3"}) {
    EXPECT_THAT(page, HasSubstr(wanted));
  }
}

TEST_F(ReportTest, AnEmptyRunHasAReport) {
  const Json data = *ReportData(*store_);
  ExpectWellFormed(ReportPage(data));
  EXPECT_THAT(ReportSummary(data), HasSubstr("unfinished"));
}

TEST_F(ReportTest, HostileNamesStayText) {
  const std::string evil = "</td><script>alert(1)</script>\" onload='x' & \xff\x1b[2J";
  Json name = evil;
  ASSERT_TRUE(store_->SetFact("model", DumpJson({{"file", name}})));
  ASSERT_TRUE(store_->SetFact("variant/" + evil, DumpJson({{"reason", name}})));
  ASSERT_TRUE(store_->SetFact("kernel/k", DumpJson({{"reason", name}, {"change", name}})));
  ASSERT_TRUE(store_->RecordKernel({"k", evil, "{}"}));
  ASSERT_TRUE(store_->RecordVerdict(VerdictOn("r", "k", 1, false, evil)));
  const Json data = *ReportData(*store_);
  const std::string page = ReportPage(data);
  ExpectWellFormed(page);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(ReportSummary(data), Not(HasSubstr("\x1b")));
}

TEST_F(ReportTest, WrongTypesAreShownAsMissing) {
  Fill(*store_);
  for (const char* value : {"null", "[]", "\"x\"", "7", "true", R"({"speedup":3,"file":[1]})"}) {
    for (const char* key : {"model", "gpu", "versions", "estimate", "outcome", "preview",
                            "variant/default", "kernel/k1"}) {
      ASSERT_TRUE(store_->SetFact(key, value));
    }
    const Json data = *ReportData(*store_);
    ExpectWellFormed(ReportPage(data));
    ReportSummary(data);
  }
}

TEST_F(ReportTest, TheSummaryFitsAScreen) {
  Fill(*store_);
  Batch batch;
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    batch.kernels.push_back({"x" + n, std::string(200, 'n'), R"({"gain_us":1})"});
    batch.facts.emplace_back("kernel/x" + n, R"({"outcome":"kept","reason":"r)" + n + "\"}");
    batch.facts.emplace_back("variant/v" + n, "{}");
    batch.steps.push_back({"step" + n, "done", "{}", 0, ""});
  }
  ASSERT_TRUE(store_->Record(batch));
  const std::string summary = ReportSummary(*ReportData(*store_));
  std::istringstream lines(summary);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LE(count, 25);
  EXPECT_THAT(summary, HasSubstr("improved: 1 of 3 kernels [preview]"));
  EXPECT_THAT(summary, HasSubstr("++++"));
  EXPECT_THAT(summary, HasSubstr("+x.."));
}

TEST_F(ReportTest, TheSummaryBreaksSentencesAndDropsNothingOfThem) {
  std::string message;
  for (int i = 0; i < 40; ++i) message += "word" + std::to_string(i) + " ";
  message += std::string(100, 'x') + " and the end";
  ASSERT_TRUE(store_->SetFact("outcome", Json{{"result", "kept"}, {"message", message}}.dump()));
  const std::string summary = ReportSummary(*ReportData(*store_));
  EXPECT_THAT(summary, HasSubstr("word39"));
  EXPECT_THAT(summary, HasSubstr("and the end\n"));
  std::istringstream lines(summary);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(HtmlTest, TextIsEscapedAndValid) {
  struct Case {
    std::string in, out;
  };
  for (const Case& c : std::vector<Case>{{"plain", "plain"},
                                         {"<a b='\"'>&", "&lt;a b=&#39;&quot;&#39;&gt;&amp;"},
                                         {"\u00b5s \U0001f600", "\u00b5s \U0001f600"},
                                         {"\xc0\xaf", "\ufffd\ufffd"},            // overlong
                                         {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},  // surrogate
                                         {"a\xe2\x82", "a\ufffd\ufffd"},          // cut off
                                         {"\x1b[1m\x07", "\ufffd[1m\ufffd"},
                                         {"\xc2\x9b", "\ufffd"},
                                         {"a\nb\tc", "a\nb\tc"}}) {
    EXPECT_EQ(Text(c.in).markup(), c.out);
  }
  EXPECT_EQ(Tag("a", {{"b", "\"<"}}, Text("x") + Tag("br")).markup(),
            "<a b=\"&quot;&lt;\">x<br></a>");
}

TEST(FieldsTest, ShortensInTheMiddleByCharacters) {
  EXPECT_EQ(Shorten("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(Shorten("abcdefghijk", 10), "abcd..hijk");
  EXPECT_EQ(Shorten("\u00b5\u00b5\u00b5\u00b5\u00b5\u00b5", 5), "\u00b5\u00b5..\u00b5");
  EXPECT_EQ(Shorten("a\nb", 5), "a b");
  EXPECT_EQ(Cut("abcdefghijk", 10), "abcdefgh..");
  EXPECT_EQ(Cut("abcdefghij", 10), "abcdefghij");
  EXPECT_TRUE(rc::check([](const std::string& text, uint8_t columns) {
    const std::string line = columns % 2 ? Shorten(text, columns) : Cut(text, columns);
    const auto characters = std::ranges::count_if(
        line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    RC_ASSERT(characters <= columns);
    RC_ASSERT(CleanText(line) == line);
  }));
}

TEST(FieldsTest, SpellsNumbers) {
  EXPECT_EQ(Microseconds(1.234), "1.23 us");
  EXPECT_EQ(Microseconds(45.67), "45.7 us");
  EXPECT_EQ(Microseconds(456.7), "457 us");
  EXPECT_EQ(Microseconds(4567), "4.57 ms");
  EXPECT_EQ(Microseconds(2e6), "2.00 s");
  EXPECT_EQ(Microseconds(std::nullopt), "-");
  EXPECT_EQ(Seconds(3.14), "3.1 s");
  EXPECT_EQ(Seconds(31.4), "31 s");
  EXPECT_EQ(Seconds(59.7), "1 min 00 s");
  EXPECT_EQ(Seconds(125), "2 min 05 s");
  EXPECT_EQ(Times(1.234), "1.23x");
  EXPECT_EQ(Times(12.34), "12.3x");
}

}  // namespace
}  // namespace kernelopt
