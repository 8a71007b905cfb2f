#include "base/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace kernelopt {

double SystemClock::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double SystemClock::UnixSeconds() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string FormatDuration(double seconds) {
  if (!(seconds > 0)) return "0 s";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) {
    return whole % 60 == 0 ? fmt::format("{} min", whole / 60)
                           : fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  int64_t minutes = (whole + 30) / 60;
  return minutes % 60 == 0 ? fmt::format("{} h", minutes / 60)
                           : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

double ParseDuration(const std::string& text) {
  double total = 0;
  size_t position = 0;
  if (text.empty()) return -1;
  while (position < text.size()) {
    size_t begin = position;
    while (position < text.size() &&
           ((text[position] >= '0' && text[position] <= '9') || text[position] == '.')) {
      ++position;
    }
    if (begin == position || position - begin > 9) return -1;
    double number = 0;
    size_t used = 0;
    std::string digits = text.substr(begin, position - begin);
    if (digits == "." || digits.find('.') != digits.rfind('.')) return -1;
    number = std::stod(digits, &used);
    if (used != digits.size()) return -1;
    if (position == text.size()) return begin == 0 ? number : -1;  // a bare number is seconds
    char unit = text[position++];
    if (unit == 'h') {
      total += number * 3600;
    } else if (unit == 'm') {
      total += number * 60;
    } else if (unit == 's') {
      total += number;
    } else {
      return -1;
    }
  }
  return total;
}

}  // namespace kernelopt
