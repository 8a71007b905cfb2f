#include "base/fail_point.h"

#ifdef KERNELOPT_FAIL_POINTS

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace kernelopt {
namespace {

struct FailPoints {
  std::mutex mutex;
  std::map<std::string, int> passages;
  std::string wanted;
  int last = 0;  ///< the passage of `wanted` that ends the process; 0 = none

  FailPoints() {
    const char* text = std::getenv("KERNELOPT_FAILPOINT");
    if (text == nullptr) return;
    const std::string_view value = text;
    const size_t colon = value.find(':');
    const char* end = text + value.size();
    if (colon != std::string_view::npos) {
      wanted = value.substr(0, colon);
      if (std::from_chars(text + colon + 1, end, last).ptr != end) last = 0;
    }
    if (wanted.empty() || last < 1) {
      std::fprintf(stderr, "$KERNELOPT_FAILPOINT is '%s', wanted NAME:N with N from 1\n", text);
      _exit(2);
    }
  }
};

FailPoints& Points() {
  static FailPoints points;
  return points;
}

}  // namespace

void FailPoint(std::string_view name) {
  FailPoints& points = Points();
  const std::lock_guard lock(points.mutex);
  const int passage = ++points.passages[std::string(name)];
  if (passage == points.last && name == points.wanted) kill(getpid(), SIGKILL);
}

void SetFailPoint(const std::string& name, int passage) {
  FailPoints& points = Points();
  const std::lock_guard lock(points.mutex);
  points.passages.clear();
  points.wanted = name;
  points.last = passage;
}

std::map<std::string, int> FailPointPassages() {
  FailPoints& points = Points();
  const std::lock_guard lock(points.mutex);
  return points.passages;
}

}  // namespace kernelopt

#endif
