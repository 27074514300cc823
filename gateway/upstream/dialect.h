// The dialects that are forwarded, and the endpoints that someone has to tell apart.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate::upstream {

enum class Dialect : uint8_t { kOpenAi, kAnthropic };
inline constexpr std::string_view DialectName(Dialect dialect) {
  return dialect == Dialect::kAnthropic ? "anthropic" : "openai";
}

enum class Endpoint : uint8_t {
  kChatCompletions,
  kCompletions,
  kResponses,
  kEmbeddings,
  kMessages,
  kCountTokens,
  kModels,
  kOther,
};

}  // namespace kvgate::upstream
