#include "ttir/expressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kernelopt {
namespace {

constexpr int kMostOperands = 200;  // inside each other
constexpr size_t kMostNeeds = 300;

/// Small enough for sums and differences of a few of them.
bool IsOrdinary(int64_t value) {
  return value > -kUnbounded && value < kUnbounded;
}

/// The integer behind "key = ".
std::optional<int64_t> Attribute(const std::string& attributes, std::string_view key) {
  const std::string pattern = std::string(key) + " = ";
  const size_t at = attributes.find(pattern);
  if (at == std::string::npos) return std::nullopt;
  int64_t value = 0;
  const char* end = attributes.data() + attributes.size();
  const auto [stop, error] = std::from_chars(attributes.data() + at + pattern.size(), end, value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

static Form Constant(int64_t value) {
  return {{{}, value}, {}};
}

static void Need(Form* form, const Linear& sum, Interval range) {
  // The ends of 64 bits are not told from what is beyond them.
  if (range.low <= -kUnbounded) range.low = -kUnbounded + 1;
  if (range.high >= kUnbounded) range.high = kUnbounded - 1;
  if (!sum.IsConstant() || sum.constant < range.low || sum.constant > range.high)
    form->needs.insert({sum, {range.low, range.high}});
}

}  // namespace

int IntegerBits(std::string_view type) {
  std::string_view element = ElementType(type);
  int bits = 0;
  if (!element.starts_with('i')) return element == "index" ? 64 : 0;
  const auto [end, error] =
      std::from_chars(element.data() + 1, element.data() + element.size(), bits);
  return error == std::errc() && end == element.data() + element.size() && bits <= 64 ? bits : 0;
}

Interval IntegerRange(int bits) {
  if (bits == 1) return {0, 1};
  if (bits <= 0 || bits >= 63) return {};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

std::vector<int64_t> TensorShape(std::string_view type) {
  std::vector<int64_t> shape;
  if (!type.starts_with("tensor<")) return shape;
  type.remove_prefix(7);
  while (true) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(type.data(), type.data() + type.size(), size);
    if (error != std::errc() || end == type.data() + type.size() || *end != 'x') return shape;
    shape.push_back(size);
    type.remove_prefix(static_cast<size_t>(end - type.data()) + 1);
  }
}

Expressions::Expressions(const TtirModule& module, const TtirFunction& entry,
                         const LaunchFacts& facts)
    : module_(module), facts_(facts) {
  for (size_t i = 0; i < entry.parameters.size(); ++i)
    parameters_[entry.parameters[i]] = static_cast<int>(i);
  Collect(entry.body);
}

const TtirOp* Expressions::Definition(ValueId id) const {
  auto it = definitions_.find(id);
  return it == definitions_.end() ? nullptr : it->second;
}

void Expressions::Collect(const TtirRegion& region) {
  for (const TtirBlock& block : region.blocks) {
    for (const TtirOp& op : block.ops) {
      for (ValueId id : op.results) definitions_[id] = &op;
      if (op.name == "scf.for" && !op.regions.empty() && !op.regions[0].blocks.empty() &&
          !op.regions[0].blocks[0].arguments.empty())
        loops_[op.regions[0].blocks[0].arguments[0]] = &op;
      for (const TtirRegion& inner : op.regions) Collect(inner);
    }
  }
}

Axes Expressions::OwnAxes(ValueId id) const {
  const auto shape = TensorShape(module_.TypeOf(id));
  Axes axes;
  for (size_t i = 0; i < shape.size(); ++i)
    axes.push_back(shape[i] == 1 ? -1 : static_cast<int>(i));
  return axes;
}

Form Expressions::Unknown(ValueId id, const Axes& axes) {
  Atom atom;
  atom.name = fmt::format("{}@{}", id, fmt::join(axes, ","));
  atom.base = IntegerRange(IntegerBits(module_.TypeOf(id)));
  return {atoms_.Of(std::move(atom)), {}};
}

bool Expressions::Holds(const Form& form, const Knowledge& known) {
  return std::all_of(form.needs.begin(), form.needs.end(), [&](const auto& need) {
    return atoms_.Range(need.first, known).Within({need.second.first, need.second.second});
  });
}

const Form& Expressions::Of(ValueId id, const Axes& axes, int depth) {
  const auto key = std::pair(id, axes);
  if (auto it = forms_.find(key); it != forms_.end()) return it->second;
  Form form = depth > kMostOperands ? Unknown(id, axes) : Make(id, axes, depth);
  return forms_.emplace(key, std::move(form)).first->second;
}

Form Expressions::Make(ValueId id, const Axes& axes, int depth) {
  if (auto it = parameters_.find(id); it != parameters_.end()) {
    const auto& value = facts_.scalars[static_cast<size_t>(it->second)];
    return value && IsOrdinary(*value) ? Constant(*value) : Unknown(id, axes);
  }
  if (auto it = loops_.find(id); it != loops_.end()) return Induction(*it->second, id, depth);
  auto it = definitions_.find(id);
  if (it == definitions_.end()) return Unknown(id, axes);
  const TtirOp& op = *it->second;
  const int bits = IntegerBits(module_.TypeOf(id));
  if (bits == 0 || op.results.size() != 1) return Unknown(id, axes);
  const auto operand = [&](size_t i) { return Of(op.operands[i], axes, depth + 1); };

  if (op.name == "arith.constant") return Literal(op, id, axes);
  if (op.name == "tt.get_program_id" || op.name == "tt.get_num_programs") {
    if (op.attributes.empty() || op.attributes[0] < 'x' || op.attributes[0] > 'z')
      return Unknown(id, axes);
    const int64_t count = facts_.grid[static_cast<size_t>(op.attributes[0] - 'x')];
    if (op.name == "tt.get_num_programs") return Constant(count);
    return {Program(op.attributes[0] - 'x'), {}};
  }
  if (op.name == "tt.make_range") {
    const auto start = Attribute(op.attributes, "start"), end = Attribute(op.attributes, "end");
    if (!start || !end || axes.size() != 1 || *start < 0 || *end <= *start || !IsOrdinary(*end))
      return Unknown(id, axes);
    if (axes[0] < 0) return Constant(*start);
    Form form{Lane(axes[0], *end - *start), {}};
    form.sum.constant = *start;
    return form;
  }
  if (auto inner = Reshaped(op, axes)) return Of(op.operands[0], *inner, depth + 1);
  if (op.operands.size() == 1) {
    if (op.name == "arith.extsi" && IntegerBits(module_.TypeOf(op.operands[0])) > 1)
      return operand(0);
    if (op.name == "arith.extui") {
      Form form = operand(0);
      Need(&form, form.sum, {0, kUnbounded});
      return form;
    }
    if (op.name == "arith.trunci" && bits > 1) {
      Form form = operand(0);
      Need(&form, form.sum, IntegerRange(bits));
      return form;
    }
  }
  if (op.operands.size() == 2) {
    const Form a = operand(0), b = operand(1);
    if (a.needs.size() + b.needs.size() > kMostNeeds) return Unknown(id, axes);
    if (auto form = Binary(op, bits, a, b)) return *form;
  }
  if (op.name == "arith.select" && op.operands.size() == 3) {
    const Form a = operand(1), b = operand(2);
    if (a.needs.size() + b.needs.size() > kMostNeeds) return Unknown(id, axes);
    return Choice(AtomKind::kJoin, fmt::format("{}@{}", id, fmt::join(axes, ",")), a, b);
  }
  return Unknown(id, axes);
}

Linear Expressions::Program(int axis) {
  const auto at = static_cast<size_t>(axis);
  if (!facts_.programs) return Free(AtomKind::kProgram, std::to_string(axis), facts_.grid[at]);
  Linear id = Free(AtomKind::kProgram, std::to_string(axis), facts_.programs->count[at]);
  id.constant += facts_.programs->first[at];
  return id;
}

Linear Expressions::Lane(int axis, int64_t count) {
  return Free(AtomKind::kLane, fmt::format("{} of {}", axis, count), count);
}

Linear Expressions::Iteration(const TtirOp& loop, int64_t count) {
  return Free(AtomKind::kLoop, std::to_string(loop.regions[0].blocks[0].arguments[0]), count);
}

Linear Expressions::Free(AtomKind kind, std::string name, int64_t count) {
  if (count == 1) return {};
  Atom atom;
  atom.kind = kind;
  atom.name = std::move(name);
  atom.base = {0, count - 1};
  return atoms_.Of(std::move(atom));
}

Form Expressions::Choice(AtomKind kind, std::string name, const Form& a, const Form& b) {
  Form form;
  form.needs = a.needs;
  form.needs.insert(b.needs.begin(), b.needs.end());
  Atom atom;
  atom.kind = kind;
  atom.name = std::move(name);
  atom.arguments = {a.sum, b.sum};
  form.sum = atoms_.Of(std::move(atom));
  return form;
}

Form Expressions::Literal(const TtirOp& op, ValueId id, const Axes& axes) {
  std::string_view text = op.attributes;
  if (text.starts_with("dense<") && text.ends_with('>')) text = text.substr(6, text.size() - 7);
  if (text == "true" || text == "false") return Constant(text == "true");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= -kUnbounded ||
      value >= kUnbounded)
    return Unknown(id, axes);
  return Constant(value);
}

std::optional<Axes> Expressions::Reshaped(const TtirOp& op, const Axes& axes) const {
  if (op.operands.size() != 1) return std::nullopt;
  const auto shape = TensorShape(module_.TypeOf(op.operands[0]));
  Axes inner = axes;
  if (op.name == "tt.splat" || op.name == "tt.unsplat") {
    inner.clear();
    if (op.name == "tt.unsplat") inner.assign(shape.size(), -1);
  } else if (op.name == "tt.expand_dims") {
    const auto axis = Attribute(op.attributes, "axis");
    if (!axis || *axis < 0 || *axis >= static_cast<int64_t>(inner.size())) return std::nullopt;
    inner.erase(inner.begin() + *axis);
  } else if (op.name != "tt.broadcast") {
    return std::nullopt;
  }
  if (inner.size() != shape.size()) return std::nullopt;
  for (size_t i = 0; i < inner.size(); ++i)
    if (shape[i] == 1) inner[i] = -1;
  return inner;
}

std::optional<Form> Expressions::Binary(const TtirOp& op, int bits, const Form& a, const Form& b) {
  Form form;
  form.needs = a.needs;
  form.needs.insert(b.needs.begin(), b.needs.end());
  const auto scaled = [&](const Linear& x, const Linear& y, int64_t factor) -> std::optional<Form> {
    auto sum = AddScaled(x, y, factor);
    if (!sum) return std::nullopt;
    form.sum = std::move(*sum);
    Need(&form, form.sum, IntegerRange(bits));
    return form;
  };
  if (op.name == "arith.addi" && bits > 1) return scaled(a.sum, b.sum, 1);
  if (op.name == "arith.subi" && bits > 1) return scaled(a.sum, b.sum, -1);
  if (op.name == "arith.muli" && bits > 1) {
    if (b.sum.IsConstant()) return scaled({}, a.sum, b.sum.constant);
    if (a.sum.IsConstant()) return scaled({}, b.sum, a.sum.constant);
    return std::nullopt;
  }
  if (op.name == "arith.shli" && b.sum.IsConstant() && b.sum.constant >= 0 &&
      b.sum.constant < std::min(bits - 1, 62))
    return scaled({}, a.sum, int64_t{1} << b.sum.constant);
  if (op.name == "arith.minsi") return Choice(AtomKind::kMin, "", a, b);
  if (op.name == "arith.maxsi") return Choice(AtomKind::kMax, "", a, b);

  // Division by a positive constant.
  int64_t divisor = b.sum.constant;
  bool quotient = op.name == "arith.divsi" || op.name == "arith.divui";
  const bool remainder = op.name == "arith.remsi" || op.name == "arith.remui";
  bool positive = op.name == "arith.divui" || op.name == "arith.remui";
  if (!b.sum.IsConstant()) return std::nullopt;
  if ((op.name == "arith.shrsi" || op.name == "arith.shrui") && divisor >= 0 && divisor < 62) {
    divisor = int64_t{1} << divisor;
    quotient = positive = true;  // it rounds down, division to zero
  }
  if ((!quotient && !remainder) || divisor <= 0) return std::nullopt;
  if (positive) Need(&form, a.sum, {0, kUnbounded});
  if (a.sum.IsConstant()) {
    form.sum = {{}, quotient ? a.sum.constant / divisor : a.sum.constant % divisor};
    return form;
  }
  Atom atom;
  atom.kind = quotient ? AtomKind::kDiv : AtomKind::kMod;
  atom.divisor = divisor;
  atom.arguments = {a.sum};
  form.sum = atoms_.Of(std::move(atom));
  return form;
}

std::optional<int64_t> Expressions::Trips(const TtirOp& loop, int depth) {
  if (loop.name != "scf.for" || loop.operands.size() != 3 || loop.regions.empty() ||
      loop.regions[0].blocks.empty() || loop.regions[0].blocks[0].arguments.empty())
    return std::nullopt;
  std::array<int64_t, 3> bounds;
  for (size_t i = 0; i < 3; ++i) {
    const Form form = Of(loop.operands[i], {}, depth + 1);
    if (!form.sum.IsConstant() || !form.needs.empty()) return std::nullopt;
    bounds[i] = form.sum.constant;
  }
  const auto [low, high, step] = bounds;
  if (step <= 0 || loop.attributes.starts_with("unsigned")) return std::nullopt;
  return high <= low ? 0 : (high - low - 1) / step + 1;
}

Form Expressions::Induction(const TtirOp& loop, ValueId id, int depth) {
  const auto trips = Trips(loop, depth);
  if (trips) {
    // In a loop that never runs nothing is ever accessed.
    const int64_t low = Of(loop.operands[0], {}, depth + 1).sum.constant;
    const int64_t step = Of(loop.operands[2], {}, depth + 1).sum.constant;
    Linear iteration = Iteration(loop, std::max<int64_t>(*trips, 1));
    if (auto sum = AddScaled({{}, low}, iteration, step)) return {*sum, {}};
  }
  return Unknown(id, {});
}

std::optional<Address> Expressions::Pointer(ValueId id, const Axes& axes, int depth) {
  if (depth > kMostOperands) return std::nullopt;
  if (auto it = parameters_.find(id); it != parameters_.end()) return Address{it->second, {}};
  auto it = definitions_.find(id);
  if (it == definitions_.end()) return std::nullopt;
  const TtirOp& op = *it->second;
  if (op.name == "tt.addptr" && op.operands.size() == 2) {
    auto address = Pointer(op.operands[0], axes, depth + 1);
    if (!address) return std::nullopt;
    const Form& offset = Of(op.operands[1], axes, depth + 1);
    auto sum = AddScaled(address->offset.sum, offset.sum, 1);
    if (!sum) return std::nullopt;
    address->offset.sum = std::move(*sum);
    address->offset.needs.insert(offset.needs.begin(), offset.needs.end());
    return address;
  }
  if (op.name == "tt.bitcast" && op.operands.size() == 1) {
    // Bools are bytes.
    const std::string from = PointeeType(module_.TypeOf(op.operands[0]));
    const std::string to = PointeeType(module_.TypeOf(id));
    const auto is_byte = [](std::string_view type) {
      return ElementType(type) == "i1" || ElementType(type) == "i8";
    };
    if (!is_byte(from) || !is_byte(to)) return std::nullopt;
    return Pointer(op.operands[0], axes, depth + 1);
  }
  if (auto inner = Reshaped(op, axes)) return Pointer(op.operands[0], *inner, depth + 1);
  return std::nullopt;
}

}  // namespace kernelopt
