#include "triton/rules/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "edit/edit.h"
#include "triton/rules/tile_analysis.h"

namespace kernelopt {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
int64_t FloorMod(int64_t a, int64_t b) {
  return a - FloorDiv(a, b) * b;
}

/// One copy of the body: a row of the tile and a column of the vector.
struct Copy {
  int row = 0, column = 0;
  auto operator<=>(const Copy&) const = default;
};

/// Where a use of a shared load comes from; the smallest decide its guards.
struct Guard {
  int row = 1 << 20, column = 1 << 20;
  void Join(Copy copy) {
    row = std::min(row, copy.row);
    column = std::min(column, copy.column);
  }
};

class Emitter {
 public:
  Emitter(const PointwiseKernel& kernel, const TilePlan& plan, const TileAnalysis& analysis)
      : kernel_(kernel), plan_(plan), analysis_(analysis) {}

  Result<std::string> Emit() {
    // The first pass finds out which copies share each load, so that the
    // second knows the guards under which the load has to happen.
    for (int pass = 0; pass < 2; ++pass) {
      lines_.clear();
      stores_.clear();
      names_.clear();
      values_.clear();
      taken_.clear();
      loads_ = 0;
      KOPT_CHECK_OK(Body());
    }
    return Assemble();
  }

 private:
  void Line(std::string line) { lines_.push_back(std::move(line)); }

  int64_t Lanes() const { return plan_.column_tile / plan_.vector; }

  std::string Suffix(unsigned depends, Copy copy) const {
    std::string suffix;
    if ((depends & kOnRow) && plan_.rows > 1) suffix += fmt::format("_r{}", copy.row);
    if ((depends & kOnColumn) && plan_.vector > 1) suffix += fmt::format("_c{}", copy.column);
    return suffix;
  }

  IndexForm Shifted(IndexForm form, Copy copy) const {
    form.constant += form.Coefficient(kY) * copy.row;
    return form;
  }

  /// The form as text; `column` is what stands for the column.
  static std::string FormText(const IndexForm& form, std::string_view column) {
    std::string text;
    for (const auto& [symbol, coefficient] : form.terms) {
      std::string_view name = symbol == kColumn ? column : std::string_view(symbol);
      if (!text.empty()) text += " + ";
      text += coefficient == 1 ? std::string(name) : fmt::format("{} * {}", coefficient, name);
    }
    if (text.empty()) return fmt::format("{}", form.constant);
    if (form.constant != 0) text += fmt::format(" + {}", form.constant);
    return text;
  }

  std::string ColumnName(int column) const {
    return plan_.vector == 1 ? "column" : fmt::format("column_c{}", column);
  }

  /// The name that holds a value in one copy, written at its first use.
  std::string NameOf(const std::string& name, Copy copy) {
    unsigned depends = analysis_.DependsOn(name);
    if (!(depends & kOnRow)) copy.row = 0;
    if (!(depends & kOnColumn)) copy.column = 0;
    if (auto it = names_.find({name, copy}); it != names_.end()) return it->second;
    if (name == "XBLOCK") return fmt::format("{}", Lanes());
    if (name == "xmask") {
      return Value("xmask" + Suffix(kOnColumn, copy),
                   analysis_.column_guard
                       ? fmt::format("{} < {}", ColumnName(copy.column), plan_.row)
                       : fmt::format("tl.full([{}], True, tl.int1)", Lanes()));
    }
    auto form = analysis_.forms.find(name);
    if (form == analysis_.forms.end()) return name;  // a parameter, a module, a helper
    std::string text;
    if (form->second) {
      text = FormText(Shifted(*form->second, copy), ColumnName(copy.column));
    } else {
      auto variable = std::ranges::find(kernel_.indices, name, &IndexVariable::name);
      text = fmt::format("({} // {})", NameOf("xindex", copy), variable->divisor);
      if (variable->modulus > 0) text = fmt::format("({} % {})", text, variable->modulus);
    }
    return names_[{name, copy}] = Value(name + Suffix(depends, copy), text);
  }

