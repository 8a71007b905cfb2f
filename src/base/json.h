// JSON values and typed access with errors that name the field.
//
// Headers that only pass JSON along include this one; it forwards the type.
// Include <nlohmann/json.hpp> in the .cc that reads or builds values.
// Objects keep their order, so that the same data is always the same text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kernelopt {

using Json = nlohmann::ordered_json;

/// Parses text; an error names `what` and the byte where it went wrong.
Result<Json> ParseJson(std::string_view text, std::string_view what);

/// The text of a value on one line; invalid UTF-8 is replaced, never thrown.
std::string DumpJson(const Json& value);

/// Whether JSON can hold the text as it is.
bool IsUtf8(std::string_view text);

/// The member `key` of an object, with the type asked for; else an error of
/// kind kUsage and code "bad_field" that names `what` and the key.
Result<std::string> GetString(const Json& object, std::string_view key, std::string_view what);
Result<int64_t> GetInt(const Json& object, std::string_view key, std::string_view what);
Result<double> GetDouble(const Json& object, std::string_view key, std::string_view what);
Result<bool> GetBool(const Json& object, std::string_view key, std::string_view what);
Result<const Json*> GetArray(const Json& object, std::string_view key, std::string_view what);
Result<const Json*> GetObject(const Json& object, std::string_view key, std::string_view what);

}  // namespace kernelopt
