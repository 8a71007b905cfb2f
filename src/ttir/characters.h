// What both readers of TTIR's text (operations, locations) say of characters.
#pragma once

#include <cctype>
#include <string_view>

namespace kernelopt {

/// Of a word: an operation's or a type's name.
inline bool IsWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

/// Of a value's, symbol's or location's name.
inline bool IsNameChar(char c) {
  return IsWordChar(c) || c == '-';
}

/// `text` with no white space at its ends.
inline std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

}  // namespace kernelopt
