#include "report/html.h"

#include <algorithm>
#include <array>

namespace kernelopt {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes of the valid UTF-8 sequence at the start of `text`, 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte: no overlong, no surrogate
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (text.size() < length || at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : CleanText(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool IsVoid(std::string_view name) {
  static constexpr std::array<std::string_view, 3> kVoid = {"meta", "br", "col"};
  return std::ranges::find(kVoid, name) != kVoid.end();
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool control =
        length == 1 && (byte == 0x7f || (byte < ' ' && byte != '\n' && byte != '\t'));
    // U+0080 to U+009F: the controls that some terminals obey.
    const bool late_control =
        length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || control || late_control) {
      out += kReplacement;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

Html& Html::operator+=(const Html& other) {
  markup_ += other.markup_;
  return *this;
}

Html operator+(Html a, const Html& b) {
  a += b;
  return a;
}

Html Text(std::string_view text) {
  Html html;
  html.markup_ = Escape(text);
  return html;
}

Html Tag(Literal name, const std::vector<Attribute>& attributes, const Html& inside) {
  Html html;
  std::string& out = html.markup_;
  out += '<';
  out += name.text();
  for (const Attribute& attribute : attributes) {
    out += ' ';
    out += attribute.name.text();
    out += "=\"";
    out += Escape(attribute.value);
    out += '"';
  }
  out += '>';
  if (IsVoid(name.text())) return html;
  out += inside.markup();
  out += "</";
  out += name.text();
  out += '>';
  return html;
}

Html Verbatim(Literal text) {
  Html html;
  html.markup_ = text.text();
  return html;
}

}  // namespace kernelopt
