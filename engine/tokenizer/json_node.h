// JsonNode: a value of a tokenizer.json with its path in the file, so that errors name it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::tokenizer {

class JsonNode {
 public:
  // Keeps a reference to the value.
  JsonNode(const nlohmann::json& value, std::string path) : value_(value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return value_; }
  const std::string& path() const { return path_; }
  bool is_null() const;

  // The member of an object; a null where it is absent or this is no object.
  JsonNode At(std::string_view key) const;
  // The elements of an array. kDataLoss: it is none.
  Result<std::vector<JsonNode>> Elements() const;

  // The value itself. kDataLoss: it is of another kind.
  Result<std::string> String() const;
  Result<int64_t> Integer() const;
  Result<bool> Bool() const;
  // The same of a member, with what holds where it is absent or null.
  Result<std::string> String(std::string_view key, std::string_view fallback) const;
  Result<bool> Bool(std::string_view key, bool fallback) const;

  // kDataLoss and kUnsupported, naming this value.
  Error Bad(std::string_view what) const;
  Error Unsupported(std::string_view what) const;

 private:
  const nlohmann::json& value_;
  std::string path_;
};

}  // namespace kvgate::tokenizer
