#include "triton/rules/tile_analysis.h"

#include <fmt/format.h>

#include <algorithm>

namespace kernelopt {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The innermost row variable: its number of values, 0 where all rows are one group.
int64_t GroupOf(const PointwiseKernel& kernel, int64_t row) {
  for (const IndexVariable& variable : kernel.indices)
    if (variable.divisor == row && variable.modulus > 1) return variable.modulus;
  return 0;
}

unsigned Dependencies(const IndexForm& form) {
  return (form.terms.contains(kY) ? kOnRow : kNothing) |
         (form.terms.contains(kColumn) ? kOnColumn : kNothing);
}

std::string ExtremeOf(Node node) {
  if (!node.Is("call") || node.Field("arguments").NamedChildren().size() != 2) return "";
  std::string_view callee = node.Field("function").Text();
  if (callee == "triton_helpers.maximum") return "tl.maximum";
  return callee == "triton_helpers.minimum" ? "tl.minimum" : "";
}

}  // namespace

int64_t RowsOfGroup(const PointwiseKernel& kernel, int64_t row) {
  int64_t group = GroupOf(kernel, row);
  return group > 0 ? group : kernel.numel / row;
}

Result<TileAnalysis> TileAnalysis::Make(const PointwiseKernel& kernel, const TilePlan& plan) {
  TileAnalysis analysis(kernel, plan);
  const int64_t rows = kernel.numel / plan.row;
  if (kernel.numel % plan.row != 0) return NotTileable("the rows don't fill the kernel's elements");
  analysis.group = GroupOf(kernel, plan.row);
  if (analysis.group > 0 && rows % analysis.group != 0)
    return NotTileable("the groups of rows are not all complete");
  analysis.group_rows = analysis.group > 0 ? analysis.group : rows;
  analysis.groups = rows / analysis.group_rows;
  analysis.column_tiles = CeilDiv(plan.row, plan.column_tile);
  analysis.row_tiles = CeilDiv(analysis.group_rows, plan.rows);
  analysis.row_guard = analysis.group_rows % plan.rows != 0;
  analysis.column_guard = plan.row % plan.column_tile != 0;
  analysis.FindIndices();
  analysis.FindDependencies();
  analysis.FindChains();
  analysis.FindNeeded();
  return analysis;
}

void TileAnalysis::FindIndices() {
  auto form = [](std::map<std::string, int64_t> terms) { return IndexForm{std::move(terms), 0}; };
  IndexForm flat = form({{kColumn, 1}, {kY, plan_->row}});
  if (group > 0 && groups > 1) flat.terms[kOuter] = plan_->row * group;
  forms["xindex"] = flat;
  for (const IndexVariable& variable : kernel_->indices) {
    const int64_t d = variable.divisor, m = variable.modulus;
    std::optional<IndexForm>& known = forms[variable.name];
    if (d == 1 && m == 0) {
      known = flat;
    } else if (d == 1 && m == plan_->row) {
      known = form({{kColumn, 1}});
    } else if (d % plan_->row == 0) {
      const int64_t down = d / plan_->row;  // (row // down) % m
      if (down == 1 && (m == group || m == 0) && (m == 0) == (group == 0)) {
        known = form({{kY, 1}});
      } else if (group > 0 && down % group == 0) {
        known = form({{OuterPart(down / group, m), 1}});
      } else if (group > 0 && down == 1 && m == 0) {
        known = form({{kY, 1}, {kOuter, group}});
      }
    } else if (d == 1 && m % plan_->row == 0 && group > 0) {
      const int64_t rows = m / plan_->row;
      if (rows % group == 0) {
        known = form({{kColumn, 1}, {kY, plan_->row}});
        if (rows > group) known->terms[OuterPart(1, rows / group)] = plan_->row * group;
      }
    }
  }
}

std::string TileAnalysis::OuterPart(int64_t divisor, int64_t modulus) const {
  std::string text = kOuter;
  if (divisor > 1) text = fmt::format("({} // {})", text, divisor);
  if (modulus > 0 && modulus * divisor < groups) text = fmt::format("({} % {})", text, modulus);
  return text;
}

