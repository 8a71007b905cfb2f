#include "gates/access_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inductor/module.h"

namespace kernelopt {
namespace {

using ::testing::HasSubstr;

// out[index] = load(in)[index] with places to change.
constexpr const char* kTtir = R"(module {
  tt.func public @k(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
    %c64 = arith.constant 64 : i32
    %program = tt.get_program_id x : i32
    %offset = arith.muli %program, %c64 : i32
    %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %0 = tt.splat %offset : i32 -> tensor<64xi32>
    %index = arith.addi %0, %lane : tensor<64xi32>
    %1 = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %index, %1 : tensor<64xi32>
    %2 = tt.splat %SOURCE : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %3 = tt.addptr %2, %index : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %4 = tt.load %3, %mask : tensor<64x!tt.ptr<f32>>
    %5 = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %6 = tt.addptr %5, %index : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %6, %4MASK : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
)";

TtirModule Module(std::string source, std::string mask) {
  std::string text = kTtir;
  text.replace(text.find("SOURCE"), 6, source);
  text.replace(text.find("MASK"), 4, mask);
  auto module = ReadTtir(text, "k.ttir");
  return module ? std::move(*module) : TtirModule{};
}

class AccessCheckTest : public ::testing::Test {
 protected:
  AccessCheckTest() {
    kernel_.name = kernel_.entry = "k";
    kernel_.grid_type = "Grid1D";
    kernel_.arguments = {{"in", "", "*fp32"},
                         {"out", "", "*fp32"},
                         {"xnumel", "", "i32"},
                         {"XBLOCK", "", "constexpr"}};
    pair_.kernel = &kernel_;
    pair_.baseline_config.constexprs = pair_.candidate_config.constexprs = {{"XBLOCK", 64}};
    BuiltSite& site = sites_.emplace_back();
    site.site.name = "graph 0 event 1";
    site.numels = {{"xnumel", 100}};
    site.site.storages.resize(2);
    for (StorageSpec& storage : site.site.storages) storage.bytes = 400;
    site.site.storages[1].role = StorageRole::kPoison;
    site.site.storages[1].written = true;
    site.site.arguments.resize(3);
    site.site.arguments[0].storage = 0;
    site.site.arguments[1].storage = 1;
    site.site.arguments[2].kind = ArgumentSpec::Kind::kInt;
    site.site.arguments[2].int_value = 100;
  }

  /// The codes and messages, or the error.
  std::string Check(const TtirModule& candidate, const TtirModule& baseline) {
    auto findings = CheckAccesses(candidate, baseline, pair_, sites_);
    if (!findings) return findings.error().code;
    std::string text;
    for (const StaticFinding& finding : *findings) text += finding.code + ": " + finding.message;
    return text;
  }

  Kernel kernel_;
  KernelPair pair_;
  std::vector<BuiltSite> sites_;
  const TtirModule own_ = Module("in", ", %mask");
};

TEST_F(AccessCheckTest, AcceptsWhatStaysInside) {
  EXPECT_EQ(Check(own_, own_), "");
}

TEST_F(AccessCheckTest, RefusesToReadWhatTheCompilersKernelOnlyWrites) {
  EXPECT_EQ(Check(Module("out", ", %mask"), own_),
            "reads_output: it reads from out, which the compiler's kernel never does");
  // The same storage in both slots: it is loaded, by whatever name.
  sites_[0].site.storages[1].role = StorageRole::kData;
  EXPECT_EQ(Check(Module("out", ", %mask"), own_), "");
}

TEST_F(AccessCheckTest, RefusesWhatIsProvenOutside) {
  const TtirModule unmasked = Module("in", "");
  EXPECT_EQ(Check(unmasked, own_),
            "out_of_bounds: its store goes to elements 0 to 127 of out, which has 100 at graph 0 "
            "event 1");
  // A storage that goes on behind the last element.
  sites_[0].site.storages[1].bytes = 512;
  EXPECT_EQ(Check(unmasked, own_), "");
  // The pointer's place in its storage counts.
  sites_[0].site.arguments[1].byte_offset = 4;
  EXPECT_THAT(Check(unmasked, own_), HasSubstr("0 to 127 of out, which has 127"));
  // Where the compiler's kernel is outside as well, the recording is at fault.
  EXPECT_EQ(Check(unmasked, unmasked), "");
}

TEST_F(AccessCheckTest, LooksAtEverySite) {
  const TtirModule unmasked = Module("in", "");
  sites_[0].site.storages[1].bytes = 512;
  sites_.push_back(sites_[0]);
  EXPECT_EQ(Check(unmasked, own_), "");
  sites_[1].site.storages[1].bytes = 500;
  sites_[1].site.name = "graph 0 event 2";
  EXPECT_THAT(Check(unmasked, own_), HasSubstr("graph 0 event 2"));
}

TEST_F(AccessCheckTest, NeedsTheKernelsParameters) {
  kernel_.arguments.erase(kernel_.arguments.begin());
  EXPECT_EQ(Check(own_, own_), "argument_count");
}

}  // namespace
}  // namespace kernelopt
