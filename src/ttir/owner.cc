#include "ttir/owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "ttir/locations.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

/// The integer type of an element's width; empty for others.
std::string_view MarkType(std::string_view element) {
  if (element == "f64" || element == "i64") return "i64";
  if (element == "f32" || element == "i32") return "i32";
  if (element == "f16" || element == "bf16" || element == "i16") return "i16";
  return element == "i8" ? "i8" : "";
}

class OwnerWriter {
 public:
  OwnerWriter(const TtirModule& module, const std::set<int>& tracked)
      : module_(module), tracked_(tracked), depends_(module.values.size(), false) {}

  Result<OwnerTexts> Write() {
    const TtirFunction* entry = module_.Entry();
    if (entry == nullptr || module_.functions.size() != 1) {
      return Fail(ErrorKind::kUsage, "not_analysable", "found no single function");
    }
    addresses_ = KOPT_TRY(AddressParameters(module_));
    KOPT_CHECK_OK(FindAccesses());
    FindDependent(entry->body);
    KOPT_CHECK_OK(CheckIndependent(entry->body));
    return OwnerTexts{.mark = Text(*entry, false), .check = Text(*entry, true)};
  }

 private:
  /// What is written anew, in the order of the text: loads and stores of tracked storages,
  /// and assertions.
  struct Access {
    const TtirOp* op = nullptr;
    bool is_load = false;
    std::string type{};  ///< of the value that is loaded or stored
  };

  std::unexpected<Error> NotAnalysable(const TtirOp& op, std::string_view why) const {
    return Fail(
        ErrorKind::kUsage, "not_analysable",
        fmt::format("{} in line {}{}: {}, so who touches which element can't be watched", op.name,
                    op.line,
                    op.source_line > 0 ? fmt::format(" (line {} of the kernel)", op.source_line)
                                       : std::string(),
                    why));
  }

  Status FindAccesses() {
    Status status;
    WalkOps(module_, [&](const TtirOp& op) {
      if (op.name == "tt.assert") accesses_.push_back({.op = &op});
      const auto address = addresses_.find(op.span.begin);
      if (!status || address == addresses_.end()) return;
      const std::set<int>& parameters = address->second;
      const bool any = std::ranges::any_of(parameters, [&](int p) { return tracked_.contains(p); });
      if (!any) return;
      status = [&]() -> Status {
        if (!std::ranges::includes(tracked_, parameters)) {
          return NotAnalysable(op, "it may lead to several storages");
        }
        if (op.name != "tt.load" && op.name != "tt.store") return NotAnalysable(op, "is an atomic");
        const bool is_load = op.name == "tt.load";
        const std::string& type = module_.TypeOf(is_load ? op.results.at(0) : op.operands.at(1));
        if (MarkType(ElementType(type)).empty()) {
          return NotAnalysable(op, fmt::format("it moves elements of type {}", ElementType(type)));
        }
        accesses_.push_back({&op, is_load, type});
        return {};
      }();
    });
    return status;
  }

  // What depends on a tracked value. More is marked than must be: a region's results and
  // arguments depend on all that goes into it.

  void Depend(const std::vector<ValueId>& values) {
    for (ValueId id : values) {
      changed_ = changed_ || !depends_[static_cast<size_t>(id)];
      depends_[static_cast<size_t>(id)] = true;
    }
  }

  bool AnyDepends(const std::vector<ValueId>& values) const {
    return std::ranges::any_of(values,
                               [&](ValueId id) { return depends_[static_cast<size_t>(id)]; });
  }

  void FindDependent(const TtirRegion& body) {
    for (const Access& access : accesses_) {
      if (access.is_load) Depend(access.op->results);
    }
    do {
      changed_ = false;
      Flow(body, nullptr);
    } while (changed_);
  }

