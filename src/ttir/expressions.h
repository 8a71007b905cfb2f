// The integers and addresses of one launch as sums (linear.h), each seen from one
// access: the lanes are those of the access's tensor.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ttir/linear.h"
#include "ttir/ranges.h"
#include "ttir/ttir.h"

namespace kernelopt {

/// An expression, and what must hold so that the machine computes just it.
struct Form {
  Linear sum;
  std::set<std::pair<Linear, std::pair<int64_t, int64_t>>> needs;  ///< sum in [low, high]
};

struct Address {
  int parameter = -1;
  Form offset;  ///< in elements
};

/// Which axis of an access each axis of a value is; -1 where it has one element.
using Axes = std::vector<int>;

/// Bits of an integer type or of a tensor of it; 0 for others.
int IntegerBits(std::string_view type);
/// What an integer of so many bits can be; a bool is 0 or 1.
Interval IntegerRange(int bits);
/// The sizes of a tensor type; none for scalars.
std::vector<int64_t> TensorShape(std::string_view type);

class Expressions {
 public:
  /// `module` and `facts` outlive this.
  Expressions(const TtirModule& module, const TtirFunction& entry, const LaunchFacts& facts);

  Atoms& atoms() { return atoms_; }
  Axes OwnAxes(ValueId id) const;
  const TtirOp* Definition(ValueId id) const;

  /// An integer value; what can't be followed is an atom that nothing is known of.
  const Form& Of(ValueId id, const Axes& axes, int depth = 0);
  /// A pointer that leads to one parameter, or nothing.
  std::optional<Address> Pointer(ValueId id, const Axes& axes, int depth = 0);
  /// Iterations of a loop, where its bounds are known.
  std::optional<int64_t> Trips(const TtirOp& loop, int depth = 0);

  /// The axes of the operand of an operation that only changes the shape.
  std::optional<Axes> Reshaped(const TtirOp& op, const Axes& axes) const;

  /// The variable of its name, in [0, count); 0 when count is 1.
  Linear Program(int axis);
  Linear Lane(int axis, int64_t count);
  Linear Iteration(const TtirOp& loop, int64_t count);

  bool Holds(const Form& form, const Knowledge& known);

 private:
  void Collect(const TtirRegion& region);
  Form Unknown(ValueId id, const Axes& axes);
  Form Make(ValueId id, const Axes& axes, int depth);
  Form Literal(const TtirOp& op, ValueId id, const Axes& axes);
  Form Choice(AtomKind kind, std::string name, const Form& a, const Form& b);
  std::optional<Form> Binary(const TtirOp& op, int bits, const Form& a, const Form& b);
  Form Induction(const TtirOp& loop, ValueId id, int depth);
  Linear Free(AtomKind kind, std::string name, int64_t count);

  const TtirModule& module_;
  const LaunchFacts& facts_;
  std::map<ValueId, int> parameters_;
  std::map<ValueId, const TtirOp*> definitions_;
  std::map<ValueId, const TtirOp*> loops_;  // by induction variable
  std::map<std::pair<ValueId, Axes>, Form> forms_;
  Atoms atoms_;
};

}  // namespace kernelopt
