#include "ttir/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace kernelopt {
namespace {

/// What is known of one value: the parameters that its address may come from,
/// and whether it depends on loaded data.
struct Fact {
  std::set<int> parameters;
  bool loaded = false;

  /// True when something was added.
  bool Join(const Fact& other) {
    size_t before = parameters.size();
    bool was = loaded;
    parameters.insert(other.parameters.begin(), other.parameters.end());
    loaded = loaded || other.loaded;
    return parameters.size() != before || loaded != was;
  }
};

class Tracer {
 public:
  explicit Tracer(const TtirModule& module) : module_(module), facts_(module.values.size()) {}

  /// After Trace.
  std::map<size_t, std::set<int>> Addresses() const {
    std::map<size_t, std::set<int>> addresses;
    WalkOps(module_, [&](const TtirOp& op) {
      const bool accesses =
          op.name == "tt.load" || op.name == "tt.store" || op.name.starts_with("tt.atomic");
      if (accesses && !op.operands.empty())
        addresses[op.span.begin] = facts_[op.operands[0]].parameters;
    });
    return addresses;
  }

  Result<std::vector<PointerUse>> Trace() {
    const TtirFunction* entry = module_.Entry();
    if (entry == nullptr)
      return Fail(ErrorKind::kUsage, "not_analysable", "found no single public function");
    std::vector<PointerUse> uses(entry->parameters.size());
    for (size_t i = 0; i < entry->parameters.size(); ++i) {
      ValueId id = entry->parameters[i];
      if (!IsPointerType(module_.TypeOf(id))) continue;
      uses[i].is_pointer = true;
      facts_[id].parameters.insert(static_cast<int>(i));
    }
    CollectBlocks(entry->body);
    // Facts only grow, so this ends; loops need a few rounds.
    do {
      changed_ = false;
      KOPT_CHECK_OK(Flow(entry->body));
    } while (changed_);
    KOPT_CHECK_OK(Count(entry->body, &uses));
    CollectDefinitions(entry->body);
    MarkWeights(entry->body, &uses);
    return uses;
  }

 private:
  void CollectBlocks(const TtirRegion& region) {
    for (const TtirBlock& block : region.blocks)
      if (!block.label.empty()) blocks_[{&region, block.label}] = &block;
  }

  void Add(ValueId id, const Fact& fact) { changed_ |= facts_[id].Join(fact); }

  std::unexpected<Error> NotAnalysable(const TtirOp& op, std::string_view why) const {
    return Fail(ErrorKind::kUsage, "not_analysable",
                fmt::format("{} in line {}: {}, so what the kernel does with its memory is unknown",
                            op.name, op.line, why));
  }

  /// Joins the operands of a region's terminator into `targets`.
  void FlowOut(const TtirRegion& region, std::string_view terminator,
               const std::vector<ValueId>& targets, size_t skip = 0) {
    for (const TtirBlock& block : region.blocks) {
      if (block.ops.empty() || block.ops.back().name != terminator) continue;
      const std::vector<ValueId>& values = block.ops.back().operands;
      for (size_t i = 0; i < targets.size() && i + skip < values.size(); ++i)
        Add(targets[i], facts_[values[i + skip]]);
    }
  }

  Status Flow(const TtirRegion& region) {
    for (const TtirBlock& block : region.blocks)
      for (const TtirOp& op : block.ops) KOPT_CHECK_OK(FlowOp(region, op));
    return {};
  }

