#include "gateway/dialect/gemini/cached_content.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/translate/raw_json.h"

namespace kvgate::dialect::gemini {

using form::JsonWriter;
using translate::RawJson;
using translate::RawObject;

namespace {

constexpr std::string_view kCollection = "cachedContents/";
constexpr size_t kNameBytesMax = 200;
constexpr int64_t kTokensMax = 1'000'000'000;

std::string Seconds(int64_t seconds) { return fmt::format("{}s", seconds); }

bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool IsName(std::string_view name) {
  if (!name.starts_with(kCollection) || name.size() > kNameBytesMax) return false;
  const std::string_view id = name.substr(kCollection.size());
  return !id.empty() && std::all_of(id.begin(), id.end(), IsIdCharacter);
}

}  // namespace

std::string MakeCachedContent(const CachedParts& parts, std::string_view model,
                              int64_t ttl_seconds) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("model").String(fmt::format("models/{}", model));
  if (!parts.system_instruction.empty()) {
    json.Key("systemInstruction").Raw(parts.system_instruction);
  }
  if (!parts.tools.empty()) json.Key("tools").Raw(parts.tools);
  if (!parts.tool_config.empty()) json.Key("toolConfig").Raw(parts.tool_config);
  json.Key("ttl").String(Seconds(ttl_seconds)).Key("displayName").String("kvgate").EndObject();
  return body;
}

std::string ProlongedPath(std::string_view name) {
  return fmt::format("/v1beta/{}?updateMask=ttl", name);
}

std::string ProlongedBody(int64_t ttl_seconds) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("ttl").String(Seconds(ttl_seconds)).EndObject();
  return body;
}

Result<CachedContent> ReadCachedContent(std::string_view body) {
  KVGATE_TRY(const RawJson parsed, RawJson::Parse(body));
  const RawObject answer(parsed);
  CachedContent found{.name = answer.String("name")};
  if (!IsName(found.name)) {
    return MakeError(ErrorCode::kUnavailable, "gemini", "The answer names no cache.");
  }
  const RawObject usage(answer["usageMetadata"]);
  const int64_t num_tokens = usage["totalTokenCount"].Integer().value_or(0);
  if (num_tokens > 0 && num_tokens <= kTokensMax) found.num_tokens = num_tokens;
  return found;
}

}  // namespace kvgate::dialect::gemini
