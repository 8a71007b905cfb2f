// The recursive-descent reader behind ReadTtir; see ttir.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ttir/locations.h"
#include "ttir/ttir.h"

namespace kernelopt {

class TtirParser {
 public:
  TtirParser(std::string_view text, std::string_view file);
  Result<TtirModule> Parse();

 private:
  struct TypeText {
    std::string colon;  ///< after the last ':' outside of brackets
    std::string arrow;  ///< after "->"
  };

  Status ParseTopLevel();
  Status ParseFunction();
  Result<std::vector<ValueId>> ParseBindings();
  Status ParseRegion(TtirRegion* region,
                     const std::vector<std::pair<std::string, std::string>>& first_arguments);
  Status ParseBlockLabel(TtirBlock* block);
  Result<TtirOp> ParseOp();
  Status ParseFor(TtirOp* op, std::vector<std::pair<std::string, std::string>>* arguments);
  Status ParseWhile(TtirOp* op, std::vector<std::pair<std::string, std::string>>* arguments);
  Result<std::vector<std::pair<std::string, ValueId>>> ParseAssignments();
  Status ParseRest(TtirOp* op, const std::vector<std::pair<std::string, std::string>>& arguments,
                   TypeText* types);
  Status ParseSuccessor(TtirOp* op);
  void SetResultTypes(const TtirOp& op, const TypeText& types);
  void SetSourceLines(TtirRegion* region);

  // Text level.
  void SkipSpaces();
  void SkipBlank();  ///< spaces and line ends
  bool Take(std::string_view token);
  bool AtLineEndAfterBrace() const;
  std::string TakeWord();
  Result<std::string> TakeName();      ///< "%x", "%x#1"
  Result<std::string> TakeType();      ///< up to ',' ')' '{' '=' or a line end
  Result<std::string> TakeBalanced();  ///< from a bracket to its partner
  bool SkipString();
  int Line() const;
  std::unexpected<Error> Bad(std::string_view what) const;

  // Values.
  ValueId Define(std::string name, std::string type);
  Result<ValueId> TakeUse();  ///< a name that was defined before

  std::string_view source_;
  std::string file_;
  std::string text_;
  TtirLocations locations_;
  size_t pos_ = 0;
  mutable size_t line_pos_ = 0;  ///< Line() counts on from here
  mutable int line_ = 1;
  int depth_ = 0;
  std::string op_name_;
  TtirModule module_;
  std::vector<std::map<std::string, ValueId>> scopes_;
};

}  // namespace kernelopt