  /// The name of a value with this text: an earlier one's, or a new line.
  std::string Value(const std::string& name, const std::string& text) {
    if (auto it = values_.find(text); it != values_.end()) return it->second;
    std::string free = name;
    for (int n = 2; !taken_.insert(free).second; ++n) free = fmt::format("{}_{}", name, n);
    Line(free + " = " + text);
    return values_[text] = free;
  }

  /// The text of a node in one copy; `edits` are more replacements in it.
  Result<std::string> Rendered(Node node, Copy copy, std::vector<Edit> edits) {
    const size_t base = node.ByteSpan().begin;
    std::function<void(Node)> rename = [&](Node inner) {
      Span span = inner.ByteSpan();
      for (const Edit& edit : edits)
        if (edit.span.begin == span.begin - base && edit.span.end == span.end - base) return;
      if (inner.Is("attribute")) return rename(inner.Field("object"));
      if (inner.Is("keyword_argument")) return rename(inner.Field("value"));
      if (inner.Is("identifier")) {
        std::string name = NameOf(std::string(inner.Text()), copy);
        if (name != inner.Text())
          edits.push_back({{span.begin - base, span.end - base}, std::move(name)});
        return;
      }
      for (Node child : inner.NamedChildren()) rename(child);
    };
    rename(node);
    return ApplyEdits(node.Text(), std::move(edits));
  }

  Status Body() {
    for (size_t i = 0; i < kernel_.body.size(); ++i) {
      if (!analysis_.needed.contains(i)) continue;
      const PointwiseStatement& statement = kernel_.body[i];
      if (statement.store) {
        KOPT_CHECK_OK(Store(statement));
        continue;
      }
      unsigned depends = analysis_.DependsOn(statement.target);
      const int rows = (depends & kOnRow) ? plan_.rows : 1;
      const int columns = (depends & kOnColumn) ? plan_.vector : 1;
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column) KOPT_CHECK_OK(Assign(i, {row, column}));
    }
    return {};
  }

  Status Assign(size_t index, Copy copy) {
    const PointwiseStatement& statement = kernel_.body[index];
    std::string name = statement.target + Suffix(analysis_.DependsOn(statement.target), copy);
    std::string text;
    if (auto chain = analysis_.chains.find(index); chain != analysis_.chains.end()) {
      text = Extreme(chain->second, name, copy);
    } else {
      std::vector<Edit> edits;
      for (const PointwiseAccess& load : statement.loads) {
        Span span = load.call.ByteSpan();
        const size_t base = statement.node.ByteSpan().begin;
        edits.push_back({{span.begin - base, span.end - base}, KOPT_TRY(Load(load, copy))});
      }
      text = KOPT_TRY(Rendered(statement.node, copy, std::move(edits)));
    }
    names_[{statement.target, copy}] = IsName(text) ? text : Value(name, text);
    return {};
  }

