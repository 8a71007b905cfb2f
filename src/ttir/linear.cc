#include "ttir/linear.h"

#include <algorithm>
#include <cstdlib>

namespace kernelopt {
namespace {

using Wide = __int128;

constexpr size_t kMostTerms = 64;
constexpr int kMostSteps = 50;  // of one simplification
constexpr int kMostDepth = 60;  // atoms inside of atoms

int64_t Clamp(Wide value) {
  return static_cast<int64_t>(std::clamp<Wide>(value, -Wide{kUnbounded}, Wide{kUnbounded}));
}

/// The multiples of `divisor` in a sum, divided, and the rest.
std::pair<Linear, Linear> Split(const Linear& sum, int64_t divisor) {
  Linear quotient, rest;
  for (const auto& [atom, coefficient] : sum.terms) {
    if (coefficient % divisor == 0) {
      quotient.terms[atom] = coefficient / divisor;
    } else {
      rest.terms[atom] = coefficient;
    }
  }
  rest.constant = sum.constant % divisor;
  if (rest.constant < 0) rest.constant += divisor;
  quotient.constant = (sum.constant - rest.constant) / divisor;
  return {quotient, rest};
}

}  // namespace

Interval Intersect(const Interval& a, const Interval& b) {
  return {std::max(a.low, b.low), std::min(a.high, b.high)};
}

Interval Join(const Interval& a, const Interval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Interval Plus(const Interval& a, const Interval& b) {
  // What may be beyond stays so, whatever is added to it.
  return {a.low <= -kUnbounded || b.low <= -kUnbounded ? -kUnbounded : Clamp(Wide{a.low} + b.low),
          a.high >= kUnbounded || b.high >= kUnbounded ? kUnbounded : Clamp(Wide{a.high} + b.high)};
}

Interval Times(const Interval& a, int64_t factor) {
  if (factor == 0) return {0, 0};
  Interval result{Clamp(Wide{a.low} * factor), Clamp(Wide{a.high} * factor)};
  if (factor < 0) std::swap(result.low, result.high);
  return result;
}

std::optional<Linear> AddScaled(const Linear& a, const Linear& b, int64_t factor) {
  Linear sum = a;
  const auto combine = [factor](int64_t x, int64_t y) -> std::optional<int64_t> {
    const Wide value = x + Wide{y} * factor;
    if (value <= -kUnbounded || value >= kUnbounded) return std::nullopt;
    return static_cast<int64_t>(value);
  };
  const auto constant = combine(a.constant, b.constant);
  if (!constant) return std::nullopt;
  sum.constant = *constant;
  for (const auto& [atom, coefficient] : b.terms) {
    auto it = sum.terms.find(atom);
    const auto value = combine(it == sum.terms.end() ? 0 : it->second, coefficient);
    if (!value) return std::nullopt;
    sum.terms[atom] = *value;
    if (*value == 0) sum.terms.erase(atom);
  }
  if (sum.terms.size() > kMostTerms) return std::nullopt;
  return sum;
}

int Atoms::Intern(Atom atom) {
  auto [place, is_new] =
      ids_.emplace(std::tuple(atom.kind, atom.name, atom.divisor, atom.arguments), atoms_.size());
  if (is_new) atoms_.push_back(std::move(atom));
  return place->second;
}

Interval Atoms::AtomRange(int id, const Knowledge& known) {
  const Atom atom = atoms_[static_cast<size_t>(id)];
  if (atom.arguments.empty()) return atom.base;
  const Interval first = Range(atom.arguments[0], known);
  if (first.empty()) return first;
  switch (atom.kind) {
    case AtomKind::kMod:
      // Within one period nothing starts anew.
      if (first.low >= 0 && first.high < kUnbounded &&
          first.low / atom.divisor == first.high / atom.divisor)
        return {first.low % atom.divisor, first.high % atom.divisor};
      if (first.low >= 0) return {0, std::min(first.high, atom.divisor - 1)};
      if (first.high <= 0) return {std::max(first.low, 1 - atom.divisor), 0};
      return {1 - atom.divisor, atom.divisor - 1};
    case AtomKind::kDiv:
      return {first.low <= -kUnbounded ? -kUnbounded : first.low / atom.divisor,
              first.high >= kUnbounded ? kUnbounded : first.high / atom.divisor};
    default:
      break;
  }
  const Interval second = Range(atom.arguments[1], known);
  if (second.empty()) return second;
  switch (atom.kind) {
    case AtomKind::kMin:
      return {std::min(first.low, second.low), std::min(first.high, second.high)};
    case AtomKind::kMax:
      return {std::max(first.low, second.low), std::max(first.high, second.high)};
    default:
      return Join(first, second);
  }
}

std::vector<Atoms::Piece> Atoms::Cut(const Linear& sum, const Knowledge& known) {
  std::vector<Piece> pieces;
  Linear rest = sum;
  for (const auto& [part, range] : known) {
    const auto first = part.terms.begin();
    auto found = rest.terms.find(first->first);
    if (found == rest.terms.end() || found->second % first->second != 0) continue;
    const int64_t scale = found->second / first->second;
    const bool all = std::all_of(part.terms.begin(), part.terms.end(), [&](const auto& term) {
      auto it = rest.terms.find(term.first);
      return it != rest.terms.end() && Wide{it->second} == Wide{term.second} * scale;
    });
    if (!all) continue;
    auto without = AddScaled(rest, part, -scale);
    if (!without) continue;
    rest = std::move(*without);
    pieces.push_back({scale, part, range});
  }
  for (const auto& [atom, coefficient] : rest.terms)
    pieces.push_back({coefficient, {{{atom, 1}}, 0}, AtomRange(atom, known)});
  return pieces;
}

Interval Atoms::Range(const Linear& sum, const Knowledge& known) {
  if (depth_ > kMostDepth) return {};
  if (memo_known_ != &known || memo_key_ != known) {
    memo_known_ = &known;
    memo_key_ = known;
    memo_.clear();
  }
  if (auto it = memo_.find(sum); it != memo_.end()) return it->second;
  ++depth_;
  const auto total = [&](const Linear& form) {
    Interval by_atoms{form.constant, form.constant};
    for (const auto& [atom, coefficient] : form.terms)
      by_atoms = Plus(by_atoms, Times(AtomRange(atom, known), coefficient));
    Interval by_pieces{form.constant, form.constant};
    for (const Piece& piece : Cut(form, known))
      by_pieces = Plus(by_pieces, Times(piece.range, piece.scale));
    return Intersect(by_atoms, by_pieces);
  };
  Interval range = total(sum);
  if (Linear simple = Simplify(sum, known); simple != sum) range = Intersect(range, total(simple));
  --depth_;
  memo_[sum] = range;
  return range;
}

Linear Atoms::Simplify(Linear sum, const Knowledge& known) {
  const auto replaced = [&](int atom, const Linear& by) -> std::optional<Linear> {
    Linear without = sum;
    const int64_t coefficient = without.terms[atom];
    without.terms.erase(atom);
    return AddScaled(without, by, coefficient);
  };
  for (int step = 0; step < kMostSteps; ++step) {
    std::optional<Linear> next;
    for (const auto& [id, coefficient] : sum.terms) {
      const Atom atom = atoms_[static_cast<size_t>(id)];
      if (atom.kind != AtomKind::kMod && atom.kind != AtomKind::kDiv) continue;
      const bool is_mod = atom.kind == AtomKind::kMod;
      const Linear& inner = atom.arguments[0];
      const Interval range = Range(inner, known);
      if (range.Within({0, atom.divisor - 1})) {
        next = replaced(id, is_mod ? inner : Linear{});
      } else if (auto [quotient, rest] = Split(inner, atom.divisor);
                 !quotient.terms.empty() && range.low >= 0 &&
                 Range(rest, known).Within({0, atom.divisor - 1})) {
        next = replaced(id, is_mod ? rest : quotient);
      } else if (is_mod) {
        for (const auto& [other_id, other_coefficient] : sum.terms) {
          const Atom& other = atoms_[static_cast<size_t>(other_id)];
          if (other.kind != AtomKind::kDiv ||
              Wide{other_coefficient} != Wide{coefficient} * atom.divisor)
            continue;
          bool same = other.arguments[0] == inner && other.divisor == atom.divisor;
          if (inner.constant == 0 && inner.terms.size() == 1 && inner.terms.begin()->second == 1) {
            const Atom& deeper = (*this)[inner.terms.begin()->first];
            same = same ||
                   (deeper.kind == AtomKind::kDiv && other.arguments[0] == deeper.arguments[0] &&
                    Wide{other.divisor} == Wide{deeper.divisor} * atom.divisor);
          }
          if (!same) continue;
          Linear without = sum;
          without.terms.erase(id);
          without.terms.erase(other_id);
          next = AddScaled(without, inner, coefficient);
          break;
        }
      }
      if (next) break;
    }
    if (!next) break;
    sum = std::move(*next);
  }
  return sum;
}

bool Atoms::MixedRadix(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return std::abs(a.scale) < std::abs(b.scale); });
  Wide reach = 0;  // how far the pieces before move the sum at most
  for (const Piece& piece : pieces) {
    if (piece.range.low <= -kUnbounded || piece.range.high >= kUnbounded) return false;
    const Wide spread = Wide{piece.range.high} - piece.range.low;
    if (spread <= 0) continue;
    if (Wide{std::abs(piece.scale)} <= reach) return false;
    reach += spread * std::abs(piece.scale);
  }
  return true;
}

bool Atoms::Gapless(const Linear& sum) {
  std::vector<std::pair<int64_t, Wide>> parts;
  for (const auto& [atom, coefficient] : sum.terms) {
    const Atom& free = (*this)[atom];
    if (!free.IsFree()) return false;
    if (free.base.high > free.base.low)
      parts.emplace_back(std::abs(coefficient), Wide{free.base.high} - free.base.low);
  }
  std::sort(parts.begin(), parts.end());
  Wide reach = 0;
  for (const auto& [coefficient, spread] : parts) {
    if (coefficient > reach + 1) return false;
    reach = std::min<Wide>(reach + spread * coefficient, kUnbounded);
  }
  return true;
}

}  // namespace kernelopt
