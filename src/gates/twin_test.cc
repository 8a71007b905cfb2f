#include "gates/twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "inductor/module.h"
#include "testing/fakes.h"
#include "testing/test_folder.h"

namespace kernelopt {
namespace {

using testing::FakeCompiler;
using ::testing::HasSubstr;
using ::testing::Not;

// out = x + x, with a constant between the arguments that TTIR has no parameter for.
constexpr const char* kTwinTtir = R"(module {
  tt.func public @k(%arg0: !tt.ptr<f32>, %arg1: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %1 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %2 = tt.addptr %1, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %3 = tt.load %2 : tensor<64x!tt.ptr<f32>>
    %4 = FUNCTION
    %5 = tt.splat %arg1 : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %6 = tt.addptr %5, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %6, %4 : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
)";

class TwinMakerTest : public ::testing::Test {
 protected:
  TwinMakerTest() {
    kernel_.name = kernel_.entry = "k";
    kernel_.grid_type = "Grid1D";
    kernel_.arguments.resize(3);
    kernel_.arguments[0].triton_type = kernel_.arguments[2].triton_type = "*fp32";
    kernel_.arguments[1].triton_type = "constexpr";
    kernel_.arguments[1].name = "XBLOCK";
    config_.constexprs = {{"XBLOCK", 64}};
    Write("arith.addf %3, %3 : tensor<64xf32>");
    baseline_.ttir_path = folder_.path() + "/k.ttir";
    compiler_.adjust = [](const CompileRequest&, CompileOutput* output) {
      for (int argument : {0, 1, -1}) {
        LaunchParameter parameter;
        parameter.argument = argument;
        if (argument < 0) parameter.kind = LaunchParameter::Kind::kScratch;
        output->record.parameters.push_back(parameter);
      }
    };
    site_.numels = {{"xnumel", 64}};
    site_.site.storages.resize(2);
    site_.site.storages[1].written = true;
    site_.site.arguments.resize(3);
    site_.site.arguments[0].storage = 0;
    site_.site.arguments[1].kind = ArgumentSpec::Kind::kInt;
    site_.site.arguments[2].storage = 1;
  }

  void Write(const std::string& function) {
    std::string text = kTwinTtir;
    text.replace(text.find("FUNCTION"), 8, function);
    ASSERT_TRUE(WriteFileAtomic(folder_.path() + "/k.ttir", text));
  }

  TestFolder folder_;
  Kernel kernel_;
  LaunchConfig config_;
  CompileOutput baseline_;
  FakeCompiler compiler_;
  BuiltSite site_;
  TwinMaker twins_{kernel_, config_, baseline_, 90, compiler_};
};

TEST_F(TwinMakerTest, IsThePromotedTextLaunchedAsTheKernelIs) {
  auto twin = twins_.At(site_);
  ASSERT_TRUE(twin) << twin.error().ToString();
  ASSERT_EQ(compiler_.requests.size(), 1u);
  EXPECT_TRUE(compiler_.requests[0].is_ttir);
  EXPECT_THAT(compiler_.requests[0].source, HasSubstr("arith.addf"));
  EXPECT_THAT(compiler_.requests[0].source, HasSubstr("!tt.ptr<f64>"));
  EXPECT_EQ(twin->grid, (std::array<int64_t, 3>{1, 1, 1}));
  // Parameter 1 of the text is argument 2 of the kernel.
  ASSERT_EQ(twin->record.parameters.size(), 3u);
  EXPECT_EQ(twin->record.parameters[0].argument, 0);
  EXPECT_EQ(twin->record.parameters[1].argument, 2);
  EXPECT_EQ(twin->record.parameters[2].argument, -1);
}

TEST_F(TwinMakerTest, SitesThatShareStoragesAlikeShareOneBinary) {
  ASSERT_TRUE(twins_.At(site_));
  ASSERT_TRUE(twins_.At(site_));
  EXPECT_EQ(compiler_.requests.size(), 1u);
  EXPECT_THAT(compiler_.requests[0].source, HasSubstr("%arg0: !tt.ptr<f32>"));
  site_.site.arguments[0].storage = 1;  // in place: what it reads is float64 as well
  ASSERT_TRUE(twins_.At(site_));
  ASSERT_EQ(compiler_.requests.size(), 2u);
  EXPECT_THAT(compiler_.requests[1].source, Not(HasSubstr("!tt.ptr<f32>")));
}

TEST_F(TwinMakerTest, WhatCanNotBeMadeIsNamed) {
  Write("tt.bitcast %3 : tensor<64xf32> -> tensor<64xi32>");
  auto bits = twins_.At(site_);
  ASSERT_FALSE(bits);
  EXPECT_EQ(bits.error().code, "no_twin");
  EXPECT_THAT(bits.error().message, HasSubstr("bits of a float"));
  Write("arith.addf %3, %3 : tensor<64xf32>");
  compiler_.fail = [](const CompileRequest&) {
    return Error{ErrorKind::kUsage, "compile_error", "too many registers", "k"};
  };
  auto failed = twins_.At(site_);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "no_twin");
  compiler_.fail = [](const CompileRequest&) {
    return Error{ErrorKind::kInterrupted, "interrupted", "stopped", ""};
  };
  EXPECT_EQ(twins_.At(site_).error().code, "interrupted");
}

}  // namespace
}  // namespace kernelopt
