#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::transcript {

bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kJsonDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::optional<Json> ParseJson(std::string_view json) {
  if (IsTooDeep(json)) return std::nullopt;
  Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  return parsed;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json& MemberOf(const Json& json, const char* name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string StringAt(const Json& json, const char* name) {
  const Json& member = MemberOf(json, name);
  return member.is_string() ? member.get<std::string>() : "";
}

int64_t IntegerAt(const Json& json, const char* name) {
  const Json& member = MemberOf(json, name);
  return member.is_number_integer() ? member.get<int64_t>() : 0;
}

}  // namespace kvgate::session::transcript
