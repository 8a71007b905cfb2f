#include "triton/static_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "inductor/module.h"
#include "inductor/splice.h"
#include "triton/hints.h"

namespace kernelopt {
namespace {

using ::testing::IsEmpty;

Kernel Live() {
  Kernel kernel;
  kernel.name = kernel.entry = "k";
  kernel.arguments = {{"in_ptr0", "", "*fp32"},
                      {"out_ptr0", "", "*fp32"},
                      {"xnumel", "", "i32"},
                      {"XBLOCK", "tl.constexpr", "constexpr"}};
  return kernel;
}

constexpr const char* kHead =
    "@triton.jit\ndef k(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):\n";

std::string Codes(const std::vector<StaticFinding>& findings) {
  std::string text;
  for (const StaticFinding& finding : findings) {
    if (!text.empty()) text += ' ';
    text +=
        finding.code + ":" + std::to_string(finding.line) + ":" + std::to_string(finding.column);
  }
  return text;
}

TEST(StaticCheckTest, AcceptsWhatTheCompilerWrites) {
  const char* texts[] = {
      R"(@triton.jit
def helper(a, b):
    return a + b

@triton.jit
def k(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    """Comments and docstrings decide nothing."""
    xnumel = 4096  # import os
    R0_BLOCK: tl.constexpr = 32
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + (xindex), xmask, eviction_policy='evict_last', other=0.0).to(tl.float32)
    tmp1 = tl.full([1], float('-inf'), tl.float32)
    tmp2 = tl.where(xmask, triton_helpers.maximum(tmp0, tmp1), -1.0)
    a, b = tmp2, libdevice.rsqrt(tmp2)
    acc = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in tl.range(0, 512, R0_BLOCK, num_stages=2):
        acc += tl_math.abs(b)[:, None]
    for i in tl.static_range(4):
        pass
    if XBLOCK >= 64 and not (xnumel == 1):
        acc = acc * 2
    elif XBLOCK == 8:
        acc = acc + tl.math.exp(acc)
    else:
        acc = acc if XBLOCK > 2 else -acc
    s = tl.associative_scan(acc, 1, helper, reverse=False)
    c = tl.sum(s, 1)[:, None]
    d = tmp0.dtype
    tl.device_assert((0 <= xindex) & (xindex < 8) | ~xmask, "index out of bounds: 0 <= x < 8")
    tl.store(out_ptr0 + xindex, helper(a=tmp2, b=tl.full(tmp0.shape, 1, d)), xmask, cache_modifier='.cs')
)",
      "@triton.jit\ndef k(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):\n    pass\n",
  };
  for (const char* text : texts)
    EXPECT_EQ(Codes(CheckKernelText(text, Live(), "3.6.0")), "") << text;
}

struct BadCase {
  const char* name;
  std::string text;
  const char* codes;
};

std::string Body(const std::string& body) {
  return kHead + ("    " + body + "\n");
}

TEST(StaticCheckTest, RefusesEachWithItsCodeAndPlace) {
  const std::string ok = std::string(kHead) + "    pass\n";
  const BadCase cases[] = {
      {"syntax", "@triton.jit\ndef k(:\n", "syntax_error:2:7"},
      {"empty", "", "missing_entry:1:1"},
      {"other name", "@triton.jit\ndef other(in_ptr0):\n    pass\n", "missing_entry:1:1"},
      {"import", "import os\n" + ok, "import:1:1"},
      {"from import", "from os import system\n" + ok, "import:1:1"},
      {"inner import", Body("import os"), "forbidden_statement:3:5"},
      {"top level call", "print(1)\n" + ok, "top_level_statement:1:1"},
      {"top level assignment", "x = 1\n" + ok, "top_level_statement:1:1"},
      {"class", "class A:\n    pass\n" + ok, "top_level_statement:1:1"},
      {"no decorator", "def h(a):\n    return a\n" + ok, "decorator:1:1"},
      {"other decorator", "@evil\n" + ok.substr(12), "decorator:1:1"},
      {"decorator with call", "@triton.jit(noinline=True)\n" + ok.substr(12), "decorator:1:1"},
      {"two decorators", "@triton.autotune\n" + ok, "decorator:1:1 decorator:1:1"},
      {"twice", ok + ok, "duplicate_function:5:1"},
      {"parameter dropped",
       "@triton.jit\ndef k(in_ptr0, out_ptr0, XBLOCK : tl.constexpr):\n    pass\n",
       "entry_parameters:2:1"},
      {"parameters swapped",
       "@triton.jit\ndef k(out_ptr0, in_ptr0, xnumel, XBLOCK : tl.constexpr):\n    pass\n",
       "entry_parameters:2:1"},
      {"parameter added",
       "@triton.jit\ndef k(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr, y):\n    pass\n",
       "entry_parameters:2:1"},
      {"constexpr lost", "@triton.jit\ndef k(in_ptr0, out_ptr0, xnumel, XBLOCK):\n    pass\n",
       "entry_parameters:2:1"},
      {"default", "@triton.jit\ndef h(a=print(1)):\n    return a\n" + ok,
       "parameter_default:2:7 unknown_name:3:12"},
      {"typed default", "@triton.jit\ndef h(a: tl.constexpr=1):\n    return a\n" + ok,
       "parameter_default:2:7 unknown_name:3:12"},
      {"annotation runs code", "@triton.jit\ndef h(a: print(1)):\n    return a\n" + ok,
       "annotation:2:7"},
      {"return annotation", "@triton.jit\ndef h(a) -> print(1):\n    return a\n" + ok,
       "annotation:2:13"},
      {"star", "@triton.jit\ndef h(*a):\n    return a\n" + ok,
       "parameter_kind:2:7 unknown_name:3:12"},
      {"variable annotation", Body("x: print(1) = 2"), "annotation:3:8"},
      {"async", "@triton.jit\nasync def h(a):\n    return a\n" + ok, "forbidden_statement:2:1"},
      {"nested def", Body("def inner():\n        pass"), "forbidden_statement:3:5"},
      {"global", Body("global tl"), "forbidden_statement:3:5"},
      {"nonlocal", Body("nonlocal x"), "forbidden_statement:3:5"},
      {"while", Body("while True:\n        pass"), "forbidden_statement:3:5"},
      {"with", Body("with x:\n        pass"), "forbidden_statement:3:5"},
      {"try", Body("try:\n        pass\n    except Exception:\n        pass"),
       "forbidden_statement:3:5"},
      {"del", Body("del in_ptr0"), "forbidden_statement:3:5"},
      {"raise", Body("raise xnumel"), "forbidden_statement:3:5"},
      {"assert", Body("assert xnumel"), "forbidden_statement:3:5"},
      {"lambda", Body("x = lambda: 1"), "forbidden_expression:3:9"},
      {"comprehension", Body("x = [i for i in range(3)]"), "forbidden_expression:3:9"},
      {"generator", Body("x = max(i for i in range(3))"), "forbidden_expression:3:9"},
      {"dictionary", Body("x = {1: 2}"), "forbidden_expression:3:9"},
      {"walrus", Body("x = (y := 1)"), "forbidden_expression:3:10"},
      {"yield", Body("yield 1"), "forbidden_expression:3:5"},
      {"await", Body("await xnumel"), "forbidden_expression:3:5"},
      {"f-string", Body("x = float(f'{xnumel}')"),
       "forbidden_expression:3:15 forbidden_expression:3:17"},
      {"star argument", Body("x = max(*in_ptr0)"), "forbidden_expression:3:13"},
      {"imaginary", Body("x = 1j"), "forbidden_expression:3:9"},
      {"matmul", Body("x = in_ptr0 @ out_ptr0"), "forbidden_expression:3:9"},
      {"power", Body("x = xnumel ** 99999"), "forbidden_expression:3:9"},
      {"exec", Body("exec('1')"), "unknown_call:3:5"},
      {"eval", Body("x = eval('1')"), "unknown_call:3:9"},
      {"print", Body("print(xnumel)"), "unknown_call:3:5"},
      {"getattr", Body("x = getattr(tl, 'load')"), "unknown_call:3:9 module_as_value:3:17"},
      {"unknown name", Body("x = os"), "unknown_name:3:9"},
      {"call of a local", Body("xnumel(1)"), "unknown_call:3:5"},
      {"module as value", Body("x = tl"), "module_as_value:3:9"},
      {"assembly", Body("tl.inline_asm_elementwise('', '', [], tl.int32, True, 1)"),
       "unknown_attribute:3:5"},
      {"atomics", Body("tl.atomic_add(out_ptr0, 1)"), "unknown_attribute:3:5"},
      {"printing", Body("tl.device_print('x')"), "unknown_attribute:3:5"},
      {"extra", Body("x = tl.extra.cuda.globaltimer()"), "unknown_attribute:3:9"},
      {"alignment claim", Body("x = tl.multiple_of(xnumel, 16)"), "unknown_attribute:3:9"},
      {"triton", Body("x = triton.runtime.driver"), "unknown_attribute:3:9"},
      {"fast libdevice", Body("x = libdevice.fast_expf(1.0)"), "unknown_attribute:3:9"},
      {"driver helper", Body("triton_helpers.set_driver_to_gpu()"), "unknown_attribute:3:5"},
      {"dunder", Body("x = in_ptr0.__class__"), "forbidden_attribute:3:9"},
      {"through a function", Body("x = tl.load.__globals__"), "unknown_attribute:3:9"},
      {"method", Body("x = in_ptr0.handle"), "forbidden_attribute:3:9"},
      {"rebinds tl", Body("tl = 1"), "rebinds_name:3:5"},
      {"rebinds float", Body("float, x = 1, 2"), "rebinds_name:3:5"},
      {"loop variable tl", Body("for tl in range(3):\n        pass"), "rebinds_name:3:9"},
      {"parameter tl", "@triton.jit\ndef h(tl):\n    return tl\n" + ok, "rebinds_name:2:7"},
      {"function named tl", "@triton.jit\ndef tl(a):\n    return a\n" + ok, "rebinds_name:2:1"},
      {"attribute target", Body("in_ptr0.x = 1"), "forbidden_target:3:5"},
      {"item target", Body("in_ptr0[0] = 1"), "forbidden_target:3:5"},
      {"loop over a list", Body("for i in [1]:\n        pass"), "loop_form:3:14"},
      {"volatile", Body("x = tl.load(in_ptr0, volatile=True)"), "keyword_argument:3:26"},
      {"volatile by position", Body("x = tl.load(in_ptr0, None, None, (), '', '', '', True)"),
       "cache_hint:3:16"},
      {"volatile modifier", Body("x = tl.load(in_ptr0, cache_modifier='.cv')"), "cache_hint:3:41"},
      {"hint from a name", Body("x = tl.load(in_ptr0, eviction_policy=xnumel)"), "cache_hint:3:42"},
      {"unknown keyword", Body("tl.store(out_ptr0, 1, sem=1)"), "keyword_argument:3:27"},
      {"newer triton", Body("x = tl.squeeze(in_ptr0, 0)"), "unknown_attribute:3:9"},
  };
  for (const BadCase& bad : cases)
    EXPECT_EQ(Codes(CheckKernelText(bad.text, Live(), "3.6.0")), bad.codes) << bad.name;
}

TEST(StaticCheckTest, NamesDependOnTheVersion) {
  std::string text = Body("x = tl.squeeze(in_ptr0, 0)");
  for (const char* version : {"3.7", "3.7.1", "3.8.0"})
    EXPECT_EQ(Codes(CheckKernelText(text, Live(), version)), "") << version;
  // Others may use what all known ones share.
  for (const char* version : {"3.5.1", "3.6.0", "3.9.0", "3.70.0", "4", ""}) {
    EXPECT_EQ(Codes(CheckKernelText(text, Live(), version)), "unknown_attribute:3:9") << version;
    EXPECT_EQ(Codes(CheckKernelText(Body("x = tl.load(in_ptr0)"), Live(), version)), "");
  }
}

TEST(StaticCheckTest, KeywordsOfAHelperAreItsOwn) {
  const std::string helper = "@triton.jit\ndef helper(volatile, sem):\n    return volatile + sem\n";
  EXPECT_EQ(Codes(CheckKernelText(helper + Body("x = helper(volatile=1, sem=2)"), Live(), "3.6.0")),
            "");
  EXPECT_EQ(
      Codes(CheckKernelText(helper + Body("x = tl.load(in_ptr0, volatile=True)"), Live(), "3.6.0")),
      "keyword_argument:6:26");
  EXPECT_EQ(Codes(CheckKernelText(helper + Body("x = helper(1, other=2)"), Live(), "3.6.0")),
            "keyword_argument:6:19");
}

/// A developer's run over recorded modules: every kernel of the compiler must
/// be allowed.
TEST(StaticCheckTest, AcceptsAFolderOfModules) {
  const char* folder = std::getenv("KERNELOPT_CORPUS_DIR");
  if (folder == nullptr) GTEST_SKIP() << "KERNELOPT_CORPUS_DIR is not set";
  int kernels = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    auto module = ReadModule(*ReadFile(entry.path()), entry.path().filename());
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    for (const Kernel& kernel : module->kernels) {
      std::string text = KernelText(kernel);
      EXPECT_EQ(Codes(CheckKernelText(text, kernel, "3.6.0")), "") << entry.path() << "\n" << text;
      if (++kernels % 20 != 0) continue;
      auto variants = HintVariants(text);
      ASSERT_TRUE(variants.has_value());
      for (const TextVariant& variant : *variants)
        EXPECT_EQ(Codes(CheckKernelText(variant.text, kernel, "3.6.0")), "") << variant.text;
    }
  }
  EXPECT_GE(kernels, 2000);
}

}  // namespace
}  // namespace kernelopt
