// JsonNode: a value of a tokenizer.json together with its path in the file, for error messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::tokenizer::split {

class JsonNode {
 public:
  // Keeps a reference to the value.
  JsonNode(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return value_; }
  const std::string& path() const { return path_; }
  bool is_null() const;

  // Returns the member of an object, or a null if it is absent or this is not an object.
  JsonNode At(std::string_view key) const;
  // Returns the elements of an array. kDataLoss: this is not an array.
  Result<std::vector<JsonNode>> Elements() const;

  // Return the value. kDataLoss: it has another type.
  Result<std::string> String() const;
  Result<int64_t> Integer() const;
  Result<bool> Bool() const;
  // The same for a member; `fallback` is returned if it is absent or null.
  Result<std::string> String(std::string_view key, std::string_view fallback) const;
  Result<bool> Bool(std::string_view key, bool fallback) const;

  // Errors kDataLoss and kUnsupported that name this value.
  Error Bad(std::string_view what) const;
  Error Unsupported(std::string_view what) const;

 private:
  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace kvgate::tokenizer::split
