// Time as an interface, so that the pipeline runs in unit tests without sleep.
#pragma once

#include <cstdint>
#include <string>

namespace kernelopt {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since an arbitrary point; never goes back.
  virtual double Seconds() const = 0;
  /// Seconds since 1970, for records.
  virtual double UnixSeconds() const = 0;
};

class SystemClock : public Clock {
 public:
  double Seconds() const override;
  double UnixSeconds() const override;
};

/// "0.4 s", "12 s", "3 min 5 s", "1 h 12 min".
std::string FormatDuration(double seconds);

/// "10m", "90s", "1h30m", "600" (seconds) -> seconds; negative when it can't be read.
double ParseDuration(const std::string& text);

}  // namespace kernelopt
