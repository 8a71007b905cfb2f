#include "inductor/literal.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace kernelopt {
namespace {

std::unexpected<Error> BadEscape(std::string_view escape) {
  return Fail(ErrorKind::kUsage, "bad_escape",
              fmt::format("found the escape '{}' in a string, wanted one that Python reads "
                          "without tables; the text is left alone",
                          escape));
}

void AppendUtf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

bool IsOctal(char c) {
  return c >= '0' && c <= '7';
}

// What a single-letter escape stands for; 0 for none.
char SimpleEscape(char c) {
  switch (c) {
    case '\\':
    case '\'':
    case '"':
      return c;
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    default:
      return 0;
  }
}

Json ReadInteger(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    if (base != 10) digits.erase(0, 2);
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return Json(std::string(text));
  return value;
}

Json ReadFloat(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return Json(std::string(text));
  return value;
}

Json Negated(const Json& value, std::string_view text) {
  if (value.is_number_integer()) return -value.get<int64_t>();
  if (value.is_number_float()) return -value.get<double>();
  return Json(std::string(text));
}

}  // namespace

Result<std::string> UnescapePython(std::string_view body) {
  std::string out;
  size_t i = 0;
  while (i < body.size()) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i++];
      continue;
    }
    const char c = body[i + 1];
    if (const char simple = SimpleEscape(c)) {
      out += simple;
      i += 2;
    } else if (c == '\n') {
      i += 2;
    } else if (c == '\r') {
      i += body.substr(i + 2).starts_with('\n') ? 3 : 2;
    } else if (IsOctal(c)) {
      uint32_t code = 0;
      size_t n = 1;
      while (n <= 3 && i + n < body.size() && IsOctal(body[i + n])) {
        code = code * 8 + static_cast<uint32_t>(body[i + n] - '0');
        ++n;
      }
      AppendUtf8(code, out);
      i += n;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view hex = body.substr(std::min(i + 2, body.size())).substr(0, digits);
      uint32_t code = 0;
      const auto parsed = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      const bool whole = hex.size() == digits && parsed.ptr == hex.data() + digits;
      // Surrogates can't be written as UTF-8.
      if (!whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        return BadEscape(body.substr(i, 2 + hex.size()));
      }
      AppendUtf8(code, out);
      i += 2 + digits;
    } else if (c == 'N') {
      return BadEscape(body.substr(i, 2));
    } else {
      out += '\\';  // Python keeps an escape that it doesn't know
      ++i;
    }
  }
  return out;
}

std::string EscapeForTripleQuotes(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool closes = c == '\'' && (i + 1 == text.size() || text.substr(i, 3) == "'''" ||
                                      (i > 0 && out.ends_with("\\'")));
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\r') {
      out += "\\r";  // a bare one would be read as a line end
    } else if (closes) {
      out += "\\'";
    } else {
      out += c;
    }
  }
  return out;
}

Result<std::string> ReadString(Node node) {
  if (node.Is("parenthesized_expression") && node.NamedChildren().size() == 1) {
    return ReadString(node.NamedChildren()[0]);
  }
  if (node.Is("concatenated_string")) {
    std::string all;
    for (Node part : node.NamedChildren()) all += KOPT_TRY(ReadString(part));
    return all;
  }
  const auto children = node.Is("string") ? node.Children() : std::vector<Node>();
  if (children.size() < 2) {
    return Fail(ErrorKind::kUsage, "not_a_string",
                fmt::format("found '{}', wanted a string literal", node.Text().substr(0, 40)));
  }
  const std::string_view start = children.front().Text();
  const std::string_view prefix = start.substr(0, start.find_first_of("'\""));
  const std::string_view body = node.Text().substr(
      start.size(), node.Text().size() - start.size() - children.back().Text().size());
  if (prefix == "r" || prefix == "R") return std::string(body);
  if (!prefix.empty() && prefix != "u" && prefix != "U") {
    return Fail(ErrorKind::kUsage, "not_a_string",
                fmt::format("found a string with the prefix '{}', wanted a plain one", prefix));
  }
  return UnescapePython(body);
}

Json ReadLiteral(Node node) {
  const std::string_view type = node.Type();
  const std::string text(node.Text());
  if (type == "none") return nullptr;
  if (type == "true") return true;
  if (type == "false") return false;
  if (type == "integer") return ReadInteger(text);
  if (type == "float") return ReadFloat(text);
  if (type == "string" || type == "concatenated_string") {
    const auto value = ReadString(node);
    return value ? Json(*value) : Json(text);
  }
  if (type == "parenthesized_expression" && node.NamedChildren().size() == 1) {
    return ReadLiteral(node.NamedChildren()[0]);
  }
  if (type == "unary_operator" && node.Field("operator").Is("-")) {
    return Negated(ReadLiteral(node.Field("argument")), text);
  }
  if (type == "list" || type == "tuple" || type == "set") {
    Json array = Json::array();
    for (Node child : node.NamedChildren()) array.push_back(ReadLiteral(child));
    return array;
  }
  if (type == "call" && text == "set()") return Json::array();
  if (type == "dictionary") {
    Json object = Json::object();
    for (Node pair : node.NamedChildren()) {
      if (!pair.Is("pair")) return Json(text);  // **other: not a literal
      const Node key = pair.Field("key");
      const auto name = ReadString(key);
      object[name ? *name : std::string(key.Text())] = ReadLiteral(pair.Field("value"));
    }
    return object;
  }
  return Json(text);
}

}  // namespace kernelopt