  Status FlowOp(const TtirRegion& region, const TtirOp& op) {
    for (const TtirRegion& inner : op.regions) CollectBlocks(inner);
    Fact all;
    for (ValueId id : op.operands) all.Join(facts_[id]);

    if (op.name == "scf.for" && op.regions.size() == 1 && !op.regions[0].blocks.empty()) {
      // Arguments: induction variable, then the carried values.
      const std::vector<ValueId>& arguments = op.regions[0].blocks[0].arguments;
      Fact bounds;
      bounds.loaded = all.loaded;
      if (!arguments.empty()) Add(arguments[0], bounds);
      std::vector<ValueId> carried(arguments.begin() + (arguments.empty() ? 0 : 1),
                                   arguments.end());
      for (size_t i = 0; i < carried.size() && i < op.initial.size(); ++i)
        Add(carried[i], facts_[op.initial[i]]);
      KOPT_CHECK_OK(Flow(op.regions[0]));
      FlowOut(op.regions[0], "scf.yield", carried);
      for (size_t i = 0; i < op.results.size() && i < carried.size(); ++i)
        Add(op.results[i], facts_[carried[i]]);
      return {};
    }
    if (op.name == "scf.while" && op.regions.size() == 2 && !op.regions[0].blocks.empty() &&
        !op.regions[1].blocks.empty()) {
      const std::vector<ValueId>& before = op.regions[0].blocks[0].arguments;
      const std::vector<ValueId>& after = op.regions[1].blocks[0].arguments;
      for (size_t i = 0; i < before.size() && i < op.initial.size(); ++i)
        Add(before[i], facts_[op.initial[i]]);
      KOPT_CHECK_OK(Flow(op.regions[0]));
      FlowOut(op.regions[0], "scf.condition", after, 1);
      FlowOut(op.regions[0], "scf.condition", op.results, 1);
      KOPT_CHECK_OK(Flow(op.regions[1]));
      FlowOut(op.regions[1], "scf.yield", before);
      return {};
    }
    if (op.name == "scf.if") {
      for (const TtirRegion& inner : op.regions) {
        KOPT_CHECK_OK(Flow(inner));
        FlowOut(inner, "scf.yield", op.results);
      }
      for (ValueId id : op.results) {
        Fact condition;
        condition.loaded = all.loaded;
        Add(id, condition);
      }
      return {};
    }
    if (op.name == "tt.reduce" || op.name == "tt.scan" || op.name == "tt.map_elementwise") {
      if (!all.parameters.empty()) return NotAnalysable(op, "it works on pointers");
      for (const TtirRegion& inner : op.regions) {
        for (const TtirBlock& block : inner.blocks)
          for (ValueId id : block.arguments) Add(id, all);
        KOPT_CHECK_OK(Flow(inner));
      }
      for (ValueId id : op.results) Add(id, all);
      return {};
    }
    if (!op.regions.empty()) return NotAnalysable(op, "its regions are not known");

    for (const TtirOp::Successor& successor : op.successors) {
      auto target = blocks_.find({&region, successor.label});
      if (target == blocks_.end()) return NotAnalysable(op, "its target is missing");
      const std::vector<ValueId>& arguments = target->second->arguments;
      for (size_t i = 0; i < arguments.size() && i < successor.arguments.size(); ++i)
        Add(arguments[i], facts_[successor.arguments[i]]);
    }
    if (op.name == "tt.load" || op.name.starts_with("tt.atomic")) {
      Fact value;
      value.loaded = true;
      for (ValueId id : op.results) Add(id, value);
      return {};
    }
    static const std::set<std::string, std::less<>> kAddressOps = {
        "tt.addptr", "tt.splat",      "tt.broadcast", "tt.expand_dims", "tt.reshape",
        "tt.trans",  "tt.bitcast",    "arith.select", "tt.join",        "tt.unsplat",
        "scf.yield", "scf.condition", "cf.br",        "cf.cond_br",     "tt.store"};
    if (!all.parameters.empty() && !kAddressOps.contains(op.name))
      return NotAnalysable(op, "a pointer goes into it");
    for (ValueId id : op.results) Add(id, all);
    return {};
  }

