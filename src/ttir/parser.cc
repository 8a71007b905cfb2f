#include "ttir/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "ttir/characters.h"

namespace kernelopt {
namespace {

constexpr int kMostRegions = 100;  // inside each other

/// Splits at commas outside of brackets.
std::vector<std::string> SplitTypes(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    char c = i < text.size() ? text[i] : ',';
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if ((c == '>' && !(i > 0 && text[i - 1] == '-')) || c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && (depth == 0 || i == text.size())) {
      std::string part(Trim(text.substr(begin, i - begin)));
      if (!part.empty()) parts.push_back(std::move(part));
      begin = i + 1;
    }
  }
  return parts;
}

/// "(a, b)" or "a" as a list.
std::vector<std::string> TypeList(const std::string& text) {
  std::string trimmed(Trim(text));
  if (trimmed.size() >= 2 && trimmed.front() == '(' && trimmed.back() == ')')
    trimmed = trimmed.substr(1, trimmed.size() - 2);
  return SplitTypes(trimmed);
}

}  // namespace

TtirParser::TtirParser(std::string_view text, std::string_view file) : source_(text), file_(file) {}

Result<TtirModule> TtirParser::Parse() {
  if (!StripLocations(source_, &text_, &locations_))
    return Bad("a string or location that never ends");
  scopes_.emplace_back();
  KOPT_CHECK_OK(ParseTopLevel());
  if (module_.functions.empty()) return Bad("no function");
  for (TtirFunction& function : module_.functions) SetSourceLines(&function.body);
  module_.text = std::move(text_);
  return std::move(module_);
}

Status TtirParser::ParseTopLevel() {
  bool in_module = false;
  while (true) {
    SkipBlank();
    if (pos_ >= text_.size()) break;
    if (text_[pos_] == '#' || text_[pos_] == '!') {  // an alias: it ends with its line
      size_t begin = pos_++;
      std::string name = "#" + TakeWord();
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
      if (int location = locations_.LastIn(begin, pos_); location >= 0)
        locations_.Name(name, location);
    } else if (in_module && Take("}")) {
      in_module = false;
    } else if (const size_t begin = pos_; Take("tt.func")) {
      KOPT_CHECK_OK(ParseFunction());
      module_.functions.back().span = {begin, pos_};
    } else if (!in_module && (Take("module") || Take("builtin.module"))) {
      in_module = true;
      while (pos_ < text_.size() && !AtLineEndAfterBrace()) {
        if (text_[pos_] == '\n') return Bad("a module without a body");
        if (text_[pos_] == '{') {
          (void)KOPT_TRY(TakeBalanced());
        } else {
          ++pos_;
        }
      }
      if (pos_ >= text_.size()) return Bad("a module without a body");
      ++pos_;
    } else {
      return Bad("neither a function nor a module");
    }
  }
  if (in_module) return Bad("a module that never ends");
  return {};
}

Status TtirParser::ParseFunction() {
  TtirFunction function;
  function.line = Line();
  op_name_ = "tt.func";
  SkipSpaces();
  if (Take("public")) {
    function.is_public = true;
  } else if (!Take("private") && !Take("nested")) {
    function.is_public = true;  // MLIR's default visibility
  }
  SkipSpaces();
  if (!Take("@")) return Bad("a function without a name");
  if (pos_ < text_.size() && text_[pos_] == '"') {
    size_t begin = pos_;
    if (!SkipString()) return Bad("a string that never ends");
    function.name = text_.substr(begin + 1, pos_ - begin - 2);
  } else {
    function.name = TakeWord();
  }
  scopes_.assign(1, {});
  function.parameters = KOPT_TRY(ParseBindings());
  // Result type and attributes, up to the body.
  while (pos_ < text_.size() && !AtLineEndAfterBrace()) {
    if (text_[pos_] == '\n') return Bad("a function without a body");
    if (text_[pos_] == '{') {
      (void)KOPT_TRY(TakeBalanced());
    } else {
      ++pos_;
    }
  }
  if (pos_ >= text_.size()) return Bad("a function without a body");
  KOPT_CHECK_OK(ParseRegion(&function.body, {}));
  module_.functions.push_back(std::move(function));
  return {};
}

