#include "workers/model_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace kernelopt {
namespace {

constexpr const char* kCheck = "the model worker's check";
constexpr const char* kTiming = "the model worker's timing";
constexpr const char* kNoise = "the model worker's noise";

std::unexpected<Error> BadField(std::string message) {
  return Fail(ErrorKind::kUsage, "bad_field", std::move(message));
}

// Reads the members of one object and keeps the first error, so that a struct is
// read in one line a field.
class Fields {
 public:
  Fields(const Json& object, std::string_view what) : object_(object), what_(what) {}

  void Get(const char* key, std::string& to) { Take(GetString(object_, key, what_), to); }
  void Get(const char* key, bool& to) { Take(GetBool(object_, key, what_), to); }
  void Get(const char* key, int64_t& to) { Take(GetInt(object_, key, what_), to); }
  void Get(const char* key, int& to) {
    int64_t wide = to;
    Get(key, wide);
    to = static_cast<int>(wide);
  }
  void Get(const char* key, double& to) {
    auto found = object_.is_object() ? object_.find(key) : object_.end();
    if (object_.is_object() && found != object_.end() && found->is_string()) {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      const auto& text = found->get_ref<const std::string&>();
      if (text == "inf") return void(to = kInfinity);
      if (text == "-inf") return void(to = -kInfinity);
      if (text == "nan") return void(to = std::numeric_limits<double>::quiet_NaN());
    }
    Take(GetDouble(object_, key, what_), to);
  }
  void Get(const char* key, std::vector<std::string>& to) {
    for (const Json& item : List(key)) {
      if (!item.is_string()) {
        Note(BadField(fmt::format("{} has something else than text in '{}'", what_, key)).error());
        return;
      }
      to.push_back(item.get<std::string>());
    }
  }

  /// The items of a list; none when it is missing, which is noted.
  const Json& List(const char* key) {
    static const Json* const none = new Json(Json::array());
    auto list = GetArray(object_, key, what_);
    if (list) return **list;
    Note(std::move(list).error());
    return *none;
  }

  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }
  void Note(Error error) {
    if (status_) status_ = std::unexpected(std::move(error));
  }
  void Note(const Status& status) {
    if (!status) Note(status.error());
  }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  void Take(Result<T> value, T& to) {
    if (value) {
      to = std::move(*value);
    } else {
      Note(std::move(value).error());
    }
  }

  const Json& object_;
  std::string what_;
  Status status_;
};

Status Read(const Json& json, TensorComparison& tensor) {
  Fields fields(json, kCheck);
  fields.Get("name", tensor.name);
  fields.Get("dtype", tensor.dtype);
  fields.Get("same_layout", tensor.same_layout);
  fields.Get("bitwise_equal", tensor.bitwise_equal);
  fields.Get("has_float64", tensor.has_float64);
  fields.Get("nonfinite_mismatches", tensor.nonfinite_mismatches);
  fields.Get("allclose_1e4", tensor.allclose_1e4);
  if (tensor.has_float64) {
    fields.Get("rms_stitched", tensor.rms_stitched);
    fields.Get("rms_compiled", tensor.rms_compiled);
    fields.Get("rms_eager", tensor.rms_eager);
    fields.Get("max_stitched", tensor.max_stitched);
    fields.Get("max_compiled", tensor.max_compiled);
    fields.Get("max_eager", tensor.max_eager);
  }
  return fields.status();
}

Status Read(const Json& json, ModelComparison& comparison) {
  Fields fields(json, kCheck);
  fields.Get("setting", comparison.setting);
  fields.Get("seed", comparison.seed);
  fields.Get("data", comparison.data);
  fields.Get("redrawn_weights", comparison.redrawn_weights);
  fields.Get("consecutive_calls", comparison.consecutive_calls);
  for (const Json& item : fields.List("tensors")) {
    fields.Note(Read(item, comparison.tensors.emplace_back()));
  }
  return fields.status();
}

