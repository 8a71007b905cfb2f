// What the checks in tests/ttir ask the reader:
//
//   ttir_tool json IN.ttir            the module as JSON on standard output
//   ttir_tool promote IN.ttir OUT     the float64 twin's text to OUT; prints one
//                                     0 or 1 a parameter: widened or not
//   ttir_tool ranges IN.ttir FACTS    one line an access: parameter, load, store or
//                                     atomic, inside, unknown or outside, least and
//                                     largest offset, injective 0 or 1, line; FACTS is
//                                     JSON {"grid", "scalars", "elements"}
//   ttir_tool owners IN.ttir FOLDER   FOLDER/mark.ttir and check.ttir, of what is stored to
//   ttir_tool faults IN.ttir FOLDER   each planted fault as FOLDER/NUMBER_NAME.ttir; prints the
//                                     files' names
//
// Errors are one sentence on standard error and exit code 1.
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "ttir/faults.h"
#include "ttir/owner.h"
#include "ttir/promote.h"
#include "ttir/ranges.h"
#include "ttir/roles.h"
#include "ttir/ttir.h"

namespace kernelopt {
namespace {

Json ToJson(const TtirRegion& region);

Json ToJson(const TtirOp& op) {
  Json json = {{"name", op.name},
               {"results", op.results},
               {"operands", op.operands},
               {"initial", op.initial},
               {"line", op.line},
               {"source_line", op.source_line},
               {"attributes", op.attributes}};
  for (const TtirRegion& region : op.regions) json["regions"].push_back(ToJson(region));
  for (const TtirOp::Successor& next : op.successors)
    json["successors"].push_back(Json{{"label", next.label}, {"arguments", next.arguments}});
  return json;
}

Json ToJson(const TtirRegion& region) {
  Json blocks = Json::array();
  for (const TtirBlock& block : region.blocks) {
    Json ops = Json::array();
    for (const TtirOp& op : block.ops) ops.push_back(ToJson(op));
    blocks.push_back(
        Json{{"label", block.label}, {"arguments", block.arguments}, {"ops", std::move(ops)}});
  }
  return blocks;
}

std::vector<std::optional<int64_t>> Numbers(const Json& list) {
  std::vector<std::optional<int64_t>> numbers;
  for (const Json& one : list)
    numbers.push_back(one.is_null() ? std::nullopt : std::optional(one.get<int64_t>()));
  return numbers;
}

Status PrintRanges(const TtirModule& module, const std::string& facts_path) {
  const Json json = KOPT_TRY(ParseJson(KOPT_TRY(ReadFile(facts_path)), facts_path));
  const LaunchFacts facts{.grid = json["grid"].get<std::array<int64_t, 3>>(),
                          .scalars = Numbers(json["scalars"]),
                          .elements = Numbers(json["elements"])};
  for (const AccessRange& access : KOPT_TRY(AnalyzeRanges(module, facts)).accesses) {
    const char* const kinds[] = {"load", "store", "atomic"};
    const char* const bounds[] = {"inside", "unknown", "outside"};
    std::cout << access.parameter << ' ' << kinds[static_cast<int>(access.kind)] << ' '
              << bounds[static_cast<int>(access.bounds)] << ' ' << access.offsets.low << ' '
              << access.offsets.high << ' ' << access.injective << ' ' << access.line << '\n';
  }
  return {};
}

Status Run(const std::string& command, const std::string& in, const std::string& out) {
  const TtirModule module = KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(in)), in));
  if (command == "promote") {
    const Float64Twin twin = KOPT_TRY(PromoteToFloat64(module));
    for (bool widened : twin.widened) std::cout << (widened ? "1" : "0");
    std::cout << "\n";
    return WriteFileAtomic(out, twin.text);
  }
  if (command == "owners") {  // of all pointers that are stored to
    const std::vector<PointerUse> uses = KOPT_TRY(PointerUses(module));
    std::set<int> stored;
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].stores > 0) stored.insert(static_cast<int>(i));
    }
    const OwnerTexts owners = KOPT_TRY(MakeOwnerTexts(module, stored));
    KOPT_CHECK_OK(WriteFileAtomic(out + "/mark.ttir", owners.mark));
    return WriteFileAtomic(out + "/check.ttir", owners.check);
  }
  if (command == "ranges") return PrintRanges(module, out);
  if (command == "faults") {
    int number = 0;
    for (const Fault& fault : PlantFaults(module)) {
      const std::string name = std::to_string(number++) + "_" + fault.name + ".ttir";
      KOPT_CHECK_OK(WriteFileAtomic(out + "/" + name, fault.text));
      std::cout << name << "\n";
    }
    return {};
  }
  const TtirFunction* entry = module.Entry();
  if (entry == nullptr) return Fail(ErrorKind::kUsage, "no_entry", "no single public function", in);
  Json types = Json::array();
  for (const TtirValue& value : module.values) types.push_back(value.type);
  std::cout << Json{{"entry", entry->name},
                    {"parameters", entry->parameters},
                    {"types", std::move(types)},
                    {"body", ToJson(entry->body)}}
            << "\n";
  return {};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr
        << "usage: ttir_tool json IN | promote IN OUT | ranges IN FACTS | owners IN FOLDER |\n"
           "       faults IN FOLDER\n";
    return 2;
  }
  if (auto done = kernelopt::Run(argv[1], argv[2], argc > 3 ? argv[3] : ""); !done) {
    std::cerr << done.error().ToString() << "\n";
    return 1;
  }
  return 0;
}
