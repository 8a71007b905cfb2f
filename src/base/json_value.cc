#include "base/json_value.h"

#include <nlohmann/json.hpp>

namespace kernelopt {

JsonValue::JsonValue(Json value) : value_(std::make_shared<const Json>(std::move(value))) {}

const Json& JsonValue::operator*() const {
  static const Json kNull;
  return value_ ? *value_ : kNull;
}

}  // namespace kernelopt