Status Read(const Json& json, InSituComparison& comparison) {
  Fields fields(json, kCheck);
  fields.Get("kernel", comparison.kernel);
  fields.Get("key", comparison.key);
  fields.Get("launches", comparison.launches);
  fields.Get("bitwise_equal", comparison.bitwise_equal);
  fields.Get("max_z", comparison.max_z);
  fields.Get("own_z", comparison.own_z);
  fields.Get("rms_z", comparison.rms_z);
  fields.Get("integer_mismatches", comparison.integer_mismatches);
  fields.Get("nonfinite_mismatches", comparison.nonfinite_mismatches);
  fields.Get("skipped", comparison.skipped);
  return fields.status();
}

Status Read(const Json& json, std::map<std::string, int64_t>& counts) {
  if (!json.is_object()) return BadField(fmt::format("{} has counts that are none", kCheck));
  for (const auto& item : json.items()) {
    counts[item.key()] = KOPT_TRY(GetInt(json, item.key(), kCheck));
  }
  return {};
}

bool IsTime(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() > 0;
}

Status ReadBlock(const Json& json, std::array<double, 4>& block) {
  if (!json.is_array() || json.size() != block.size()) {
    return BadField(fmt::format("{} has a block that is not four times", kTiming));
  }
  for (size_t i = 0; i < block.size(); ++i) {
    if (!IsTime(json[i])) {
      return BadField(
          fmt::format("{} has {} where a time above 0 is wanted", kTiming, DumpJson(json[i])));
    }
    block[i] = json[i].get<double>();
  }
  return {};
}

}  // namespace

Json ToJson(const ModelSpec& model) {
  return {{"file", model.file}, {"entry", model.entry}};
}

Json ToJson(const VariantSpec& variant) {
  return {{"mode", variant.mode}, {"train", variant.train}, {"input_set", variant.input_set}};
}

Result<ModelCheck> ModelCheckFromJson(const Json& json) {
  ModelCheck check;
  Fields fields(json, kCheck);
  for (const Json& item : fields.List("comparisons")) {
    fields.Note(Read(item, check.comparisons.emplace_back()));
  }
  for (const Json& item : fields.List("in_situ")) {
    fields.Note(Read(item, check.in_situ.emplace_back()));
  }
  fields.Get("swapped", check.swapped);
  fields.Get("externs_compiled", check.externs_compiled);
  fields.Get("externs_stitched", check.externs_stitched);
  fields.Get("random", check.random);
  fields.Get("degenerate", check.degenerate);
  fields.Get("float64_path", check.float64_path);
  check.misses = fields.List("misses");
  if (auto sides = GetObject(json, "launches", kCheck)) {
    for (const auto& [side, counts] : (*sides)->items()) {
      fields.Note(Read(counts, check.launches[side]));
    }
  } else {
    fields.Note(std::move(sides).error());
  }
  // For people; a worker that has nothing to say leaves it out.
  if (fields.Has("note")) fields.Get("note", check.note);
  KOPT_CHECK_OK(fields.status());
  return check;
}

Result<ModelTiming> ModelTimingFromJson(const Json& json) {
  ModelTiming timing;
  Fields fields(json, kTiming);
  for (const Json& pair : fields.List("pairs")) {
    if (!pair.is_array()) return BadField(fmt::format("{} has a pair that is no list", kTiming));
    auto& blocks = timing.pairs.emplace_back();
    for (const Json& block : pair) fields.Note(ReadBlock(block, blocks.emplace_back()));
  }
  fields.Get("first_call_compiled_s", timing.first_call_compiled_s);
  fields.Get("first_call_stitched_s", timing.first_call_stitched_s);
  fields.Get("peak_bytes_compiled", timing.peak_bytes_compiled);
  fields.Get("peak_bytes_stitched", timing.peak_bytes_stitched);
  fields.Get("swapped", timing.swapped);
  fields.Get("interleaved", timing.interleaved);
  KOPT_CHECK_OK(fields.status());
  return timing;
}

Result<std::vector<double>> NoiseFromJson(const Json& json) {
  Fields fields(json, kNoise);
  std::vector<double> samples;
  for (const Json& item : fields.List("samples_us")) {
    if (!IsTime(item)) {
      return BadField(
          fmt::format("{} has {} where a time above 0 is wanted", kNoise, DumpJson(item)));
    }
    samples.push_back(item.get<double>());
  }
  KOPT_CHECK_OK(fields.status());
  return samples;
}

}  // namespace kernelopt
