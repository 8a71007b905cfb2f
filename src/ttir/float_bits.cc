#include "ttir/float_bits.h"

#include <map>

namespace kernelopt {
namespace {

/// Operations that only change a value's shape.
bool Reshapes(std::string_view name) {
  return name == "tt.broadcast" || name == "tt.expand_dims" || name == "tt.reshape" ||
         name == "tt.splat";
}

bool IsFloat(const TtirModule& module, ValueId id) {
  return IsFloatType(ElementType(module.TypeOf(id)));
}

/// A sum: one value, added up by arith.addi.
bool IsIntegerSum(const TtirOp& op) {
  if (op.name != "tt.reduce" || op.operands.size() != 1 || op.regions.size() != 1 ||
      op.regions[0].blocks.size() != 1)
    return false;
  const TtirBlock& block = op.regions[0].blocks[0];
  return block.ops.size() == 2 && block.ops[0].name == "arith.addi" &&
         block.ops[0].operands == block.arguments && block.ops[1].name == "tt.reduce.return" &&
         block.ops[1].operands == block.ops[0].results;
}

}  // namespace

Result<std::set<ValueId>> FindFloatBits(
    const TtirModule& module, const TtirFunction& entry,
    const std::function<std::unexpected<Error>(const TtirOp& op, std::string_view why)>& refuse) {
  std::map<ValueId, const TtirOp*> definitions;
  std::vector<const TtirOp*> ops;
  WalkOps(entry.body, [&](const TtirOp& op) {
    ops.push_back(&op);
    for (ValueId id : op.results) definitions[id] = &op;
  });

  // A value that is 0 or 1: a bool made an integer. Adds what it is made by.
  std::set<ValueId> bits;
  const auto add_selector = [&](ValueId id) {
    std::vector<ValueId> chain;
    for (auto it = definitions.find(id); it != definitions.end();
         it = definitions.find(it->second->operands[0])) {
      const TtirOp& op = *it->second;
      if (op.operands.size() != 1 || op.results.size() != 1) return false;
      chain.push_back(op.results[0]);
      if (op.name == "arith.extui" && ElementType(module.TypeOf(op.operands[0])) == "i1") {
        bits.insert(chain.begin(), chain.end());
        return true;
      }
      if (!Reshapes(op.name)) return false;
    }
    return false;
  };

  // In the order of the text, in which a value comes before its uses.
  for (const TtirOp* op : ops) {
    int held = 0;
    for (ValueId id : op->operands) held += bits.contains(id);
    if (op->name == "tt.bitcast" && op->operands.size() == 1 && op->results.size() == 1) {
      const bool from = IsFloat(module, op->operands[0]), to = IsFloat(module, op->results[0]);
      if (from && !to && !IsPointerType(module.TypeOf(op->results[0]))) {
        bits.insert(op->results[0]);
        continue;
      }
      if (to && held == 0) return refuse(*op, "makes a float of bits");
      if (to || held == 0) continue;
    }
    if (held == 0) continue;
    if (op->name == "arith.muli" && op->operands.size() == 2 && held == 1) {
      const ValueId other = op->operands[bits.contains(op->operands[0]) ? 1 : 0];
      if (!add_selector(other)) return refuse(*op, "looks at the bits of a float");
    } else if (IsIntegerSum(*op)) {
      const TtirBlock& block = op->regions[0].blocks[0];
      bits.insert(block.arguments.begin(), block.arguments.end());
      bits.insert(block.ops[0].results.begin(), block.ops[0].results.end());
    }
    bits.insert(op->results.begin(), op->results.end());
  }

  // Whatever takes one of them must be one of the operations above.
  for (const TtirOp* op : ops) {
    for (ValueId id : op->operands) {
      if (!bits.contains(id)) continue;
      const bool adds = op->name == "arith.addi" && op->operands[0] != op->operands[1] &&
                        !definitions.contains(op->operands[0]) &&
                        !definitions.contains(op->operands[1]);  // a sum's own arguments
      if (op->name == "tt.bitcast" || op->name == "tt.reduce.return" || adds || IsIntegerSum(*op) ||
          Reshapes(op->name))
        continue;
      if (op->name == "arith.muli" && bits.contains(op->operands[0]) &&
          bits.contains(op->operands[1]))
        continue;
      return refuse(*op, "looks at the bits of a float");
    }
  }
  return bits;
}

}  // namespace kernelopt
