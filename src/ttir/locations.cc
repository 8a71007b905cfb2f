#include "ttir/locations.h"

#include <algorithm>

#include "ttir/characters.h"

namespace kernelopt {
namespace {

constexpr int kMostNested = 50;  // locations inside each other

/// The end of the part that begins at 0: the first `stop` outside of brackets and
/// strings, or the text's end.
size_t PartEnd(std::string_view text, std::string_view stop) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (depth == 0 && text.substr(i).starts_with(stop)) {
      return i;
    } else if (text[i] == '(' || text[i] == '[' || text[i] == '<') {
      ++depth;
    } else if (text[i] == ')' || text[i] == ']' || text[i] == '>') {
      --depth;
    }
  }
  return text.size();
}

}  // namespace

void TtirLocations::Add(size_t position, std::string location) {
  locations_.emplace_back(position, std::move(location));
}

int TtirLocations::LastIn(size_t begin, size_t end) const {
  auto after = std::upper_bound(locations_.begin(), locations_.end(), end,
                                [](size_t at, const auto& entry) { return at < entry.first; });
  if (after == locations_.begin() || (--after)->first < begin) return -1;
  return static_cast<int>(after - locations_.begin());
}

int TtirLocations::Line(int location) {
  // Set before it is resolved: aliases that lead to themselves end there, and
  // each is resolved once.
  auto [known, is_new] = lines_.emplace(location, 0);
  if (is_new) {
    int line = Resolve(locations_[static_cast<size_t>(location)].second, 0);
    lines_[location] = line;
    return line;
  }
  return known->second;
}

int TtirLocations::Resolve(std::string_view text, int depth) {
  text = Trim(text);
  if (depth > kMostNested || text.empty()) return 0;
  if (text.front() == '#') {
    auto alias = aliases_.find(text);
    return alias == aliases_.end() ? 0 : Line(alias->second);
  }
  if (text.starts_with("loc(") && text.ends_with(')'))
    return Resolve(text.substr(4, text.size() - 5), depth + 1);
  if (text.starts_with("callsite(") && text.ends_with(')')) {
    std::string_view inner = text.substr(9, text.size() - 10);
    const size_t at = PartEnd(inner, " at ");
    return at < inner.size() ? Resolve(inner.substr(at + 4), depth + 1) : 0;
  }
  if (text.starts_with("fused") && text.ends_with(']')) {
    const size_t open = PartEnd(text, "[");
    if (open + 1 >= text.size()) return 0;
    std::string_view inner = text.substr(open + 1, text.size() - open - 2);
    while (!inner.empty()) {
      const size_t comma = PartEnd(inner, ",");
      if (int line = Resolve(inner.substr(0, comma), depth + 1); line > 0) return line;
      inner.remove_prefix(std::min(comma + 1, inner.size()));
    }
    return 0;
  }
  if (text.front() != '"') return 0;
  size_t end = 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  ++end;
  if (end >= text.size()) return 0;
  std::string_view rest = text.substr(end);
  if (rest.front() == '(' && rest.ends_with(')'))
    return Resolve(rest.substr(1, rest.size() - 2), depth + 1);
  int line = 0;
  for (size_t i = 1; rest.front() == ':' && i < rest.size() && i < 9 &&
                     std::isdigit(static_cast<unsigned char>(rest[i]));
       ++i)
    line = line * 10 + (rest[i] - '0');
  return line;
}

bool StripLocations(std::string_view text, std::string* out, TtirLocations* locations) {
  out->clear();
  out->reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return false;
      out->append(text.substr(i, end + 1 - i));
      i = end + 1;
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (text.substr(i).starts_with("loc(") && (i == 0 || !IsNameChar(text[i - 1])) &&
               (i == 0 || text[i - 1] != '%')) {
      int depth = 0;
      const size_t begin = i + 4, position = out->size();
      for (i += 3; i < text.size(); ++i) {
        if (text[i] == '"') {
          for (++i; i < text.size() && text[i] != '"'; ++i)
            if (text[i] == '\\') ++i;
        } else if (text[i] == '(') {
          ++depth;
        } else if (text[i] == ')' && --depth == 0) {
          break;
        } else if (text[i] == '\n') {
          out->push_back('\n');
        }
      }
      if (i >= text.size()) return false;
      locations->Add(position, std::string(text.substr(begin, i - begin)));
      ++i;
    } else {
      out->push_back(c);
      ++i;
    }
  }
  return true;
}

std::string WithoutLocationNames(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    if (text.front() != '#') out += text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace kernelopt
