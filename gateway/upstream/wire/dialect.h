// The API dialects that are forwarded, and the endpoints that need different treatment.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate::upstream::wire {

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

}  // namespace kvgate::upstream::wire
