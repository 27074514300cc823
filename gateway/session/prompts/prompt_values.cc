#include "gateway/session/prompts/prompt_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/prompts/prompt_name.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::prompts {
namespace {

using dialect::form::JsonWriter;

constexpr size_t kVariableBytesMax = 64;
constexpr size_t kBracesMax = 2 * kVariableBytesMax;  // from the first braces to the last ones

Error Wrong(std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, "session.prompts",
                   fmt::format("Invalid value for '{}': {}", kValuesHeader, why),
                   std::string(kValuesHeader));
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool IsVariable(std::string_view name) {
  return !name.empty() && name.size() <= kVariableBytesMax && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetter(c) || (c >= '0' && c <= '9'); });
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

bool IsPlainValue(const transcript::Json& value) {
  return value.is_string() || value.is_number() || value.is_boolean();
}

}  // namespace

std::vector<std::string> VariablesOf(std::string_view text) {
  std::vector<std::string> variables;
  size_t at = 0;
  while ((at = text.find("{{", at)) != std::string_view::npos) {
    const std::string_view behind = text.substr(at + 2, kBracesMax);
    const size_t size = behind.find("}}");
    const std::string_view name = Trimmed(behind.substr(0, size));
    if (size == std::string_view::npos || !IsVariable(name)) {
      ++at;  // "{{{name}}" has one, too
      continue;
    }
    if (std::find(variables.begin(), variables.end(), name) == variables.end()) {
      variables.emplace_back(name);
    }
    at += size + 4;
  }
  return variables;
}

Result<Values> ReadValues(std::string_view json) {
  Values values;
  if (json.empty()) return values;
  const std::optional<transcript::Json> read = transcript::ParseJson(json);
  if (!read || !read->is_object()) {
    return Wrong(R"(it is a JSON object of names and values, as {"customer": "Ada"}.)");
  }
  for (const auto& [name, value] : read->items()) {
    if (!IsVariable(name)) {
      return Wrong(fmt::format("'{}' is no name of a variable.", name.substr(0, 64)));
    }
    if (!IsPlainValue(value)) {
      return Wrong(fmt::format("the value of '{}' is a string, a number or a boolean.", name));
    }
    values[name] = transcript::Dump(value);
  }
  return values;
}

Result<std::string> ArrangeValues(const std::vector<std::string>& variables, const Values& values) {
  for (const auto& [name, value] : values) {
    if (std::find(variables.begin(), variables.end(), name) == variables.end()) {
      return Wrong(fmt::format("the prompt has no variable '{}'.", name));
    }
  }
  std::string arranged;
  if (variables.empty()) return arranged;
  JsonWriter json(arranged);
  json.BeginObject();
  for (const std::string& name : variables) {
    const auto value = values.find(name);
    if (value == values.end()) {
      return Wrong(fmt::format("there is no value for the prompt's variable '{}'.", name));
    }
    json.Key(name).Raw(value->second);
  }
  json.EndObject();
  return arranged;
}

std::string ValuesBlock(std::string_view arranged) {
  const std::optional<transcript::Json> values =
      arranged.empty() ? std::nullopt : transcript::ParseJson(arranged);
  if (!values) return "";
  std::string block = "The names in double braces above stand for:";
  for (const auto& [name, value] : values->items()) {
    block += fmt::format("\n{}: {}", name, transcript::Dump(value));
  }
  return block;
}

}  // namespace kvgate::session::prompts
