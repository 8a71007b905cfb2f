#include "ttir/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "ttir/characters.h"

namespace kernelopt {

std::string CanonicalTtir(const TtirModule& module) {
  const std::string& text = module.text;
  std::string result;
  std::map<std::string, size_t, std::less<>> numbers;
  // Around the module there is what is left of the locations.
  const size_t past = text.rfind('}') + 1;
  for (size_t i = std::min(text.find("module"), text.size()); i < past;) {
    const char c = text[i];
    if (c == '"') {
      const size_t end = std::min(text.size(), text.find('"', i + 1));
      result.append(text, i, end + 1 - i);
      i = end + 1;
    } else if (c == '%' || c == '^' || c == '@') {
      size_t end = i + 1;
      while (end < text.size() && IsNameChar(text[end])) ++end;
      const auto [place, is_new] = numbers.emplace(text.substr(i, end - i), numbers.size());
      result += fmt::format("{}{}", c, place->second);
      i = end;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      while (i < text.size() && std::isspace(static_cast<unsigned char>(text[i]))) ++i;
      // Only what keeps two words apart says something.
      if (!result.empty() && IsNameChar(result.back()) && i < text.size() && IsNameChar(text[i]))
        result += ' ';
    } else {
      result += c;
      ++i;
    }
  }
  return result;
}

}  // namespace kernelopt