  Status Count(const TtirRegion& region, std::vector<PointerUse>* uses) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        for (const TtirRegion& inner : op.regions) KOPT_CHECK_OK(Count(inner, uses));
        bool load = op.name == "tt.load";
        bool store = op.name == "tt.store";
        bool atomic = op.name.starts_with("tt.atomic");
        for (ValueId id : op.results) {
          if (IsPointerType(module_.TypeOf(id)) && facts_[id].parameters.empty())
            return NotAnalysable(op, "a pointer comes out that no parameter leads to");
        }
        if (!load && !store && !atomic) continue;
        // The first pointer operand is the address; a pointer among the others
        // would be data.
        if (op.operands.empty()) return NotAnalysable(op, "it has no address");
        ValueId address = op.operands[0];
        for (ValueId id : op.operands) {
          if (id != address && !facts_[id].parameters.empty())
            return NotAnalysable(op, "a pointer is stored");
        }
        const Fact& fact = facts_[address];
        if (fact.parameters.empty()) return NotAnalysable(op, "its address can't be followed");
        for (int parameter : fact.parameters) {
          PointerUse& use = (*uses)[static_cast<size_t>(parameter)];
          use.loads += load;
          use.stores += store;
          use.atomics += atomic;
          use.indirect = use.indirect || fact.loaded;
        }
      }
    }
    return {};
  }

  void CollectDefinitions(const TtirRegion& region) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        for (ValueId id : op.results) definitions_[id] = &op;
        for (const TtirRegion& inner : op.regions) CollectDefinitions(inner);
      }
    }
  }

  void MarkWeights(const TtirRegion& region, std::vector<PointerUse>* uses) {
    for (const TtirBlock& block : region.blocks) {
      for (const TtirOp& op : block.ops) {
        const bool combines = op.name == "tt.reduce" || op.name == "tt.scan";
        for (const TtirRegion& inner : op.regions) {
          if (!combines) MarkWeights(inner, uses);
          for (const TtirBlock& combine : inner.blocks) {
            if (combines) MarkCombined(op, combine, uses);
          }
        }
      }
    }
  }

  /// A reduction's region has an argument an operand, twice: what is so far, and what is
  /// new. Operand i is a weight where one of its two is divided by their sum.
  void MarkCombined(const TtirOp& reduction, const TtirBlock& combine,
                    std::vector<PointerUse>* uses) {
    const size_t count = reduction.operands.size();
    if (combine.arguments.size() != 2 * count) return;
    for (size_t i = 0; i < count; ++i) {
      const ValueId a = combine.arguments[i];
      const ValueId b = combine.arguments[count + i];
      const auto is_sum = [&](ValueId id) {
        const auto definition = definitions_.find(id);
        if (definition == definitions_.end() || definition->second->name != "arith.addf")
          return false;
        const std::vector<ValueId>& of = definition->second->operands;
        return of == std::vector{a, b} || of == std::vector{b, a};
      };
      const bool is_weight = std::ranges::any_of(combine.ops, [&](const TtirOp& op) {
        return op.name == "arith.divf" && op.operands.size() == 2 &&
               (op.operands[0] == a || op.operands[0] == b) && is_sum(op.operands[1]);
      });
      if (is_weight) MarkLoaded(reduction.operands[i], uses);
    }
  }

  /// Follows a value back over what moves elements about, to the loads.
  void MarkLoaded(ValueId value, std::vector<PointerUse>* uses) {
    const auto definition = definitions_.find(value);
    if (definition == definitions_.end()) return;
    const TtirOp& op = *definition->second;
    if (op.name == "tt.load" && !op.operands.empty()) {
      for (int parameter : facts_[op.operands[0]].parameters)
        (*uses)[static_cast<size_t>(parameter)].weight = true;
      return;
    }
    static const std::set<std::string, std::less<>> kMoves = {
        "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
        "tt.splat",     "arith.select",   "arith.extf", "arith.truncf"};
    if (!kMoves.contains(op.name)) return;
    for (ValueId operand : op.operands) MarkLoaded(operand, uses);
  }

  const TtirModule& module_;
  std::vector<Fact> facts_;
  std::map<ValueId, const TtirOp*> definitions_;
  std::map<std::pair<const TtirRegion*, std::string>, const TtirBlock*> blocks_;
  bool changed_ = false;
};

}  // namespace

Result<std::vector<PointerUse>> PointerUses(const TtirModule& module) {
  return Tracer(module).Trace();
}

Result<std::map<size_t, std::set<int>>> AddressParameters(const TtirModule& module) {
  Tracer tracer(module);
  KOPT_TRY(tracer.Trace());
  return tracer.Addresses();
}

}  // namespace kernelopt
