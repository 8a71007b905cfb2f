// A generated pointwise kernel, read as far as rules need it.
//
//   PointwiseKernel kernel = KOPT_TRY(ReadPointwise(text, "triton_poi_fused_0", numel));
//   for (const PointwiseStatement& statement : kernel.body) ...
//
// What is read: one axis (Grid1D), xindex in 32 bits, index variables of the
// form (xindex // d) % m, then assignments of names and stores. Anything else
// is refused with one sentence. Integer expressions of index variables are
// known as linear forms, conditions on them as lists of forms that must not
// be negative; what isn't of that kind stays text.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "syntax/tree.h"

namespace kernelopt {

/// sum of coefficient x symbol, plus a constant. Symbols are index variables.
struct IndexForm {
  std::map<std::string, int64_t> terms;  ///< no coefficient is 0
  int64_t constant = 0;

  auto operator<=>(const IndexForm&) const = default;
  int64_t Coefficient(const std::string& symbol) const;
  void Add(const IndexForm& other, int64_t factor);
};

/// `name` = (xindex // divisor) % modulus; modulus 0 is none.
struct IndexVariable {
  std::string name;
  int64_t divisor = 1;
  int64_t modulus = 0;
};

/// A tl.load or tl.store inside a statement.
struct PointwiseAccess {
  Node call;
  std::string pointer;              ///< the parameter
  Node offset_node;                 ///< of elements
  Node mask;                        ///< null: none
  std::optional<IndexForm> offset;  ///< nothing where it isn't linear
  /// All must be >= 0 for the access to happen, beside xmask; nothing where the
  /// mask isn't of that kind.
  std::optional<std::vector<IndexForm>> conditions;
  std::string other;               ///< text of other=, or empty
  std::string keywords;            ///< other keyword arguments, ", eviction_policy='evict_last'"
  std::vector<std::string> names;  ///< in offset and mask, each once
};

struct PointwiseStatement {
  std::string target;  ///< assigned name; empty for a store
  Node node;           ///< the assigned expression, or the store's value
  std::vector<PointwiseAccess> loads;
  std::optional<PointwiseAccess> store;
  std::vector<std::string> names;  ///< that it reads outside of its accesses, each once
};

struct PointwiseKernel {
  std::shared_ptr<Tree> tree;
  Span body_span;  ///< of the function's block in the text
  int64_t numel = 0;
  std::vector<IndexVariable> indices;
  std::vector<PointwiseStatement> body;
};

/// Errors: kUsage "not_pointwise" with what was found; those of Tree::Parse.
Result<PointwiseKernel> ReadPointwise(const std::string& text, const std::string& entry);

}  // namespace kernelopt
