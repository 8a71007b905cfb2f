// Candidates in files, put through gates 1 and 2 as `kernelopt try` and certification
// do it. Shared by the modes of gate_corpus_gpu_test.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gates/kernel_gate.h"
#include "pipeline/extract.h"
#include "workers/compile_pool.h"

namespace kernelopt {

/// A candidate that unrolls without end is given up after this long, a kernel that
/// hangs after the next.
inline constexpr int kCompileLimitMs = 30000, kRunLimitMs = 3000;

struct Item {
  std::string file;                   ///< "bad/zeros_gelu"
  std::string kernel;                 ///< name in the capture
  std::vector<std::string> expected;  ///< one of these reasons
  std::string text;
  const SearchSubject* subject = nullptr;
  Replacement replacement;
  Verdict verdict = Accept(Gate::kStatic, "");
  /// Codes of everything that gate 1 found, not only of the first.
  std::set<std::string> static_codes;
  std::string how = "compiled";  ///< how an accepted one was accepted
  CompileOutput compiled;        ///< no paths where it did not compile
  double seconds = 0;            ///< of gate 2

  /// All that it may get is gate 2's to say.
  bool IsOfGate2() const;
};

/// The candidates of `folder`/bad and `folder`/good whose names hold `only`, by name.
Result<std::vector<Item>> ReadItems(const std::string& folder, const std::string& only);
/// One file; `kind` is "bad" or "good".
Result<Item> ReadItem(const std::string& path, const std::string& kind);

/// Compile workers as the product starts them; $KERNELOPT_PYTHON and so on count.
Result<std::unique_ptr<CompilePool>> MakeCompiler(int workers = 0);

/// The kernels of one recording, and their candidates.
class Corpus {
 public:
  /// `judge` may be null or a ShadowJudge: then the device is the recorded one.
  /// `twin_compiler`: for the twins, while `compiler` may be at work in another thread.
  Corpus(Compiler& compiler, Compiler& twin_compiler, Judge* judge)
      : compiler_(compiler), twin_compiler_(twin_compiler), judge_(judge) {}

  /// `folder` holds capture/. Errors: those of Extract.
  Status Open(const std::string& folder);

  /// Gate 1 on the texts and on what they compile to. `all`: what has a finding in its
  /// text is compiled, too. Verdicts and codes go into the items.
  Status Static(std::vector<Item>* items, bool all = false);

  /// Gate 2: screening, then certification in full.
  Verdict Gate2(const Item& item, const std::set<std::string>& without = {});
  /// Screening alone.
  Verdict Screen(const Item& item, const KernelRule& rule);

  const CompileOutput& Baseline(const Item& item) const { return baselines_.at(item.kernel); }

 private:
  Status Place(Item* item);
  KernelPair PairOf(const Item& item) const;
  TwinMaker& TwinsOf(const Item& item);

  Compiler& compiler_;
  Compiler& twin_compiler_;
  Judge* judge_;
  Extraction extraction_;
  DeviceFacts device_;
  std::map<std::string, CompileOutput> baselines_;
  std::map<std::string, std::unique_ptr<TwinMaker>> twins_;
};

}  // namespace kernelopt
