// The locations of MLIR text: taken out of it before it is read, and resolved to
// lines of the kernel's source afterwards.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernelopt {

class TtirLocations {
 public:
  /// What stood in loc(...) at `position` of the text without locations;
  /// positions come in order.
  void Add(size_t position, std::string location);

  /// Index of the last location in [begin, end], or -1.
  int LastIn(size_t begin, size_t end) const;

  /// `#loc3 = loc(...)`
  void Name(const std::string& alias, int location) { aliases_[alias] = location; }

  /// The line that a location leads to: of a call site the caller's, of several
  /// fused ones the first that has one. 0 when it has none.
  int Line(int location);

 private:
  int Resolve(std::string_view text, int depth);

  std::vector<std::pair<size_t, std::string>> locations_;
  std::map<std::string, int, std::less<>> aliases_;
  std::map<int, int> lines_;
};

/// MLIR text without loc(...) and comments; line ends are kept such that lines
/// keep their numbers. False when a string or a location never ends.
bool StripLocations(std::string_view text, std::string* out, TtirLocations* locations);

/// The text without the lines that give locations their names (`#loc3 = loc(...)`), which
/// stand alone; without what they name MLIR's own reader would miss the rest.
std::string WithoutLocationNames(std::string_view text);

}  // namespace kernelopt
