// Integer expressions as sums of atoms with whole coefficients, and their ranges.
//
// An atom is a free variable (program id, lane, loop iteration), something that
// nothing is known of, or a remainder, quotient, minimum, maximum or choice of
// such sums. Sums are over the unbounded integers: whoever builds one from
// machine arithmetic checks that it does not wrap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace kernelopt {

/// What no bound of an interval exceeds; a bound that reaches it means "or beyond".
inline constexpr int64_t kUnbounded = int64_t{1} << 62;

/// All integers from `low` to `high`; none when low > high.
struct Interval {
  int64_t low = -kUnbounded, high = kUnbounded;

  bool empty() const { return low > high; }
  bool Within(const Interval& other) const { return low >= other.low && high <= other.high; }
  bool operator==(const Interval&) const = default;
};

Interval Intersect(const Interval& a, const Interval& b);
Interval Join(const Interval& a, const Interval& b);  ///< the smallest that holds both
Interval Plus(const Interval& a, const Interval& b);
Interval Times(const Interval& a, int64_t factor);

struct Linear {
  std::map<int, int64_t> terms;  ///< atom -> coefficient, never 0
  int64_t constant = 0;

  auto operator<=>(const Linear&) const = default;
  bool IsConstant() const { return terms.empty(); }
};

/// a + factor * b; nothing when a number or the count of terms gets too large.
std::optional<Linear> AddScaled(const Linear& a, const Linear& b, int64_t factor);

enum class AtomKind { kProgram, kLane, kLoop, kUnknown, kMod, kDiv, kMin, kMax, kJoin };

struct Atom {
  AtomKind kind = AtomKind::kUnknown;
  std::string name;               ///< of free and unknown ones: which
  Interval base;                  ///< of free and unknown ones
  int64_t divisor = 0;            ///< of kMod, kDiv: positive; division is C's
  std::vector<Linear> arguments;  ///< of the others

  bool IsFree() const {
    return kind == AtomKind::kProgram || kind == AtomKind::kLane || kind == AtomKind::kLoop;
  }
};

/// What is known where an operation happens: sums that are in intervals.
using Knowledge = std::map<Linear, Interval>;

class Atoms {
 public:
  /// The same atom for the same content.
  int Intern(Atom atom);
  Linear Of(Atom atom) { return {{{Intern(std::move(atom)), 1}}, 0}; }
  const Atom& operator[](int id) const { return atoms_[static_cast<size_t>(id)]; }

  Interval Range(const Linear& sum, const Knowledge& known);
  /// The sum with remainders and quotients resolved where `known` allows it:
  /// x % 8 + 8 * (x / 8) is x, and x % 8 is x where x is in [0, 8).
  Linear Simplify(Linear sum, const Knowledge& known);

  /// A sum cut into known sums and single atoms: scale, what, its range.
  struct Piece {
    int64_t scale = 1;
    Linear sum;
    Interval range;
  };
  std::vector<Piece> Cut(const Linear& sum, const Knowledge& known);

  /// True when different values of the pieces always give different sums.
  static bool MixedRadix(std::vector<Piece> pieces);
  /// True when the sum of free atoms takes every integer of its range.
  bool Gapless(const Linear& sum);

 private:
  Interval AtomRange(int id, const Knowledge& known);

  std::vector<Atom> atoms_;
  std::map<std::tuple<AtomKind, std::string, int64_t, std::vector<Linear>>, int> ids_;
  const Knowledge* memo_known_ = nullptr;
  Knowledge memo_key_;
  std::map<Linear, Interval> memo_;
  int depth_ = 0;
};

}  // namespace kernelopt