  static bool IsName(std::string_view text) {
    return !text.empty() &&
           std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; }) &&
           !std::isdigit(static_cast<unsigned char>(text[0]));
  }

  /// Row by row, so that rows that several copies have in common are
  /// combined once.
  std::string Extreme(const TileAnalysis::Chain& chain, const std::string& name, Copy copy) {
    std::vector<std::pair<std::string, std::vector<std::string>>> rows;
    for (const std::string& operand : chain.operands) {
      std::string row = RowKey(operand);
      auto it =
          std::ranges::find(rows, row, &std::pair<std::string, std::vector<std::string>>::first);
      if (it == rows.end()) it = rows.insert(rows.end(), {row, {}});
      it->second.push_back(NameOf(operand, copy));
    }
    auto combine = [&](const std::string& a, const std::string& b) {
      return fmt::format("{}({}, {}, propagate_nan=tl.PropagateNan.ALL)", chain.function, a, b);
    };
    std::string result;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string partial = rows[i].second.front();
      for (size_t k = 1; k < rows[i].second.size(); ++k) {
        if (rows[i].second[k] == partial) continue;
        partial = Value(fmt::format("{}_p{}_{}", name, i, k), combine(partial, rows[i].second[k]));
      }
      result = i == 0 ? partial : Value(fmt::format("{}_q{}", name, i), combine(result, partial));
    }
    return result;
  }

  /// Which row of the storage an operand comes from.
  std::string RowKey(const std::string& operand) const {
    const PointwiseStatement& statement = kernel_.body[analysis_.definition.at(operand)];
    if (statement.loads.size() != 1) return "";
    auto linear = analysis_.Linear(statement.loads.front());
    if (!linear) return "";
    IndexForm row = linear->offset;
    row.terms.erase(kColumn);
    int64_t stride = row.Coefficient(kY);
    if (auto lower = LowerShift(*linear)) {
      row.constant -= *lower;
    } else if (stride > 0) {
      row.constant -= FloorMod(row.constant, stride);
    }
    return statement.loads.front().pointer + " " + FormText(row, "");
  }

  /// k of the condition s * column + k >= 0, s the offset's coefficient.
  static std::optional<int64_t> LowerShift(const TileAnalysis::LinearLoad& load) {
    const int64_t s = load.offset.Coefficient(kColumn);
    for (const IndexForm& form : load.conditions)
      if (form.terms.size() == 1 && form.Coefficient(kColumn) == s) return form.constant;
    return std::nullopt;
  }

  // Loads.

  /// What every element of every tile fulfils says nothing.
  bool Always(const IndexForm& condition) const {
    int64_t least = condition.constant;
    for (const auto& [symbol, coefficient] : condition.terms) {
      if (coefficient > 0) continue;
      if (symbol == kY) {
        least += coefficient * (analysis_.row_tiles - 1) * plan_.rows;
      } else if (symbol == kColumn) {
        least += coefficient * (analysis_.column_tiles * plan_.column_tile - 1);
      } else {
        return false;
      }
    }
    return least >= 0;
  }

  /// form >= 0, as one would write it.
  static std::string ConditionText(const IndexForm& form, std::string_view column) {
    if (form.terms.size() == 1) {
      const auto& [symbol, coefficient] = *form.terms.begin();
      std::string_view name = symbol == kColumn ? column : std::string_view(symbol);
      if (coefficient == 1) return fmt::format("{} >= {}", name, -form.constant);
      if (coefficient == -1) return fmt::format("{} <= {}", name, form.constant);
    }
    return FormText(form, column) + " >= 0";
  }

  struct Mask {
    std::vector<std::string> scalars, vectors;

    std::string Text(std::string_view index = "") const {
      std::string text;
      for (const std::string& part : scalars) text += (text.empty() ? "(" : " & (") + part + ")";
      for (const std::string& part : vectors)
        text += fmt::format("{}({}){}", text.empty() ? "" : " & ", part, index);
      return text;
    }
  };

  /// `guarded` rows beyond the group's end.
  void GuardRow(const Guard& guard, Mask* mask) const {
    if (analysis_.row_guard && guard.row > 0)
      mask->scalars.push_back(fmt::format("y + {} < {}", guard.row, analysis_.group_rows));
  }

  static std::string Call(const PointwiseAccess& load, const std::string& offset,
                          const std::string& mask) {
    std::string text = fmt::format("tl.load({} + ({})", load.pointer, offset);
    if (!mask.empty()) {
      text += ", " + mask;
      if (!load.other.empty()) text += ", other=" + load.other;
    }
    return text + load.keywords + ")";
  }

  /// One load for all copies with this key; `make` writes it under the guard.
  std::string Shared(const std::string& key, Copy copy,
                     const std::function<std::string(const Guard&, const std::string&)>& make) {
    guards_[key].Join(copy);
    if (auto it = values_.find(key); it != values_.end()) return it->second;
    return values_[key] = make(guards_[key], fmt::format("load{}", loads_++));
  }

  Result<std::string> Load(const PointwiseAccess& load, Copy copy) {
    auto linear = analysis_.Linear(load);
    if (!linear) return TextualLoad(load, copy);
    linear->offset = Shifted(linear->offset, copy);
    for (IndexForm& condition : linear->conditions) condition = Shifted(condition, copy);
    std::erase_if(linear->conditions, [&](const IndexForm& form) { return Always(form); });
    if (DependsOnColumn(*linear)) {
      if (plan_.vector > 1) {
        if (auto vector = AlignedLoad(load, *linear, copy)) return *vector;
      }
      return FlatLoad(load, *linear, copy);
    }
    return ScalarLoad(load, *linear, copy);
  }

  static bool DependsOnColumn(const TileAnalysis::LinearLoad& linear) {
    if (linear.offset.terms.contains(kColumn)) return true;
    return std::ranges::any_of(linear.conditions, [](const IndexForm& condition) {
      return condition.terms.contains(kColumn);
    });
  }

  static std::string KeyOf(std::string_view kind, const PointwiseAccess& load,
                           const TileAnalysis::LinearLoad& linear) {
    std::string key = fmt::format("{} {} {}", kind, load.pointer, FormText(linear.offset, kColumn));
    for (const IndexForm& condition : linear.conditions) key += "; " + FormText(condition, kColumn);
    return key + "; " + load.other + load.keywords;
  }

  std::string ScalarLoad(const PointwiseAccess& load, const TileAnalysis::LinearLoad& linear,
                         Copy copy) {
    return Shared(KeyOf("scalar", load, linear), copy,
                  [&](const Guard& guard, const std::string& as) {
                    Mask mask;
                    for (const IndexForm& form : linear.conditions)
                      mask.scalars.push_back(ConditionText(form, ""));
                    if (linear.offset.terms.contains(kY)) GuardRow(guard, &mask);
                    return Value(as, Call(load, FormText(linear.offset, ""), mask.Text()));
                  });
  }

  /// The tile's columns one by one, then cut into the vector's.
  std::string FlatLoad(const PointwiseAccess& load, const TileAnalysis::LinearLoad& linear,
                       Copy copy) {
    const std::string flat = plan_.vector == 1 ? "column" : "flat";
    const std::string key = KeyOf("flat", load, linear);
    std::string whole = Shared(key, {copy.row, 0}, [&](const Guard& guard, const std::string& as) {
      Mask mask;
      for (const IndexForm& form : linear.conditions) {
        (form.terms.contains(kColumn) ? mask.vectors : mask.scalars)
            .push_back(ConditionText(form, flat));
      }
      if (linear.offset.terms.contains(kY)) GuardRow(guard, &mask);
      if (analysis_.column_guard) mask.vectors.push_back(fmt::format("{} < {}", flat, plan_.row));
      std::string value = Value(as, Call(load, FormText(linear.offset, flat), mask.Text()));
      if (plan_.vector > 1) Split(key, value, plan_.vector);
      return value;
    });
    return plan_.vector == 1 ? whole : values_.at(PieceKey(key, copy.column));
  }

  static std::string PieceKey(const std::string& key, int64_t piece) {
    return fmt::format("piece {} of {}", piece, key);
  }

  /// Cuts a tile with `pieces` neighbours a lane into one value a neighbour.
  void Split(const std::string& key, const std::string& value, int pieces) {
    std::vector<std::string> parts = {value};  // parts[i] holds every size-th from i on
    for (int count = pieces; count > 1; count /= 2) {
      std::vector<std::string> next(parts.size() * 2);
      for (size_t i = 0; i < parts.size(); ++i) {
        std::string even = fmt::format("{}_{}of{}", value, i, next.size());
        std::string odd = fmt::format("{}_{}of{}", value, i + parts.size(), next.size());
        std::string shape = count == 2 ? fmt::format("[{}, 2]", Lanes())
                                       : fmt::format("[{}, {}, 2]", Lanes(), count / 2);
        Line(fmt::format("{}, {} = tl.split(tl.reshape({}, {}))", even, odd, parts[i], shape));
        next[i] = even;
        next[i + parts.size()] = odd;
      }
      parts = std::move(next);
    }
    for (size_t i = 0; i < parts.size(); ++i)
      values_[PieceKey(key, static_cast<int64_t>(i))] = parts[i];
  }

  /// Whole aligned vectors of a row of the storage. Nothing where they are not
  /// known to be aligned, or where a condition isn't the same for a whole vector.
  std::optional<std::string> AlignedLoad(const PointwiseAccess& load,
                                         const TileAnalysis::LinearLoad& linear, Copy copy) {
    const int64_t v = plan_.vector, s = linear.offset.Coefficient(kColumn);
    if (s < 1) return std::nullopt;
    // The element's place in its row is s * column + shift, valid from 0 up to `width`.
    std::optional<int64_t> lower = LowerShift(linear), upper;
    std::vector<IndexForm> rows;
    for (const IndexForm& form : linear.conditions) {
      if (!form.terms.contains(kColumn)) {
        rows.push_back(form);
      } else if (form.terms.size() != 1) {
        return std::nullopt;
      } else if (form.Coefficient(kColumn) == -s) {
        upper = form.constant;
      } else if (form.Coefficient(kColumn) != s || form.constant != *lower) {
        return std::nullopt;
      }
    }
    IndexForm base = linear.offset;
    base.terms.erase(kColumn);
    const int64_t shift = lower ? *lower : FloorMod(base.constant, v);
    base.constant -= shift;
    std::optional<int64_t> width;
    if (upper) width = *upper + shift + 1;
    if (FloorMod(base.constant, v) != 0 || (width && *width % v != 0)) return std::nullopt;
    for (const auto& [symbol, coefficient] : base.terms)
      if (coefficient % v != 0) return std::nullopt;

    const int64_t place = s * copy.column + shift;
    const int64_t vector = FloorDiv(place, v);
    base.constant += v * vector;
    std::string key =
        fmt::format("aligned {} {} {} {} {}; {}{}", load.pointer, FormText(base, kColumn), s,
                    lower.has_value(), width.value_or(-1), load.other, load.keywords);
    for (const IndexForm& form : rows) key += "; " + FormText(form, "");
    Shared(key, copy, [&](const Guard& guard, const std::string& as) {
      Mask mask;
      for (const IndexForm& form : rows) mask.scalars.push_back(ConditionText(form, ""));
      GuardRow(guard, &mask);
      const int64_t last = analysis_.column_tiles * Lanes() - 1;  // the last lane of a row
      if (lower && vector < 0)
        mask.vectors.push_back(fmt::format("{} * lane + {} >= 0", s * v, v * vector));
      if (width && s * v * last + v * vector >= *width)
        mask.vectors.push_back(fmt::format("{} * lane + {} < {}", s * v, v * vector, *width));
      if (v * last + guard.column >= plan_.row)
        mask.vectors.push_back(fmt::format("{} * lane + {} < {}", v, guard.column, plan_.row));
      std::string offset =
          fmt::format("{} + ({} * lane)[:, None] + neighbour", FormText(base, ""), s * v);
      std::string value = Value(as, Call(load, offset, mask.Text("[:, None]")));
      Split(key, value, plan_.vector);
      return value;
    });
    return values_.at(PieceKey(key, FloorMod(place, v)));
  }

  /// A load at an offset that is computed: one a copy, as it stands.
  Result<std::string> TextualLoad(const PointwiseAccess& load, Copy copy) {
    unsigned depends = kNothing;
    for (const std::string& used : load.names) depends |= analysis_.DependsOn(used);
    Mask mask;
    if (!load.mask.IsNull()) mask.scalars.push_back(KOPT_TRY(Rendered(load.mask, copy, {})));
    if (depends & kOnRow) GuardRow({copy.row, 0}, &mask);
    if ((depends & kOnColumn) && analysis_.column_guard)
      mask.scalars.push_back(NameOf("xmask", copy));
    std::string offset = KOPT_TRY(Rendered(load.offset_node, copy, {}));
    return Value(fmt::format("load{}", loads_++), Call(load, offset, mask.Text()));
  }

  // Stores.

  Status Store(const PointwiseStatement& statement) {
    const PointwiseAccess& store = *statement.store;
    if (!store.offset || !store.conditions || !store.conditions->empty())
      return NotTileable("a store's place is not linear, or it has a condition of its own");
    auto offset = analysis_.Substitute(*store.offset);
    if (!offset || !offset->terms.contains(kColumn) || !offset->terms.contains(kY))
      return NotTileable("a store's place is not one an element");
    const std::string flat = plan_.vector == 1 ? "column" : "flat";
    for (int row = 0; row < plan_.rows; ++row) {
      std::vector<std::string> parts;
      for (int column = 0; column < plan_.vector; ++column) {
        std::string part = KOPT_TRY(Rendered(statement.node, {row, column}, {}));
        if (plan_.vector > 1) part = fmt::format("tl.broadcast_to({}, [{}])", part, Lanes());
        parts.push_back(std::move(part));
      }
      std::string value = Join(parts);
      if (plan_.vector > 1) value = fmt::format("tl.reshape({}, [{}])", value, plan_.column_tile);
      Mask mask;
      GuardRow({row, 0}, &mask);
      if (analysis_.column_guard) mask.vectors.push_back(fmt::format("{} < {}", flat, plan_.row));
      std::string guards = mask.Text();
      stores_.push_back(fmt::format("tl.store({} + ({}), {}{}{})", store.pointer,
                                    FormText(Shifted(*offset, {row, 0}), flat), value,
                                    guards.empty() ? "" : ", " + guards, store.keywords));
    }
    return {};
  }

  /// The inverse of Split.
  static std::string Join(const std::vector<std::string>& parts) {
    if (parts.size() == 1) return parts.front();
    std::vector<std::string> even, odd;
    for (size_t i = 0; i < parts.size(); ++i) (i % 2 == 0 ? even : odd).push_back(parts[i]);
    return fmt::format("tl.join({}, {})", Join(even), Join(odd));
  }

  // The whole.

  std::string Assemble() const {
    const int64_t tiles = analysis_.groups * analysis_.row_tiles * analysis_.column_tiles;
    std::vector<std::string> head;
    std::string rows = "tile";
    if (analysis_.column_tiles > 1) {
      head.push_back(fmt::format("row_tile = tile // {}", analysis_.column_tiles));
      rows = "row_tile";
    }
    std::string start =
        analysis_.column_tiles > 1 ? fmt::format("(tile % {}) * ", analysis_.column_tiles) : "";
    auto lanes = [&](std::string_view name, int64_t count) {
      head.push_back(start.empty()
                         ? fmt::format("{} = tl.arange(0, {})", name, count)
                         : fmt::format("{} = {}{} + tl.arange(0, {})", name, start, count, count));
    };
    if (plan_.vector == 1) {
      lanes("column", plan_.column_tile);
    } else {
      lanes("lane", Lanes());
      lanes("flat", plan_.column_tile);
      head.push_back(fmt::format("neighbour = tl.arange(0, {})[None, :]", plan_.vector));
      for (int column = 0; column < plan_.vector; ++column) {
        head.push_back(
            fmt::format("{} = {} * lane + {}", ColumnName(column), plan_.vector, column));
      }
    }
    std::string y = rows;
    if (analysis_.groups > 1) {
      head.push_back(fmt::format("outer = {} // {}", rows, analysis_.row_tiles));
      y = fmt::format("({} % {})", rows, analysis_.row_tiles);
    }
    head.push_back(plan_.rows > 1 ? fmt::format("y = {} * {}", y, plan_.rows) : "y = " + y);

    std::string body =
        fmt::format("for tile in range(tl.program_id(0), {}, tl.num_programs(0)):\n", tiles);
    for (const std::vector<std::string>* part : {&std::as_const(head), &lines_, &stores_})
      for (const std::string& line : *part) body += "        " + line + "\n";
    body.pop_back();
    const std::string& text = kernel_.tree->Text();
    return text.substr(0, kernel_.body_span.begin) + body + text.substr(kernel_.body_span.end);
  }

  const PointwiseKernel& kernel_;
  const TilePlan& plan_;
  const TileAnalysis& analysis_;

  std::map<std::string, Guard> guards_;  ///< by the key of a shared load
  std::vector<std::string> lines_, stores_;
  std::map<std::pair<std::string, Copy>, std::string> names_;
  std::map<std::string, std::string> values_;  ///< text or key -> name
  std::set<std::string> taken_;                ///< names
  int loads_ = 0;                              ///< that were written
};

}  // namespace

std::string TilePlan::ToString() const {
  return fmt::format("rows={},columns={},vector={}", rows, column_tile, vector);
}

Result<std::string> EmitTiles(const PointwiseKernel& kernel, const TilePlan& plan) {
  TileAnalysis analysis = KOPT_TRY(TileAnalysis::Make(kernel, plan));
  return Emitter(kernel, plan, analysis).Emit();
}

}  // namespace kernelopt
