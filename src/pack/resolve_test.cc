#include "pack/resolve.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "pack/kernel_text_check.h"
#include "pack/test_pack.h"

namespace kernelopt {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kName = "triton_poi_fused_add_0";

TEST(ResolveTest, GivesTheSourceOfAKnownKernel) {
  Pack pack = TestPack();
  pack.folder = "/p/m.kopt";
  pack.kernels[0].cubin_file = "cubins/x.cubin";
  const std::string text = ModuleText(kName);
  const Json answer = ResolveModule(pack, text);
  EXPECT_EQ(answer["matched"], true);
  EXPECT_EQ(answer["reason"], "");
  EXPECT_EQ(answer["module_key"], pack.variants[0].modules[0]);
  ASSERT_EQ(answer["kernels"].size(), 1u);
  const Json& kernel = answer["kernels"][0];
  EXPECT_EQ(kernel["name"], kName);
  EXPECT_EQ(kernel["reason"], "");
  EXPECT_EQ(kernel["key"], pack.kernels[0].replacement.kernel_key);
  EXPECT_EQ(kernel["binary_hash"], pack.kernels[0].binary_hash);
  EXPECT_EQ(kernel["cubin"], "/p/m.kopt/cubins/x.cubin");
  EXPECT_EQ(kernel["config"]["constexprs"]["XBLOCK"], 256);
  EXPECT_EQ(kernel["source_sha256"], Sha256Hex(ReadModule(text, "m")->kernels[0].text));
  EXPECT_THAT(kernel["source"].get<std::string>(), HasSubstr("def triton_poi_fused_add_0__kopt("));
}

TEST(ResolveTest, AKernelNumberedOtherwiseIsTheSameKernel) {
  const Json answer = ResolveModule(TestPack(), ModuleText("triton_poi_fused_add_7"));
  ASSERT_EQ(answer["matched"], true);
  const std::string source = answer["kernels"][0]["source"];
  EXPECT_THAT(source, HasSubstr("def triton_poi_fused_add_7__kopt("));
  EXPECT_THAT(source, Not(HasSubstr("triton_poi_fused_add_0")));
}

TEST(ResolveTest, AnythingElseKeepsTheCompilersKernel) {
  struct Case {
    const char* name;
    std::string module;
    void (*change)(Pack&);
    const char *module_reason, *kernel_reason;
  };
  const auto same = [](Pack&) {};
  for (const Case& c : std::vector<Case>{
           {"another kernel", ModuleText(kName, "2.0"), same, "module_not_in_pack", nullptr},
           {"another module", ModuleText(kName, "1.0", "512"), same, "module_not_in_pack", nullptr},
           {"no module", "def call(:", same, "unreadable_module", nullptr},
           {"nothing", "", same, "module_not_in_pack", nullptr},
           {"another key", ModuleText(kName),
            [](Pack& p) { p.kernels[0].replacement.kernel_key = "x"; }, "", "kernel_not_replaced"},
           {"for another module", ModuleText(kName), [](Pack& p) { p.kernels[0].modules = {"x"}; },
            "", "kernel_not_replaced"},
           {"two", ModuleText(kName), [](Pack& p) { p.kernels.push_back(p.kernels[0]); }, "",
            "ambiguous"},
           {"own grid", ModuleText(kName),
            [](Pack& p) { p.kernels[0].replacement.steps[0].grid[0] = "1"; }, "", "not_drop_in"},
       }) {
    SCOPED_TRACE(c.name);
    Pack pack = TestPack();
    c.change(pack);
    const Json answer = ResolveModule(pack, c.module);
    EXPECT_EQ(answer["reason"], c.module_reason);
    EXPECT_EQ(answer["matched"], c.kernel_reason != nullptr);
    if (c.kernel_reason == nullptr) {
      EXPECT_TRUE(answer["kernels"].empty());
    } else {
      EXPECT_EQ(answer["kernels"][0]["reason"], c.kernel_reason);
      EXPECT_TRUE(answer["kernels"][0]["source"].is_null());
    }
  }
}

TEST(ResolveTest, ATextThatGateOneRefusesSwapsNothing) {
  Pack pack = TestPack();
  pack.kernels[0].replacement.steps[0].kernel_text =
      "@triton.jit\ndef triton_poi_fused_add_0(in_ptr0, other, xnumel, XBLOCK : tl.constexpr):\n"
      "    pass\n";
  const Json answer = ResolveModule(pack, ModuleText(kName));
  EXPECT_TRUE(answer["kernels"][0]["source"].is_null());
  EXPECT_NE(answer["kernels"][0]["reason"], "");
}

TEST(RenameEntryTest, RenamesTheFunctionAndNothingElse) {
  const std::string text = "@triton.jit\ndef a(x):\n    b = x.a + f(a=1)\n    a\n";
  EXPECT_EQ(*RenameEntry(text, "a", "c"), "@triton.jit\ndef c(x):\n    b = x.a + f(a=1)\n    c\n");
  EXPECT_EQ(*RenameEntry(text, "a", "a"), text);
  EXPECT_EQ(RenameEntry(text, "a", "b").error().code, "entry_mismatch");
  EXPECT_FALSE(RenameEntry("def a(", "a", "c"));
}

class ComparePackTest : public testing::Test {
 protected:
  ComparePackTest() { fresh_.modules["sha"] = ModuleText("triton_poi_fused_add_3"); }

  Result<std::vector<KernelComparison>> Compare(Result<std::string> hash) {
    return ComparePack(
        pack_, fresh_,
        [&](const std::string& source, const std::string& name, const LaunchConfig& config) {
          EXPECT_THAT(source, HasSubstr("def triton_poi_fused_add_3__kopt("));
          EXPECT_EQ(name, "triton_poi_fused_add_3");
          EXPECT_EQ(config.constexprs.at("XBLOCK"), 256);
          return hash;
        });
  }

  Pack pack_ = TestPack();
  Capture fresh_;
};

TEST_F(ComparePackTest, TellsValidFromChangedAndGone) {
  EXPECT_EQ(Compare(pack_.kernels[0].binary_hash)->at(0).state, KernelState::kValid);
  EXPECT_EQ(Compare("another")->at(0).state, KernelState::kBinaryChanged);
  EXPECT_EQ(Compare(Fail(ErrorKind::kModel, "compile_error", "no"))->at(0).state,
            KernelState::kBinaryChanged);
  const auto died = Compare(Fail(ErrorKind::kEnvironment, "died", "the worker died"));
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().code, "died");

  fresh_.modules["sha"] = ModuleText("triton_poi_fused_add_3", "2.0");
  const auto gone = Compare("");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->at(0).state, KernelState::kKeyGone);
  EXPECT_EQ(ToString(gone->at(0).state), "key gone");
}

TEST_F(ComparePackTest, AllOfItsModulesAreNeeded) {
  pack_.kernels[0].modules.push_back("another");
  const auto comparison = Compare(pack_.kernels[0].binary_hash);
  EXPECT_EQ(comparison->at(0).state, KernelState::kKeyGone);
  EXPECT_THAT(comparison->at(0).message, HasSubstr("1 of its 2 modules"));
}

}  // namespace
}  // namespace kernelopt
