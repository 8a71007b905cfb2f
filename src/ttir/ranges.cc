#include "ttir/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ttir/expressions.h"

namespace kernelopt {
namespace {

constexpr int kMostConditions = 200;  // inside each other

class Analyzer {
 public:
  Analyzer(const TtirModule& module, const TtirFunction& entry, const LaunchFacts& facts)
      : module_(module), entry_(entry), facts_(facts), expressions_(module, entry, facts) {}

  RangeReport Analyze() {
    Visit(entry_.body, {});
    return std::move(report_);
  }

 private:
  /// What encloses an operation.
  struct Place {
    std::vector<const TtirOp*> loops;
    bool certain = true;  ///< it happens, once an iteration of the loops
  };

  void Visit(const TtirRegion& region, Place place) {
    place.certain = place.certain && region.blocks.size() == 1;
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        if (op.name == "tt.load" || op.name == "tt.store" || op.name.starts_with("tt.atomic"))
          report_.accesses.push_back(Access(op, place));
        CountWide(op);
        for (const TtirRegion& inner : op.regions) {
          Place deeper = place;
          if (op.name == "scf.for") {
            deeper.loops.push_back(&op);
          } else {
            deeper.certain = false;
          }
          Visit(inner, deeper);
        }
      }
    }
  }

  void CountWide(const TtirOp& op) {
    static const std::set<std::string_view> kOps = {
        "arith.addi",  "arith.subi",  "arith.muli",  "arith.divsi", "arith.remsi",
        "arith.divui", "arith.remui", "arith.minsi", "arith.maxsi", "arith.cmpi"};
    if (!kOps.contains(op.name) || op.operands.size() != 2 || op.results.size() != 1 ||
        IntegerBits(module_.TypeOf(op.operands[0])) != 64)
      return;
    ++report_.wide_operations;
    std::vector<ValueId> values = op.operands;
    if (op.name != "arith.cmpi") values.push_back(op.results[0]);
    const bool narrow = std::all_of(values.begin(), values.end(), [&](ValueId id) {
      const Form form = expressions_.Of(id, expressions_.OwnAxes(id), 0);
      return expressions_.Holds(form, {}) &&
             expressions_.atoms().Range(form.sum, {}).Within(IntegerRange(32));
    });
    report_.narrow_operations += narrow;
  }

  // --- Masks.

  struct Mask {
    Knowledge known;
    bool whole = true;   ///< all of the condition is in `known`
    bool never = false;  ///< it is false everywhere
    std::set<std::pair<ValueId, Axes>> seen;
  };

  void AddMask(ValueId id, const Axes& axes, int depth, Mask* mask) {
    if (!mask->seen.emplace(id, axes).second) return;  // one condition, joined to itself
    const TtirOp* definition = expressions_.Definition(id);
    if (definition == nullptr || depth > kMostConditions) {
      mask->whole = false;
      return;
    }
    const TtirOp& op = *definition;
    if (op.name == "arith.constant") {
      const Form form = expressions_.Of(id, axes, depth);
      mask->whole = mask->whole && form.sum.IsConstant();
      mask->never = mask->never || (form.sum.IsConstant() && form.sum.constant == 0);
    } else if (op.name == "arith.andi" && op.operands.size() == 2) {
      AddMask(op.operands[0], axes, depth + 1, mask);
      AddMask(op.operands[1], axes, depth + 1, mask);
    } else if (op.name == "arith.cmpi" && op.operands.size() == 2) {
      AddComparison(op, axes, depth, mask);
    } else if (auto inner = expressions_.Reshaped(op, axes)) {
      AddMask(op.operands[0], *inner, depth + 1, mask);
    } else {
      mask->whole = false;
    }
  }

