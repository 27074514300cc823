#include "engine/text/tokenizer/split/json_node.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvgate::tokenizer::split {
namespace {

const nlohmann::json kNull;

}  // namespace

bool JsonNode::is_null() const { return value_.is_null(); }

JsonNode JsonNode::At(std::string_view key) const {
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  if (value_.is_object()) {
    const auto found = value_.find(key);
    if (found != value_.end()) return {*found, path};
  }
  return {kNull, path};
}

Result<std::vector<JsonNode>> JsonNode::Elements() const {
  if (!value_.is_array()) return Bad("is no array");
  std::vector<JsonNode> elements;
  for (size_t i = 0; i < value_.size(); ++i) {
    elements.emplace_back(value_[i], fmt::format("{}[{}]", path_, i));
  }
  return elements;
}

Result<std::string> JsonNode::String() const {
  if (!value_.is_string()) return Bad("is no string");
  return value_.get<std::string>();
}

Result<int64_t> JsonNode::Integer() const {
  if (!value_.is_number_integer()) return Bad("is no integer");
  return value_.get<int64_t>();
}

Result<bool> JsonNode::Bool() const {
  if (!value_.is_boolean()) return Bad("is neither true nor false");
  return value_.get<bool>();
}

Result<std::string> JsonNode::String(std::string_view key, std::string_view fallback) const {
  const JsonNode member = At(key);
  if (member.is_null()) return std::string(fallback);
  return member.String();
}

Result<bool> JsonNode::Bool(std::string_view key, bool fallback) const {
  const JsonNode member = At(key);
  if (member.is_null()) return fallback;
  return member.Bool();
}

Error JsonNode::Bad(std::string_view what) const {
  return MakeError(ErrorCode::kDataLoss, "tokenizer",
                   fmt::format("tokenizer.json: {} {}", path_, what));
}

Error JsonNode::Unsupported(std::string_view what) const {
  return MakeError(ErrorCode::kUnsupported, "tokenizer",
                   fmt::format("tokenizer.json: {} {}", path_, what));
}

}  // namespace kvgate::tokenizer::split
