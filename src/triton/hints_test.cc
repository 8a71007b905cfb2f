#include "triton/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kernelopt {
namespace {

std::map<std::string, std::string> Variants(std::string_view text) {
  auto variants = HintVariants(text);
  EXPECT_TRUE(variants.has_value());
  std::map<std::string, std::string> result;
  for (const TextVariant& variant : *variants) {
    EXPECT_FALSE(variant.change.empty());
    result[variant.name] = variant.text;
  }
  return result;
}

TEST(HintsTest, RewritesOnlyHints) {
  const char* text =
      "@triton.jit\n"
      "def k(p, q, o):\n"
      "    a = tl.load(p + 1, None, eviction_policy='evict_last')\n"
      "    b = tl.load(p + 2, eviction_policy='evict_first', other=0.0)\n"
      "    c = tl.load(q)  # tl.load(q)\n"
      "    tl.store(o, a + b + c, None)\n";
  auto variants = Variants(text);
  EXPECT_EQ(variants["no_eviction_policy"],
            "@triton.jit\n"
            "def k(p, q, o):\n"
            "    a = tl.load(p + 1, None)\n"
            "    b = tl.load(p + 2, other=0.0)\n"
            "    c = tl.load(q)  # tl.load(q)\n"
            "    tl.store(o, a + b + c, None)\n");
  EXPECT_EQ(variants["evict_last_reread"],
            "@triton.jit\n"
            "def k(p, q, o):\n"
            "    a = tl.load(p + 1, None, eviction_policy='evict_last')\n"
            "    b = tl.load(p + 2, eviction_policy='evict_last', other=0.0)\n"
            "    c = tl.load(q, eviction_policy='evict_first')  # tl.load(q)\n"
            "    tl.store(o, a + b + c, None)\n");
  EXPECT_EQ(variants["swap_eviction"],
            "@triton.jit\n"
            "def k(p, q, o):\n"
            "    a = tl.load(p + 1, None, eviction_policy='evict_first')\n"
            "    b = tl.load(p + 2, eviction_policy='evict_last', other=0.0)\n"
            "    c = tl.load(q)  # tl.load(q)\n"
            "    tl.store(o, a + b + c, None)\n");
  EXPECT_EQ(variants["stream_all"],
            "@triton.jit\n"
            "def k(p, q, o):\n"
            "    a = tl.load(p + 1, None, cache_modifier='.cg')\n"
            "    b = tl.load(p + 2, other=0.0, cache_modifier='.cg')\n"
            "    c = tl.load(q, cache_modifier='.cg')  # tl.load(q)\n"
            "    tl.store(o, a + b + c, None, cache_modifier='.cs')\n");
}

TEST(HintsTest, NoVariantTwiceAndNoneWithoutAccesses) {
  auto variants = Variants("@triton.jit\ndef k(p):\n    tl.store(p, 1)\n");
  EXPECT_EQ(variants.size(), 1u);  // store_cs; stream_all is the same text
  EXPECT_TRUE(variants.contains("store_cs"));
  EXPECT_TRUE(Variants("@triton.jit\ndef k(p):\n    pass\n").empty());
  EXPECT_FALSE(HintVariants("def (").has_value());
}

}  // namespace
}  // namespace kernelopt