std::optional<IndexForm> TileAnalysis::Substitute(const IndexForm& form) const {
  IndexForm result{{}, form.constant};
  for (const auto& [name, coefficient] : form.terms) {
    auto it = forms.find(name);
    if (it == forms.end() || !it->second) return std::nullopt;
    result.Add(*it->second, coefficient);
  }
  return result;
}

std::optional<TileAnalysis::LinearLoad> TileAnalysis::Linear(const PointwiseAccess& load) const {
  if (!load.offset || !load.conditions) return std::nullopt;
  LinearLoad linear;
  auto offset = Substitute(*load.offset);
  if (!offset) return std::nullopt;
  linear.offset = *offset;
  for (const IndexForm& condition : *load.conditions) {
    auto form = Substitute(condition);
    if (!form) return std::nullopt;
    linear.conditions.push_back(*form);
  }
  return linear;
}

void TileAnalysis::FindDependencies() {
  for (const auto& [name, form] : forms)
    depends_[name] = form ? Dependencies(*form) : kOnRow | kOnColumn;
  depends_["xmask"] = kOnColumn;
  for (size_t i = 0; i < kernel_->body.size(); ++i) {
    const PointwiseStatement& statement = kernel_->body[i];
    unsigned all = kNothing;
    for (const std::string& name : statement.names) all |= DependsOn(name);
    for (const PointwiseAccess& load : statement.loads) {
      if (auto linear = Linear(load)) {
        all |= Dependencies(linear->offset);
        for (const IndexForm& condition : linear->conditions) all |= Dependencies(condition);
      } else {
        for (const std::string& name : load.names) all |= DependsOn(name);
      }
    }
    if (!statement.target.empty()) {
      depends_[statement.target] = all;
      definition[statement.target] = i;
    }
  }
}

unsigned TileAnalysis::DependsOn(const std::string& name) const {
  auto it = depends_.find(name);
  return it == depends_.end() ? kNothing : it->second;
}

void TileAnalysis::FindChains() {
  std::map<std::string, int> uses;
  for (const PointwiseStatement& statement : kernel_->body) {
    for (const std::string& name : statement.names) ++uses[name];
    for (const PointwiseAccess& load : statement.loads)
      for (const std::string& name : load.names) uses[name] += 2;
  }
  std::set<std::string> inner;
  for (size_t i = kernel_->body.size(); i-- > 0;) {
    const PointwiseStatement& statement = kernel_->body[i];
    std::string function = ExtremeOf(statement.node);
    if (function.empty() || inner.contains(statement.target)) continue;
    Chain chain{function, {}};
    std::set<std::string> parts;
    bool good = true;
    std::function<void(Node)> collect = [&](Node node) {
      for (Node argument : node.Field("arguments").NamedChildren()) {
        auto it = argument.Is("identifier") ? definition.find(std::string(argument.Text()))
                                            : definition.end();
        if (it == definition.end()) {
          good = false;
          continue;
        }
        const PointwiseStatement& from = kernel_->body[it->second];
        if (ExtremeOf(from.node) == function && uses[from.target] == 1) {
          parts.insert(from.target);
          collect(from.node);
        } else {
          chain.operands.push_back(from.target);
        }
      }
    };
    collect(statement.node);
    if (!good || chain.operands.size() < 3) continue;
    inner.merge(parts);
    chains[i] = std::move(chain);
  }
}

void TileAnalysis::FindNeeded() {
  std::function<void(const std::string&)> need = [&](const std::string& name) {
    auto it = definition.find(name);
    if (it == definition.end() || !needed.insert(it->second).second) return;
    if (auto chain = chains.find(it->second); chain != chains.end()) {
      for (const std::string& operand : chain->second.operands) need(operand);
      return;
    }
    NeedAll(kernel_->body[it->second], need);
  };
  for (size_t i = 0; i < kernel_->body.size(); ++i) {
    if (!kernel_->body[i].store) continue;
    needed.insert(i);
    NeedAll(kernel_->body[i], need);
  }
}

void TileAnalysis::NeedAll(const PointwiseStatement& statement,
                           const std::function<void(const std::string&)>& need) const {
  for (const std::string& name : statement.names) need(name);
  for (const PointwiseAccess& load : statement.loads)
    if (!Linear(load))
      for (const std::string& name : load.names) need(name);
}

}  // namespace kernelopt
