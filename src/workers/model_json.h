// The model worker's requests and answers as JSON (docs/protocol.md): fields have
// the names of the structs' members.
//
// A measured number may be infinite or not a number, which JSON can't say: the
// worker then writes the text "inf", "-inf" or "nan". Whatever a verdict depends
// on must be there; a missing field is an error of code "bad_field", never a zero.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "workers/model.h"

namespace kernelopt {

Json ToJson(const ModelSpec& model);
Json ToJson(const VariantSpec& variant);

Result<ModelCheck> ModelCheckFromJson(const Json& json);

/// Also "bad_field" for a sample that is not a finite time above 0 and for blocks
/// that do not have four.
Result<ModelTiming> ModelTimingFromJson(const Json& json);

/// {"samples_us": [...]}
Result<std::vector<double>> NoiseFromJson(const Json& json);

}  // namespace kernelopt
