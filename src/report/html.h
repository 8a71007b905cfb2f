// Markup that is safe by its type.
//
//   Html row = Tag("td", {{"class", "name"}}, Text(kernel_name));
//
// An Html can only be made by these functions. Names of tags and attributes
// are literals, checked when the program is compiled; what comes from a run
// can only be text or the value of an attribute, and is escaped there: markup,
// control characters and broken UTF-8 in it stay harmless. No attribute that
// takes an address or code is ever given a value of a run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernelopt {

/// A text of this program, known when it is compiled.
class Literal {
 public:
  consteval Literal(const char* text) : text_(text) {}  // NOLINT: it is meant to convert
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

struct Attribute {
  Literal name;
  std::string value;
};

class Html {
 public:
  Html() = default;
  Html& operator+=(const Html& other);
  const std::string& markup() const { return markup_; }

 private:
  friend Html Text(std::string_view text);
  friend Html Tag(Literal name, const std::vector<Attribute>& attributes, const Html& inside);
  friend Html Verbatim(Literal text);

  std::string markup_;
};

Html operator+(Html a, const Html& b);

Html Text(std::string_view text);

/// <name attributes>inside</name>; without "</name>" for the void elements of HTML.
Html Tag(Literal name, const std::vector<Attribute>& attributes = {}, const Html& inside = {});

/// The page's own style sheet and doctype.
Html Verbatim(Literal text);

/// Valid UTF-8 without control characters but blanks and line ends; anything
/// else becomes U+FFFD.
std::string CleanText(std::string_view text);

}  // namespace kernelopt