  void Flow(const TtirRegion& region, const TtirOp* around) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        bool depends = AnyDepends(op.operands) || AnyDepends(op.initial);
        for (const TtirOp::Successor& successor : op.successors) {
          if (!AnyDepends(successor.arguments)) continue;
          for (const TtirBlock& target : region.blocks) {
            if (target.label == successor.label) Depend(target.arguments);
          }
        }
        for (const TtirRegion& inner : op.regions) {
          Flow(inner, &op);
          for (const TtirBlock& inside : inner.blocks) {
            depends = depends || AnyDepends(inside.arguments);
          }
        }
        const bool reads_other_memory = op.name == "tt.load" && !IsTracked(op);
        if (depends && !reads_other_memory) {
          Depend(op.results);
          for (const TtirRegion& inner : op.regions) {
            for (const TtirBlock& inside : inner.blocks) {
              // The induction variable counts, whatever is carried along.
              const size_t first = op.name == "scf.for" && !inside.arguments.empty() ? 1 : 0;
              Depend({inside.arguments.begin() + static_cast<long>(first), inside.arguments.end()});
            }
          }
        }
        const bool leaves =
            op.name == "scf.yield" || op.name == "scf.condition" || op.name.ends_with(".return");
        if (leaves && around != nullptr && AnyDepends(op.operands)) Depend(around->results);
      }
    }
  }

  bool IsTracked(const TtirOp& op) const {
    return std::ranges::any_of(accesses_, [&](const Access& access) { return access.op == &op; });
  }

  Status CheckIndependent(const TtirRegion& region) const {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        std::vector<ValueId> steering;
        if (op.name == "tt.load" || op.name == "tt.store" || op.name.starts_with("tt.atomic")) {
          for (size_t i = 0; i < op.operands.size(); ++i) {
            const ValueId id = op.operands[i];
            const bool is_mask = ElementType(module_.TypeOf(id)) == "i1" && i > 0;
            if (i == 0 || is_mask) steering.push_back(id);
          }
        } else if (op.name == "scf.for" || op.name == "scf.if" || op.name == "cf.cond_br") {
          steering = op.operands;  // bounds and conditions; `initial` is apart
        } else if (op.name == "scf.condition" && !op.operands.empty()) {
          steering = {op.operands[0]};
        }
        if (AnyDepends(steering)) {
          return NotAnalysable(op, "where it goes depends on a value that is updated in place");
        }
        for (const TtirRegion& inner : op.regions) KOPT_CHECK_OK(CheckIndependent(inner));
      }
    }
    return {};
  }

  // Writing.

  std::string Value(ValueId id) const { return module_.values[static_cast<size_t>(id)].name; }

  /// A name that the text does not have: none of its own begins like this.
  std::string Fresh() const { return fmt::format("%kopt_owner_{}", names_++); }

  static std::string_view Zero(std::string_view type) {
    return IsFloatType(ElementType(type)) ? "0.0" : "0";
  }

  std::string Constant(const std::string& name, const std::string& type,
                       std::string_view value) const {
    const bool is_tensor = type.starts_with("tensor<");
    return fmt::format("{} = arith.constant {} : {}\n", name,
                       is_tensor ? fmt::format("dense<{}>", value) : std::string(value), type);
  }

  /// The program's number from 1 on, in `width`, never all ones: at the entry.
  std::string Numbers() const {
    std::string out = R"(
    %kopt_x = tt.get_program_id x : i32
    %kopt_y = tt.get_program_id y : i32
    %kopt_z = tt.get_program_id z : i32
    %kopt_nx = tt.get_num_programs x : i32
    %kopt_ny = tt.get_num_programs y : i32
    %kopt_zy = arith.muli %kopt_z, %kopt_ny : i32
    %kopt_row = arith.addi %kopt_zy, %kopt_y : i32
    %kopt_rows = arith.muli %kopt_row, %kopt_nx : i32
    %kopt_id = arith.addi %kopt_rows, %kopt_x : i32
    %kopt_one = arith.constant 1 : i32
    %kopt_i32 = arith.addi %kopt_id, %kopt_one : i32
    %kopt_i64 = arith.extui %kopt_i32 : i32 to i64
)";
    for (const auto& [width, most] : {std::pair{"i16", 65534}, std::pair{"i8", 254}}) {
      out += fmt::format(
          "    %kopt_most_{0} = arith.constant {1} : i32\n"
          "    %kopt_rest_{0} = arith.remui %kopt_id, %kopt_most_{0} : i32\n"
          "    %kopt_next_{0} = arith.addi %kopt_rest_{0}, %kopt_one : i32\n"
          "    %kopt_{0} = arith.trunci %kopt_next_{0} : i32 to {0}\n",
          width, most);
    }
    return out;
  }

  /// The program's mark in the shape of `type`, whose elements are marks; its name.
  std::string Splat(std::string* name, std::string_view mark, const std::string& type) const {
    *name = fmt::format("%kopt_{}", mark);
    if (!type.starts_with("tensor<")) return "";
    const std::string scalar = *name;
    *name = Fresh();
    return fmt::format("{} = tt.splat {} : {} -> {}\n", *name, scalar, mark, type);
  }

  /// `from` as the access's own type, or as marks.
  std::string Cast(std::string* name, const std::string& from, const std::string& to) const {
    if (from == to) return "";
    const std::string cast = Fresh();
    std::string line = fmt::format("{} = tt.bitcast {} : {} -> {}\n", cast, *name, from, to);
    *name = cast;
    return line;
  }

  std::string Mark(const Access& access) const {
    const std::string_view mark = MarkType(ElementType(access.type));
    const std::string marks = WithElementType(access.type, mark);
    std::string own;
    std::string out = Splat(&own, mark, marks);
    out += Cast(&own, marks, access.type);
    const std::vector<ValueId>& operands = access.op->operands;
    const std::string mask = operands.size() > 2 ? ", " + Value(operands[2]) : "";
    return out + fmt::format("tt.store {}, {}{} : {}\n", Value(operands[0]), own, mask,
                             module_.TypeOf(operands[0]));
  }

  std::string Check(const Access& access) const {
    const std::vector<ValueId>& operands = access.op->operands;
    const std::string& pointer = module_.TypeOf(operands[0]);
    const std::string_view mark = MarkType(ElementType(access.type));
    const std::string marks = WithElementType(access.type, mark);
    const std::string bools = WithElementType(access.type, "i1");
    const size_t mask_at = access.is_load ? 1 : 2;
    const std::string zero = Fresh(), nothing = Fresh(), ones = Fresh();
    std::string own;
    std::string out = Splat(&own, mark, marks) + Constant(zero, marks, "0") +
                      Constant(nothing, access.type, Zero(access.type)) +
                      Constant(ones, marks, "-1");
    std::string found = Fresh();
    if (operands.size() > mask_at) {
      out += fmt::format("{} = tt.load {}, {}, {} : {}\n", found, Value(operands[0]),
                         Value(operands[mask_at]), nothing, pointer);
    } else {
      out += fmt::format("{} = tt.load {} : {}\n", found, Value(operands[0]), pointer);
    }
    out += Cast(&found, access.type, marks);
    const std::string marked = Fresh(), others = Fresh(), conflict = Fresh();
    out += fmt::format("{} = arith.cmpi ne, {}, {} : {}\n", marked, found, zero, marks);
    out += fmt::format("{} = arith.cmpi ne, {}, {} : {}\n", others, found, own, marks);
    out += fmt::format("{} = arith.andi {}, {} : {}\n", conflict, marked, others, bools);
    std::string stored = ones;
    out += Cast(&stored, marks, access.type);
    return out +
           fmt::format("tt.store {}, {}, {} : {}\n", Value(operands[0]), stored, conflict, pointer);
  }

  std::string Text(const TtirFunction& entry, bool check) const {
    const std::string& text = module_.text;
    size_t at = entry.body.span.begin + 1;
    std::string out = text.substr(0, at) + Numbers();
    for (const Access& access : accesses_) {
      out += text.substr(at, access.op->span.begin - at);
      at = access.op->span.end;
      if (access.op->name == "tt.assert") continue;  // of values that are zero here
      if (check) out += Check(access);
      if (!check && !access.is_load) out += Mark(access);
      if (access.is_load) {
        out += Constant(Value(access.op->results[0]), access.type, Zero(access.type));
      }
    }
    return WithoutLocationNames(out + text.substr(at));
  }

  const TtirModule& module_;
  const std::set<int>& tracked_;
  std::map<size_t, std::set<int>> addresses_;  ///< of accesses, by where their text begins
  std::vector<Access> accesses_;
  std::vector<bool> depends_;  ///< by value
  bool changed_ = false;
  mutable int names_ = 0;
};

}  // namespace

Result<OwnerTexts> MakeOwnerTexts(const TtirModule& module, const std::set<int>& tracked) {
  return OwnerWriter(module, tracked).Write();
}

}  // namespace kernelopt
