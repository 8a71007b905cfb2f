// Reading the report's data and spelling numbers: whatever is missing or of
// another type is simply absent. Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kernelopt {

/// The member, or a null value that lives forever.
const Json& Field(const Json& object, std::string_view key);

std::string Str(const Json& object, std::string_view key);  ///< "" when absent
std::optional<double> Num(const Json& object, std::string_view key);
bool Flag(const Json& object, std::string_view key);

/// "1.23 us", "45.6 us", "1.20 ms"; "-" when absent.
std::string Microseconds(std::optional<double> us);
/// "3.1 s", "42 s", "2 min 05 s".
std::string Seconds(double seconds);
/// "1.18x"; "-" when absent.
std::string Times(std::optional<double> ratio);
/// "improved" for improved, "not measured" for not_measured.
std::string Words(std::string_view code);
/// A configuration: text as it is, an object as "XBLOCK=64 warps=4".
std::string ConfigText(const Json& config);

/// At most `columns` characters of one line, shortened in the middle.
std::string Shorten(std::string_view text, size_t columns);
/// At most `columns` characters of one line, cut at its end.
std::string Cut(std::string_view text, size_t columns);

}  // namespace kernelopt