  void AddComparison(const TtirOp& op, const Axes& axes, int depth, Mask* mask) {
    const Form a = expressions_.Of(op.operands[0], axes, depth + 1);
    const Form b = expressions_.Of(op.operands[1], axes, depth + 1);
    auto difference = AddScaled(a.sum, b.sum, -1);
    std::string_view predicate = std::string_view(op.attributes);
    predicate = predicate.substr(0, predicate.find(','));
    if (predicate.starts_with('u')) {
      // With both sides not negative it is the signed comparison.
      const Interval natural{0, kUnbounded};
      if (!expressions_.atoms().Range(a.sum, {}).Within(natural) ||
          !expressions_.atoms().Range(b.sum, {}).Within(natural))
        difference.reset();
      predicate.remove_prefix(1);
    } else if (predicate.starts_with('s')) {
      predicate.remove_prefix(1);
    }
    // The comparison is made in every lane, so that nothing is known but this.
    if (!difference || !expressions_.Holds(a, {}) || !expressions_.Holds(b, {})) {
      mask->whole = false;
      return;
    }
    Interval wanted;
    if (predicate == "lt") wanted.high = -1;
    if (predicate == "le") wanted.high = 0;
    if (predicate == "gt") wanted.low = 1;
    if (predicate == "ge") wanted.low = 0;
    if (predicate == "eq") wanted = {0, 0};
    if (wanted == Interval{}) {
      mask->whole = false;
      return;
    }
    const Interval plain = expressions_.atoms().Range(*difference, {});
    if (plain.Within(wanted)) return;
    if (Intersect(plain, wanted).empty()) {
      mask->never = true;
      return;
    }
    // The sum itself, without its constant and with the first coefficient
    // positive, so that bounds of one sum meet.
    Linear sum = *difference;
    Interval range = Plus(Intersect(plain, wanted), {-sum.constant, -sum.constant});
    sum.constant = 0;
    if (sum.terms.begin()->second < 0) {
      for (auto& [atom, coefficient] : sum.terms) coefficient = -coefficient;
      range = Times(range, -1);
    }
    auto [place, is_new] = mask->known.emplace(std::move(sum), range);
    if (!is_new) place->second = Intersect(place->second, range);
    mask->never = mask->never || place->second.empty();
  }

  // --- Accesses.

  AccessRange Access(const TtirOp& op, const Place& place) {
    AccessRange access;
    access.kind = op.name == "tt.load"    ? AccessRange::Kind::kLoad
                  : op.name == "tt.store" ? AccessRange::Kind::kStore
                                          : AccessRange::Kind::kAtomic;
    access.line = op.line;
    access.source_line = op.source_line;
    if (op.operands.empty()) return access;
    const Axes axes = expressions_.OwnAxes(op.operands[0]);
    const auto address = expressions_.Pointer(op.operands[0], axes, 0);
    if (!address) return access;
    access.parameter = address->parameter;

    Mask mask;
    const size_t mask_at = access.kind == AccessRange::Kind::kLoad ? 1 : 2;
    if (op.name == "tt.atomic_cas") {
      // Every lane, always.
    } else if (op.operands.size() > mask_at) {
      AddMask(op.operands[mask_at], axes, 0, &mask);
    }
    bool runs = true;
    for (const TtirOp* loop : place.loops) {
      const auto trips = expressions_.Trips(*loop, 0);
      runs = runs && trips.value_or(0) > 0;
      mask.never = mask.never || trips == 0;
    }
    if (mask.never || std::ranges::min(facts_.grid) <= 0) {
      access.offsets = {0, -1};
      access.bounds = Bounds::kInside;
      access.injective = true;
      return access;
    }
    if (!expressions_.Holds(address->offset, mask.known)) return access;
    const Linear sum = expressions_.atoms().Simplify(address->offset.sum, mask.known);
    access.offsets = Intersect(expressions_.atoms().Range(sum, mask.known),
                               expressions_.atoms().Range(address->offset.sum, mask.known));
    access.injective =
        place.certain &&
        Injective(sum, mask.known, TensorShape(module_.TypeOf(op.operands[0])), place);
    const auto& elements = facts_.elements[static_cast<size_t>(access.parameter)];
    if (!elements) return access;
    if (access.offsets.Within({0, *elements - 1})) {
      access.bounds = Bounds::kInside;
    } else if (place.certain && runs && mask.whole && Reached(sum, mask.known)) {
      access.bounds = Bounds::kOutside;
    }
    return access;
  }

