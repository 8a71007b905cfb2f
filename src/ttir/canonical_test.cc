#include "ttir/canonical.h"

#include <gtest/gtest.h>

namespace kernelopt {
namespace {

std::string Of(std::string_view text) {
  auto module = ReadTtir(text, "k.ttir");
  return module ? CanonicalTtir(*module) : module.error().ToString();
}

TEST(CanonicalTtir, NamesAndLayoutDecideNothing) {
  const std::string one = Of(R"(module {
  tt.func public @k(%p: !tt.ptr<f32>) {
    %c = arith.constant 1.000000e+00 : f32
    tt.store %p, %c : !tt.ptr<f32>
    tt.return
  }
}
)");
  EXPECT_EQ(one, Of(R"(#loc = loc("x.py":1:1)
module {
  tt.func public @other(%q: !tt.ptr<f32> loc("q")) {
    %cst   = arith.constant 1.000000e+00 : f32 loc(#loc)

    tt.store %q, %cst : !tt.ptr<f32>
    tt.return
  }
}
)"));
  EXPECT_NE(one, Of(R"(module {
  tt.func public @k(%p: !tt.ptr<f32>) {
    %c = arith.constant 2.000000e+00 : f32
    tt.store %p, %c : !tt.ptr<f32>
    tt.return
  }
}
)"));
}

TEST(CanonicalTtir, TellsValuesApart) {
  const char* text = R"(module {
  tt.func public @k(%p: !tt.ptr<f32>, %a: f32, %b: f32) {
    %0 = arith.subf %a, %b : f32
    tt.store %p, %0 : !tt.ptr<f32>
    tt.return
  }
}
)";
  std::string swapped = text;
  swapped.replace(swapped.find("%a, %b :"), 8, "%b, %a :");
  EXPECT_NE(Of(text), Of(swapped));
}

}  // namespace
}  // namespace kernelopt