Result<std::vector<ValueId>> TtirParser::ParseBindings() {
  std::vector<ValueId> ids;
  SkipSpaces();
  if (!Take("(")) return Bad("no parameter list");
  SkipBlank();
  while (!Take(")")) {
    if (!ids.empty() && !Take(",")) return Bad("no comma between parameters");
    SkipBlank();
    std::string name = KOPT_TRY(TakeName());
    SkipSpaces();
    if (!Take(":")) return Bad("a parameter without a type");
    std::string type = KOPT_TRY(TakeType());
    ids.push_back(Define(std::move(name), std::move(type)));
    SkipBlank();
    if (pos_ < text_.size() && text_[pos_] == '{') (void)KOPT_TRY(TakeBalanced());
    SkipBlank();
  }
  return ids;
}

Status TtirParser::ParseRegion(
    TtirRegion* region, const std::vector<std::pair<std::string, std::string>>& first_arguments) {
  region->span.begin = pos_;
  if (!Take("{")) return Bad("no region");
  if (++depth_ > kMostRegions) return Bad("regions nested too deeply");
  scopes_.emplace_back();
  region->blocks.emplace_back();
  for (const auto& [name, type] : first_arguments)
    region->blocks.back().arguments.push_back(Define(name, type));
  while (true) {
    SkipBlank();
    if (pos_ >= text_.size()) return Bad("a region that never ends");
    if (Take("}")) break;
    if (text_[pos_] == '^') {
      TtirBlock& last = region->blocks.back();
      if (!last.ops.empty() || !last.label.empty()) region->blocks.emplace_back();
      KOPT_CHECK_OK(ParseBlockLabel(&region->blocks.back()));
    } else {
      TtirOp op = KOPT_TRY(ParseOp());
      region->blocks.back().ops.push_back(std::move(op));
    }
  }
  region->span.end = pos_;
  scopes_.pop_back();
  --depth_;
  return {};
}

Status TtirParser::ParseBlockLabel(TtirBlock* block) {
  ++pos_;
  block->label = "^" + TakeWord();
  if (pos_ < text_.size() && text_[pos_] == '(') {
    std::vector<ValueId> ids = KOPT_TRY(ParseBindings());
    block->arguments.insert(block->arguments.end(), ids.begin(), ids.end());
  }
  SkipSpaces();
  if (!Take(":")) return Bad("a block label without ':'");
  return {};
}

Result<TtirOp> TtirParser::ParseOp() {
  TtirOp op;
  op.line = Line();
  op.span.begin = pos_;
  op_name_ = "operation";
  std::vector<std::string> result_names;
  if (pos_ < text_.size() && text_[pos_] == '%') {
    do {
      SkipBlank();
      std::string name = KOPT_TRY(TakeName());
      SkipSpaces();
      if (Take(":")) {
        std::string count = TakeWord();
        if (count.empty() || count.size() > 4 ||
            !std::all_of(count.begin(), count.end(), [](unsigned char c) { return isdigit(c); }))
          return Bad("a bad number of results");
        for (int i = 0; i < std::stoi(count); ++i)
          result_names.push_back(fmt::format("{}#{}", name, i));
      } else {
        result_names.push_back(std::move(name));
      }
      SkipSpaces();
    } while (Take(","));
    if (!Take("=")) return Bad("results without '='");
    SkipSpaces();
  }
  if (pos_ < text_.size() && text_[pos_] == '"') {
    size_t begin = pos_;
    if (!SkipString()) return Bad("a string that never ends");
    op.name = text_.substr(begin + 1, pos_ - begin - 2);
  } else {
    op.name = TakeWord();
  }
  if (op.name.find('.') == std::string::npos)
    return Bad(fmt::format("'{}' where an operation should be", op.name));
  op_name_ = op.name;

  std::vector<std::pair<std::string, std::string>> arguments;
  if (op.name == "scf.for") KOPT_CHECK_OK(ParseFor(&op, &arguments));
  if (op.name == "scf.while") KOPT_CHECK_OK(ParseWhile(&op, &arguments));
  TypeText types;
  KOPT_CHECK_OK(ParseRest(&op, arguments, &types));
  for (std::string& name : result_names) op.results.push_back(Define(std::move(name), ""));
  SetResultTypes(op, types);
  op.span.end = pos_;
  return op;
}