  /// True when the ends of the sum's range are reached by some lane: everything
  /// in it and in the mask varies freely, and no two parts share a variable.
  bool Reached(const Linear& sum, const Knowledge& known) {
    std::set<int> seen;
    for (const auto& [part, range] : known) {
      if (range.empty() || !expressions_.atoms().Gapless(part)) return false;
      for (const auto& [atom, coefficient] : part.terms)
        if (!seen.insert(atom).second) return false;
    }
    for (const Atoms::Piece& piece : expressions_.atoms().Cut(sum, known)) {
      if (known.contains(piece.sum)) continue;
      for (const auto& [atom, coefficient] : piece.sum.terms)
        if (!expressions_.atoms()[atom].IsFree() || !seen.insert(atom).second) return false;
    }
    return true;
  }

  /// True when the sum tells program, lane and iteration apart.
  bool Injective(const Linear& sum, const Knowledge& known, const std::vector<int64_t>& shape,
                 const Place& place) {
    std::set<int> wanted;
    const auto want = [&](const Linear& variable) {
      for (const auto& [atom, coefficient] : variable.terms) wanted.insert(atom);
    };
    for (int i = 0; i < 3; ++i) want(expressions_.Program(i));
    for (size_t i = 0; i < shape.size(); ++i)
      want(expressions_.Lane(static_cast<int>(i), shape[i]));
    for (const TtirOp* loop : place.loops) {
      const auto trips = expressions_.Trips(*loop, 0);
      if (!trips) return false;
      want(expressions_.Iteration(*loop, *trips));
    }
    // What the offset determines, and what that determines in turn.
    std::set<Linear> told = {sum};
    for (bool grew = true; grew && told.size() < 200;) {
      grew = false;
      const std::set<Linear> before = told;
      for (const Linear& form : before) {
        const auto pieces = expressions_.atoms().Cut(form, known);
        if (!Atoms::MixedRadix(pieces)) continue;
        for (const Atoms::Piece& piece : pieces) grew |= told.insert(piece.sum).second;
        // A sum that the mask bounds as a whole, by its own parts.
        if (known.contains(form)) {
          const auto parts = expressions_.atoms().Cut(form, {});
          if (!Atoms::MixedRadix(parts)) continue;
          for (const Atoms::Piece& part : parts) grew |= told.insert(part.sum).second;
        }
      }
      for (const Linear& form : before) {
        const Atom* mod = Single(form);
        if (mod == nullptr || mod->kind != AtomKind::kMod) continue;
        const Linear inner = mod->arguments[0];
        const int64_t divisor = mod->divisor;
        const Atom* deeper = Single(inner);
        for (const Linear& other : before) {
          const Atom* div = Single(other);
          if (div == nullptr || div->kind != AtomKind::kDiv) continue;
          const bool same = div->arguments[0] == inner && div->divisor == divisor;
          const bool nested = deeper != nullptr && deeper->kind == AtomKind::kDiv &&
                              div->arguments[0] == deeper->arguments[0] &&
                              div->divisor / divisor == deeper->divisor &&
                              div->divisor % divisor == 0;
          if (!same && !nested) continue;
          Linear whole = inner;
          whole.constant = 0;  // a constant tells nothing apart
          grew |= told.insert(std::move(whole)).second;
          break;
        }
      }
    }
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](int atom) { return told.contains(Linear{{{atom, 1}}, 0}); });
  }

  /// The atom that the sum is, if it is one.
  const Atom* Single(const Linear& sum) {
    if (sum.constant != 0 || sum.terms.size() != 1 || sum.terms.begin()->second != 1)
      return nullptr;
    return &expressions_.atoms()[sum.terms.begin()->first];
  }

  const TtirModule& module_;
  const TtirFunction& entry_;
  const LaunchFacts& facts_;
  Expressions expressions_;
  RangeReport report_;
};

}  // namespace

Result<RangeReport> AnalyzeRanges(const TtirModule& module, const LaunchFacts& facts) {
  const TtirFunction* entry = module.Entry();
  if (entry == nullptr)
    return Fail(ErrorKind::kUsage, "not_analysable", "found no single public function");
  if (facts.scalars.size() != entry->parameters.size() ||
      facts.elements.size() != entry->parameters.size())
    return Fail(
        ErrorKind::kUsage, "not_analysable",
        fmt::format("found facts of {} and {} parameters where {} has {}", facts.scalars.size(),
                    facts.elements.size(), entry->name, entry->parameters.size()));
  return Analyzer(module, *entry, facts).Analyze();
}

}  // namespace kernelopt
