#include "ttir/ttir.h"

#include <fmt/format.h>

#include <map>

#include "ttir/parser.h"

namespace kernelopt {

const TtirFunction* TtirModule::Entry() const {
  const TtirFunction* entry = nullptr;
  for (const TtirFunction& function : functions) {
    if (!function.is_public) continue;
    if (entry != nullptr) return nullptr;
    entry = &function;
  }
  return entry;
}

void WalkOps(const TtirRegion& region, const std::function<void(const TtirOp&)>& visit) {
  for (const TtirBlock& block : region.blocks) {
    for (const TtirOp& op : block.ops) {
      visit(op);
      for (const TtirRegion& inner : op.regions) WalkOps(inner, visit);
    }
  }
}

void WalkOps(const TtirModule& module, const std::function<void(const TtirOp&)>& visit) {
  for (const TtirFunction& function : module.functions) WalkOps(function.body, visit);
}

std::string_view ElementType(std::string_view type) {
  constexpr std::string_view kTensor = "tensor<";
  if (!type.starts_with(kTensor) || !type.ends_with('>')) return type;
  std::string_view inner = type.substr(kTensor.size(), type.size() - kTensor.size() - 1);
  // Dimensions: digits (or '?') followed by 'x'.
  while (true) {
    size_t i = 0;
    while (i < inner.size() && ((inner[i] >= '0' && inner[i] <= '9') || inner[i] == '?')) ++i;
    if (i == 0 || i >= inner.size() || inner[i] != 'x') break;
    inner.remove_prefix(i + 1);
  }
  // An encoding follows a comma outside of brackets.
  int depth = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] == '<') ++depth;
    if (inner[i] == '>') --depth;
    if (inner[i] == ',' && depth == 0) return inner.substr(0, i);
  }
  return inner;
}

std::string WithElementType(std::string_view type, std::string_view element) {
  std::string_view old = ElementType(type);
  std::string result(type);
  return result.replace(static_cast<size_t>(old.data() - type.data()), old.size(), element);
}

std::string PointeeType(std::string_view type) {
  std::string_view element = ElementType(type);
  constexpr std::string_view kPointer = "!tt.ptr<";
  if (!element.starts_with(kPointer) || !element.ends_with('>')) return "";
  std::string_view inner = element.substr(kPointer.size(), element.size() - kPointer.size() - 1);
  if (size_t comma = inner.rfind(',');
      comma != std::string_view::npos && inner.find('>') == std::string_view::npos) {
    inner = inner.substr(0, comma);  // address space
  }
  return WithElementType(type, inner);
}

bool IsPointerType(std::string_view type) {
  return ElementType(type).starts_with("!tt.ptr<");
}

bool IsFloatType(std::string_view element) {
  if (element == "bf16") return true;
  return element.size() >= 2 && element[0] == 'f' && element[1] >= '0' && element[1] <= '9';
}

Result<TtirModule> ReadTtir(std::string_view text, std::string_view file) {
  return TtirParser(text, file).Parse();
}

}  // namespace kernelopt