/// %i = %lo to %hi step %s [iter_args(%a = %init, ...) -> (types)]
Status TtirParser::ParseFor(TtirOp* op,
                            std::vector<std::pair<std::string, std::string>>* arguments) {
  SkipSpaces();
  std::string keyword;
  size_t before = pos_;
  if (keyword = TakeWord(); keyword == "unsigned") {
    op->attributes += "unsigned ";
  } else {
    pos_ = before;
  }
  SkipSpaces();
  std::string induction = KOPT_TRY(TakeName());
  for (std::string_view separator : {"=", "to", "step"}) {
    SkipSpaces();
    if (!Take(separator)) return Bad(fmt::format("a loop without '{}'", separator));
    SkipSpaces();
    op->operands.push_back(KOPT_TRY(TakeUse()));
  }
  arguments->emplace_back(std::move(induction), module_.TypeOf(op->operands[0]));
  SkipSpaces();
  if (Take("iter_args")) {
    for (auto& [name, initial] : KOPT_TRY(ParseAssignments())) {
      arguments->emplace_back(name, module_.TypeOf(initial));
      op->initial.push_back(initial);
    }
  }
  return {};
}

/// (%a = %init, ...) : (types) -> types
Status TtirParser::ParseWhile(TtirOp* op,
                              std::vector<std::pair<std::string, std::string>>* arguments) {
  SkipSpaces();
  if (pos_ < text_.size() && text_[pos_] == '(') {
    for (auto& [name, initial] : KOPT_TRY(ParseAssignments())) {
      arguments->emplace_back(name, module_.TypeOf(initial));
      op->initial.push_back(initial);
    }
  }
  return {};
}

Result<std::vector<std::pair<std::string, ValueId>>> TtirParser::ParseAssignments() {
  std::vector<std::pair<std::string, ValueId>> result;
  if (!Take("(")) return Bad("no carried values");
  SkipBlank();
  while (!Take(")")) {
    if (!result.empty() && !Take(",")) return Bad("no comma between carried values");
    SkipBlank();
    std::string name = KOPT_TRY(TakeName());
    SkipSpaces();
    if (!Take("=")) return Bad("a carried value without a start");
    SkipSpaces();
    ValueId initial = KOPT_TRY(TakeUse());
    result.emplace_back(std::move(name), initial);
    SkipBlank();
  }
  return result;
}

