// Reading many fields of one JSON object: the first error is kept, so that a
// conversion is one line a field.
//
//   FieldReader in(json, "launch record");
//   in.Read("threads", &record.threads);
//   KOPT_CHECK_OK(in.Done());
//
// Only .cc files of src/device include it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/json.h"

namespace kernelopt {

/// A JSON number can't be infinite or NaN: those travel as text.
inline Json NumberToJson(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

class FieldReader {
 public:
  /// `object` must outlive the reader.
  FieldReader(const Json& object, std::string_view what) : object_(object), what_(what) {}

  void Read(std::string_view key, std::string* out) { Take(GetString(object_, key, what_), out); }
  void Read(std::string_view key, int64_t* out) { Take(GetInt(object_, key, what_), out); }
  void Read(std::string_view key, bool* out) { Take(GetBool(object_, key, what_), out); }
  void Read(std::string_view key, int* out) {
    int64_t wide = 0;
    Read(key, &wide);
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
      Refuse(key, "is out of range");
    } else {
      *out = static_cast<int>(wide);
    }
  }
  void Read(std::string_view key, uint64_t* out) {
    const Json* value = Member(key);
    if (value == nullptr) return;
    if (!IsUnsigned(*value)) return Refuse(key, "is no unsigned integer");
    *out = value->get<uint64_t>();
  }
  void Read(std::string_view key, double* out) {
    const Json* value = Member(key);
    if (value != nullptr && !Number(*value, out)) Refuse(key, "is no number");
  }
  template <typename T, size_t N>
  void Read(std::string_view key, std::array<T, N>* out) {
    std::vector<T> list;
    Read(key, &list);
    if (!error_.has_value()) return;
    if (list.size() != N) return Refuse(key, "has another length than it should");
    std::copy(list.begin(), list.end(), out->begin());
  }
  void Read(std::string_view key, std::vector<double>* out) {
    ForEach(key, [&](const Json& item) -> Status {
      double value = 0;
      if (!Number(item, &value)) return BadItem(key);
      out->push_back(value);
      return {};
    });
  }
  void Read(std::string_view key, std::vector<uint64_t>* out) {
    ForEach(key, [&](const Json& item) { return Append(key, item, out); });
  }
  void Read(std::string_view key, std::vector<std::vector<uint64_t>>* out) {
    ForEach(key, [&](const Json& list) -> Status {
      if (!list.is_array()) return BadItem(key);
      std::vector<uint64_t>& items = out->emplace_back();
      for (const Json& item : list) KOPT_CHECK_OK(Append(key, item, &items));
      return {};
    });
  }
  template <typename T>
    requires std::is_integral_v<T>
  void Read(std::string_view key, std::vector<T>* out) {
    ForEach(key, [&](const Json& item) -> Status {
      if (!item.is_number_integer()) return BadItem(key);
      const int64_t value = item.get<int64_t>();
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
        return BadItem(key);
      }
      out->push_back(static_cast<T>(value));
      return {};
    });
  }
  void Read(std::string_view key, std::vector<std::string>* out) {
    ForEach(key, [&](const Json& item) -> Status {
      if (!item.is_string()) return BadItem(key);
      out->push_back(item.get<std::string>());
      return {};
    });
  }
  /// A nested object or list item through its own conversion.
  template <typename T>
  void Read(std::string_view key, T* out, Result<T> (*convert)(const Json&)) {
    const Json* value = Member(key);
    if (value != nullptr) Take(convert(*value), out);
  }
  template <typename T>
  void Read(std::string_view key, std::vector<T>* out, Result<T> (*convert)(const Json&)) {
    ForEach(key, [&](const Json& item) -> Status {
      out->push_back(KOPT_TRY(convert(item)));
      return {};
    });
  }
  /// A text out of a closed set.
  template <typename T>
  void ReadName(std::string_view key, T* out, Result<T> (*convert)(std::string_view)) {
    std::string name;
    Read(key, &name);
    if (error_.has_value()) Take(convert(name), out);
  }

  /// The first error, if any.
  Status Done() const { return error_; }

 private:
  static bool IsUnsigned(const Json& value) {
    return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  }
  Status Append(std::string_view key, const Json& item, std::vector<uint64_t>* out) {
    if (!IsUnsigned(item)) return BadItem(key);
    out->push_back(item.get<uint64_t>());
    return {};
  }
  template <typename T>
  void Take(Result<T> value, T* out) {
    if (!error_.has_value()) return;
    if (value) {
      *out = std::move(*value);
    } else {
      error_ = std::unexpected(std::move(value).error());
    }
  }
  const Json* Member(std::string_view key) {
    if (!error_.has_value()) return nullptr;
    if (object_.is_object()) {
      auto it = object_.find(std::string(key));
      if (it != object_.end()) return &*it;
    }
    Refuse(key, "is missing");
    return nullptr;
  }
  template <typename F>
  void ForEach(std::string_view key, F visit) {
    if (!error_.has_value()) return;
    auto list = GetArray(object_, key, what_);
    if (!list) {
      error_ = std::unexpected(std::move(list).error());
      return;
    }
    for (const Json& item : **list) {
      error_ = visit(item);
      if (!error_.has_value()) return;
    }
  }
  static bool Number(const Json& value, double* out) {
    if (value.is_number()) {
      *out = value.get<double>();
    } else if (value == "inf" || value == "-inf") {
      *out = value == "inf" ? std::numeric_limits<double>::infinity()
                            : -std::numeric_limits<double>::infinity();
    } else if (value == "nan") {
      *out = std::numeric_limits<double>::quiet_NaN();
    } else {
      return false;
    }
    return true;
  }
  void Refuse(std::string_view key, std::string_view problem) {
    if (!error_.has_value()) return;
    error_ = Fail(ErrorKind::kUsage, "bad_field",
                  std::string(what_) + ": the field '" + std::string(key) + "' " +
                      std::string(problem) + "; it may come from another version");
  }
  Status BadItem(std::string_view key) {
    return Fail(ErrorKind::kUsage, "bad_field",
                std::string(what_) + ": the list '" + std::string(key) +
                    "' has an item of another type; it may come from another version");
  }

  const Json& object_;
  std::string_view what_;
  Status error_;
};

}  // namespace kernelopt
