// Runs a TTIR text on the shadow device, for checks in Python:
//
//   shadow_eval IN.ttir LAUNCH.json
//
// LAUNCH.json: {"grid": [x, y, z], "instances": how many at most, or 0 for all,
// "seed", "family", "in_envelope", "threads", "fuse", "float64" (its twin),
// "storages": [{"bytes", "dtype", "role": "data" | "poison" | "zeros", "int_low",
// "int_high", "float_low", "float_high", "contents": a file}],
// "arguments": [{"storage", "offset"} | {"int"} | {"float"}], "out": a folder}
//
// Prints the report as JSON. With "out" every storage that was written is in
// out/N.bin, and in out/N.mask a byte an element: written or not. Errors are one
// sentence on standard error and exit code 1.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "device/data.h"
#include "shadow/evaluator.h"
#include "ttir/promote.h"
#include "ttir/roles.h"

namespace kernelopt {
namespace {

Result<ShadowContent> ContentOf(const Json& json, const StorageSpec& spec, int number,
                                const Json& launch) {
  if (const std::string path = json.value("contents", ""); !path.empty())
    return ShadowContent::Host(KOPT_TRY(ReadFile(path)));
  const std::string role = json.value("role", "data");
  if (role == "poison") return ShadowContent::Poison(spec.dtype, 0);
  if (role == "zeros") return ShadowContent::Bytes(0);
  DataSet data;
  data.family = KOPT_TRY(DataFamilyFromString(launch.value("family", "normal")));
  data.seed = launch.value("seed", uint64_t{0});
  data.in_envelope = launch.value("in_envelope", false);
  return ShadowContent::Draw(KOPT_TRY(MakeDraw(spec, number, data)));
}

Status WriteStorage(const ShadowStorage& storage, const std::string& path) {
  const int64_t elements = storage.elements();
  const int bytes = storage.element_bytes();
  std::string data(static_cast<size_t>(elements * bytes), '\0');
  std::string mask(static_cast<size_t>(elements), '\0');
  for (int64_t i = 0; i < elements; ++i) {
    StoreElement(data.data(), i,
                 bytes == 8   ? DType::kInt64
                 : bytes == 4 ? DType::kInt32
                 : bytes == 2 ? DType::kInt16
                              : DType::kInt8,
                 storage.Element(i));
    mask[static_cast<size_t>(i)] = storage.IsWritten(i) ? 1 : 0;
  }
  KOPT_CHECK_OK(WriteFileAtomic(path + ".bin", data));
  return WriteFileAtomic(path + ".mask", mask);
}

Json ToJson(const ShadowFinding& finding) {
  return {{"kind", ToString(finding.kind)},     {"line", finding.line},
          {"source_line", finding.source_line}, {"other_line", finding.other_line},
          {"instance", finding.instance},       {"lane", finding.lane},
          {"storage", finding.storage},         {"index", finding.index},
          {"amount", finding.amount},           {"count", finding.count},
          {"store", finding.is_store},          {"text", Describe(finding)}};
}

Status Run(const std::string& ttir_path, const std::string& launch_path) {
  const Json json = KOPT_TRY(ParseJson(KOPT_TRY(ReadFile(launch_path)), launch_path));
  TtirModule module = KOPT_TRY(ReadTtir(KOPT_TRY(ReadFile(ttir_path)), ttir_path));
  if (json.value("float64", false)) {
    const Float64Twin twin = KOPT_TRY(PromoteToFloat64(module));
    module = KOPT_TRY(ReadTtir(twin.text, "twin"));
  }
  const ShadowProgram program =
      KOPT_TRY(CompileShadowProgram(module, {.fuse = json.value("fuse", true)}));
  ShadowMemory memory;
  std::vector<uint64_t> addresses;
  for (const Json& each : json.at("storages")) {
    StorageSpec spec;
    spec.bytes = each.at("bytes").get<int64_t>();
    spec.dtype = KOPT_TRY(DTypeFromTriton(each.at("dtype").get<std::string>()));
    spec.int_low = each.value("int_low", int64_t{0});
    spec.int_high = each.value("int_high", int64_t{0});
    spec.has_envelope = each.contains("float_low");
    spec.float_low = each.value("float_low", 0.0);
    spec.float_high = each.value("float_high", 0.0);
    addresses.push_back(memory.Allocate(spec.bytes));
    ShadowContent content =
        KOPT_TRY(ContentOf(each, spec, static_cast<int>(addresses.size()) - 1, json));
    memory.At(addresses.back()).SetContent(std::move(content));
  }
  ShadowLaunch launch;
  launch.program = &program;
  launch.grid = json.at("grid").get<std::array<int64_t, 3>>();
  launch.threads = json.value("threads", 0);
  launch.most_work = json.value("most_work", int64_t{1} << 46);
  for (const Json& each : json.at("arguments")) {
    ShadowArgument argument;
    if (each.contains("storage"))
      argument.address = addresses.at(each["storage"].get<size_t>()) + each.value("offset", 0ull);
    argument.int_value = each.value("int", int64_t{0});
    argument.float_value = each.value("float", 0.0);
    launch.arguments.push_back(argument);
  }
  if (auto uses = PointerUses(module))
    for (const PointerUse& use : *uses) launch.written.push_back(use.stores + use.atomics > 0);
  const int64_t most = json.value("instances", int64_t{0});
  launch.instances = most > 0 ? SampleInstances(launch.grid, most, json.value("seed", uint64_t{0}))
                              : AllInstances(launch.grid);
  const auto start = std::chrono::steady_clock::now();
  const ShadowReport report = KOPT_TRY(RunShadow(memory, launch));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Json findings = Json::array();
  for (const ShadowFinding& finding : report.findings) findings.push_back(ToJson(finding));
  int64_t written = 0;
  for (size_t i = 0; i < addresses.size(); ++i) {
    ShadowStorage& storage = memory.At(addresses[i]);
    for (const auto& [number, page] : storage.pages()) written += page->Count();
    if (!storage.pages().empty() && json.contains("out"))
      KOPT_CHECK_OK(
          WriteStorage(storage, json["out"].get<std::string>() + "/" + std::to_string(i)));
  }
  std::cout << Json{{"findings", findings},
                    {"instances", report.instances},
                    {"share", report.share},
                    {"work", report.work},
                    {"never_taken", report.never_taken},
                    {"seconds", seconds},
                    {"unspecified", program.unspecified},
                    {"contracted", program.contracted},
                    {"written", written},
                    {"arena", program.arena_bytes}}
            << "\n";
  return {};
}

}  // namespace
}  // namespace kernelopt

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: shadow_eval IN.ttir LAUNCH.json\n";
    return 2;
  }
  if (auto done = kernelopt::Run(argv[1], argv[2]); !done) {
    std::cerr << done.error().ToString() << "\n";
    return 1;
  }
  return 0;
}