/// Everything up to the end of the operation: the first line end outside of
/// brackets. Only the first region gets `arguments`.
Status TtirParser::ParseRest(TtirOp* op,
                             const std::vector<std::pair<std::string, std::string>>& arguments,
                             TypeText* types) {
  std::string open;  // brackets not yet closed
  std::string* sink = &op->attributes;
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '\n') {
      if (open.empty()) break;
      ++pos_;
    } else if (c == '"') {
      size_t begin = pos_;
      if (!SkipString()) return Bad("a string that never ends");
      sink->append(text_, begin, pos_ - begin);
    } else if (c == '%') {
      op->operands.push_back(KOPT_TRY(TakeUse()));
    } else if (c == '^') {
      KOPT_CHECK_OK(ParseSuccessor(op));
    } else if (c == '{' && AtLineEndAfterBrace()) {
      TtirRegion region;
      std::string name = op_name_;
      KOPT_CHECK_OK(ParseRegion(&region, op->regions.empty()
                                             ? arguments
                                             : std::vector<std::pair<std::string, std::string>>{}));
      op_name_ = name;
      op->regions.push_back(std::move(region));
      sink = &op->attributes;
    } else if (c == '{') {
      std::string dictionary = KOPT_TRY(TakeBalanced());
      op->attributes += dictionary;
    } else if (c == '}' && open.empty()) {
      break;  // the region's end on the operation's line
    } else if (c == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '>') {
      if (open.empty()) {
        types->arrow.clear();
        sink = &types->arrow;
      } else {
        sink->append("->");
      }
      pos_ += 2;
    } else if (c == '(' || c == '[' || c == '<') {
      open.push_back(c);
      sink->push_back(c);
      ++pos_;
    } else if (c == ')' || c == ']' || c == '>') {
      char partner = c == ')' ? '(' : c == ']' ? '[' : '<';
      if (open.empty() || open.back() != partner) return Bad("a bracket that nothing opened");
      open.pop_back();
      sink->push_back(c);
      ++pos_;
    } else if (c == ':' && open.empty()) {
      types->colon.clear();
      sink = &types->colon;
      ++pos_;
    } else {
      sink->push_back(c);
      ++pos_;
    }
  }
  if (!open.empty()) return Bad("a bracket that never closes");
  op->attributes = Trim(op->attributes);
  return {};
}

/// ^bb1 or ^bb1(%a, %b : i32, i32)
Status TtirParser::ParseSuccessor(TtirOp* op) {
  TtirOp::Successor successor;
  ++pos_;
  successor.label = "^" + TakeWord();
  if (Take("(")) {
    do {
      SkipSpaces();
      successor.arguments.push_back(KOPT_TRY(TakeUse()));
      SkipSpaces();
    } while (Take(","));
    if (!Take(":")) return Bad("arguments of a branch without types");
    do {
      (void)KOPT_TRY(TakeType());
    } while (Take(","));
    if (!Take(")")) return Bad("a bracket that never closes");
  }
  op->successors.push_back(std::move(successor));
  return {};
}

void TtirParser::SetResultTypes(const TtirOp& op, const TypeText& types) {
  if (op.results.empty()) return;
  std::vector<std::string> list;
  if (!types.arrow.empty()) {
    list = TypeList(types.arrow);
  } else if (size_t to = types.colon.find(" to "); to != std::string::npos) {
    list = {std::string(Trim(std::string_view(types.colon).substr(to + 4)))};
  } else {
    list = SplitTypes(types.colon);
    if (op.name == "arith.constant" && list.empty()) list = {"i1"};
    if (!list.empty()) {
      std::string type = op.name == "tt.addptr" ? list.front() : list.back();
      if (op.name == "tt.load") type = PointeeType(list.front());
      if (op.name == "arith.cmpi" || op.name == "arith.cmpf") type = WithElementType(type, "i1");
      if (op.name == "tt.make_tensor_descriptor" && type.starts_with("<"))
        type = "!tt.tensordesc" + type;
      if (op.name == "tt.unsplat") type = std::string(ElementType(type));
      list.assign(op.results.size(), type);
    }
  }
  if (list.size() != op.results.size()) return;
  for (size_t i = 0; i < list.size(); ++i) module_.values[op.results[i]].type = list[i];
}

/// An operation's location stands at its end, behind its regions.
void TtirParser::SetSourceLines(TtirRegion* region) {
  for (TtirBlock& block : region->blocks) {
    for (TtirOp& op : block.ops) {
      const size_t begin = op.regions.empty() ? op.span.begin : op.regions.back().span.end;
      if (int location = locations_.LastIn(begin, op.span.end); location >= 0)
        op.source_line = locations_.Line(location);
      for (TtirRegion& inner : op.regions) SetSourceLines(&inner);
    }
  }
}

void TtirParser::SkipSpaces() {
  while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
}

void TtirParser::SkipBlank() {
  while (pos_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[pos_]))) ++pos_;
}

