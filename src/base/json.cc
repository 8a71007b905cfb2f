#include "base/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace kernelopt {
namespace {

std::unexpected<Error> BadField(std::string_view what, std::string_view key,
                                std::string_view wanted) {
  return Fail(
      ErrorKind::kUsage, "bad_field",
      fmt::format("{} has no {} field '{}'; it may come from another version", what, wanted, key));
}

Result<const Json*> Member(const Json& object, std::string_view key, std::string_view what,
                           bool (Json::*is)() const noexcept, std::string_view wanted) {
  if (!object.is_object()) return BadField(what, key, wanted);
  auto it = object.find(std::string(key));
  if (it == object.end() || !((*it).*is)()) return BadField(what, key, wanted);
  return &*it;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    return Fail(ErrorKind::kUsage, "bad_json",
                fmt::format("{} is not valid JSON (at byte {})", what, e.byte));
  } catch (const Json::out_of_range&) {
    return Fail(ErrorKind::kUsage, "bad_json",
                fmt::format("{} has a number beyond the range of double precision", what));
  }
}

std::string DumpJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsUtf8(std::string_view text) {
  const Json value = std::string(text);
  return Json::parse(DumpJson(value)) == value;
}

Result<std::string> GetString(const Json& object, std::string_view key, std::string_view what) {
  return KOPT_TRY(Member(object, key, what, &Json::is_string, "text"))->get<std::string>();
}
Result<int64_t> GetInt(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = *KOPT_TRY(Member(object, key, what, &Json::is_number_integer, "integer"));
  if (value.is_number_unsigned() && !std::in_range<int64_t>(value.get<uint64_t>())) {
    return BadField(what, key, "64-bit integer");
  }
  return value.get<int64_t>();
}
Result<double> GetDouble(const Json& object, std::string_view key, std::string_view what) {
  return KOPT_TRY(Member(object, key, what, &Json::is_number, "number"))->get<double>();
}
Result<bool> GetBool(const Json& object, std::string_view key, std::string_view what) {
  return KOPT_TRY(Member(object, key, what, &Json::is_boolean, "true/false"))->get<bool>();
}
Result<const Json*> GetArray(const Json& object, std::string_view key, std::string_view what) {
  return Member(object, key, what, &Json::is_array, "list");
}
Result<const Json*> GetObject(const Json& object, std::string_view key, std::string_view what) {
  return Member(object, key, what, &Json::is_object, "object");
}

}  // namespace kernelopt
