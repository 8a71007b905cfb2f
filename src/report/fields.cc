#include "report/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/html.h"

namespace kernelopt {
namespace {

/// UTF-8 bytes that begin a character.
bool Begins(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

/// One clean line of at most `columns` characters: the first `front` of the
/// text, "..", and as many of its last as there is room for.
std::string KeepEnds(std::string_view text, size_t front, size_t columns) {
  std::string clean = CleanText(text);
  std::ranges::replace(clean, '\n', ' ');
  std::ranges::replace(clean, '\t', ' ');
  const auto length = static_cast<size_t>(std::ranges::count_if(clean, Begins));
  if (length <= columns) return clean;
  if (columns < 3) return std::string(columns, '.');
  const size_t back = columns - 2 - front;
  std::string out;
  size_t index = 0;
  for (size_t i = 0; i < clean.size(); ++index) {
    size_t end = i + 1;
    while (end < clean.size() && !Begins(clean[end])) ++end;
    if (index == front) out += "..";
    if (index < front || index >= length - back) out += clean.substr(i, end - i);
    i = end;
  }
  return out;
}

}  // namespace

const Json& Field(const Json& object, std::string_view key) {
  static const Json* const kNull = new Json(nullptr);
  if (!object.is_object()) return *kNull;
  const auto it = object.find(std::string(key));
  return it == object.end() ? *kNull : *it;
}

std::string Str(const Json& object, std::string_view key) {
  const Json& value = Field(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> Num(const Json& object, std::string_view key) {
  const Json& value = Field(object, key);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool Flag(const Json& object, std::string_view key) {
  const Json& value = Field(object, key);
  return value.is_boolean() && value.get<bool>();
}

std::string Microseconds(std::optional<double> us) {
  if (!us) return "-";
  if (*us >= 1e6) return fmt::format("{:.2f} s", *us / 1e6);
  if (*us >= 1e3) return fmt::format("{:.2f} ms", *us / 1e3);
  return fmt::format("{:.{}f} us", *us, *us >= 100 ? 0 : *us >= 10 ? 1 : 2);
}

std::string Seconds(double seconds) {
  if (seconds < 59.5) return fmt::format("{:.{}f} s", seconds, seconds < 9.95 ? 1 : 0);
  const auto whole = static_cast<int64_t>(std::min(seconds, 1e9) + 0.5);
  return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
}

std::string Times(std::optional<double> ratio) {
  return ratio ? fmt::format("{:.{}f}x", *ratio, *ratio < 10 ? 2 : 1) : "-";
}

std::string Words(std::string_view code) {
  std::string words(code);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string ConfigText(const Json& config) {
  if (config.is_string()) return config.get<std::string>();
  if (!config.is_object()) return "";
  std::string text;
  const auto add = [&](std::string_view name, const Json& value) {
    if (value.is_null()) return;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, DumpJson(value));
  };
  for (const auto& [name, value] : config.items()) {
    if (value.is_object()) {
      for (const auto& [inner, number] : value.items()) add(inner, number);
    } else {
      add(name.starts_with("num_") ? name.substr(4) : name, value);
    }
  }
  return text;
}

std::string Shorten(std::string_view text, size_t columns) {
  return KeepEnds(text, (columns + 1 - std::min<size_t>(columns, 2)) / 2, columns);
}

std::string Cut(std::string_view text, size_t columns) {
  return KeepEnds(text, columns - std::min<size_t>(columns, 2), columns);
}

}  // namespace kernelopt