bool TtirParser::Take(std::string_view token) {
  if (!std::string_view(text_).substr(pos_).starts_with(token)) return false;
  // A word must not go on.
  size_t end = pos_ + token.size();
  if (IsWordChar(token.back()) && end < text_.size() && IsWordChar(text_[end])) return false;
  pos_ = end;
  return true;
}

bool TtirParser::AtLineEndAfterBrace() const {
  if (pos_ >= text_.size() || text_[pos_] != '{') return false;
  size_t i = pos_ + 1;
  while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t' || text_[i] == '\r')) ++i;
  return i >= text_.size() || text_[i] == '\n';
}

std::string TtirParser::TakeWord() {
  size_t begin = pos_;
  while (pos_ < text_.size() && IsWordChar(text_[pos_])) ++pos_;
  return text_.substr(begin, pos_ - begin);
}

Result<std::string> TtirParser::TakeName() {
  size_t begin = pos_;
  if (pos_ >= text_.size() || text_[pos_] != '%') return Bad("no value where one should be");
  ++pos_;
  while (pos_ < text_.size() && IsNameChar(text_[pos_])) ++pos_;
  if (pos_ < text_.size() && text_[pos_] == '#') {
    ++pos_;
    while (pos_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[pos_]))) ++pos_;
  }
  if (pos_ == begin + 1) return Bad("a value without a name");
  return text_.substr(begin, pos_ - begin);
}

Result<std::string> TtirParser::TakeType() {
  SkipSpaces();
  size_t begin = pos_;
  int depth = 0;
  for (; pos_ < text_.size(); ++pos_) {
    char c = text_[pos_];
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (depth == 0 && (c == ',' || c == ')' || c == '{' || c == '=' || c == '\n')) break;
    if (c == '>' || c == ')' || c == ']') --depth;
  }
  std::string type(Trim(std::string_view(text_).substr(begin, pos_ - begin)));
  if (type.empty()) return Bad("no type where one should be");
  return type;
}

Result<std::string> TtirParser::TakeBalanced() {
  size_t begin = pos_;
  std::string open;
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '"') {
      if (!SkipString()) break;
      continue;
    }
    ++pos_;
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c == ')' || c == ']' || c == '}') {
      char partner = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != partner) return Bad("a bracket that nothing opened");
      open.pop_back();
      if (open.empty()) return text_.substr(begin, pos_ - begin);
    }
  }
  return Bad("a bracket that never closes");
}

bool TtirParser::SkipString() {
  for (++pos_; pos_ < text_.size() && text_[pos_] != '"'; ++pos_)
    if (text_[pos_] == '\\') ++pos_;
  if (pos_ >= text_.size()) return false;
  ++pos_;
  return true;
}

int TtirParser::Line() const {
  size_t end = std::min(pos_, text_.size());
  if (end < line_pos_) {
    line_pos_ = 0;
    line_ = 1;
  }
  for (; line_pos_ < end; ++line_pos_) line_ += text_[line_pos_] == '\n';
  return line_;
}

std::unexpected<Error> TtirParser::Bad(std::string_view what) const {
  return Fail(ErrorKind::kUsage, "unreadable_ttir",
              fmt::format("found {} in {}; wanted TTIR as triton 3.5 to 3.8 prints it", what,
                          op_name_.empty() ? "the module" : op_name_),
              fmt::format("{}:{}", file_, Line()));
}

ValueId TtirParser::Define(std::string name, std::string type) {
  ValueId id = static_cast<ValueId>(module_.values.size());
  scopes_.back()[name] = id;
  module_.values.push_back({std::move(name), std::move(type)});
  return id;
}

Result<ValueId> TtirParser::TakeUse() {
  const size_t begin = pos_;
  const std::string name = KOPT_TRY(TakeName());
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto it = scope->find(name); it != scope->end()) {
      module_.uses.push_back({{begin, pos_}, it->second});
      return it->second;
    }
  }
  return Bad(fmt::format("{}, which nothing defines,", name));
}

}  // namespace kernelopt
