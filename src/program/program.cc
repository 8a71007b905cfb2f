#include "program/program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/hash.h"

namespace kernelopt {
namespace {

std::unexpected<Error> BadField(std::string message) {
  return Fail(ErrorKind::kUsage, "bad_field", std::move(message));
}

// An optional field: the fallback where it is absent or null, an error where
// it has another type.
template <typename T, typename Get>
Result<T> Optional(const Json& object, std::string_view key, T fallback, const Get& get,
                   std::string_view what) {
  const auto it = object.find(std::string(key));
  if (it == object.end() || it->is_null()) return fallback;
  return get(object, key, what);
}

Result<std::string> OptionalString(const Json& object, std::string_view key,
                                   std::string_view what) {
  return Optional(object, key, std::string(), GetString, what);
}
Result<double> OptionalDouble(const Json& object, std::string_view key, std::string_view what) {
  return Optional(object, key, 0.0, GetDouble, what);
}
Result<int64_t> OptionalInt(const Json& object, std::string_view key, int64_t fallback,
                            std::string_view what) {
  return Optional(object, key, fallback, GetInt, what);
}
Result<bool> OptionalBool(const Json& object, std::string_view key, std::string_view what) {
  return Optional(object, key, false, GetBool, what);
}

// An integer of at least `low` and at most `high`.
Result<int> SmallInt(const Json& object, std::string_view key, int64_t low, int64_t high,
                     std::string_view what) {
  const int64_t value = KOPT_TRY(GetInt(object, key, what));
  if (value < low || value > high) {
    return BadField(fmt::format("{} has {} = {}, wanted {} to {}", what, key, value, low, high));
  }
  return static_cast<int>(value);
}

constexpr int64_t kMaxInt = 2147483647;

// How errors name a value of another type; its text may be nested without end.
std::string_view Kind(const Json& value) {
  return value.type_name();
}

Result<std::vector<int64_t>> IntList(const Json& object, std::string_view key,
                                     std::string_view what) {
  std::vector<int64_t> values;
  for (const Json& item : *KOPT_TRY(GetArray(object, key, what))) {
    const bool too_large =
        item.is_number_unsigned() && !std::in_range<int64_t>(item.get<uint64_t>());
    if (!item.is_number_integer() || too_large) {
      return BadField(fmt::format("{} has a {} in {}, wanted integers", what, Kind(item), key));
    }
    values.push_back(item.get<int64_t>());
  }
  return values;
}

Status CheckSha256(const std::string& name, std::string_view what) {
  if (name.size() == 64 && name.find_first_not_of("0123456789abcdef") == std::string::npos) {
    return {};
  }
  return BadField(fmt::format("{} names '{}', wanted the 64 hexadecimal digits of a SHA-256", what,
                              name.substr(0, 80)));
}

Status CheckStorage(int storage, const std::set<int>& known, std::string_view what) {
  if (known.contains(storage)) return {};
  return BadField(
      fmt::format("{} uses storage {}, wanted one that the variant lists", what, storage));
}

Result<TensorRef> ReadTensor(const Json& json, const std::set<int>& storages,
                             std::string_view what) {
  TensorRef tensor;
  tensor.storage = KOPT_TRY(SmallInt(json, "storage", 0, kMaxInt, what));
  KOPT_CHECK_OK(CheckStorage(tensor.storage, storages, what));
  tensor.dtype = KOPT_TRY(GetString(json, "dtype", what));
  tensor.size = KOPT_TRY(IntList(json, "size", what));
  tensor.stride = KOPT_TRY(IntList(json, "stride", what));
  tensor.offset = KOPT_TRY(OptionalInt(json, "offset", 0, what));
  if (tensor.size.size() != tensor.stride.size() || tensor.offset < 0 ||
      std::ranges::any_of(tensor.size, [](int64_t n) { return n < 0; })) {
    return BadField(
        fmt::format("{} has a tensor with {} sizes, {} strides and the offset {}, "
                    "wanted as many of both and nothing negative",
                    what, tensor.size.size(), tensor.stride.size(), tensor.offset));
  }
  tensor.has_values = json.contains("low") && json.contains("high") && !json["low"].is_null() &&
                      !json["high"].is_null();
  if (tensor.has_values) {
    tensor.low = KOPT_TRY(GetDouble(json, "low", what));
    tensor.high = KOPT_TRY(GetDouble(json, "high", what));
  }
  tensor.has_nonfinite = KOPT_TRY(OptionalBool(json, "nonfinite", what));
  tensor.contents = KOPT_TRY(OptionalString(json, "contents", what));
  if (!tensor.contents.empty()) KOPT_CHECK_OK(CheckSha256(tensor.contents, what));
  return tensor;
}

Result<EventArgument> ReadArgument(const Json& json, const std::set<int>& storages,
                                   std::string_view what) {
  EventArgument argument;
  if (!json.is_object()) {
    return BadField(fmt::format("{} has a {} as an argument, wanted an object", what, Kind(json)));
  }
  if (json.contains("tensor")) {
    argument.kind = EventArgument::Kind::kTensor;
    argument.tensor =
        KOPT_TRY(ReadTensor(*KOPT_TRY(GetObject(json, "tensor", what)), storages, what));
  } else if (json.contains("int")) {
    argument.kind = EventArgument::Kind::kInt;
    argument.int_value = KOPT_TRY(GetInt(json, "int", what));
  } else if (json.contains("float")) {
    // NaN and infinities aren't JSON numbers; as text they are kOther.
    argument.kind = EventArgument::Kind::kFloat;
    argument.float_value = KOPT_TRY(GetDouble(json, "float", what));
  } else if (json.contains("bool")) {
    argument.kind = EventArgument::Kind::kBool;
    argument.int_value = KOPT_TRY(GetBool(json, "bool", what)) ? 1 : 0;
  } else if (json.contains("none")) {
    argument.kind = EventArgument::Kind::kNone;
  } else {
    argument.kind = EventArgument::Kind::kOther;
    argument.text = KOPT_TRY(GetString(json, "other", what));
  }
  return argument;
}

Result<Event::Kind> ReadKind(const Json& json, std::string_view what) {
  const std::string kind = KOPT_TRY(GetString(json, "kind", what));
  if (kind == "alloc") return Event::Kind::kAlloc;
  if (kind == "free") return Event::Kind::kFree;
  if (kind == "zero") return Event::Kind::kZero;
  if (kind == "launch") return Event::Kind::kLaunch;
  if (kind == "extern") return Event::Kind::kExtern;
  if (kind == "copy") return Event::Kind::kCopy;
  if (kind == "return") return Event::Kind::kReturn;
  return BadField(
      fmt::format("{} has the kind '{}', wanted alloc, free, zero, launch, extern, "
                  "copy or return",
                  what, kind.substr(0, 40)));
}

Status ReadLaunch(const Json& json, Event& event, std::string_view what) {
  const auto grid = KOPT_TRY(IntList(json, "grid", what));
  if (grid.size() != 3) {
    return BadField(fmt::format("{} has a grid of {} numbers, wanted 3", what, grid.size()));
  }
  event.grid = {grid[0], grid[1], grid[2]};
  for (const auto& [key, value] : KOPT_TRY(GetObject(json, "config", what))->items()) {
    if (value.is_number_integer()) {
      event.config[key] = value.get<int64_t>();
    } else if (!value.is_null()) {  // null: the compiler's own choice, maxnreg
      return BadField(fmt::format("{} has a {} as {}, wanted an integer", what, Kind(value), key));
    }
  }
  event.binary_hash = KOPT_TRY(OptionalString(json, "binary_hash", what));
  return {};
}

Result<Event> ReadEvent(const Json& json, const std::set<int>& storages, std::string_view what) {
  Event event;
  event.kind = KOPT_TRY(ReadKind(json, what));
  const bool of_storage = event.kind == Event::Kind::kAlloc || event.kind == Event::Kind::kFree ||
                          event.kind == Event::Kind::kZero;
  if (of_storage) {
    event.storage = KOPT_TRY(SmallInt(json, "storage", 0, kMaxInt, what));
    KOPT_CHECK_OK(CheckStorage(event.storage, storages, what));
    return event;
  }
  for (const Json& item : *KOPT_TRY(GetArray(json, "arguments", what))) {
    event.arguments.push_back(KOPT_TRY(ReadArgument(item, storages, what)));
  }
  if (event.kind == Event::Kind::kCopy && event.arguments.size() != 2) {
    return BadField(fmt::format("{} is a copy with {} arguments, wanted to and from", what,
                                event.arguments.size()));
  }
  if (event.kind == Event::Kind::kLaunch || event.kind == Event::Kind::kExtern) {
    event.name = KOPT_TRY(GetString(json, "name", what));
    event.device_us = KOPT_TRY(OptionalDouble(json, "device_us", what));
  }
  if (event.kind == Event::Kind::kLaunch) KOPT_CHECK_OK(ReadLaunch(json, event, what));
  return event;
}

Result<StorageRecord> ReadStorage(const Json& json, std::string_view what) {
  StorageRecord storage;
  storage.id = KOPT_TRY(SmallInt(json, "id", 0, kMaxInt, what));
  storage.bytes = KOPT_TRY(GetInt(json, "bytes", what));
  storage.kind = KOPT_TRY(GetString(json, "kind", what));
  if (storage.bytes < 0) {
    return BadField(fmt::format("{} has {} bytes, wanted at least 0", what, storage.bytes));
  }
  return storage;
}

Result<Variant> ReadVariant(const Json& json, const std::map<std::string, std::string>& modules,
                            const std::string& what) {
  Variant variant;
  variant.mode = KOPT_TRY(GetString(json, "mode", what));
  variant.train = KOPT_TRY(OptionalBool(json, "train", what));
  variant.input_set =
      json.contains("input_set") ? KOPT_TRY(SmallInt(json, "input_set", 0, kMaxInt, what)) : 0;
  variant.graph_breaks = json.contains("graph_breaks")
                             ? KOPT_TRY(SmallInt(json, "graph_breaks", 0, kMaxInt, what))
                             : 0;
  variant.compiled_us = KOPT_TRY(OptionalDouble(json, "compiled_us", what));
  variant.eager_us = KOPT_TRY(OptionalDouble(json, "eager_us", what));
  variant.device_us = KOPT_TRY(OptionalDouble(json, "device_us", what));
  std::set<int> storages;
  for (const Json& item : *KOPT_TRY(GetArray(json, "storages", what))) {
    const std::string where = fmt::format("{} storage {}", what, variant.storages.size());
    variant.storages.push_back(KOPT_TRY(ReadStorage(item, where)));
    if (!storages.insert(variant.storages.back().id).second) {
      return BadField(
          fmt::format("{} has the id {} a second time", where, variant.storages.back().id));
    }
  }
  for (const Json& item : *KOPT_TRY(GetArray(json, "graphs", what))) {
    const std::string where = fmt::format("{} graph {}", what, variant.graphs.size());
    Graph graph;
    graph.module = KOPT_TRY(GetString(item, "module", where));
    if (!modules.contains(graph.module)) {
      return BadField(
          fmt::format("{} has the module '{}', wanted one of the {} that the capture "
                      "lists",
                      where, graph.module.substr(0, 80), modules.size()));
    }
    graph.phase = KOPT_TRY(OptionalString(item, "phase", where));
    for (const Json& event : *KOPT_TRY(GetArray(item, "events", where))) {
      graph.events.push_back(KOPT_TRY(
          ReadEvent(event, storages, fmt::format("{} event {}", where, graph.events.size()))));
    }
    variant.graphs.push_back(std::move(graph));
  }
  return variant;
}

Result<std::string> ReadModuleText(const std::string& folder, const std::string& name) {
  KOPT_CHECK_OK(CheckSha256(name, "the list of modules"));
  const std::string path = fmt::format("{}/modules/{}.py", folder, name);
  std::string text = KOPT_TRY(ReadFile(path));
  if (const std::string found = Sha256Hex(text); found != name) {
    return Fail(ErrorKind::kUsage, "changed_module",
                fmt::format("the module's SHA-256 is {}, wanted the one in its name; it was "
                            "changed after the capture, capture again",
                            found),
                path);
  }
  return text;
}

Result<Capture> FromJson(const Json& json, const std::string& folder) {
  const std::string what = "the capture";
  Capture capture;
  capture.folder = folder;
  const int64_t schema = KOPT_TRY(GetInt(json, "schema", what));
  if (schema != kCaptureSchema) {
    return Fail(ErrorKind::kUsage, "bad_schema",
                fmt::format("the capture has schema {}, wanted {}; capture the model again with "
                            "this version",
                            schema, kCaptureSchema));
  }
  capture.torch = KOPT_TRY(GetString(json, "torch", what));
  capture.triton = KOPT_TRY(GetString(json, "triton", what));
  capture.python = KOPT_TRY(GetString(json, "python", what));
  const Json& device = *KOPT_TRY(GetObject(json, "device", what));
  capture.device_name = KOPT_TRY(GetString(device, "name", "the device"));
  capture.compute_capability =
      KOPT_TRY(SmallInt(device, "compute_capability", 1, kMaxInt, "the device"));
  capture.sm_count = KOPT_TRY(SmallInt(device, "sm_count", 1, kMaxInt, "the device"));
  capture.l2_bytes = KOPT_TRY(OptionalInt(device, "l2_bytes", 0, "the device"));
  const Json& model = *KOPT_TRY(GetObject(json, "model", what));
  capture.model_file = KOPT_TRY(GetString(model, "file", "the model"));
  capture.model_sha256 = KOPT_TRY(OptionalString(model, "sha256", "the model"));
  capture.entry = KOPT_TRY(OptionalString(model, "entry", "the model"));
  for (const Json& name : *KOPT_TRY(GetArray(json, "modules", what))) {
    if (!name.is_string()) return BadField("the list of modules has something that isn't text");
    const auto text = name.get<std::string>();
    capture.modules[text] = KOPT_TRY(ReadModuleText(folder, text));
  }
  for (const Json& item : *KOPT_TRY(GetArray(json, "variants", what))) {
    capture.variants.push_back(KOPT_TRY(
        ReadVariant(item, capture.modules, fmt::format("variant {}", capture.variants.size()))));
  }
  return capture;
}

}  // namespace

std::string Variant::Name() const {
  std::string name = mode;
  if (train) name += "+train";
  if (input_set != 0) name += fmt::format("#{}", input_set);
  return name;
}

std::string Capture::BlobPath(const std::string& name) const {
  return fmt::format("{}/blobs/{}", folder, name);
}

Result<Capture> ReadCapture(const std::string& folder) {
  return ParseCapture(KOPT_TRY(ReadFile(folder + "/capture.json")), folder);
}

Result<Capture> ParseCapture(std::string_view json, const std::string& folder) {
  const auto parsed = ParseJson(json, "capture.json");
  auto capture =
      parsed ? FromJson(*parsed, folder) : Result<Capture>(std::unexpected(parsed.error()));
  if (!capture && capture.error().where.empty()) capture.error().where = folder + "/capture.json";
  return capture;
}

}  // namespace kernelopt
