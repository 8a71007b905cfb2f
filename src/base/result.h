// Result<T>: the value of an expected failure.
//
//   Result<int> Parse(std::string_view text);
//   ...
//   int n = KOPT_TRY(Parse(text));          // returns the error to the caller
//   if (auto r = Parse(text); !r) Show(r.error());
//
// Errors are one sentence: where, what was found, what was wanted, what to do.
// They never cross a folder as exceptions; a failed assert is our own bug.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace kernelopt {

/// Why a call failed, as the user meets it. The numbers of the exit codes are
/// part of the command line's interface (docs/protocol.md).
enum class ErrorKind {
  kInternal = 1,     ///< our own fault
  kUsage = 2,        ///< wrong arguments, or an input that can't be read
  kEnvironment = 3,  ///< torch, GPU, disk, permissions
  kModel = 4,        ///< the user's model itself fails
  kInterrupted = 5,  ///< the user asked to stop
  kMismatch = 7,     ///< a pack for another GPU or for other versions; 6 is no error, see cli
  kOutdated = 8,     ///< a pack that no longer does what was proven
};

/// "usage", "environment", ...: the `kind` of an error in JSON.
std::string_view KindName(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string code;     ///< reason code in snake_case, stable, for machines
  std::string message;  ///< one sentence, no final period
  std::string where;    ///< "file", "file:line:column" or empty

  /// "where: message", or the message alone when there is no place.
  std::string ToString() const;
};

template <typename T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

inline std::unexpected<Error> Fail(ErrorKind kind, std::string_view code, std::string message,
                                   std::string where = {}) {
  return std::unexpected(Error{kind, std::string(code), std::move(message), std::move(where)});
}

}  // namespace kernelopt

/// Evaluates `expr` (a Result); gives its value, or returns its error from the
/// enclosing function.
#define KOPT_TRY(expr)                                                          \
  ({                                                                            \
    auto kopt_result_ = (expr);                                                 \
    if (!kopt_result_) return std::unexpected(std::move(kopt_result_).error()); \
    std::move(*kopt_result_);                                                   \
  })

/// The same for Status.
#define KOPT_CHECK_OK(expr)                                    \
  do {                                                         \
    if (auto kopt_status_ = (expr); !kopt_status_)             \
      return std::unexpected(std::move(kopt_status_).error()); \
  } while (false)
