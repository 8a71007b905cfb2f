// An immutable JSON value that a header can hold without <nlohmann/json.hpp>.
//
//   JsonValue hints = ...;
//   hints->contains("x");  // include <nlohmann/json.hpp> in the .cc
//
// Copies share the value, which is null for a default-constructed one.
#pragma once

#include <memory>

#include "base/json.h"

namespace kernelopt {

class JsonValue {
 public:
  JsonValue() = default;
  JsonValue(Json value);  // NOLINT(google-explicit-constructor): it is one

  const Json& operator*() const;
  const Json* operator->() const { return &**this; }
  operator const Json&() const { return **this; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const Json> value_;
};

}  // namespace kernelopt
